"""Text that could not be parsed loses what may be a secret, and keeps most of what is none."""

from __future__ import annotations

import time

import pytest

from lakehouse.text.blanking import REDACTED, blank_bytes, blank_text, blank_value, looks_secret

HIDDEN = "hunter2"


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ('{"password": "hunter2", "a": 1', '{"password": "REDACTED", "a": 1'),
        ('{"client_secret":"hunter2"', '{"client_secret":"REDACTED"'),
        ('{"token" : "hun\\"ter2", "b": "c"', '{"token" : "REDACTED", "b": "c"'),
        ('{"apiKey":"hunter2', '{"apiKey":"REDACTED'),
        ('{"PASSWORD":"hunter2"', '{"PASSWORD":"REDACTED"'),
        ('{"a":"b"}', '{"a":"b"}'),
        ('{"grant_types": ["password"], "a": 1', '{"grant_types": ["password"], "a": 1'),
        ('{"uri":"amqps://user:hunter2@broker.example"', '{"uri":"amqps://user:REDACTED@broker.example"'),
        ('{"uri":"amqps:\\/\\/user:hunter2@broker.example"', '{"uri":"amqps://user:REDACTED@broker.example"'),
        ('{"uri":"https://broker.example:8080/a@b"', '{"uri":"https://broker.example:8080/a@b"'),
        ('{"uri":"amqps://user:hunt', '{"uri":"amqps://user:REDACTED'),
        ('{"name": "Authorization", "value": "hunter2", "x": 1', '{"name": "Authorization", "value": "REDACTED", "x": 1'),
        ('{"value": "hunter2", "name": "Authorization"', '{"value": "REDACTED", "name": "Authorization"'),
        ('{"x": "Bearer hunter2", "y": 2', '{"x": "Bearer REDACTED", "y": 2'),
        ('{"x": "bAsIc aHVudGVyMjo=", "y": 2', '{"x": "bAsIc REDACTED", "y": 2'),
        ('{"authorization": {"x": ["}"], "y": "hunter2"}, "a": 1', '{"authorization": REDACTED, "a": 1'),
        ('{"credentials": ["hunter2", {"a": "hunter2"', '{"credentials": REDACTED'),
        # Spellings
        ('{"p\\u0061ssword": "hunter2"', '{"password": "REDACTED"'),
        ('{"x": "\\u0042earer hunter2"', '{"x": "Bearer REDACTED"'),
        ('{"x": "Bearer\\u0020hunter2"', '{"x": "Bearer REDACTED"'),
        ('{"x": "Bearer\\thunter2"', '{"x": "Bearer\\tREDACTED"'),
        ('"p\\x61ss\\U00000077ord": hunter2', '"password": REDACTED'),
        ('{"schema": "{\\"password\\": \\"hunter2\\"}", "a": "b"', '{"schema": "{\\"password\\": REDACTED", "a": "b"'),
        # What is broken at the secret itself
        ('{"password": hunter2", "a": 1}', '{"password": REDACTED'),
        ('{"password": "hun"ter2", "a": 1}', '{"password": "REDACTED'),
        ('{"password: "hunter2", "a": 1}', '{"password: "REDACTED", "a": 1}'),
        ('{"password" "hunter2", "a": 1}', '{"password" "REDACTED", "a": 1}'),
        ('{"password"= "hunter2", "a": 1}', '{"password"= "REDACTED", "a": 1}'),
        # Flow YAML
        ("{password: hunter2, a: 1}", "{password: REDACTED"),
        ("{password: 'hun''ter2', a: 1}", "{password: 'REDACTED', a: 1}"),
        ("{password: hunter2\nhunter2, a: 1}\nb: c", "{password: REDACTED\nb: c"),
        ("{a: [Bearer hunter2, b]}\nb: c", "{a: [Bearer REDACTED\nb: c"),
        # Block YAML
        ("password: hunter2\na: b", "password: REDACTED\na: b"),
        ("password: hunter2\n  hunter2\na: b", "password: REDACTED\na: b"),
        ("password: |\n  hunter2\n\n  hunter2\na: b", "password: REDACTED\na: b"),
        ("- password: >-\n    hunter2\n  a: b", "- password: REDACTED\n  a: b"),
        ("password:\n  hunter2\na: b", "password:\n  REDACTED\na: b"),
        ("password:\n- hunter2\n- hunter2\na: b", "password:\nREDACTED\na: b"),
        ("password:\na: b", "password:\na: b"),
        ("authorization:\n  type: Plain\n  x: hunter2\na: b", "authorization:\n  REDACTED\na: b"),
        ("- name: Cookie\n  value: hunter2\n- name: Other", "- name: Cookie\n  value: REDACTED\n- name: Other"),
        ("? password\n: hunter2\na: b", "? password\n: REDACTED\na: b"),
        ('password: !!str "a\nhunter2: x"\na: b', "password: REDACTED\na: b"),
        ("password: # why\n  hunter2\na: b", "password: REDACTED\na: b"),
        ('x: "Bearer\\\n  \\ hunter2"\na: b', 'x: "Bearer\\ REDACTED"\na: b'),
        ('"pass\\\n  word": "hunter2"\na: b', '"password": "REDACTED"\na: b'),
        ("x: Bearer\n  hunter2\na: b", "x: Bearer\n  REDACTED\na: b"),
        # A wrong indent, so that the value is at the level of its key
        ("password: |\nhunter2\na: b", "password: REDACTED\na: b"),
        ("password: >\n hunter2\nhunter2\na: b", "password: REDACTED\na: b"),
        # Cut off
        ("password: |", "password: REDACTED"),
        ("password: 'hunter2", "password: 'REDACTED"),
        ("password: [hunter2", "password: REDACTED"),
        ("x: Bearer hunt", "x: Bearer REDACTED"),
        ("-----BEGIN RSA PRIVATE KEY-----\nhunter2\n", "-----BEGIN RSA PRIVATE KEY-----REDACTED"),
    ],
)
def test_secrets_are_blanked_in_text_that_was_not_parsed(text, clean):
    assert blank_text(text) == clean
    assert HIDDEN not in blank_text(text)


@pytest.mark.parametrize("text", ["password: !hunter2\na: b", "password: &hunter2 x\na: b", "password: *hunter2\na: b"])
def test_in_doubt_more_is_blanked(text):
    assert HIDDEN not in blank_text(text)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-be", "utf-32", "latin-1"])
def test_the_encoding_of_a_text_hides_nothing(encoding):
    assert '"password": "REDACTED", "a": "b' in blank_bytes('{"password": "hunter2", "a": "bü"}'.encode(encoding))


def test_a_value_is_blanked_and_stays_a_value():
    value = {"a": [1, {"key": [HIDDEN], "b": "x"}], "note": f"try Bearer {HIDDEN}", "password": None}
    blank = {"a": [1, {"key": REDACTED, "b": "x"}], "note": f"try Bearer {REDACTED}", "password": REDACTED}
    assert blank_value(value) == blank


@pytest.mark.parametrize("key", ["password", "dbPassword", "x-api-key", "API_KEY", "value", "Authorization", "set-cookie", "Pwd"])
def test_a_key_looks_secret(key):
    assert looks_secret(key)


@pytest.mark.parametrize("key", ["name", "keys", "values", "monkey", "topic", "description", "uri"])
def test_a_key_looks_harmless(key):
    assert not looks_secret(key)


@pytest.mark.parametrize(
    "piece", ["://a:", "password", '"password": {', "password: |\n ", "Bearer ", "\\u0041", "'", "value: !a &b ", "\\", "{", "- "]
)
def test_no_text_takes_long(piece):
    started = time.process_time()
    blank_text((piece * 4096)[:4096])
    blank_value([piece * 100_000])
    assert time.process_time() - started < 20
