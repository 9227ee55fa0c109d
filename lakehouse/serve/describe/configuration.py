"""What the server tells of itself: `/capabilities`, `/capabilitiesoffered`, `/model`, `/modelsource`, in both dialects.

The model is made of the tables of the dialects, so it holds the attributes that documents are read with. A message may have many
Versions here: `maxversions` is 0, where the model files of the specification say 1.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import orjson

from lakehouse.dialects.tables import table
from lakehouse.domain.promises import PROMISES
from lakehouse.serve.problems import RC2, RC4
from lakehouse.serve.requests import MEMBERS, SINGULAR

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
_GIVEN = {"readonly": True, "immutable": True, "required": True}
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
_ENFORCED = {f"{name}/*": list(PROMISES) for name in ("Avro", "JsonSchema", "JsonStructure", "Protobuf", "XSD")}


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
            "formats": [],
            "ignores": list(IGNORABLE) if writable else [],
        }
        | common
    )


@cache
def capabilities_offered(dialect: str, specifications: tuple[str, ...], writable: bool = False) -> bytes:
    """Write which values each capability may have: those that it has."""
    told: dict[str, Any] = orjson.loads(capabilities(dialect, specifications, writable))
    offered = {name: _offered(value) for name, value in told.items()}
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
        group["resources"] = {  # told anew for endpoints: clients take the XID types of `ximportresources` for URLs
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
    return {name: {"name": name} | told for name, told in attributes.items()}


def _common(singular: str) -> dict[str, dict[str, Any]]:
    """Give the attributes of all entities."""
    return {
        f"{singular}id": {"type": "string", "immutable": True, "required": True},
        "self": {"type": "url"} | _GIVEN,
        "xid": {"type": "xid"} | _GIVEN,
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
        f"{name}url": {"type": "url"} | _GIVEN,
        f"{name}count": {"type": "uinteger"} | _COUNTED,
        name: {"type": "map", "item": {"type": "object", "attributes": _ANYTHING}},
    }


def _own(entity: str, dialect: str) -> dict[str, dict[str, Any]]:
    """Give the attributes of an entity that not every registry has, as a dialect spells them; and any other."""
    every = set(_common(entity)) | {"versionid", "isdefault", "ancestor", "meta", "deprecated", "schema", "schemauri"}
    found: dict[str, dict[str, Any]] = {}
    for row in table():
        is_own = row["entity"] == entity and not row["place"] and row["name"] not in every and row["type"] not in _NOT_OWN
        if is_own and row["name"] != "*":
            spelled = (row.get(dialect) or "").split()
            name = spelled[0] if spelled and not spelled[0].startswith("/") else row["name"]
            found[name] = _TYPES.get(row["type"], {"type": "any"}) | _MORE.get(row["name"], {})
    return _named(found) | _ANYTHING


def _registry_attributes() -> dict[str, dict[str, Any]]:
    inlined: dict[str, dict[str, Any]] = dict.fromkeys(("capabilities", "model", "modelsource"), _OBJECT)
    found = {"specversion": {"type": "string"} | _COUNTED} | _common("registry") | inlined
    for name in sorted(MEMBERS):
        found |= _collection(name)
    return _named(found) | _ANYTHING


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
    ids = {name: told for name, told in _common(singular).items() if name in (f"{singular}id", "self", "xid")}
    life = {name: told for name, told in _common(singular).items() if name in ("epoch", "labels", "createdat", "modifiedat")}
    version = {"versionid": {"type": "string", "immutable": True, "required": True}} | _common(singular)
    version["isdefault"] = {"type": "boolean", "readonly": True, "required": True, "default": False}
    version["ancestorid" if dialect == RC4 else "ancestor"] = {"type": "string", "required": True}
    if has_document:
        version |= {"schema": {"type": "any"}, "schemaurl": {"type": "url"}, "schemabase64": {"type": "string"}}
    resource = ids | {"metaurl": {"type": "url"} | _GIVEN, "meta": _OBJECT} | _collection("versions")
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
        **({} if dialect == RC4 else {"setdefaultversionsticky": True}),
        "hasdocument": has_document,
        "versionmode": "manual",
        "singleversionroot": False,
        "attributes": _named(version) | _own(singular, dialect),
        "resourceattributes": _named(resource),
        "metaattributes": _named(meta) | _ANYTHING,
    }
