"""A protocol is rows of the tables: a made-up one works in every part of the product."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# What CONTRIBUTING.md names under "Add a protocol", of one that lacks a usual version, defaults and options for one role only.
ROWS = {
    "dialects/data/protocols.csv": [
        "PIGEON,1 2,,pigeon,,,,topic,required,,,,topic,topic loft,ring:loft,PIG-003,,,",
        "STORK,,,stork,,,,topic,,,,,topic,,,PIG-003,,,",
    ],
    "dialects/data/dialects.csv": [
        "message,protocoloptions,PIGEON,loft,declaration,PIG-001,,,,,home_loft",
        "message,protocoloptions,PIGEON,topic,declaration,PIG-001,,,,,",
        "endpoint,protocoloptions,PIGEON,ring,plain,PIG-002,,,,,",
        *(
            f"message,protocoloptions,STORK,{name},declaration,PIG-001,,,,,"
            for name in ("topic", "key", "key_base64", "partition")
        ),
    ],
    "dialects/data/option_defaults.csv": ['PIGEON,consumer,ring,"""red""",PIG-002'],
    "asyncapi/data/asyncapi_families.csv": ["PIGEON,pigeon,,topic"],
    "asyncapi/data/asyncapi_protocols.csv": ["pigeon,PIGEON,pigeon,,,,"],
    "rules/data/constraints.csv": [
        "message,PIGEON,protocoloptions,loft,PIG-001,typed,uritemplate string,",
        "endpoint,PIGEON,protocoloptions,ring,PIG-002,oneof,blue red,",
    ],
    "rules/data/rules.csv": [
        'PIG-001,rule,,error,versions,made up,"PIGEON options `loft`, `topic`: where the pigeon flies.",Write a text.',
        "PIG-002,rule,,error,endpoints,made up,`ring` is blue or red.,Choose one.",
        "PIG-003,rule,,error,endpoints,made up,Addresses of pigeons begin with pigeon://.,Write pigeon://roof.",
    ],
    "rules/data/examples.csv": [
        'PIG-002,endpoint,"{""protocol"": ""PIGEON"", ""protocoloptions"": {""ring"": ""green""}}",'
        '"{""protocol"": ""PIGEON"", ""protocoloptions"": {""ring"": ""blue""}}"',
    ],
}

DOCUMENT = {
    "specversion": "1.0-rc2",
    "messagegroups": {
        "g": {
            "messages": {
                "flies": {"protocol": "PIGEON/2", "protocoloptions": {"home_loft": "{city}/north", "topic": "letters"}},
                "sits": {"protocol": "pigeon", "protocoloptions": {"loft": 7}},
            }
        }
    },
    "endpoints": {
        "roof": {
            "usage": ["consumer"],
            "protocol": "PIGEON/2",
            "protocoloptions": {"endpoints": [{"uri": "pigeon://roof"}], "ring": "blue"},
            "messagegroups": ["/messagegroups/g"],
        },
        "cellar": {"usage": ["consumer"], "protocol": "PIGEON", "protocoloptions": {"ring": "green"}},
        "wire": {"usage": ["consumer"], "protocol": "PIGEON", "protocoloptions": {"endpoints": [{"uri": "nats://wire:1"}]}},
    },
}

PROGRAM = """
import json
from lakehouse import Catalog
from lakehouse.rules import RULES

with Catalog("warehouse") as catalog:
    catalog.ingest("pigeons.json")
    message = catalog.sql('''
        SELECT protocol_family, protocol_version, address, attributes['/protocoloptions/loft/value'] AS loft
        FROM flat_messages WHERE messageid = 'flies' ''').collect()[0]
    carried = catalog.sql('''
        SELECT endpoint_xid, protocol_family, matches, options FROM endpoint_messages WHERE messageid = 'flies' ''').collect()
    catalog.export("out.json")
    print(json.dumps({
        "message": message.asDict(),
        "carried": [one.asDict() for one in carried],
        "findings": sorted((one.rule_id, *(example["xid"] for example in one.examples)) for one in catalog.violations()),
        "rules": {name: rule.severity for name, rule in RULES.items() if name.startswith("PIG")},
    }))
"""

MATCHING = """
import json
from lakehouse.match.definition.compiled import ADDRESSES
from lakehouse.match.event.canonical import SECTIONS, captured_by
from lakehouse.render.protocolbinding import Endpoint
from lakehouse.render.filling import _ADDRESSES, _OPTIONS

roof = Endpoint("r", "/endpoints/roof", protocol="PIGEON/2", options={"ring": "blue"})
print(json.dumps({
    "sections": SECTIONS["PIGEON"], "address": ADDRESSES["PIGEON"], "needed": _ADDRESSES["PIGEON"], "may": _OPTIONS["PIGEON"],
    "captured": sorted(captured_by("PIGEON", set())), "endpoint": roof.flat_attributes(),
}))
"""


GUESSING = """
import json
from lakehouse.dialects.tables import family_of, family_of_options
from lakehouse.domain.bases import merged
from lakehouse.domain.effective import columns_of

print(json.dumps({
    "named": [family_of("stork"), family_of("Pigeon/2")],
    "guessed": [family_of_options({"topic": "t", "key": "k"}), family_of_options({"topic": "t", "loft": "l"})],
    "address": columns_of({"/protocoloptions/topic/value": '"t"'})["address"],
    "merged": sorted(merged([{"/protocoloptions/key/value": '"k"'}, {"/protocoloptions/key_base64/value": '"aw=="'}])),
}))
"""


ASYNCAPI = """
import json
from lakehouse.asyncapi.inward import convert
from lakehouse.asyncapi.outward import write_asyncapi

message = {"protocol": "PIGEON/2", "protocoloptions": {"topic": {"value": "letters"}}}
roof = {
    "usage": ["consumer"], "protocol": "PIGEON/2", "protocoloptions": {"endpoints": [{"uri": "pigeon://roof"}]},
    "messages": {"m": message},
}
written = write_asyncapi({"endpoints": {"roof": roof}}).document
foreign = json.loads(json.dumps(written).replace("x-xregistry", "x-none"))
print(json.dumps({
    "server": written["servers"]["roof"], "address": [one["address"] for one in written["channels"].values()],
    "read": [one["messages"].get("m", {}).get("protocoloptions") for one in convert(foreign).document["messagegroups"].values()],
    "endpoint": [one["protocol"] for one in convert(foreign).document["endpoints"].values()],
}))
"""


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package in which the protocol is declared."""
    folder = tmp_path_factory.mktemp("house")
    shutil.copytree(ROOT / "lakehouse", folder / "lakehouse", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("ddl", "conf", "expectations"):
        (folder / name).symlink_to(ROOT / name)
    for name, rows in ROWS.items():
        with (folder / "lakehouse" / name).open("a", encoding="utf-8") as file:
            file.writelines(row + "\n" for row in rows)
    (folder / "pigeons.json").write_text(json.dumps(DOCUMENT))
    return folder


def run(house: Path, *arguments: str) -> str:
    environment = os.environ | {"PYTHONPATH": str(house)}
    ran = subprocess.run([sys.executable, *arguments], cwd=house, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[-3000:]
    return ran.stdout


def test_its_rules_are_listed_and_reported_where_they_are_held(house):
    listed = {one["id"]: one for one in json.loads(run(house, "-m", "lakehouse", "--json", "rules"))}
    assert listed["PIG-002"]["severity"] == "error"
    explained = run(house, "-m", "lakehouse", "explain", "PIG-002")
    assert "constraints.csv" in explained
    assert "option_defaults.csv" in explained
    assert '"ring": "green"' in explained


def test_matching_and_rendering_know_its_options_and_where_it_travels(house):
    assert json.loads(run(house, "-c", MATCHING)) == {
        "sections": ["loft", "topic"],
        "address": "topic",
        "needed": "topic",
        "may": ["topic", "loft"],
        "captured": ["/protocoloptions/loft"],  # one without a topic was not captured whole
        "endpoint": {"/protocoloptions/loft/value": '"blue"'},
    }


def test_one_with_the_options_of_another_changes_nothing_of_messages_without_a_protocol(house):
    """A message that names none may have been loaded before the protocol was declared: it stays one of Kafka's."""
    assert json.loads(run(house, "-c", GUESSING)) == {
        "named": ["STORK", "PIGEON"],
        "guessed": ["KAFKA", None],
        "address": "t",
        "merged": ["/protocoloptions/key/value"],
    }


def test_asyncapi_has_its_name_and_its_address(house):
    assert json.loads(run(house, "-c", ASYNCAPI)) == {
        "server": {"host": "roof", "protocol": "pigeon", "protocolVersion": "2"},
        "address": ["letters"],
        "read": [{"topic": {"value": "letters"}}, None],
        "endpoint": ["PIGEON/2"],
    }


@pytest.mark.slow
def test_it_is_read_checked_flattened_carried_and_exported(house):
    found = json.loads(run(house, "-c", PROGRAM))
    assert found["message"] == {
        "protocol_family": "PIGEON",
        "protocol_version": "2",
        "address": "letters",
        "loft": '"{city}/north"',
    }
    assert found["carried"] == [
        {
            "endpoint_xid": "/endpoints/roof",
            "protocol_family": "PIGEON",
            "matches": True,
            "options": {"deployed": "true", "ring": "blue"},
        }
    ]
    assert [one for one in found["findings"] if one[0].startswith("PIG")] == [
        ["PIG-001", "/messagegroups/g/messages/sits/versions/1"],
        ["PIG-002", "/endpoints/cellar"],
        ["PIG-003", "/endpoints/wire"],
    ]
    assert found["rules"] == {"PIG-001": "error", "PIG-002": "error", "PIG-003": "error"}
    written = json.loads((house / "out.json").read_text())
    options = written["messagegroups"]["g"]["messages"]["flies"]["versions"]["1"]["protocoloptions"]
    assert options == {"loft": "{city}/north", "topic": "letters"}
    assert sorted(written["endpoints"]) == ["roof"]
