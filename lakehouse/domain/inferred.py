"""What the specifications infer of a message in addition to what is written.

The defaults of MSG-054, MSG-055, MSG-237 to MSG-263, END-135, END-163 and END-165. The view `inferred_definitions` infers them
in SQL too: tests compare them.
"""

from __future__ import annotations

from typing import NamedTuple

from lakehouse.dialects.tables import family_of
from lakehouse.domain.bases import FlatAttributes, text_at
from lakehouse.text.jsontext import canonical_text, pointer_of
from lakehouse.text.names import JsonText, Pointer

_METADATA = "/envelopemetadata"


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


def inferred_attributes(attributes: FlatAttributes) -> dict[Pointer, JsonText]:
    """Return what is inferred of an effective definition, as flat attributes; nothing that it says itself."""
    implied = _of_cloudevent(attributes) if is_cloudevent(attributes) else {}
    content_type = format_type(attributes)
    if content_type is not None:
        implied[pointer_of("datacontenttype")] = canonical_text(content_type)
    family = family_of(text_at(attributes, "/protocol"))
    if family == "MQTT":
        implied |= _option("qos", 0) | _option("retain", False)
    if family == "HTTP" and attributes.get(Pointer("/protocoloptions/status/value"), "null") == "null":
        implied |= _option("method", "POST")
    return {pointer: leaf for pointer, leaf in implied.items() if pointer not in attributes}


def _of_cloudevent(attributes: FlatAttributes) -> dict[Pointer, JsonText]:
    """Return what CloudEvents says of its attributes, declared or not."""
    names = dict.fromkeys(pointer.split("/")[2] for pointer in attributes if pointer.startswith(f"{_METADATA}/"))
    of_format = format_type(attributes)
    content_type = attributes.get(Pointer("/datacontenttype"), None if of_format is None else canonical_text(of_format))
    schema = attributes.get(Pointer("/dataschemauri"))
    declared = dict(_ALWAYS)
    declared |= {name: _InferredAttribute("string") for name in names if name not in ("dataschema", *declared)}
    if content_type not in (None, "null"):
        declared["datacontenttype"] = _InferredAttribute("string", value=content_type)
    if "dataschema" in names or schema not in (None, "null"):
        declared["dataschema"] = _InferredAttribute("uritemplate", value=None if schema == "null" else schema)
    result: dict[Pointer, JsonText] = {}
    for name, inferred in declared.items():
        at = f"{_METADATA}/{name}"  # of a pointer: it is escaped
        result[Pointer(f"{at}/type")] = canonical_text(inferred.type)
        result[Pointer(f"{at}/required")] = canonical_text(inferred.required)
        if inferred.value is not None:
            result[Pointer(f"{at}/value")] = inferred.value
    return result


def _option(name: str, value: str | int | bool) -> dict[Pointer, JsonText]:
    return {pointer_of("protocoloptions", name, "value"): canonical_text(value)}


def is_cloudevent(attributes: FlatAttributes) -> bool:
    """Return whether the envelope is CloudEvents, of whatever version."""
    return (text_at(attributes, "/envelope") or "").partition("/")[0].upper() == "CLOUDEVENTS"


def format_type(attributes: FlatAttributes) -> str | None:
    """Return the media type that `dataschemaformat` stands for: that of JSON Schema is JSON."""
    name = (text_at(attributes, "/dataschemaformat") or "").partition("/")[0]
    return "application/json" if name.replace("-", "").replace("_", "").upper() == "JSONSCHEMA" else None
