"""Fields of XML Schema, out of what xmlschema makes of it: elements, attributes, choices, and types that no element has."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

from xmlschema.validators import XsdAnyElement, XsdGroup

from lakehouse.match.payload.payloads import NoAnswer, run_in_fork
from lakehouse.match.payload.schemas import Resolved
from lakehouse.match.payload.validators import Unsupported
from lakehouse.match.payload.xsd import XsdValidator
from lakehouse.site.fields.listing import FieldNode, Listing, PartCounter, joined, listed, one_of
from lakehouse.text.names import JsonText, Xid

_XSD = "{http://www.w3.org/2001/XMLSchema}"
_FACETS = ("length", "minLength", "maxLength", "minInclusive", "maxInclusive", "minExclusive", "maxExclusive", "totalDigits",
           "fractionDigits")  # fmt: skip
_SECONDS = 5


def xsd_fields(text: str, format_: str) -> Listing:
    """List the elements of a schema and what they hold.

    Raises:
        Unsupported: it is no schema that is read.
    """

    def work() -> Listing | str:
        try:
            return _XsdReader(XsdValidator(text, Resolved(Xid(""), format_, JsonText("")), _none).schema).listing()
        except Unsupported as error:
            return str(error)

    _warm(format_)
    try:  # hostile text may keep the library busy
        result = run_in_fork(work, _SECONDS)
    except NoAnswer as error:
        raise Unsupported(f"the schema cannot be read: {error}") from error
    if isinstance(result, str):
        raise Unsupported(result)
    return result


@lru_cache
def _warm(format_: str) -> None:
    """Make the library read the schema of schemas, which each process would read again."""
    XsdValidator(f'<xs:schema xmlns:xs="{_XSD[1:-1]}"/>', Resolved(Xid(""), format_, JsonText("")), _none)


def _none(uri: str) -> Any:
    raise LookupError(uri)


class _XsdReader:
    """Reads a schema of xmlschema."""

    def __init__(self, schema: Any) -> None:
        self._schema = schema
        self._steps = PartCounter()
        self._seen: set[Any] = set()

    def listing(self) -> Listing:
        """List all elements, then the types that none of them has."""
        return listed(self._roots())

    def _roots(self) -> Iterator[FieldNode]:
        for element in self._schema.elements.values():
            yield self._element(element, is_root=True)
        for name, kind in self._schema.types.items():
            if kind.is_complex() and kind not in self._seen:
                yield FieldNode(name, "complexType", None, _documentation(kind), below=self._below(kind), keys=frozenset({kind}))

    def _element(self, declared: Any, *, is_optional: bool = False, is_root: bool = False) -> FieldNode:
        element = declared.ref or declared
        kind = element.type
        self._seen.add(kind)
        required = None if is_root else declared.min_occurs > 0 and not is_optional
        substitutes = sorted(str(other.local_name) for other in self._schema.maps.substitution_groups.get(element.name, ()))
        fixed = [f"{word} {getattr(element, word)}" for word in ("fixed", "default") if getattr(element, word) is not None]
        limits = [*fixed, _times(declared), self._facets(kind), "abstract" if element.abstract else "",
                  "nillable" if element.nillable else "",
                  f"or {', '.join(substitutes)} in its place" if substitutes else ""]  # fmt: skip
        keys = frozenset({kind}) if kind.is_complex() and not kind.has_simple_content() else frozenset()
        text = _documentation(declared) or _documentation(element)
        return FieldNode(str(element.local_name), _type(kind), required, text, joined(limits), below=self._below(kind), keys=keys)

    def _below(self, kind: Any) -> Callable[[], Sequence[FieldNode]]:
        def below() -> Sequence[FieldNode]:
            self._steps.spend()
            self._seen.add(kind)
            if not kind.is_complex():
                return []
            results = [
                self._attribute(name, attribute)
                for name, attribute in kind.attributes.items()
                if name is None or attribute.use != "prohibited"
            ]
            if not kind.has_simple_content() and not kind.is_simple():
                results += self._group(kind.content, is_optional=False)
            return results

        return below

    def _attribute(self, name: str | None, attribute: Any) -> FieldNode:
        if name is None:
            return FieldNode("@(any)", "any attribute")
        fixed = [f"{word} {getattr(attribute, word)}" for word in ("fixed", "default") if getattr(attribute, word) is not None]
        limits = joined([*fixed, self._facets(attribute.type)])
        return FieldNode(
            f"@{attribute.local_name}", _type(attribute.type), attribute.use == "required", _documentation(attribute), limits
        )

    def _group(self, group: Any, *, is_optional: bool) -> list[FieldNode]:
        """Return the elements of a group; those of a choice below a row for it."""
        self._steps.spend()
        referenced = group.ref or group
        is_optional = is_optional or group.min_occurs == 0
        is_choice = referenced.model == "choice" and len(referenced) > 1
        results: list[FieldNode] = []
        for member in referenced:
            if isinstance(member, XsdGroup):
                inner = self._group(member, is_optional=is_optional)
                is_apart = is_choice and len(inner) > 1 and (member.ref or member).model != "choice"
                results += [_row("(together)", _times(member), inner)] if is_apart else inner
            elif isinstance(member, XsdAnyElement):
                results.append(FieldNode("(any element)", "any", member.min_occurs > 0 and not is_optional, "", _times(member)))
            else:
                results.append(self._element(member, is_optional=is_optional or is_choice))
        if is_choice and results:
            return [_row("(one of)", _times(group), results)]
        return [_row("(group)", _times(group), results)] if results and _times(group) else results

    def _facets(self, kind: Any) -> str:
        if kind.is_complex():
            if not kind.has_simple_content():
                return ""
            kind = kind.content
        details = []
        for name in _FACETS:
            facet = kind.get_facet(f"{_XSD}{name}")
            value = None if facet is None else facet.value
            details += [] if value is None else [f"{name} {value}"]
        patterns = kind.patterns.regexps if kind.patterns is not None else ()
        return joined(
            [one_of([str(value) for value in kind.enumeration or ()]), *(f"pattern {pattern}" for pattern in patterns), *details]
        )


def _row(name: str, limits: str, members: list[FieldNode]) -> FieldNode:
    return FieldNode(name, "group", None, "", limits, below=lambda: members)


def _times(particle: Any) -> str:
    """Return how often a particle may occur, where that is more than once."""
    most = particle.max_occurs
    if most is not None and most <= 1:
        return ""
    return f"{particle.min_occurs} to {most} times" if most is not None else f"{particle.min_occurs} times or more"


def _type(kind: Any) -> str:
    if kind.local_name:
        return str(kind.local_name)
    if kind.is_complex():
        return _type(kind.content) if kind.has_simple_content() else "complexType"
    if kind.is_list():
        return f"list of {_type(kind.item_type)}" if hasattr(kind, "item_type") else "list"
    if getattr(kind, "member_types", None):
        return " or ".join(_type(member_type) for member_type in kind.member_types[:6])
    base = kind.base_type
    return _type(base) if base is not None else "any"


def _documentation(component: Any) -> str:
    texts = [
        " ".join("".join(documentation.itertext()).split())
        for documentation in getattr(component.annotation, "documentation", None) or ()
    ]
    return " ".join(texts)
