"""Values that a user gives: `--set NAME=VALUE`, a file with a message's values on each line, a file with a payload."""

from __future__ import annotations

import base64
import csv
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, time, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import orjson

from lakehouse.errors import SettingsError, SourceNotFound
from lakehouse.render.filling import Given

PAYLOAD = "data"  # the column that holds a payload
_FILES = (".csv", ".json", ".jsonl", ".ndjson", ".parquet")
_TYPES = {".json": "application/json", ".txt": "text/plain", ".xml": "application/xml", ".csv": "text/csv"}


def values_of(pairs: Sequence[str]) -> dict[str, str]:
    """Read NAME=VALUE pairs.

    Raises:
        SettingsError: one has no `=`, or a name stands twice.
    """
    found: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise SettingsError(f"--set {pair}: a value is given as NAME=VALUE.")
        if name in found:
            raise SettingsError(f"--set {name}: the name is given twice.")
        found[name] = value
    return found


def is_file(written: str) -> bool:
    """Tell whether `--values` names a file; else it is a table."""
    return written == "-" or Path(written).suffix.lower() in _FILES or Path(written).is_file()


def read_payload(written: str) -> tuple[bytes, str | None]:
    """Read a payload from a file, or from standard input; and tell the content type that its name says.

    Raises:
        SourceNotFound: it cannot be read.
    """
    if written == "-":
        return sys.stdin.buffer.read(), None
    try:
        return Path(written).read_bytes(), _TYPES.get(Path(written).suffix.lower())
    except OSError as error:
        raise SourceNotFound(written, f"cannot be read ({error.strerror}).") from error


def read_values(written: str) -> Iterator[dict[str, Any]]:
    """Read a file of values: JSON lines, CSV with a header, or Parquet; a cell that is empty or null is not given.

    Raises:
        SourceNotFound: it cannot be read.
        SettingsError: a line is no JSON object.
    """
    try:
        if Path(written).suffix.lower() == ".parquet":
            yield from _parquet(written)
        elif Path(written).suffix.lower() == ".csv":
            with Path(written).open(encoding="utf-8-sig", newline="") as file:
                for row in csv.DictReader(file):
                    yield {name: value for name, value in row.items() if name and value not in (None, "")}
        elif written == "-":
            yield from _lines(written, sys.stdin.buffer)
        else:
            with Path(written).open("rb") as lines:
                yield from _lines(written, lines)
    except (OSError, UnicodeDecodeError) as error:
        raise SourceNotFound(written, f"cannot be read ({getattr(error, 'strerror', None) or error}).") from error


def given_of(row: Mapping[str, Any], common: Given) -> Given:
    """Give what a row gives, over what is common to all: its column `data` is the payload."""
    values = {name: _plain(value) for name, value in row.items() if name != PAYLOAD and value is not None}
    payload = row.get(PAYLOAD)
    if payload is None:
        return Given({**common.values, **values}, common.payload, common.payload_type)
    if isinstance(payload, bytes | bytearray):
        return Given({**common.values, **values}, bytes(payload), common.payload_type)
    body = payload.encode() if isinstance(payload, str) else orjson.dumps(payload, default=_plain)
    return Given({**common.values, **values}, body, None if isinstance(payload, str) else "application/json")


def _plain(value: Any) -> Any:
    """Give a value of a table as JSON has it: times by RFC 3339, decimals as they are written, bytes in base64."""
    if isinstance(value, datetime):
        moment = value if value.tzinfo else value.replace(tzinfo=timezone.utc)
        return moment.isoformat().replace("+00:00", "Z")
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode()
    return str(value) if isinstance(value, Decimal) else value


def _lines(written: str, lines: Any) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            value = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            raise SettingsError(
                f"--values {written}: line {number} is no JSON ({error}). A JSON object a line is needed."
            ) from error
        if not isinstance(value, dict):
            raise SettingsError(f"--values {written}: line {number} is no JSON object of names and values.")
        yield value


def _parquet(written: str) -> Iterator[dict[str, Any]]:
    import pyarrow.parquet as pq

    with pq.ParquetFile(written) as file:
        for batch in file.iter_batches(1_000):
            yield from batch.to_pylist()
