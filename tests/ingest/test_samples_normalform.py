"""The published documents, read: outside judges of the normal form. Skipped where `../shared/samples` is not there."""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from builders import MAX_DEPTH, as_document, errors, read

from lakehouse.dialects.detection import not_a_registry
from lakehouse.ingest.parse.document import read_document
from lakehouse.ingest.parse.parse import read_as
from lakehouse.ingest.parse.readings import Reading
from lakehouse.text.jsontext import canonical, read_json
from lakehouse.text.problems import MISSPELLED
from lakehouse.text.redact import redact

SAMPLES = Path(__file__).resolve().parents[3] / "shared" / "samples"
PATHS = sorted(path for path in SAMPLES.glob("*/*") if path.suffix in (".json", ".cereg"))
FILES = [pytest.param(path, id=f"{path.parent.name}/{path.name}") for path in PATHS]
NOT_REGISTRIES = {"doc-store-data.json", "doc-store-model.json"}

pytestmark = pytest.mark.skipif(not PATHS, reason="the sample documents are not there")


@cache
def reading_of(path: Path) -> Reading | str:
    """Read a sample: its reading, or why it is none."""
    value, problems = read_json(path.read_bytes(), MAX_DEPTH)
    reason = not_a_registry(value)
    if reason is not None:
        return reason
    problems += redact(value)
    return read_document(value, problems)


def readings() -> list[Reading]:
    return [reading for path in PATHS if isinstance(reading := reading_of(path), Reading)]


def test_there_are_42_samples():
    assert len(PATHS) == 42


@pytest.mark.parametrize("path", FILES)
def test_each_sample_is_read_or_has_a_reason(path):
    reading = reading_of(path)
    if path.name in NOT_REGISTRIES:
        assert isinstance(reading, str)
        assert reading != ""
    else:
        assert isinstance(reading, Reading)
        assert reading.rows


def test_the_totals_are_those_of_the_readme():
    kinds: Counter[str] = Counter()
    for reading in readings():
        for row in reading.rows:
            collection = row.xid.split("/")[1] if row.kind == "group" else ""
            kinds[f"{row.kind} {collection}".strip()] += 1
        for table, count in reading.quarantined.items():
            kinds[table] += count
    reported = {
        "messages": kinds["message"] + kinds["messages"],
        "message groups": kinds["group messagegroups"],
        "endpoints": kinds["endpoint"] + kinds["endpoints"],
        "schema groups": kinds["group schemagroups"],
        "schemas": kinds["schema"] + kinds["schemas"],
        "schema versions": kinds["schemaversion"] + kinds["schemaversions"],
    }
    assert kinds["groups"] == 0, "no group is refused"
    assert reported == {
        "messages": 345,
        "message groups": 111,
        "endpoints": 79,
        "schema groups": 52,
        "schemas": 780,
        "schema versions": 894,
    }


def test_one_attribute_of_all_is_reported_as_misspelled():
    reported = [finding.message for reading in readings() for finding in reading.findings if finding.rule_id == MISSPELLED]
    assert reported == ["`schemaformatr` is not an attribute of the specification; did you mean `schemaformat`?"]


def test_no_xid_has_two_rows():
    for reading in readings():
        assert max(Counter(row.xid for row in reading.rows).values()) == 1


@pytest.mark.parametrize("path", [param for param in FILES if param.values[0].name not in NOT_REGISTRIES])
def test_reading_the_normal_form_of_a_sample_again_changes_nothing(path):
    first = reading_of(path)
    assert isinstance(first, Reading)
    second = read(canonical(as_document(first)))
    # A registry row that was refused is not in the normal form: an empty one is read instead.
    hashes = [{row.xid: row.content_hash for row in reading.rows if row.kind != "registry"} for reading in (first, second)]
    assert hashes[0] == hashes[1]
    assert errors(second) == []


# By specversion; else by what only one dialect writes: `basemessageuri` (rc1), `topicfilter` (rc4), `schema` of a message and
# names of MQTT with hyphens (0.5), `definitionGroups` (cereg). A document that writes none of these is in the normal dialect.
FEEDS_OF_RC2 = {"aisstream", "eurowater"}
DIALECTS = {
    "cloudevent-mixed-embedded.xreg.json": "0.5-wip",
    "contoso-crm.cereg": "cereg",
    "mqtt-consumer-endpoint.xreg.json": "0.5-wip",
    "schemastore_org.xreg.json": "1.0-rc4",
    "spec/mqtt-sparkplugB.xreg.json": "1.0-rc4",
}


@pytest.mark.parametrize("path", [param for param in FILES if param.values[0].name not in NOT_REGISTRIES])
def test_the_dialect_of_each_sample_is_reported(path):
    is_rc1 = path.parent.name == "feeds" and path.name.split(".")[0] not in FEEDS_OF_RC2
    named = DIALECTS.get(f"{path.parent.name}/{path.name}", DIALECTS.get(path.name, "1.0-rc1" if is_rc1 else "1.0-rc2"))
    value, problems = read_json(path.read_bytes(), MAX_DEPTH)
    assert read_as(value, problems, str(path), None)[0] == named
