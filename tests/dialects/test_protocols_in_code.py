"""A protocol is rows of the tables: code names one only where it implements what that protocol alone has."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from lakehouse.dialects.tables import PROTOCOLS

PACKAGE = Path(__file__).parents[2] / "lakehouse"
NAMED = re.compile(rf'"({"|".join(PROTOCOLS)})\b')

# How many lines may name a protocol, below a path of the package, and why they do; the longest path counts.
REASONS = {
    "agents/codegen.py": (3, "xrcg names its templates by protocol"),
    "asyncapi": (30, "bindings of AsyncAPI are declared by protocol"),
    "dialects": (5, "0.5-wip writes Kafka's key in base64, AMQP's sections have types, the draft names sections by protocol"),
    "domain/effective.py": (2, "the specification infers options of MQTT and HTTP"),
    "domain/protocols.py": (1, "MQTT without a version is another protocol than one with another"),
    "domain/relations.py": (1, "END-174 names MQTT"),
    "export": (4, "servers of data contracts; AMQP's options are grouped in sections"),
    "match/definition": (
        5,
        "hops change options of MQTT and AMQP; Kafka's consumers read topics whole, the last of equal headers",
    ),
    "match/event": (36, "what a transport captures: its columns, header prefixes and binary forms"),
    "match/evaluation.py": (9, "values that a transport changes on the way, and MQTT 3 without properties"),
    "match/explain.py": (1, "AMQP has no addresses in messages"),
    "match/index.py": (4, "AMQP's subject distinguishes definitions"),
    "match/vectorized": (4, "as `match/evaluation.py`, for columns"),
    "propose/columnevents.py": (1, "records of Kafka alone are counted in columns, as dumps of topics are large"),
    "render": (20, "what is sent: requests, records, packets, commands of clients and scripts"),
    "registries": (1, "subjects of a schema registry are named after topics of Kafka"),
    "replicate": (1, "subscriptions are delivered by HTTP"),
    "rules/entity/engine.py": (6, "addresses of endpoints have rules by protocol"),
    "serve": (4, "the server speaks HTTP"),
    "store/schema.py": (2, "comments of the columns http_method and http_status"),
}


def test_code_names_protocols_only_where_it_implements_one():
    lines: Counter[str] = Counter()
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        count = sum(bool(NAMED.search(line)) for line in path.read_text(encoding="utf-8").splitlines())
        if count:
            lines[max((key for key in REASONS if name == key or name.startswith(f"{key}/")), key=len, default=name)] += count
    assert {key: count for key, count in lines.items() if key not in REASONS or count > REASONS[key][0]} == {}
    assert [key for key in REASONS if not lines[key]] == [], "these name none any more"
