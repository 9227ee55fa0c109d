"""A registry is read over a real socket: pages, levels, what it refuses; and its topic gives the same."""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from replicate.sources import QUICK, answering

from lakehouse.errors import ReplicationError, SettingsError, SourceNotFound
from lakehouse.registries import RegistryOptions, fetch_registry, read_registry_source, restapi
from lakehouse.registries.restapi import RestReader
from lakehouse.registries.schemastopic import record_of_line, replay
from lakehouse.registries.subjectdocuments import RegistryContent, SubjectMapping
from lakehouse.replicate.client import Client, read_address
from lakehouse.settings import read_settings
from lakehouse.text.jsontext import as_read
from registries.registrystandins import ORDER, RegistryStandIn, shop


def fetch(registry: RegistryStandIn, *, deleted: bool = False, environment: dict[str, str] | None = None) -> RegistryContent:
    with answering(registry.answer) as server:
        client = Client(read_address(server.url, "SOURCE", environment or {}), QUICK)
        try:
            return RestReader(client).read(with_deleted=deleted)
        finally:
            client.close()


def documents(content: RegistryContent, **more: Any) -> dict[str, Any]:
    return {one.subject: one.value for one in SubjectMapping(content, **more).documents()}


@pytest.mark.parametrize("deleted", [False, True])
@pytest.mark.parametrize(("most", "has_schemas"), [(1000, True), (3, True), (1000, False)])
def test_the_api_and_the_topic_give_the_same_documents(most, has_schemas, deleted):
    registry = shop()
    registry.most, registry.has_schemas = most, has_schemas
    by_topic = documents(replay(map(record_of_line, registry.lines().splitlines())), keep_deleted=deleted)
    found = documents(fetch(registry, deleted=deleted), keep_deleted=deleted)
    assert found == by_topic
    assert len(found) == (6 if deleted else 5)
    (eu,) = found[":.eu:carts/value"]["schemagroups"].items()
    assert (eu[0], "compatibility" in eu[1]["schemas"]["carts~2Fvalue"]["meta"]) == ("eu", False)


def test_nothing_and_one_version():
    registry = RegistryStandIn()
    assert documents(fetch(registry)) == {}
    registry.register("s", ORDER)
    assert list(documents(fetch(registry))) == ["s"]


def test_a_server_that_knows_no_pages():
    registry = shop()
    requests = []

    def before(request: Any) -> bool:
        requests.append(request.path)
        request.path = request.path.replace("offset=", "unknown=")
        return False

    registry.before = before
    assert len(documents(fetch(registry))) == 5
    assert len([path for path in requests if path.startswith("/schemas")]) == 2


def test_a_registry_that_changes_between_two_pages_is_read_again():
    registry = RegistryStandIn()
    registry.most = 3
    for number in range(8):
        registry.register(f"s{number}", ORDER)
    changes = iter([1, 2])

    def before(request: Any) -> bool:
        if "offset=2" in request.path and (number := next(changes, None)):
            registry.delete(f"s{number}", 1)
        return False

    registry.before = before
    assert sorted(documents(fetch(registry))) == ["s0", "s3", "s4", "s5", "s6", "s7"]


def test_a_registry_that_never_rests_is_an_error():
    registry = RegistryStandIn()
    registry.most = 3
    for number in range(6):
        registry.register(f"s{number}", ORDER)
    numbers = iter(range(999, 0, -1))

    def before(request: Any) -> bool:
        if request.path.startswith("/schemas"):
            registry.register(f"a{next(numbers):03}" if "offset=0&" not in request.path else "z", ORDER)
        return False

    registry.before = before
    with pytest.raises(ReplicationError, match="it changed each of the 4 times"):
        fetch(registry)


def test_users_and_tokens_are_those_of_replicate():
    seen = []
    registry = shop()

    def before(request: Any) -> bool:
        seen.append(request.headers.get("Authorization"))
        if seen[-1] is None:
            request.give({"error_code": 401, "message": "Unauthorized"}, 401)
        return seen[-1] is None

    registry.before = before
    with pytest.raises(ReplicationError, match=r"answers 401.*LAKEHOUSE_SOURCE_TOKEN"):
        fetch(registry)
    assert len(documents(fetch(registry, environment={"LAKEHOUSE_SOURCE_TOKEN": "t"}))) == 5
    fetch(registry, environment={"LAKEHOUSE_SOURCE_USER": "u", "LAKEHOUSE_SOURCE_PASSWORD": "p"})
    assert {*seen} == {None, "Bearer t", "Basic " + base64.b64encode(b"u:p").decode()}


def test_a_registry_that_is_busy_is_tried_again():
    registry = shop()
    refused = []

    def before(request: Any) -> bool:
        if len(refused) < 1:
            refused.append(request.path)
            request.give({"error_code": 42901, "message": "Too Many Requests"}, 429, Retry_After="0")
            return True
        return False

    registry.before = before
    assert len(documents(fetch(registry))) == 5
    assert len(refused) == 1


def half(request: Any) -> None:
    """Answer with half a page."""
    body = json.dumps([{"subject": "s", "version": 1, "schema": '"int"'}]).encode()
    request.send_response(200)
    request.send_header("Content-Type", "application/json")
    request.send_header("Content-Length", str(len(body)))
    request.end_headers()
    request.wfile.write(body[:20])
    request.close_connection = True


TWICE = [{"subject": "s", "version": 1, "schema": '"int"'}] * 2


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (half, "broke off"),
        (lambda request: request.give({"a": 1}), "no array.*schema registry"),
        (lambda request: request.give([{"subject": "s", "version": 1}]), "`schema` of subject s, version 1 .*schema registry"),
        (lambda request: request.give(b"[", 200), "cannot be read"),
        (lambda request: request.give(TWICE), r"s version 1 more than once.*confluent\+file"),
        (lambda request: request.give({"error_code": 50001}, 500), "answers 500"),
        (lambda request: request.give([] if "schemas" in request.path else {}), "`compatibilityLevel`"),
    ],
)
def test_an_answer_that_is_not_whole_is_an_error(answer, reason):
    registry = RegistryStandIn()
    registry.before = lambda request: answer(request) or True
    with pytest.raises(ReplicationError, match=reason):
        fetch(registry)


def fetch_into(folder: Path, url: str) -> RegistryContent:
    settings = read_settings(warehouse=str(folder / "w"), readmodel_dir=str(folder / "cache"))
    return fetch_registry(read_registry_source(f"confluent+{url}"), settings, RegistryOptions())


@pytest.fixture
def many() -> RegistryStandIn:
    registry = RegistryStandIn()
    registry.most = 4
    for number in range(12):
        registry.register(f"s{number:02}", ORDER)
    return registry


@pytest.mark.parametrize("after", [0, 2, 9, 20])
def test_a_read_that_was_cut_off_goes_on(tmp_path, monkeypatch, many, after):
    monkeypatch.setattr("tenacity.nap.time.sleep", lambda seconds: None)
    answered: list[str] = []

    def before(request: Any) -> bool:
        if len(answered) >= after:
            request.close_connection = True  # without an answer
            return True
        answered.append(request.path)
        return False

    many.before = before
    with answering(many.answer) as server:
        with pytest.raises(ReplicationError, match=r"no answer|broke off"):
            fetch_into(tmp_path, server.url)
        first, after = [*answered], 10_000
        content = fetch_into(tmp_path, server.url)
        assert len(answered) == len({*answered})  # nothing was asked for twice
        assert answered[: len(first)] == first
        assert documents(content) == documents(fetch(many))
        assert list((tmp_path / "cache").glob("*.answers.jsonl")) == []
        after, whole = len(answered), len(answered)
        with pytest.raises(ReplicationError):  # what was read whole is read again
            fetch_into(tmp_path, server.url)
        assert len(answered) == whole


def test_what_changed_while_a_read_was_cut_off_is_read_again(tmp_path, monkeypatch, many):
    monkeypatch.setattr("tenacity.nap.time.sleep", lambda seconds: None)
    stops = iter([False, True, True, True, True, True])

    def before(request: Any) -> bool:
        request.close_connection = next(stops, False)
        return bool(request.close_connection)

    many.before = before
    with answering(many.answer) as server:
        with pytest.raises(ReplicationError):
            fetch_into(tmp_path, server.url)
        (kept,) = (tmp_path / "cache").glob("*.answers.jsonl")
        kept.write_bytes(kept.read_bytes() + b'["http://127.0.0.1/x", 1')  # a process that was killed while it wrote
        many.delete("s01", 1)
        assert sorted(documents(fetch_into(tmp_path, server.url))) == [f"s{number:02}" for number in range(12) if number != 1]


def test_a_read_goes_on_with_numbers_and_keys_as_they_were_answered(tmp_path, monkeypatch):
    monkeypatch.setattr("tenacity.nap.time.sleep", lambda seconds: None)
    metadata = b'{"a":1.50,"a":2,"b":123456789012345678901234567890}'
    pages = [b'[{"subject": "s", "version": 1, "schema": "1", "metadata": ' + metadata + b"}]"]
    is_cut = True

    def before(request: Any) -> bool:
        if request.path.startswith("/schemas"):
            request.give(pages.pop() if pages else b"[]", 200)  # asked for again, there is nothing
        elif not is_cut:
            return False
        request.close_connection = True
        return True

    registry = RegistryStandIn()
    registry.before = before
    with answering(registry.answer) as server:
        with pytest.raises(ReplicationError):
            fetch_into(tmp_path, server.url)
        is_cut = False
        (version,) = fetch_into(tmp_path, server.url).versions
        assert as_read(version.metadata) == metadata


def test_answers_that_are_old_are_asked_for_again(tmp_path, monkeypatch, many):
    monkeypatch.setattr("tenacity.nap.time.sleep", lambda seconds: None)
    stops = iter([False, True, True, True, True, True])
    answered: list[str] = []

    def before(request: Any) -> bool:
        request.close_connection = next(stops, False)
        answered.extend([] if request.close_connection else [request.path])
        return bool(request.close_connection)

    many.before = before
    with answering(many.answer) as server:
        with pytest.raises(ReplicationError):
            fetch_into(tmp_path, server.url)
        monkeypatch.setattr(restapi, "_FRESH", 0.0)
        fetch_into(tmp_path, server.url)
    assert answered.count(answered[0]) == 2


def test_a_topic_is_a_file_or_a_folder_of_files(tmp_path):
    registry = shop()
    settings = read_settings(warehouse=str(tmp_path / "w"))
    lines = registry.lines().splitlines(keepends=True)
    folder = tmp_path / "landed"
    folder.mkdir()
    (folder / "part-2.jsonl").write_bytes(b"".join(lines[:4]))
    (folder / "part-1.jsonl.gz").write_bytes(gzip.compress(b"\n" + b"".join(lines[4:])))
    (folder / "_SUCCESS").touch()
    (tmp_path / "one.jsonl").write_bytes(b"".join(lines))

    def read(path: Path) -> Any:
        return documents(fetch_registry(read_registry_source(f"confluent+file:{path}"), settings, RegistryOptions()))

    assert read(folder) == read(tmp_path / "one.jsonl") == documents(fetch(registry))
    (tmp_path / "cut.jsonl.gz").write_bytes(gzip.compress(b"".join(lines))[:-20])
    with pytest.raises(SourceNotFound, match="ended before"):
        read(tmp_path / "cut.jsonl.gz")
    (folder / "part-3.jsonl").write_text('{"key": 1}\n')
    with pytest.raises(SourceNotFound, match=r"landed: part-3.jsonl, line 1: it has no `key` and `value` \(but key\)"):
        read(folder)
    (folder / "part-3.jsonl").write_text('{"key": "{\\"keytype\\": \\"SCHEMA\\"}", "value": null, "offset": 99}\n')
    with pytest.raises(SourceNotFound, match="offset 99: its key names no subject and version"):
        read(folder)


def test_sources_and_the_uris_of_their_documents(tmp_path):
    (tmp_path / "t.jsonl").touch()
    source = read_registry_source(f"confluent+file:{tmp_path}/t.jsonl")
    assert source.uri_of(":.eu:a/b") == f"file://{tmp_path}/t.jsonl#%3A.eu%3Aa%2Fb"
    assert not source.is_table
    source = read_registry_source("confluent+http://u:p@127.0.0.1:1/x")
    assert source.uri_of("a/b") == "http://127.0.0.1:1/x/subjects/a%2Fb/versions"
    assert source.scope == r"\Ahttp\:\/\/127\.0\.0\.1\:1\/x\/subjects\/.*\z"
    with pytest.raises(SourceNotFound, match="no such file"):
        read_registry_source("confluent+file:nowhere.jsonl")
    with pytest.raises(SettingsError, match="loaded alone"):
        read_registry_source("docs/", f"confluent+file:{tmp_path}/t.jsonl")
