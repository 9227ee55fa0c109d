"""What came over HTTP, and Spark: digests, tables that follow, documents that meet it, the rules between entities."""

from __future__ import annotations

import shutil
from datetime import timedelta
from random import Random

import pytest
from serve.writing import EVENT, asks, ignore

from lakehouse.domain.ownership import Policy
from lakehouse.ingest.parse.document import read_document
from lakehouse.ingest.pipeline import IngestRequest
from lakehouse.log.commits import read_head
from lakehouse.log.plan import rows_digest as rows_digest_by_spark
from lakehouse.log.projections import roll_forward
from lakehouse.operations.digestcheck import Link, check_chain
from lakehouse.operations.doctor import diagnose
from lakehouse.readmodel import open_model
from lakehouse.rules.declared import RULES
from lakehouse.serve.apierrors import ProblemFound
from lakehouse.serve.write.effects import find_broken
from lakehouse.serve.write.overlay import CatalogOverlay, OverlayRow
from lakehouse.serve.writer.append import DeltaAppender, SparkAppender, arrow_rows, rows_digest
from lakehouse.serve.writer.process import Batches, head_of
from lakehouse.store.deltatables import attach_log
from lakehouse.store.keys import OVER_HTTP

DOCUMENT = {
    "specversion": "1.0-rc2",
    "messagegroups": {"g": {"name": "G", "messages": {"a": EVENT, "b": EVENT | {"name": "b"}}}},
}
WRITES = [
    asks("PUT", "/messagegroups/g/messages/mine", EVENT | {"name": "Ä", "labels": {"a": "b"}}),
    asks("POST", "/messagegroups/g/messages/mine", EVENT | {"name": "second"}),
    asks("PUT", "/endpoints/e", {"usage": ["producer"], "protocol": "KAFKA"}),
    asks("PUT", "/schemagroups/s/schemas/t$details", {"schema": {"type": "object"}}),
    asks("DELETE", "/messagegroups/g/messages/mine/versions/1"),
]


def batches_of(catalog, tmp_path, appender=None):
    settings = catalog.settings.model_copy(update={"readmodel_dir": str(tmp_path / "cache")})
    model = open_model(settings)
    return Batches(model, appender or DeltaAppender(model.location, model.settings), attempts=5)


def shown(catalog, query):
    return catalog.spark.sql(query).collect()


@pytest.mark.slow
def test_tables_follow_what_was_written(catalog, tmp_path):
    catalog.write("a.json", DOCUMENT)
    catalog.ingest()
    # When requests are committed without Spark
    batches = batches_of(catalog, tmp_path)
    snapshot_id, results = batches.commit(WRITES, ignore)
    assert [one for one in results if isinstance(one, ProblemFound)] == []
    # Then the log is whole, and the tables take it
    assert check_chain(catalog.spark.table("changes"), Link(), deep=True) == (Link(2, read_head(catalog.spark).digest), [])
    roll_forward(catalog.spark, read_head(catalog.spark), settings=catalog.settings)
    assert catalog.rows("SELECT messageid FROM messages ORDER BY 1") == ["a", "b", "mine"]
    assert catalog.rows("SELECT versionid, epoch, document_uris FROM versions WHERE message_xid LIKE '%/mine'") == [
        ("2", 2, [OVER_HTTP])
    ]
    commands = "SELECT get_json_object(body, '$.command') FROM changes WHERE kind = 'snapshot' ORDER BY snapshot_id"
    assert (snapshot_id, catalog.rows(commands)) == (2, ["ingest", "serve"])


@pytest.mark.slow
def test_tables_take_every_snapshot_that_was_written_before_they_followed(catalog, tmp_path):
    """Each of several commits touches other tables, and the last only one of them."""
    catalog.write("a.json", DOCUMENT)
    catalog.ingest()
    batches = batches_of(catalog, tmp_path)
    for writing in (
        asks("PATCH", "/messagegroups/own", {"name": "first"}),
        asks("PATCH", "/messagegroups/own", {"name": "second"}),
        *WRITES,
        asks("PUT", "/messagegroups/own/messages/last", EVENT),
        asks("PATCH", "/messagegroups/own/messages/last", {"description": "only a Version"}),
    ):
        _, [result] = batches.commit([writing], ignore)
        assert not isinstance(result, ProblemFound)
    written = read_head(catalog.spark)
    assert min(written.tables.values()) < written.snapshot_id - 1
    # When an ingest comes before the tables followed
    catalog.write("b.json", {"specversion": "1.0-rc2", "messagegroups": {"own": {"messages": {"of-a-document": EVENT}}}})
    catalog.ingest()
    # Then the tables hold all that was written, and no epoch fell
    assert [one for one in diagnose(catalog.spark, catalog.settings, deep=True) if one.state == "error"] == []
    assert catalog.rows("SELECT schemaid FROM schemas") == ["t"]
    rows = catalog.rows(
        "SELECT snapshot_id, epoch FROM changes WHERE xid = '/messagegroups/own' AND op <> 'own' ORDER BY snapshot_id"
    )
    epochs = [epoch for _, epoch in rows]
    assert epochs == sorted(epochs)
    assert epochs[-1] > 1


def test_both_ways_to_append_write_the_same(catalog, tmp_path):
    attach_log(catalog.spark, catalog.settings)
    batches = batches_of(catalog, tmp_path)
    with batches.model.at() as view:
        planned = batches._plan(view, WRITES)
    rows = arrow_rows(planned.changes)
    by_spark = catalog.spark.createDataFrame(rows).agg(rows_digest_by_spark()).collect()[0]["digest"]
    assert rows_digest(rows) == f"{by_spark & (2**64 - 1):016x}"
    # When Spark appends
    batches_of(catalog, tmp_path, SparkAppender(catalog.spark)).commit(WRITES, ignore)
    # Then the chain holds, and the log has what delta-rs writes
    columns = "kind, xid, op, content_hash, epoch, document_uris, body, raw, map_entries(attributes)"
    query = f"SELECT {columns} FROM changes WHERE kind <> 'snapshot' ORDER BY kind, xid"
    first = shown(catalog, query)
    assert check_chain(catalog.spark.table("changes"), Link(), deep=True)[1] == []
    other = tmp_path / "other"
    shutil.copytree(catalog.settings.warehouse, other)
    again = asks("PATCH", "/messagegroups/g", {"description": "x"})
    batches_of(catalog, tmp_path).commit([again], ignore)
    assert len(shown(catalog, query)) == len(first) + 1
    assert check_chain(catalog.spark.table("changes"), Link(), deep=True)[1] == []


@pytest.mark.slow
def test_an_ingest_prunes_nothing_that_came_over_http(catalog, tmp_path):
    catalog.write("a.json", DOCUMENT)
    catalog.ingest()
    batches_of(catalog, tmp_path).commit([WRITES[0]], ignore)
    # When the document drops the group that holds the message
    catalog.write("a.json", {"specversion": "1.0-rc2", "messagegroups": {"other": {}}})
    catalog.ingest(request=IngestRequest(policy=Policy(prune=True, force=True)))
    # Then the message and its group are there, and the document's are not
    assert catalog.rows("SELECT xid FROM messages") == ["/messagegroups/g/messages/mine"]
    assert catalog.rows("SELECT groupid FROM groups ORDER BY 1") == ["g", "other"]


@pytest.mark.slow
def test_a_document_that_meets_what_came_over_http_takes_it_over(catalog, tmp_path):
    batches_of(catalog, tmp_path).commit([asks("PUT", "/messagegroups/g/messages/a", EVENT | {"name": "mine"})], ignore)
    attach_log(catalog.spark, catalog.settings)
    catalog.write("a.json", DOCUMENT)
    summary = catalog.ingest()
    assert summary.snapshot_id == 2
    assert catalog.rows("SELECT rule_id FROM violations WHERE rule_id LIKE 'DOC%' GROUP BY 1") == ["DOC-002"]
    assert catalog.rows("SELECT count(*) FROM versions WHERE name = 'mine'") == [0]
    # And from then on it is the document's
    _, results = batches_of(catalog, tmp_path).commit([asks("PATCH", "/messagegroups/g/messages/a", {"name": "x"})], ignore)
    assert results[0].name == "readonly"


# The rules between entities


def a_message(random):
    """Return a message whose values fit together or not."""
    message = {}
    for name, values in {
        "envelope": [None, None, "CloudEvents/1.0", "CloudEvents/1.1", "Other/1", "CloudEvents/1.0.2", "Own/1/b"],
        "envelopemetadata": [None, {"type": {"value": "x"}}],
        "protocol": [None, None, "MQTT/5.0", "MQTT", "MQTT /5.0", "MQTT/5", "KAFKA", "AMQP/1.0", "AMQP/1.0/x"],
        "protocoloptions": [None, {"properties": {}}],
        "basemessage": [
            None,
            *(f"/messagegroups/g/messages/{one}" for one in ("based", "deep", "bare", "new", "named/versions/1", "own")),
            "/messagegroups/x/messages/y",
        ],
        "dataschemaxid": [None, "/schemagroups/s/schemas/t", "/schemagroups/s/schemas/none", "/schemagroups/none/schemas/t"],
        "dataschemauri": [None, None, "https://e.example/s", "#/schemagroups/s/schemas/t"],
        "dataschemaformat": [None, "Avro/1.9"],
    }.items():
        if (value := random.choice(values)) is not None:
            message[name] = value
    return message


def a_catalog(random):
    """Return a document in which nothing is broken, and the same with one message, alias or endpoint written again."""
    base = {
        "specversion": "1.0-rc2",
        "messagegroups": {
            "g": {
                "messages": {
                    "plain": EVENT,
                    "based": {"basemessage": "/messagegroups/g/messages/plain"},
                    "deep": {"basemessage": "/messagegroups/g/messages/based"},
                    "bare": {"name": "x"},
                    "named": {"meta": {"xref": "/messagegroups/g/messages/new"}},
                    "own": {"envelope": "Own/1/a", "envelopemetadata": {"a": {"value": "x"}}},
                }
            },
            "a": {"protocol": "AMQP/1.0"},
            "h": {"envelope": "CloudEvents/1.0", "messages": {"m": EVENT}},
            "p": {"protocol": "MQTT/5.0", "messages": {"q": {"protocol": "MQTT/5.0", "protocoloptions": {"topic_name": "t"}}}},
        },
        "endpoints": {"e": {"usage": ["producer"], "protocol": "KAFKA", "envelope": "CloudEvents/1.0"}},
        "schemagroups": {"s": {"schemas": {"t": {"versions": {"1": {"format": "Avro", "schema": "x"}}}}}},
    }
    message = a_message(random)
    holder, members = random.choice(
        [("messagegroups", base["messagegroups"][one]) for one in "ghpa"] + [("endpoints", base["endpoints"]["e"])]
    )
    new = {"base": base, "members": members, "collection": holder}
    kind = random.random()
    if kind < 0.05:  # an endpoint that names groups, of which two have a message with the same id
        base["messagegroups"]["h"]["messages"] |= {random.choice(["plain", "other"]): EVENT}
        named = [f"/messagegroups/{one}" for one in random.sample("ghp", 2)]
        return {"base": base, "members": base["endpoints"], "changed": ("n", {"usage": ["producer"], "messagegroups": named})}
    if kind < 0.15:
        target = random.choice(
            ["/messagegroups/g/messages/plain", "/messagegroups/p/messages/q", "/messagegroups/g/messages/none"]
        )
        new["changed"] = ("new", {"meta": {"xref": target}})
    elif kind < 0.3:
        new["changed"] = (random.choice(["Plain", "BARE", "M", "new"]), message)
    elif kind < 0.5 and members is base["messagegroups"]["g"]:
        new["changed"] = ("plain", message | {"basemessage": "/messagegroups/g/messages/based"})
    elif kind < 0.8 and members is base["messagegroups"]["g"]:  # over an alias of itself
        new["changed"] = ("new", message | {"basemessage": "/messagegroups/g/messages/named/versions/1"})
    else:
        new["changed"] = ("new", message)
    return new


def test_the_rules_between_entities_are_those_of_an_ingest(catalog, tmp_path):
    """Random messages into small catalogs, each a registry: what is refused here is refused in an ingest, by the same rules."""
    limits = {"check_relations": True, "duplicate_messageids": "error", "max_chain_depth": 2}
    settings = catalog.settings.model_copy(update=limits | {"readmodel_dir": str(tmp_path / "cache")})
    random, reported = Random(7), {}
    for number in range(80):
        reported[f"r{number}"] = a_catalog(random)
    for name, one in reported.items():
        catalog.write(f"{name}.json", one["base"] | {"registryid": name})
    catalog.ingest(settings=settings)
    found = set()
    with open_model(settings) as model, model.at() as view:
        head = head_of(view)
        for name, one in reported.items():
            messageid, message = one["changed"]
            is_endpoint = one["members"] is one["base"]["endpoints"]
            (one["members"] if is_endpoint else one["members"].setdefault("messages", {}))[messageid] = message
            document = one["base"] | {"registryid": name}
            catalog.write(f"{name}.json", document)
            working = CatalogOverlay(view, 0)
            reading = read_document(document, [], "1.0-rc2")
            if any(finding.severity == "error" for finding in reading.findings):
                continue
            mark = working.mark()
            for row in reading.rows:
                before = working.row(name, row.xid)
                if before is None or before.content_hash != row.content_hash:
                    working.put(
                        name, OverlayRow(row.kind, row.xid, row.content_hash, 1, 0, 0, (), row.body, row.raw, row.attributes)
                    )
            found |= {
                (name, broken.xid.split("/versions/")[0], broken.rule_id)
                for broken in find_broken(working, name, working.since(mark), settings)
            }
        assert head.next_moment() - head.committed_at > timedelta(0)
    catalog.ingest(settings=settings)
    rules = ", ".join(f"'{one}'" for one in sorted(RULES))
    expected = catalog.rows(
        f"SELECT registryid, split_part(xid, '/versions/', 1), rule_id FROM violations WHERE severity = 'error' "
        f"AND action = 'quarantined' AND rule_id IN ({rules}) AND rule_id <> 'MSG-115' AND registryid LIKE 'r%'"
    )
    errors = {
        name
        for name, one in reported.items()
        if any(f.severity == "error" for f in read_document(one["base"], [], "1.0-rc2").findings)
    }
    assert found == {tuple(one) for one in expected if one[0] not in errors}
    assert len({rule for _, _, rule in found}) >= 8  # the cases are not empty
