"""The demo's dump of a Kafka topic that no definition describes, as `kcat -J` writes it, and what came later.

Run as a program it writes the files in `lakehouse/cli/demo/landed`; a test holds them equal to what it gives.
"""

from __future__ import annotations

import json
from pathlib import Path

import lakehouse

FOLDER = Path(lakehouse.__file__).parent / "cli" / "demo" / "landed"
DUMPS = {"returns.jsonl": range(1, 61), "later-returns.jsonl": range(61, 81)}
_REASONS = ("damaged", "too late", "not as described")


def record(number: int) -> str:
    """Return a record: a binary CloudEvent about a parcel that a customer sent back."""
    region, returnid, second = ("eu", "us")[number % 2], f"R-{number:04}", number % 60
    day = 2 + number % 3
    attributes = {
        "specversion": "1.0", "id": f"evt-r{number:04}", "type": "shop.returns.ParcelReturned", "subject": returnid,
        "source": f"https://shop.example.com/{region}/returns", "time": f"2026-03-{day:02}T10:15:{second:02}Z",
    }  # fmt: skip
    payload = {
        "returnid": returnid, "order": {"orderid": f"2026-{number:04}", "isbn": "9780000000000"},
        "reason": _REASONS[number % 3], "refund": round(9.9 + number / 4, 2),
    } | ({"note": "The box was open."} if number % 4 == 0 else {})  # fmt: skip
    named = {f"ce_{name}": text for name, text in attributes.items()} | {"content-type": "application/json", "region": region}
    return json.dumps(
        {"topic": "harbour.returns", "partition": 0, "offset": number - 1, "tstype": "create",
         "ts": 1772446500000 + 86_400_000 * (day - 2) + 1000 * second, "broker": 1,
         "headers": [text for pair in named.items() for text in pair], "key": returnid, "payload": json.dumps(payload)}
    )  # fmt: skip


def dump(numbers: range) -> str:
    """Return records as lines."""
    return "".join(f"{record(number)}\n" for number in numbers)


if __name__ == "__main__":
    for name, numbers in DUMPS.items():
        (FOLDER / name).write_text(dump(numbers), encoding="utf-8")
