"""What the planner works on: what documents say, the catalog as it would be, what is left when something is refused."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property, partial
from typing import Any, NamedTuple

from pyspark.sql import Column, DataFrame
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
from lakehouse.store.keys import LIFECYCLE, VERSION_KIND
from lakehouse.store.schema import TABLE_OF_KIND
from lakehouse.text.jsontext import read_canonical
from lakehouse.text.names import ROOT, JsonText, Pointer, RegistryId, Xid
from lakehouse.text.problems import STRICT, violation_id
from lakehouse.text.xid import parent_xid, xid_of_group, xid_of_resource

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
    attributes: dict[Pointer, JsonText] | None
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
    def claim_key(self) -> ClaimKey:
        """Return the entity as its document has it."""
        return ClaimKey(self.document_uri, self.key)


def stage_columns() -> list[Column]:
    """Return the columns of a stage as `StageRow` has them, out of columns `schema.STAGE`."""
    return [
        (F.unix_micros(name) if name in ("createdat", "modifiedat") else F.col(name)).alias(name) for name in StageRow._fields
    ]


def collect_stage(stage: DataFrame) -> list[StageRow]:
    """Collect a stage; columns `schema.STAGE`."""
    rows = map(StageRow._make, stage.select(*stage_columns()).collect())
    return [row if row.finding is None else row._replace(finding=row.finding.asDict()) for row in rows]


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
                self.texts[row.claim_key] = Text(row.body or JsonText(""), row.raw, row.attributes, row.content_hash or "")
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
        refused = [
            finding for finding in self.findings if finding["finding"]["action"] == "quarantined" and finding["xid"] is not None
        ]
        both = [finding for finding in refused if claim_key_of(finding) in self.texts]
        if not both:
            return self, []
        reported = {claim_key_of(finding) for finding in both}
        stage, results = self.without(both)
        return stage, [finding for finding in results if claim_key_of(finding) not in reported]

    def without(self, results: list[Finding]) -> tuple[CollectedStage, list[Finding]]:
        """Take what was refused out of the stage, and what cannot live without it: each with its own finding.

        Returns:
            The stage without it, and the findings about what was taken out, with its text. The others may be different once that
            is out.
        """
        refused = {claim_key_of(finding) for finding in results if finding["finding"]["action"] == "quarantined"}
        causes: dict[ClaimKey, Xid] = {}
        for row in self.rows:  # a message or schema shows nothing without its default Version: the one that its document names
            if row.row == "entity" and row.kind in VERSION_KINDS and row.isdefault and row.claim_key in refused:
                causes[ClaimKey(row.document_uri, resource_of(row.key))] = row.xid
        seeds = {(claim_key.document_uri, claim_key.key.registryid, claim_key.key.xid) for claim_key in (*refused, *causes)}
        hanging = dict(causes)
        for claim_key in self.texts:
            parts = claim_key.key.xid.split("/")
            above = [Xid("/".join(parts[:end])) for end in range(3, len(parts) - 1, 2)]
            for xid in above:
                if (claim_key.document_uri, claim_key.key.registryid, xid) in seeds:
                    hanging[claim_key] = min(xid, hanging.get(claim_key, xid))
        new = [
            finding_of(
                FindingSubject(claim_key.document_uri, *claim_key.key, True, None, claim_key.key.xid, claim_key.key.xid),
                missing_parent(cause),
            )
            for claim_key, cause in hanging.items()
            if claim_key not in refused and claim_key in self.texts
        ]
        every = [self._with_text(finding) for finding in (*results, *new)]
        out = {claim_key_of(finding) for finding in every if finding["finding"]["action"] == "quarantined"}
        rows = [row for row in self.rows if row.row != "entity" or row.claim_key not in out]
        return CollectedStage(rows), [finding for finding in every if claim_key_of(finding) in out]

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
        for finding in results:
            if finding["finding"]["action"] == "quarantined":
                details = finding["finding"]
                text = f"{details['pointer']}: {details['rule_id']}: {details['message']}"
                errors[Uri(finding["registryid"], finding["document_uri"])].append(text)
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
        text = self.texts.get(claim_key_of(finding)) if finding["finding"]["action"] == "quarantined" else None
        raw = None if text is None else text.body if text.raw is None else text.raw
        return finding | {"finding": finding["finding"] | {"raw": raw}}


def _rejection(uri: Uri, registryid: RegistryId, reason: str) -> Finding:
    finding = {
        "violation_id": violation_id(registryid, uri.document_uri, STRICT, Xid(""), ROOT, reason, "quarantined"),
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
    return {name: getattr(row, name) for name in names} | {"finding": row.finding}


def _claim(row: StageRow) -> Claim:
    names = ("document_uri", "content_hash", "twin_hash", *LIFECYCLE, "isdefault", "defaultversionid")
    return Claim(again=bool(row.again), **{name: getattr(row, name) for name in names})


def refused_in(findings: Iterable[Finding]) -> Iterator[ClaimKey]:
    """Yield the entities that findings refuse."""
    for finding in findings:
        if finding["finding"]["action"] == "quarantined" and finding["kind"] in TABLE_OF_KIND and finding["xid"] is not None:
            yield claim_key_of(finding)


def claim_key_of(finding: Finding) -> ClaimKey:
    """Return the entity that a finding is about, in its document."""
    return ClaimKey(finding["document_uri"], Key(finding["registryid"], finding["kind"], finding["xid"]))


def parent_of(key: Key) -> Key:
    """Return what holds an entity; a group, an endpoint and the registry itself are held by the registry."""
    xid = parent_xid(key.xid)
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
        attributes: the definition of a Version, flat.
        content_hash: of the body.
    """

    body: JsonText
    raw: JsonText | None
    attributes: dict[Pointer, JsonText] | None
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
        verdicts: what becomes of each entity that documents say or say no more.
        texts: what staged documents say.
        documents: what came of the staged documents.
        lookups: what is published.
    """

    def __init__(
        self,
        verdicts: Mapping[Key, Verdict],
        texts: Mapping[ClaimKey, Text],
        documents: Mapping[Uri, Facts],
        lookups: Lookups,
        parsed: dict[ClaimKey, dict[str, Any]],
    ) -> None:
        self.verdicts = verdicts
        self.texts = texts
        self.documents = documents
        self.lookups = lookups
        self._parsed = parsed
        self.by_xid = {(key.registryid, key.xid): key for key in verdicts}
        self.below: defaultdict[tuple[RegistryId, Xid], set[Xid]] = defaultdict(set)
        self.spelled: defaultdict[tuple[RegistryId, str], set[Xid]] = defaultdict(set)
        self._saying: defaultdict[Key, list[str]] = defaultdict(list)
        for key in verdicts:
            if key.kind != "registry":
                self.below[key.registryid, parent_xid(key.xid)].add(key.xid)
                self.spelled[key.registryid, _spelling(key.xid)].add(key.xid)
        for claim_key in texts:
            self._saying[claim_key.key].append(claim_key.document_uri)

    @classmethod
    def published(cls, lookups: Lookups, documents: Mapping[Uri, Facts] | None = None) -> PlannedState:
        """Return what is published, with no change to it; the dialects of documents, where they cannot be looked up."""
        return cls({}, {}, documents or {}, lookups, {})

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
        for key in self.verdicts if keys is None else keys:
            judged[key.registryid].append(key)
        result: dict[str, dict[str, Any]] = {}
        for registryid, named in judged.items():
            registry = _Registry(self, registryid)
            own = limits._replace(first_of_type=registry.first_of_type)
            is_alone = keys is not None or self.lookups.view is None  # nothing published has to do with it
            for key in named if is_alone else registry.judged():
                for finding in registry.findings_of(key, own):
                    result.setdefault(finding["finding"]["violation_id"], finding)
        return list(result.values())

    def attributes(self, key: Key, claim_key: ClaimKey | None) -> dict[str, Any]:
        """Return the attributes of an entity as a document says them, or as they are published; `isdefault` as it would be."""
        if claim_key is None:
            values = self.lookups.attributes(key.registryid, key.xid) or {}
        else:
            if claim_key not in self._parsed:
                self._parsed[claim_key] = read_canonical(self.texts[claim_key].body)
            values = self._parsed[claim_key]
        outcome = self.verdicts.get(key)
        isdefault = None if outcome is None or key.kind not in VERSION_KINDS else outcome.isdefault
        return values if isdefault is None or values.get("isdefault") is isdefault else {**values, "isdefault": isdefault}

    def holdings(self, key: Key) -> list[_Holding]:
        """Return the documents that hold an entity, as findings are about them: those that were read, else its first owner."""
        outcome = self.verdicts.get(key)
        stored = self.lookups.entity(key.registryid, key.xid)
        if outcome is None:
            return [] if stored is None else [_Holding(next(iter(stored.document_uris), ""), None, False)]
        if outcome.op == "delete":
            return []
        results = []
        for uri in self._saying.get(key, ()):
            if uri in outcome.document_uris:
                is_first = bool(outcome.agreed) and outcome.agreed[0].document_uri == uri
                for document in dict.fromkeys([uri, outcome.document_uris[0]] if is_first else [uri]):
                    is_written = outcome.document_uri is not None and document == uri
                    results.append(_Holding(document, ClaimKey(uri, key), is_written))
        if stored is not None and not any(claim.document_uri in outcome.document_uris for claim in outcome.agreed):
            results.append(_Holding(next(iter(outcome.document_uris), ""), None, False))
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
        stored = (state.xid for state in self.planned.lookups.children(self.registryid, xid))
        results = map(self.entity, sorted({*stored, *self.planned.below.get((self.registryid, xid), ())}))
        return (state for state in results if state is not None)

    def siblings(self, version: EntityState) -> Iterator[EntityState]:
        for state in self.children(xid_of_resource(version.xid)):
            if state.kind == "version":
                key = Key(self.registryid, state.kind, state.xid)
                yield from (state for holding in self.planned.holdings(key) if holding.document == version.document)

    def alike(self, xid: Xid) -> Xid | None:
        stored = self.planned.lookups.alike(self.registryid, xid)
        every = {*stored, *self.planned.spelled.get((self.registryid, _spelling(xid)), ()), xid}
        if len(every) == 1:
            return None
        states = [state for state in map(self.entity, every) if state is not None]
        published = [state.xid for state in states if not state.is_written]
        earlier = min(published or [state.xid for state in states])
        return None if earlier == xid else earlier

    def first_of_type(self, ce_type: str) -> Xid | None:
        """Return the message that had a `type` first, among those of dialects in which a type is one message's (CAT-007)."""
        messages = self._of_types.get(ce_type, {})
        published = [xid for xid, is_written in messages.items() if not is_written]
        return min(published or messages, default=None)

    # What is judged

    def judged(self) -> list[Key]:
        """Return what the change has to do with: what is said and was held; what depends on, names or carries what changes."""
        own = {xid_of_resource(key.xid) for key in self.planned.verdicts if key.registryid == self.registryid}
        changed = {xid_of_resource(key.xid) for key in self._changed()}
        lookups, of_registry = self.planned.lookups, partial(_xids_of, self.registryid)
        messages = {(self.registryid, xid) for xid in changed if "/messages/" in xid}
        following = of_registry(lookups.depending_on(messages)) if messages else set()
        schemas = {xid for xid in changed if xid.startswith("/schemagroups/")}
        parents = {xid for xid in changed if xid.count("/") == 2}
        carried = changed | following
        carried |= {xid_of_group(xid) for xid in carried}
        leading = lookups.leading_to(self.registryid, schemas, *_REFERRING_TO_SCHEMAS)
        leading |= lookups.leading_to(self.registryid, carried, "messagegroups", "willmessage")
        results = own | following | {xid_of_resource(xid) for xid in leading}
        results |= {xid for xid in carried if xid.startswith("/endpoints/") and xid.count("/") == 2}
        results |= {entity.xid for parent in parents for entity in lookups.children(self.registryid, parent)}
        results.update(self._of_same_type())
        return [key for xid in sorted(results) for key in self._keys_of(xid)]

    def findings_of(self, key: Key, limits: RuleLimits) -> Iterator[dict[str, Any]]:
        """Yield the findings about an entity, for each document that holds it."""
        for holding in self.planned.holdings(key):
            attributes = self.planned.attributes(key, holding.text)
            dialect = self.planned.dialect_of(self.registryid, holding.document)
            is_declared = not (key.kind in ("message", "version") and self._is_plain(key, holding.document))
            state = EntityState(key.kind, key.xid, attributes, dialect, is_declared, holding.is_written, holding.document)
            for violation in violations_of(state, self._before(key, holding), self, limits):
                at = xid_of_resource(key.xid)
                own = None if holding.text is None else self.planned.texts[holding.text].body
                subject = FindingSubject(
                    holding.document,
                    self.registryid,
                    key.kind,
                    key.xid,
                    holding.is_written,
                    dialect,
                    at if key.kind == "version" and attributes.get("isdefault") is True else key.xid,
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
        outcome = self.planned.verdicts[key]
        if outcome.op == "delete" or (outcome.op is None and outcome.stored is None):
            return None
        claim_key = None if outcome.document_uri is None else ClaimKey(outcome.document_uri, key)
        return EntityState(key.kind, xid, self.planned.attributes(key, claim_key), is_written=claim_key is not None)

    def _before(self, key: Key, holding: _Holding) -> EntityState | None:
        """Return what is published of an entity that a document would change; None: nothing is, or that stays."""
        stored = (
            self.planned.lookups.entity(self.registryid, key.xid) if holding.is_written and holding.text is not None else None
        )
        if stored is None or holding.text is None or stored.content_hash == self.planned.texts[holding.text].content_hash:
            return None
        return EntityState(key.kind, key.xid, self.planned.lookups.attributes(self.registryid, key.xid) or {})

    def _is_plain(self, key: Key, document: str) -> bool:
        """Return whether a document writes a message without `versions`, so that its only Version is implied."""
        text = self.planned.texts.get(ClaimKey(document, Key(self.registryid, "message", xid_of_resource(key.xid))))
        return text is not None and text.raw is None

    def _changed(self) -> Iterator[Key]:
        for key, outcome in self.planned.verdicts.items():
            if key.registryid == self.registryid and (outcome.op in ("insert", "update", "delete") or outcome.isdefault_differs):
                yield key

    def _keys_of(self, resource: Xid) -> Iterator[Key]:
        """Yield the keys of an entity and its Versions, as they would be."""
        state = self.entity(resource)
        if state is not None:
            yield Key(self.registryid, state.kind, resource)
        if state is None or state.kind in VERSION_KIND:
            yield from (Key(self.registryid, version.kind, version.xid) for version in self.children(resource))

    def _of_same_type(self) -> Iterable[Xid]:
        """Return the messages that have the `type` of a staged one, where a dialect wants a type to be one message's."""
        wanting = {uri for uri, facts in self.planned.documents.items() if has_rule(facts.get("dialect") or "", UNIQUE_TYPE)}
        claim_keys = [
            claim_key for claim_key in self.planned.texts if Uri(claim_key.key.registryid, claim_key.document_uri) in wanting
        ]
        types = {
            _type_of(self.planned.attributes(claim_key.key, claim_key))
            for claim_key in claim_keys
            if claim_key.key.kind == "version"
        }
        return {xid for claim_key in types if claim_key is not None for xid in self._of_types.get(claim_key, ())}

    @cached_property
    def _of_types(self) -> dict[str, dict[Xid, bool]]:
        """Return the messages by `type`, in dialects where a type is one message's, with whether they would be written."""
        result: defaultdict[str, dict[Xid, bool]] = defaultdict(dict)
        stored = {version.xid for version in self.planned.lookups.default_versions(self.registryid)}
        written = {key.xid for key in self.planned.verdicts if key.registryid == self.registryid and key.kind == "version"}
        for xid in stored | written:
            key = Key(self.registryid, "version", xid)
            for holding in self.planned.holdings(key):
                attributes = self.planned.attributes(key, holding.text)
                is_typed = attributes.get("isdefault") is True and attributes.get("basemessage") is None
                if is_typed and has_rule(self.planned.dialect_of(self.registryid, holding.document) or "", UNIQUE_TYPE):
                    ce_type = _type_of(attributes)
                    if ce_type is not None:
                        message = xid_of_resource(xid)
                        result[ce_type][message] = result[ce_type].get(message, True) and holding.is_written
        return result


def _spelling(xid: Xid) -> str:
    """Return what XIDs of one collection have in common that differ in letter case only."""
    collection, slash, own = xid.rpartition("/")
    return collection + slash + own.lower()


def _xids_of(registryid: RegistryId, keys: Iterable[tuple[RegistryId, Xid]]) -> set[Xid]:
    return {xid for other, xid in keys if other == registryid}


def _type_of(attributes: Mapping[str, Any]) -> str | None:
    return text_at(dict(flat_attributes_of(dict(attributes), attributes.get("extensions", {}))), "/envelopemetadata/type/value")
