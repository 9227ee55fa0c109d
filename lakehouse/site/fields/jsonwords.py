"""Words of schemas that are JSON that limit a value, in the order in which a row shows them."""

from __future__ import annotations

from typing import Any

from lakehouse.site.fields.listing import joined, one_of, value_text

_WORDS = ("format", "pattern", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength",
          "minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties", "multipleOf", "const", "default", "unit",
          "symbol", "precision", "scale", "logicalType", "contentEncoding", "contentMediaType", "readOnly", "writeOnly",
          "deprecated", "size", "aliases")  # fmt: skip


def words_of(schema: Any) -> str:
    """Write what a schema asks of a value besides its type."""
    if not isinstance(schema, dict):
        return ""
    values = schema.get("enum")
    details = [f"{name} {value_text(schema[name])}" for name in _WORDS if name in schema]
    return joined([one_of(values) if isinstance(values, list) else "", *details])
