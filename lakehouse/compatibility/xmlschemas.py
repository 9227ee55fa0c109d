"""XML Schema: elements and attributes by name, how often they occur, and their types; what else differs is unknown."""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any, NamedTuple
from xml.etree import ElementTree

from lakehouse.compatibility.limits import Malformed, StepBudget, Unreadable
from lakehouse.compatibility.schemadifferences import Answer, DirectionResult, Path, unread_values

_XSD = "{http://www.w3.org/2001/XMLSchema}"
_PASSED_OVER = frozenset({"annotation", "import", "include", "notation"})
_MANY = 10**9
_TRUE = ("true", "1")
# What each simple type is a part of, by its restrictions in XML Schema part 2, and which float and double hold all its values.
_WIDER = {
    "byte": ("short", "int", "long", "integer", "decimal", "float", "double"),
    "short": ("int", "long", "integer", "decimal", "float", "double"),
    "int": ("long", "integer", "decimal", "double"), "long": ("integer", "decimal"), "integer": ("decimal",),
    "nonNegativeInteger": ("integer", "decimal"), "positiveInteger": ("nonNegativeInteger", "integer", "decimal"),
    "unsignedByte": ("unsignedShort", "unsignedInt", "unsignedLong", "nonNegativeInteger", "integer", "decimal", "short", "int",
                     "long", "float", "double"),
    "unsignedShort": ("unsignedInt", "unsignedLong", "nonNegativeInteger", "integer", "decimal", "int", "long", "float",
                      "double"),
    "unsignedInt": ("unsignedLong", "nonNegativeInteger", "integer", "decimal", "long", "double"), "float": ("double",),
    "unsignedLong": ("nonNegativeInteger", "integer", "decimal"),
    "normalizedString": ("string",), "token": ("normalizedString", "string"),
}  # fmt: skip
_SEPARATE = frozenset(
    {*_WIDER, "string", "boolean", "decimal", "date", "dateTime", "time", "float", "double", "duration", "base64Binary",
     "hexBinary"}
)  # fmt: skip

_TEXTS = frozenset({"normalizedString", "token"})  # take any value as it is written
_FLOATS = frozenset({"float", "double"})  # take any number as it is written, of which digits may be lost
_NUMBERS = frozenset({*_WIDER, "decimal", "double"}) - _TEXTS

# What each element of XML Schema may hold (structures, 3.2 to 3.16), as kinds that are followed by a blank; annotations apart.
_ATTRIBUTES = "(attribute |attributeGroup )*(anyAttribute )?(assert )*"
_MODEL = "(group |all |choice |sequence )?"
_PARTICLES = "(element |group |choice |sequence |any )*"
_FACETS = (
    "assertion", "enumeration", "explicitTimezone", "fractionDigits", "length", "maxExclusive", "maxInclusive", "maxLength",
    "minExclusive", "minInclusive", "minLength", "pattern", "totalDigits", "whiteSpace",
)  # fmt: skip
_GLOBAL = ("attribute", "attributeGroup", "complexType", "element", "group", "notation", "simpleType")
_HOLDS = {
    "schema": "((include|import|redefine|override) )*(defaultOpenContent )?((" + "|".join(_GLOBAL) + ") )*",
    "annotation": "(appinfo |documentation )*",
    "element": "(simpleType |complexType )?(alternative )*(unique |key |keyref )*",
    "attribute": "(simpleType )?",
    "complexType": f"simpleContent |complexContent |(openContent )?{_MODEL}{_ATTRIBUTES}",
    "simpleContent": "restriction |extension ",
    "complexContent": "restriction |extension ",
    "extension": f"(openContent )?{_MODEL}{_ATTRIBUTES}",
    "restriction": f"(openContent )?{_MODEL}{_ATTRIBUTES}|(simpleType )?(({'|'.join(_FACETS)}) )*{_ATTRIBUTES}",
    "simpleType": "restriction |list |union ",
    "list": "(simpleType )?",
    "union": "(simpleType )*",
    "group": "(all |choice |sequence )?",
    "all": "(element |any |group )*",
    "choice": _PARTICLES,
    "sequence": _PARTICLES,
    "attributeGroup": "(attribute |attributeGroup )*(anyAttribute )?",
    "unique": "selector (field )+",
    "key": "selector (field )+",
    "keyref": "selector (field )+",
    "alternative": "(simpleType |complexType )?",
    "openContent": "(any )?",
    "defaultOpenContent": "any ",
    "redefine": "((simpleType|complexType|group|attributeGroup) )*",
    "override": "((" + "|".join(_GLOBAL) + ") )*",
} | dict.fromkeys((*_FACETS, "any", "anyAttribute", "assert", "field", "import", "include", "notation", "selector"), "")
_NEEDS = {
    "extension": ("base",), "selector": ("xpath",), "field": ("xpath",), "keyref": ("name", "refer"), "notation": ("name",),
    "include": ("schemaLocation",), "redefine": ("schemaLocation",), "override": ("schemaLocation",),
} | dict.fromkeys((facet for facet in _FACETS if facet != "assertion"), ("value",))  # fmt: skip
# Attributes that name something: what it is; None: depends on the element.
_NAMING = {"type": "type", "base": "type", "itemType": "type", "memberTypes": "type", "substitutionGroup": "element", "ref": None}
_BUILT_IN = frozenset(
    {*_WIDER, "anyAtomicType", "anySimpleType", "anyType", "anyURI", "base64Binary", "boolean", "date", "dateTime",
     "dateTimeStamp", "dayTimeDuration", "decimal", "double", "duration", "ENTITIES", "ENTITY", "error", "float", "gDay",
     "gMonth", "gMonthDay", "gYear", "gYearMonth", "hexBinary", "ID", "IDREF", "IDREFS", "language", "Name", "NCName",
     "negativeInteger", "NMTOKEN", "NMTOKENS", "nonPositiveInteger", "NOTATION", "QName", "string", "time", "yearMonthDuration"}
)  # fmt: skip
_HOLD_GLOBALS = ("schema", "redefine", "override")
_ELSEWHERE = ("include", "redefine", "override")  # with them, declarations may be in another document
_NCNAME = re.compile(r"[^\W\d][\w.\-·]*")


class _Part(NamedTuple):
    """An element or attribute: how often it occurs, its type as written, and the element that declares it."""

    least: int
    most: int
    node: Any


class _Content(NamedTuple):
    """What an element holds.

    Attributes:
        parts: by name.
        rest: what is next to them, and how they are grouped, as text, which is compared as a whole.
        order: names of elements that have one: not those of `all` and of choices; and what is between them, as text.
        opaque: the elements of `rest` that may name types.
        again: names of elements that are there several times.
    """

    parts: dict[str, _Part]
    rest: str
    order: list[str]
    opaque: list[Any]
    again: set[str]


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
        events = ElementTree.iterparse(io.StringIO(text), events=("start-ns",))  # noqa: S314 - no entities, see above
        try:
            self.prefixes = _prefixes(namespace for _, namespace in events)
        except ElementTree.ParseError as error:
            raise Malformed(f"the schema is not XML: {error}") from error
        self.root: Any = events.root  # type: ignore[attr-defined]  # of an iterator that is read to its end
        if self.root.tag != f"{_XSD}schema":
            raise Malformed("the root is no schema of XML Schema")
        self.elements: dict[str, Any] = {}
        self.types: dict[str, Any] = {}
        self.groups: dict[str, Any] = {}
        rest = []
        for node in self.root:
            kind, name = _kind(node), node.get("name", "")
            if kind == "element":
                self.elements[name] = node
            elif kind in ("complexType", "simpleType"):
                self.types[name] = node
            elif kind in ("group", "attributeGroup", "attribute"):
                self.groups[f"{kind} {name}"] = node
            elif kind not in ("annotation",):
                rest.append(_text(node))
        self.rest = " ".join(sorted(rest))

    def check(self) -> None:
        """Check each element: what it holds, its attributes, and that what it names is declared, unless it may be elsewhere.

        Raises:
            Malformed: one breaks a rule.
        """
        left: list[tuple[Any, bool]] = [(self.root, False)]
        while left:
            node, is_global = left.pop()
            _check_element(node, is_global=is_global)
            if self.prefixes is not None:
                self._check_names_in(node, self.prefixes)
            left += [(child, _kind(node) in _HOLD_GLOBALS) for child in node if _kind(child) != "annotation"]
        declared = [("type" if node_kind in ("simpleType", "complexType") else node_kind, node.get("name"))
                    for node in self.root if (node_kind := _kind(node)) in _GLOBAL]  # fmt: skip
        again = next((name_of_kind for name_of_kind, count in Counter(declared).items() if count > 1), None)
        if again is not None:
            raise Malformed(f"the {again[0]} {again[1]} is declared twice")

    def _check_names_in(self, node: Any, prefixes: dict[str, str]) -> None:
        for attribute, what in _NAMING.items():
            for name in (node.get(attribute) or "").split():
                prefix, _, local = name.rpartition(":")
                if prefix and prefix not in prefixes:
                    raise Malformed(f"`{attribute}` of {_shown(node)}: the prefix {prefix} is not declared")
                self._check_declared(node, what or _kind(node), prefixes.get(prefix, ""), local)

    def _check_declared(self, node: Any, what: str, namespace: str, name: str) -> None:
        """Check that a name is one of XML Schema, or declared here; those of other documents are not followed."""
        if namespace == _XSD[1:-1]:
            is_there = what != "type" or name in _BUILT_IN
        elif namespace != self.root.get("targetNamespace", "") or any(map(_is_elsewhere, self.root)):
            return
        else:
            is_there = name in {"type": self.types, "element": self.elements}.get(what, {}) or f"{what} {name}" in self.groups
        if not is_there:
            raise Malformed(f"{_shown(node)} names the {what} {name}, which is not declared")

    @cached_property
    def declarations(self) -> dict[tuple[str, str], Any]:
        """Return the global declarations by what they are and their name."""
        kinds = {"type": self.types, "element": self.elements, "group": self.groups}
        return {(kind, name): node for kind, nodes in kinds.items() for name, node in nodes.items()}

    @cached_property
    def texts(self) -> dict[tuple[str, str], str]:
        """Return the declarations as text."""
        return {key: _text(node) for key, node in self.declarations.items()}

    def type_of(self, node: Any) -> Any:
        """Return the declaration of an element's type; its name, where that is of the specification; None: any."""
        for child in node:
            if _kind(child) in ("complexType", "simpleType"):
                return child
        written = node.get("type")
        return self.named_type(written) if written else None

    def named_type(self, written: str) -> Any:
        """Return the declaration of a type; its name, where that is of the specification, or of another document."""
        prefix, _, name = written.rpartition(":")
        namespace = None if self.prefixes is None else self.prefixes.get(prefix, "")
        if namespace is None or namespace == self.root.get("targetNamespace", ""):
            return self.types.get(name, name)
        return name if namespace == _XSD[1:-1] else f"{{{namespace}}}{name}"

    def is_derived(self, node: Any) -> bool:
        """Return whether a complex type extends or restricts one that is declared here or elsewhere: it may take its place."""
        bases = [self.named_type(inner.get("base", "")) for child in node for inner in child
                 if _kind(child) in ("complexContent", "simpleContent")]  # fmt: skip
        return any(not isinstance(base, str) or base.startswith("{") for base in bases)

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
        self._declarations = writer.declarations
        texts = [writer.texts, reader.texts]
        self._reached: set[int] = set()  # types of the writer that an element or attribute has
        self._named: set[tuple[str, str]] = set()  # changed, and reported where they are named
        self._unchanged: set[tuple[str, str]] = set()  # they and all that they name are the same
        self._changed = {key for key in texts[0].keys() | texts[1].keys() if texts[0].get(key) != texts[1].get(key)}

    def compare(self) -> Iterator[DirectionResult]:
        """Compare all global elements; what is next to them is the same or unknown."""
        for name, node in self._writer.elements.items():
            other = self._reader.elements.get(name)
            if other is None:
                kind, word = ("field-removed", "went") if self._is_backward else ("field-added", "came")
                because = "{writer} may write this element as the root, which {reader} does not know"
                yield self._result((name,), kind, f"{word}: element", Answer.YES, because)
            else:
                yield from self._attributes(node, other, (name,))
                yield from self._types(node, other, (name,))
        yield from self._unreached_types()
        for what, writer_value, reader_value in (
            ("imports or includes", self._writer.rest, self._reader.rest),
            ("groups", _texts(self._writer.groups), _texts(self._reader.groups)),
            ("target namespace", self._writer.root.get("targetNamespace", ""), self._reader.root.get("targetNamespace", "")),
            ("defaults of the schema", _defaults(self._writer.root), _defaults(self._reader.root)),
        ):
            if writer_value != reader_value:
                answer = Answer.YES if what == "target namespace" else Answer.UNKNOWN
                because = (
                    f"{what} of both differ"
                    if answer == Answer.UNKNOWN
                    else "{writer} writes another namespace than {reader} takes"
                )
                yield self._result((), "content-changed", f"{what} differ", answer, because)

    def _attributes(self, node: Any, other: Any, path: Path) -> Iterator[DirectionResult]:
        """Compare what two declarations of an element or attribute say next to its type."""
        takes_nil, takes_any = other.get("nillable") in _TRUE, other.get("fixed") is None
        for what, is_lost, because in (
            ("nillable", node.get("nillable") in _TRUE and not takes_nil, "{writer} may write xsi:nil, which {reader} refuses"),
            (
                "abstract",
                node.get("abstract") not in _TRUE and other.get("abstract") in _TRUE,
                "{reader} refuses it: it is abstract",
            ),
            ("fixed", not takes_any and node.get("fixed") != other.get("fixed"), "{reader} takes one value alone"),
        ):
            if is_lost:
                yield self._result(path, "content-changed", f"`{what}` differs", Answer.YES, because)
        texts = [
            [each.get(name, "") for name in ("form", "block", "substitutionGroup", "targetNamespace")]
            + [_text(child) for child in each if _kind(child) not in ("annotation", "complexType", "simpleType")]
            for each in (node, other)
        ]
        if texts[0] != texts[1]:
            because = "forms, substitutions, keys and alternatives are not compared"
            yield self._result(path, "content-changed", "content differs", Answer.UNKNOWN, because)

    def _unreached_types(self) -> Iterator[DirectionResult]:
        """Compare types that no element leads to: `xsi:type`, or another document, may name them, so nothing is sure."""
        for name, node in self._writer.types.items():
            self._steps.spend()
            other = self._reader.types.get(name)
            if ("type", name) not in self._changed - self._named:
                continue
            if other is not None and (id(node), id(other)) not in self._seen:
                for found in list(self._declared(node, other, (name,))):
                    yield found._replace(lenient=min(found.lenient, Answer.UNKNOWN), strict=min(found.strict, Answer.UNKNOWN))
            elif other is None and id(node) not in self._reached and (not self._writer.elements or self._writer.is_derived(node)):
                kind, word = ("type-removed", "went") if self._is_backward else ("type-added", "came")
                because = "{writer} may write the type in xsi:type or another document, and {reader} does not know it"
                yield self._result((name,), kind, f"type {name} {word}", Answer.UNKNOWN, because)

    def _types(self, node: Any, other: Any, path: Path) -> Iterator[DirectionResult]:
        writer_type, reader_type = self._writer.type_of(node), self._reader.type_of(other)
        self._reached.add(id(writer_type))
        if not isinstance(writer_type, str | None) and not isinstance(reader_type, str | None):
            key = (id(writer_type), id(reader_type))
            if key not in self._seen:
                self._seen.add(key)
                self._steps.spend(len(path))
                yield from self._declared(writer_type, reader_type, path)
            return
        if writer_type == reader_type:
            return
        names = [
            type_ if isinstance(type_, str) else type_.get("name", "an unnamed type") if type_ is not None else "any"
            for type_ in (writer_type, reader_type)
        ]
        old, new = self._old_and_new(*names)
        because = f"{{writer}} may write {names[0]}, and {{reader}} takes {names[1]}"
        answer = _type_answer(writer_type, reader_type)
        yield self._result(path, "type-changed", f"was {old}, is {new}", answer, because)

    def _declared(self, writer_type: Any, reader_type: Any, path: Path) -> Iterator[DirectionResult]:
        if _kind(writer_type) != _kind(reader_type) or _kind(writer_type) == "simpleType":
            if _text(writer_type) != _text(reader_type):
                yield from self._simple(writer_type, reader_type, path)
            elif self._names_changed([writer_type]):
                yield self._named_differs(path)
            return
        writer, reader = _content(writer_type, self._writer), _content(reader_type, self._reader)
        if writer.rest != reader.rest:
            yield self._result(
                path, "content-changed", "content differs", Answer.UNKNOWN, "groups and extensions are not compared"
            )
        elif self._names_changed(writer.opaque):
            yield self._named_differs(path)
        answer = _order_answer(writer, reader)
        if answer != Answer.NO:
            because = "{writer} writes the elements in another order than {reader} takes"
            yield self._result(path, "order-changed", "the order of elements differs", answer, because)
        for name, part in reader.parts.items():
            other = writer.parts.get(name)
            here = (*path, name)
            if other is None:
                kind, word = ("field-added", "came") if self._is_backward else ("field-removed", "went")
                needed = "required" if part.least else "optional"
                because = "{writer} does not write it, and {reader} requires it"
                what = f"{word}: {'attribute' if name.startswith('@') else 'element'}, {needed}"
                yield self._result(here, kind, what, Answer.YES if part.least else Answer.NO, because)
                continue
            if name not in writer.again | reader.again:
                yield from self._occurrence(other, part, here)
            declared = self._writer.declared(other.node), self._reader.declared(part.node)
            yield from self._attributes(*declared, here)
            yield from self._types(*declared, here)
        for name, part in writer.parts.items():
            if name not in reader.parts:
                kind, word = ("field-removed", "went") if self._is_backward else ("field-added", "came")
                needed = "required" if part.least else "optional"
                because = "{writer} may write it, and {reader} refuses what it does not know"
                what = f"{word}: {'attribute' if name.startswith('@') else 'element'}, {needed}"
                yield DirectionResult((*path, name), kind, what, Answer.NO, Answer.YES, because)

    def _names_changed(self, nodes: list[Any]) -> bool:
        """Return whether elements that are the same in both name something that is not, directly or through others."""
        left, seen = list(nodes) if self._changed else [], set[tuple[str, str]]()
        while left:
            self._steps.spend(1)
            node = left.pop()
            left += list(node)
            for attribute, kind in _NAMING.items():
                for written in (node.get(attribute) or "").split():
                    name = written.rpartition(":")[2]
                    keys = [(kind, name)] if kind else [("element", name), ("group", f"{_kind(node)} {name}")]
                    if not self._changed.isdisjoint(keys):
                        self._named |= self._changed.intersection(keys)
                        return True
                    new = [key for key in keys if key in self._declarations and key not in seen and key not in self._unchanged]
                    left += [self._declarations[key] for key in new]
                    seen.update(new)
        self._unchanged |= seen
        return False

    def _named_differs(self, path: Path) -> DirectionResult:
        because = "what it extends, restricts or refers to is not compared"
        return self._result(path, "content-changed", "content differs", Answer.UNKNOWN, because)

    def _occurrence(self, writer: _Part, reader: _Part, path: Path) -> Iterator[DirectionResult]:
        if (writer.least, writer.most) == (reader.least, reader.most):
            return
        old, new = self._old_and_new(writer, reader)
        times = [f"{part.least} to {part.most if part.most < _MANY else 'any'} times" for part in (old, new)]
        kind = "became-required" if new.least > old.least else "became-optional" if new.least < old.least else "size-changed"
        is_lost = writer.least < reader.least or writer.most > reader.most
        because = "{writer} may write it more or less often than {reader} takes"
        yield self._result(
            path, kind, f"was there {times[0]}, is there {times[1]}", Answer.YES if is_lost else Answer.NO, because
        )

    def _simple(self, writer_type: Any, reader_type: Any, path: Path) -> Iterator[DirectionResult]:
        """Compare two simple types that are not the same: by the values that they list, else it is unknown."""
        values = [_listed(type_) for type_ in (writer_type, reader_type)]
        if values[0] is None or values[1] is None:
            because = "simple types are compared by the values that they list alone"
            yield self._result(path, "type-changed", "the type differs", Answer.UNKNOWN, because)
            return
        yield from unread_values(path, sorted(values[0] - values[1]), is_backward=self._is_backward)

    def _old_and_new(self, of_writer: Any, of_reader: Any) -> tuple[Any, Any]:
        return (of_writer, of_reader) if self._is_backward else (of_reader, of_writer)

    def _result(self, path: Path, kind: str, what: str, answer: Answer, because: str) -> DirectionResult:
        return DirectionResult(path, kind, what, answer, answer, because)


def _prefixes(namespaces: Iterable[tuple[str, str]]) -> dict[str, str] | None:
    """Return the namespaces by prefix; None: a prefix means several, so that names cannot be followed here."""
    results: dict[str, str] = {"xml": "http://www.w3.org/XML/1998/namespace"}
    is_single = True
    for prefix, uri in namespaces:  # to the end, where the document is read
        is_single &= results.setdefault(prefix, uri) == uri
    return results if is_single else None


def _is_elsewhere(node: Any) -> bool:
    """Return whether another document may declare names of this one."""
    return _kind(node) in _ELSEWHERE or (_kind(node) == "import" and not node.get("namespace"))


def _check_element(node: Any, *, is_global: bool) -> None:
    """Check what an element holds, and its attributes."""
    kind = _kind(node)
    if kind not in _HOLDS:
        raise Malformed(f"`{kind}` is no element of XML Schema")
    children = [_kind(child) for child in node if kind == "annotation" or _kind(child) != "annotation"]
    if not re.fullmatch(_HOLDS[kind], "".join([f"{child_kind} " for child_kind in children])):
        unknown = next((child_kind for child_kind in children if child_kind not in _HOLDS), None)
        if unknown is not None:
            raise Malformed(f"`{unknown}` is no element of XML Schema")
        raise Malformed(f"{_shown(node)} must not hold: {', '.join(children) or 'nothing'}")
    missing = next((name for name in _NEEDS.get(kind, ()) if node.get(name) is None), None)
    if missing is not None:
        raise Malformed(f"{_shown(node)} needs the attribute `{missing}`")
    name = node.get("name")
    if name is not None and not _NCNAME.fullmatch(name):
        raise Malformed(f"{name!r} is no name")
    if is_global and kind in _GLOBAL and name is None:
        raise Malformed(f"a global `{kind}` without a name")
    if not is_global:
        _check_local(node, kind)
    elif kind in ("group", "attributeGroup") and node.get("ref") is not None:
        raise Malformed(f"a global {kind} has no `ref`")
    _check_types(node, kind, children)
    _check_occurrence(node)


def _check_local(node: Any, kind: str) -> None:
    if kind in ("element", "attribute") and (node.get("name") is None) == (node.get("ref") is None):
        raise Malformed(f"the {kind} needs either a name or a `ref`")
    if kind in ("group", "attributeGroup") and node.get("ref") is None:
        raise Malformed(f"a {kind} within a type needs a `ref`")


def _check_types(node: Any, kind: str, children: list[str]) -> None:
    """Check that a type is given once, and where one is needed."""
    inline = [child_kind for child_kind in children if child_kind in ("simpleType", "complexType")]
    if kind in ("element", "attribute") and inline and node.get("type") is not None:
        raise Malformed(f"{_shown(node)} has a `type` and holds another one")
    if kind in ("element", "attribute") and node.get("default") is not None and node.get("fixed") is not None:
        raise Malformed(f"{_shown(node)} has both `default` and `fixed`")
    attribute = {"list": "itemType", "restriction": "base"}.get(kind)
    if attribute is not None and not inline and node.get(attribute) is None:
        raise Malformed(f"the {kind} needs `{attribute}` or a type within")
    if kind == "list" and inline and node.get("itemType") is not None:
        raise Malformed("a list has `itemType` and holds another one")
    if kind == "union" and not inline and not node.get("memberTypes"):
        raise Malformed("a union needs `memberTypes` or types within")


def _check_occurrence(node: Any) -> None:
    least, most = node.get("minOccurs", "1").strip(), node.get("maxOccurs", "1").strip()
    if not least.isdecimal() or not (most.isdecimal() or most == "unbounded"):
        raise Malformed(f"{_shown(node)}: {least} to {most} is no number of times")
    if most != "unbounded" and int(least) > int(most):
        raise Malformed(f"{_shown(node)}: at least {least} times is more than at most {most} times")
    if node.get("use", "optional") not in ("optional", "prohibited", "required"):
        raise Malformed(f"{_shown(node)}: `use` is optional, prohibited or required")


def _shown(node: Any) -> str:
    """Return an element as people read it: its kind, and its name or what it refers to."""
    name = node.get("name") or node.get("ref")
    return f"{_kind(node)} {name}" if name else f"the {_kind(node)}"


def _kind(node: Any) -> str:
    return str(node.tag).removeprefix(_XSD)


def _content(node: Any, document: XmlDocument) -> _Content:
    """Return what a complex type holds; what is no plain sequence, choice or attribute goes into the rest."""
    parts: dict[str, _Part] = {}
    opaque: list[Any] = []
    rest: list[str] = [f"{name}={value}" for name, value in sorted(node.attrib.items()) if name not in ("name", "id")]

    occurrences: dict[str, list[_Part]] = {}

    def add(name: str, part: _Part) -> None:
        occurrences.setdefault(name, []).append(part)
        earlier = parts.get(name, part)
        parts[name] = part._replace(least=max(part.least, earlier.least))

    order: list[str] = []

    def walk(particles: Any, least: int, most: int, *, is_ordered: bool = True) -> None:
        for particle in particles:
            kind = _kind(particle)
            low = least * int(particle.get("minOccurs", "1"))
            written = particle.get("maxOccurs", "1")
            high = min(_MANY, most * (_MANY if written == "unbounded" else int(written)))
            if kind == "element":
                name = particle.get("name") or particle.get("ref", "").rpartition(":")[2]
                order.extend([name] * is_ordered)
                add(name, _Part(low, high, particle))
            elif kind == "all":
                rest.append(f"all {low} {high}")
                walk(particle, low, high, is_ordered=False)
            elif kind == "sequence":
                if (low, high) != (1, 1):  # parts that occur together
                    rest.append(_grouped(particle))
                order.extend([_grouped(particle)] * (is_ordered and high > 1))
                walk(particle, low, high, is_ordered=is_ordered and high < 2)  # what comes again may come before
            elif kind == "choice":
                rest.append(_grouped(particle))  # exactly one of them, which is not compared further
                order.extend(rest[-1:] * is_ordered)
                walk(particle, 0, high, is_ordered=False)
            elif kind == "attribute" and (particle.get("name") or particle.get("ref")):
                if particle.get("use") != "prohibited":
                    required = int(particle.get("use") == "required")
                    add(f"@{particle.get('name') or particle.get('ref')}", _Part(required, 1, particle))
            elif kind not in _PASSED_OVER:
                rest.append(_text(particle))
                order.extend(rest[-1:] * (is_ordered and kind in ("any", "group")))
                opaque.append(particle)

    walk(node, 1, 1)
    again = {name: several for name, several in occurrences.items() if len(several) > 1}
    rest += [f"{name} {part.least} {part.most} {_text(part.node)}" for name, several in again.items() for part in several]
    return _Content(parts, " ".join(rest), order, opaque, set(again))


def _order_answer(writer: _Content, reader: _Content) -> Answer:
    """Return whether another order is written than is read; unknown where more than elements that come once is moved."""
    both = {*writer.order} & {*reader.order}
    orders = [[token for token in side.order if token in both] for side in (writer, reader)]
    if orders[0] == orders[1]:
        return Answer.NO
    again = writer.again | reader.again
    once = [[token for token in order if token in writer.parts and token not in again] for order in orders]
    takes_any = any(token.startswith("<") for token in reader.order)
    return Answer.UNKNOWN if once[0] == once[1] or takes_any else Answer.YES


def _type_answer(writer: Any, reader: Any) -> Answer:
    """Return whether values of one type are lost in another one, by their names: unknown for types that a schema declares."""
    if reader is None or reader == "anyType" or (isinstance(writer, str) and reader in _WIDER.get(writer, ())):
        return Answer.NO
    if reader == "string" and writer in _SEPARATE:
        return Answer.NO
    is_read_as_written = reader in _TEXTS or (writer in _NUMBERS and reader in _FLOATS)
    return Answer.YES if writer in _SEPARATE and reader in _SEPARATE and not is_read_as_written else Answer.UNKNOWN


def _grouped(particle: Any) -> str:
    """Return a group with the names of what it holds, and how often it occurs: the branches of a choice in any order."""
    kind, children = _kind(particle), [child for child in particle if _kind(child) != "annotation"]
    names = [
        f"{child.get('name') or child.get('ref')} {_occurs(child)}" if _kind(child) == "element" else _grouped(child)
        for child in children
    ]
    return f"{kind} {_occurs(particle)} ({' '.join(sorted(names) if kind == 'choice' else names)}){particle.get('ref', '')}"


def _occurs(particle: Any) -> str:
    return f"{particle.get('minOccurs', '1')} {particle.get('maxOccurs', '1')}"


def _listed(node: Any) -> set[str] | None:
    """Return the values that a simple type lists; None: it limits otherwise, too."""
    children = [child for child in node if _kind(child) != "annotation"]
    if len(children) != 1 or _kind(children[0]) != "restriction":
        return None
    facets = [child for child in children[0] if _kind(child) != "annotation"]
    return (
        {child.get("value", "") for child in facets}
        if facets and all(_kind(child) == "enumeration" for child in facets)
        else None
    )


def _defaults(root: Any) -> list[str]:
    """Return what the schema sets for what it holds: whether names have a namespace, what may be substituted."""
    names = {"elementFormDefault": "unqualified", "attributeFormDefault": "unqualified", "blockDefault": "", "finalDefault": ""}
    return [root.get(name, default) for name, default in names.items()]


def _text(node: Any) -> str:
    """Return an element as text, without annotations and blanks between elements."""
    if _kind(node) == "annotation":
        return ""
    attributes = " ".join(f'{name}="{value}"' for name, value in sorted(node.attrib.items()))
    return f"<{_kind(node)} {attributes}>{(node.text or '').strip()}{''.join(map(_text, node))}</>"


def _texts(nodes: dict[str, Any]) -> str:
    return "".join(_text(nodes[name]) for name in sorted(nodes))
