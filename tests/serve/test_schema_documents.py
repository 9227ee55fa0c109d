"""Documents of schemas over HTTP: their bytes are those that came, and their metadata says what they are."""

from __future__ import annotations

import base64
import json

import pytest

from serve.writing import empty_warehouse, writing

GROUP = "/schemagroups/g/schemas"
JSON = b'\xef\xbb\xbf{ "z": 1e2,\n\t"a": [1.0, 1.50, {"y": 1, "b": 123456789012345678901}], "\\u00e4": "\\/" }\n'
COMPACT = '{"z":1e2,"a":[1.0,1.50,{"y":1,"b":123456789012345678901}],"ä":"/"}'


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    folder = tmp_path_factory.mktemp("documents")
    with writing(empty_warehouse(folder / "w").folder, folder / "r") as found:
        yield found


@pytest.mark.parametrize(
    ("contenttype", "content"),
    [
        ("application/json", JSON),
        ("application/json", JSON.removeprefix(b"\xef\xbb\xbf").strip()),
        ("application/schema+json; charset=utf-8", b'{"b":1,"a":2}'),
        ("application/json", b'"a string"'),
        ("application/json", b"5"),
        ("application/json", b'{"a": 1, "a": 2}'),
        ("application/json", b"{ not json"),
        ("application/vnd.apache.avro", b'{ "type": "string" }'),
        ("text/plain", b'{ "type": "string" }\r\n'),
        ("text/plain", b""),
        ("application/x-protobuf", 'syntax = "proto3"; // ä\n'.encode()),
        ("application/xml", b"\xef\xbb\xbf<x/>\n"),
        ("application/octet-stream", b"\x00\x01\xff"),
        ("application/octet-stream", b"text\x00with a null"),
        ("", b"[ 1.10 ]"),
    ],
)
def test_the_bytes_of_a_document_are_those_that_came(served, contenttype, content):
    path = f"{GROUP}/d{abs(hash((contenttype, content)))}"
    headers = {"Content_Type": contenttype} if contenttype else {}
    assert served.send("PUT", path, raw=content, **headers).status == 201
    assert served.send("GET", path).body == content
    # It is the same when something else of it changes, and in a copy that is made of its metadata
    assert "contenttype" in served.done("PATCH", path + "$details", {"name": "n"}) or not contenttype
    assert served.send("GET", path).body == content
    metadata = served.get(path + "$details?inline=schema&binary")
    assert base64.b64decode(metadata["schemabase64"]) == content
    served.done("PUT", path + "-copy$details?ignore=id,epoch", metadata)
    copied = served.send("GET", path + "-copy")
    assert (copied.body, copied.headers.get("content-type")) == (content, served.send("GET", path).headers.get("content-type"))


def test_json_is_inlined_as_it_was_written_without_its_blanks(served):
    path = GROUP + "/inlined"
    served.send("PUT", path, raw=JSON, Content_Type="application/json")
    for query in ("$details?inline=schema", "$details?inline=*&doc"):
        assert f'"schema":{COMPACT}'.encode() in served.send("GET", path + query).body
    assert f'"schema":{COMPACT}'.encode() in served.send("GET", "/export").body


def test_a_document_in_the_metadata_has_the_text_that_it_has_there(served):
    text = JSON.decode("utf-8-sig").strip()
    version = f'{{"format": "JSONSchema/draft-07", "schema" :  {text} , "labels": {{"schema": "x"}}}}'
    bodies = {
        GROUP + "/one$details": version,
        GROUP + "/two/versions/7$details": version,
        GROUP + "/three/versions": f'{{"1": {version}}}',
        GROUP: f'{{"four": {version}, "five": {{"versions": {{"1": {version}}}}}}}',
        "/schemagroups/g": f'{{"name": "g", "schemas": {{"six": {version}}}}}',
        "/schemagroups": f'\n{{"g": {{"schemas": {{"seven": {version}}}}}}}',
        "/": f'{{"schemagroups": {{"g": {{"schemas": {{"eight": {version}}}}}}}, "extra": {{"schema": {{"a": 1}}}}}}',
    }
    for path, body in bodies.items():
        answer = served.send("PATCH", path, raw=("\ufeff" + body).encode())
        assert answer.status in (200, 201), (path, answer.body)
    for name in ("one", "two", "three", "four", "five", "six", "seven", "eight"):
        got = served.send("GET", f"{GROUP}/{name}")
        assert (got.body.decode(), got.headers["content-type"]) == (text, "application/json"), name
        assert served.get(f"{GROUP}/{name}$details")["labels"] == {"schema": "x"}


def test_a_json_document_in_the_metadata_has_the_media_type_of_json_unless_another_is_given(served):
    path = GROUP + "/typed$details"
    assert served.done("PUT", path, {"schema": {"a": 1}})["contenttype"] == "application/json"
    assert served.done("PATCH", path, {"contenttype": "application/schema+json"})["contenttype"] == "application/schema+json"
    assert served.done("PATCH", path, {"schema": {"a": 2}})["contenttype"] == "application/schema+json"
    assert served.done("PUT", path, {"schema": {"a": 2}})["contenttype"] == "application/json"
    assert "contenttype" not in served.done("PUT", path, {"schema": {"a": 2}, "contenttype": None})
    assert "contenttype" not in served.done("PUT", path, {"schema": 'syntax = "proto3";'})
    assert "contenttype" not in served.done("PUT", GROUP + "/plain$details", {"name": "no document"})


def test_text_is_a_string_where_its_media_type_maps_to_one_and_base64_elsewhere(served):
    for contenttype, name in (
        ("text/plain", "schema"), ("text/plain; charset=utf-8", "schema"), ("", "schema"),
        ("application/x-protobuf", "schemabase64"), ("application/xml", "schemabase64"), ("text/xml", "schemabase64"),
    ):  # fmt: skip
        served.send("PUT", GROUP + "/mapped", raw=b"a text", **({"Content_Type": contenttype} if contenttype else {}))
        shown = served.get(GROUP + "/mapped$details?inline=schema")
        assert [one for one in ("schema", "schemabase64") if one in shown] == [name], contenttype
        assert shown[name] == ("a text" if name == "schema" else base64.b64encode(b"a text").decode())


def test_credentials_in_a_document_are_refused_as_elsewhere(served):
    reported = {"default": "https://user:geheim12@host.example/"}
    for content in (json.dumps(reported).encode(), json.dumps(reported, indent=2).encode(), reported["default"].encode()):
        assert served.send("PUT", GROUP + "/secret", raw=content).status == 400, content
