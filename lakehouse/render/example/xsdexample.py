"""Examples of XML Schema: an element filled by its type; recursion ends where an element may be left out."""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation
from typing import Any
from xml.etree import ElementTree

from xmlschema.validators import XsdAnyElement, XsdGroup

from lakehouse.render.example.plausible import Impossible, Plausible

_XSD = "{http://www.w3.org/2001/XMLSchema}"
_TRIES = 20
_OWN_CLASSES = re.compile(r"\\[ciCI]|-\[")  # what no other language of patterns has: characters of names, one class less another
_FORMATS = {"anyURI": "uri", "date": "date", "dateTime": "date-time", "dateTimeStamp": "date-time", "time": "time",
            "base64Binary": "base64"}  # fmt: skip
_FIXED = {"boolean": "true", "hexBinary": "0a1b", "duration": "PT5M", "gYear": "2026", "gYearMonth": "2026-01", "gMonth": "--01",
          "gMonthDay": "--01-02", "gDay": "---02", "QName": "name", "NOTATION": "name"}  # fmt: skip
_NUMBERS = frozenset({"decimal", "float", "double"})


class XsdExample:
    """Makes up an element of a schema.

    Args:
        schema: as the library xmlschema holds it.
        made: what values are drawn from.
    """

    def __init__(self, schema: Any, made: Plausible) -> None:
        self._schema, self._made = schema, made

    def make(self, wanted: str | None = None) -> bytes:
        """Make up a document.

        Args:
            wanted: name of its element; None: the first that is not abstract.

        Raises:
            Impossible: there is none, it is too deep or too large.
        """
        results = [element for name, element in self._schema.elements.items() if wanted in (None, name) and not element.abstract]
        if not results:
            raise Impossible("the schema itself declares no element")
        return bytes(ElementTree.tostring(self._element(results[0], 0), encoding="utf-8"))

    def _element(self, declared: Any, depth: int) -> ElementTree.Element:
        self._made.spend(depth)
        element = declared.ref or declared
        if element.abstract:
            substitutes = sorted(self._schema.maps.substitution_groups.get(element.name, ()), key=lambda other: str(other.name))
            concrete = [other for other in substitutes if not other.abstract]
            if not concrete:
                raise Impossible(f"the element {element.local_name} is abstract")
            element = concrete[0]
        made, kind = ElementTree.Element(element.name), element.type
        if kind.is_complex() and getattr(kind, "abstract", False):
            raise Impossible(f"the type of {element.local_name} is abstract")
        if kind.is_complex():
            for name, attribute in kind.attributes.items():
                if (
                    name is not None
                    and attribute.use != "prohibited"
                    and (attribute.use == "required" or self._made.wants(depth))
                ):
                    made.set(name, attribute.fixed or attribute.default or self._text(attribute.type, attribute.local_name))
        if element.fixed is not None or element.default is not None:
            made.text = element.fixed if element.fixed is not None else element.default
        elif kind.is_simple() or kind.has_simple_content():
            made.text = self._text(kind if kind.is_simple() else kind.content, element.local_name)
        else:
            made.extend(self._group(kind.content, depth + 1))
        return made

    def _group(self, group: Any, depth: int) -> list[ElementTree.Element]:
        self._made.spend(depth)
        referenced = group.ref or group
        members = list(referenced)
        if referenced.model == "choice" and members:
            open_ended = [member for member in members if not self._is_deep(member)] or members
            members = [self._made.random.choice(open_ended)] if self._made.wants(depth) else open_ended[:1]
        results: list[ElementTree.Element] = []
        for member in members:
            for _ in range(self._times(member, depth)):
                if isinstance(member, XsdAnyElement):
                    raise Impossible("any element is allowed there")
                results += self._group(member, depth + 1) if isinstance(member, XsdGroup) else [self._element(member, depth)]
        return results

    def _times(self, particle: Any, depth: int) -> int:
        fewest, most = particle.min_occurs, particle.max_occurs
        if fewest or most == 0:
            return int(fewest)
        return int(self._made.wants(depth) and not isinstance(particle, XsdAnyElement))

    def _is_deep(self, particle: Any) -> bool:
        """Return whether a branch of a choice has children, so that another ends sooner."""
        if isinstance(particle, XsdGroup | XsdAnyElement):
            return True
        return bool(particle.type.is_complex() and not particle.type.has_simple_content())

    def _text(self, kind: Any, name: str) -> str:
        """Return a text of a simple type: what its facets say, tried until the type takes it."""
        if kind.enumeration:
            return str(self._made.random.choice(list(kind.enumeration)))
        for _ in range(_TRIES):
            self._made.spend(0)
            text = self._drawn(kind, name)
            if kind.is_valid(text):
                return text
        raise Impossible(f"no text of the type of {name} was found")

    def _drawn(self, kind: Any, name: str) -> str:
        if hasattr(kind, "member_types") and kind.member_types:
            return self._text(kind.member_types[0], name)
        if kind.is_list():
            list_type = kind
            while not hasattr(list_type, "item_type"):
                list_type = list_type.base_type
            return " ".join(self._text(list_type.item_type, name) for _ in range(int(kind.min_length or 1)))
        if kind.patterns is not None and not _OWN_CLASSES.search(kind.patterns.regexps[0]):
            return self._made.text(name, pattern=f"^(?:{kind.patterns.regexps[0]})$")
        base = (getattr(kind, "primitive_type", None) or kind).local_name
        if base in _FIXED:
            return _FIXED[base]
        if base in _FORMATS:
            return str(self._made.formatted(_FORMATS[base], name))
        if base in _NUMBERS:
            return self._number(kind, name)
        longest = kind.max_length
        return self._made.text(name, kind.min_length or 0, None if longest is None else int(longest))

    def _number(self, kind: Any, name: str) -> str:
        low, high = _bound(kind, "min"), _bound(kind, "max")
        digits = kind.get_facet(f"{_XSD}fractionDigits")
        total = kind.get_facet(f"{_XSD}totalDigits")
        if total is not None:
            limit = 10.0**total.value - 1
            low, high = max(-limit, low if low is not None else 0), min(limit, high if high is not None else limit)
        whole = digits is not None and digits.value == 0
        if whole or total is not None or kind.is_derived(self._schema.maps.types[f"{_XSD}integer"]):
            return str(self._made.integer(low, high))
        result = self._made.number(name, low, high)
        return repr(result) if digits is None else f"{result:.{digits.value}f}"


def _bound(kind: Any, side: str) -> float | None:
    """Return the least or most value of a type, a little inside where the bound does not count in; the tightest of several."""
    results: list[float] = []
    for form, inside in (("Inclusive", 0), ("Exclusive", 1)):
        facet = kind.get_facet(f"{_XSD}{side}{form}")
        try:
            results += [] if facet is None else [float(Decimal(str(facet.value)) + (inside if side == "min" else -inside))]
        except InvalidOperation:
            continue
    return (max(results) if side == "min" else min(results)) if results else None
