"""Small work is interpreted and other work compiled: both give the same."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from builders import document, group
from pyspark.sql import SparkSession

from lakehouse.store.session import is_without_codegen, open_sibling, without_codegen
from lakehouse.store.views import create_views

COMPILED = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}
EVENT = {"envelope": "CloudEvents/1.0", "envelopemetadata": {"type": {"value": "t"}, "tenant": {"type": "string"}}}
BASE = "/messagegroups/g/messages/event"
SHOP = document(
    {
        "g": group(
            {
                "event": EVENT,
                "mqtt": {"basemessage": BASE, "protocol": "MQTT/5.0", "protocoloptions": {"topic_name": "a/{b}", "qos": 1}},
                "leaf": {
                    "basemessage": "/messagegroups/g/messages/mqtt",
                    "labels": {"a": "1", "b~/": "2"},
                    "name": 'with "quotes"',
                },
                "nowhere": {"basemessage": "/messagegroups/g/messages/none"},
                "round": {"basemessage": "/messagegroups/g/messages/round"},
                "alias": {"meta": {"xref": BASE}},
                "bad": {"envelope": 5},
            }
        )
    },
    {"e": {"usage": ["producer"], "protocol": "MQTT/5.0", "messagegroups": ["/messagegroups/g"]}},
)
VIEWS = ("flat_messages", "endpoint_messages")


@contextmanager
def compiled(spark: SparkSession) -> Iterator[None]:
    before = {key: str(spark.conf.get(key)) for key in COMPILED}
    try:
        for key, value in COMPILED.items():
            spark.conf.set(key, value)
        yield
    finally:
        for key, value in before.items():
            spark.conf.set(key, value)


def load(catalog, registry: str) -> dict[str, list[str]]:
    """Load the shop into a registry, and give what the tables and views then say of it."""
    as_shipped = {"registry": registry, "refresh_effective": True, "check_relations": True}
    catalog.ingest(settings=catalog.settings.model_copy(update=as_shipped))
    create_views(catalog.spark, catalog.settings, "xregistry", VIEWS)
    found = {}
    for name in ("messages", "versions", "endpoints", "effective_messages", "violations", *VIEWS):
        rows = catalog.spark.table(f"xregistry.{name}").filter(f"registryid = '{registry}'")
        left_out = ("registryid", "snapshot_id", "createdat", "modifiedat", "violation_id", "ingest_id", "found_at")
        found[name] = sorted(str(row) for row in rows.drop(*left_out).collect())
    return found


@pytest.mark.slow
def test_compiled_and_interpreted_work_give_the_same(catalog):
    catalog.write("shop.json", SHOP)
    catalog.settings = catalog.settings.model_copy(update={"interpreted_rows": 0, "planner": "spark"})
    with without_codegen(catalog.spark, True):
        assert is_without_codegen(catalog.spark)
        one = load(catalog, "one")
    with compiled(catalog.spark):
        assert not is_without_codegen(catalog.spark)
        two = load(catalog, "two")
    assert one == two
    assert [len(one[name]) for name in ("messages", "flat_messages", "effective_messages")] == [5, 5, 5]


def test_siblings_are_like_the_session_that_opens_them(spark):
    with compiled(spark):
        with without_codegen(spark, wanted=True):
            assert is_without_codegen(open_sibling(spark, "default"))
        assert not is_without_codegen(open_sibling(spark, "default"))
        with without_codegen(spark, wanted=False):
            assert not is_without_codegen(open_sibling(spark, "default"))
