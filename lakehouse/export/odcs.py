"""A registry as data contracts of the Open Data Contract Standard (ODCS), one for each message.

Fields of its payload's schema (JSON Schema, Avro, Protobuf) are properties. A property has one logical type: a value of several
types is `string` if all are scalars, else `object`; `physicalType` names them all. Types that refer to each other could be
written without end, so a contract has at most `MOST_PROPERTIES` of them; the outer ones come first.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from lakehouse.asyncapi.following import Following
from lakehouse.asyncapi.outward import address_of, endpoint_address, identity_of
from lakehouse.compatibility.avroschemas import full_name, kind_of, read_avro
from lakehouse.compatibility.limits import INVALID, Unreadable
from lakehouse.compatibility.protoschemas import ProtoField, ProtoFile
from lakehouse.dialects.tables import family_of
from lakehouse.domain.references import schema_places, schema_reference
from lakehouse.domain.schemalookup import first_stored
from lakehouse.export.backstage import OWNER, nearest_label
from lakehouse.text.jsontext import read_exactly, text_at
from lakehouse.text.names import Xid
from lakehouse.text.xid import xid_of

Property = dict[str, Any]
_Field = TypeVar("_Field")
PAYLOAD = "payload"  # the one property of a payload that is no object
MOST_PROPERTIES = 1_000  # of a contract
_MOST_STEPS = 20_000  # of reading a JSON Schema: schemas that are merged, and their properties
_DEEPEST = 12
_DATES = {"date": "date", "date-time": "timestamp", "time": "time"}
_HOLDING = ("items", "additionalProperties")
_PYTHON = {type(None): "null", str: "string", bool: "boolean", int: "integer", float: "number", dict: "object", list: "array"}
_NUMERIC = ("multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_OPTIONS: dict[str, tuple[str, ...]] = {
    "string": ("minLength", "maxLength", "pattern", "format"),
    "integer": _NUMERIC,
    "number": _NUMERIC,
    "array": ("minItems", "maxItems", "uniqueItems"),
    "object": ("minProperties", "maxProperties"),
}
_LOGICAL = (*_OPTIONS, "boolean")
_AVRO_TYPES = {
    "int": "integer", "long": "integer", "float": "number", "double": "number", "boolean": "boolean", "string": "string",
    "bytes": "string", "fixed": "string", "enum": "string", "record": "object", "array": "array", "map": "map",
}  # fmt: skip
_AVRO_LOGICAL = {"date": "date", "time-": "time", "timestamp-": "timestamp", "local-timestamp-": "timestamp", "decimal": "number"}
_PROTO_TYPES = {
    "double": "number", "float": "number", "bool": "boolean", "string": "string", "bytes": "string",
    "google.protobuf.Timestamp": "timestamp",
}  # fmt: skip
VERSION = "v3.2.0"
_HOST = re.compile(r"(?:[A-Za-z][A-Za-z0-9+._\-]*://)?([^/]*)")
_WITH_TOPICS = ("KAFKA", "MQTT")
_OWN_LABELS = (*OWNER, "domain", "status")  # what a contract has a member for
_FORMATS = {"jsonschema": "json", "avro": "avro", "protobuf": "protobuf", "xsd": "xml"}


def properties_of(schema_format: str, schema: Any, type_name: str | None = None) -> list[Property] | None:
    """Return the properties of a payload; None: the schema is of another format, or cannot be read.

    Args:
        schema_format: such as `Avro/1.11`.
        schema: a value or text.
        type_name: the type in it that is meant; None: the first.
    """
    read = _READERS.get(schema_format.partition("/")[0].lower())
    try:
        return None if read is None else read(schema, type_name)
    except (Unreadable, RecursionError, *INVALID):
        return None


class _Budget:
    """Counts the properties and steps that are left for a schema."""

    def __init__(self) -> None:
        self._properties, self._steps = MOST_PROPERTIES, _MOST_STEPS

    def taken(self, fields: Iterable[_Field]) -> list[_Field]:
        """Return the first fields of an object, as many as may become properties; they count."""
        fits = list(islice(fields, self._properties))
        self._properties -= len(fits)
        return fits

    def has_steps(self, count: int) -> bool:
        """Return whether so many steps are left; they count."""
        self._steps -= count
        return self._steps >= 0


def _property(name: str, logical: str, physical: str, **members: Any) -> Property:
    """Return a property; members that are None or empty are left out."""
    every = {"name": name, "logicalType": logical, "physicalType": physical} | members
    return {key: value for key, value in every.items() if value is not None and value not in ("", [], {}, False)}


def _as_item(property_: Property) -> Property:
    """Return a property as what an array or a map holds, which has no name."""
    return {key: member for key, member in property_.items() if key not in ("name", "required")}


def _map(value: Property) -> dict[str, Any]:
    return {"key": {"logicalType": "string"}, "value": _as_item(value)}


def _fields(whole: Property) -> list[Property]:
    """Return the properties of a payload; one that is no object is one property."""
    return whole["properties"] if whole.get("properties") else [whole]


class _Nested(NamedTuple):
    """A schema in another one, and the references that lead to what holds it: one of them again is a circle."""

    schema: Any
    within: frozenset[str] = frozenset()


class _JsonSchema:
    """Reads a JSON Schema, whose references lead into itself."""

    def __init__(self, document: Any) -> None:
        self._following = Following(document)
        self._budget = _Budget()

    def read(self, name: str, part: _Nested, *, required: bool = False, depth: int = 0) -> Property:
        """Return the property of a schema, which is required if it may not be null; depth: how many references it is in."""
        merged = self._merged(part, set())
        kinds = self._kinds(merged)
        logical = _logical(kinds)
        if logical == "object" and not merged.get("properties") and isinstance(merged.get("additionalProperties"), _Nested):
            logical = "map" if depth < _DEEPEST else logical
        form = merged.get("format") if logical == "string" else None
        logical = _DATES.get(str(form), logical)
        options = {word: merged[word] for word in _OPTIONS.get(logical, ()) if _is_option(word, merged.get(word))}
        is_required = required and not self._may_be_null(merged)
        members: dict[str, Any] = {"required": is_required, "logicalTypeOptions": options} | _texts(merged)
        members |= self._inner(part, merged, logical, depth) if depth < _DEEPEST else {}
        return _property(name, logical, str(form or " or ".join(kinds) or "any"), **members)

    @staticmethod
    def _types(merged: dict[str, Any]) -> list[str]:
        """Return the types that values may have, null among them; empty: any."""
        types = [str(value) for value in _listed(merged.get("type"))]
        types = types or [name for word, name in (("properties", "object"), ("items", "array")) if merged.get(word)]
        return types or list(dict.fromkeys(_PYTHON[type(value)] for value in _values(merged) if type(value) in _PYTHON))

    def _kinds(self, merged: dict[str, Any]) -> list[str]:
        """Return the types that values may have besides null; empty: any."""
        return [name for name in self._types(merged) if name != "null"]

    def _may_be_null(self, merged: dict[str, Any]) -> bool:
        values = _values(merged)
        return "null" in self._types(merged) and (not values or None in values)

    def _inner(self, part: _Nested, merged: dict[str, Any], logical: str, depth: int) -> dict[str, Any]:
        def read(name: str, inner: _Nested, *, required: bool = False) -> Property:
            return self.read(name, inner, required=required, depth=depth + (inner.within != part.within))

        if logical == "object":
            must = _listed(merged.get("required"))
            fields = self._budget.taken(_object(merged).items())
            return {"properties": [read(name, field, required=name in must) for name, field in fields]}
        if logical == "map":
            return {"map": _map(read("value", merged["additionalProperties"]))}
        if logical == "array" and isinstance(merged.get("items"), _Nested):
            return {"items": _as_item(read("item", merged["items"]))}
        return {}

    def _merged(self, part: _Nested, followed: set[str]) -> dict[str, Any]:
        """Return a schema with what it refers to, what `allOf` adds, and what its alternatives may have, never required.

        Args:
            part: the schema.
            followed: references that are merged already; those of this schema are added.
        """
        schema, within = part
        if not isinstance(schema, dict) or not self._budget.has_steps(1 + len(_object(schema))):
            return {}
        merged = {name: member for name, member in schema.items() if name not in ("$ref", "allOf", "oneOf", "anyOf")}
        merged |= {word: _Nested(schema[word], within) for word in _HOLDING if isinstance(schema.get(word), dict)}
        merged["properties"] = {name: _Nested(field, within) for name, field in _object(schema).items()}
        parts = [_Nested(member, within) for member in _listed(schema.get("allOf"))]
        reference = schema.get("$ref")
        if isinstance(reference, str) and reference not in within | followed:
            followed.add(reference)
            target = self._following.target(self._following.root, reference)
            parts.insert(0, _Nested(target.value if target else None, within | {reference}))
        for inner in parts:
            part_schema = self._merged(inner, followed)
            required = [*_listed(part_schema.get("required")), *_listed(merged.get("required"))]
            merged = part_schema | merged | {"properties": _object(part_schema) | _object(merged), "required": required}
        branches = [branch for word in ("oneOf", "anyOf") for branch in _listed(schema.get(word))]
        alternatives = [branch if isinstance(branch, _Nested) else _Nested(branch, within) for branch in branches]
        return self._with_alternatives(merged, [self._merged(branch, set(followed)) for branch in alternatives])

    def _with_alternatives(self, merged: dict[str, Any], branches: list[dict[str, Any]]) -> dict[str, Any]:
        """Add to a schema the types, values and properties of its alternatives; a property of several may be as each says."""
        types = list(dict.fromkeys(name for branch in branches for name in self._types(branch)))
        values = [[None] if self._types(branch) == ["null"] else _values(branch) for branch in branches]
        fields: dict[str, dict[str, _Nested]] = {}
        for name, field in (member for branch in branches for member in _object(branch).items()):
            fields.setdefault(name, {}).setdefault(repr(field.schema), field)
        added: dict[str, Any] = {"type": types} if types else {}
        if values and all(values):
            added["enum"] = list({(type(value), repr(value)): value for several in values for value in several}.values())
        combined = {name: _any_of(list(parts.values())) for name, parts in fields.items()}
        return added | merged | {"properties": combined | _object(merged)}


def _any_of(parts: list[_Nested]) -> _Nested:
    """Return what satisfies one of some schemas."""
    return parts[0] if len(parts) == 1 else _Nested({"anyOf": parts}, parts[0].within)


def _logical(kinds: list[str]) -> str:
    """Return the logical type of a value of these types; every property needs one."""
    if len(kinds) == 1 and kinds[0] in _LOGICAL:
        return kinds[0]
    return "string" if kinds and not {"object", "array", "map"} & set(kinds) else "object"


def _values(schema: dict[str, Any]) -> list[Any]:
    """Return the values that a schema lists; empty: it lists none."""
    return [schema["const"]] if "const" in schema else list(_listed(schema.get("enum")))


def _texts(schema: dict[str, Any]) -> dict[str, Any]:
    values = [value for value in _values(schema) if not isinstance(value, dict | list)]
    description = schema.get("description")
    return {
        "description": description if isinstance(description, str) else None,
        "enum": [{"value": value} for value in values],
        "examples": list(_listed(schema.get("examples"))),
    }


def _is_option(word: str, value: Any) -> bool:
    if word in ("pattern", "format"):
        return isinstance(value, str)
    return isinstance(value, bool) if word == "uniqueItems" else isinstance(value, int | float) and not isinstance(value, bool)


def _json_fields(schema: Any, type_name: str | None) -> list[Property]:
    document = read_exactly(schema.encode()) if isinstance(schema, str) else schema
    root = {"$ref": f"#/{type_name.strip('/')}"} if type_name and "/" in type_name else document
    return _fields(_JsonSchema(document).read(PAYLOAD, _Nested(root)))


class _Avro:
    """Reads an Avro schema; named types are read where they are defined and known by their names from there on."""

    def __init__(self) -> None:
        self._named: dict[str, dict[str, Any]] = {}
        self._budget = _Budget()

    def read(self, name: str, schema: Any, space: str, within: frozenset[str] = frozenset(), **members: Any) -> Property:
        """Return the property of a type; within: names of records that it is in."""
        branches = [branch for branch in schema if branch != "null"] if isinstance(schema, list) else [schema]
        if len(branches) != 1:
            kinds = [kind_of(branch) or "union" for branch in branches]
            return _property(
                name, _logical([_AVRO_TYPES.get(branch, "object") for branch in kinds]), " or ".join(kinds), **members
            )
        part = self._named.get(full_name(branches[0], space)) if isinstance(branches[0], str) else branches[0]
        part = {"type": branches[0]} if part is None else part
        kind = part["type"]
        if isinstance(kind, dict | list):
            return self.read(name, kind, space, within, **members)
        if "name" in part and kind in ("record", "error", "enum", "fixed"):
            full = full_name(part["name"], part.get("namespace", space))
            space = full.rpartition(".")[0]
            self._named[full] = part
            if kind == "record":
                members |= {} if full in within else self._record(part, space, within | {full})
        members.setdefault("description", part.get("doc"))
        if kind == "array":
            members["items"] = _as_item(self.read("item", part["items"], space, within))
        if kind == "map":
            members["map"] = _map(self.read("value", part["values"], space, within))
        if kind == "enum":
            members["enum"] = [{"value": symbol} for symbol in part["symbols"]]
        written = str(part.get("logicalType") or "")
        logical = next(
            (logical_type for prefix, logical_type in _AVRO_LOGICAL.items() if written.startswith(prefix)),
            _AVRO_TYPES.get(kind, "object"),
        )
        return _property(name, logical, written or kind, **members)

    def _record(self, part: dict[str, Any], space: str, within: frozenset[str]) -> dict[str, Any]:
        fields = []
        for field in self._budget.taken(part["fields"]):
            kinds = field["type"] if isinstance(field["type"], list) else [field["type"]]
            required = "null" not in kinds and "default" not in field
            about = {"description": field["doc"]} if isinstance(field.get("doc"), str) else {}
            fields.append(self.read(field["name"], field["type"], space, within, required=required, **about))
        return {"properties": fields}


def _avro_fields(schema: Any, type_name: str | None) -> list[Property]:
    read_avro(schema)  # refuses what is no schema
    is_json = isinstance(schema, str) and schema.lstrip()[:1] in ("{", "[", '"')
    document = read_exactly(schema.encode()) if is_json else schema
    if document == []:
        raise Unreadable("it declares no type")
    if isinstance(document, list):  # several types, of which one is meant: the last that is named so, else the last
        reader = _Avro()
        made = [reader.read(PAYLOAD, type_schema, "") for type_schema in document]
        wanted = (type_name or "").rpartition(".")[2]
        names = [type_schema.get("name") if isinstance(type_schema, dict) else type_schema for type_schema in document]
        return _fields(made[names.index(wanted)] if wanted in names else made[-1])
    return _fields(_Avro().read(PAYLOAD, document, ""))


def _proto_fields(schema: Any, type_name: str | None) -> list[Property]:
    file = ProtoFile(str(schema))
    names = [name for name in file.messages if type_name and (name == type_name or name.endswith(f".{type_name}"))]
    root = names[0] if names else file.first
    if root not in file.messages:
        raise Unreadable("it declares no message")
    return _proto_message(file, root, frozenset({root}), _Budget())


def _proto_message(file: ProtoFile, name: str, within: frozenset[str], budget: _Budget) -> list[Property]:
    def value(field: ProtoField) -> Property:
        kind = file.resolve(field.type, name)
        members: dict[str, Any] = {}
        logical = _PROTO_TYPES.get(kind, "object")
        if re.fullmatch(r"s?(?:u?int|fixed)(?:32|64)", kind):
            logical = "integer"
        if kind in file.enums:
            logical = "string"
            members["enum"] = [{"value": label} for labels in file.enums[kind].values.values() for label in labels]
        if kind in file.messages:
            members["properties"] = [] if kind in within else _proto_message(file, kind, within | {kind}, budget)
        return _property(field.name, logical, kind, required=field.label == "required", **members)

    fields = []
    for field in budget.taken(file.messages[name].fields.values()):
        made = value(field)
        if field.key:
            made = _property(field.name, "map", "map", map=_map(made))
        elif field.label == "repeated":
            made = _property(field.name, "array", "repeated", items=_as_item(made))
        fields.append(made)
    return fields


_READERS: dict[str, Callable[[Any, str | None], list[Property]]] = {
    "jsonschema": _json_fields,
    "avro": _avro_fields,
    "protobuf": _proto_fields,
}


def _object(schema: dict[str, Any]) -> dict[str, Any]:
    properties = schema.get("properties")
    return properties if isinstance(properties, dict) else {}


def _listed(value: Any) -> Iterable[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def write_contracts(registry: dict[str, Any]) -> dict[Xid, dict[str, Any]]:
    """Return a contract for each message of a registry, by its XID.

    A message of an endpoint that says the same as one of a group has that one's contract.

    Args:
        registry: in normal form, with effective definitions of messages.
    """
    contracts: dict[Xid, dict[str, Any]] = {}
    identities: set[tuple[str, str]] = set()
    for collection in ("messagegroups", "endpoints"):
        for parentid, parent in registry.get(collection, {}).items():
            for messageid, message in parent.get("messages", {}).items():
                identity = (messageid, identity_of(message))
                if collection == "messagegroups" or identity not in identities:
                    identities.add(identity)
                    xid = xid_of(collection, parentid, "messages", messageid)
                    contracts[xid] = _contract(registry, xid, parent, message)
    return contracts


def _contract(registry: dict[str, Any], xid: Xid, parent: dict[str, Any], message: dict[str, Any]) -> dict[str, Any]:
    parentid, messageid = xid.split("/")[2], xid.rpartition("/")[2]
    labels = (parent.get("labels") or {}) | (message.get("labels") or {})
    is_old = message.get("deprecated") or (message.get("meta") or {}).get("deprecated") or parent.get("deprecated")
    schema_format, schema, reference = _schema(registry, message)
    endpoints = _endpoints(registry, xid, message)
    owner = nearest_label(OWNER, message, parent)
    contract = {
        "apiVersion": VERSION,
        "kind": "DataContract",
        "id": f"{registry.get('registryid')}:{xid}",
        "name": message.get("name") or messageid,
        "version": str(message.get("versionid") or "1"),
        "status": nearest_label(("status",), message, parent) or ("deprecated" if is_old else "active"),
        "domain": nearest_label(("domain",), message, parent),
        "dataProduct": parent.get("name") or parentid,
        "description": {"purpose": message["description"]} if message.get("description") else None,
        "authoritativeDefinitions": _links(message, parent),
        "tags": sorted(name for name, value in labels.items() if not value),
        "servers": list(_servers(endpoints, schema_format)),
        "schema": [_schema_object(messageid, message, parent, endpoints, schema_format, schema, reference)],
        "team": {"name": owner} if owner else None,
        "customProperties": _custom(xid, message, parent, schema_format, reference, labels),
    }
    return {name: value for name, value in contract.items() if value not in (None, [], {})}


def _links(*entities: dict[str, Any]) -> list[dict[str, str]]:
    urls = dict.fromkeys(entity["documentation"] for entity in entities if entity.get("documentation"))
    return [{"url": url, "type": "documentation"} for url in urls]


def _endpoints(registry: dict[str, Any], xid: Xid, message: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the endpoints that carry a message, by their ids."""
    parent, _, messageid = xid.partition("/messages/")
    identity = identity_of(message)
    return {
        endpointid: endpoint
        for endpointid, endpoint in registry.get("endpoints", {}).items()
        if parent in (endpoint.get("messagegroups") or ())
        or any(
            (key, identity_of(own_message)) == (messageid, identity) for key, own_message in endpoint.get("messages", {}).items()
        )
    }


def _schema(registry: dict[str, Any], message: dict[str, Any]) -> tuple[str, Any, str | None]:
    """Return format and value of a message's schema, and the reference to it; None: the message itself has it."""
    reference = schema_reference(text_at(message, "dataschemauri"), text_at(message, "dataschemaxid"))
    if message.get("dataschema") is not None or reference is None:
        return str(message.get("dataschemaformat") or "JSONSchema/draft-07"), message.get("dataschema"), None
    stored = first_stored(registry, reference)
    body = {} if stored is None else stored.attributes
    return str(body.get("format") or message.get("dataschemaformat") or ""), body.get("schema"), reference


def _schema_object(
    messageid: str, message: dict[str, Any], parent: dict[str, Any], endpoints: dict[str, dict[str, Any]], schema_format: str,
    schema: Any, reference: str | None,
) -> dict[str, Any]:  # fmt: skip
    protocol = message.get("protocol") or parent.get("protocol")
    address = address_of(message, family_of(protocol))
    address = address or next(
        (text for endpoint in endpoints.values() if (text := endpoint_address(endpoint, endpoint.get("protocol")))), None
    )
    places = schema_places(reference) if reference else []
    made = {
        "name": messageid,
        "physicalName": address,
        "physicalType": "topic" if family_of(protocol) in _WITH_TOPICS else "message",
        "logicalType": "object",
        "description": message.get("description"),
        "properties": None if schema is None else properties_of(schema_format, schema, _type_name(places)),
    }
    return {name: value for name, value in made.items() if value not in (None, [])}


def _type_name(places: list[Any]) -> str | None:
    return next((place.type_name or place.place for place in places if place.type_name or place.place), None)


def _servers(endpoints: dict[str, dict[str, Any]], schema_format: str) -> Iterator[dict[str, Any]]:
    form = _FORMATS.get(schema_format.partition("/")[0].lower())
    for endpointid, endpoint in endpoints.items():
        family = family_of(endpoint.get("protocol"))
        addresses = (endpoint.get("protocoloptions") or {}).get("endpoints") or []
        uris = [address["uri"] for address in addresses if isinstance(address, dict) and isinstance(address.get("uri"), str)]
        for nth, uri in enumerate(uris, 1):
            server = {"server": endpointid if nth == 1 else f"{endpointid}-{nth}"}
            about = {"description": endpoint["description"]} if endpoint.get("description") else {}
            host = _HOST.match(uri)
            if family == "KAFKA" and host is not None:
                yield server | {"type": "kafka", "host": host[1]} | ({"format": form} if form else {}) | about
            elif family == "HTTP":
                yield server | {"type": "api", "location": uri} | about
            else:
                yield server | {"type": "custom", "location": uri} | ({"format": form} if form else {}) | about


def _custom(
    xid: Xid, message: dict[str, Any], parent: dict[str, Any], schema_format: str, reference: str | None, labels: dict[str, str]
) -> list[dict[str, Any]]:  # fmt: skip
    """Return what a contract has no member for."""
    metadata = message.get("envelopemetadata") or {}
    values = {
        "xid": xid,
        "protocol": message.get("protocol") or parent.get("protocol"),
        "envelope": message.get("envelope"),
        "contentType": message.get("datacontenttype"),
        "schemaFormat": message.get("dataschemaformat") or schema_format,
        "schema": reference,
    }
    types = metadata.get("type")
    values["cloudEventsType"] = types.get("value") if isinstance(types, dict) else types
    values |= {name: value for name, value in labels.items() if value and name not in _OWN_LABELS and name not in values}
    return [{"property": name, "value": value} for name, value in values.items() if value]
