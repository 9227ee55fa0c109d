"""Writes the model's documents as texts: in JSON and YAML, packed or not, in the spellings of several dialects."""

from __future__ import annotations

import gzip
import json
from typing import Any

import yaml

from .terms import PLAIN, Document, Endpoint, Group, Resource, Text

DIALECTS = ("1.0-rc2", "1.0-rc1", "1.0-rc4", "0.5-wip", "cereg")
SUFFIXES = (".json", ".yaml", ".json.gz", ".yml.gz", ".xreg.json")
# Why nothing of a document can be read.
DAMAGES = {
    "cut": "the text ends in the middle",
    "surrogate": "a text that is no Unicode",
    "array": "`messagegroups` is an array",
}
_NAMES: dict[str, dict[str, str]] = {
    "1.0-rc1": {"basemessage": "basemessageuri"},
    "0.5-wip": {"basemessage": "basemessageurl", "dataschemaformat": "schemaformat"},
    "cereg": {
        "messagegroups": "definitionGroups", "messages": "definitions", "schemagroups": "schemaGroups",
        "basemessage": "basemessageurl", "dataschemaformat": "schemaformat", "envelope": "format", "envelopemetadata": "metadata",
    },
}  # fmt: skip


def write(document: Document, path: str) -> bytes:
    """Write a document as the suffix of its path asks for."""
    if document.damage == "empty":
        return b""
    stem = path.removesuffix(".gz")
    is_yaml = stem.endswith((".yaml", ".yml"))
    text = _damaged(document, is_yaml=is_yaml) if document.damage else _text(spelled(document), is_yaml=is_yaml)
    return gzip.compress(text, mtime=0) if path.endswith(".gz") else text


def spelled(document: Document) -> dict[str, Any]:
    """Write a document as a JSON value, in its dialect."""
    names = _NAMES.get(document.dialect, {})
    written: dict[str, Any] = {} if document.dialect == "cereg" else {"specversion": document.dialect}
    written |= {} if document.registry is None else {"registryid": document.registry}
    written |= {} if document.name is None else {"name": document.name}
    groups = {key: _group(key, one, "messages", document.dialect) for key, one in document.groups.items()}
    schemas = {key: _group(key, one, "schemas", document.dialect) for key, one in document.schemagroups.items()}
    other = "messagegroups" if document.dialect == "cereg" else "definitionGroups"
    doubled = {key: _group(key, one, "messages", document.dialect) for key, one in document.doubled.items()}
    endpoints = {key: _endpoint(key, one, document.dialect) for key, one in document.endpoints.items()}
    collections = {
        names.get("messagegroups", "messagegroups"): groups, other: doubled,
        "endpoints": endpoints, names.get("schemagroups", "schemagroups"): schemas,
    }  # fmt: skip
    own = names.get("messagegroups", "messagegroups")  # written though empty: it reports a registry document
    return written | {key: one for key, one in collections.items() if one or key == own}


def _text(value: Any, *, is_yaml: bool) -> bytes:
    if is_yaml:
        return str(yaml.safe_dump(value, sort_keys=False, allow_unicode=True)).encode()
    return json.dumps(value, ensure_ascii=False, indent=1).encode()


def _damaged(document: Document, *, is_yaml: bool) -> bytes:
    # Where a reader of texts alone could look for it: a header, an address, a password.
    held = {
        "authorization": f"Bearer {document.secret}",
        "password": document.secret,
        "uri": f"amqp://user:{document.secret}@host",
    }
    secrets: dict[str, Any] = {"note": held} if document.secret else {}
    value = spelled(document) | secrets
    if document.damage == "other":
        return _text({"asyncapi": "1.2.0", "info": {"title": "another"}}, is_yaml=is_yaml)
    if document.damage == "list":
        return _text([1, 2], is_yaml=is_yaml)
    if document.damage == "array":
        return _text(secrets | {"specversion": "1.0-rc2", "messagegroups": [{"messagegroupid": "g"}]}, is_yaml=is_yaml)
    if document.damage == "surrogate":
        return _text(secrets | {"specversion": "1.0-rc2"}, is_yaml=is_yaml).rstrip(b"}\n") + (
            b'\nname: "\\ud800"\nmessagegroups: {}\n' if is_yaml else b', "name": "\\ud800", "messagegroups": {}, "\\ud800": }'
        )
    text = _text(value, is_yaml=is_yaml)
    return text.rstrip(b"}\n \t") + (b'\n  "cut: [' if is_yaml else b', "cut": [')


def _bad(is_bad: bool) -> dict[str, Any]:
    """Return an attribute of a wrong type, for which an entity of any kind is refused."""
    return {"epoch": "first"} if is_bad else {}


def _group(key: str, group: Group, holds: str, dialect: str) -> dict[str, Any]:
    names = _NAMES.get(dialect, {})
    members = {name: _resource(name, one, holds, dialect) for name, one in group.members.items()}
    written: dict[str, Any] = {"id": key} if dialect == "cereg" else {}
    return written | {**_bad(group.bad), "name": group.name, names.get(holds, holds): members}


def _resource(name: str, resource: Resource, holds: str, dialect: str) -> dict[str, Any]:
    def version(text: Text) -> dict[str, Any]:
        return _schema(text) if holds == "schemas" else _message(name, text, dialect)

    written: dict[str, Any] = {"id": name} if dialect == "cereg" else {}
    if resource.plain:
        return written | version(resource.versions[PLAIN])
    declared: dict[str, Any] = {} if resource.default is None else {"meta": {"defaultversionid": resource.default}}
    return written | declared | {"versions": {key: version(one) for key, one in resource.versions.items()}}


def _schema(text: Text) -> dict[str, Any]:
    name = 5 if text.odd else text.name
    return {"format": "JSONSchema/draft-07", "name": name, "schema": {"title": text.name}, **_bad(text.bad)}


def _message(name: str, text: Text, dialect: str) -> dict[str, Any]:
    names = _NAMES.get(dialect, {})
    declared: dict[str, Any] = {"type": {"value": name}}
    written: dict[str, Any] = {
        "name": 5 if text.odd else text.name,
        "envelope": "CloudEvents/1.0",
        "envelopemetadata": {"attributes": declared} if dialect == "cereg" else declared,
    }
    written |= _bad(text.bad)
    if text.base is not None:
        fragment = "#" if dialect in ("0.5-wip", "cereg") else ""
        written["basemessage"] = f"{fragment}{text.base_xid}"
    if text.schema is not None:
        group, schema = text.schema.split("/")
        written |= {"dataschemaxid": f"/schemagroups/{group}/schemas/{schema}", "dataschemaformat": "JSONSchema/draft-07"}
    written = {names.get(key, key): value for key, value in written.items()}
    if text.secret is not None:
        header = {"name": "Authorization", "value": f"Bearer {text.secret}"}
        written |= {"protocol": "HTTP", "protocoloptions": {"headers": [header]}}
    return written


def _endpoint(key: str, endpoint: Endpoint, dialect: str) -> dict[str, Any]:
    names = _NAMES.get(dialect, {})
    address = "mqtt://host" if endpoint.secret is None else f"mqtt://user:{endpoint.secret}@host"
    options: dict[str, Any] = {"endpoints": [{"uri": address}]}
    if endpoint.secret is not None:
        options["authorization"] = {"type": "Plain", "password": endpoint.secret}
    if endpoint.will is not None:
        group, message = endpoint.will.split("/")
        options["options"] = {"willmessage": f"/messagegroups/{group}/messages/{message}"}
    members = {name: _resource(name, one, "messages", dialect) for name, one in endpoint.members.items()}
    written: dict[str, Any] = {"id": key} if dialect == "cereg" else {}
    return written | _bad(endpoint.bad) | {
        "name": endpoint.name, "usage": ["producer"], "protocol": "MQTT/5.0",
        "config" if dialect == "cereg" else "protocoloptions": options, names.get("messages", "messages"): members,
    }  # fmt: skip
