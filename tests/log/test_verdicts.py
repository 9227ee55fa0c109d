"""The driver and Spark's joins decide alike who defines an entity: thousands of random entities in one query each."""

from __future__ import annotations

from random import Random

import pyarrow as pa
import pytest
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, StringType, StructField, StructType

from lakehouse.domain.ownership import Claim, Dispute, Policy, Published, verdict
from lakehouse.log.baseline import OPTIONAL, STATE
from lakehouse.log.owners import VERDICT, _row, claims_of, gather_facts, with_verdict
from lakehouse.store.keys import KEY
from lakehouse.store.schema import CHANGES, DISPUTE, STAGE, arrow_schema_of
from lakehouse.text.problems import CONFLICT, OWNER_CHANGED, REGAINED, STALE

URIS = ["a", "b", "c", "d"]
HASHES = ["h1", "h2", "h3"]
NOW = 1_700_000_000_000_000
ENTITIES = 3000


class Case:
    """An entity, what documents say of it, what is published, what documents said before."""

    def __init__(self, random: Random, number: int) -> None:
        self.kind = random.choice(["registry", "message", "version", "version"])
        self.xid = f"/x/{number}"
        is_version = self.kind == "version"
        self.claims = [self._claim(random, uri, is_version) for uri in URIS if random.random() < 0.45]
        owners = tuple(uri for uri in URIS if random.random() < 0.4)
        self.stored = None
        if random.random() < 0.75:
            self.stored = Published(
                random.choice(HASHES), random.randint(1, 4), NOW - 5, NOW - random.randint(1, 4), owners, 3,
                random.choice([True, False]) if is_version else None,
            )  # fmt: skip
        self.dropped = tuple(uri for uri in owners if random.random() < 0.3) if self.stored else ()
        self.disputes = [
            Dispute(uri, random.choice([*HASHES, None]), random.choice([None, CONFLICT, STALE, OWNER_CHANGED, REGAINED]), "b",
                    random.choice([True, False]))
            for uri in URIS if random.random() < 0.3
        ]  # fmt: skip
        if self.stored and self.claims and random.random() < 0.3:  # one document alone, which mostly says what is published
            self.claims, self.dropped, self.disputes = self.claims[:1], (), []
            said = random.choice([self.claims[0].content_hash, self.claims[0].content_hash, "h1"])
            self.stored = self.stored._replace(document_uris=(self.claims[0].document_uri,), content_hash=said)
        self.is_declared = random.random() < 0.3
        self.deleted_epoch = random.choice([None, 7])

    @staticmethod
    def _claim(random: Random, uri: str, is_version: bool) -> Claim:
        dates = (random.choice([None, NOW - 5, NOW - 6]), random.choice([None, NOW - 2, NOW - 9]))
        said = random.choice(HASHES)
        twin = random.choice([one for one in HASHES if one != said]) if is_version and random.random() < 0.5 else None
        flag = random.choice([True, False]) if is_version else None
        return Claim(uri, said, twin, random.choice([None, 1, 3, 9]), *dates, random.choice([True, False]), flag, None)


def frame(spark, rows, schema):
    return spark.createDataFrame(pa.Table.from_pylist(rows, arrow_schema_of(schema)))


@pytest.mark.parametrize(("prune", "on_conflict"), [(False, "update"), (True, "refuse")])
def test_the_driver_and_spark_decide_alike(spark, prune, on_conflict):
    random = Random(20 + prune)
    cases = [Case(random, number) for number in range(ENTITIES)]
    cases = [one for one in cases if one.claims or one.dropped]
    policy = Policy(prune=prune, on_conflict=on_conflict)
    decided = {one.xid: by_driver(one, policy) for one in cases}
    found = {row["xid"]: row for row in by_spark(spark, cases, policy)}
    assert found.keys() == decided.keys()
    expected = {xid: _row({"registryid": "r", "kind": kind, "xid": xid}, one) for xid, (kind, one) in decided.items()}
    assert all(row.keys() == set(VERDICT.names) for row in expected.values())
    differing = {
        (name, str(value), str(plain(found[xid])[name]))
        for xid, row in expected.items()
        for name, value in plain(row).items()
        if plain(found[xid])[name] != value
    }
    assert not differing, sorted(differing)[:5]
    verdicts = [one for _, one in decided.values()]
    assert {one.op for one in verdicts} == {None, "insert", "update", "own"} | ({"delete"} if prune else set())
    assert any(one.displaced for one in verdicts)
    assert any(one.joined for one in verdicts)
    assert any(one.taken_from for one in verdicts) is (on_conflict == "update")
    assert any(one.regained for one in verdicts)
    assert any(row["is_single_insert"] for row in found.values())
    assert sum(row["is_repeated"] for row in found.values()) > 50


def by_driver(case, policy):
    return case.kind, verdict(
        case.claims, case.stored, case.disputes, policy=policy, now=NOW, dropped=case.dropped,
        is_registry=case.kind == "registry", is_declared=policy.prune and case.is_declared, deleted_epoch=case.deleted_epoch,
    )  # fmt: skip


def plain(row):
    values = row if isinstance(row, dict) else row.asDict(recursive=True)
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


def by_spark(spark, cases, policy):
    key = {one.xid: {"registryid": "r", "kind": one.kind, "xid": one.xid} for one in cases}
    staged = [
        key[one.xid] | {"row": "entity"} | claim._asdict() for one in cases for claim in one.claims
    ]  # fmt: skip
    stage = frame(spark, [{name: row.get(name) for name in STAGE.names} for row in staged], STAGE)
    optional = [StructField(name, kind) for name, kind in OPTIONAL.items()]
    stored = StructType([*(CHANGES[name] for name in (*KEY, "content_hash", *STATE)), *optional])
    state = frame(spark, [key[one.xid] | one.stored._asdict() for one in cases if one.stored], stored)
    keys = StructType([CHANGES[name] for name in KEY])
    dropped = frame(
        spark, [key[one.xid] | {"dropped": list(one.dropped)} for one in cases if one.dropped],
        StructType([*keys, StructField("dropped", ArrayType(StringType()))]),
    )  # fmt: skip
    deleted = frame(
        spark, [key[one.xid] | {"epoch": one.deleted_epoch} for one in cases if one.deleted_epoch],
        StructType([*keys, CHANGES["epoch"]]),
    )  # fmt: skip
    said_schema = StructType([CHANGES["registryid"], *DISPUTE]).add("document_uri", "string").add("remains", "boolean")
    said = frame(
        spark,
        [key[one.xid] | each._asdict() | {"remains": each.remains} for one in cases for each in one.disputes],
        said_schema,
    )  # fmt: skip
    protected = frame(spark, [key[one.xid] for one in cases if one.is_declared], keys) if policy.prune else None
    entities = gather_facts(claims_of(stage), dropped, state, deleted, said, protected)
    rows = with_verdict(entities, policy=policy, now=NOW)
    dates = ("createdat", "modifiedat", "stored_modifiedat")
    return rows.withColumns({name: F.unix_micros(name) for name in dates}).collect()
