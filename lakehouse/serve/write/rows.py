"""What a request writes is read by the parser of documents: it becomes the same rows, by the same rules about one entity."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lakehouse.dialects.detection import DRAFT
from lakehouse.dialects.protocols import FindMessage, tell_protocols
from lakehouse.dialects.tables import NORMAL
from lakehouse.ingest.parse.document import read_document, wrong_collection
from lakehouse.ingest.parse.readings import Whole
from lakehouse.ingest.parse.rows import Row as Parsed
from lakehouse.rules.one.engine import PRESENCE
from lakehouse.serve.answer.entities import make_group, make_registry
from lakehouse.serve.problems import ProblemFound, raise_problems
from lakehouse.serve.requests import MEMBERS
from lakehouse.serve.write.asked import Json
from lakehouse.serve.write.trees import Tree
from lakehouse.serve.write.working import Row, Working
from lakehouse.text.jsontext import read_canonical
from lakehouse.text.names import RegistryId, Xid
from lakehouse.text.problems import Finding
from lakehouse.text.xid import holder_of, last_id, xid_of_version

_SYNTAX_OF_IDS = frozenset(("MSG-002", "MSG-020", "MSG-037", "MSG-038", "END-033"))
_DEPENDENT = "MSG-115"
_SERVER = ("self", "xid", "epoch", "createdat", "modifiedat")


def parse(
    working: Working, registryid: RegistryId, dialect: str, trees: Iterable[Tree], groups: dict[Xid, Json], registry: Json | None
) -> dict[Xid, Parsed]:
    """Bring what a request writes into normal form.

    Args:
        working: the catalog.
        registryid: the registry.
        dialect: of the request.
        trees: the Resources that it writes.
        groups: attributes of the groups that it writes, by XID.
        registry: attributes of the registry, where it writes those.

    Returns:
        Rows of the groups, Resources and Versions by XID, and of the registry; those of groups that are only around, too.

    Raises:
        ProblemFound: something breaks a rule about one entity.
    """
    document = _document(working, registryid, dialect, trees, groups, registry)
    wrong = wrong_collection(document)
    if wrong is not None:
        raise ProblemFound("bad_request", "/", error_detail=wrong.message)
    reading = read_document(document, [], dialect, whole=Whole(_finder(working, registryid, document)))
    errors = [finding for finding in reading.findings if finding.severity == "error"]
    causes = [one for one in errors if one.rule_id != _DEPENDENT]  # and not what cannot be loaded without them
    raise_problems(map(refused, causes or errors))
    return {row.xid: row for row in reading.rows}


def refused(finding: Finding) -> ProblemFound:
    """Tell a client what is wrong, where, and how to mend it."""
    name = finding.pointer.rsplit("/", 1)[-1].replace("~1", "/").replace("~0", "~") or "/"
    hint = f"{finding.rule_id}: {finding.hint}"
    message = finding.message.rstrip(".")
    xid = finding.xid or "/"
    if finding.rule_id in _SYNTAX_OF_IDS and "is not an id" in message:
        return ProblemFound("malformed_id", xid, hint, id=last_id(xid)[:128], error_detail=message)
    if finding.rule_id in PRESENCE and "missing" in message:
        return ProblemFound("required_attribute_missing", xid, f"{message}. {hint}", list=_quoted(message) or name)
    return ProblemFound("invalid_attribute", xid, f"{hint} (at {finding.pointer or '/'})", name=name, error_detail=message)


def _quoted(message: str) -> str:
    """Give the names that a message has in backquotes."""
    return ", ".join(message.split("`")[1::2])


def _document(
    working: Working, registryid: RegistryId, dialect: str, trees: Iterable[Tree], groups: dict[Xid, Json], registry: Json | None
) -> Json:
    document: Json = dict(registry or {})
    document["specversion"] = NORMAL if dialect == DRAFT else dialect
    for xid, attributes in groups.items():
        collection, groupid = xid[1:].split("/")
        document.setdefault(collection, {})[groupid] = dict(attributes)
    for tree in trees:
        holder = holder_of(tree.xid)
        collection, groupid, members, resourceid = tree.xid[1:].split("/")
        held = document.setdefault(collection, {})
        if groupid not in held:
            held[groupid] = group_attributes(working, registryid, holder, dialect)
        held[groupid].setdefault(members, {})[resourceid] = tree.as_json()
    return document


def group_attributes(working: Working, registryid: RegistryId, xid: Xid, dialect: str) -> Json:
    """Give the attributes of a group that a client may set, as they are; of one that is not there none."""
    row = working.row(registryid, xid)
    if row is None:
        return {}
    shown = make_group(xid, row.as_stored(registryid), NORMAL if dialect == DRAFT else dialect).attributes
    collection = xid[1:].split("/", 1)[0]
    return {name: value for name, value in shown.items() if name not in (*_SERVER, f"{collection[:-1]}id", MEMBERS[collection])}


def registry_attributes(working: Working, registryid: RegistryId, xid: Xid, dialect: str) -> Json:
    """Give the attributes of a registry that a client may set, as they are."""
    row = working.row(registryid, xid)
    if row is None:
        return {}
    shown = make_registry(registryid, row.as_stored(registryid), (0, 0), dialect)
    return {name: value for name, value in shown.items() if name not in (*_SERVER, "registryid", "specversion")}


def _finder(working: Working, registryid: RegistryId, document: Json) -> FindMessage:
    """Find the messages of the catalog that tell a protocol, those of the request before the stored ones."""
    own = tell_protocols(document)

    def find(xid: Xid) -> dict[str, Any] | None:
        if xid in own:
            return own[xid]
        row = working.row(registryid, xid)
        if row is None:
            return None
        told = read_canonical(row.body)
        if isinstance(told.get("xref"), str):
            return {"xref": told["xref"]}
        default = working.row(registryid, xid_of_version(xid, told.get("defaultversionid")))
        return {} if default is None else _telling(working, registryid, xid, default)

    return find


def _telling(working: Working, registryid: RegistryId, xid: Xid, default: Row) -> dict[str, Any]:
    body = read_canonical(default.body)
    told = {name: body[name] for name in ("protocol", "basemessage") if isinstance(body.get(name), str)}
    if "protocol" not in told and "basemessage" not in told:
        group = working.row(registryid, holder_of(xid))
        protocol = None if group is None else read_canonical(group.body).get("protocol")
        if protocol:
            told["protocol"] = protocol
    return told
