"""Groups and the registry itself are written, with what they hold in a body."""

from __future__ import annotations

from lakehouse.serve.problems import ProblemFound
from lakehouse.serve.requests import MEMBERS, SINGULAR
from lakehouse.serve.write.asked import Json, object_of
from lakehouse.serve.write.context import Context
from lakehouse.serve.write.resources import put_resource
from lakehouse.serve.write.rows import group_attributes, registry_attributes
from lakehouse.serve.write.trees import check_given_epoch, check_id, life_of
from lakehouse.text.names import REGISTRY, Xid

_OF_COLLECTION = ("url", "count")
_CONFIGURATION = ("capabilities", "model", "modelsource")
_OF_SERVER = frozenset(("self", "shortself", "xid", "epoch", "createdat", "modifiedat", "specversion", "registryid"))


def put_registry(context: Context, given: Json) -> bool:
    """Write the registry's attributes, and groups in a body; True when it has had none before.

    Raises:
        ProblemFound: it cannot be done.
    """
    row = context.row(REGISTRY)
    check_id(given, "registryid", "registry", REGISTRY, context.registryid)
    if context.checks_epoch and row is not None:
        check_given_epoch(given, REGISTRY, row.epoch)
    for name in ("capabilities", "modelsource"):
        if name in given and name not in context.ignored:
            raise ProblemFound(
                "bad_request", "/", error_detail=f"`{name}` cannot be changed here; leave it out, or add ?ignore={name}"
            )
    context.leaves_out(REGISTRY)
    own = {name: value for name, value in given.items() if name not in (*MEMBERS, *_CONFIGURATION)}
    context.effects.registry = _merged(context, own, REGISTRY)
    context.effects.life[REGISTRY] = life_of(given, REGISTRY, row)
    put_types(context, {name: value for name, value in given.items() if name in MEMBERS}, "")
    return row is None


def put_group(context: Context, xid: Xid, given: Json) -> bool:
    """Write a group and what it holds in a body; True when it is new.

    Raises:
        ProblemFound: it cannot be done.
    """
    collection, groupid = xid[1:].split("/")
    row = context.row(xid)
    check_id(given, f"{SINGULAR[collection]}id", SINGULAR[collection], xid, groupid)
    members = given.get(MEMBERS[collection])
    if not context.leaves_out(xid):
        if context.checks_epoch and row is not None:
            check_given_epoch(given, xid, row.epoch)
        own = {name: value for name, value in given.items() if name != MEMBERS[collection]}
        context.effects.groups[xid] = _merged(context, own, xid)
        context.effects.life[xid] = life_of(given, xid, row)
    if members is not None:
        put_types(context, {MEMBERS[collection]: members}, xid)
    return row is None


def put_types(context: Context, collections: Json, above: str) -> list[Xid]:
    """Write members of several collections below an entity; their XIDs.

    Raises:
        ProblemFound: it cannot be done.
    """
    xids: list[Xid] = []
    for name, members in collections.items():
        xids += put_members(context, object_of(members, f"{above}/{name}"), f"{above}/{name}")
    return xids


def put_members(context: Context, given: Json, path: str) -> list[Xid]:
    """Write members of a collection of groups or Resources; their XIDs.

    Raises:
        ProblemFound: it cannot be done.
    """
    xids: list[Xid] = []
    for name, member in given.items():
        xid = Xid(f"{path}/{name}")
        body = object_of(member, xid)
        if "/" in name or not name:
            raise ProblemFound("malformed_id", xid, id=name[:128], error_detail="an id is not empty, and has no `/`")
        if path.count("/") == 1:
            put_group(context, xid, body)
            is_left_out = xid not in context.effects.groups
        else:
            tree = context.tree_unless_left_out(xid)
            is_left_out = tree is None
            if tree is not None:
                put_resource(context, tree, body)
        if not is_left_out:
            xids.append(xid)
    return xids


def only(given: Json, names: tuple[str, ...], problem: str, path: str) -> Json:
    """Return the collections of a body that names nothing else; their URLs and counts are ignored (core, Registry Collections).

    Raises:
        ProblemFound: it names something else.
    """
    counted = {f"{name}{end}" for name in names for end in _OF_COLLECTION}
    other = next((name for name in given if name not in names and name not in counted), None)
    if other is not None:
        raise ProblemFound(problem, path, name=other[:128])
    return {name: value for name, value in given.items() if name in names}


def _merged(context: Context, given: Json, xid: Xid) -> Json:
    """Give the attributes of a group or the registry: as given, or laid over what is there."""
    context.check_names(given, xid)
    names = set(_OF_SERVER)
    if xid == "/":
        names |= {f"{name}{end}" for name in MEMBERS for end in _OF_COLLECTION}
    else:
        collection = xid[1:].split("/", 1)[0]
        names |= {f"{SINGULAR[collection]}id", *(f"{MEMBERS[collection]}{end}" for end in _OF_COLLECTION)}
    before = {}
    if context.patch:
        of = registry_attributes if xid == "/" else group_attributes
        before = of(context.working, context.registryid, xid, context.writing.dialect)
    merged = before | {name: value for name, value in given.items() if name not in names}
    return {name: value for name, value in merged.items() if value is not None}
