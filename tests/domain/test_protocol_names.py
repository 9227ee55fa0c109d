"""Protocols and envelopes: the same, another, or more precise; Spark's columns and views decide as the functions do."""

from __future__ import annotations

from itertools import product

import pytest
from builders import group
from pyspark.sql import functions as F

from lakehouse.dialects.tables import family_of
from lakehouse.domain.protocols import (
    has_other_options,
    is_as_precise,
    is_other_envelope,
    is_other_protocol,
    nearer_envelope,
)
from lakehouse.log.snapshots import open_relations
from lakehouse.readmodel import open_model
from lakehouse.readmodel.flattened import messages_of
from lakehouse.rules.relational.candidaterows import family
from lakehouse.store.views import with_read

PROTOCOLS = [
    None, "", "None",
    "MQTT", "mqtt", "MQTT/5.0", "MQTT /5.0", " MQTT/ 5.0 ", "MQTT/5", "MQTT/3.1.1", "AMQP", "AMQP/1.0", "AMQP/1.0/x",
    "HTTP", "HTTP/1.1", "http/2", "KAFKA", "Kafka/0.11", "NATS/1.0.0", "Own", "Own/1", "Own/1.0", "own/2", "Own/1/a", "Own/1/b",
]  # fmt: skip
ENVELOPES = [
    None,
    "CloudEvents",
    "CloudEvents/1.0",
    "cloudevents/1.0",
    "CloudEvents/1.0.2",
    "CloudEvents/1.0-rc1",
    "CloudEvents/1.1",
]
ENVELOPES += ["Own/1/a", "Own/1/b", "CloudEventsX"]


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("MQTT", "MQTT/5.0", False),
        ("MQTT/5", "MQTT/5.0", False),
        ("MQTT /5.0", "MQTT/5.0", False),
        ("MQTT/3.1.1", "MQTT/5.0", True),
        ("AMQP", "amqp/1.0", False),
        ("AMQP/1.0/x", "AMQP/1.0", True),
        ("Kafka/0.11", "KAFKA", False),
        ("HTTP/1.1", "HTTP/2", False),
        ("Own/1", "Own/2", True),
        ("KAFKA", "NATS", True),
        ("None", "KAFKA", False),
        (None, "KAFKA", False),
    ],
)
def test_what_is_another_protocol(one, other, expected):
    assert is_other_protocol(one, other) is is_other_protocol(other, one) is expected


def test_what_options_are_inherited_of():
    assert not has_other_options("MQTT", "MQTT/5")
    assert has_other_options("MQTT/3.1.1", "MQTT/5.0")
    assert not has_other_options("Own/1", "Own/2")
    assert not has_other_options("None", "KAFKA")
    assert not has_other_options(None, "KAFKA")


def test_what_is_another_envelope():
    assert not is_other_envelope("CloudEvents", "CloudEvents/1.0")
    assert is_other_envelope("CloudEvents/1.0", "CloudEvents/1.1")
    assert is_other_envelope("Own/1/a", "Own/1/b")
    assert nearer_envelope("CloudEvents/1.0", "CloudEvents") == "CloudEvents/1.0"
    assert nearer_envelope("CloudEvents/1.0", None) == "CloudEvents/1.0"
    assert nearer_envelope("CloudEvents/1.0", "Other") == "Other"


def test_what_is_as_precise_as_an_endpoint():
    assert is_as_precise("CloudEvents/1.0.2", "CloudEvents/1.0")
    assert is_as_precise("CloudEvents/1.0", "cloudevents")
    assert not is_as_precise("CloudEvents", "CloudEvents/1.0")
    assert not is_as_precise("CloudEventsX", "CloudEvents")
    assert is_as_precise(None, "CloudEvents/1.0")


def test_families_are_read_by_spark_as_by_the_function(spark):
    read = spark.createDataFrame([(one,) for one in PROTOCOLS], "protocol string")
    for row in read.select("protocol", family("protocol").alias("family")).collect():
        assert (row["protocol"], row["family"]) == (row["protocol"], family_of(row["protocol"]))


def test_views_decide_as_the_functions_do(catalog, tmp_path):
    """What endpoints carry, and what is inherited of a base with another protocol or envelope."""
    written = [name for name in PROTOCOLS if name not in (None, "", "None")]  # `None` is read as no protocol
    options = {"protocoloptions": {"any": {"value": "x"}}}
    bases = {f"b{i}": {"protocol": name} | options for i, name in enumerate(written)}
    bases |= {f"e{i}": {"envelope": name, "envelopemetadata": {"a": {"value": "x"}}} for i, name in enumerate(ENVELOPES) if name}
    pairs = [(one, other) for one in (0, 1, 4, 7, 12, 17) for other in range(len(written))]
    envelopes = list(product(range(1, len(ENVELOPES)), repeat=2))
    based = {
        f"p{one}-{other}": {"protocol": written[other], "basemessage": f"/messagegroups/g/messages/b{one}"}
        for one, other in pairs
    }
    based |= {
        f"q{one}-{other}": {"envelope": ENVELOPES[other], "basemessage": f"/messagegroups/g/messages/e{one}"}
        for one, other in envelopes
    }
    endpoints = {
        f"e{i}": {"usage": ["producer"], "protocol": name, "messagegroups": ["/messagegroups/g"]}
        for i, name in enumerate(written)
    }
    endpoints |= {
        f"f{i}": {"usage": ["producer"], "envelope": name, "messagegroups": ["/messagegroups/g"]}
        for i, name in enumerate(ENVELOPES)
        if name
    }
    catalog.settings = catalog.settings.model_copy(
        update={"check_relations": False, "refresh_effective": True, "readmodel_dir": str(tmp_path / "cache")}
    )
    catalog.write("a.json", {"messagegroups": {"g": group(bases | based)}, "endpoints": endpoints})
    catalog.ingest()
    schema = open_relations(catalog.spark, catalog.settings, with_read(["flat_messages", "endpoint_messages"]))
    loaded = {row.messageid: row for row in catalog.spark.table(f"{schema}.flat_messages").collect()}
    for prefix, one, other, inherits in (
        *(("p", one, other, not has_other_options(written[one], written[other])) for one, other in pairs),
        *(("q", one, other, not is_other_envelope(ENVELOPES[one], ENVELOPES[other])) for one, other in envelopes),
    ):
        message = loaded.get(f"{prefix}{one}-{other}")
        if message is not None and loaded.get(f"{'b' if prefix == 'p' else 'e'}{one}") is not None:
            pointer = "/protocoloptions/any/value" if prefix == "p" else "/envelopemetadata/a/value"
            assert (message.messageid, pointer in message.attributes) == (message.messageid, inherits)
    carried = catalog.spark.table(f"{schema}.endpoint_messages").select(
        "endpoint_xid", "messageid", "protocol", "envelope", "matches"
    )
    known = {row.xid: row for row in catalog.spark.table(f"{schema}.endpoints").select("xid", "protocol", "envelope").collect()}
    rows = carried.where(F.col("messageid").rlike("^[be]")).collect()
    assert len(rows) > 500
    for row in rows:
        endpoint = known[row.endpoint_xid]
        expected = not is_other_protocol(row.protocol, endpoint.protocol) and is_as_precise(row.envelope, endpoint.envelope)
        assert (row.protocol, endpoint.protocol, row.envelope, endpoint.envelope, row.matches) == (
            row.protocol,
            endpoint.protocol,
            row.envelope,
            endpoint.envelope,
            expected,
        )
    with open_model(catalog.settings) as model, model.at() as view:
        endpoints = [view.entity("default", xid) for xid in known]
        shown = {(row["endpoint_xid"], row["messageid"]): row["matches"] for one in endpoints for row in messages_of(view, one)}
    assert {(row.endpoint_xid, row.messageid): row.matches for row in rows}.items() <= shown.items()
