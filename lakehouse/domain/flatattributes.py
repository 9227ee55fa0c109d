"""The flat attributes of a definition: by JSON Pointer, each with the JSON text of its value (decision 12)."""

from __future__ import annotations

from functools import cache
from typing import Any

from lakehouse.dialects.tables import table
from lakehouse.text.jsontext import canonical_text, escaped, read_canonical
from lakehouse.text.names import JsonText, Pointer

# Attributes of a Version that are no part of the definition, so that nothing inherits them (requirements.md 3).
_NOT_INHERITED = frozenset(("isdefault", "ancestor", "basemessage", "deprecated", "version_uri", "extensions"))
_OPAQUE = ("dataschema", "schema")  # one flat attribute, whatever they hold
FlatAttribute = tuple[Pointer, JsonText]
_Pairs = list[Any]  # of flat attributes: there are so many that the call of a NewType would be felt


def flat_attributes_of_body(body: JsonText) -> list[FlatAttribute]:
    """Return the flat attributes of a Version by its body: the column `attributes` of the log."""
    attributes: dict[str, Any] = read_canonical(body)
    return flat_attributes_of(attributes, attributes.get("extensions", {}))


def flat_attributes_of(attributes: dict[str, Any], extensions: dict[str, Any]) -> list[FlatAttribute]:
    """Return a definition's flat attributes: scalars, arrays, empty objects, schemas, values of declarations (decision 12)."""
    results: _Pairs = []  # filled, and not yielded: a quarter of the time of parsing went into generators here
    for name, value in attributes.items():
        if name in _NOT_INHERITED:
            continue
        if name == "envelopemetadata":
            _add_declarations("/envelopemetadata", value, results)
        elif name == "protocoloptions" and isinstance(value, dict) and value:
            _add_options(value, results)
        elif isinstance(value, dict) and name not in _OPAQUE:
            _add_value("/" + name, value, results)
        else:
            results.append(("/" + name, canonical_text(value)))
    for name, value in extensions.items():
        _add_value("/" + escaped(name), value, results)
    return results


@cache
def _sections() -> frozenset[str]:
    """Return the names of protocol options that are maps of declarations."""
    return frozenset(
        row["name"] for row in table() if row["entity"] == "message" and row["type"] in ("declarations", "namedvalues")
    )


def _add_options(options: dict[str, Any], result: _Pairs) -> None:
    """Add the flat attributes of protocol options: declarations, and maps of them."""
    sections = _sections()
    for option, member in options.items():
        at = "/protocoloptions/" + escaped(option)
        if option in sections:
            _add_declarations(at, member, result)
        else:
            _add_declaration(at, member, result)


def _add_declarations(pointer: str, declarations: Any, results: _Pairs) -> None:
    """Add the flat attributes of a map of declarations."""
    if isinstance(declarations, dict) and declarations:
        for name, declaration in declarations.items():
            _add_declaration(f"{pointer}/{escaped(name)}", declaration, results)
    else:
        results.append((pointer, canonical_text(declarations)))


def _add_declaration(pointer: str, declaration: Any, results: _Pairs) -> None:
    """Add the flat attributes of a declaration, whose `value` is opaque."""
    if isinstance(declaration, dict) and declaration:
        for key, member in declaration.items():
            if key == "value" or not isinstance(member, dict):
                results.append((f"{pointer}/{escaped(key)}", canonical_text(member)))
            else:
                _add_value(f"{pointer}/{escaped(key)}", member, results)
    else:
        results.append((pointer, canonical_text(declaration)))


def _add_value(pointer: str, value: Any, results: _Pairs) -> None:
    if isinstance(value, dict) and value:
        for key, member in value.items():
            _add_value(f"{pointer}/{escaped(key)}", member, results)
    else:
        results.append((pointer, canonical_text(value)))
