"""Columns of results: what the pass gives, for Arrow and for Spark, and what is told of an event in one line."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from lakehouse.match.matching.choice import INCOMPLETE, UNMATCHED, UNREADABLE
from lakehouse.match.matching.index import is_close

_REASON = pa.struct([("pointer", pa.string()), ("reason", pa.string()), ("expected", pa.string()), ("actual", pa.string())])
_KEY = pa.struct([("registryid", pa.string()), ("xid", pa.string())])
_ERROR = pa.struct([("pointer", pa.string()), ("keyword", pa.string()), ("message", pa.string())])
PLACE = pa.struct([("file", pa.string()), ("block", pa.int64()), ("position", pa.int64())])
EVENT_REF = pa.struct([("source", pa.string()), ("partition", pa.int64()), ("offset", pa.int64()), ("row", pa.int64())])

RESULT_SCHEMA = pa.schema(
    [
        ("ordinal", pa.int32()), ("place", PLACE), ("event_ref", EVENT_REF), ("item", pa.int32()),
        ("landed_at", pa.timestamp("us", "UTC")),
        ("protocol", pa.string()), ("mode", pa.string()), ("ce_id", pa.string()), ("ce_source", pa.string()),
        ("ce_type", pa.string()), ("address", pa.string()), ("status", pa.string()), ("registryid", pa.string()),
        ("xid", pa.string()), ("version_xid", pa.string()), ("best", pa.list_(_KEY)), ("matches", pa.list_(_KEY)),
        ("variables", pa.map_(pa.string(), pa.string())), ("reasons", pa.list_(_REASON)), ("deviations", pa.list_(_REASON)),
        ("unchecked", pa.list_(pa.string())), ("nearest_xid", pa.string()), ("why", pa.string()),
        ("payload_status", pa.string()), ("payload_errors", pa.list_(_ERROR)), ("remarks", pa.list_(pa.string())),
    ]
)  # fmt: skip

_STRUCT = "STRUCT<pointer: STRING, reason: STRING, expected: STRING, actual: STRING>"
_KEYS = "ARRAY<STRUCT<registryid: STRING, xid: STRING>>"
RESULT_COLUMNS: dict[str, str] = {
    "ordinal": "INT", "place": "STRUCT<file: STRING, block: BIGINT, position: BIGINT>",
    "event_ref": "STRUCT<source: STRING, partition: BIGINT, offset: BIGINT, row: BIGINT>", "item": "INT",
    "landed_at": "TIMESTAMP", "protocol": "STRING", "mode": "STRING",
    "ce_id": "STRING", "ce_source": "STRING", "ce_type": "STRING", "address": "STRING",
    "status": "STRING", "registryid": "STRING", "xid": "STRING", "version_xid": "STRING", "best": _KEYS, "matches": _KEYS,
    "variables": "MAP<STRING, STRING>", "reasons": f"ARRAY<{_STRUCT}>", "deviations": f"ARRAY<{_STRUCT}>",
    "unchecked": "ARRAY<STRING>", "nearest_xid": "STRING", "why": "STRING", "payload_status": "STRING",
    "payload_errors": "ARRAY<STRUCT<pointer: STRING, keyword: STRING, message: STRING>>", "remarks": "ARRAY<STRING>",
}  # fmt: skip
# What counting asks of a result.
COUNTED = ("status", "payload_status", "deviations", "why", "nearest_xid", "ce_source", "best")
# What a line of `--results` holds, behind its `row`.
TOLD = ("status", "best", "matches", "variables", "reasons", "deviations", "unchecked", "payload_status", "payload_errors",
        "nearest_xid", "remarks", "protocol", "mode", "ce_id", "ce_source", "ce_type", "address")  # fmt: skip


def why_of(row: dict[str, Any]) -> str | None:
    """Tell in one line why an event matches nothing or cannot be read; the same line for all events of one kind.

    A constant that differs is told with both values; what holes of a template hold is not, since it differs by event.
    """
    if row["status"] == INCOMPLETE:
        left_open = [remark for remark in row["remarks"] if remark.startswith(f"{INCOMPLETE}: ")]
        return str(left_open[0]).removeprefix(f"{INCOMPLETE}: ")
    if row["status"] not in (UNMATCHED, UNREADABLE):
        return None
    reasons = row["reasons"]
    if not reasons:
        return "nothing like it is declared"
    return "; ".join(_told(reason) for reason in reasons[:3])


def _told(reason: dict[str, Any]) -> str:
    name = reason["pointer"].rpartition("/")[2] or reason["reason"]
    expected, actual = reason["expected"], reason["actual"]
    if reason["pointer"] == "/envelopemetadata/type" and actual is not None:
        if expected is None or not is_close(actual.strip().casefold(), expected.casefold()):
            return f"type {actual}: not declared" + (
                f", nearest {expected}" if expected and _shares_end(actual, expected) else ""
            )
        is_case = actual.casefold() == expected.casefold()
        return f"type {actual}: letter case, declared {expected}" if is_case else f"type {actual}, declared {expected}"
    if reason["reason"] == "value" and actual is not None and expected is not None:
        return f"{name}: {actual}, declared {expected}"
    if reason["reason"] == "unreadable":
        return f"{name}: {actual}" if actual else f"{name}: cannot be read"
    if reason["reason"].startswith(("declared for", "variable", "pattern:")):
        return f"{name}: {reason['reason']}"
    return f"{name}: {reason['reason']}" + (f", declared {expected}" if expected else "")


def _shares_end(one: str, other: str) -> bool:
    return one.rpartition(".")[2].casefold() == other.rpartition(".")[2].casefold()
