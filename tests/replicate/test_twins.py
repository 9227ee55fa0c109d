"""What the reader finds in an answer reaches the ingest: keys that occur twice, and counts that do not fit."""

from __future__ import annotations

from typing import Any

import pytest

from lakehouse.errors import ReplicationError
from lakehouse.replicate import crawler, sourcedocuments
from lakehouse.text.jsontext import as_read, members, object_of, read_json, values_of, with_member, without
from replicate.sources import Asked, answering, fetch, settings_of

MESSAGES = """{
  "m": {"name": "first"}, "m": {"name": "last", "basemessage": "/x"},
  "same": {"name": "one"}, "same": {"name": "one"},
  "n": {"meta": {"authority": "https://a.example", "authority": "https://b.example", "epoch": 2},
        "versions": {"1": {"name": "x", "labels": {"k": "1", "k": "2"}}, "1": {"name": "y", "big": 12345678901234567890123}}},
  "o": {"versions": {"1": {"name": "x", "name": "y", "count": 1.50}}}
}"""
GROUP = '{"name": "a", "name": "b", "labels": {"l": "1", "l": "2"}, "messages": ' + MESSAGES + "}"
ROOT = '"specversion": "1.0-rc4", "registryid": "r", "registryid": "s", "labels": {"l": "1", "l": "2"}'
GROUPS = '"g": ' + GROUP + ', "h": {"name": "one"}, "h": {"name": "two"}'
EXPORT = "{" + ROOT + ', "messagegroups": {' + GROUPS + '}, "schemagroups": {}, "messagegroups": {"other": {}}}'
SCHEMAS = '{"t": {"schemas": {"x": {"versions": {"1": {"schema": {"a": 1, "a": 2}, "format": "JsonSchema"}}}}}}'


def found(text: bytes | str) -> set[tuple[str, str, str, str | None]]:
    """Return what the reader finds in a text; what a warning reports is that of its key."""
    problems = read_json(text if isinstance(text, bytes) else text.encode(), 64)[1]
    return {(one.pointer, one.rule_id, one.severity, one.raw) for one in problems}


def exporting(text: str) -> Any:
    flags = {"apis": ["/export"], "flags": ["doc", "inline"], "pagination": False}

    def answer(asked: Asked) -> None:
        asked.give({"/": b"{" + ROOT.encode() + b"}", "/capabilities": flags}.get(asked.path, text.encode()))

    return answer


def test_an_object_keeps_what_it_was_read_of():
    value, problems = read_json(EXPORT.encode(), 64)
    assert len(problems) == 12
    assert found(as_read(value)) == found(EXPORT)
    twins = read_json(b'{"a": 1, "b": 2, "a": 3}', 64)[0]
    assert list(members(twins)) == [("a", 1), ("a", 3), ("b", 2)]
    assert values_of(twins, "a") == [1, 3]
    assert values_of(twins, "c") == []
    assert type(without(twins, ("a",))) is dict
    assert list(members(with_member(twins, "b", 9))) == [("a", 1), ("a", 3), ("b", 9)]
    assert type(object_of([("a", 1)])) is dict


@pytest.mark.parametrize("asked", [{}, {"authority": "https://filled.example"}])
@pytest.mark.parametrize("size", [4 << 20, 1])
def test_keys_that_occur_twice_in_an_export_reach_the_ingest(size, asked, tmp_path, monkeypatch):
    """The ingest refuses the same entities, for the same reasons, as where it reads the answer from a file."""
    monkeypatch.setattr(sourcedocuments, "_PART_BYTES", size)
    text = EXPORT.replace('"schemagroups": {}', '"schemagroups": ' + SCHEMAS)
    with answering(exporting(text)) as source:
        (document,) = fetch(settings_of(tmp_path), source.url, **asked).documents.values()
    reported = {one[:3] for one in found(document)}
    assert reported == {one[:3] for one in found(text)}
    if not asked:
        assert found(document) == found(text)
        (authorities,) = (one[3] for one in found(document) if one[0].endswith("/authority"))
        assert authorities == '["https://a.example","https://b.example"]'


def test_a_byte_order_mark_of_an_export_is_reported(tmp_path):
    with answering(exporting("\ufeff" + EXPORT)) as source:
        (document,) = fetch(settings_of(tmp_path), source.url).documents.values()
    assert found(document) == found("\ufeff" + EXPORT)


def test_a_message_of_ours_and_of_another_is_for_the_ingest_to_refuse(tmp_path):
    with answering(exporting(EXPORT)) as source:
        (document,) = fetch(settings_of(tmp_path, authority="https://a.example"), source.url).documents.values()
    assert found(document) == found(EXPORT)
    ours = EXPORT.replace("https://b.example", "https://a.example")
    with answering(exporting(ours)) as source:
        (document,) = fetch(settings_of(tmp_path / "2", authority="https://a.example"), source.url).documents.values()
    assert not any("/messages/n" in one[0] for one in found(document))


def by_groups(asked: Asked) -> None:
    """Answer as a server that nests, and has no export."""
    path = asked.path.partition("?")[0]
    answers = {
        "/": "{" + ROOT + ', "messagegroupsurl": "x", "messagegroupscount": 1}',
        "/capabilities": '{"flags": ["doc", "inline"], "pagination": false}',
        "/messagegroups": '{"g": {"messagescount": 4}}',
        "/messagegroups/g": GROUP,
    }
    asked.give(answers[path].encode())


def entity_by_entity(asked: Asked) -> None:
    """Answer as a server that nests nothing."""
    path, group = asked.path.partition("?")[0], "/messagegroups/g"
    shown = '{"name": "a", "name": "b", "labels": {"l": "1", "l": "2"}, "messagescount": 2}'
    answers = {
        "/": "{" + ROOT + ', "messagegroupsurl": "x", "messagegroupscount": 1}',
        "/messagegroups": '{"g": ' + shown + "}",
        group: shown,
        f"{group}/messages": '{"n": {"messageid": "n"}, "o": {"messageid": "o"}}',
        f"{group}/messages/n/meta": '{"messageid": "n", "authority": "https://a.example", "authority": "https://b.example"}',
        f"{group}/messages/n/versions": '{"1": {"name": "x", "labels": {"k": "1", "k": "2"}}, "1": {"name": "y"}}',
        f"{group}/messages/o/meta": '{"messageid": "o", "xref": "/a", "xref": "/b"}',
    }
    if path in answers:
        asked.give(answers[path].encode())
    else:
        asked.give({}, 404)


IN_GROUP = {"/name", "/labels/l", "/messages/n/meta/authority", "/messages/n/versions/1/labels/k", "/messages/n/versions/1"}
IN_ROOT = {"/registryid", "/labels/l"}


@pytest.mark.parametrize(
    ("answers", "more"),
    [
        (by_groups, {"/messages/m", "/messages/same", "/messages/o/versions/1/name"}),
        (entity_by_entity, {"/messages/o/meta/xref"}),
    ],
)
def test_keys_that_occur_twice_reach_the_ingest_of_any_server(answers, more, tmp_path, monkeypatch):
    monkeypatch.setattr(crawler.Walk, "_all", crawler.Walk._by_groups)
    with answering(answers) as source:
        (document,) = fetch(settings_of(tmp_path), source.url).documents.values()
        (alone,) = fetch(settings_of(tmp_path / "2"), source.url, "g").documents.values()
    wanted = IN_ROOT | {f"/messagegroups/g{one}" for one in IN_GROUP | more}
    assert {one[0] for one in found(document)} == wanted
    assert {one[0] for one in found(alone)} == wanted


def test_keys_that_occur_twice_in_the_draft_reach_the_ingest(tmp_path):
    group = "/messagecatalog/g"
    answers = {
        "/messagecatalog": '["g"]',
        group: '{"id": "g", "description": "a", "description": "b"}',
        f"{group}/messagedefinitions": '["m"]',
        f"{group}/messagedefinitions/m/versions": "[1]",
        f"{group}/messagedefinitions/m/versions/1": '{"format": "a", "format": "b", "metadata": {"k": {}, "k": 1}}',
    }
    with answering(lambda asked: asked.give(answers[asked.path].encode())) as source:
        (document,) = fetch(settings_of(tmp_path), source.url + "messagecatalog").documents.values()
    at = "/messagedefinitions/m"
    assert {one[0] for one in found(document)} == {
        "/description",
        f"{at}/format",
        f"{at}/versions/1/format",
        f"{at}/versions/1/metadata/k",
    }


@pytest.mark.parametrize(("count", "fits"), [(4, True), (6, True), (5, False), (0, False)])
def test_an_answer_with_other_counts_than_it_says_is_not_whole(count, fits, tmp_path):
    """Of keys that occur twice, a server counts both or one."""
    text = EXPORT.replace('"g": {', f'"g": {{"messagescount": {count}, ')
    with answering(exporting(text)) as source:
        if fits:
            assert fetch(settings_of(tmp_path), source.url).documents
            return
        with pytest.raises(ReplicationError, match=f"/messagegroups/g has `messagescount` {count}, and 6 messages"):
            fetch(settings_of(tmp_path), source.url)
