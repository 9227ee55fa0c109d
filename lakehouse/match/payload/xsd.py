"""XML Schema 1.0 and 1.1 by xmlschema: nothing but the schema is opened, entities are refused, patterns are run by RE2.

An error's place is an XPath (`/order/line[2]/isbn`), as JSON Pointer has no word for XML.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree

import re2
from xmlschema import XMLResource, XMLSchema10, XMLSchema11, XMLSchemaException
from xmlschema.validators import facets

from lakehouse.match.payload.schemas import Resolved
from lakehouse.match.payload.validators import Decoded, Error, Undecodable, Unresolved, Unsupported
from lakehouse.text.values import media_type

_XSD = "{http://www.w3.org/2001/XMLSchema}"
_REFERENCES = tuple(f"{_XSD}{name}" for name in ("include", "import", "redefine", "override"))
_CONDITIONS = tuple(f"{_XSD}{name}" for name in ("assert", "assertion", "alternative"))  # XPath, whose patterns backtrack
_MOST_PARTICLES = 20_000
_MOST_OCCURRENCES = 100_000
_END = r"$(?!\n\Z)"  # what the library writes for the end of a text

_QUIET = re2.Options()
_QUIET.log_errors = False


class _Linear:
    """What `facets` sees as the module `re`: patterns of schemas, which Python's would backtrack on."""

    error = re.error
    Pattern = re.Pattern

    @staticmethod
    def compile(pattern: str) -> Any:
        """Compile a pattern that the library has translated.

        Raises:
            re.error: RE2 does not run it.
        """
        body = pattern.removesuffix(_END)
        try:
            return re2.compile(body + (r"\z" if body != pattern else ""), _QUIET)
        except (re2.error, UnicodeEncodeError) as error:
            raise re.error(f"RE2 does not run the pattern {pattern[:100]}") from error


setattr(facets, "re", _Linear)  # noqa: B010  the library names the module so, and exports nothing to set


class XsdValidator:
    """Validates XML; the root is one of the schema's global elements, or the one that the reference names (`wanted`)."""

    remarks: tuple[str, ...] = ()

    def __init__(self, document: Any, resolved: Resolved, find: Callable[[str], Any]) -> None:
        if not isinstance(document, str):
            raise Unsupported("an XML Schema is text")
        root = _root_of(document)
        _check_references(root)
        _check_size(root)
        library = XMLSchema10 if resolved.format.endswith("1.0") else XMLSchema11
        wanted = resolved.named or None
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # what was not loaded is only warned of
            try:
                self.schema: XMLSchema10 | XMLSchema11 = library(
                    _resource(document.encode()), allow="none", defuse="always", use_fallback=False
                )
            except (XMLSchemaException, ElementTree.ParseError, Warning) as error:
                raise Unsupported(f"no valid XML Schema: {_first_line(error)}") from error
        if wanted is not None and wanted not in self.schema.elements:
            raise Unsupported(f"no element {wanted} among {', '.join(sorted(self.schema.elements)[:5]) or 'none'}")
        self.wanted = wanted

    def may_hang(self, body: bytes | None, data: Any) -> bool:
        """Return True: unions, choices and keys of a schema make a short text costly in too many ways to count."""
        return True

    def decode(self, body: bytes | None, data: Any, content_type: str | None) -> Decoded:
        """Read XML; in a structured event it is text."""
        if body is None:
            if not isinstance(data, str):
                raise Undecodable("no XML: the data is not text")
            body = data.encode()
        else:
            kind = media_type(content_type)[0] if content_type else ""
            if kind and not (kind.endswith(("/xml", "+xml")) or kind in ("text/plain", "application/octet-stream")):
                raise Undecodable(f"content type {kind}, and the schema is for XML")
        try:
            return Decoded(_resource(body))
        except (XMLSchemaException, ElementTree.ParseError, ValueError, LookupError) as error:
            raise Undecodable(f"no XML that is taken: {_first_line(error)}") from error

    def errors(self, value: Any) -> list[Error]:
        """Return what breaks the schema: XPath, what of the schema, why."""
        if value is None:
            return [("", "type", "null, expected XML")]
        results: list[Error] = []
        name = value.root.tag.rpartition("}")[2]
        if self.wanted is not None and name != self.wanted:
            return [(f"/{name}", "element", f"the element {self.wanted} is expected")]
        for error in self.schema.iter_errors(value):
            element = getattr(error.validator, "elem", None)
            keyword = "element" if element is None else str(element.tag).rpartition("}")[2]
            results.append((error.path or f"/{name}", keyword, _first_line(error.reason or error)))
            if len(results) == 5:
                break
        return results


def _resource(text: bytes) -> XMLResource:
    return XMLResource(io.BytesIO(text), allow="none", defuse="always")


def _root_of(document: str) -> Any:
    try:
        return _resource(document.encode()).root
    except (XMLSchemaException, ElementTree.ParseError, ValueError) as error:
        raise Unsupported(f"the schema is not XML that is taken: {_first_line(error)}") from error


def _check_references(root: Any) -> None:
    """Refuse what the schema would take from elsewhere, as nothing is fetched and no file is opened; and what is run as XPath.

    Raises:
        Unresolved: it includes or imports another.
        Unsupported: it holds conditions.
    """
    condition = next((element for element in root.iter() if element.tag in _CONDITIONS), None)
    if condition is not None:
        raise Unsupported(f"conditions in XPath are not run: {condition.tag.rpartition('}')[2]}")
    other = next((element for element in root if element.tag in _REFERENCES), None)
    if other is not None:
        place = other.get("schemaLocation") or other.get("namespace") or other.tag.rpartition("}")[2]
        raise Unresolved(f"refers to what is not there: {place}")


def _check_size(root: Any) -> None:
    """Refuse groups that name groups over and over, so that a short schema stands for an endless one.

    Raises:
        Unsupported: it would have too many particles, or counts too far.
    """
    groups = {group.get("name"): group for group in root.iter(f"{_XSD}group") if group.get("name")}
    sizes: dict[str, int] = {}
    open_names: set[str] = set()

    def size(element: Any) -> int:
        count = 1
        for name in ("minOccurs", "maxOccurs"):
            times = element.get(name, "")
            if times.isdecimal() and (len(times) > 9 or int(times) > _MOST_OCCURRENCES):
                raise Unsupported(f"{name} {times[:20]}: more than {_MOST_OCCURRENCES}")
        ref = (element.get("ref") or "").rpartition(":")[2] if element.tag == f"{_XSD}group" else ""
        if ref in groups:
            if ref in open_names:
                raise Unsupported(f"group {ref} holds itself")
            if ref not in sizes:
                open_names.add(ref)
                sizes[ref] = size(groups[ref])
                open_names.discard(ref)
            count += sizes[ref]
        count += sum(size(child) for child in element)
        if count > _MOST_PARTICLES:
            raise Unsupported(f"more than {_MOST_PARTICLES} particles")
        return count

    size(root)


def _first_line(error: Any) -> str:
    return str(error).strip().split("\n")[0][:300] or type(error).__name__
