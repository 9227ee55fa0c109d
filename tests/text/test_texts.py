from __future__ import annotations

import json
import re

import pytest
import yaml
from builders import errors, json_values, law, rows
from hypothesis import assume, given

from lakehouse.ingest.parse.parse import read_as
from lakehouse.text.jsontext import NotJson, as_written, canonical, read_json
from lakehouse.text.yamltext import as_yaml, read_text, read_yaml


@pytest.mark.parametrize("name", ["a.yaml", "a.yml", "a.yaml.gz", "a.cereg.yaml"])
def test_a_name_that_ends_as_yaml_is_read_as_yaml(name):
    assert read_text(b"a: 1", f"file:/{name}", 100) == ({"a": 1}, [])


def test_any_other_name_is_read_as_json():
    with pytest.raises(NotJson, match="not JSON"):
        read_text(b"a: 1", "file:/a.json", 100)


@law
@given(json_values)
def test_json_is_yaml(value):
    text = json.dumps(value, ensure_ascii=False)
    assume(yaml.reader.Reader.NON_PRINTABLE.search(text) is None)
    assume(not set(text) & set("\x85\u2028\u2029"))  # the ends of lines of YAML 1.1, which are folded like any other
    assert canonical(read_yaml(text.encode(), 100)[0]) == canonical(read_json(text.encode(), 100)[0])


@law
@given(json_values)
def test_json_with_escapes_is_yaml(value):
    text = json.dumps(value).encode()
    assert canonical(read_yaml(text, 100)[0]) == canonical(read_json(text, 100)[0])


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        (b"a: 1\nb:\n  c: x\xff", "not UTF-8: the byte 0xff at line 3 column 7"),
        (b"a: 1\nb:\n c: \x01", "the character #x0001, which YAML does not allow (line 3, column 5)"),
        (b"a: 1\nb:\n\tq: 1", "found character '\\t' that cannot start any token (line 3, column 1), while scanning"),
        (b"a:\n c: [\nd: 1", "(line 3, column 5), while parsing a flow sequence (line 2, column 5)"),
        (b'a: "\\UFFFFFFFF"', "not YAML"),
    ],
)
def test_what_is_no_yaml_reports_first_where_reading_failed(text, reported):
    with pytest.raises(NotJson) as refused:
        read_yaml(text, 100)
    assert reported in str(refused.value)
    assert "load it again" in refused.value.hint


@pytest.mark.parametrize(
    "text",
    [
        "password: !hunter2 x", "a: *hunter2", "a: &hunter2 x\nb: &hunter2 y", "a: !hunter2!x y", "a: 'hunter2\n---\n",
        "? hunter2\n: x\n- y", "a: hunter2: hunter2", "password: hunter2\n  x: y", "%hunter2 x\na: b", "{a: b, ? [hunter2]: c}",
        'a: "hunter2\\q"', "a: @hunter2",
        "a: |hunter2\n  x", "a: !<hunter2 x", "%TAG ! hunter2\n---\na: !x y", "%YAML hunter2\n---\na: b", "a: [hunter2",
    ],
)  # fmt: skip
def test_no_message_quotes_a_value(text):
    with pytest.raises(NotJson) as refused:
        read_yaml(text.encode(), 100)
    assert "hunter2" not in str(refused.value)
    assert "hun" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1.10", "1.10"), ("007", '"007"'), ("0x1F", '"0x1F"'), ("1_000", '"1_000"'), ("2020-10-30", '"2020-10-30"'),
        ("yes", '"yes"'), ("on", '"on"'), ("true", "true"), ("null", "null"), ("~", "null"), ("", "null"), (".inf", '".inf"'),
        ("12:30:00", '"12:30:00"'), ("-5", "-5"), ("1e3", "1e3"), ("<<", '"<<"'), ("=", '"="'),
    ],
)  # fmt: skip
def test_a_plain_scalar_is_what_json_has_and_else_a_text(text, value):
    assert as_written(read_yaml(f"a: {text}".encode(), 100)[0]["a"]) == value


@pytest.mark.attack
@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("a: 1\na: 2", "occurs twice"),
        ("a: &x [1]\nb: *x", "an alias"),
        ("a: &a [x]\nb: &b [*a, *a]", "an alias"),
        ("a: !!python/object:os.system x", "a tag"),
        ("a: !!timestamp 2020-10-30", "a tag"),
        ("a: !own x", "a tag"),
        ("1: x", "is not text"),
        ("? [a]\n: x", "is not text"),
        ("a: 1\n---\nb: 2", "expected a single document"),
        ("a: [1", "not YAML"),
        ("a: \x00", "not YAML"),
    ],
)
def test_what_json_cannot_say_is_refused(text, reported):
    with pytest.raises(NotJson, match=reported):
        read_yaml(text.encode(), 100)


NO_TEXTS = (
    "1e5", "1E+2", "-2E+05", "01e5", "1.e5", ".5", "-.5e3", "1.5e-5", "1_000", "1_000.5", "0", "08", "012", "+1", "-0",
    "0o7", "0x1F", "0x_F", "-0x1f", "0b1_0", "12:30:45", "190:20:30.15", "1:30", ".inf", "-.INF", ".NaN",
    "y", "Y", "n", "N", "yes", "Off", "TRUE", "null", "~", "2026-01-01", "2026-01-01T00:00:00Z", "<<", "=",
)  # fmt: skip


@pytest.mark.parametrize("text", NO_TEXTS)
def test_a_text_that_yaml_reads_as_something_else_is_written_with_quotes(text):
    written = as_yaml({text: text}).decode()
    assert re.fullmatch(r"""(['"])(.*)\1: (['"])\2\3\n""", written)
    assert read_yaml(written.encode(), 9)[0] == yaml.safe_load(written) == {text: text}


@pytest.mark.parametrize("text", ["1.2.3", "v1", "e5", "1,000", "no-1", "yN", "0xG", "12:30:99", "1e", "_1", "a.5"])
def test_other_texts_are_written_without_quotes(text):
    assert as_yaml({text: text}).decode() == f"{text}: {text}\n"


@law
@given(json_values)
def test_what_is_written_as_yaml_is_read_again(value):
    assume("\ufeff" not in json.dumps(value, ensure_ascii=False))
    assert canonical(read_yaml(as_yaml(value), 100)[0]) == canonical(value)


def test_limits_and_encodings():
    with pytest.raises(NotJson, match="max_json_depth"):
        read_yaml(b"[" * 12 + b"]" * 12, 10)
    read_yaml(b"[" * 10 + b"]" * 10, 10)
    with pytest.raises(NotJson, match="UTF-8"):
        read_yaml(b"a: \xff", 10)
    assert [one.rule_id for one in read_yaml(b"\xef\xbb\xbfa: 1", 10)[1]] == ["JSON-003"]


def test_a_cereg_document_in_yaml():
    text = """
definitionGroups:
  Contoso.Events:
    id: Contoso.Events
    definitions:
      Contoso.Created:
        id: Contoso.Created
        format: CloudEvents/1.0
        metadata: {attributes: {type: {value: Contoso.Created, required: true}}}
        schemaurl: "#/schemaGroups/Contoso.Events/schemas/created"
"""
    value, problems = read_text(text.encode(), "contoso.cereg.yaml", 100)
    dialect, reading = read_as(value, problems, "", None)
    assert dialect == "cereg"
    assert errors(reading) == []
    body = json.loads(rows(reading)["/messagegroups/Contoso.Events/messages/Contoso.Created/versions/1"].body)
    assert body["envelopemetadata"] == {"type": {"value": "Contoso.Created", "required": True}}
