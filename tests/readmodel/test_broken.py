"""A change within a schema names the endpoints at which it breaks producers or consumers."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from lakehouse.domain.diff import differences
from lakehouse.readmodel.broken import with_endpoints

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


def told(versionid: str, before: str, after: str) -> str:
    """Return what is said of a Version whose document changed."""
    key = ("r", "schemaversion", f"{SCHEMA}/versions/{versionid}")
    (one,) = differences(*({key: {"/format": '"Avro/1.11"', "/schema": AVRO % fields}} for fields in (before, after)))
    return with_endpoints(Catalog(), one).told


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
    assert told(versionid, before, after).endswith(end)


def test_a_change_that_breaks_nobody_names_no_endpoint():
    assert told("2", A, A + ',{"name":"c","type":"int","default":0}') == "/c: came: int with a default."
