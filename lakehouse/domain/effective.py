"""The effective definition of a message: with the chain of its bases and what the specifications infer.

Computed of the bodies of the entities alone, as a row of `effective_messages` and as what two snapshots are compared by. The view
`computed_messages`, and the views that it reads, compute the same for whole tables: tests compare them. Inferred are the defaults
of MSG-054, MSG-055, MSG-237 to MSG-263, END-135, END-163 and END-165.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache, lru_cache, partial
from typing import Any, NamedTuple

from lakehouse.dialects.tables import GUESSED, PROTOCOLS, family_of, protocol_version
from lakehouse.domain.bases import Chain, FindAttributes, FlatAttributes, chain_of, merged, shown_version, text_at
from lakehouse.domain.diff import (
    Difference,
    Key,
    differences_of,
    flat_attributes_of_entity,
    flat_attributes_of_message,
    in_order,
    with_other_schema,
)
from lakehouse.domain.flatattributes import flat_attributes_of_body
from lakehouse.domain.references import schema_places, schema_reference
from lakehouse.text.jsontext import canonical_text, pointer_of, read_canonical, unquoted
from lakehouse.text.names import JsonText, Pointer, RegistryId, Xid
from lakehouse.text.xid import split_version, xid_of_resource

_ENVELOPEMETADATA = "/envelopemetadata"
# Attributes of CloudEvents that have a column, and whether each is required when nothing is said.
_CE = {"type": True, "source": True, "subject": False}
_LABELS = "/labels/"
_DATACONTENTTYPE, _DATASCHEMAURI = Pointer("/datacontenttype"), Pointer("/dataschemauri")
FindBody = Callable[[RegistryId, Xid], JsonText | None]
FindFlat = Callable[[RegistryId, Xid], FlatAttributes | None]
_MOST_CACHED = 10_000  # bodies that were read, since many messages have one base


class _InferredAttribute(NamedTuple):
    """What is inferred of a CloudEvents attribute: its type, whether it is required, its value."""

    type: str
    required: bool = False
    value: JsonText | None = None


_ALWAYS = {
    "specversion": _InferredAttribute("string", required=True, value=JsonText('"1.0"')),
    "id": _InferredAttribute("string", required=True),
    "source": _InferredAttribute("uritemplate", required=True),
    "type": _InferredAttribute("string", required=True),
    "time": _InferredAttribute("timestamp", value=JsonText('"0000-01-01T00:00:00Z"')),
}
_DECLARED = _InferredAttribute("string")


def inferred_attributes(attributes: FlatAttributes) -> dict[Pointer, JsonText]:
    """Return what is inferred of an effective definition, as flat attributes; nothing that it says itself."""
    of_format = format_type(attributes)
    implied: dict[Pointer, JsonText] = {}
    if is_cloudevent(attributes):
        content_type = attributes.get(_DATACONTENTTYPE, None if of_format is None else canonical_text(of_format))
        names = dict.fromkeys(map(_attribute_name, attributes))
        implied |= _of_cloudevent(tuple(names), None if content_type == "null" else content_type)
        schema = attributes.get(_DATASCHEMAURI)
        if "dataschema" in names or schema not in (None, "null"):
            implied |= _flattened({"dataschema": _InferredAttribute("uritemplate", value=None if schema == "null" else schema)})
    if of_format is not None:
        implied[_DATACONTENTTYPE] = canonical_text(of_format)
    family = family_of(text_at(attributes, "/protocol"))
    if family == "MQTT":
        implied |= _implied_option("qos", 0) | _implied_option("retain", False)
    if family == "HTTP" and attributes.get(Pointer("/protocoloptions/status/value"), "null") == "null":
        implied |= _implied_option("method", "POST")
    return {pointer: leaf for pointer, leaf in implied.items() if pointer not in attributes}


@lru_cache(_MOST_CACHED)
def _attribute_name(pointer: Pointer) -> str | None:
    """Return the CloudEvents attribute, escaped as in a pointer, that a flat attribute belongs to; None: to none."""
    return pointer.split("/")[2] if pointer.startswith(f"{_ENVELOPEMETADATA}/") else None


@lru_cache(_MOST_CACHED)
def _of_cloudevent(names: tuple[str | None, ...], content_type: JsonText | None) -> dict[Pointer, JsonText]:
    """Return what CloudEvents says of its attributes but `dataschema`: of those that each event has, and of those named."""
    declared = {name: _DECLARED for name in names if name is not None and name != "dataschema" and name not in _ALWAYS}
    if content_type is not None:
        declared["datacontenttype"] = _InferredAttribute("string", value=content_type)
    return _of_each_cloudevent() | _flattened(declared)


@cache
def _of_each_cloudevent() -> dict[Pointer, JsonText]:
    return _flattened(_ALWAYS)


def _flattened(declared: Mapping[str, _InferredAttribute]) -> dict[Pointer, JsonText]:
    result: dict[Pointer, JsonText] = {}
    for name, inferred in declared.items():
        at = f"{_ENVELOPEMETADATA}/{name}"  # of a pointer: it is escaped
        result[Pointer(f"{at}/type")] = canonical_text(inferred.type)
        result[Pointer(f"{at}/required")] = canonical_text(inferred.required)
        if inferred.value is not None:
            result[Pointer(f"{at}/value")] = inferred.value
    return result


def _implied_option(name: str, value: str | int | bool) -> dict[Pointer, JsonText]:
    return {pointer_of("protocoloptions", name, "value"): canonical_text(value)}


def is_cloudevent(attributes: FlatAttributes) -> bool:
    """Return whether the envelope is CloudEvents, of whatever version."""
    return (text_at(attributes, "/envelope") or "").partition("/")[0].upper() == "CLOUDEVENTS"


def format_type(attributes: FlatAttributes) -> str | None:
    """Return the media type that `dataschemaformat` stands for: that of JSON Schema is JSON."""
    name = (text_at(attributes, "/dataschemaformat") or "").partition("/")[0]
    return "application/json" if name.replace("-", "").replace("_", "").upper() == "JSONSCHEMA" else None


def columns_of(attributes: FlatAttributes) -> dict[str, Any]:
    """Return the columns of `effective_messages` that follow from an effective definition alone.

    Args:
        attributes: the definition, with all that it inherits.
    """
    is_event = is_cloudevent(attributes)
    protocol = _text(attributes, "/protocol")
    uri = _text(attributes, "/dataschemauri")
    places = schema_places(uri) if uri is not None else []
    schema_xid, _ = split_version(_text(attributes, "/dataschemaxid") or "")
    columns: dict[str, Any] = {
        name: _text(attributes, f"/{name}") for name in ("name", "description", "envelope", "dataschemaformat", "dataschemauri")
    }
    for name, by_default in _CE.items():
        required = _text(attributes, f"/envelopemetadata/{name}/required")
        columns[f"ce_{name}"] = _text(attributes, f"/envelopemetadata/{name}/value")
        columns[f"ce_{name}_required"] = (by_default if required is None else required == "true") if is_event else None
    return columns | {
        "labels": _labels(attributes),
        "protocol": protocol,
        "protocol_family": family_of(protocol),
        "protocol_version": None if protocol is None else protocol_version(protocol),
        "address": _address(attributes, family_of(protocol)),
        "kafka_key": _option(attributes, "key") or _option(attributes, "key_base64"),
        "http_method": _option(attributes, "method"),
        "http_status": _option(attributes, "status"),
        "schema_xid": schema_xid or (places[-1].schema if places else None),
        "datacontenttype": _text(attributes, "/datacontenttype") or format_type(attributes),
        "attributes": dict(attributes),
        "inferred": inferred_attributes(attributes),
    }


def payload_reference(row: Mapping[str, Any]) -> str | None:
    """Return the reference that names the schema of the payload of a row of `effective_messages`; None: nothing names one.

    Its column `schema_xid` has the schema alone, also where `dataschemaxid` names a Version.
    """
    named = text_at(row["attributes"] or {}, "/dataschemaxid")
    return schema_reference(row["dataschemauri"], named or row["schema_xid"])


def _labels(attributes: FlatAttributes) -> dict[str, str | None] | None:
    result = {
        name[len(_LABELS) :].replace("~1", "/").replace("~0", "~"): _text(attributes, name)
        for name in attributes
        if name.startswith(_LABELS)
    }
    return result or None


def _address(attributes: FlatAttributes, family: str | None) -> str | None:
    """Return where the protocol sends a message; of one without a known protocol the first option that is an address."""
    families = [family] if family in PROTOCOLS else GUESSED
    results = (_option(attributes, *PROTOCOLS[family_name].address.split("/")) for family_name in families)
    return next((address for address in results if address is not None), None)


def _option(attributes: FlatAttributes, *names: str) -> str | None:
    return _text(attributes, _at_option(*names))


@cache
def _at_option(*names: str) -> Pointer:
    return pointer_of("protocoloptions", *names, "value")


def _text(attributes: FlatAttributes, pointer: str) -> str | None:
    """Return a flat attribute as a column has it: a text without its quotes, else JSON text; None: it is absent or null."""
    value = attributes.get(Pointer(pointer))
    return None if value is None or value == "null" else unquoted(value)


def xid_parts(message: Xid) -> dict[str, str]:
    """Return the columns that follow from the XID of a message: of its group or endpoint, and its own id there."""
    group, _, messageid = message.rsplit("/", 2)
    return {"group_xid": group, "messageid": messageid}


class EntityBodies:
    """The entities of a state.

    Args:
        find: gives the body of an entity; None: it is not there.
        max_depth: how many bases of a message are followed.
        find_flat: gives the flat attributes of a Version where they are at hand; None: they are computed of its body.
    """

    def __init__(self, find: FindBody, max_depth: int, find_flat: FindFlat | None = None) -> None:
        self._find = find
        self._max_depth = max_depth
        self._find_flat = find_flat
        # Of texts and not of entities: a cache that held this object would keep all that it finds bodies in.
        self._attributes_of = lru_cache(_MOST_CACHED)(read_canonical)
        self._flat_attributes = lru_cache(_MOST_CACHED)(_flat_attributes_of_body)

    def bodies_of(self, key: Key) -> list[JsonText] | None:
        """Return the bodies that an entity's flat attributes follow from: its own, of a message those that are merged too."""
        registryid, kind, xid = key
        own = self._find(registryid, xid)
        if own is None or kind != "message":
            return None if own is None else [own]
        return [
            own,
            *(body for version in self._merged_from(registryid, xid) if (body := self._find(registryid, version)) is not None),
        ]

    def flat_attributes_of(self, key: Key) -> FlatAttributes | None:
        """Return the flat attributes by which an entity is compared; None: it is not there."""
        return _flat_attributes_of(key[1], self.bodies_of(key))

    def effective(self, registryid: RegistryId, message: Xid) -> dict[str, Any]:
        """Return the row of `effective_messages` of a message that is there, but for its documents and snapshot."""
        find = cache(partial(self._attributes, registryid))
        chain, xref = self._chain(message, find), (find(message) or {}).get("xref")
        definitions = [self._flat(registryid, version) for version in _followed(chain)]
        bases = [base for version in chain.versions if (base := (find(version) or {}).get("basemessage")) is not None]
        sought = [*chain.versions, *(base for base in bases if base.startswith("/"))] if bases else []
        depends_on = [message, *([] if xref is None else [xref]), *map(xid_of_resource, sought)]
        return {
            "registryid": registryid,
            "xid": message,
            **xid_parts(message),
            "version_xid": next(iter(chain.versions), None),
            "chain_status": chain.status,
            "chain_depth": max(0, len(definitions) - 1),
            "depends_on": list(dict.fromkeys(depends_on)),
            **columns_of(merged(definitions)),
        }

    def _flat(self, registryid: RegistryId, version: Xid) -> FlatAttributes:
        """Return the flat attributes of a Version that is there."""
        flat = None if self._find_flat is None else self._find_flat(registryid, version)
        if flat is not None:
            return flat
        body = self._find(registryid, version)
        return {} if body is None else self._flat_attributes(body)

    def _merged_from(self, registryid: RegistryId, message: Xid) -> tuple[Xid, ...]:
        """Return the Versions that a message is merged from, nearest first."""
        return _followed(self._chain(message, partial(self._attributes, registryid)))

    def _chain(self, message: Xid, find: FindAttributes) -> Chain:
        """Return the chain of the Version that a message shows; an empty one that is dangling: there is none."""
        version = shown_version(message, find)
        return Chain((), "dangling") if version is None or find(version) is None else chain_of(version, find, self._max_depth)

    def _attributes(self, registryid: RegistryId, xid: Xid) -> dict[str, Any] | None:
        body = self._find(registryid, xid)
        return None if body is None else self._attributes_of(body)


def _followed(chain: Chain) -> tuple[Xid, ...]:
    return chain.versions[:1] if chain.status == "cycle" else chain.versions


def _flat_attributes_of_body(body: JsonText) -> FlatAttributes:
    return dict(flat_attributes_of_body(body))


def compare_bodies(before: EntityBodies, after: EntityBodies, keys: Iterable[Key]) -> list[Difference]:
    """Compare entities of two states: the gravest differences first. Flat attributes are computed only where bodies differ."""
    results: list[Difference] = []
    for key in keys:
        own_before, own_after = before.bodies_of(key), after.bodies_of(key)
        if own_before != own_after:
            differing = differences_of(key, _flat_attributes_of(key[1], own_before), _flat_attributes_of(key[1], own_after))
            results += (with_other_schema(each, before.flat_attributes_of, after.flat_attributes_of) for each in differing)
    return in_order(results)


def _flat_attributes_of(kind: str, bodies: list[JsonText] | None) -> FlatAttributes | None:
    if bodies is None:
        return None
    if kind != "message":
        return flat_attributes_of_entity(kind, bodies[0])
    attributes = merged(map(_flat_attributes_of_body, bodies[1:]))
    return flat_attributes_of_message(inferred_attributes(attributes), attributes, read_canonical(bodies[0]).get("deprecated"))
