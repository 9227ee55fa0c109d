"""A small ingest is planned in the driver: `lakehouse.domain` decides over rows that the driver holds.

Spark lists, reads and parses the documents, reads what is published of what they say, and writes what comes of it. A large ingest
is planned by Spark's joins (`lakehouse.log.compare`, `lakehouse.log.plan`); a test holds both equal.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import ArrayType, BooleanType, LongType, StringType, StructField, StructType, TimestampType

from lakehouse.domain.defaults import with_isdefault
from lakehouse.domain.documents import (
    Facts,
    Key,
    Refused,
    Said,
    Uri,
    added_to,
    as_json,
    by_document,
    completed,
    disputes_of,
    dropped,
    known_disputes,
    with_standing,
)
from lakehouse.domain.ownership import (
    REPORT_HINTS,
    Claim,
    Dispute,
    Policy,
    Published,
    Report,
    Verdict,
    disputes_after,
    grown,
    is_reported,
    reports,
    unchanged,
    verdict,
    with_default,
    without_stale,
)
from lakehouse.errors import PruneRefused
from lakehouse.log.digests import folded
from lakehouse.log.ground import STATE
from lakehouse.log.head import LOGGED, Head
from lakehouse.log.ownership.staleness import with_declared
from lakehouse.log.plan import Plan
from lakehouse.store.keys import KEY, LIFE, OVER_HTTP, VERSION_KIND
from lakehouse.store.schema import CHANGES, DOCUMENT_BODY, ENTITY_TABLES, FINDING, STAGE, TABLE_OF_KIND
from lakehouse.store.tables import open_table
from lakehouse.text.jsontext import hash_of, read_canonical
from lakehouse.text.names import WHOLE, JsonText
from lakehouse.text.problems import violation_id
from lakehouse.text.timestamps import micros_of
from lakehouse.text.xid import holder_of, last_id, xid_of_resource, xid_of_version

_VERSION_KINDS = frozenset(VERSION_KIND.values())
_RESOURCE_KIND = {version: resource for resource, version in VERSION_KIND.items()}
_CLAIM = StructType([StructField("document_uri", StringType())])
# What the rules between entities and the commit read of a comparison.
_COMPARED = StructType(
    [
        *(CHANGES[name] for name in (*KEY, "op")),
        StructField("refused", StringType()),
        StructField("document_uri", StringType()),
        *(CHANGES[name] for name in ("content_hash", *LIFE, "document_uris")),
        StructField("isdefault", BooleanType()),
        StructField("stored_in", LongType()),
        StructField("stored_content_hash", StringType()),
        StructField("flipped", BooleanType()),
        StructField("agreed", ArrayType(_CLAIM)),
        StructField("displaced", ArrayType(StringType())),
    ]
)
_STORED_DATE = StructField("stored_modifiedat", TimestampType())
_FOUND = StructType([STAGE[name] for name in ("row", "document_uri", *KEY)] + [StructField("finding", FINDING)])
_DOCUMENTS = StructType([*(CHANGES[name] for name in (*LOGGED, "body"))])


class _Log:
    """Looks up in the log what the state of the catalog does not say."""

    def __init__(self, spark: SparkSession, head: Head, state: Mapping[Key, Published]) -> None:
        self.spark, self.head, self.state = spark, head, state
        self.rows = open_table(spark, "changes").filter(F.col("snapshot_id") <= head.snapshot_id)
        self._bodies: dict[tuple[Key, int], JsonText] = {}
        self._deleted: dict[Key, int] = {}

    def deleted_epochs(self, keys: Iterable[Key]) -> dict[Key, int]:
        """Look up the epochs that entities which are made again had when they were deleted (decision 9)."""
        wanted = [key for key in keys if key not in self.state and key not in self._deleted]
        if self.head.deletions and wanted:
            deleted = self.rows.filter((F.col("op") == "delete") & (F.col("kind") != "document"))
            rows = deleted.join(F.broadcast(_keys(self.spark, wanted)), on=KEY, how="left_semi").groupBy(*KEY).agg(F.max("epoch"))
            self._deleted |= {Key(*row[:3]): row[3] for row in rows.collect()}
        return self._deleted

    def declared(self, entities: Mapping[Key, Verdict]) -> dict[Key, tuple[bool, bool]]:
        """Look up whether documents declared the epochs and the dates that are stored."""
        stored = {key: one.stored for key, one in entities.items() if one.stored is not None}
        if not stored:
            return {}
        rows = [{**key._asdict(), "stored_modifiedat": one.modifiedat} for key, one in stored.items()]
        frame = _frame(self.spark, rows, StructType([*(CHANGES[name] for name in KEY), _STORED_DATE]))
        texts = self.rows.filter(F.col("snapshot_id").isin(sorted(self._stored_in(stored))))
        told = with_declared(frame, self.rows, texts).select(*KEY, "has_epoch", "has_modifiedat")
        return {Key(*row[:3]): (bool(row[3]), bool(row[4])) for row in told.collect()}

    def _stored_in(self, stored: Mapping[Key, Published]) -> set[int]:
        """Return the snapshots of the texts of entities: that of a message may be with its default Version, or the other way."""
        found = set()
        for key, one in stored.items():
            resource = _resource(key)
            message = self.state.get(resource)
            named = None if message is None else message.defaultversionid
            default = resource._replace(kind=VERSION_KIND.get(resource.kind, ""), xid=xid_of_version(resource.xid, named))
            found |= {each.snapshot_id for each in (one, message, self.state.get(default)) if each is not None}
        return found

    def hash_with_default(self, key: Key, one: Verdict, *, is_default: bool) -> str:
        """Hash the text that is published of a Version, with another `isdefault`."""
        assert one.stored is not None
        at = (key, one.stored.snapshot_id)
        if at not in self._bodies:
            rows = self.rows.filter((F.col("snapshot_id") == at[1]) & (F.col("kind") == key.kind) & (F.col("xid") == key.xid))
            rows = rows.filter(F.col("registryid") == key.registryid)
            self._bodies[at] = rows.select("body").collect()[0]["body"]
        return hash_of(with_isdefault(self._bodies[at], is_default))


class Planner:
    """Decides what a small stage changes; what the rules between entities refuse is taken out of it between two decisions.

    Attributes:
        is_all_new: every entity is new, is in one document, and is published as that says.
    """

    def __init__(
        self,
        spark: SparkSession,
        head: Head,
        stage: DataFrame,
        policy: Policy,
        known: DataFrame,
        gone: DataFrame,
        state: DataFrame | None,
    ) -> None:
        """Collect what is compared.

        Args:
            spark: the session.
            head: snapshot that the entity tables stand at.
            stage: columns `schema.STAGE`, as the documents were read.
            policy: what the ingest may do.
            known: as from `facts.current_documents` at the head.
            gone: as from `ground.find_gone`.
            state: as from `ground.read_state`, of all that the documents say or held, with all Versions of it; None: nothing is.
        """
        self.spark = spark
        self.head = head
        self.policy = policy
        self.known_frame = known
        self.committed_at = head.next_moment()
        self.now = micros_of(self.committed_at)
        self.gone = {Uri(*row) for row in gone.select("registryid", "xid").collect()}
        self.state = {} if state is None else _state(state)
        self.log = _Log(spark, head, self.state)
        self._take(stage)
        self.known: dict[Uri, Facts] = {}
        self.load_known(
            F.col("xid").isin(sorted({uri.document_uri for uri in self.gone.union(self.documents)})) | _has_disputes()
        )
        self.held = {Said(uri, key) for key, claims in self.claims.items() for uri in claims}
        self.compared: dict[Key, Verdict] = {}

    def _take(self, stage: DataFrame) -> None:
        """Take the rows of a stage."""
        micros = [F.unix_micros(name).alias(name) for name in ("createdat", "modifiedat")]
        names = [name for name in STAGE.names if name not in ("attributes", "createdat", "modifiedat")]
        self.claims: defaultdict[Key, dict[str, Claim]] = defaultdict(dict)
        self.texts: dict[Said, str] = {}
        self.documents: dict[Uri, Facts] = {}
        self.stage_findings: list[Row] = []
        for row in stage.select(*names, *micros).collect():
            if row["row"] == "entity":
                key = Key(row["registryid"], row["kind"], row["xid"])
                self.claims[key][row["document_uri"]] = _claim(row)
                self.texts[Said(row["document_uri"], key)] = row["body"] if row["raw"] is None else row["raw"]
            elif row["row"] == "document":
                self.documents[Uri(row["registryid"], row["xid"])] = _parsed(row["facts"])
            else:
                self.stage_findings.append(row)

    def load_known(self, wanted: Column) -> None:
        """Load the facts of known documents: of a large catalog they are too many to load all."""
        rows = self.known_frame.filter(wanted).select("registryid", "xid", "facts").collect()
        self.known |= {Uri(row[0], row[1]): _facts(row[2]) for row in rows}

    def leave_out(self, stage: DataFrame) -> None:
        """Take a stage that lacks what the rules between entities refused.

        A document that they refused whole stays where it was, even if it names another registry now.
        """
        self._take(stage)
        rejected = {uri.document_uri for uri, facts in self.documents.items() if facts["status"] == "rejected"}
        self.gone = {uri for uri in self.gone if uri.document_uri not in rejected}

    def compare(self, found: DataFrame) -> None:
        """Decide about each entity that documents say or say no more.

        Args:
            found: findings other than those of the stage; columns row, document_uri, registryid, kind, xid, finding.
        """
        self.refused = Refused(_refused_in([*self.stage_findings, *found.collect()]))
        read = {uri: facts for uri, facts in self.documents.items() if facts["status"] != "unchanged"}
        self.disputes = with_standing(known_disputes(self.known, self.gone), read, self.refused)
        left = {uri for uri, facts in self.documents.items() if facts["status"] in ("loaded", "skipped") and uri in self.known}
        owned = {key: stored.document_uris for key, stored in self.state.items()}
        lost = dropped(owned, left | self.gone, self.held, self.refused)
        said: set[Key] = set()
        if self.policy.prune:
            for key, stored in self.state.items():  # what lost its last owner in an ingest without `prune`
                if not stored.document_uris:
                    lost.setdefault(key, set())
            said = self._said()
        disputes: defaultdict[Key, list[Dispute]] = defaultdict(list)
        for one in self.disputes:
            disputes[one.key].append(one.dispute)
        keys = [*self.claims, *(key for key in lost if key not in self.claims)]
        deleted = self.log.deleted_epochs(keys)
        self.compared = {
            key: verdict(
                self.claims[key].values() if key in self.claims else (),
                self.state.get(key),
                disputes.get(key, ()),
                policy=self.policy,
                now=self.now,
                dropped=lost.get(key, ()),
                is_registry=key.kind == "registry",
                is_said=key in said,
                deleted_epoch=deleted.get(key),
            )
            for key in keys
        }
        self.is_all_new = all(one.is_single_insert for one in self.compared.values())
        if not self.policy.force:
            self._refuse_stale()
        if not self.is_all_new:
            self._settle_defaults()

    def _said(self) -> set[Key]:
        """Find what is not pruned without an owner: what was refused, what waits, what holds something that came over HTTP."""
        said = {claim.key for claim in self.refused.claims}
        said |= {one.key for one in self.disputes if one.dispute.holds}
        holders = {
            (key.registryid, "/".join(key.xid.split("/")[:end]))
            for key, stored in self.state.items()
            if OVER_HTTP in stored.document_uris
            for end in (3, 5)
        }
        return said | {key for key in self.state if (key.registryid, key.xid) in holders}

    def _refuse_stale(self) -> None:
        suspects = {key: one for key, one in self.compared.items() if one.is_suspect}
        for key, (has_epoch, has_modifiedat) in self.log.declared(suspects).items():
            self.compared[key] = without_stale(suspects[key], has_epoch=has_epoch, has_modifiedat=has_modifiedat)

    def _grow_holders(self) -> bool:
        """Count the epochs of what holds something that came or went, and was not written itself (decision 8)."""
        moved = {_holder(key) for key, one in self.compared.items() if one.op in ("insert", "delete") and not _is_root(key)}
        grows = {}
        for key in moved:
            one = self.compared.get(key) or (unchanged(self.state[key]) if key in self.state else None)
            if one is not None and one.stored is not None and one.op not in ("insert", "update", "delete"):
                grows[key] = one
        declared = self.log.declared(
            {key: one for key, one in grows.items() if not one.has_text and OVER_HTTP not in one.document_uris}
        )
        for key, one in grows.items():
            has_epoch, has_modifiedat = declared.get(key, (False, False))
            if one.has_text:
                has_epoch, has_modifiedat = one.declared_epoch is not None, one.declared_modifiedat is not None
            after = grown(one, self.now, declares_epoch=has_epoch, declares_modifiedat=has_modifiedat)
            if after is not one:
                self.compared[key] = after
        return bool(grows)

    def _settle_defaults(self) -> None:
        """Make `isdefault` of Versions what their published message or schema says (decision 7)."""
        touched = {_resource(key) for key, one in self.compared.items() if _is_resource(key) and one.may_move_default}
        if not touched:
            return
        versions: defaultdict[Key, list[Key]] = defaultdict(list)
        for key in dict.fromkeys([*self.compared, *self.state]):
            if key.kind in _VERSION_KINDS and _resource(key) in touched:
                versions[_resource(key)].append(key)
        for resource in touched:
            named = self._default_of(resource)
            for key in versions[resource] if named is not None else ():
                is_default = last_id(key.xid) == named
                before = self.compared.get(key) or unchanged(self.state[key])
                after = with_default(before, is_default=is_default)
                if after.flipped and after.document_uri is None:
                    after = replace(after, content_hash=self.log.hash_with_default(key, after, is_default=is_default))
                if after is not before:
                    self.compared[key] = after

    def _default_of(self, resource: Key) -> str | None:
        """Return the Version that a message or schema names, as it will be published; empty: none; None: it is not published."""
        one = self.compared.get(resource)
        if one is not None:
            return (one.defaultversionid or "") if one.op != "delete" else ""
        stored = self.state.get(resource)
        return None if stored is None else stored.defaultversionid or ""

    def compared_frame(self) -> DataFrame | None:
        """Return the comparison for the rules between entities; None: all is new, and published as it says."""
        return None if self.is_all_new else _compared_frame(self.spark, self.compared)

    def plan(self, found: DataFrame) -> Plan:
        """Plan what was decided.

        Args:
            found: findings other than those of the stage, also of no document; columns as for `compare`.

        Raises:
            PruneRefused: pruning would delete more than half of the registries' entities.
        """
        self.has_grown = self._grow_holders()
        return _Writer(self).plan(found.collect())


class _Writer:
    """Writes down what was decided: rows of the log, facts of documents, findings."""

    def __init__(self, planner: Planner) -> None:
        self.planner = planner
        self.compared = planner.compared
        self.known, self.gone, self.state = planner.known, planner.gone, planner.state

    def plan(self, found: list[Row]) -> Plan:
        planner = self.planner
        counts: dict[str, dict[str, int]] = {table.name: {} for table in ENTITY_TABLES}
        for (table, outcome), n in Counter(map(_outcome, self.compared.items())).items():
            counts[table][outcome] = n
        findings = [(key, report) for key, one in self.compared.items() for report in reports(one, is_registry=_is_root(key))]
        rows = [self._finding(key, report) for key, report in findings]
        kept = self._kept()
        if unknown := sorted({uri.document_uri for uri in kept or () if uri not in self.known}):
            planner.load_known(F.col("xid").isin(unknown))
        facts = self._facts([*found, *map(_as_row, rows)], kept)
        documents = self._documents(facts, kept)
        if self.planner.policy.prune and not self.planner.policy.force:
            self._guard_prune(counts)
        changed = ((key, one) for key, one in self.compared.items() if one.op is not None)
        digest = folded(
            (*key, one.op, one.content_hash, one.epoch, one.createdat, one.modifiedat, one.document_uris) for key, one in changed
        )
        digest ^= folded((*uri[:1], "document", uri[1], op, body) for uri, op, body in documents)
        return Plan(
            self.planner.head,
            self.planner.committed_at,
            self.planner.known_frame,
            _compared_frame(planner.spark, self.compared),
            _frame(planner.spark, rows, _FOUND),
            _facts_frame(planner.spark, facts),
            _documents_frame(planner.spark, documents),
            counts,
            len(documents),
            f"{digest:016x}",
            self.planner.is_all_new
            and not self.planner.head.deletions
            and not any(one.flipped for one in self.compared.values()),
            sum(bool(one.displaced) for one in self.compared.values()),
        )

    def _kept(self) -> dict[Uri, Any] | None:
        """Return what documents keep of the plan; None: no dispute there was or is."""
        broken = [claim for claim in self.planner.refused.claims if claim.document_uri not in self._owners(claim.key)]
        told = any(is_reported(one) for one in self.compared.values())
        if not told and not self.planner.disputes and not self.planner.refused.claims:
            return None
        after = [(key, each) for key, one in self.compared.items() for each in disputes_after(one, is_registry=_is_root(key))]
        after += [(one.key, one.dispute) for one in self.planner.disputes if one.dispute.holds and one.is_read]
        waiting = {Said(one.dispute.document_uri, one.key) for one in self.planner.disputes if one.dispute.holds}
        after += [(claim.key, Dispute(claim.document_uri, None)) for claim in broken if claim not in waiting]
        return by_document(after)

    def _owners(self, key: Key) -> tuple[str, ...]:
        stored = self.state.get(key)
        return () if stored is None else stored.document_uris

    def _facts(self, findings: Iterable[Row], kept: Mapping[Uri, Any] | None) -> dict[Uri, Facts]:
        """Return the facts of the documents that were read."""
        ids: defaultdict[Uri, set[str]] = defaultdict(set)
        refused: defaultdict[Uri, set[tuple[str, str | None]]] = defaultdict(set)
        for row in findings:
            uri = Uri(row["registryid"], row["document_uri"])
            ids[uri].add(row["finding"]["violation_id"])
            if row["finding"]["action"] == "quarantined" and row["kind"] in TABLE_OF_KIND:
                refused[uri].add((TABLE_OF_KIND[row["kind"]].name, row["xid"]))
        after = {
            uri: completed(facts, ids.get(uri, ()), refused.get(uri, ()))
            for uri, facts in self.planner.documents.items()
            if facts["status"] != "unchanged"
        }
        if kept is not None:
            after = {uri: facts | {"disputes": disputes_of(kept.get(uri))} for uri, facts in after.items()}
        return after

    def _documents(self, facts: Mapping[Uri, Facts], kept: Mapping[Uri, Any] | None) -> list[tuple[Uri, str, str | None]]:
        """Return the documents whose facts differ from those of their last load, and those that are gone: op, body."""
        rows: list[tuple[Uri, str, str | None]] = []
        for uri, own in facts.items():
            before = self.known.get(uri)
            dialect = own.get("dialect")
            if dialect is None and own["status"] == "rejected" and before is not None:
                dialect = before.get("dialect")  # what it said before is still published, and so is the dialect of that
            body = as_json(own | {"dialect": dialect})
            if before is None or body != as_json(before):
                rows.append((uri, "insert" if before is None else "update", body))
        rows += [(uri, "delete", None) for uri in self.gone]
        for uri, one in (kept or {}).items():
            if uri not in facts and uri not in self.gone and uri in self.known:
                rows.append((uri, "update", as_json(added_to(uri, self.known[uri], one))))
        return rows

    def _guard_prune(self, counts: dict[str, dict[str, int]]) -> None:
        """Refuse to delete over half of the entities of the registries concerned (decision 4)."""
        deleted = sum(ops.get("delete", 0) for ops in counts.values())
        concerned = {key.registryid for key, one in self.compared.items() if one.op == "delete"}
        published = sum(key.registryid in concerned for key in self.state)
        if deleted * 2 > published:
            raise PruneRefused(deleted, published)

    def _finding(self, key: Key, report: Report) -> dict[str, Any]:
        """Return a report as a finding of the document that it is about."""
        uri, action = report.document_uri, report.action
        values = {
            "violation_id": violation_id(key.registryid, uri, report.rule_id, key.xid, WHOLE, report.message, action),
            "pointer": "",
            "rule_id": report.rule_id,
            "severity": report.severity,
            "action": action,
            "message": report.message,
            "hint": REPORT_HINTS[report.rule_id],
            "raw": self.planner.texts.get(Said(uri, key)) if action == "quarantined" else None,
        }
        return {"row": "finding", "document_uri": uri, **key._asdict(), "finding": values}


def _compared_frame(spark: SparkSession, compared: Mapping[Key, Verdict]) -> DataFrame:
    rows = [
        key._asdict()
        | {
            "op": one.op,
            "refused": one.refused,
            "document_uri": one.document_uri,
            "content_hash": one.content_hash,
            "epoch": one.epoch,
            "createdat": one.createdat,
            "modifiedat": one.modifiedat,
            "document_uris": one.document_uris,
            "isdefault": one.isdefault,
            "stored_in": None if one.stored is None else one.stored.snapshot_id,
            "stored_content_hash": None if one.stored is None else one.stored.content_hash,
            "flipped": one.flipped,
            "agreed": [{"document_uri": claim.document_uri} for claim in one.agreed],
            "displaced": one.displaced,
        }
        for key, one in compared.items()
    ]
    return _frame(spark, rows, _COMPARED)


def _facts_frame(spark: SparkSession, facts: Mapping[Uri, Facts]) -> DataFrame:
    texts = [{"registryid": uri.registryid, "xid": uri.document_uri, "facts": as_json(own)} for uri, own in facts.items()]
    schema = StructType([StructField(name, StringType()) for name in ("registryid", "xid", "facts")])
    return _frame(spark, texts, schema).withColumn("facts", F.from_json("facts", DOCUMENT_BODY))


def _documents_frame(spark: SparkSession, documents: list[tuple[Uri, str, str | None]]) -> DataFrame:
    rows = [
        {"registryid": uri.registryid, "kind": "document", "xid": uri.document_uri, "op": op, "body": body}
        for uri, op, body in documents
    ]
    return _frame(spark, rows, _DOCUMENTS)


def _keys(spark: SparkSession, keys: Iterable[Key]) -> DataFrame:
    return _frame(spark, [key._asdict() for key in keys], StructType([CHANGES[name] for name in KEY]))


def _frame(spark: SparkSession, rows: list[dict[str, Any]], schema: StructType) -> DataFrame:
    return spark.createDataFrame(pa.Table.from_pylist(rows, to_arrow_schema(schema, timezone="UTC")))


def _has_disputes() -> Column:
    return F.coalesce(F.size("facts.disputes") > 0, F.lit(False))


def _claim(row: Row) -> Claim:
    names = ("document_uri", "content_hash", "twin_hash", *LIFE, "isdefault", "defaultversionid")
    return Claim(again=bool(row["again"]), **{name: row[name] for name in names})


def _state(state: DataFrame) -> dict[Key, Published]:
    micros = [F.unix_micros(name).alias(name) if name in ("createdat", "modifiedat") else name for name in STATE]
    found = {}
    for row in state.select(*KEY, "content_hash", *micros, "isdefault", "defaultversionid").collect():
        registryid, kind, xid, content_hash, epoch, createdat, modifiedat, uris, snapshot_id, isdefault, named = row
        stored = Published(content_hash, epoch, createdat, modifiedat, tuple(uris or ()), snapshot_id, isdefault, named)
        found[Key(registryid, kind, xid)] = stored
    return found


def _parsed(facts: JsonText) -> Facts:
    names = set(DOCUMENT_BODY.names)
    return {name: value for name, value in read_canonical(facts).items() if name in names and value is not None}


def _facts(row: Row) -> Facts:
    return {name: value for name, value in _plain(row.asDict(recursive=True)).items() if value is not None}


def _plain(facts: dict[str, Any]) -> dict[str, Any]:
    disputes = facts.get("disputes")
    if disputes is not None:
        facts["disputes"] = [{name: value for name, value in one.items() if value is not None} for one in disputes]
    return facts


def _refused_in(findings: Iterable[Row]) -> Iterable[Said]:
    for row in findings:
        if row["finding"]["action"] == "quarantined" and row["kind"] in TABLE_OF_KIND and row["xid"] is not None:
            yield Said(row["document_uri"], Key(row["registryid"], row["kind"], row["xid"]))


def _as_row(finding: dict[str, Any]) -> Row:
    return Row(**finding)


def _holder(key: Key) -> Key:
    """Return what holds an entity: a message or schema, a group or endpoint, or the registry."""
    xid = holder_of(key.xid)
    if key.kind in _VERSION_KINDS:
        return Key(key.registryid, _RESOURCE_KIND[key.kind], xid)
    if xid == "/":
        return Key(key.registryid, "registry", xid)
    return Key(key.registryid, "endpoint" if xid.startswith("/endpoints/") else "group", xid)


def _is_root(key: Key) -> bool:
    return key.kind == "registry"


def _is_resource(key: Key) -> bool:
    return key.kind in VERSION_KIND or key.kind in _VERSION_KINDS


def _resource(key: Key) -> Key:
    """Return the message or schema of a Version, or itself."""
    if key.kind not in _VERSION_KINDS:
        return key
    return Key(key.registryid, _RESOURCE_KIND[key.kind], xid_of_resource(key.xid))


def _outcome(item: tuple[Key, Verdict]) -> tuple[str, str]:
    key, one = item
    return TABLE_OF_KIND[key.kind].name, one.op or ("unchanged" if one.refused is None else "refused")
