"""References to schemas in all their spellings: who reads one reads it as the others do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from builders import document, group
from render.definitions import NOW

from lakehouse.domain.references import schema_places
from lakehouse.match import Index, Matcher, MatchRequest, Payloads, Schemas
from lakehouse.match.definition.scope import Scope, read_catalog
from lakehouse.match.event.captured import landed_of_text
from lakehouse.render import Renderer, RenderInput, RenderStyle, bindings_of
from lakehouse.settings import data_folder
from match.catalogs import load
from match.stored import model_of, write_catalog

NUMBER, TEXT = (
    {"type": "object", "required": ["n"]},
    {"definitions": {"T": {"type": "object", "required": ["t"]}, "a/b": {"type": "null"}}},
)
SCHEMAS = {"my~s": NUMBER, "a@b": NUMBER, "plain": NUMBER, "with:colon": NUMBER, "parts": TEXT}
G = "/schemagroups/g/schemas"
FOUND: dict[str, tuple[str, str | None]] = {  # the XID that a spelling leads to, and the type that it names
    f"{G}/plain": (f"{G}/plain", None),
    f"#{G}/plain": (f"{G}/plain", None),
    f" #{G}/plain": (f"{G}/plain", None),
    f"\t #{G}/plain": (f"{G}/plain", None),
    f"{G}/plain/versions/1": (f"{G}/plain/versions/1", None),
    f"#{G}/plain/versions/1": (f"{G}/plain/versions/1", None),
    f"{G}/my~s": (f"{G}/my~s", None),
    f"#{G}/my~0s": (f"{G}/my~s", None),
    f"#{G}/my%7Es/versions/1": (f"{G}/my~s/versions/1", None),
    f"#{G}/my%7E0s": (f"{G}/my~s", None),
    f"#{G}/a%40b": (f"{G}/a@b", None),
    f"{G}/a@b": (f"{G}/a@b", None),
    f" #{G}/a%40b/versions/1:Type": (f"{G}/a@b/versions/1", "Type"),
    f"{G}/with:colon": (f"{G}/with:colon", None),
    f"#{G}/with%3Acolon": (f"{G}/with:colon", None),
    f"{G}/with:colon:Type": (f"{G}/with:colon", "Type"),
    f"{G}/plain:Type": (f"{G}/plain", "Type"),
    f"#{G}/plain/versions/1:Type": (f"{G}/plain/versions/1", "Type"),
    "/schemaGroups/g/schemas/plain": (f"{G}/plain", None),
    "#/schemaGroups/g/schemas/plain#": (f"{G}/plain", ""),
    f"{G}/parts#/definitions/T": (f"{G}/parts", "/definitions/T"),
    f"#{G}/parts/versions/1#/definitions/a~1b": (f"{G}/parts/versions/1", "/definitions/a~1b"),
}  # fmt: skip
LOST = {
    f"{G}/my~0s": "dangling", f"{G}/a%40b": "dangling", f"{G}/none": "dangling", f"#{G}/plain/versions/9": "dangling",
    f" {G}/plain": "external", f"https://other.example{G}/plain": "external", "plain": "external",
}  # fmt: skip
EVENT = {"specversion": "1.0", "id": "1", "type": "T", "source": "/s", "data": 7}


def a_message(reference: str) -> dict[str, Any]:
    metadata = {"type": {"value": "T"}}
    return {
        "envelope": "CloudEvents/1.0",
        "envelopemetadata": metadata,
        "dataschemauri": reference,
        "dataschemaformat": "JSONSchema/draft-07",
    }


def a_document(*references: str) -> dict[str, Any]:
    held = {name: {"versions": {"1": {"format": "JSONSchema/draft-07", "schema": text}}} for name, text in SCHEMAS.items()}
    messages = {f"m{number}": a_message(reference) for number, reference in enumerate(references)}
    return document({"g": group(messages)}, schemagroups={"g": group(held, holds="schemas")})


def payload_status(reference: str) -> str:
    rows, schemas = load({"r": a_document(reference)})
    [landed] = landed_of_text(json.dumps(EVENT).encode())
    [row] = Matcher(Index.of(rows), Payloads(Schemas(schemas)), MatchRequest()).rows(landed)
    return str(row["payload_status"])


@pytest.mark.parametrize("reference", FOUND)
def test_matching_finds_the_schema(reference):
    assert payload_status(reference) == "invalid"  # 7 is of none of them
    assert FOUND[reference][0].partition("/versions/")[0] in [place.schema for place in schema_places(reference)]


@pytest.mark.parametrize("reference", LOST)
def test_matching_finds_none(reference):
    assert payload_status(reference) == "schema_unresolved"


def test_a_place_behind_the_path_keeps_its_escapes():
    [place] = schema_places(f"#{G}/parts/definitions/a~1b")
    assert (place.schema, place.version, place.place) == (f"{G}/parts", None, "/definitions/a~1b")
    assert payload_status(f"#{G}/parts/definitions/a~1b") == "invalid"  # it is of type null


def test_rendering_finds_the_schema():
    for reference in FOUND:
        rows, schemas = load({"r": a_document(reference)})
        [way] = bindings_of(rows[0], (), ["CLOUDEVENTS"])
        made = Renderer(Schemas(schemas), RenderStyle(example=True, now=NOW)).render(way, RenderInput({}))
        found = (made.payload_status, [one for one in made.remarks if "not in the catalog" in one])
        assert found == ("valid", []), reference
    for reference in LOST:
        rows, schemas = load({"r": a_document(reference)})
        [way] = bindings_of(rows[0], (), ["CLOUDEVENTS"])
        remarks = Renderer(Schemas(schemas), RenderStyle(example=True, now=NOW)).render(way, RenderInput({})).remarks
        assert any("not in the catalog" in one for one in remarks), reference


def test_the_read_model_finds_the_schema(tmp_path: Path):
    references = [*FOUND, *LOST]
    model = model_of(write_catalog(tmp_path / "w", {"r": a_document(*references)}))
    with model.at() as view:
        reported = {}
        for version in (
            one for number in range(len(references)) for one in view.versions("r", f"/messagegroups/g/messages/m{number}")
        ):
            reported |= {one.target: one for one in view.references_of(version) if one.relation == "dataschemauri"}
        assert {one: (reported[one].target_xid, reported[one].type_name) for one in FOUND} == FOUND
        assert {one: reported[one].status for one in references} == dict.fromkeys(FOUND, "resolves") | LOST
        catalog = read_catalog(view, Scope())  # what matching reads of it, without the others
        assert {one.schema_xid.rpartition("/")[2] for one in catalog.schemas} == SCHEMAS.keys()


def test_the_view_finds_the_schema(spark):
    references = [*FOUND, *LOST]
    rows = [("r", f"/messagegroups/g/messages/m{number}/versions/1", one) for number, one in enumerate(references)]
    versions = spark.createDataFrame(rows, "registryid STRING, xid STRING, dataschemauri STRING")
    versions = versions.selectExpr("*", "CAST(NULL AS STRING) AS basemessage", "CAST(NULL AS STRING) AS dataschemaxid")
    known = [("r", f"{G}/{name}{version}") for name in SCHEMAS for version in ("", "/versions/1")]
    xids = spark.createDataFrame(known, "registryid STRING, xid STRING").selectExpr("*", "CAST(NULL AS STRING) AS xref")
    none = xids.limit(0)
    ends = none.selectExpr("*", "CAST(array() AS ARRAY<STRING>) AS messagegroups", "CAST(NULL AS STRING) AS protocoloptions")
    schemaversions = none.selectExpr("*", "CAST(NULL AS STRING) AS extensions")
    made = {"versions": versions, "schemas": xids, "endpoints": ends, "schemaversions": schemaversions}
    made |= dict.fromkeys(("messages", "groups"), none)
    text = (data_folder("ddl") / "views" / "entity_references.sql").read_text(encoding="utf-8")
    _, _, query = text.rstrip().removesuffix(";").partition("\nAS\n")
    names = {name: f"referring_{name}" for name in made}
    for name, frame in made.items():
        frame.createOrReplaceTempView(names[name])
        query = query.replace(f" FROM {name}\n", f" FROM {names[name]}\n")
        query = query.replace(f"\n  FROM {name}\n", f"\n  FROM {names[name]}\n")
    reported = {row["target"]: row for row in spark.sql(query).collect()}
    assert {one: (reported[one]["target_xid"], reported[one]["type_name"]) for one in FOUND} == FOUND
    assert {one: reported[one]["status"] for one in references} == dict.fromkeys(FOUND, "resolves") | LOST
