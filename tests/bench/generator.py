"""Registry documents for the benchmarks: made up, deterministic by seed, as large as one asks for.

Messages are in groups of at most `group_size`, all of one protocol; the protocols take turns. Each group has one endpoint.
A share of the messages extends an earlier message of the same protocol, in chains of at most three; such a message leaves out
envelope attributes that it inherits. Ids are unique over all documents, so that they are one registry without conflicts.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

PROTOCOLS = ("KAFKA", "MQTT/5.0", "AMQP/1.0", "HTTP")
DEEPEST = 3
_ENVELOPE = "CloudEvents/1.0"
_THINGS = ("basket", "parcel", "meter", "lease", "lamp", "turbine", "claim", "ledger")
_DEEDS = ("opened", "moved", "measured", "closed", "refused", "renewed")
_NEAR = 64  # a message extends one of so many before it

Json = dict[str, Any]


@dataclass(frozen=True)
class Shape:
    """What to generate.

    Attributes:
        messages: messages over all documents.
        documents: files; each holds as many messages as any other, give or take one.
        group_size: messages of a group, at most.
        extending: share of the messages that extend another one.
        touched: share of the messages whose description is changed; nothing else differs from the same shape without.
        seed: the same shape with the same seed gives the same bytes.
    """

    messages: int
    documents: int = 1
    group_size: int = 100
    extending: float = 0.3
    touched: float = 0.0
    seed: int = 1

    @property
    def touched_messages(self) -> frozenset[int]:
        """Number the messages that are touched: exactly that share of them, spread evenly at random."""
        count = round(self.messages * self.touched)
        return frozenset(Random(f"touched {self.seed}").sample(range(self.messages), count))


@dataclass
class Written:
    """What was written."""

    files: list[Path] = field(default_factory=list)
    bytes: int = 0
    groups: int = 0


def write_documents(folder: Path, shape: Shape) -> Written:
    """Write the documents of a shape as JSON files into a folder, which is made."""
    folder.mkdir(parents=True, exist_ok=True)
    written = Written()
    for number, document in enumerate(make_documents(shape)):
        path = folder / f"document-{number:06d}.xreg.json"
        written.bytes += path.write_bytes(json.dumps(document, separators=(",", ":")).encode())
        written.files.append(path)
        written.groups += len(document["messagegroups"])
    return written


def make_documents(shape: Shape) -> Iterator[Json]:
    """Return the documents of a shape, one by one."""
    if not 0 < shape.documents <= shape.messages:
        raise ValueError(f"{shape.documents} documents of {shape.messages} messages: each needs one")
    maker = _Maker(shape)
    for number in range(shape.documents):
        first = shape.messages * number // shape.documents
        last = shape.messages * (number + 1) // shape.documents
        starts = range(first, last, shape.group_size)
        groups = [maker.group(start, min(start + shape.group_size, last)) for start in starts]
        yield {
            "specversion": "1.0-rc4",
            "endpoints": {f"endpoint.{groupid}": _endpoint(groupid, group["protocol"]) for groupid, group in groups},
            "messagegroups": dict(groups),
        }


class _Maker:
    """Makes the groups in order; remembers what a later message may extend: XID and depth, by protocol."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.touched = shape.touched_messages
        self.groups = 0
        self.bases: dict[str, deque[tuple[str, int]]] = {protocol: deque(maxlen=_NEAR) for protocol in PROTOCOLS}

    def group(self, first: int, last: int) -> tuple[str, Json]:
        """Make the group of the messages with these numbers."""
        groupid, protocol = f"bench.{self.groups:06d}", PROTOCOLS[self.groups % len(PROTOCOLS)]
        self.groups += 1
        messages = dict(self._message(groupid, protocol, number) for number in range(first, last))
        return groupid, {
            "description": f"Messages {first} to {last - 1} of the benchmark",
            "envelope": _ENVELOPE,
            "protocol": protocol,
            "messages": messages,
        }

    def _message(self, groupid: str, protocol: str, number: int) -> tuple[str, Json]:
        random = Random(f"{self.shape.seed} {number}")
        thing, deed = random.choice(_THINGS), random.choice(_DEEDS)
        messageid = f"example.{thing}.{deed}.{number:07d}"
        base = self._base(random, protocol)
        self.bases[protocol].append((f"/messagegroups/{groupid}/messages/{messageid}", base[1] + 1 if base else 0))
        message = {
            "name": f"{thing} {deed}",
            "description": f"A {thing} was {deed}" + (", and this text was changed" if number in self.touched else ""),
            "labels": {"team": f"team-{random.randrange(30)}", "tier": random.choice(("one", "two", "three"))},
            "envelope": _ENVELOPE,
            "envelopemetadata": _metadata(random, messageid, extends=base is not None),
            "protocol": protocol,
            "protocoloptions": _OPTIONS[protocol](random, f"example/{groupid}/{thing}"),
            "dataschemaformat": "JSONSchema/draft-07",
            "dataschemauri": f"https://schemas.example.com/{thing}/{deed}.json",
            "datacontenttype": "application/json",
        }
        return messageid, message | ({"basemessage": base[0]} if base else {})

    def _base(self, random: Random, protocol: str) -> tuple[str, int] | None:
        if random.random() >= self.shape.extending:
            return None
        fitting = [base for base in self.bases[protocol] if base[1] < DEEPEST]
        return random.choice(fitting) if fitting else None


def _metadata(random: Random, messageid: str, *, extends: bool) -> Json:
    own = {
        "type": {"type": "string", "value": messageid, "required": True},
        "subject": {"type": "uritemplate", "value": "{thingid}", "required": random.random() < 0.5},
    }
    if extends:
        return own
    return own | {
        "id": {"type": "string", "required": True},
        "source": {"type": "uritemplate", "value": "/sites/{siteid}/things/{thingid}", "required": True},
        "time": {"type": "timestamp", "required": True},
        "region": {"type": "string", "description": "Region that the thing stands in", "required": random.random() < 0.5},
    }


def _kafka(random: Random, path: str) -> Json:
    return {
        "topic": {"type": "string", "value": path.replace("/", ".")},
        "key": {"type": "uritemplate", "value": "{siteid}"},
        "headers": {
            "origin": {"type": "string", "value": f"origin-{random.randrange(9)}", "required": True},
            "attempt": {"type": "integer", "required": False},
        },
    }


def _mqtt(random: Random, path: str) -> Json:
    return {
        "topic_name": {"type": "uritemplate", "value": f"{path}/{{thingid}}"},
        "qos": {"type": "integer", "value": random.randrange(3)},
        "retain": {"type": "boolean", "value": random.random() < 0.2},
        "message_expiry_interval": {"type": "integer", "value": random.choice((30, 300, 3000))},
        "user_properties": [{"name": "origin", "value": f"origin-{random.randrange(9)}"}],
    }


def _amqp(random: Random, path: str) -> Json:
    return {
        "properties": {
            "to": {"type": "uritemplate", "value": f"{path}/{{thingid}}", "required": True},
            "subject": {"type": "string", "value": path, "required": random.random() < 0.5},
            "content-type": {"type": "symbol", "value": "application/json", "required": True},
        },
        "application-properties": {"origin": {"type": "string", "value": f"origin-{random.randrange(9)}"}},
    }


def _http(random: Random, path: str) -> Json:
    return {
        "method": {"type": "string", "value": random.choice(("POST", "PUT"))},
        "path": {"type": "uritemplate", "value": f"/{path}/{{thingid}}"},
        "headers": [{"name": "X-Origin", "value": f"origin-{random.randrange(9)}", "required": True}],
        "query": {"site": {"type": "string", "value": "{siteid}", "required": False}},
    }


_OPTIONS = {"KAFKA": _kafka, "MQTT/5.0": _mqtt, "AMQP/1.0": _amqp, "HTTP": _http}
_SCHEMES = {"KAFKA": "ssl", "MQTT/5.0": "mqtts", "AMQP/1.0": "amqps", "HTTP": "https"}
_PORTS = {"KAFKA": ":9093"}
_ENDPOINT_OPTIONS: dict[str, Json] = {
    "KAFKA": {"acks": 1},
    "MQTT/5.0": {"qos": 1, "retain": False},
    "AMQP/1.0": {"durable": True},
    "HTTP": {},  # the messages say their methods
}


def _endpoint(groupid: str, protocol: str) -> Json:
    """Make the endpoint that carries a group's messages."""
    address = f"{_SCHEMES[protocol]}://{groupid}.example.com{_PORTS.get(protocol, '')}"
    return {
        "description": f"Carries the messages of {groupid}",
        "usage": ["producer"],
        "envelope": _ENVELOPE,
        "envelopeoptions": {"mode": "binary"},
        "protocol": protocol,
        "protocoloptions": _ENDPOINT_OPTIONS[protocol] | {"endpoints": [{"uri": address}], "deployed": True},
        "messagegroups": [f"/messagegroups/{groupid}"],
    }
