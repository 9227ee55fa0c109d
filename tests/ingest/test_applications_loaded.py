"""AsyncAPI documents of two applications that share a broker: one group, no conflict; files that they refer to are read again."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from builders import rows
from conftest import Catalog

from lakehouse.asyncapi.following import OpenedFile
from lakehouse.ingest.parse.parse import read_as

GROUP = "/messagegroups/kafka.lamps.switched"
SWITCHED = {
    "title": "A lamp was switched",
    "contentType": "application/json",
    "payload": {"$ref": "schemas/lamp.json#/Lamp"},
    "examples": [{"payload": {"id": "a1"}}],
}
MESSAGE = SWITCHED | {"messageId": "LampSwitched"}
FILE = {"Lamp": {"type": "object", "required": ["id"], "properties": {"id": {"type": "string"}}}}
LAMPS: dict[str, Any] = {
    "asyncapi": "3.0.0",
    "info": {"title": "Lamps", "version": "1"},
    "servers": {"bus": {"host": "bus.example:9092", "protocol": "kafka"}},
    "channels": {"switched": {"address": "lamps.switched", "messages": {"LampSwitched": SWITCHED}}},
    "operations": {"tell": {"action": "send", "channel": {"$ref": "#/channels/switched"}}},
}
PANEL: dict[str, Any] = {
    "asyncapi": "2.6.0",
    "info": {"title": "Panel", "version": "1"},
    "servers": {"broker": {"url": "bus.example:9092", "protocol": "kafka"}},
    "channels": {"lamps.switched": {"publish": {"operationId": "show", "message": MESSAGE}}},
}


def test_what_both_applications_say_of_a_channel_is_the_same():
    lamps, panel = (
        read_as(one, [], "a.json", None, open_file={"schemas/lamp.json": OpenedFile(FILE)}.__getitem__)[1]
        for one in (LAMPS, PANEL)
    )
    shared = rows(lamps).keys() & rows(panel).keys()
    assert {xid for xid in shared if xid.startswith(GROUP)} == {
        GROUP,
        f"{GROUP}/messages/LampSwitched",
        f"{GROUP}/messages/LampSwitched/versions/1",
    }
    assert [xid for xid in shared if xid != "/" and rows(lamps)[xid].body != rows(panel)[xid].body] == []


@pytest.mark.slow
def test_who_sends_what_another_application_reads_and_a_file_that_changed(catalog: Catalog):
    catalog.write("lamps.json", LAMPS)
    catalog.write("panel.json", PANEL)
    catalog.write("schemas/lamp.json", FILE)
    catalog.ingest()
    assert catalog.rows("SELECT * FROM violations WHERE rule_id = 'DOC-001'") == []
    senders = f"SELECT endpointid FROM endpoints WHERE usage = array('producer') AND array_contains(messagegroups, '{GROUP}')"
    assert catalog.rows(senders) == ["lamps.tell"]
    assert catalog.ingest().snapshot_id is None  # read again, and nothing of it changed
    changed = copy.deepcopy(FILE)
    changed["Lamp"]["properties"]["room"] = {"type": "string"}
    catalog.write("schemas/lamp.json", changed)
    assert catalog.ingest().snapshot_id == 2
    assert catalog.rows("SELECT count(*) FROM schemaversions WHERE schema LIKE '%room%'") == [1]
