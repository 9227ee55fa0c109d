"""Fields of Avro schemas: records, alternatives of unions, named types wherever they are named."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lakehouse.site.fields.listing import FieldNode, Listing, PartCounter, joined, listed, one_of, text_of, value_text, words_of

_NAMED = ("record", "error", "enum", "fixed")


def avro_fields(schema: Any) -> Listing:
    """List the fields of a record; of any other schema its types."""
    reader = _AvroReader(schema)
    types = schema.get("types") if isinstance(schema, dict) and isinstance(schema.get("protocol"), str) else schema
    space = text_of(schema.get("namespace")) if isinstance(schema, dict) else ""
    if not isinstance(types, list):
        result = reader.below(types, space)
        return listed(result or [reader.node(reader.title(types), types, space)], frozenset({id(types)}))
    return listed([reader.node(reader.title(schema_type), schema_type, space) for schema_type in types])


class _AvroReader:
    """Reads a schema; types are named by their full names."""

    def __init__(self, schema: Any) -> None:
        self._steps = PartCounter()
        self._named: dict[str, tuple[dict[str, Any], str]] = {}
        left = [(schema, "")]
        while left:
            schema_part, space = left.pop()
            if isinstance(schema_part, list):
                left += [(part, space) for part in schema_part]
            elif isinstance(schema_part, dict):
                if schema_part.get("type") in _NAMED and isinstance(schema_part.get("name"), str):
                    name, space = _full_name(schema_part, space)
                    self._named.setdefault(name, (schema_part, space))
                elif isinstance(schema_part.get("protocol"), str):
                    space = text_of(schema_part.get("namespace"))
                fields = schema_part.get("fields")
                left += [
                    (part, space)
                    for part in (
                        schema_part.get("type"),
                        schema_part.get("items"),
                        schema_part.get("values"),
                        schema_part.get("types"),
                    )
                ]
                left += [(part, space) for part in fields] if isinstance(fields, list) else []

    def title(self, schema: Any) -> str:
        """Name a type that is no field."""
        own_name = schema.get("name") if isinstance(schema, dict) else None
        return text_of(own_name) or "(value)"

    def node(self, name: str, schema: Any, space: str, doc: str = "", limits: str = "") -> FieldNode:
        """Return a field by its type; space: the namespace around it."""
        alternatives = [branch for branch in schema if branch != "null"] if isinstance(schema, list) else [schema]
        inner, _ = self._inner(schema, space)
        details = schema if isinstance(schema, dict) else {}
        symbols = inner.get("symbols") if isinstance(inner, dict) else None
        limits_text = joined([limits, words_of(details), "" if inner is details else words_of(inner), one_of(_list(symbols))])
        is_required = not isinstance(schema, list) or len(alternatives) == len(schema)
        keys = self._keys(inner)
        doc = doc or text_of(details.get("doc"))
        return FieldNode(name, self._type(schema), is_required, doc, limits_text, "", lambda: self.below(schema, space), keys)

    def below(self, schema: Any, space: str) -> list[FieldNode]:
        """Return what a value of a type holds."""
        self._steps.spend()
        inner, space = self._inner(schema, space)
        if isinstance(inner, list):
            nodes = [self.node("(one of)", branch, space) for branch in inner if branch != "null"]
            return nodes if any(node.limits or node.keys for node in nodes) else []
        if not isinstance(inner, dict) or inner.get("type") not in ("record", "error"):
            return []
        _, space = _full_name(inner, space)
        results = []
        for field in _list(inner.get("fields")):
            if isinstance(field, dict):
                default = f"default {value_text(field['default'])}" if "default" in field else ""
                limits = joined([default, words_of({name: detail for name, detail in field.items() if name != "default"})])
                results.append(self.node(text_of(field.get("name")), field.get("type"), space, text_of(field.get("doc")), limits))
        return results

    def _inner(self, schema: Any, space: str) -> tuple[Any, str]:
        """Go to what arrays, maps, optional values and names hold."""
        for _ in range(100):
            if isinstance(schema, list):
                branches = [branch for branch in schema if branch != "null"]
                if len(branches) != 1:
                    return schema, space
                schema = branches[0]
            elif isinstance(schema, str):
                result = self._find(schema, space)
                if result is None:
                    return schema, space
                schema, space = result
            elif isinstance(schema, dict) and schema.get("type") == "array":
                schema = schema.get("items")
            elif isinstance(schema, dict) and schema.get("type") == "map":
                schema = schema.get("values")
            elif isinstance(schema, dict) and (isinstance(schema.get("type"), dict | list) or self._is_name(schema, space)):
                schema = schema["type"]
            else:
                return schema, space
        return None, space

    def _is_name(self, schema: dict[str, Any], space: str) -> bool:
        return isinstance(schema.get("type"), str) and self._find(schema["type"], space) is not None

    def _find(self, name: str, space: str) -> tuple[dict[str, Any], str] | None:
        return self._named.get(f"{space}.{name}" if space and "." not in name else name) or self._named.get(name)

    def _keys(self, inner: Any) -> frozenset[Any]:
        is_record = isinstance(inner, dict) and inner.get("type") in ("record", "error")
        return frozenset({id(inner)}) if is_record or isinstance(inner, list) else frozenset()

    def _type(self, schema: Any) -> str:
        self._steps.spend()
        if isinstance(schema, list):
            branches = [branch for branch in schema if branch != "null"]
            shown = [self._type(branch) for branch in (branches if len(branches) == 1 else schema)[:12]]
            return " or ".join(shown) + (f" or {len(schema) - 12} more" if len(schema) > 12 else "")
        if not isinstance(schema, dict):
            return text_of(schema) or "none"
        kind = schema.get("type")
        if kind in ("array", "map"):
            return f"{kind} of {self._type(schema.get('items' if kind == 'array' else 'values'))}"
        if kind in _NAMED:
            return f"{kind} {text_of(schema.get('name'))}"
        return self._type(kind)


def _full_name(schema: dict[str, Any], space: str) -> tuple[str, str]:
    """Return the full name of a named type, and the namespace that holds within it."""
    name = text_of(schema.get("name"))
    if "." in name:
        return name, name.rpartition(".")[0]
    own = schema.get("namespace")
    space = own if isinstance(own, str) else space
    return (f"{space}.{name}" if space else name), space


def _list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else ()
