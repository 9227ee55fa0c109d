"""A small ingest in the driver: what documents say, the catalog as it would be, what is left when something is refused."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property, partial
from typing import Any, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse.dialects.tables import has_rule
from lakehouse.domain.bases import text_at
from lakehouse.domain.documents import ClaimKey, Facts, Key, Uri, as_json
from lakehouse.domain.flatattributes import flat_attributes_of
from lakehouse.domain.neighbours import EntityState, RuleLimits, violations_of
from lakehouse.domain.ownership import Claim, Verdict
from lakehouse.domain.relations import UNIQUE_TYPE
from lakehouse.readmodel.lookups import VERSION_KINDS, Lookups, facts_of
from lakehouse.rules.declared import RULES
from lakehouse.rules.findings import FindingSubject, finding_of, missing_parent
from lakehouse.store.keys import LIFE, VERSION_KIND
from lakehouse.store.schema import TABLE_OF_KIND
from lakehouse.text.jsontext import read_canonical
from lakehouse.text.names import WHOLE, JsonText, RegistryId, Xid
from lakehouse.text.problems import STRICT, violation_id
from lakehouse.text.xid import holder_of, xid_of_group, xid_of_resource

_RESOURCE_KIND = {version: resource for resource, version in VERSION_KIND.items()}
_ERRORS_SHOWN = 20  # of a document that is refused whole

Finding = dict[str, Any]  # columns `rules.findings.FINDING_COLUMNS`


class StageRow(NamedTuple):
    """A row of the stage, columns `schema.STAGE`; dates in microseconds."""

    row: str
    document_uri: str
    again: bool | None
    draft: bool | None
    registryid: RegistryId
    kind: str
    xid: Xid
    content_hash: str | None
    epoch: int | None
    createdat: int | None
    modifiedat: int | None
    body: JsonText | None
    raw: JsonText | None
    attributes: dict[str, str] | None
    facts: JsonText
    finding: Any
    isdefault: bool | None
    twin_hash: str | None
    defaultversionid: str | None

    @property
    def key(self) -> Key:
        """Return the key of the entity."""
        return Key(self.registryid, self.kind, self.xid)

    @property
    def said(self) -> ClaimKey:
        """Return the entity as its document has it."""
        return ClaimKey(self.document_uri, self.key)


def collect_stage(stage: DataFrame) -> list[StageRow]:
    """Collect a stage; columns `schema.STAGE`."""
    columns = [F.unix_micros(name).alias(name) if name in ("createdat", "modifiedat") else name for name in StageRow._fields]
    return [StageRow._make(row) for row in stage.select(*columns).collect()]


class CollectedStage:
    """Rows of the stage by what they say.

    Attributes:
        rows: all of them.
        claims: by entity and document.
        texts: of entities, as documents say them.
        documents: what came of the documents.
        findings: of the parser.
    """

    def __init__(self, rows: list[StageRow]) -> None:
        self.rows = rows
        self.claims: defaultdict[Key, dict[str, Claim]] = defaultdict(dict)
        self.texts: dict[ClaimKey, Text] = {}
        self.documents: dict[Uri, Facts] = {}
        self.findings: list[Finding] = []
        for row in rows:
            if row.row == "entity":
                self.claims[row.key][row.document_uri] = _claim(row)
                self.texts[row.said] = Text(row.body or JsonText(""), row.raw, row.attributes, row.content_hash or "")
            elif row.row == "document":
                self.documents[Uri(row.registryid, row.xid)] = facts_of(read_canonical(row.facts))
            else:
                self.findings.append(_finding_of_row(row))

    def without_contradictions(self) -> tuple[CollectedStage, list[Finding]]:
        """Take out what a document gives a row and an error for: no row with an error that refuses it goes further.

        A group in both spellings of its collection is read as two, of which one is refused: the document contradicts itself, so
        neither is loaded.

        Returns:
            The stage without these, and findings other than those that it has.
        """
        refused = [one for one in self.findings if one["finding"]["action"] == "quarantined" and one["xid"] is not None]
        both = [one for one in refused if said_of(one) in self.texts]
        if not both:
            return self, []
        known = {said_of(one) for one in both}
        stage, results = self.without(both)
        return stage, [one for one in results if said_of(one) not in known]

    def without(self, results: list[Finding]) -> tuple[CollectedStage, list[Finding]]:
        """Take what was refused out of the stage, and what cannot live without it: each with its own finding.

        Returns:
            The stage without it, and the findings about what was taken out, with its text. The others may be different once that
            is out.
        """
        refused = {said_of(one) for one in results if one["finding"]["action"] == "quarantined"}
        causes: dict[ClaimKey, Xid] = {}
        for row in self.rows:  # a message or schema shows nothing without its default Version: the one that its document names
            if row.row == "entity" and row.kind in VERSION_KINDS and row.isdefault and row.said in refused:
                causes[ClaimKey(row.document_uri, resource_of(row.key))] = row.xid
        seeds = {(said.document_uri, said.key.registryid, said.key.xid) for said in (*refused, *causes)}
        hanging = dict(causes)
        for said in self.texts:
            parts = said.key.xid.split("/")
            above = [Xid("/".join(parts[:end])) for end in range(3, len(parts) - 1, 2)]
            for xid in above:
                if (said.document_uri, said.key.registryid, xid) in seeds:
                    hanging[said] = min(xid, hanging.get(said, xid))
        new = [
            finding_of(
                FindingSubject(said.document_uri, *said.key, True, None, said.key.xid, said.key.xid), missing_parent(cause)
            )
            for said, cause in hanging.items()
            if said not in refused and said in self.texts
        ]
        every = [self._with_text(one) for one in (*results, *new)]
        out = {said_of(one) for one in every if one["finding"]["action"] == "quarantined"}
        rows = [row for row in self.rows if row.row != "entity" or row.said not in out]
        return CollectedStage(rows), [one for one in every if said_of(one) in out]

    def without_documents(
        self, results: list[Finding], registry_of: Callable[[Uri], RegistryId]
    ) -> tuple[CollectedStage, list[Finding]]:
        """Refuse each document with an error whole: one finding, which lists the errors.

        One that was loaded stays in its registry with all that is published of it, whichever it names now.

        Args:
            results: findings; errors among them refuse.
            registry_of: gives the registry that a document was loaded into last.

        Returns:
            The stage without what they hold, and a finding for each.
        """
        errors: defaultdict[Uri, list[str]] = defaultdict(list)
        for one in results:
            if one["finding"]["action"] == "quarantined":
                details = one["finding"]
                text = f"{details['pointer']}: {details['rule_id']}: {details['message']}"
                errors[Uri(one["registryid"], one["document_uri"])].append(text)
        rejected: dict[Uri, tuple[RegistryId, str]] = {}
        for uri, texts in errors.items():
            reason = f"{len(texts)} errors under --strict: " + "; ".join(sorted(texts)[:_ERRORS_SHOWN])
            rejected[uri] = (registry_of(uri), reason)
        rows = []
        for row in self.rows:
            outcome = rejected.get(Uri(row.registryid, row.document_uri))
            if outcome is None:
                rows.append(row)
            elif row.row == "document":
                left = ("entities", "quarantined", "spellings", "root", "findings")
                facts = {name: value for name, value in read_canonical(row.facts).items() if name not in left}
                facts |= {"status": "rejected", "reason": outcome[1]}
                rows.append(row._replace(facts=JsonText(as_json(facts_of(facts))), registryid=outcome[0]))
        return CollectedStage(rows), [_rejection(uri, *outcome) for uri, outcome in rejected.items()]

    def _with_text(self, finding: Finding) -> Finding:
        text = self.texts.get(said_of(finding)) if finding["finding"]["action"] == "quarantined" else None
        raw = None if text is None else text.body if text.raw is None else text.raw
        return finding | {"finding": finding["finding"] | {"raw": raw}}


def _rejection(uri: Uri, registryid: RegistryId, reason: str) -> Finding:
    finding = {
        "violation_id": violation_id(registryid, uri.document_uri, STRICT, Xid(""), WHOLE, reason, "quarantined"),
        "pointer": "",
        "rule_id": STRICT,
        "severity": "error",
        "action": "quarantined",
        "message": reason,
        "hint": RULES[STRICT].hint,
        "raw": None,
    }
    return {
        "row": "finding",
        "document_uri": uri.document_uri,
        "registryid": registryid,
        "kind": "",
        "xid": None,
        "finding": finding,
    }


def _finding_of_row(row: StageRow) -> Finding:
    names = ("row", "document_uri", "registryid", "kind", "xid")
    return {name: getattr(row, name) for name in names} | {"finding": row.finding.asDict()}


def _claim(row: StageRow) -> Claim:
    names = ("document_uri", "content_hash", "twin_hash", *LIFE, "isdefault", "defaultversionid")
    return Claim(again=bool(row.again), **{name: getattr(row, name) for name in names})


def refused_in(findings: Iterable[Finding]) -> Iterator[ClaimKey]:
    """Yield the entities that findings refuse."""
    for one in findings:
        if one["finding"]["action"] == "quarantined" and one["kind"] in TABLE_OF_KIND and one["xid"] is not None:
            yield said_of(one)


def said_of(finding: Finding) -> ClaimKey:
    """Return the entity that a finding is about, in its document."""
    return ClaimKey(finding["document_uri"], Key(finding["registryid"], finding["kind"], finding["xid"]))


def parent_of(key: Key) -> Key:
    """Return what holds an entity; a group, an endpoint and the registry itself are held by the registry."""
    xid = holder_of(key.xid)
    if key.kind in VERSION_KINDS:
        return Key(key.registryid, _RESOURCE_KIND[key.kind], xid)
    if xid == "/":
        return Key(key.registryid, "registry", xid)
    return Key(key.registryid, "endpoint" if xid.startswith("/endpoints/") else "group", xid)


def parents_of(key: Key) -> Iterator[Key]:
    """Yield all that hold an entity, the nearest first."""
    while not is_root(key):
        key = parent_of(key)
        yield key


def is_root(key: Key) -> bool:
    """Return whether it is a registry."""
    return key.kind == "registry"


def is_resource(key: Key) -> bool:
    """Return whether it is a message, a schema or a Version."""
    return key.kind in VERSION_KIND or key.kind in VERSION_KINDS


def resource_of(key: Key) -> Key:
    """Return the message or schema of a Version, or itself."""
    if key.kind not in VERSION_KINDS:
        return key
    return Key(key.registryid, _RESOURCE_KIND[key.kind], xid_of_resource(key.xid))


_REFERRING_TO_SCHEMAS = ("dataschemauri", "dataschemaxid", "xref")


class Text(NamedTuple):
    """What a staged document says of an entity.

    Attributes:
        body: JSON text of the normal form.
        raw: as written; None: equal to body.
        attributes: leaves of the definition of a Version.
        content_hash: of the body.
    """

    body: JsonText
    raw: JsonText | None
    attributes: dict[str, str] | None
    content_hash: str


class _Holding(NamedTuple):
    """A document that holds an entity which would be published, and which of the staged documents says it; None: it was not read.

    is_written: the entity would be written again as this document says.
    """

    document: str
    text: ClaimKey | None
    is_written: bool


class PlannedState:
    """What would be published.

    Args:
        compared: what becomes of each entity that documents say or say no more.
        texts: what staged documents say.
        documents: what came of the staged documents.
        lookups: what is published.
    """

    def __init__(
        self,
        compared: Mapping[Key, Verdict],
        texts: Mapping[ClaimKey, Text],
        documents: Mapping[Uri, Facts],
        lookups: Lookups,
        parsed: dict[ClaimKey, dict[str, Any]],
    ) -> None:
        self.compared = compared
        self.texts = texts
        self.documents = documents
        self.lookups = lookups
        self._parsed = parsed
        self.by_xid = {(key.registryid, key.xid): key for key in compared}
        self.below: defaultdict[tuple[RegistryId, Xid], set[Xid]] = defaultdict(set)
        self.spelled: defaultdict[tuple[RegistryId, str], set[Xid]] = defaultdict(set)
        self._saying: defaultdict[Key, list[str]] = defaultdict(list)
        for key in compared:
            if key.kind != "registry":
                self.below[key.registryid, holder_of(key.xid)].add(key.xid)
                self.spelled[key.registryid, key.xid.lower()].add(key.xid)
        for said in texts:
            self._saying[said.key].append(said.document_uri)

    @classmethod
    def published(cls, lookups: Lookups) -> PlannedState:
        """Return what is published, with no change to it."""
        return cls({}, {}, {}, lookups, {})

    def findings(self, limits: RuleLimits, keys: Iterable[Key] | None = None) -> list[dict[str, Any]]:
        """Apply the rules between entities.

        Args:
            limits: the settings; `first_of_type` is set here.
            keys: to these entities; None: to what the change has to do with.

        Returns:
            Findings, columns `rules.findings.FINDING_COLUMNS`, each once.

        Raises:
            TooManyLookups: it has to do with too much.
        """
        judged: defaultdict[RegistryId, list[Key]] = defaultdict(list)
        for key in self.compared if keys is None else keys:
            judged[key.registryid].append(key)
        result: dict[str, dict[str, Any]] = {}
        for registryid, named in judged.items():
            registry = _Registry(self, registryid)
            own = limits._replace(first_of_type=registry.first_of_type)
            for key in registry.judged() if keys is None else named:
                for finding in registry.findings_of(key, own):
                    result.setdefault(finding["finding"]["violation_id"], finding)
        return list(result.values())

    def attributes(self, key: Key, said: ClaimKey | None) -> dict[str, Any]:
        """Return the attributes of an entity as a document says them, or as they are published; `isdefault` as it would be."""
        if said is None:
            known = self.lookups.attributes(key.registryid, key.xid) or {}
        else:
            if said not in self._parsed:
                self._parsed[said] = read_canonical(self.texts[said].body)
            known = self._parsed[said]
        one = self.compared.get(key)
        isdefault = None if one is None or key.kind not in VERSION_KINDS else one.isdefault
        return known if isdefault is None or known.get("isdefault") is isdefault else {**known, "isdefault": isdefault}

    def holdings(self, key: Key) -> list[_Holding]:
        """Return the documents that hold an entity, as findings are about them: those that were read, else its first owner."""
        one = self.compared.get(key)
        stored = self.lookups.entity(key.registryid, key.xid)
        if one is None:
            return [] if stored is None else [_Holding(next(iter(stored.document_uris), ""), None, False)]
        if one.op == "delete":
            return []
        results = []
        for uri in self._saying.get(key, ()):
            if uri in one.document_uris:
                is_first = bool(one.agreed) and one.agreed[0].document_uri == uri
                for document in dict.fromkeys([uri, one.document_uris[0]] if is_first else [uri]):
                    is_written = one.document_uri is not None and document == uri
                    results.append(_Holding(document, ClaimKey(uri, key), is_written))
        if stored is not None and not any(claim.document_uri in one.document_uris for claim in one.agreed):
            results.append(_Holding(next(iter(one.document_uris), ""), None, False))
        return results

    def dialect_of(self, registryid: RegistryId, document: str) -> str | None:
        """Return the dialect of a document as it was read now, else at its last load."""
        facts = self.documents.get(Uri(registryid, document)) or {}
        dialect = facts.get("dialect") or (self.lookups.document(Uri(registryid, document)) or {}).get("dialect")
        return None if dialect is None else str(dialect)


class _Registry:
    """The entities of a registry as they would be: `domain.neighbours.RegistryContext`."""

    def __init__(self, planned: PlannedState, registryid: RegistryId) -> None:
        self.planned = planned
        self.registryid = registryid
        self._states: dict[Xid, EntityState | None] = {}

    # RegistryContext

    def entity(self, xid: Xid) -> EntityState | None:
        if xid not in self._states:
            self._states[xid] = self._state(xid)
        return self._states[xid]

    def children(self, xid: Xid) -> Iterator[EntityState]:
        stored = (one.xid for one in self.planned.lookups.children(self.registryid, xid))
        results = map(self.entity, sorted({*stored, *self.planned.below.get((self.registryid, xid), ())}))
        return (one for one in results if one is not None)

    def siblings(self, version: EntityState) -> Iterator[EntityState]:
        for one in self.children(xid_of_resource(version.xid)):
            if one.kind == "version":
                key = Key(self.registryid, one.kind, one.xid)
                yield from (one for held in self.planned.holdings(key) if held.document == version.document)

    def alike(self, xid: Xid) -> Xid | None:
        stored = self.planned.lookups.alike(self.registryid, xid)
        every = {*stored, *self.planned.spelled.get((self.registryid, xid.lower()), ()), xid}
        if len(every) == 1:
            return None
        states = [one for one in map(self.entity, every) if one is not None]
        published = [one.xid for one in states if not one.is_written]
        earlier = min(published or [one.xid for one in states])
        return None if earlier == xid else earlier

    def first_of_type(self, ce_type: str) -> Xid | None:
        """Return the message that had a `type` first, among those of dialects in which a type is one message's (CAT-007)."""
        messages = self._of_types.get(ce_type, {})
        published = [xid for xid, is_written in messages.items() if not is_written]
        return min(published or messages, default=None)

    # What is judged

    def judged(self) -> list[Key]:
        """Return what the change has to do with: what is said and was held; what depends on, names or carries what changes."""
        own = {xid_of_resource(key.xid) for key in self.planned.compared if key.registryid == self.registryid}
        changed = {xid_of_resource(key.xid) for key in self._changed()}
        lookups, of_registry = self.planned.lookups, partial(_xids_of, self.registryid)
        messages = {(self.registryid, xid) for xid in changed if "/messages/" in xid}
        following = of_registry(lookups.depending_on(messages)) if messages else set()
        schemas = {xid for xid in changed if xid.startswith("/schemagroups/")}
        holders = {xid for xid in changed if xid.count("/") == 2}
        carried = changed | following
        carried |= {xid_of_group(xid) for xid in carried}
        leading = lookups.leading_to(self.registryid, schemas, *_REFERRING_TO_SCHEMAS)
        leading |= lookups.leading_to(self.registryid, carried, "messagegroups", "willmessage")
        results = own | following | {xid_of_resource(xid) for xid in leading}
        results |= {xid for xid in carried if xid.startswith("/endpoints/") and xid.count("/") == 2}
        results |= {one.xid for holder in holders for one in lookups.children(self.registryid, holder)}
        results.update(self._of_same_type())
        return [key for xid in sorted(results) for key in self._keys_of(xid)]

    def findings_of(self, key: Key, limits: RuleLimits) -> Iterator[dict[str, Any]]:
        """Yield the findings about an entity, for each document that holds it."""
        for held in self.planned.holdings(key):
            known = self.planned.attributes(key, held.text)
            dialect = self.planned.dialect_of(self.registryid, held.document)
            is_declared = not (key.kind in ("message", "version") and self._is_plain(key, held.document))
            state = EntityState(key.kind, key.xid, known, dialect, is_declared, held.is_written, held.document)
            for violation in violations_of(state, self._before(key, held), self, limits):
                at = xid_of_resource(key.xid)
                own = None if held.text is None else self.planned.texts[held.text].body
                subject = FindingSubject(
                    held.document,
                    self.registryid,
                    key.kind,
                    key.xid,
                    held.is_written,
                    dialect,
                    at if key.kind == "version" and known.get("isdefault") is True else key.xid,
                    at if key.kind == "version" and own is not None and '"isdefault":true' in own else key.xid,
                )
                yield finding_of(subject, violation)

    def _state(self, xid: Xid) -> EntityState | None:
        key = self.planned.by_xid.get((self.registryid, xid))
        if key is None:
            stored = self.planned.lookups.entity(self.registryid, xid)
            if stored is None:
                return None
            key = Key(self.registryid, stored.kind, xid)
            return EntityState(key.kind, xid, self.planned.attributes(key, None), is_written=False)
        one = self.planned.compared[key]
        if one.op == "delete" or (one.op is None and one.stored is None):
            return None
        said = None if one.document_uri is None else ClaimKey(one.document_uri, key)
        return EntityState(key.kind, xid, self.planned.attributes(key, said), is_written=said is not None)

    def _before(self, key: Key, held: _Holding) -> EntityState | None:
        """Return what is published of an entity that a document would change; None: nothing is, or that stays."""
        stored = self.planned.lookups.entity(self.registryid, key.xid) if held.is_written and held.text is not None else None
        if stored is None or held.text is None or stored.content_hash == self.planned.texts[held.text].content_hash:
            return None
        return EntityState(key.kind, key.xid, self.planned.lookups.attributes(self.registryid, key.xid) or {})

    def _is_plain(self, key: Key, document: str) -> bool:
        """Return whether a document writes a message without `versions`, so that its only Version is implied."""
        text = self.planned.texts.get(ClaimKey(document, Key(self.registryid, "message", xid_of_resource(key.xid))))
        return text is not None and text.raw is None

    def _changed(self) -> Iterator[Key]:
        for key, one in self.planned.compared.items():
            if key.registryid == self.registryid and (one.op in ("insert", "update", "delete") or one.flipped):
                yield key

    def _keys_of(self, resource: Xid) -> Iterator[Key]:
        """Yield the keys of an entity and its Versions, as they would be."""
        one = self.entity(resource)
        if one is not None:
            yield Key(self.registryid, one.kind, resource)
        if one is None or one.kind in VERSION_KIND:
            yield from (Key(self.registryid, held.kind, held.xid) for held in self.children(resource))

    def _of_same_type(self) -> Iterable[Xid]:
        """Return the messages that have the `type` of a staged one, where a dialect wants a type to be one message's."""
        wanting = {uri for uri, facts in self.planned.documents.items() if has_rule(facts.get("dialect") or "", UNIQUE_TYPE)}
        said = [one for one in self.planned.texts if Uri(one.key.registryid, one.document_uri) in wanting]
        types = {_type_of(self.planned.attributes(one.key, one)) for one in said if one.key.kind == "version"}
        return {xid for one in types if one is not None for xid in self._of_types.get(one, ())}

    @cached_property
    def _of_types(self) -> dict[str, dict[Xid, bool]]:
        """Return the messages by `type`, in dialects where a type is one message's, with whether they would be written."""
        result: defaultdict[str, dict[Xid, bool]] = defaultdict(dict)
        stored = {one.xid for one in self.planned.lookups.default_versions(self.registryid)}
        said = {key.xid for key in self.planned.compared if key.registryid == self.registryid and key.kind == "version"}
        for xid in stored | said:
            key = Key(self.registryid, "version", xid)
            for held in self.planned.holdings(key):
                known = self.planned.attributes(key, held.text)
                is_one = known.get("isdefault") is True and known.get("basemessage") is None
                if is_one and has_rule(self.planned.dialect_of(self.registryid, held.document) or "", UNIQUE_TYPE):
                    ce_type = _type_of(known)
                    if ce_type is not None:
                        message = xid_of_resource(xid)
                        result[ce_type][message] = result[ce_type].get(message, True) and held.is_written
        return result


def _xids_of(registryid: RegistryId, keys: Iterable[tuple[RegistryId, Xid]]) -> set[Xid]:
    return {xid for one, xid in keys if one == registryid}


def _type_of(known: Mapping[str, Any]) -> str | None:
    return text_at(dict(flat_attributes_of(dict(known), known.get("extensions", {}))), "/envelopemetadata/type/value")
