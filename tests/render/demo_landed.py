"""The demo's landed events: rendered from the demo's documents, and some then changed into what no producer should send.

Run as a program it writes `lakehouse/cli/demo/landed/orders.jsonl`; a test holds the file equal to what it gives.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from match.catalogs import load

import lakehouse
from lakehouse.match.payload.schemas import Schemas
from lakehouse.render import Renderer, RenderInput, bindings_of

DEMO = Path(lakehouse.__file__).parent / "cli" / "demo"
LANDED = DEMO / "landed" / "orders.jsonl"
_PAID = b"\x12%sfffff\xe63@\x06EUR\x02\x08card"  # Avro: orderid, amount, currency, provider
_Change = Callable[[dict[str, Any]], None]


def placed(orderid: str, customerid: str, total: Any = 19.9) -> bytes:
    lines = [{"isbn": "9780000000000", "quantity": 1}]
    return json.dumps({"orderid": orderid, "customerid": customerid, "total": total, "lines": lines}).encode()


def shipped(orderid: str, parcelid: str, expectedat: str = "2026-03-05T12:00:00Z") -> bytes:
    return json.dumps({"orderid": orderid, "parcelid": parcelid, "carrier": "post", "expectedat": expectedat}).encode()


def header(name: str, value: str | None) -> _Change:
    """Return a header another value, or take it away."""

    def change(line: dict[str, Any]) -> None:
        kept = [one for one in line["captured"]["headers"] if value is not None or one["name"] != name]
        line["captured"]["headers"] = [one | {"value": value} if one["name"] == name else one for one in kept]

    return change


def option(name: str, value: str) -> _Change:
    return lambda line: line["captured"].update({name: value})


def payload(body: bytes) -> _Change:
    return lambda line: line.update({"payload_base64": base64.b64encode(body).decode()})


# Kind, number of the event, order, region, day, payload, and what is changed after it was rendered.
SENT: list[tuple[str, int, str, str, str, bytes, list[_Change]]] = [
    ("Placed", 1, "2026-0001", "eu", "02T10:15:01", placed("2026-0001", "c1"), []),
    ("Placed", 2, "2026-0002", "us", "03T10:15:02", placed("2026-0002", "c2"), []),
    ("Paid", 1, "2026-0001", "eu", "02T10:15:01", _PAID % b"2026-0001", []),
    ("Shipped", 1, "2026-0001", "eu", "02T10:15:01", shipped("2026-0001", "p1"), []),
    ("Placed", 3, "2026-0003", "eu", "04T10:15:03", placed("2026-0003", "c0"), [option("topic", "harbour.orders.v2")]),
    ("Placed", 4, "2026-0004", "eu", "05T10:15:04", placed("2026-0004", "c0"),
     [header("ce_type", "shop.orders.orderplaced"), header("ce_source", "https://legacy.example.com/orders"),
      payload(b'{"orderid": "2026-0004"}')]),
    ("Placed", 5, "2026-0005", "eu", "06T10:15:05", placed("2026-0005", "c2"), [payload(placed("2026-0005", "c2", "19.90"))]),
    ("Paid", 5, "2026-0005", "eu", "06T10:15:05", _PAID % b"2026-0005", []),
    ("Shipped", 6, "2026-0006", "eu", "07T10:15:06", shipped("2026-0006", "p6"),
     [payload(shipped("2026-0006", "p6", "2026-03-05 12:00"))]),
    ("Placed", 7, "2026-0007", "eu", "08T10:15:07", placed("2026-0007", "c1"), [header("ce_time", None)]),
    ("Placed", 8, "2026-0008", "eu", "09T10:15:08", placed("2026-0008", "c2"), [option("key", "2026-0009")]),
    ("Placed", 9, "2026-0009", "eu", "01T10:15:09", placed("2026-0009", "c0"),
     [header("ce_type", "shop.orders.OrderReturned"), payload(b'{"orderid": "2026-0009"}')]),
]  # fmt: skip


def lines() -> list[str]:
    """Return the lines of the file."""
    rows, versions = load({"default": (DEMO / "orders.xreg.json").read_bytes()})
    renderer = Renderer(Schemas(versions))
    found = []
    for kind, number, orderid, region, at, body, changes in SENT:
        xid = f"/messagegroups/shop.orders.kafka/messages/shop.orders.Order{kind}"
        [way] = bindings_of(next(row for row in rows if row["xid"] == xid))
        values = {"orderid": orderid, "region": region, "id": f"evt-{number:04}", "time": f"2026-03-{at}Z"}
        values |= {"Paid": {"provider": "card"}, "Shipped": {"carrier": "post"}}.get(kind, {})
        line = json.loads(renderer.render(way, RenderInput(values, body)).line())
        for change in changes:
            change(line)
        found.append(json.dumps({name: line[name] for name in ("protocol", "captured", "payload_base64")}))
    return found


if __name__ == "__main__":
    LANDED.write_text("\n".join(lines()) + "\n", encoding="utf-8")
