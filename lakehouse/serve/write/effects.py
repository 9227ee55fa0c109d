"""A request that writes is judged and becomes rows: epochs are counted, parents' epochs grow, rules between entities are checked.

The parser of documents reads it: the same rows, by the same rules about one entity. The rules between entities are those of
`domain.relations`, of which an error refuses the request; an ingest finds neighbours by joins, here they are looked up around the
rows, and a test compares both. Warnings refuse nothing: `lakehouse validate` reports them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from lakehouse.dialects.detection import DRAFT
from lakehouse.dialects.messagefamilies import FindMessage, protocol_members
from lakehouse.dialects.tables import NORMAL
from lakehouse.domain.neighbours import EntityState, RuleLimits, violations_of
from lakehouse.domain.versions import with_isdefault
from lakehouse.ingest.parse.document import read_document, wrong_collection
from lakehouse.ingest.parse.readings import NormalRow as Parsed
from lakehouse.ingest.parse.readings import Whole
from lakehouse.rules.declared import RULES
from lakehouse.rules.entity.engine import PRESENCE
from lakehouse.serve.answer.entityviews import make_group, make_registry
from lakehouse.serve.apierrors import ProblemFound, raise_problems
from lakehouse.serve.targets import MEMBERS
from lakehouse.serve.write.overlay import CatalogOverlay, OverlayChange, OverlayRow, check_owner
from lakehouse.serve.write.resourcestate import Life, ResourceState
from lakehouse.serve.write.writerequest import Json, WriteRequest
from lakehouse.settings import Settings
from lakehouse.store.keys import OVER_HTTP
from lakehouse.text.jsontext import hash_of, read_canonical
from lakehouse.text.names import REGISTRY, RegistryId, Xid
from lakehouse.text.problems import Finding
from lakehouse.text.xid import last_id, parent_xid, xid_of_resource, xid_of_version

_SYNTAX_OF_IDS = frozenset(("MSG-002", "MSG-020", "MSG-037", "MSG-038", "END-033"))
_DEPENDENT = "MSG-115"
_PROMISE, _FORMAT = "COMP-001", "COMP-003"
_SERVER = ("self", "xid", "epoch", "createdat", "modifiedat")
_OWNER = (OVER_HTTP,)


class WriteViolation(NamedTuple):
    """A rule that an entity breaks: the attribute that breaks it ("": all of the entity), and what is wrong."""

    xid: Xid
    rule_id: str
    attribute: str
    message: str


def check_between(overlay: CatalogOverlay, registryid: RegistryId, changes: Iterable[OverlayChange], settings: Settings) -> None:
    """Check what was written by the rules between entities.

    Args:
        overlay: the catalog with what was written.
        registryid: of what was written.
        changes: what was written.
        settings: `check_relations`, `max_chain_depth` and `duplicate_messageids`, as for an ingest.

    Raises:
        ProblemFound: some are broken.
    """
    raise_problems(
        _violation(broken.rule_id, broken.xid, broken.message, f"{broken.rule_id}: {RULES[broken.rule_id].hint}")
        or ProblemFound(
            "invalid_attribute",
            broken.xid,
            f"{broken.rule_id}: {RULES[broken.rule_id].hint}",
            name=broken.attribute or broken.xid.rsplit("/", 1)[-1],
            error_detail=broken.message,
        )
        for broken in find_broken(overlay, registryid, changes, settings)
    )


def find_broken(
    overlay: CatalogOverlay, registryid: RegistryId, changes: Iterable[OverlayChange], settings: Settings
) -> Iterator[WriteViolation]:
    """Find what rows that were written break; arguments as for `check_between`."""
    if not settings.check_relations:
        return
    written = {
        change.after.xid: (change.after, change.before)
        for change in changes
        if change.after is not None and (change.before is None or change.before.content_hash != change.after.content_hash)
    }
    neighbours = _OverlayNeighbours(overlay, registryid, {xid: before is None for xid, (_, before) in written.items()})
    limits = RuleLimits(settings.max_chain_depth, settings.duplicate_messageids, with_warnings=False)
    for row, before in written.values():
        was = None if before is None else _state_of(before)
        for rule_id, pointer, message, severity in violations_of(_state_of(row), was, neighbours, limits):
            if (severity or RULES[rule_id].severity) == "error":
                yield WriteViolation(row.xid, rule_id, pointer[1:].replace("/", "."), message)


class _OverlayNeighbours:
    """What a request leaves of a registry, as the rules look at it.

    Args:
        overlay: the catalog with what was written.
        registryid: the registry.
        written: what is new or was changed, and whether it is new.
    """

    def __init__(self, overlay: CatalogOverlay, registryid: RegistryId, written: Mapping[Xid, bool]) -> None:
        self._overlay = overlay
        self._written = written
        self._registryid = registryid
        self._states: dict[Xid, EntityState | None] = {}

    def entity(self, xid: Xid) -> EntityState | None:
        if xid not in self._states:
            row = self._overlay.row(self._registryid, xid)
            self._states[xid] = None if row is None else _state_of(row, is_written=xid in self._written)
        return self._states[xid]

    def children(self, xid: Xid) -> Iterator[EntityState]:
        rows = self._overlay.children(self._registryid, xid)
        return (_state_of(row, is_written=row.xid in self._written) for row in rows)

    def siblings(self, version: EntityState) -> Iterator[EntityState]:
        return (state for state in self.children(xid_of_resource(version.xid)) if state.kind == "version")

    def alike(self, xid: Xid) -> Xid | None:
        return self._overlay.child_like(self._registryid, xid) if self._written.get(xid) else None


def _state_of(row: OverlayRow, *, is_written: bool = True) -> EntityState:
    return EntityState(row.kind, row.xid, read_canonical(row.body), is_written=is_written)


def parse(
    overlay: CatalogOverlay,
    registryid: RegistryId,
    dialect: str,
    resource_states: Iterable[ResourceState],
    groups: dict[Xid, Json],
    registry: Json | None,
) -> dict[Xid, Parsed]:
    """Convert what a request writes to normal form.

    Args:
        overlay: the catalog.
        registryid: the registry.
        dialect: of the request.
        resource_states: the Resources that it writes.
        groups: attributes of the groups that it writes, by XID.
        registry: attributes of the registry, where it writes those.

    Returns:
        Rows of the groups, Resources and Versions by XID, and of the registry; those of groups that are only around, too.

    Raises:
        ProblemFound: something breaks a rule about one entity.
    """
    document = _document(overlay, registryid, dialect, resource_states, groups, registry)
    wrong = wrong_collection(document)
    if wrong is not None:
        raise ProblemFound("bad_request", "/", error_detail=wrong.message)
    reading = read_document(document, [], dialect, whole=Whole(_finder(overlay, registryid, document)))
    errors = [finding for finding in reading.findings if finding.severity == "error" or finding.rule_id == _FORMAT]
    causes = [finding for finding in errors if finding.rule_id != _DEPENDENT]  # and not what cannot be loaded without them
    raise_problems(map(problem_of_finding, causes or errors))
    return {row.xid: row for row in reading.rows}


def problem_of_finding(finding: Finding) -> ProblemFound:
    """Return the error for a client: what is wrong, where, and how to fix it."""
    name = finding.pointer.rsplit("/", 1)[-1].replace("~1", "/").replace("~0", "~") or "/"
    hint = f"{finding.rule_id}: {finding.hint}"
    message = finding.message.rstrip(".")
    xid = finding.xid or "/"
    violation = _violation(finding.rule_id, Xid(xid), finding.message, hint)
    if violation is not None:
        return violation
    if finding.rule_id in _SYNTAX_OF_IDS and "is not an id" in message:
        return ProblemFound("malformed_id", xid, hint, id=last_id(xid)[:128], error_detail=message)
    if finding.rule_id in PRESENCE and "missing" in message:
        return ProblemFound("required_attribute_missing", xid, f"{message}. {hint}", list=_quoted(message) or name)
    return ProblemFound("invalid_attribute", xid, f"{hint} (at {finding.pointer or '/'})", name=name, error_detail=message)


def _violation(rule_id: str, xid: Xid, message: str, hint: str) -> ProblemFound | None:
    """Return the error that the specification has for a broken promise or format; None: it is about something else."""
    detail = f"{message.rstrip('.')}. {hint}"
    if rule_id == _PROMISE:  # `compatibility` is full, and ...
        compat = message.partition(" is ")[2].partition(",")[0]
        return ProblemFound("compatibility_violation", xid_of_resource(xid), detail, compat=compat)
    if rule_id == _FORMAT:
        return ProblemFound("format_violation", xid, detail, format=message.split("`")[3])
    return None


def _quoted(message: str) -> str:
    """Return the names that a message has in backquotes."""
    return ", ".join(message.split("`")[1::2])


def _document(
    overlay: CatalogOverlay,
    registryid: RegistryId,
    dialect: str,
    resource_states: Iterable[ResourceState],
    groups: dict[Xid, Json],
    registry: Json | None,
) -> Json:
    document: Json = dict(registry or {})
    document["specversion"] = NORMAL if dialect == DRAFT else dialect
    for xid, attributes in groups.items():
        collection, groupid = xid[1:].split("/")
        document.setdefault(collection, {})[groupid] = dict(attributes)
    for resource_state in resource_states:
        parent = parent_xid(resource_state.xid)
        collection, groupid, members, resourceid = resource_state.xid[1:].split("/")
        groups_of_type = document.setdefault(collection, {})
        if groupid not in groups_of_type:
            groups_of_type[groupid] = group_attributes(overlay, registryid, parent, dialect)
        groups_of_type[groupid].setdefault(members, {})[resourceid] = resource_state.as_json()
    return document


def group_attributes(overlay: CatalogOverlay, registryid: RegistryId, xid: Xid, dialect: str) -> Json:
    """Return the attributes of a group that a client may set, as they are; of one that is not there none."""
    row = overlay.row(registryid, xid)
    if row is None:
        return {}
    shown = make_group(xid, row.as_stored(registryid), NORMAL if dialect == DRAFT else dialect).attributes
    collection = xid[1:].split("/", 1)[0]
    return {name: value for name, value in shown.items() if name not in (*_SERVER, f"{collection[:-1]}id", MEMBERS[collection])}


def registry_attributes(overlay: CatalogOverlay, registryid: RegistryId, xid: Xid, dialect: str) -> Json:
    """Return the attributes of a registry that a client may set, as they are."""
    row = overlay.row(registryid, xid)
    if row is None:
        return {}
    shown = make_registry(registryid, row.as_stored(registryid), (0, 0), dialect)
    return {name: value for name, value in shown.items() if name not in (*_SERVER, "registryid", "specversion")}


def _finder(overlay: CatalogOverlay, registryid: RegistryId, document: Json) -> FindMessage:
    """Find the messages of the catalog that name a protocol, those of the request before the stored ones."""
    own = protocol_members(document)

    def find(xid: Xid) -> dict[str, Any] | None:
        if xid in own:
            return own[xid]
        row = overlay.row(registryid, xid)
        if row is None:
            return None
        attributes = read_canonical(row.body)
        if isinstance(attributes.get("xref"), str):
            return {"xref": attributes["xref"]}
        default = overlay.row(registryid, xid_of_version(xid, attributes.get("defaultversionid")))
        return {} if default is None else _discriminators(overlay, registryid, xid, default)

    return find


def _discriminators(overlay: CatalogOverlay, registryid: RegistryId, xid: Xid, default: OverlayRow) -> dict[str, Any]:
    body = read_canonical(default.body)
    attributes = {name: body[name] for name in ("protocol", "basemessage") if isinstance(body.get(name), str)}
    if "protocol" not in attributes and "basemessage" not in attributes:
        group = overlay.row(registryid, parent_xid(xid))
        protocol = None if group is None else read_canonical(group.body).get("protocol")
        if protocol:
            attributes["protocol"] = protocol
    return attributes


@dataclass
class Effects:
    """What a request writes and deletes.

    Attributes:
        registry: attributes of the registry, where they are written.
        groups: attributes of groups, by XID: those that are written, and those that are made for what they hold.
        resource_states: Resources that it writes, by XID.
        deleted: groups and Resources that it deletes, with all that they hold.
        life: dates of groups and the registry, by XID.
    """

    registry: Json | None = None
    groups: dict[Xid, Json] = field(default_factory=dict)
    resource_states: dict[Xid, ResourceState] = field(default_factory=dict)
    deleted: list[Xid] = field(default_factory=list)
    life: dict[Xid, Life] = field(default_factory=dict)


def write_effects(overlay: CatalogOverlay, write_request: WriteRequest, effects: Effects, settings: Settings) -> None:
    """Write what a request does.

    Args:
        overlay: the catalog; written to.
        write_request: the request.
        effects: what it does.
        settings: which rules between entities hold.

    Raises:
        ProblemFound: something breaks a rule; the caller takes back what was written.
    """
    writer = _EffectsWriter(overlay, write_request, effects)
    writer.run()
    check_between(overlay, write_request.registryid, overlay.since(writer.mark), settings)


class _EffectsWriter:
    def __init__(self, overlay: CatalogOverlay, write_request: WriteRequest, effects: Effects) -> None:
        self.overlay = overlay
        self.write_request = write_request
        self.effects = effects
        self.registryid = write_request.registryid
        self.mark = overlay.mark()
        self.grown: set[Xid] = set()  # holders of which members came or went

    def run(self) -> None:
        deleted = [*self.effects.deleted]
        resource_states = []
        for xid, resource_state in self.effects.resource_states.items():
            if xid in self.effects.deleted:
                continue
            if not resource_state.versions and resource_state.xref is None:
                if resource_state.is_new:
                    raise ProblemFound("missing_versions", xid)
                deleted.append(xid)  # the last Version takes the Resource along
            else:
                resource_state.resolve_ancestors()
                resource_state.resolve_default()
                resource_states.append(resource_state)
        for xid in deleted:
            self._delete(xid)
        parsed = self._parsed(resource_states)
        for xid in self.effects.groups:
            self._put_group(xid, parsed[xid])
        for resource_state in resource_states:
            self._put_tree(resource_state, parsed)
        self._put_registry(parsed.get(REGISTRY))
        for xid in sorted(self.grown):
            self._count_epochs(xid)

    def _parsed(self, resource_states: list[ResourceState]) -> dict[Xid, Parsed]:
        begins = self.overlay.row(self.registryid, REGISTRY) is None and self.write_request.method != "DELETE"
        if not resource_states and not self.effects.groups and self.effects.registry is None and not begins:
            return {}
        return parse(
            self.overlay, self.registryid, self.write_request.dialect, resource_states, self.effects.groups, self.effects.registry
        )  # fmt: skip

    # Deletions

    def _delete(self, xid: Xid) -> None:
        for child in self.overlay.children(self.registryid, xid):
            if child.kind in ("message", "schema"):
                for version in self.overlay.children(self.registryid, child.xid):
                    check_owner(version.xid, version)
                    self.overlay.delete(self.registryid, version.xid)
            check_owner(child.xid, child)
            self.overlay.delete(self.registryid, child.xid)
        if self.overlay.row(self.registryid, xid) is not None:
            self.overlay.delete(self.registryid, xid)
            self.grown.add(parent_xid(xid))

    # Groups and the registry

    def _put_group(self, xid: Xid, parsed: Parsed) -> None:
        row = self.overlay.row(self.registryid, xid)
        self.overlay.put(self.registryid, self._row(parsed, row, self.effects.life.get(xid)))
        if row is None:
            self.grown.add(REGISTRY)

    def _put_registry(self, parsed: Parsed | None) -> None:
        row = self.overlay.row(self.registryid, REGISTRY)
        if parsed is not None and (row is None or self.effects.registry is not None):
            self.overlay.put(self.registryid, self._row(parsed, row, self.effects.life.get(REGISTRY)))
            self.grown.discard(REGISTRY)

    def _count_epochs(self, xid: Xid) -> None:
        """Count the epoch of what holds something that came or went, whoever owns it."""
        if xid in self.effects.groups:
            return  # it was written, and counted
        row = self.overlay.row(self.registryid, xid)
        if row is not None:
            self.overlay.put(self.registryid, row._replace(epoch=row.epoch + 1, modifiedat=self.overlay.now))

    # Resources

    def _put_tree(self, resource_state: ResourceState, parsed: dict[Xid, Parsed]) -> None:
        for versionid in resource_state.removed:
            if versionid in resource_state.rows:
                self.overlay.delete(self.registryid, xid_of_version(resource_state.xid, versionid))
        for versionid in resource_state.versions:
            xid = xid_of_version(resource_state.xid, versionid)
            before = resource_state.rows.get(versionid)
            if versionid in resource_state.touched:
                self.overlay.put(self.registryid, self._row(parsed[xid], before, resource_state.life.get(versionid)))
            elif before is not None:
                changed = _with_isdefault(before, versionid == resource_state.default.versionid)
                if changed is not before:
                    self.overlay.put(self.registryid, changed)
        came_or_went = set(resource_state.versions) != set(resource_state.rows)
        row, own = resource_state.row, parsed[resource_state.xid]
        if row is None or resource_state.is_meta_touched or came_or_went or own.content_hash != row.content_hash:
            made = self._row(own, row, resource_state.life.get(""))
            if row is not None and resource_state.xref is None:
                made = made._replace(epoch=max(made.epoch, self.overlay.epoch_of_target(self.registryid, row) + 1))
            self.overlay.put(self.registryid, made)
        if row is None:
            self.grown.add(parent_xid(resource_state.xid))

    def _row(self, parsed: Parsed, before: OverlayRow | None, life: Life | None) -> OverlayRow:
        life = life or Life()
        now = self.overlay.now
        epoch = self.overlay.epoch_after(self.registryid, parsed.xid) if before is None else before.epoch + 1
        createdat = life.createdat if life.createdat is not None else now if before is None else before.createdat
        modifiedat = now if life.modifiedat is None else life.modifiedat
        return OverlayRow(
            parsed.kind,
            parsed.xid,
            parsed.content_hash,
            epoch,
            createdat,
            modifiedat,
            _OWNER,
            parsed.body,
            parsed.raw,
            parsed.attributes,
        )


def _with_isdefault(row: OverlayRow, isdefault: bool) -> OverlayRow:
    """Write into a Version whether it is the default one: that is no part of its definition, so epoch and dates stay."""
    body = with_isdefault(row.body, isdefault)
    if body == row.body:
        return row
    raw = row.body if row.raw is None else row.raw
    return row._replace(body=body, raw=raw, content_hash=hash_of(body))
