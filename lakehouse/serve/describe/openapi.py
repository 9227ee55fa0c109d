"""The API as an OpenAPI 3.1 document, and as a page that needs no network."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import Any

from lakehouse.serve.problems import RC2
from lakehouse.serve.requests import MEMBERS
from lakehouse.version import VERSION

Document = dict[str, Any]

_TIMESTAMP: Document = {"type": "string"}
_FLAGS = {
    "inline": "What is inlined: a path such as `messages.versions`, or `*`.",
    "filter": "Which entities: `labels.stage=prod,name=*order*`.",
    "sort": "Order of a collection: `name`, or `name=desc`.",
    "limit": "Entities on a page; `Link` leads to the others.",
    "doc": "The document view: no copies, references into the answer.",
    "collections": "Only the collections.",
    "binary": "Documents as base64.",
    "specversion": "The dialect of the answer.",
}
_WRITES = {
    "PUT": "Make it, or replace it",
    "PATCH": "Change what is named",
    "POST": "Make or replace what it holds",
    "DELETE": "Delete it, with what it holds",
}
_COLLECTION = ("inline", "filter", "sort", "limit", "doc", "binary", "specversion")
_ENTITY = ("inline", "filter", "doc", "binary", "specversion")


def openapi(
    dialect: str, methods_of_path: Callable[[str], tuple[str, ...]] | None = None, more: Document | None = None
) -> Document:
    """Describe what a server answers.

    Args:
        dialect: its default.
        methods_of_path: tells which methods write at a path; None: the server only reads.
        more: `paths` and `components` that stand at the root alone.
    """
    paths: Document = {
        "/": _get("The registry", (*_ENTITY, "collections"), _or_collections(_object("registryid", "specversion"), *MEMBERS)),
        "/export": _get("The whole registry as one document", ("specversion",), _object("registryid", "specversion")),
        "/capabilities": _get("What the server can do", ("specversion",), {"type": "object"}),
        "/capabilitiesoffered": _get("What the server could do", ("specversion",), {"type": "object"}),
        "/model": _get("The model", ("specversion",), _plain("groups", "attributes")),
        "/modelsource": _get("The model without what all registries have", ("specversion",), _plain("groups")),
        "/effective/messagegroups/{groupid}/messages/{resourceid}": _get(
            "A message with what it inherits, and from where", (), _plain("xid", "attributes", "chain")
        ),
        "/events": _events(),
        **_of_draft(),
    }
    for collection, members in MEMBERS.items():
        paths |= _of_groups(collection, members)
    past = "/at/{snapshot}"
    paths[past] = _get(
        "The registry as of a snapshot: its number; labels, times and `head` lead to it", _ENTITY, _plain("registryid")
    )
    specifications = [dialect, RC2] if dialect != RC2 else [RC2]
    for operation in paths.values():
        operation["get"]["responses"] |= errors(dialect)
        for parameter in operation["get"]["parameters"]:
            if parameter["name"] == "specversion":
                parameter["schema"] = {"type": "string", "enum": specifications}
    for path, item in paths.items():
        for method in methods_of_path(path) if methods_of_path is not None else ():
            item.update(_write(method, path, dialect, specifications))
    for path, item in paths.items():
        item["parameters"] = [
            _in_path(name) for name in ("snapshot", "groupid", "resourceid", "versionid") if f"{{{name}}}" in path
        ]
    more = more or {"paths": {}}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "xRegistry Lakehouse",
            "version": VERSION,
            "description": "Each path exists below `/reg-ID` too, and below `/at/SNAPSHOT` for the past"
            + (f"; {', '.join(more['paths'])} do not." if more["paths"] else "."),
        },
        **more,
        "paths": paths | more["paths"],
    }


def as_page(document: Document) -> str:
    """Show the API as HTML."""
    rows = []
    for path, item in sorted(document["paths"].items()):
        for method in ("get", "put", "patch", "post", "delete"):
            if (operation := item.get(method)) is not None:
                flags = ", ".join(f"?{one['name']}" for one in operation["parameters"])
                told = f"<code>{method.upper()} {escape(path)}</code><td>{escape(operation['summary'])}"
                rows.append(f"<tr><td>{told}<td><code>{escape(flags)}</code>")
    return (
        "<!doctype html><html lang=en><meta charset=utf-8><title>xRegistry Lakehouse: HTTP API</title>"
        "<style>body{font:15px sans-serif;margin:2em}td{padding:.2em 1em .2em 0;vertical-align:top}</style>"
        f"<h1>xRegistry Lakehouse {escape(document['info']['version'])}: HTTP API</h1>"
        f"<p>{escape(document['info']['description'])} The same for machines: <a href=/openapi.json>/openapi.json</a>.</p>"
        f"<table>{''.join(rows)}</table></html>"
    )


def _of_draft() -> Document:
    """Describe the API of the CNCF catalog draft."""
    definitions = "/messagecatalog/{groupid}/messagedefinitions"
    return {
        "/messagecatalog": _get("Message groups, as the CNCF catalog draft lists them", (), _list("string")),
        "/messagecatalog/{groupid}": _get("A message group of the draft", (), _plain("id", "format")),
        definitions: _get("Ids of definitions", (), _list("string")),
        f"{definitions}/{{resourceid}}": _get("The latest version", (), _plain("id", "version")),
        f"{definitions}/{{resourceid}}/versions": _get("Numbers of versions", (), _list("integer")),
        f"{definitions}/{{resourceid}}/versions/{{versionid}}": _get("A version", (), _plain("id", "version")),
        "/messagedefinition": _lookup(),
    }


def _of_groups(collection: str, members: str) -> Document:
    group = f"/{collection}/{{groupid}}"
    resource = f"{group}/{members}/{{resourceid}}"
    version = f"{resource}/versions/{{versionid}}"
    entity = _object("self", "xid", "epoch")
    paths = {
        f"/{collection}": _get(f"All {collection}", _COLLECTION, _map(entity)),
        group: _get(f"One of the {collection}", (*_ENTITY, "collections"), _or_collections(entity, members)),
        f"{group}/{members}": _get(f"All {members} of it", _COLLECTION, _map(_plain("xid"))),
        f"{resource}/meta": _get("What holds for all Versions", ("doc", "specversion"), _plain("xid")),
        f"{resource}/versions": _get("All Versions", _COLLECTION, _map(entity)),
    }
    suffix = "$details" if members == "schemas" else ""
    paths[resource + suffix] = _get(f"One of the {members}, as its default Version", _ENTITY, _plain("self", "xid"))
    paths[version + suffix] = _get("A Version", _ENTITY, entity)
    if suffix:
        for path, what in ((resource, "The document of the default Version"), (version, "The document of a Version")):
            paths[path] = _get(what, ("specversion",), None)
            paths[path]["get"]["responses"]["303"] = {"description": "The document is elsewhere: `Location`."}
    return paths


def _get(summary: str, flags: tuple[str, ...], schema: Document | None, media_type: str = "application/json") -> Document:
    found: Document = {"description": "There it is."}
    if schema is not None:
        found["content"] = {media_type: {"schema": schema}}
    parameters = [{"name": name, "in": "query", "description": _FLAGS[name], "schema": _flag(name)} for name in flags]
    answers = {"200": found, "307": {"description": "A name of a snapshot leads to its number."}}
    return {"get": {"summary": summary, "parameters": parameters, "responses": answers}}


def _write(method: str, path: str, dialect: str, specifications: list[str]) -> Document:
    """Describe a request that writes."""
    is_draft, is_document = path.startswith("/messagecatalog"), "schemas/" in path and not path.endswith(("$details", "/meta"))
    is_document = is_document and not path.endswith("/versions")
    done: Document = {"description": "What was written, as GET shows it."}
    flags = () if is_draft else ("specversion",) if method == "DELETE" or is_document else ("inline", "specversion")
    parameters = [{"name": name, "in": "query", "description": _FLAGS[name], "schema": _flag(name)} for name in flags]
    for parameter in parameters:
        if parameter["name"] == "specversion":
            parameter["schema"] = {"type": "string", "enum": specifications}
    answers: Document = {"200": done, "201": done} if method != "DELETE" else {"204": {"description": "It is no more."}}
    if is_document and method != "DELETE":
        answers["303"] = {"description": "The document is elsewhere: `Location`."}
    answers |= errors(dialect) | _errors_of_writes(dialect)
    operation: Document = {"summary": _WRITES[method], "parameters": parameters, "responses": answers}
    if method != "DELETE":
        media_type = "application/octet-stream" if is_document else "application/json"
        schema: Document = {} if is_document else {"type": "object"}
        operation["requestBody"] = {"required": not is_document, "content": {media_type: {"schema": schema}}}
    return {method.lower(): operation}


def _flag(name: str) -> Document:
    if name == "limit":
        return {"type": "integer", "minimum": 1, "maximum": 100_000}
    return {"type": "string", "minLength": 1} if name in ("filter", "sort") else {"type": "string"}


def _in_path(name: str) -> Document:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}


def _plain(*required: str) -> Document:
    return {"type": "object", "required": list(required)}


def _object(*required: str) -> Document:
    life = {"createdat": _TIMESTAMP, "modifiedat": _TIMESTAMP, "epoch": {"type": "integer", "minimum": 0}}
    told = {"self": {"type": "string"}, "xid": {"type": "string"}, **life}
    return {"type": "object", "properties": told, "required": list(required)}


def _or_collections(entity: Document, *collections: str) -> Document:
    """Describe an entity, or only what it holds: with `?collections`."""
    return {"anyOf": [entity, {"type": "object", "required": sorted(collections), "maxProperties": len(collections)}]}


def _map(entity: Document) -> Document:
    return {"type": "object", "additionalProperties": entity}


def _list(kind: str) -> Document:
    return {"type": "array", "items": {"type": kind}}


def _events() -> Document:
    event = {"type": "object", "required": ["specversion", "id", "source", "type"]}
    found = _get("What changed, as CloudEvents", (), {"type": "array", "items": event}, "application/cloudevents-batch+json")
    found["get"]["parameters"] = [
        {
            "name": "since",
            "in": "query",
            "description": "The last snapshot that is known; 0: none.",
            "schema": {"type": "string"},
        },
        {"name": "feed", "in": "query", "description": "Only this feed.", "schema": {"enum": ["core", "messagecatalog"]}},
    ]
    return found


def _lookup() -> Document:
    found = _get("The version that a URI names", (), _plain("id", "version"))
    found["get"]["parameters"] = [{"name": "uri", "in": "query", "required": True, "schema": {"type": "string"}}]
    return found


def _errors_of_writes(dialect: str) -> Document:
    told = {"403": "Pages of this origin may not write.", "405": "Not here.", "408": "The body did not come in time."}
    told |= {"409": "It contradicts the catalog.", "413": "The body is too large.", "421": "Ask under another name."}
    content = next(iter(errors(dialect).values()))["content"]
    return {status: {"description": what, "content": content} for status, what in told.items()}


def errors(dialect: str) -> Document:
    """Describe the errors of requests that read, by status."""
    required = ["type", "instance", "title"] if dialect == RC2 else ["type", "title"]
    content = {"application/json": {"schema": _plain(*required)}}
    told = {"400": "The request is wrong.", "401": "A user is asked for.", "404": "There is no such thing.", "406": "Too large."}
    told |= {"414": "The URL is too long.", "503": "Not now."}
    return {status: {"description": what, "content": content} for status, what in told.items()}
