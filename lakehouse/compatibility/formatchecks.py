"""Whether a schema keeps the rules of its format: its syntax, and what each part of it may be.

No library of a format is needed, so that the answer is the same everywhere. References to other documents are not followed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import orjson

from lakehouse.compatibility.avroschemas import check_avro, read_avro
from lakehouse.compatibility.jsonkeywords import check_keywords
from lakehouse.compatibility.jsonshapes import JsonDocument
from lakehouse.compatibility.jsonstructures import check_structure, read_structure
from lakehouse.compatibility.limits import MOST_TEXT, Malformed, Unreadable, text_of
from lakehouse.compatibility.protoschemas import ProtoFile
from lakehouse.compatibility.xmlschemas import XmlDocument
from lakehouse.dialects.schemadocuments import family_of_format

_CACHED = 4_096  # answers


class FormatCheck(NamedTuple):
    """Whether a schema keeps the rules of its format; None: that was not checked. Where it is not True, the reason."""

    is_valid: bool | None
    reason: str = ""


def check_format(document: Any, format: str) -> FormatCheck:
    """Check a schema, once for each text.

    Args:
        document: the schema, as a JSON value or as text.
        format: as `format` of a Version names it.
    """
    family = family_of_format(format, document)
    if family not in _CHECKS:
        return FormatCheck(None, f"schemas of format {format} are not checked")
    text = text_of(document)
    if len(text) > MOST_TEXT:
        return FormatCheck(None, f"the schema is longer than {MOST_TEXT} letters")
    return _checked(text, isinstance(document, str), family, format)


@lru_cache(_CACHED)
def _checked(text: str, is_text: bool, family: str, format: str) -> FormatCheck:
    try:
        _CHECKS[family](text if is_text else orjson.loads(text), format)
    except Malformed as error:
        return FormatCheck(False, str(error))
    except Unreadable as error:
        return FormatCheck(None, str(error))
    except RecursionError:
        return FormatCheck(None, "the schema is too deep")
    except (TypeError, ValueError, AttributeError, LookupError) as error:
        return FormatCheck(None, f"the schema could not be read: {type(error).__name__}: {error}"[:200])
    return FormatCheck(True)


def _avro(document: Any, _: str) -> None:
    read_avro(document)
    is_json = isinstance(document, str) and document[:1] in '{["'
    check_avro(orjson.loads(document) if is_json else document)


def _json(document: Any, format: str) -> None:
    check_keywords(JsonDocument(document, format).root, format)


def _protobuf(document: Any, _: str) -> None:
    if not isinstance(document, str):
        raise Unreadable("a Protobuf schema that is not text is not read")
    ProtoFile(document)


def _xml(document: Any, _: str) -> None:
    XmlDocument(document).check()


def _structure(document: Any, _: str) -> None:
    check_structure(read_structure(document))


_CHECKS: dict[str, Callable[[Any, str], None]] = {
    "avro": _avro,
    "jsonschema": _json,
    "protobuf": _protobuf,
    "xsd": _xml,
    "jsonstructure": _structure,
}
