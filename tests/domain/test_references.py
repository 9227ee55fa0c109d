"""What a reference names: one Python function for each question, and columns that say the same of every spelling."""

from __future__ import annotations

import random

import pytest
from pyspark.sql import functions as F

from lakehouse.domain.references import is_self_url, leads_within, schema_places, spelled
from lakehouse.export.selection import edges_of
from lakehouse.store.xids import group_of, id_in, is_fragment, message_of, named_entities, spelled_xid, without_version
from lakehouse.text.xid import last_id, split_version, xid_of_group, xid_of_resource

G = "/schemagroups/g/schemas"
SPELLINGS = [
    f"{G}/s", f"#{G}/s", f" #{G}/s", f"\t#{G}/s", f"#\t{G}/s", f" {G}/s", f"#{G}/my~0s", f"{G}/my~0s", f"#{G}/my~01s",
    f"#{G}/a%40b", f"{G}/a%40b", f"#{G}/a+b", f"#{G}/a%2Bb", f"#{G}/a%zz", f"#{G}/a%4", f"#{G}/a%C3%A4", f"#{G}/a%FF",
    f"#{G}/a%2Fb", f"{G}/s:T", f"#{G}/a:b:C", f"{G}/s/versions/1:T", f"{G}/s/versions/1", f"{G}/s#T",
    f"#{G}/s#/definitions/x", f"{G}/s/versions/2#T", "/schemaGroups/g/schemas/t", "#/schemaGroups/g/schemas/t:T",
    "/schemagroups/g", "#/schemagroups/g", "/", "#", "#/", "", " ", "s", "/messagegroups/g/messages/m",
    "/messagegroups/g/messages/m/versions/1", "/endpoints/e/messages/versions/versions/v:1",
    "/messagegroups/g/messages/m/versions", "/messagegroups/g/messages/m/versions/", "/messagegroups/g/messages/m/others/1",
    f"{G}/s/versions/1/x/y", "https://example.com/schemagroups/g/schemas/t", "s.json#/definitions/x",
    "#%2Fschemagroups/g/schemas/s",
]  # fmt: skip
PARTS = [
    "/",
    "/",
    "#",
    ":",
    "~0",
    "~1",
    "%40",
    "%7E",
    "%",
    " ",
    "+",
    "s",
    "g",
    "schemagroups",
    "schemaGroups",
    "schemas",
    "versions",
    "1",
]


def generated(count: int) -> list[str]:
    """Make up spellings: of pieces, and of right ones with a piece put in."""
    choose = random.Random(48)
    found = []
    for _ in range(count):
        if choose.random() < 0.3:
            found.append("".join(choose.choices(PARTS, k=choose.randrange(12))))
        else:
            at = choose.choice(SPELLINGS)
            cut = choose.randrange(len(at) + 1)
            found.append(at[:cut] + choose.choice(PARTS) + at[cut:])
    return found


@pytest.mark.parametrize(
    ("reference", "is_within"),
    [
        ("/schemagroups/g/schemas/s", True), ("/schemaGroups/g/schemas/s", True), ("#/definitions/x", True),
        (" #/schemagroups/g", True),
        ("#fragment", False), ("/other/s", False), ("s.json", False), ("https://example.com/schemagroups/g/schemas/s", False),
    ],
)  # fmt: skip
def test_a_reference_leads_into_its_own_registry_or_not(reference, is_within):
    assert leads_within(reference) is is_within


@pytest.mark.parametrize(
    ("reference", "xid"),
    [
        ("#/schemagroups/g/schemas/my~0s", f"{G}/my~s"), ("#/schemagroups/g/schemas/a%40b", f"{G}/a@b"), (f" #{G}/s", f"{G}/s"),
        ("/schemaGroups/g/schemas/s", f"{G}/s"), (f"https://example.com/r{G}/a%40b", f"{G}/a@b"), (f"{G}/s:T", f"{G}/s"),
        (f"{G}/s/versions/1", f"{G}/s"), (f"{G}/s#T", f"{G}/s"), (f"https://example.com{G}/s?inline=x", f"{G}/s"),
    ],
)  # fmt: skip
def test_a_reference_is_the_self_url_of_an_entity(reference, xid):
    assert is_self_url(reference, xid)
    assert not is_self_url(reference, xid + "s")
    assert not is_self_url(reference, xid + "/versions/2")


def test_columns_read_every_spelling_as_the_functions_do(spark):
    texts = list(dict.fromkeys([*SPELLINGS, *generated(600)]))
    columns = {
        "whole": spelled_xid("text"), "fragment": is_fragment("text"), "named": named_entities(spelled_xid("text")),
        "group": group_of("text"), "id": id_in("text"), "unversioned": without_version("text"), "resource": message_of("text"),
    }  # fmt: skip
    rows = spark.createDataFrame([(one,) for one in texts], "text STRING").withColumns(columns).collect()
    for row in rows:
        text = row["text"]
        assert row["whole"] == spelled(text).whole, text
        assert row["fragment"] is text.lstrip(" ").startswith("#"), text
        assert row["unversioned"] == split_version(text)[0], text
        assert row["resource"] == xid_of_resource(text), text
        assert row["group"] == xid_of_group(text), text
        assert row["id"] == last_id(text), text
        named = [place.version or place.schema for place in schema_places(text)]
        assert [one for one in named if one not in (row["named"] or ())] == [], text
    assert {row["text"] for row in rows} == set(texts)


def test_an_export_takes_the_schema_along_however_it_is_spelled(spark):
    spellings = {
        f"#{G}/my~0s": f"{G}/my~s",
        f"#{G}/a%40b": f"{G}/a@b",
        "/schemaGroups/g/schemas/s:T": f"{G}/s",
        f"{G}/s/versions/1": f"{G}/s",
    }
    state = spark.createDataFrame([(one,) for one in spellings], "text STRING").select(
        F.lit("version").alias("kind"),
        F.lit("/messagegroups/g/messages/m/versions/1").alias("xid"),
        F.to_json(F.struct(F.col("text").alias("dataschemauri"))).alias("body"),
    )
    found = {row["target"] for row in edges_of(state).collect() if row["source"] == "/messagegroups/g/messages/m"}
    assert set(spellings.values()) <= found
