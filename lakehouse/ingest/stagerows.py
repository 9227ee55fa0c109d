"""The stage of a small ingest in the driver: what documents say, and what is left when something is refused."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse.domain.documents import Facts, Key, Said, Uri, as_json
from lakehouse.domain.ownership import Claim
from lakehouse.ingest.plannedcatalog import Text
from lakehouse.readmodel.lookups import VERSION_KINDS, facts_of
from lakehouse.rules.declared import RULES
from lakehouse.rules.findings import FindingSubject, finding_of, missing_parent
from lakehouse.store.keys import LIFE, VERSION_KIND
from lakehouse.store.schema import TABLE_OF_KIND
from lakehouse.text.jsontext import read_canonical
from lakehouse.text.names import WHOLE, JsonText, RegistryId, Xid
from lakehouse.text.problems import STRICT, violation_id
from lakehouse.text.xid import holder_of, xid_of_resource

_RESOURCE_KIND = {version: resource for resource, version in VERSION_KIND.items()}
_ERRORS_SHOWN = 20  # of a document that is refused whole

Finding = dict[str, Any]  # columns `rules.findings.FOUND`


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
    def said(self) -> Said:
        """Return the entity as its document has it."""
        return Said(self.document_uri, self.key)


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
        self.texts: dict[Said, Text] = {}
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
        stage, found = self.without(both)
        return stage, [one for one in found if said_of(one) not in known]

    def without(self, found: list[Finding]) -> tuple[CollectedStage, list[Finding]]:
        """Take what was refused out of the stage, and what cannot live without it: each with its own finding.

        Returns:
            The stage without it, and the findings about what was taken out, with its text. The others may be different once that
            is out.
        """
        refused = {said_of(one) for one in found if one["finding"]["action"] == "quarantined"}
        causes: dict[Said, Xid] = {}
        for row in self.rows:  # a message or schema shows nothing without its default Version: the one that its document names
            if row.row == "entity" and row.kind in VERSION_KINDS and row.isdefault and row.said in refused:
                causes[Said(row.document_uri, resource_of(row.key))] = row.xid
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
        every = [self._with_text(one) for one in (*found, *new)]
        out = {said_of(one) for one in every if one["finding"]["action"] == "quarantined"}
        rows = [row for row in self.rows if row.row != "entity" or row.said not in out]
        return CollectedStage(rows), [one for one in every if said_of(one) in out]

    def without_documents(
        self, found: list[Finding], registry_of: Callable[[Uri], RegistryId]
    ) -> tuple[CollectedStage, list[Finding]]:
        """Refuse each document with an error whole: one finding, which lists the errors.

        One that was loaded stays in its registry with all that is published of it, whichever it names now.

        Args:
            found: findings; errors among them refuse.
            registry_of: gives the registry that a document was loaded into last.

        Returns:
            The stage without what they hold, and a finding for each.
        """
        errors: defaultdict[Uri, list[str]] = defaultdict(list)
        for one in found:
            if one["finding"]["action"] == "quarantined":
                told = one["finding"]
                text = f"{told['pointer']}: {told['rule_id']}: {told['message']}"
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


def refused_in(findings: Iterable[Finding]) -> Iterator[Said]:
    """Yield the entities that findings refuse."""
    for one in findings:
        if one["finding"]["action"] == "quarantined" and one["kind"] in TABLE_OF_KIND and one["xid"] is not None:
            yield said_of(one)


def said_of(finding: Finding) -> Said:
    """Return the entity that a finding is about, in its document."""
    return Said(finding["document_uri"], Key(finding["registryid"], finding["kind"], finding["xid"]))


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
