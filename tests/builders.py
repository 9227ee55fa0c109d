"""Builders of small registry documents, and what tests ask of a reading of one. All data here is our own."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from lakehouse.export.run import path_of
from lakehouse.export.view import Stored
from lakehouse.ingest.parse.document import ParseLimits, read_document
from lakehouse.ingest.parse.parse import Source, parser
from lakehouse.ingest.parse.readings import NormalRow, Reading
from lakehouse.text.jsontext import read_json
from lakehouse.text.names import Xid
from lakehouse.text.problems import Finding, Problem
from lakehouse.text.redact import redact

MAX_DEPTH = 100
SPECVERSION = "1.0-rc2"
NOW = 1_700_000_000_123_456

# Laws run fast, the same each time, and leave no file behind.
law = settings(max_examples=60, deadline=None, database=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])

_text = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=8)
_scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | _text
json_values = st.recursive(
    _scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_text, inner, max_size=4),
    max_leaves=12,
)
ids = st.from_regex(r"\A[A-Za-z0-9_][A-Za-z0-9_.\-~:@]{0,20}\Z")


def message(**attributes: Any) -> dict[str, Any]:
    """Build a message (or a Version of one, or a schema): a CloudEvent, unless it is reported otherwise."""
    return {"envelope": "CloudEvents/1.0"} | attributes


def group(members: dict[str, Any] | None = None, *, holds: str = "messages", **attributes: Any) -> dict[str, Any]:
    """Build a group or an endpoint that holds members."""
    return attributes | ({} if members is None else {holds: members})


def document(
    messagegroups: dict[str, Any] | None = None,
    endpoints: dict[str, Any] | None = None,
    schemagroups: dict[str, Any] | None = None,
    **attributes: Any,
) -> dict[str, Any]:
    """Build a document; a collection that is not given is not written."""
    collections = {"messagegroups": messagegroups, "endpoints": endpoints, "schemagroups": schemagroups}
    written = {key: value for key, value in collections.items() if value is not None}
    return {"specversion": SPECVERSION} | attributes | written


def message_document(written: Any, **group_attributes: Any) -> dict[str, Any]:
    """Build a document with one message: /messagegroups/g/messages/m."""
    return document({"g": group({"m": written}, **group_attributes)})


def read(written: dict[str, Any] | str | bytes, *, rules: bool = False) -> Reading:
    """Read a document as parse does: the text, the redaction, the normal form; with the rules about one entity or without."""
    if isinstance(written, dict):
        written = json.dumps(written)
    text = written.encode() if isinstance(written, str) else written
    value, problems = read_json(text, MAX_DEPTH)
    problems += redact(value)
    return read_document(value, problems, rules=rules)


def rows(reading: Reading, kind: str | None = None) -> dict[Xid, NormalRow]:
    """Return the rows of a kind (None: all) by XID."""
    found = [row for row in reading.rows if kind in (None, row.kind)]
    by_xid = {row.xid: row for row in found}
    assert len(by_xid) == len(found), "an XID has two rows"
    return by_xid


def body(reading: Reading, xid: str) -> dict[str, Any]:
    """Return the body of an entity."""
    return json.loads(rows(reading)[xid].body)


def only_version(written: dict[str, Any], **group_attributes: Any) -> dict[str, Any]:
    """Read one message and give the body of its only Version, which must have been read without an error."""
    reading = read(message_document(written, **group_attributes))
    assert errors(reading) == []
    return body(reading, "/messagegroups/g/messages/m/versions/1")


def leaves(written: dict[str, Any], **group_attributes: Any) -> dict[str, str]:
    """Read one message and give the leaves of its only Version."""
    reading = read(message_document(written, **group_attributes))
    pairs = rows(reading)["/messagegroups/g/messages/m/versions/1"].attributes
    assert pairs is not None
    assert len(dict(pairs)) == len(pairs), "a pointer has two leaves"
    return dict(pairs)


def errors(reading: Reading) -> list[Finding]:
    """Return the findings that are errors."""
    return [finding for finding in reading.findings if finding.severity == "error"]


def warnings(reading: Reading) -> list[Finding]:
    """Return the findings that are warnings."""
    return [finding for finding in reading.findings if finding.severity == "warning"]


def refused(reading: Reading) -> dict[str, set[str]]:
    """Return for each entity that was refused the rules of the errors."""
    found: dict[str, set[str]] = {}
    for finding in errors(reading):
        if finding.action == "quarantined":
            found.setdefault(finding.xid, set()).add(finding.rule_id)
    return found


def found(problems: list[Problem]) -> list[tuple[str, str, str]]:
    """Return pointer, rule and severity of problems."""
    return [(problem.pointer, problem.rule_id, problem.severity) for problem in problems]


def as_document(reading: Reading) -> dict[str, Any]:
    """Write the bodies of a reading as a document in normal form, each message and schema with its `versions`."""
    written: dict[str, Any] = {}
    for row in sorted(reading.rows, key=lambda row: row.xid.count("/") if row.xid != "/" else 0):
        known = json.loads(row.body)
        own = {key: value for key, value in known.items() if key != "extensions"} | known.get("extensions", {})
        own |= {} if row.epoch is None else {"epoch": row.epoch}
        if row.kind in ("message", "schema"):
            own = {"meta": own}
        *parents, last = row.xid[1:].split("/")
        holder = written
        for token in parents:
            holder = holder.setdefault(token, {})
        if last:
            holder[last] = own
        else:
            written.update(own)
    return written


def stored(reading: Reading) -> list[Stored]:
    """Return the rows of a reading as the catalog would hold them."""
    return [
        Stored("r", row.kind, row.xid, row.epoch or 1, row.createdat or NOW, row.modifiedat or NOW, row.body, row.raw)
        for row in sorted(reading.rows, key=lambda row: path_of(row.xid))
    ]


def stage(
    text: bytes, *, stream: int = 1 << 20, uri: str = "file:/none/a.json", named: bool = False, **limits: Any
) -> dict[str, list[dict[str, Any]]]:
    """Parse a document, and return the rows of the stage by kind, sorted as text."""
    limit = ParseLimits(bytes=1 << 20, unpacked=1 << 20, depth=64, entities=1000, stream=stream, strict=False)._replace(**limits)
    source = Source(uri, len(text), "0" * 64, "r", False, False, text, None, False, named)
    columns = [pa.array([value]) for value in source]
    batch = pa.RecordBatch.from_arrays(columns, names=list(Source._fields))
    rows = [row for made in parser(limit)([batch]) for row in made.to_pylist()]
    found: dict[str, list[dict[str, Any]]] = {"entity": [], "finding": [], "document": []}
    for row in sorted(rows, key=str):
        found[row["row"]].append(row)
    return found


def seeds(short: int, whole: int) -> list[Any]:
    """Return seeds for `parametrize`: the first ones for `make test`, all of them for `make test-all`."""
    return [*range(short), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(short, whole))]
