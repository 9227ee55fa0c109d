"""A change within a schema names the endpoints at which it breaks producers or consumers."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from lakehouse.domain.diff import differences
from lakehouse.query.differences import diff_files
from lakehouse.readmodel.queries import with_endpoints
from lakehouse.settings import read_settings

SCHEMA, PLACED, BASED = "/schemagroups/g/schemas/s", "/messagegroups/orders/messages/placed", "/messagegroups/more/messages/based"
ENTITIES = {
    SCHEMA: {"defaultversionid": "2"},
    "/messagegroups/orders": {},
    "/messagegroups/more": {},
    "/endpoints/in": {"usage": ["producer"]},
    "/endpoints/out": {"usage": ["consumer", "subscriber"]},
    "/endpoints/other": {"usage": ["producer", "consumer"]},
}
REFERENCES = [  # what refers, by which attribute, to what
    (f"{PLACED}/versions/1", "dataschemauri", SCHEMA),
    (f"{BASED}/versions/1", "basemessage", PLACED),
    ("/endpoints/in", "messagegroups", "/messagegroups/orders"),
    ("/endpoints/out", "messagegroups", "/messagegroups/more"),
    ("/messagegroups/far/messages/m/versions/1", "dataschemauri", f"{SCHEMA}/versions/1"),
    ("/endpoints/other", "messagegroups", "/messagegroups/far"),
]
AVRO = '{"type":"record","name":"O","fields":[%s]}'
A, B = '{"name":"a","type":"int"}', '{"name":"b","type":"int"}'


class Catalog:
    def entity(self, registryid, xid):
        kind = "endpoint" if xid.startswith("/endpoints/") else "group"
        return SimpleNamespace(xid=xid, kind=kind, attributes=ENTITIES[xid]) if xid in ENTITIES else None

    def referring_to(self, registryid, xid):
        named = [one for one in REFERENCES if one[2] == xid]
        return [SimpleNamespace(source_xid=source, relation=relation, target=target) for source, relation, target in named]


def reported(versionid: str, before: str, after: str) -> str:
    """Return what is said of a Version whose document changed."""
    key = ("r", "schemaversion", f"{SCHEMA}/versions/{versionid}")
    (one,) = differences(*({key: {"/format": '"Avro/1.11"', "/schema": AVRO % fields}} for fields in (before, after)))
    return with_endpoints(Catalog(), one).meaning


@pytest.mark.parametrize(
    ("versionid", "before", "after", "end"),
    [
        ("2", A, f"{A},{B}", "It breaks producers at /endpoints/in."),  # the default Version: of messages that name the schema
        ("2", f"{A},{B}", A, "It breaks consumers at /endpoints/out."),  # of a message that is based on such a one, too
        ("1", A, f"{A},{B}", "It breaks producers at /endpoints/other."),  # named as a Version
        ("3", A, f"{A},{B}", "as it has no default."),  # nobody uses it
    ],
)
def test_a_change_names_the_endpoints_at_which_it_breaks_someone(versionid, before, after, end):
    assert reported(versionid, before, after).endswith(end)


def test_a_change_that_breaks_nobody_names_no_endpoint():
    assert reported("2", A, A + ',{"name":"c","type":"int","default":0}') == "/c: came: int with a default."


def test_differences_of_documents_name_the_endpoints_of_the_later_ones(tmp_path):
    def document(*fields: str) -> str:
        version = {"format": "Avro/1.11", "schema": json.loads(AVRO % ",".join(fields))}
        group = {"messages": {"placed": {"dataschemaformat": "Avro/1.11", "dataschemauri": SCHEMA}}}
        endpoints = {"in": {"usage": ["producer"], "messagegroups": ["/messagegroups/orders"]}, "apart": {"usage": ["producer"]}}
        schemas = {"g": {"schemas": {"s": {"versions": {"1": version}}}}}
        members = {"endpoints": endpoints, "messagegroups": {"orders": group}, "schemagroups": schemas}
        return json.dumps({"specversion": "1.0-rc2", "registryid": "shop", **members})

    for name, fields in (("old", (A,)), ("new", (A, B))):
        (tmp_path / f"{name}.json").write_text(document(*fields), encoding="utf-8")
    found = diff_files(read_settings(), str(tmp_path / "old.json"), str(tmp_path / "new.json"))
    (one,) = [one for one in found if one.kind == "schemaversion"]
    assert one.meaning.endswith("as it has no default. It breaks producers at /endpoints/in.")
