"""Flattening of the published samples: every message, every base reference, the oracle, and what `lakehouse show` reports."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import Catalog as Loaded
from oracle import Catalog, flatten
from soak.sessions import forget
from test_flattening import flat, nested

from lakehouse.errors import MessageNotFound
from lakehouse.query.sql import run_query
from lakehouse.readmodel import open_model
from lakehouse.readmodel.detail import show_messages

SAMPLES = Path(__file__).parents[3] / "shared" / "samples"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not SAMPLES.is_dir(), reason="the published samples are not next to this checkout"),
]


@pytest.fixture(scope="module")
def loaded(spark, tmp_path_factory) -> Iterator[Loaded]:
    catalog = Loaded(spark, tmp_path_factory.mktemp("samples"))
    catalog.settings = catalog.settings.model_copy(update={"refresh_effective": True})
    catalog.ingest(SAMPLES, registry_from="document")
    yield catalog
    forget(spark, Path(catalog.settings.warehouse))


def query(loaded: Loaded, text: str) -> list[dict[str, Any]]:
    return [json.loads(row) for row in run_query(loaded.spark, loaded.settings, text).json_rows()]


def test_all_messages_are_there_and_all_bases_resolve(loaded):
    counted = query(loaded, "SELECT chain_status, chain_depth, count(*) AS n FROM flat_messages GROUP BY ALL ORDER BY ALL")
    assert [tuple(row.values()) for row in counted] == [("none", 0, 214), ("resolved", 1, 131)]
    counted = query(loaded, "SELECT status, count(*) AS n FROM entity_references WHERE relation = 'basemessage' GROUP BY ALL")
    assert counted == [{"status": "resolves", "n": 131}]


def test_the_oracle_agrees(loaded):
    registries: dict[str, Catalog] = {}
    for row in query(loaded, "SELECT registryid, xid, body FROM changes WHERE kind = 'message'"):
        default = json.loads(row["body"])["defaultversionid"]
        registries.setdefault(row["registryid"], {})[row["xid"]] = {"default": default, "versions": {}}
    for row in query(loaded, "SELECT registryid, xid, body FROM changes WHERE kind = 'version'"):
        body = json.loads(row["body"])
        xid, _, versionid = row["xid"].rpartition("/versions/")
        registries[row["registryid"]][xid]["versions"][versionid] = {**body.pop("extensions", {}), **body}
    expected = {(registryid, xid): flatten(catalog, xid) for registryid, catalog in registries.items() for xid in catalog}
    assert len(expected) == 345
    assert flat(loaded.spark) == expected


def test_references_to_schemas_in_all_their_spellings(loaded):
    (counted,) = query(
        loaded,
        """
        SELECT count_if(target LIKE '%:Payload' AND type_name = 'Payload' AND target_xid LIKE '%/v1.0') AS suffixed,
               count_if(target LIKE '%#%#%' AND type_name LIKE '/definitions/%' AND status = 'resolves') AS fragments,
               count_if(type_name = 'messages/STATEDeath') AS nested, count_if(status = 'external') AS external
        FROM entity_references WHERE relation = 'dataschemauri'
        """,
    )
    assert min(counted["suffixed"], counted["fragments"], counted["nested"]) >= 1
    assert query(
        loaded, "SELECT count(*) AS n FROM entity_references WHERE relation = 'messagegroups' AND status = 'dangling'"
    ) == [{"n": 1}]


def test_show_prints_where_the_attributes_of_a_variant_come_from(loaded):
    base = "/messagegroups/IO.AISstream/messages/IO.AISstream.Interrogation"
    xid = "/messagegroups/IO.AISstream.amqp/messages/IO.AISstream.amqp.Interrogation"
    with open_model(loaded.settings) as model, model.at() as view:
        (shown,) = show_messages(view, xid)
    assert (shown.message["chain_status"], shown.message["protocol"]) == ("resolved", "AMQP/1.0")
    assert [step["base_version_xid"] for step in shown.chain] == [f"{base}/versions/1"]
    reported = {row["pointer"]: row for row in shown.attributes}
    assert reported["/envelopemetadata/type/value"] == {
        "pointer": "/envelopemetadata/type/value",
        "value": '"IO.AISstream.Interrogation"',
        "origin": "inherited",
        "declared_by": f"{base}/versions/1",
        "depth": 1,
    }
    assert reported["/protocol"]["origin"] == "declared"
    assert reported["/envelopemetadata/specversion/value"]["origin"] == "inferred"
    assert [row["status"] for row in shown.schema] == ["resolves"]
    assert any(row["protocol"] == "AMQP/1.0" for row in shown.endpoints)
    assert set(shown.as_json()) >= {"xid", "chain", "attributes", "endpoints", "schema"}
    assert nested({"/a": "1"}) == {"a": 1}


def test_what_is_not_there_is_reported(loaded):
    with open_model(loaded.settings) as model, model.at() as view, pytest.raises(MessageNotFound, match="no such message"):
        show_messages(view, "/messagegroups/g/messages/none")
