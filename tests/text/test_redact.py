from __future__ import annotations

import json

import pytest
from builders import document, found, law, read
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.text.blanking import REDACTED
from lakehouse.text.problems import CREDENTIAL
from lakehouse.text.redact import redact

HIDDEN = "hunter2"


def with_authorization(**authorization):
    return document(endpoints={"e": {"usage": ["producer"], "protocoloptions": {"authorization": authorization}}})


def with_address(uri):
    return document(endpoints={"e": {"protocoloptions": {"endpoints": [{"uri": uri}]}}})


def uri_of(written):
    return written["endpoints"]["e"]["protocoloptions"]["endpoints"][0]["uri"]


@pytest.mark.parametrize(
    "key",
    [
        "password",
        "Password",
        "secret",
        "clientsecret",
        "client_secret",
        "token",
        "access_token",
        "accessToken",
        "apikey",
        "api-key",
        "key",
        "value",
        "sharedaccesskey",
        "private_key",
        "credentials",
    ],
)
def test_a_secret_of_an_authorization_is_replaced_and_reported(key):
    written = with_authorization(type="Plain", **{key: HIDDEN})
    problems = redact(written)
    assert written == with_authorization(type="Plain", **{key: REDACTED})
    assert found(problems) == [(f"/endpoints/e/protocoloptions/authorization/{key}", CREDENTIAL, "error")]


def test_what_was_taken_out_is_not_reported():
    assert HIDDEN not in repr(redact(with_authorization(password=HIDDEN)))


@pytest.mark.parametrize("placeholder", ["{token}", "{my-token}", "{}"])
def test_a_placeholder_is_no_secret(placeholder):
    written = with_authorization(token=placeholder)
    assert redact(written) == []
    assert written == with_authorization(token=placeholder)


@pytest.mark.parametrize(
    "authorization",
    [
        {"type": "OAuth2", "resourceuri": "https://a.example", "authorityuri": "https://b.example", "grant_types": ["password"]},
        {"password": ""},
        {"tokenendpoint": "https://b.example/token"},
    ],
)
def test_the_rest_of_an_authorization_stays(authorization):
    written = with_authorization(**authorization)
    assert redact(written) == []
    assert written == with_authorization(**authorization)


def test_secrets_are_found_below_an_authorization():
    written = with_authorization(sasl={"password": HIDDEN})
    redact(written)
    assert HIDDEN not in json.dumps(written)


@pytest.mark.parametrize(
    ("uri", "clean"),
    [
        ("amqps://user:hunter2@broker.example:5671", f"amqps://user:{REDACTED}@broker.example:5671"),
        ("redis://:hunter2@broker.example", f"redis://:{REDACTED}@broker.example"),
        ("mqtt://user:hun@ter2@broker.example", f"mqtt://user:{REDACTED}@broker.example"),
        ("amqps://user:hun{ter2@broker.example", f"amqps://user:{REDACTED}@broker.example"),
        ("SASL_SSL://user:hunter2@broker.example:9092", f"SASL_SSL://user:{REDACTED}@broker.example:9092"),
    ],
)
def test_the_password_of_an_address_is_replaced(uri, clean):
    written = with_address(uri)
    problems = redact(written)
    assert uri_of(written) == clean
    assert found(problems) == [("/endpoints/e/protocoloptions/endpoints/0/uri", CREDENTIAL, "error")]


@pytest.mark.parametrize(
    "uri",
    [
        "amqps://broker.example:5671/queue",
        "https://user@broker.example",
        "https://broker.example/a:b@c",
        "amqps://user:{password}@broker.example",
    ],
)
def test_an_address_without_a_password_stays(uri):
    written = with_address(uri)
    assert redact(written) == []
    assert uri_of(written) == uri


@pytest.mark.parametrize(
    ("endpoint", "pointer"),
    [
        ({"endpoints": [{"uri": "amqps://u:hunter2@b.example"}]}, "/endpoints/0/uri"),
        ({"endpoints": ["amqps://u:hunter2@b.example"]}, "/endpoints/0"),
        ({"authorization": {"password": "hunter2"}}, "/authorization/password"),
        ({"options": {"authorization": {"password": "hunter2"}}}, "/options/authorization/password"),
        ({"config": {"endpoints": ["amqps://u:hunter2@b.example"]}}, "/config/endpoints/0"),
        ({"config": {"authorization": {"password": "hunter2"}}}, "/config/authorization/password"),
        (
            {"protocoloptions": {"options": {"authorization": {"password": "hunter2"}}}},
            "/protocoloptions/options/authorization/password",
        ),
    ],
)
def test_secrets_are_found_in_the_places_of_all_dialects(endpoint, pointer):
    written = document(endpoints={"e": endpoint})
    assert found(redact(written)) == [(f"/endpoints/e{pointer}", CREDENTIAL, "error")]
    assert HIDDEN not in json.dumps(written)


def test_an_authorization_that_is_a_text_is_replaced_whole():
    written = document(endpoints={"e": {"protocoloptions": {"authorization": f"Bearer {HIDDEN}"}}})
    redact(written)
    assert HIDDEN not in json.dumps(written)


def test_a_secret_that_is_a_number_is_replaced():
    written = with_authorization(password=12345678)
    redact(written)
    assert "12345678" not in json.dumps(written)


def test_secrets_in_a_list_are_replaced():
    written = with_authorization(password=[HIDDEN])
    redact(written)
    assert HIDDEN not in json.dumps(written)


def test_messages_keep_their_declarations_of_keys_and_values():
    written = document({"g": {"messages": {"m": {"protocol": "KAFKA", "protocoloptions": {"key": {"value": "{lampid}"}}}}}})
    before = json.dumps(written)
    assert redact(written) == []
    assert json.dumps(written) == before


@pytest.mark.parametrize(
    "written", [None, [], "x", {}, {"endpoints": []}, {"endpoints": {"e": None}}, {"endpoints": {"e": {"config": 1}}}]
)
def test_any_document_can_be_looked_at(written):
    assert redact(written) == []


def test_the_pointer_of_a_secret_is_escaped():
    written = document(endpoints={"e": {"protocoloptions": {"authorization": {"a/b~c": {"password": HIDDEN}}}}})
    assert [problem.pointer for problem in redact(written)] == ["/endpoints/e/protocoloptions/authorization/a~1b~0c/password"]


# Headers and options of messages, groups and endpoints


def in_message(**members):
    return document({"g": {"messages": {"m": members}}})


M = "/messagegroups/g/messages/m"


@pytest.mark.parametrize(
    ("written", "pointer"),
    [
        (
            in_message(protocoloptions={"headers": [{"name": "Authorization", "value": "Bearer hunter2"}]}),
            M + "/protocoloptions/headers/0/value",
        ),
        (in_message(metadata={"headers": {"X-API-KEY": {"value": HIDDEN}}}), M + "/metadata/headers/X-API-KEY/value"),
        (in_message(protocoloptions={"query": {"db_password": HIDDEN}}), M + "/protocoloptions/query/db_password"),
        (in_message(protocoloptions={"headers": {"cookie": ["{c}", HIDDEN]}}), M + "/protocoloptions/headers/cookie/1"),
        (in_message(protocoloptions={"authorization": {"token": HIDDEN}}), M + "/protocoloptions/authorization/token"),
        (in_message(envelopemetadata={"authorization": {"value": HIDDEN}}), M + "/envelopemetadata/authorization/value"),
        (in_message(versions={"1": {"metadata": {"set-cookie": HIDDEN}}}), M + "/versions/1/metadata/set-cookie"),
        (in_message(description="Basic aHVudGVyMjpodW50ZXIy"), M + "/description"),
        (in_message(dataschema={"examples": ["Bearer hunter2"]}), M + "/dataschema/examples/0"),
        (in_message(note="SharedAccessSignature sr=a&sig=hunter2&skn=b"), M + "/note"),
        (in_message(pem="-----BEGIN EC PRIVATE KEY-----\nhunter2\n-----END EC PRIVATE KEY-----"), M + "/pem"),
        (document({"g": {"config": {"headers": {"cookie": HIDDEN}}}}), "/messagegroups/g/config/headers/cookie"),
        (document({}, options={"client_secret": 1234}), "/options/client_secret"),
        (document({"g": {"authorization": {"token": HIDDEN}}}), "/messagegroups/g/authorization/token"),
        (document(endpoints={"e": {"sasl.password": HIDDEN}}), "/endpoints/e/sasl.password"),
        (document(endpoints={"e": {"AUTHORIZATION": {"x": {"token": HIDDEN}}}}), "/endpoints/e/AUTHORIZATION/x/token"),
        ({"endpoints": [{"authorization": {"password": HIDDEN}}]}, "/endpoints/0/authorization/password"),
        (
            [{"messagedefinitions": [{"definition": {"headers": {"cookie": {"value": HIDDEN}}}}]}],
            "/0/messagedefinitions/0/definition/headers/cookie/value",
        ),
        (
            document({"schema": {"messages": {"options": {"options": {"cookie": HIDDEN}}}}}),
            "/messagegroups/schema/messages/options/options/cookie",
        ),
    ],
)  # fmt: skip
def test_credentials_are_found_in_any_entity_and_shape(written, pointer):
    assert [problem.pointer for problem in redact(written)] == [pointer]
    assert HIDDEN not in json.dumps(written)


@pytest.mark.parametrize(
    "written",
    [
        in_message(protocoloptions={"headers": [{"name": "Authorization", "value": "Bearer {token}"}]}),
        in_message(protocoloptions={"headers": {"authorization": {"value": "Bearer", "required": True}}}),
        in_message(protocoloptions={"headers": {"x-api-key": {"type": "string"}}}),
        in_message(dataschema={"properties": {"headers": {"properties": {"authorization": {"type": "string"}}}}}),
        in_message(labels={"authorization": "none", "cookie": "session"}),
        in_message(description="Basic information, a bearer token, Basic authentication, Bearer REDACTED"),
        document({"authorization": {"messages": {"cookie": {"name": "n"}}}}, {"password": {"usage": ["producer"]}}),
        document(endpoints={"e": {"labels": {"password": "rotated"}, "messages": {"m": {"name": "secret"}}}}),
        document(schemagroups={"g": {"schemas": {"s": {"versions": {"1": {"schema": {"options": {"password": "x"}}}}}}}}),
    ],
)  # fmt: skip
def test_what_only_speaks_of_secrets_stays(written):
    before = json.dumps(written)
    assert redact(written) == []
    assert json.dumps(written) == before


_words = st.sampled_from(
    ["headers", "options", "name", "value", "Cookie", "AUTHORIZATION", "x-aPi-key", "a", "endpoints", "sas_key", "aeg-sas-token",
     "Bearer hunter2", "basic aHVudGVyMjpodW50ZXIy", "amqp://u:p@h", "amqp://u\"x:p@h", "-----BEGIN PRIVATE KEY-----x",
     "db-passwd", "\u017fecret", "to\u212aen"]
)  # fmt: skip
_values = st.recursive(
    _words | st.integers(0, 9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_words, inner, max_size=3),
    max_leaves=12,
)


@law
@given(st.dictionaries(_words, _values, max_size=3), st.booleans(), st.booleans())
def test_a_quick_look_at_the_text_changes_nothing(value, is_ascii, has_escaped_slashes):
    text = json.dumps(value, ensure_ascii=is_ascii)
    text = text.replace("/", "\\/") if has_escaped_slashes else text
    looked, walked = json.loads(text), json.loads(text)
    assert redact(looked, text.encode()) == redact(walked)
    assert looked == walked


def test_an_escaped_letter_is_looked_at():
    text = '{"options":{"p\\u0061ssword":"hunter2"}}'
    assert len(redact(json.loads(text), text.encode())) == 1


# Nothing of a secret leaves the reading


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            '{"endpoints":{"e":{"protocoloptions":{"authorization":{"password":"hunter2"}}}}}',
            id="accepted endpoint",
        ),
        pytest.param(
            '{"endpoints":{"e":{"usage":5,"protocoloptions":{"authorization":{"password":"hunter2"}}}}}',
            id="refused endpoint",
        ),
        pytest.param(
            '{"endpoints":{"e":{"protocoloptions":{"authorization":{"password":"hunter2","password":"hunter22"}}}}}',
            id="the secret stands twice",
        ),
        pytest.param(
            '{"endpoints":{"e":{"protocoloptions":{"authorization":{"password":"hunter2"}}},"e":{"usage":["producer"]}}}',
            id="the endpoint stands twice",
        ),
        pytest.param(
            '{"endpoints":{"e":{"protocoloptions":{"authorization":"Bearer hunter2"}}}}',
            id="an authorization of the wrong type",
        ),
    ],
)
def test_no_row_and_no_finding_holds_a_secret(text):
    reading = read(text)
    assert HIDDEN not in repr(reading)
