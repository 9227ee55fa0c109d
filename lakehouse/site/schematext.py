"""Schemas as a person reads them: their fields as rows of a table, what of these is not shown and why, and the text."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

import orjson

from lakehouse.dialects.schemadocuments import family_of_format
from lakehouse.extras import not_installed
from lakehouse.match.payload.validators import Unsupported
from lakehouse.site.fields.avronodes import avro_fields
from lakehouse.site.fields.jsonnodes import json_fields
from lakehouse.site.fields.listing import Field, Listing, TooInvolved, text_of
from lakehouse.text.jsontext import indented, read_exactly

MOST_TEXT = 24_000  # characters that a page shows; the whole is in a separate file
_LONGEST = 400_000  # characters of a schema whose fields are listed
_MOST_CACHED = 512
_JSON: dict[str, Callable[[Any], Listing]] = {"avro": avro_fields, "jsonschema": json_fields, "jsonstructure": json_fields}
_NAMES = {"protobuf": "Protobuf", "xsd": "XML Schema"}
_cache: OrderedDict[tuple[bytes, str], Listing] = OrderedDict()
_guard = threading.Lock()


class Readable(NamedTuple):
    """A schema.

    Attributes:
        text: as it is shown: JSON laid out, else as written; cut when it is long.
        is_cut: the text is longer.
        fields: as rows.
        is_more: there are more fields.
        notes: what else is not listed, and why.
        title: what it says of itself.
        description: what it says of itself.
    """

    text: str
    is_cut: bool
    fields: list[Field]
    is_more: bool
    notes: tuple[str, ...]
    title: str
    description: str


def whole_text(schema: Any) -> str:
    """Return the text of a schema: JSON laid out, other languages as written."""
    return schema if isinstance(schema, str) else indented(schema)


def readable(schema: Any, format_: str | None) -> Readable:
    """Read a schema.

    Args:
        schema: its document: a JSON value, or text.
        format_: as the catalog writes it, such as `Avro/1.11.1`.
    """
    value, text = schema, whole_text(schema)
    if isinstance(schema, str) and schema.lstrip()[:1] in ("{", "["):
        with suppress(orjson.JSONDecodeError, orjson.JSONEncodeError):  # no JSON, or nested too deep: shown as it is written
            read = read_exactly(schema.encode(errors="surrogatepass"))
            value, text = read, whole_text(read)
    result = _listing(value, text, format_ or "")
    details = value if isinstance(value, dict) else {}
    title, description = (_written(details, *names) for names in (("title", "name"), ("description", "doc")))
    return Readable(text[:MOST_TEXT], len(text) > MOST_TEXT, result.fields, result.is_more, result.notes, title, description)


def _written(details: dict[str, Any], *names: str) -> str:
    return next((text_of(details[name]) for name in names if details.get(name) is not None), "")


def _listing(value: Any, text: str, format_: str) -> Listing:
    """List the fields of a schema, each once for all pages that show it."""
    if len(text) > _LONGEST:
        return Listing([], notes=(f"Its fields are not listed: it has {len(text):,} characters, of {_LONGEST:,} that are read.",))
    key = (hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest(), format_)
    with _guard:
        result = _cache.get(key)
        if result is not None:
            _cache.move_to_end(key)
            return result
    result = _read(value, text, format_)
    with _guard:
        _cache[key] = result
        while len(_cache) > _MOST_CACHED:
            _cache.popitem(last=False)
    return result


def _read(value: Any, text: str, format_: str) -> Listing:
    family = family_of_format(format_, value)
    try:
        if family in _JSON:
            if isinstance(value, str) and not (family == "avro" and value.replace(".", "").isidentifier()):
                return Listing([], notes=("Its fields are not listed: it is no JSON, or nested too deep.",))
            return _JSON[family](value)
        if family == "protobuf":
            from lakehouse.site.fields.protobufnodes import protobuf_fields  # noqa: PLC0415 - needs libraries of the extra `match`

            return protobuf_fields(text)
        if family == "xsd":
            from lakehouse.site.fields.xsdnodes import xsd_fields  # noqa: PLC0415 - likewise

            return xsd_fields(text, format_)
    except ModuleNotFoundError as error:
        return Listing([], notes=(f"Fields of {_NAMES[family]} are not listed: {not_installed(error)}.",))
    except (Unsupported, TooInvolved) as error:
        return Listing([], notes=(f"Its fields are not listed: {str(error).rstrip('.')}.",))
    except RecursionError:
        return Listing([], notes=("Its fields are not listed: its parts are nested too deep.",))
    if not format_ and isinstance(value, dict):  # neither its format nor it itself says what it is: most often JSON Schema
        return json_fields(value)
    return Listing([], notes=(f"Fields of the format {text_of(format_) or 'unknown'} are not listed.",))
