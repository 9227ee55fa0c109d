"""XML Schema: elements and attributes by name, how often they occur, and their types; what else differs is unknown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple
from xml.etree import ElementTree

from lakehouse.compatibility.judgement import Answer, DirectionResult, Path, unread_values
from lakehouse.compatibility.limits import Malformed, StepBudget, Unreadable

_XSD = "{http://www.w3.org/2001/XMLSchema}"
_PASSED_OVER = frozenset({"annotation", "import", "include", "notation"})
_MANY = 10**9
# What each simple type is a part of, by its restrictions in XML Schema part 2.
_WIDER = {
    "byte": ("short", "int", "long", "integer", "decimal"), "short": ("int", "long", "integer", "decimal"),
    "int": ("long", "integer", "decimal"), "long": ("integer", "decimal"), "integer": ("decimal",),
    "nonNegativeInteger": ("integer", "decimal"), "positiveInteger": ("nonNegativeInteger", "integer", "decimal"),
    "unsignedByte": ("unsignedShort", "unsignedInt", "unsignedLong", "nonNegativeInteger", "integer", "decimal", "short", "int",
                     "long"),
    "unsignedShort": ("unsignedInt", "unsignedLong", "nonNegativeInteger", "integer", "decimal", "int", "long"),
    "unsignedInt": ("unsignedLong", "nonNegativeInteger", "integer", "decimal", "long"),
    "unsignedLong": ("nonNegativeInteger", "integer", "decimal"),
    "normalizedString": ("string",), "token": ("normalizedString", "string"),
}  # fmt: skip
_SEPARATE = frozenset(
    {*_WIDER, "boolean", "decimal", "date", "dateTime", "time", "float", "double", "duration", "base64Binary", "hexBinary"}
)

_ELEMENTS = frozenset(
    {"all", "alternative", "annotation", "any", "anyAttribute", "appinfo", "assert", "assertion", "attribute", "attributeGroup",
     "choice", "complexContent", "complexType", "defaultOpenContent", "documentation", "element", "enumeration",
     "explicitTimezone", "extension", "field", "fractionDigits", "group", "import", "include", "key", "keyref", "length", "list",
     "maxExclusive", "maxInclusive", "maxLength", "minExclusive", "minInclusive", "minLength", "notation", "openContent",
     "override", "pattern", "redefine", "restriction", "schema", "selector", "sequence", "simpleContent", "simpleType",
     "totalDigits", "union", "unique", "whiteSpace"}
)  # fmt: skip
_GLOBAL = frozenset({"attribute", "attributeGroup", "complexType", "element", "group", "notation", "simpleType"})
_SAID = frozenset({"appinfo", "documentation"})  # may hold anything


class _Part(NamedTuple):
    """An element or attribute: how often it occurs, its type as written, and the element that declares it."""

    least: int
    most: int
    node: Any


class _Content(NamedTuple):
    """What an element holds: parts by name, and the rest as text, which is compared as a whole."""

    parts: dict[str, _Part]
    rest: str
    order: tuple[str, ...]


class XmlDocument:
    """A schema: its global elements and types.

    Raises:
        Malformed: it is no XML Schema.
        Unreadable: it is no text, or has a DOCTYPE.
    """

    def __init__(self, text: Any) -> None:
        if not isinstance(text, str):
            raise Unreadable("an XML Schema that is not text is not read")
        if "<!DOCTYPE" in text or "<!ENTITY" in text:
            raise Unreadable("the schema has a DOCTYPE, which is not read")
        try:
            self.root = ElementTree.fromstring(text)  # noqa: S314 - no entities, see above
        except ElementTree.ParseError as error:
            raise Malformed(f"the schema is not XML: {error}") from error
        if self.root.tag != f"{_XSD}schema":
            raise Malformed("the root is no schema of XML Schema")
        self.elements: dict[str, Any] = {}
        self.types: dict[str, Any] = {}
        self.groups: dict[str, Any] = {}
        rest = []
        for one in self.root:
            kind, name = _kind(one), one.get("name", "")
            if kind == "element":
                self.elements[name] = one
            elif kind in ("complexType", "simpleType"):
                self.types[name] = one
            elif kind in ("group", "attributeGroup", "attribute"):
                self.groups[f"{kind} {name}"] = one
            elif kind not in ("annotation",):
                rest.append(_text(one))
        self.rest = " ".join(sorted(rest))

    def check_names(self) -> None:
        """Check that elements are those of XML Schema, and that what is declared at the top has a name.

        Raises:
            Malformed: one is not.
        """
        for one in self.root:
            if _kind(one) in _GLOBAL and not one.get("name"):
                raise Malformed(f"a global `{_kind(one)}` without a name")
        left = [self.root]
        while left:
            node = left.pop()
            if _kind(node) not in _ELEMENTS:
                raise Malformed(f"`{_kind(node)}` is no element of XML Schema")
            if _kind(node) == "attribute" and not (node.get("name") or node.get("ref")):
                raise Malformed("an attribute without a name")
            left.extend(() if _kind(node) in _SAID else node)

    def type_of(self, node: Any) -> Any:
        """Return the declaration of an element's type; its name, where that is of the specification; None: any."""
        for one in node:
            if _kind(one) in ("complexType", "simpleType"):
                return one
        name = (node.get("type") or "").rpartition(":")[2]
        return self.types.get(name, name or None)

    def declared(self, node: Any) -> Any:
        """Return what a particle with `ref` refers to."""
        name = (node.get("ref") or "").rpartition(":")[2]
        return self.elements.get(name, node) if name else node


class XmlComparison:
    """Compares in one direction.

    Args:
        writer: what is written.
        reader: what is read.
        is_backward: the old schema writes.
        steps: count the work.
    """

    def __init__(self, writer: XmlDocument, reader: XmlDocument, *, is_backward: bool, steps: StepBudget) -> None:
        self._writer, self._reader = writer, reader
        self._is_backward, self._steps = is_backward, steps
        self._seen: set[tuple[int, int]] = set()

    def compare(self) -> Iterator[DirectionResult]:
        """Compare all global elements; what stands next to them is the same or unknown."""
        for name, node in self._writer.elements.items():
            other = self._reader.elements.get(name)
            if other is None:
                kind, word = ("field-removed", "went") if self._is_backward else ("field-added", "came")
                because = "{writer} may write this element as the root, which {reader} does not know"
                yield self._found((name,), kind, f"{word}: element", Answer.YES, because)
            else:
                yield from self._types(node, other, (name,))
        for what, one, other in (
            ("imports or includes", self._writer.rest, self._reader.rest),
            ("groups", _texts(self._writer.groups), _texts(self._reader.groups)),
            ("target namespace", self._writer.root.get("targetNamespace", ""), self._reader.root.get("targetNamespace", "")),
        ):
            if one != other:
                answer = Answer.YES if what == "target namespace" else Answer.UNKNOWN
                because = (
                    f"{what} of both differ"
                    if answer == Answer.UNKNOWN
                    else "{writer} writes another namespace than {reader} takes"
                )
                yield self._found((), "content-changed", f"{what} differ", answer, because)

    def _types(self, node: Any, other: Any, path: Path) -> Iterator[DirectionResult]:
        ours, theirs = self._writer.type_of(node), self._reader.type_of(other)
        if not isinstance(ours, str | None) and not isinstance(theirs, str | None):
            key = (id(ours), id(theirs))
            if key not in self._seen:
                self._seen.add(key)
                self._steps.spend(len(path))
                yield from self._declared(ours, theirs, path)
            return
        if ours == theirs:
            return
        names = [
            one if isinstance(one, str) else one.get("name", "an unnamed type") if one is not None else "any"
            for one in (ours, theirs)
        ]
        old, new = self._in_time(*names)
        if theirs is None or theirs == "anyType" or (isinstance(ours, str) and theirs in _WIDER.get(ours, ())):
            answer = Answer.NO
        else:
            answer = Answer.YES if ours in _SEPARATE and theirs in _SEPARATE else Answer.UNKNOWN
        because = f"{{writer}} may write {names[0]}, and {{reader}} takes {names[1]}"
        yield self._found(path, "type-changed", f"was {old}, is {new}", answer, because)

    def _declared(self, ours: Any, theirs: Any, path: Path) -> Iterator[DirectionResult]:
        if _kind(ours) != _kind(theirs) or _kind(ours) == "simpleType":
            if _text(ours) != _text(theirs):
                yield from self._simple(ours, theirs, path)
            return
        writer, reader = _content(ours, self._writer), _content(theirs, self._reader)
        if writer.rest != reader.rest:
            yield self._found(
                path, "content-changed", "content differs", Answer.UNKNOWN, "groups and extensions are not compared"
            )
        common = [one for one in writer.order if one in reader.parts]
        if common != [one for one in reader.order if one in writer.parts]:
            because = "{writer} writes the elements in another order than {reader} takes"
            yield self._found(path, "order-changed", "the order of elements differs", Answer.YES, because)
        for name, part in reader.parts.items():
            other = writer.parts.get(name)
            here = (*path, name)
            if other is None:
                kind, word = ("field-added", "came") if self._is_backward else ("field-removed", "went")
                needed = "required" if part.least else "optional"
                because = "{writer} does not write it, and {reader} requires it"
                what = f"{word}: {'attribute' if name.startswith('@') else 'element'}, {needed}"
                yield self._found(here, kind, what, Answer.YES if part.least else Answer.NO, because)
                continue
            yield from self._occurrence(other, part, here)
            yield from self._types(self._writer.declared(other.node), self._reader.declared(part.node), here)
        for name, part in writer.parts.items():
            if name not in reader.parts:
                kind, word = ("field-removed", "went") if self._is_backward else ("field-added", "came")
                needed = "required" if part.least else "optional"
                because = "{writer} may write it, and {reader} refuses what it does not know"
                what = f"{word}: {'attribute' if name.startswith('@') else 'element'}, {needed}"
                yield DirectionResult((*path, name), kind, what, Answer.NO, Answer.YES, because)

    def _occurrence(self, writer: _Part, reader: _Part, path: Path) -> Iterator[DirectionResult]:
        if (writer.least, writer.most) == (reader.least, reader.most):
            return
        old, new = self._in_time(writer, reader)
        times = [f"{one.least} to {one.most if one.most < _MANY else 'any'} times" for one in (old, new)]
        kind = "became-required" if new.least > old.least else "became-optional" if new.least < old.least else "size-changed"
        is_lost = writer.least < reader.least or writer.most > reader.most
        because = "{writer} may write it more or less often than {reader} takes"
        yield self._found(path, kind, f"was there {times[0]}, is there {times[1]}", Answer.YES if is_lost else Answer.NO, because)

    def _simple(self, ours: Any, theirs: Any, path: Path) -> Iterator[DirectionResult]:
        """Compare two simple types that are not the same: by the values that they list, else it is unknown."""
        values = [_listed(one) for one in (ours, theirs)]
        if values[0] is None or values[1] is None:
            because = "simple types are compared by the values that they list alone"
            yield self._found(path, "type-changed", "the type differs", Answer.UNKNOWN, because)
            return
        yield from unread_values(path, sorted(values[0] - values[1]), is_backward=self._is_backward)

    def _in_time(self, of_writer: Any, of_reader: Any) -> tuple[Any, Any]:
        return (of_writer, of_reader) if self._is_backward else (of_reader, of_writer)

    def _found(self, path: Path, kind: str, what: str, answer: Answer, because: str) -> DirectionResult:
        return DirectionResult(path, kind, what, answer, answer, because)


def _kind(node: Any) -> str:
    return str(node.tag).removeprefix(_XSD)


def _content(node: Any, document: XmlDocument) -> _Content:
    """Return what a complex type holds; what is no plain sequence, choice or attribute goes into the rest."""
    parts: dict[str, _Part] = {}
    rest: list[str] = [f"{name}={value}" for name, value in sorted(node.attrib.items()) if name not in ("name", "id")]

    def add(name: str, part: _Part) -> None:
        if name in parts:
            rest.append(f"{name} again")
        parts[name] = part

    def walk(particles: Any, least: int, most: int) -> None:
        for one in particles:
            kind = _kind(one)
            low = least * int(one.get("minOccurs", "1"))
            written = one.get("maxOccurs", "1")
            high = min(_MANY, most * (_MANY if written == "unbounded" else int(written)))
            if kind == "element":
                add(one.get("name") or one.get("ref", "").rpartition(":")[2], _Part(low, high, one))
            elif kind in ("sequence", "all"):
                if (low, high) not in ((1, 1), (0, 1)):
                    rest.append(f"{kind} {low} {high}")
                walk(one, low, high)
            elif kind == "choice":
                rest.append(f"choice {low} {high}")  # exactly one of them, which is not compared further
                walk(one, 0, high)
                rest.append(",".join(sorted(str(child.get("name") or child.get("ref")) for child in one)))
            elif kind == "attribute" and (one.get("name") or one.get("ref")):
                add(f"@{one.get('name') or one.get('ref')}", _Part(int(one.get("use") == "required"), 1, one))
            elif kind not in _PASSED_OVER:
                rest.append(_text(one))

    walk(node, 1, 1)
    return _Content(parts, " ".join(rest), tuple(name for name in parts if not name.startswith("@")))


def _listed(node: Any) -> set[str] | None:
    """Return the values that a simple type lists; None: it limits otherwise, too."""
    children = [one for one in node if _kind(one) != "annotation"]
    if len(children) != 1 or _kind(children[0]) != "restriction":
        return None
    facets = [one for one in children[0] if _kind(one) != "annotation"]
    return {one.get("value", "") for one in facets} if facets and all(_kind(one) == "enumeration" for one in facets) else None


def _text(node: Any) -> str:
    """Return an element as text, without annotations and blanks between elements."""
    if _kind(node) == "annotation":
        return ""
    attributes = " ".join(f'{name}="{value}"' for name, value in sorted(node.attrib.items()))
    return f"<{_kind(node)} {attributes}>{(node.text or '').strip()}{''.join(map(_text, node))}</>"


def _texts(nodes: dict[str, Any]) -> str:
    return "".join(_text(nodes[name]) for name in sorted(nodes))
