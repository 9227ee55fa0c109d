"""The past of one entity: who changed it, when, from which document, what; any two of its states, and two entities, compared."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from itertools import combinations
from operator import itemgetter
from typing import Any, NamedTuple

from lakehouse.domain.bases import FlatAttributes
from lakehouse.domain.diff import Difference, differences
from lakehouse.errors import SnapshotNotFound
from lakehouse.log.snapshotfacts import Snapshot
from lakehouse.query.audit import history
from lakehouse.readmodel.queries import attributes_of_default, attributes_of_version, comparable_attributes, declared_attributes
from lakehouse.readmodel.snapshotview import Entity
from lakehouse.site.addresses import TO, WITH, id_of_path_part, path_beside, path_of, path_of_comparison, path_part_of
from lakehouse.site.fields.listing import Field
from lakehouse.site.pagecontext import Page, PageContext
from lakehouse.site.schematext import Readable
from lakehouse.site.templating import cut, shown
from lakehouse.text.names import JsonText, RegistryId, Xid
from lakehouse.text.xid import last_id

_MOST_LINES, _MOST_LINE = 6, 240
_MOST_STATES = 4
_MOST_ROWS = 2000
_MOST_HISTORY = 60
MOST_ON_PAGE = 12  # changes that the page of an entity shows itself
_MOST_COMPARED = 300


class EntityChange(NamedTuple):
    """A change of an entity, of a Version of it, or of a base of it.

    Attributes:
        snapshot_id: the commit.
        commit: its facts.
        kind, xid, op: what changed, and how.
        base: XID of the base that changed; None: the entity itself did.
        lines: what changed, in words.
        more: how many lines are left out.
        document_uris: the documents that hold it afterwards.
        breaking: what it breaks, in words; empty: nothing, as far as the rules of compatibility find.
    """

    snapshot_id: int
    commit: dict[str, Any]
    kind: str
    xid: Xid
    op: str
    base: str | None
    lines: list[str]
    more: int
    document_uris: list[str]
    breaking: list[str]


class Deletion(NamedTuple):
    """How an entity went: the commit, the documents that held it before, and the last snapshot that has it."""

    snapshot_id: int
    commit: dict[str, Any]
    document_uris: list[str]

    @property
    def last(self) -> int:
        """Return the last snapshot that has the entity."""
        return self.snapshot_id - 1


class State(NamedTuple):
    """A state that can be compared: a snapshot, or a Version; token: as it is written in a path."""

    token: str
    title: str


def history_of(page_context: PageContext, registryid: RegistryId, xid: Xid, bases: Iterable[Xid] = ()) -> list[EntityChange]:
    """List the changes of an entity, of its Versions, and of those that it inherits from; the newest first."""
    # Asked for by the page, and by the list of its comparisons.
    results = page_context.remember(("own history", registryid, xid), partial(_changes_of, page_context, registryid, xid, None))
    first = results[0].snapshot_id if results else 0
    for base in bases:  # many messages share one: its changes are listed once
        if base != xid:
            every = page_context.remember(
                ("history", registryid, base), partial(_changes_of, page_context, registryid, base, base), 50
            )
            results = results + [change for change in every if change.snapshot_id > first]
    # A Version that came with its message is listed with it.
    came = {
        change.snapshot_id
        for change in results
        if change.op == "insert" and change.kind in ("message", "schema") and change.base is None
    }
    details = [
        change
        for change in results
        if not (change.op == "insert" and change.kind.endswith("version") and change.snapshot_id in came)
    ]
    return sorted(details, key=lambda change: -change.snapshot_id)


def _changes_of(page_context: PageContext, registryid: RegistryId, xid: Xid, base: Xid | None) -> list[EntityChange]:
    rows = page_context.view.history_rows(xid, registryid)
    rows = sorted(rows, key=lambda row: (row["snapshot_id"], row["registryid"], row["xid"]))[-_MOST_ROWS:]
    commits = {row["snapshot_id"]: page_context.commit_of(row["snapshot_id"]) for row in rows}
    bodies: dict[Xid, JsonText | None] = {}
    results = []
    for row, change in zip(rows, history(rows, commits), strict=True):
        before, bodies[row["xid"]] = bodies.get(row["xid"]), row["body"] if row["op"] != "delete" else None
        lines = [cut(line, _MOST_LINE) for line in change.described()] if row["op"] != "insert" else []
        breaking = _breaking(registryid, row, before, bodies[row["xid"]])
        results.append(
            EntityChange(
                change.snapshot_id, commits[change.snapshot_id], row["kind"], row["xid"], row["op"], base, lines[:_MOST_LINES],
                max(0, len(lines) - _MOST_LINES), change.document_uris, breaking,
            )
        )  # fmt: skip
    return results


def _breaking(registryid: RegistryId, row: dict[str, Any], before: JsonText | None, after: JsonText | None) -> list[str]:
    if before is None or after is None:
        return []
    results = declared_differences(registryid, row["kind"], row["xid"], before, after)
    return list(
        dict.fromkeys(f"{difference.pointer}: {difference.meaning}" for difference in results if difference.class_ == "breaking")
    )[:3]


def declared_differences(
    registryid: RegistryId, kind: str, xid: Xid, before: JsonText | None, after: JsonText | None
) -> list[Difference]:
    """Compare two bodies of an entity as what they declare; what is inherited or inferred does not count."""
    name = "message" if kind in ("version", "message") else kind
    sides = [{} if body is None else {(registryid, name, xid): declared_attributes(kind, body)} for body in (before, after)]
    return differences(sides[0], sides[1])


def states_of(changes: list[EntityChange], versions: list[Entity]) -> list[State]:
    """List the states of an entity that can be compared: the last snapshots that changed it, and its Versions; newest first.

    Snapshots that do not have the entity are no states of it: that which deleted it, and those in which a base changed meanwhile.
    """
    seen = dict.fromkeys(
        change.snapshot_id for change in changes if change.kind in ("version", "message", "schemaversion", "schema")
    )
    changed = {
        change.snapshot_id: change.op for change in changes if change.base is None and change.kind in ("message", "schema")
    }
    results = [State(str(number), f"Snapshot {number}") for number in seen if _had(changed, number)]
    if len(versions) > 1:
        ids = [last_id(version.xid) for version in versions]
        results += [State(f"v{path_part_of(versionid)}", f"Version {versionid}") for versionid in ids[-_MOST_STATES:]]
    return results


def _had(changed: dict[int, str], number: int) -> bool:
    """Return whether a snapshot has an entity; changed: what each snapshot did to it, as far back as is known."""
    until = [snapshot_id for snapshot_id in changed if snapshot_id <= number]
    if until:
        return changed[max(until)] != "delete"
    return not changed or changed[min(changed)] != "insert"


def pairs_of(states: list[State]) -> list[tuple[State, State]]:
    """List the pairs of states that have a comparison: earlier and later, of the last Versions and the newest snapshots.

    The last one is what is compared where nothing else is wanted.
    """
    results: list[tuple[State, State]] = []
    for is_version in (True, False):
        some = [state for state in states if state.token.startswith("v") == is_version]
        some = some[-_MOST_STATES:] if is_version else some[:_MOST_STATES][::-1]
        results += list(combinations(some, 2))
    return results


def deletion_of(page_context: PageContext, registryid: RegistryId, xid: Xid) -> Deletion | None:
    """Return how an entity was deleted; None: there never was one, or it is in the catalog."""
    rows = sorted(
        (row for row in page_context.view.history_rows(xid, registryid) if row["xid"] == xid), key=itemgetter("snapshot_id")
    )
    if len(rows) < 2 or rows[-1]["op"] != "delete":
        return None
    number = rows[-1]["snapshot_id"]
    return Deletion(number, page_context.commit_of(number), rows[-2]["document_uris"])


def coming_of(page_context: PageContext, registryid: RegistryId, xid: Xid) -> Snapshot | None:
    """Return the snapshot with which an entity comes that is not in this one yet; None: it never does."""
    view = page_context.view
    if view.snapshot_id == view.head:
        return None
    rows = view.at(view.head).history_rows(xid, registryid)
    later = [row["snapshot_id"] for row in rows if row["xid"] == xid and row["snapshot_id"] > view.snapshot_id]
    return page_context.overview.snapshot(min(later)) if later else None


def history_page(page_context: PageContext, entity: Entity) -> Page:
    """Make the page of the history of a message or schema: its last `_MOST_HISTORY` changes."""
    results = history_of(page_context, entity.registryid, entity.xid, bases_of(page_context, entity))
    path = path_of(entity.registryid, entity.xid, "history")
    return page_context.page(
        "history.html", path, entity=entity, changes=results[:_MOST_HISTORY], more=max(0, len(results) - _MOST_HISTORY)
    )


def bases_of(page_context: PageContext, entity: Entity) -> list[Xid]:
    """List the messages that a message inherits from."""
    if entity.kind != "message":
        return []
    definition = page_context.definition(entity.registryid, entity.xid)
    return (
        []
        if definition is None
        else [base for base in definition["depends_on"] or [] if base != entity.xid and base.startswith("/")]
    )


def comparison_page(
    page_context: PageContext,
    entity: Entity,
    read: Callable[[PageContext, Entity], Readable | None],
    wanted: tuple[str, str] = ("", ""),
    problem: str = "",
) -> Page:
    """Make the page that compares two states of a message or schema.

    Args:
        page_context: of the snapshot.
        entity: the message or schema.
        read: reads the schema of a Version.
        wanted: two states, each a snapshot by number, label, date or time, or `v` and a Version; empty: the last two.
        problem: why nothing is compared, in a sentence; empty: these two are.

    Raises:
        SnapshotNotFound: one of them is no state of it.
    """
    versions = page_context.view.versions(entity.registryid, entity.xid)
    states = states_of(history_of(page_context, entity.registryid, entity.xid, bases_of(page_context, entity)), versions)
    pairs = pairs_of(states)
    sides, pair = None, None if problem else _pair(page_context, entity, wanted, pairs)
    path = path_of(entity.registryid, entity.xid)
    key = (entity.registryid, "message" if entity.kind == "message" else "schemaversion", entity.xid)
    results: list[Difference] = []
    if pair is not None:
        sides = _sides(page_context, entity, pair[0].token, pair[1].token)
        results = differences(*({} if side is None else {key: side} for side in (sides.before, sides.after)))
    return page_context.page(
        "comparison.html",
        path_of_comparison(path, pair[0].token, pair[1].token) if pair else f"{path.removesuffix('.html')}~compare.html",
        entity=entity,
        pair=pair,
        problem=problem,
        shown=results[:300],
        more=max(0, len(results) - 300),
        is_effective=sides is not None and sides.is_effective,
        fields=[] if pair is None else _fields_of_versions(page_context, entity, pair, read),
        states=list(dict.fromkeys([*states, *(pair or ())])),
        pairs=pairs,
        page_path=path,
    )


def _fields_of_versions(
    page_context: PageContext, entity: Entity, pair: tuple[State, State], read: Callable[[PageContext, Entity], Readable | None]
) -> list[Beside]:
    """Put the fields of two Versions side by side; none where one state is a snapshot."""
    versions = [_version_named(page_context, entity, state.token) for state in pair]
    first, second = (None if version is None else read(page_context, version) for version in versions)
    return _fields(first, second) if all(versions) else []


def _pair(
    page_context: PageContext, entity: Entity, wanted: tuple[str, str], pairs: list[tuple[State, State]]
) -> tuple[State, State] | None:
    """Return the states that are wanted, of `pairs` the last where none is; None: there is only one state.

    Raises:
        SnapshotNotFound: one of them is no state of the entity.
    """
    if not pairs and not all(wanted):
        return None
    before, after = (_state(page_context, entity, text) if text else pairs[-1][at] for at, text in enumerate(wanted))
    return before, after


def _state(page_context: PageContext, entity: Entity, text: str) -> State:
    version = _version_named(page_context, entity, text)
    if version is not None:
        return State(text, f"Version {last_id(version.xid)}")
    number = page_context.resolve(text)
    if page_context.view.at(number).entity(entity.registryid, entity.xid) is None:
        raise SnapshotNotFound(text, f"{last_id(entity.xid)} was not in the catalog then")
    return State(str(number), f"Snapshot {number}")


def _version_named(page_context: PageContext, entity: Entity, token: str) -> Entity | None:
    """Return the Version of an entity that a token names; None: it names none."""
    versions = {last_id(version.xid): version for version in page_context.view.versions(entity.registryid, entity.xid)}
    versionid = id_of_path_part(token[1:], versions) if token.startswith("v") else None
    return None if versionid is None else versions.get(versionid)


class _Sides(NamedTuple):
    """Two states: their flat attributes, and whether these are in effect."""

    before: FlatAttributes | None
    after: FlatAttributes | None
    is_effective: bool


def _sides(page_context: PageContext, entity: Entity, before: str, after: str) -> _Sides:
    """Return both states: in effect where both are of snapshots that have the message, else as declared."""
    tokens = (before, after)
    if entity.kind == "message" and all(token.isdigit() for token in tokens):
        results = [_effective_at(page_context, entity, int(token)) for token in tokens]
        if all(state is not None for state in results):
            return _Sides(results[0], results[1], is_effective=True)
    (earlier, _), (other, _) = (_declared_at(page_context, entity, token) for token in tokens)
    return _Sides(earlier, other, is_effective=False)


def _effective_at(page_context: PageContext, entity: Entity, snapshot_id: int) -> FlatAttributes | None:
    try:
        with page_context.model.at(snapshot_id) as view:
            return view.bodies.flat_attributes_of((entity.registryid, entity.kind, entity.xid))
    except SnapshotNotFound:
        return None


def _declared_at(page_context: PageContext, entity: Entity, token: str) -> tuple[FlatAttributes | None, Xid | None]:
    """Return a state as it is declared, and the XID of the Version that declares it."""
    registryid, xid = entity.registryid, entity.xid
    if token.startswith("v"):
        version = _version_named(page_context, entity, token)
        return attributes_of_version(version) if version is not None else (None, None)
    try:
        with page_context.model.at(int(token)) as view:
            return attributes_of_default(view, registryid, xid)
    except SnapshotNotFound:
        return None, None


def tokens_of(text: str) -> tuple[str, str] | None:
    """Read the tokens of a comparison in a path; two empty ones: none are named; None: it is no comparison."""
    if not text:
        return "", ""
    before, result, after = text.partition(TO)
    return (before, after) if result and before and after else None


def ready_comparisons(path: str, changes: list[EntityChange], versions: list[Entity]) -> list[str]:
    """List the paths of the comparisons of a message or schema that files have; path: of its page."""
    return [path_of_comparison(path, earlier.token, other.token) for earlier, other in pairs_of(states_of(changes, versions))]


class Beside(NamedTuple):
    """A row: name, both texts (empty: that side has it not), whether they differ, and how deep a field is."""

    name: str
    first: str
    other: str
    differs: bool
    depth: int = 0


def other_of(page_context: PageContext, entity: Entity, of: str) -> Entity | None:
    """Find the second side by the end of a path, which names its registry where that is another one."""
    overview, names = page_context.overview, of.split(TO)
    registryid: str | None = entity.registryid
    if names[0].startswith("reg-"):
        registryid = id_of_path_part(names.pop(0).removeprefix("reg-"), overview.registries)
    if registryid is None or len(names) != 3:
        return None
    group = id_of_path_part(names[1], (last_id(xid) for registry, xid in overview.groups if registry == registryid))
    group_xid = Xid(f"/{names[0]}/{group}")
    members = overview.members.get((RegistryId(registryid), group_xid), ())
    entityid = id_of_path_part(names[2], (last_id(xid) for xid in members))
    return _of_kind(page_context, entity, (RegistryId(registryid), Xid(f"{group_xid}/{entity.xid.split('/')[3]}/{entityid}")))


def named_other(page_context: PageContext, entity: Entity, text: str) -> Entity | None:
    """Find the second side by its XID or id: the first by XID of the same registry, else of another one."""
    overview, wanted = page_context.overview, text.strip()
    if wanted.startswith("/"):
        keys = [(registryid, Xid(wanted)) for registryid in overview.registries]
    else:
        keys = [(registryid, xid) for (registryid, _), xids in overview.members.items() for xid in xids if last_id(xid) == wanted]
    keys.sort(key=lambda key: (key[0] != entity.registryid, *key))
    of_kind = (_of_kind(page_context, entity, key) for key in keys if key != (entity.registryid, entity.xid))
    return next((other for other in of_kind if other is not None), None)


def _of_kind(page_context: PageContext, entity: Entity, key: tuple[RegistryId, Xid]) -> Entity | None:
    other = page_context.entity(*key) if key[1].count("/") == 4 else None
    return other if other is not None and other.kind == entity.kind else None


def beside_page(
    page_context: PageContext, entity: Entity, other: Entity, schemas: tuple[Readable | None, Readable | None]
) -> Page:
    """Make the page that shows two messages or two schemas side by side.

    Args:
        page_context: of the snapshot.
        entity: the first, whose page it belongs to.
        other: the second, of the same kind.
        schemas: of their payloads, or themselves; None: it is not in the catalog.
    """
    sides = [comparable_attributes(page_context.view, each) for each in (entity, other)]
    key = (entity.registryid, "message" if entity.kind == "message" else "schemaversion", entity.xid)
    judged = differences({key: sides[0]}, {key: sides[1]})
    pointers = sorted(sides[0].keys() | sides[1].keys())
    same = [Beside(name, shown(sides[0][name]), "", False) for name in pointers if sides[0].get(name) == sides[1].get(name)]
    return page_context.page(
        "sidebyside.html",
        path_beside(entity.registryid, entity.xid, other.xid, other.registryid),
        entity=entity,
        other=other,
        judged=judged[:_MOST_COMPARED],
        more=max(0, len(judged) - _MOST_COMPARED),
        same=same[:_MOST_COMPARED],
        fields=_fields(*schemas),
    )


def choice_page(page_context: PageContext, entity: Entity, wanted: str) -> Page:
    """Make the page that asks what to compare with; wanted: what a form named, of which there is no entity of that kind."""
    path = path_of(entity.registryid, entity.xid, WITH)
    return page_context.page("sidebyside.html", path, entity=entity, other=None, wanted=wanted)


def _fields(first: Readable | None, other: Readable | None) -> list[Beside]:
    """Put the fields of two schemas side by side, by their paths."""
    sides = [_by_path(side.fields if side is not None else []) for side in (first, other)]
    rows = []
    for path in dict.fromkeys([*sides[0], *sides[1]]):
        texts = ["" if field is None else _text(field) for field in (sides[0].get(path), sides[1].get(path))]
        rows.append(Beside(".".join(path), texts[0], texts[1], texts[0] != texts[1], len(path) - 1))
    return rows[:_MOST_COMPARED]


def _by_path(fields: list[Field]) -> dict[tuple[str, ...], Field]:
    results: dict[tuple[str, ...], Field] = {}
    within: list[str] = []
    for field in fields:
        within = [*within[: field.depth], field.name]
        results.setdefault(tuple(within), field)
    return results


def _text(field: Field) -> str:
    required = {True: "required", False: "optional", None: ""}[field.required]
    return ", ".join(part for part in (field.type, required, field.limits) if part)
