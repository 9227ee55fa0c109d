"""What the server says of itself: `/capabilities`, `/capabilitiesoffered`, `/model`, `/modelsource`, and the API as OpenAPI 3.1.

The model is made of the tables of the dialects, so it holds the attributes that documents are read with. A message may have many
Versions here: `maxversions` is 0, where the model files of the specification say 1. `subject_paths`: below `/ccompat/v7`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from html import escape
from typing import Any

import orjson

from lakehouse.dialects.tables import table
from lakehouse.domain.versionchanges import PROMISES
from lakehouse.serve.apierrors import RC2, RC4, REGISTRY_TYPE
from lakehouse.serve.subjects.registryapi import ROUTES, SubjectRoute
from lakehouse.serve.targets import MEMBERS, SINGULAR, SUBJECTS
from lakehouse.version import VERSION

FLAGS = ("binary", "collections", "doc", "filter", "inline", "sort", "specversion")
AVAILABLE = ("capabilities", "capabilitiesoffered", "entities", "export", "model", "modelsource")
_WRITING_FLAGS = {
    RC2: ("epoch", "nodefaultversionid", "nodefaultversionsticky", "noepoch", "noreadonly", "setdefaultversionid"),
    RC4: ("epoch", "ignore", "setdefaultversionid"),
}
IGNORABLE = ("capabilities", "defaultversionid", "defaultversionsticky", "epoch", "id", "modelsource", "readonly")
_APIS = tuple(f"/{name}" for name in AVAILABLE if name != "entities")
_VERSIONMODES = ("manual",)

_ANYTHING = {"*": {"name": "*", "type": "any"}}
_OBJECT = {"type": "object", "attributes": _ANYTHING}
_TYPES: dict[str, dict[str, Any]] = {
    "text": {"type": "string"},
    "id": {"type": "string"},
    "protocol": {"type": "string"},
    "xid": {"type": "string"},
    "string": {"type": "string"},
    "url": {"type": "url"},
    "uinteger": {"type": "uinteger"},
    "boolean": {"type": "boolean"},
    "timestamp": {"type": "timestamp"},
    "labels": {"type": "map", "item": {"type": "string"}},
    "strings": {"type": "array", "item": {"type": "string"}},
    # Its names may hold what the keys of a map hold, as `message-id` does (core/model.md, `namecharset`).
    "object": _OBJECT | {"namecharset": "extended"},
}  # what else there is, is any value
_FIXED = {"readonly": True, "immutable": True, "required": True}
_COUNTED = {"readonly": True, "required": True}
_NOT_OWN = ("entities", "computed")
_MORE: dict[str, dict[str, Any]] = {  # what rules say of an attribute, and its type does not
    "usage": {"required": True},  # END-058
    "basemessage": {"type": "uri"},  # MSG-153: in another registry it is absolute
    "messagegroups": {"type": "array", "item": {"type": "uri"}},  # END-124, likewise
}
# core/spec.md, "`deprecated` Attribute"
_DEPRECATED = {"effective": "timestamp", "removal": "timestamp", "alternative": "url", "documentation": "url"}
# core/spec.md, "`compatibility` Attribute"
_FORMATS = ("Avro/*", "JsonSchema/*", "JsonStructure/*", "Protobuf/*", "XSD/*")
_ENFORCED = {name: list(PROMISES) for name in _FORMATS}
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
_ERRORS = {
    "400": "A parameter is wrong.",
    "401": "A user is asked for.",
    "404": "There is no such thing.",
    "405": "The request writes.",
    "406": "Too large.",
    "414": "The URL is too long.",
    "422": "The schema or the version is wrong, or the request writes.",
    "501": "The library for Protobuf is not installed.",
    "503": "Not now.",
}
_ERRORS_OF_BODIES = {"408": "The body did not come in time.", "413": "The body is too large."}
_ERROR = {
    "type": "object",
    "required": ["error_code", "message"],
    "properties": {"error_code": {"type": "integer"}, "message": {"type": "string"}},
}
_SCHEMA = {
    "type": "object",
    "required": ["schema"],
    "properties": {
        "schema": {"type": "string"},
        "schemaType": {"type": "string", "enum": ["AVRO", "JSON", "PROTOBUF"]},
        "references": {"type": "array", "items": {"type": "object"}},
    },
}
_PARAMETERS = {
    "deleted": "Also what is deleted in its registry.",
    "deletedOnly": "Only what is.",
    "subjectPrefix": "How subjects begin; empty: those without a context, `:*:`: in any.",
    "subject": "Where an id is looked up: a subject, or a context as `:.NAME:`.",
    "format": "`serialized`: a Protobuf schema as a descriptor in base64.",
    "latestOnly": "Only the latest version of each subject.",
    "offset": "Results that are left out.",
    "limit": "Results at most; below 0: no limit.",
    "defaultToGlobal": "Of a subject without a level, that of all.",
    "verbose": "Say why.",
    "key": "Name of a property.",
    "value": "Its value.",
}
_NUMBERS = ("offset", "limit")


@cache
def capabilities(dialect: str, specifications: tuple[str, ...], writable: bool = False) -> bytes:
    """Write what the server can do.

    Args:
        dialect: of the answer.
        specifications: dialects that `?specversion` may ask for.
        writable: entities may be written.
    """
    flags = [*FLAGS, *(_WRITING_FLAGS[dialect] if writable else ())]
    common: dict[str, Any] = {
        "pagination": True,
        "shortself": False,
        "specversions": list(specifications),
        "versionmodes": list(_VERSIONMODES),
    }
    if dialect == RC2:
        return _text(
            {
                "apis": list(_APIS),
                "flags": sorted([*flags, "offered"]),
                "mutable": ["entities"] if writable else [],
                "schemas": [f"xRegistry-json/{RC2}"],
            }
            | common
            | {"sticky": True}
        )
    return _text(
        {
            "available": {name: {"mutable": writable and name == "entities"} for name in AVAILABLE},
            "compatibilities": _ENFORCED,
            "flags": sorted(flags),
            "formats": list(_FORMATS),
            "ignores": list(IGNORABLE) if writable else [],
        }
        | common
    )


@cache
def capabilities_offered(dialect: str, specifications: tuple[str, ...], writable: bool = False) -> bytes:
    """Write which values each capability may have: those that it has."""
    current: dict[str, Any] = orjson.loads(capabilities(dialect, specifications, writable))
    offered = {name: _offered(value) for name, value in current.items()}
    if dialect == RC4:
        parts = {
            name: {"type": "object", "attributes": {"mutable": _offered(writable and name == "entities")}} for name in AVAILABLE
        }
        offered["available"] = {"type": "object", "attributes": parts}
        offered["compatibilities"] = {
            "type": "object",
            "attributes": {name: _offered(value) for name, value in _ENFORCED.items()},
        }
    return _text(offered)


@cache
def model(dialect: str) -> bytes:
    """Write the full model."""
    return _text({"attributes": _registry_attributes(), "groups": {name: _group(name, dialect) for name in sorted(MEMBERS)}})


@cache
def modelsource(dialect: str) -> bytes:
    """Write the model without what every registry has: with it another server takes what `/export` gives."""
    groups: dict[str, Any] = {}
    for collection in sorted(MEMBERS):
        members = MEMBERS[collection]
        group: dict[str, Any] = {"singular": SINGULAR[collection], "attributes": _own(SINGULAR[collection], dialect)}
        group["resources"] = {  # again for endpoints: clients take the XID types of `ximportresources` for URLs
            members: {
                "singular": SINGULAR[members],
                "maxversions": 0,
                "hasdocument": members == "schemas",
                "attributes": _own(SINGULAR[members], dialect),
                "metaattributes": _ANYTHING,
            }
        }
        groups[collection] = group
    return _text({"attributes": _ANYTHING, "groups": groups})


def _offered(value: Any) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"type": "boolean", "enum": [value]}
    return {"type": "array", "item": {"type": "string"}, "enum": value}


def _text(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_INDENT_2)


def _named(attributes: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {name: {"name": name} | attribute for name, attribute in attributes.items()}


def _common(singular: str) -> dict[str, dict[str, Any]]:
    """Return the attributes of all entities."""
    return {
        f"{singular}id": {"type": "string", "immutable": True, "required": True},
        "self": {"type": "url"} | _FIXED,
        "xid": {"type": "xid"} | _FIXED,
        "epoch": {"type": "uinteger"} | _COUNTED,
        "name": {"type": "string"},
        "description": {"type": "string"},
        "documentation": {"type": "url"},
        "icon": {"type": "url"},
        "labels": _TYPES["labels"],
        "createdat": {"type": "timestamp", "required": True},
        "modifiedat": {"type": "timestamp", "required": True},
    }


def _collection(name: str) -> dict[str, dict[str, Any]]:
    return {
        f"{name}url": {"type": "url"} | _FIXED,
        f"{name}count": {"type": "uinteger"} | _COUNTED,
        name: {"type": "map", "item": {"type": "object", "attributes": _ANYTHING}},
    }


def _own(entity: str, dialect: str) -> dict[str, dict[str, Any]]:
    """Return the attributes of an entity that not every registry has, as a dialect spells them; and any other."""
    every = set(_common(entity)) | {"versionid", "isdefault", "ancestor", "meta", "deprecated", "schema", "schemauri"}
    results: dict[str, dict[str, Any]] = {}
    for row in table():
        is_own = row["entity"] == entity and not row["place"] and row["name"] not in every and row["type"] not in _NOT_OWN
        if is_own and row["name"] != "*":
            spelled = (row.get(dialect) or "").split()
            name = spelled[0] if spelled and not spelled[0].startswith("/") else row["name"]
            results[name] = _TYPES.get(row["type"], {"type": "any"}) | _MORE.get(row["name"], {})
    return _named(results) | _ANYTHING


def _registry_attributes() -> dict[str, dict[str, Any]]:
    inlined: dict[str, dict[str, Any]] = dict.fromkeys(("capabilities", "model", "modelsource"), _OBJECT)
    result = {"specversion": {"type": "string"} | _COUNTED} | _common("registry") | inlined
    for name in sorted(MEMBERS):
        result |= _collection(name)
    return _named(result) | _ANYTHING


def _group(collection: str, dialect: str) -> dict[str, Any]:
    singular, members = SINGULAR[collection], MEMBERS[collection]
    attributes = _common(singular) | {"deprecated": _deprecated()} | _collection(members)
    if dialect == RC4:
        attributes["constraints"] = _constraints()
    return {
        "plural": collection,
        "singular": singular,
        "attributes": _named(attributes) | _own(singular, dialect),
        "resources": {members: _resource(members, dialect)},
    }


def _deprecated() -> dict[str, Any]:
    parts = {name: {"type": kind} for name, kind in _DEPRECATED.items()}
    return {"type": "object", "attributes": _named(parts) | _ANYTHING}


def _constraints() -> dict[str, Any]:
    """Describe what a Group may demand of its Resources (core/spec.md, "`constraints` Attribute"): path → constraint."""
    parts: dict[str, dict[str, Any]] = {"default": {"type": "any"}, "equals": {"type": "string"}}
    parts["enum"] = {"type": "array", "item": {"type": "any"}}
    return {"type": "map", "item": {"type": "object", "attributes": _named(parts)}}


def _resource(members: str, dialect: str) -> dict[str, Any]:
    singular = SINGULAR[members]
    has_document = members == "schemas"
    ids = {name: attribute for name, attribute in _common(singular).items() if name in (f"{singular}id", "self", "xid")}
    life = {
        name: attribute for name, attribute in _common(singular).items() if name in ("epoch", "labels", "createdat", "modifiedat")
    }
    version = {"versionid": {"type": "string", "immutable": True, "required": True}} | _common(singular)
    version["isdefault"] = {"type": "boolean", "readonly": True, "required": True, "default": False}
    version["ancestorid" if dialect == RC4 else "ancestor"] = {"type": "string", "required": True}
    if dialect == RC4:
        for name in ("formatvalidated", "compatibilityvalidated"):
            version |= {name: {"type": "boolean", "readonly": True}, f"{name}reason": {"type": "string", "readonly": True}}
    if has_document:
        version |= {"schema": {"type": "any"}, "schemaurl": {"type": "url"}, "schemabase64": {"type": "string"}}
    resource = ids | {"metaurl": {"type": "url"} | _FIXED, "meta": _OBJECT} | _collection("versions")
    meta = ids | {"xref": {"type": "url"}} | life
    meta |= {
        "readonly": {"type": "boolean", "readonly": True, "required": True, "default": False},
        "compatibility": {"type": "string", "enum": list(PROMISES), "strict": False},  # any other is kept
        "deprecated": _deprecated(),
        "defaultversionid": {"type": "string", "required": True},
        "defaultversionurl": {"type": "url"} | _COUNTED,
        "defaultversionsticky": {"type": "boolean", "required": True, "default": False},
    }
    return {
        "plural": members,
        "singular": singular,
        "maxversions": 0,
        "setversionid": True,
        **(_validation(has_document=has_document) if dialect == RC4 else {"setdefaultversionsticky": True}),
        "hasdocument": has_document,
        "versionmode": "manual",
        "singleversionroot": False,
        "attributes": _named(version) | _own(singular, dialect),
        "resourceattributes": _named(resource),
        "metaattributes": _named(meta) | _ANYTHING,
    }


def _validation(*, has_document: bool) -> dict[str, bool]:
    """Return which aspects of Versions are checked; what cannot be checked is kept, and says so (core/model.md)."""
    return {"validateformat": has_document, "validatecompatibility": True, "strictvalidation": False}


def openapi(
    dialect: str, methods_of_path: Callable[[str], tuple[str, ...]] | None = None, more: Document | None = None
) -> Document:
    """Describe what a server answers.

    Args:
        dialect: its default.
        methods_of_path: says which methods write at a path; None: the server only reads.
        more: `paths` and `components` of the root alone.
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
        "paths": paths | subject_paths() | more["paths"],
    }


def as_page(document: Document) -> str:
    """Show the API as HTML."""
    rows = []
    for path, item in sorted(document["paths"].items()):
        for method in ("get", "put", "patch", "post", "delete"):
            if (operation := item.get(method)) is not None:
                flags = ", ".join(f"?{parameter['name']}" for parameter in operation["parameters"])
                row = f"<code>{method.upper()} {escape(path)}</code><td>{escape(operation['summary'])}"
                rows.append(f"<tr><td>{row}<td><code>{escape(flags)}</code>")
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
    results: Document = {"description": "There it is."}
    if schema is not None:
        results["content"] = {media_type: {"schema": schema}}
    parameters = [{"name": name, "in": "query", "description": _FLAGS[name], "schema": _flag(name)} for name in flags]
    answers = {"200": results, "307": {"description": "A name of a snapshot leads to its number."}}
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
    properties = {"self": {"type": "string"}, "xid": {"type": "string"}, **life}
    return {"type": "object", "properties": properties, "required": list(required)}


def _or_collections(entity: Document, *collections: str) -> Document:
    """Describe an entity, or only what it holds: with `?collections`."""
    return {"anyOf": [entity, {"type": "object", "required": sorted(collections), "maxProperties": len(collections)}]}


def _map(entity: Document) -> Document:
    return {"type": "object", "additionalProperties": entity}


def _list(kind: str) -> Document:
    return {"type": "array", "items": {"type": kind}}


def _events() -> Document:
    event = {"type": "object", "required": ["specversion", "id", "source", "type"]}
    result = _get("What changed, as CloudEvents", (), {"type": "array", "items": event}, "application/cloudevents-batch+json")
    result["get"]["parameters"] = [
        {
            "name": "since",
            "in": "query",
            "description": "The last snapshot that is known; 0: none.",
            "schema": {"type": "string"},
        },
        {"name": "feed", "in": "query", "description": "Only this feed.", "schema": {"enum": ["core", "messagecatalog"]}},
    ]
    return result


def _lookup() -> Document:
    result = _get("The version that a URI names", (), _plain("id", "version"))
    result["get"]["parameters"] = [{"name": "uri", "in": "query", "required": True, "schema": {"type": "string"}}]
    return result


def _errors_of_writes(dialect: str) -> Document:
    texts = {"403": "Pages of this origin may not write.", "405": "Not here.", "408": "The body did not come in time."}
    texts |= {"409": "It contradicts the catalog.", "413": "The body is too large.", "421": "Ask under another name."}
    content = next(iter(errors(dialect).values()))["content"]
    return {status: {"description": what, "content": content} for status, what in texts.items()}


def errors(dialect: str) -> Document:
    """Describe the errors of requests that read, by status."""
    required = ["type", "instance", "title"] if dialect == RC2 else ["type", "title"]
    content = {"application/json": {"schema": _plain(*required)}}
    texts = {"400": "The request is wrong.", "401": "A user is asked for.", "404": "There is no such thing.", "406": "Too large."}
    texts |= {"414": "The URL is too long.", "503": "Not now."}
    return {status: {"description": what, "content": content} for status, what in texts.items()}


def subject_paths() -> Document:
    """Describe the paths."""
    paths: Document = {}
    for route in ROUTES:
        path = f"/{SUBJECTS}/v7" + route.path.rstrip("/")
        item = paths.setdefault(path, {"parameters": [_in_path(name) for name in re.findall(r"{(\w+)}", path)]})
        item[route.method.lower()] = _subject_operation(route)
    return paths


def _subject_operation(route: SubjectRoute) -> Document:
    has_body = route.method == "POST"
    errors = _ERRORS | (_ERRORS_OF_BODIES if has_body else {})
    answers: Document = {"200": {"description": "There it is.", "content": {REGISTRY_TYPE: {"schema": {}}}}}
    answers |= {status: {"description": text, "content": {REGISTRY_TYPE: {"schema": _ERROR}}} for status, text in errors.items()}
    answers["400"]["content"]["application/json"] = {}  # of a path that cannot be read
    answers["307"] = {"description": "A name of a snapshot leads to its number."}
    parameters = [
        {
            "name": name,
            "in": "query",
            "description": _PARAMETERS[name],
            "schema": {"type": "integer" if name in _NUMBERS else "string"},
        }
        for name in route.parameters
    ]
    operation: Document = {"summary": route.summary, "parameters": parameters, "responses": answers}
    if has_body:
        operation["requestBody"] = {"required": True, "content": {REGISTRY_TYPE: {"schema": _SCHEMA}}}
    return operation
