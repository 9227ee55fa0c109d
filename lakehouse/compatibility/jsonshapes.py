"""JSON Schema as constraints: `allOf` and references laid together, each keyword in one form for drafts 4 to 2020-12.

`satisfies` decides whether a value satisfies a schema, as far as that can be done without patterns.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from functools import lru_cache
from types import MappingProxyType
from typing import Any
from urllib.parse import unquote, urljoin, urlsplit

import orjson

from lakehouse.compatibility.limits import Malformed, StepBudget
from lakehouse.text.jsontext import canonical, read_exactly

_NOT_DECIDED = (
    "pattern", "format", "not", "if", "patternProperties", "propertyNames", "contains", "dependencies", "dependentRequired",
    "dependentSchemas", "unevaluatedProperties", "unevaluatedItems", "multipleOf", "$dynamicRef", "$recursiveRef", "uniqueItems",
    "prefixItems", "additionalItems",
)  # fmt: skip
TYPES = frozenset({"null", "boolean", "integer", "number", "string", "array", "object"})
# What is compared as a whole: the same, or not decided.
OPAQUE = (
    ("not",), ("if", "then", "else"), ("contains", "minContains", "maxContains"), ("propertyNames",), ("dependencies",),
    ("dependentRequired",), ("dependentSchemas",), ("$dynamicRef",), ("$recursiveRef",), ("extends",), ("disallow",),
    ("unevaluatedItems",), ("unevaluatedProperties",),
)  # fmt: skip
_OPAQUE = frozenset(names[0] for names in OPAQUE)
# What these mean depends on their neighbours.
DEPENDENT = frozenset({"unevaluatedItems", "unevaluatedProperties", "$dynamicRef", "$recursiveRef"})
_OLD_DRAFTS = ("draft-03", "draft-04", "draft-05", "draft-06", "draft-07")
_MEMBERS = frozenset({"properties", "patternProperties", "additionalProperties", "required"})
_COMBINED = frozenset({"allOf", "anyOf", "oneOf"})
_ITEMS = frozenset({"items", "prefixItems", "additionalItems"})
_LIMITS = frozenset(
    {"minLength", "minItems", "minProperties", "maxLength", "maxItems", "maxProperties", "uniqueItems", "minimum", "maximum",
     "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "pattern", "format"}
)  # fmt: skip
# What `type` means: each integer is a number.
_OF_TYPE = {name: frozenset({name, "integer"} if name == "number" else {name}) for name in TYPES}
DATA = frozenset({"const", "default", "enum", "examples"})  # hold data, and no schemas
# Members whose members have names of the user, which are no keywords.
NAMED = frozenset({"properties", "patternProperties", "definitions", "$defs", "dependencies", "dependentSchemas"})
_MOST_WRITTEN_OUT = 1e30  # integers with an exponent, up to which they are written without it
Parts = tuple[Any, ...]  # schemas that all hold
Bound = tuple[float, bool]  # and whether it is excluded


def as_key(value: Any) -> bytes:
    """Return what two equal JSON values have alike: 1 and 1.0 are equal, 1 and true are not."""
    return canonical(_plain(value))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_plain(member) for member in value]
    is_integer = isinstance(value, float) and value.is_integer() and abs(value) < _MOST_WRITTEN_OUT
    return int(Decimal(repr(value))) if is_integer else value


def words_in(value: Any) -> frozenset[str]:
    """Return all texts in a value: names of members, and strings."""
    words, left = set[str](), [value]
    while left:
        inner = left.pop()
        if isinstance(inner, str):
            words.add(inner)
        elif isinstance(inner, dict):
            left += [*inner, *inner.values()]
        elif isinstance(inner, list | tuple):
            left += inner
    return frozenset(words)


def type_of(value: Any) -> str:
    """Return the type of a JSON value as JSON Schema names it; a number without a fraction is an integer."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return "integer"
    return {float: "number", str: "string", list: "array"}.get(type(value), "object")


def satisfies(value: Any, schema: Any, document: JsonDocument, depth: int = 0) -> bool | None:
    """Return whether a value satisfies a schema; None: that is not decided here.

    Args:
        value: a JSON value.
        schema: a JSON Schema.
        document: that holds the schema.
        depth: how many references and combinations it is in.
    """
    if isinstance(schema, bool):
        return schema
    if not isinstance(schema, dict) or depth > 20:
        return None
    answers: list[bool | None] = []
    if "$ref" in schema:
        target = document.follow(schema["$ref"])
        answers.append(None if target is None else satisfies(value, target, document, depth + 1))
        if document.is_old:  # what is next to a reference does not count
            return answers[0]
    answers += [None for name in _NOT_DECIDED if name in schema]
    kind = type_of(value)
    declared = schema.get("type")
    if declared is not None:
        types = declared if isinstance(declared, list) else [declared]
        answers.append(kind in types or (kind == "integer" and "number" in types))
    if "enum" in schema:
        answers.append(as_key(value) in {as_key(allowed) for allowed in schema["enum"]})
    if "const" in schema:
        answers.append(as_key(value) == as_key(schema["const"]))
    answers += [_of_parts(value, schema, kind, document, depth)]
    for name, combine in (("allOf", _all), ("anyOf", _any), ("oneOf", _exactly_one)):
        if name in schema:
            answers.append(combine([satisfies(value, schema_part, document, depth + 1) for schema_part in schema[name]]))
    return _all(answers)


def _of_parts(value: Any, schema: dict[str, Any], kind: str, document: JsonDocument, depth: int) -> bool | None:
    if kind in ("integer", "number"):
        low, high = schema.get("minimum"), schema.get("maximum")
        over, under = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
        if low is not None and (value < low or (over is True and value == low)):
            return False
        if high is not None and (value > high or (under is True and value == high)):
            return False
        is_over = over is None or isinstance(over, bool) or value > over
        return is_over and (under is None or isinstance(under, bool) or value < under)
    if kind == "string":
        return bool(schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value)))
    if kind == "array":
        if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
            return False
        items, prefix = schema.get("items", True), schema.get("prefixItems")
        if isinstance(items, list):
            return None
        rest = value[len(prefix) :] if isinstance(prefix, list) else value
        return _all([satisfies(member, items, document, depth + 1) for member in rest])
    if kind == "object":
        if not schema.get("minProperties", 0) <= len(value) <= schema.get("maxProperties", len(value)):
            return False
        required = schema.get("required")
        if isinstance(required, list) and not set(required) <= value.keys():
            return False
        properties, extra = schema.get("properties") or {}, schema.get("additionalProperties", True)
        extra = None if "patternProperties" in schema else extra  # no schema, so it is not decided
        return _all([satisfies(member, properties.get(name, extra), document, depth + 1) for name, member in value.items()])
    return True


def _all(answers: list[bool | None]) -> bool | None:
    return False if False in answers else None if None in answers else True


def _any(answers: list[bool | None]) -> bool | None:
    return True if True in answers else None if None in answers else False


def _exactly_one(answers: list[bool | None]) -> bool | None:
    count = answers.count(True)
    return False if count > 1 else None if None in answers else count == 1


class JsonDocument:
    """A schema as a whole: what its references lead to.

    Args:
        document: JSON, or its text.
        format: as the catalog has it, which names the draft where `$schema` does not.

    Raises:
        Malformed: it is no JSON Schema.
    """

    def __init__(self, document: Any, format: str = "") -> None:
        if isinstance(document, str):
            try:
                document = read_exactly(document.encode())
            except orjson.JSONDecodeError as error:
                raise Malformed(f"the schema is not JSON: {error}") from error
        if not isinstance(document, dict | bool):
            raise Malformed("a JSON Schema is an object or a boolean")
        self.root = document
        self.text = canonical(document)
        self.has_references = b'ef":' in self.text  # $ref, $dynamicRef, $recursiveRef
        self.has_values = b'"const":' in self.text or b'"enum":' in self.text
        own = document if isinstance(document, dict) else {}
        draft = str(own.get("$schema") or format).lower()
        self.is_old = any(old_draft in draft or old_draft.replace("-0", "-") in draft for old_draft in _OLD_DRAFTS)
        self._id = str(own.get("$id") or own.get("id") or "").partition("#")[0]
        has_inner = self.text.count(b'"$id":') > ("$id" in own)
        # Of each embedded schema its absolute URI; None: one has references that its `$id` changes.
        self._embedded: dict[str, Any] | None = self._find_embedded() if has_inner else {}
        self.shapes: dict[tuple[int, ...], Shape] = {}

    def follow(self, reference: Any) -> Any:
        """Return what a reference leads to within the document; None: it leads elsewhere, or nowhere."""
        if not isinstance(reference, str) or self._embedded is None:
            return None
        base, _, place = reference.partition("#")
        here: Any = self.root
        if base and base != self._id:
            here = self._embedded.get(urljoin(self._id, base))
        if not place or here is None:
            return here
        if not place.startswith("/"):
            return None
        for token in place[1:].split("/"):
            name = unquote(token).replace("~1", "/").replace("~0", "~")
            if isinstance(here, dict) and name in here:
                here = here[name]
            elif isinstance(here, list) and name.isdecimal() and int(name) < len(here):
                here = here[int(name)]
            else:
                return None
        return here

    def _find_embedded(self) -> dict[str, Any] | None:
        result: dict[str, Any] = {}
        left: list[tuple[Any, bool, bool]] = [(self.root, False, False)]
        while left:
            node, is_inner, is_data = left.pop()
            if isinstance(node, dict):
                own, reference = node.get("$id"), node.get("$ref")
                if node is not self.root and isinstance(own, str) and not own.startswith("#"):
                    is_inner = True
                    result |= {} if is_data else {urljoin(self._id, own.partition("#")[0]): node}
                if is_inner and isinstance(reference, str) and not urlsplit(reference).scheme:
                    return None
            inner = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
            left += ((value, is_inner, is_data or name in DATA) for name, value in inner)
        return result

    def shape(self, parts: Parts, steps: StepBudget) -> Shape:
        """Lay schemas together that all hold for one value."""
        key = tuple(map(id, parts))
        shape = self.shapes.get(key)
        if shape is None:
            shape = self.shapes[key] = Shape(self, parts, steps)
        return shape


class Shape:
    """What a value must be by several schemas together.

    Most schemas limit little: so what is not limited is an attribute of the class, and limits are added to copies.
    """

    types: frozenset[str] = TYPES
    enum: list[Any] | None = None
    low: Bound | None = None
    high: Bound | None = None
    lengths: Mapping[str, int] = MappingProxyType({})
    multiples: tuple[Any, ...] = ()
    tests: frozenset[str] = frozenset()  # regular expressions
    formats: frozenset[str] = frozenset()
    properties: Mapping[str, Parts] = MappingProxyType({})
    required: frozenset[str] = frozenset()
    patterns: Mapping[str, Parts] = MappingProxyType({})
    extra: tuple[tuple[frozenset[str], frozenset[str], Any], ...] = ()  # names, patterns, the schema of all other members
    closed = False  # by unevaluatedProperties
    items: Parts = ()
    prefix: tuple[Parts, ...] = ()
    unions: tuple[tuple[str, list[Any]], ...] = ()
    opaque: tuple[tuple[str, Any], ...] = ()
    unread: tuple[str, ...] = ()
    is_impossible = False

    def __init__(self, document: JsonDocument, parts: Parts, steps: StepBudget) -> None:
        self.document, self.parts = document, parts  # parts are held, so that their ids stay theirs
        for part in parts:
            self._add(part, steps, ())
        if self.enum is not None:
            values = [
                value
                for value in self.enum
                if type_of(value) in self.types or (type_of(value) == "integer" and "number" in self.types)
            ]
            self.enum = values
            self.types = frozenset(map(type_of, values))
        self.is_impossible = self.is_impossible or not self.types

    def _add(self, part: Any, steps: StepBudget, over: tuple[str, ...]) -> None:
        steps.spend(len(over))
        if part is True:
            return
        if part is False:
            self.is_impossible = True
            return
        if not isinstance(part, dict):
            self.unread += ("a schema that is no object",)
            return
        if "$ref" in part:
            reference = part["$ref"]
            target = self.document.follow(reference)
            if target is None:
                self.unread += (f"the reference {reference}",)
            elif reference not in over:
                self._add(target, steps, (*over, reference))
            if self.document.is_old:
                return
        self._add_values(part)
        if not _LIMITS.isdisjoint(part):
            self._add_limits(part)
        if not _MEMBERS.isdisjoint(part):
            self._add_members(part)
        if not _ITEMS.isdisjoint(part):
            self._add_items(part)
        self._add_opaque(part)
        if not _COMBINED.isdisjoint(part):
            self._add_combined(part, steps, over)

    def _add_combined(self, part: dict[str, Any], steps: StepBudget, over: tuple[str, ...]) -> None:
        for name in ("anyOf", "oneOf"):
            if isinstance(part.get(name), list):
                self.unions += ((name, part[name]),)
        for schema in part.get("allOf") or ():
            self._add(schema, steps, over)

    def _add_opaque(self, part: dict[str, Any]) -> None:
        for names in () if _OPAQUE.isdisjoint(part) else OPAQUE:
            if names[0] not in part:
                continue
            if names[0] == "unevaluatedProperties" and part[names[0]] is False:
                self.closed = True
            else:
                self.opaque += ((names[0], [part.get(name) for name in names]),)

    def _add_values(self, part: dict[str, Any]) -> None:
        declared = part.get("type")
        if declared is not None:
            types = _types_named(declared)
            if types is None:
                self.unread += (f"the type {declared}"[:60],)
                return
            self.types &= types
        if "const" in part:
            self._add_enum([part["const"]])
        if isinstance(part.get("enum"), list):
            self._add_enum(part["enum"])

    def _add_enum(self, values: list[Any]) -> None:
        if self.enum is None:
            self.enum = values
        else:
            keys = set(map(as_key, values))
            self.enum = [value for value in self.enum if as_key(value) in keys]

    def _add_limits(self, part: dict[str, Any]) -> None:
        lengths = dict(self.lengths)
        for name in ("minLength", "minItems", "minProperties"):
            if name in part:
                lengths[name] = max(lengths.get(name, 0), part[name])
        for name in ("maxLength", "maxItems", "maxProperties"):
            if name in part:
                lengths[name] = min(lengths.get(name, part[name]), part[name])
        if part.get("uniqueItems") is True:
            lengths["uniqueItems"] = 1
        self.lengths = lengths
        for name, place, is_low in (("minimum", "exclusiveMinimum", True), ("maximum", "exclusiveMaximum", False)):
            limit, beyond = part.get(name), part.get(place)
            if limit is not None:
                self._limit(is_low, limit, is_excluded=beyond is True)
            if beyond is not None and not isinstance(beyond, bool):
                self._limit(is_low, beyond, is_excluded=True)
        if "multipleOf" in part:
            self.multiples += (part["multipleOf"],)
        if isinstance(part.get("pattern"), str):
            self.tests |= {part["pattern"]}
        if isinstance(part.get("format"), str):
            self.formats |= {part["format"]}

    def _limit(self, is_low: bool, value: float, *, is_excluded: bool) -> None:
        limit = self.low if is_low else self.high
        made = (value, is_excluded)
        if is_low:
            self.low = made if limit is None or made > limit else limit
        else:
            self.high = made if limit is None or (-value, is_excluded) > (-limit[0], limit[1]) else limit

    def _add_members(self, part: dict[str, Any]) -> None:
        properties = part.get("properties") or {}
        patterns = part.get("patternProperties") or {}
        if not self.properties:
            self.properties = {name: (schema,) for name, schema in properties.items()}
        else:
            self.properties = _with_parts(self.properties, properties)
        if patterns:
            self.patterns = _with_parts(self.patterns, patterns)
        required = part.get("required")
        if isinstance(required, list):
            self.required = self.required.union(required)
        extra = part.get("additionalProperties", True)
        if extra is not True and extra != {}:
            self.extra += ((frozenset(properties), frozenset(patterns), extra),)

    def _add_items(self, part: dict[str, Any]) -> None:
        items = part.get("items", True)
        prefix = part.get("prefixItems")
        rest = items
        if isinstance(items, list):
            prefix, rest = items, part.get("additionalItems", True)
        if prefix and (self.prefix or self.items):
            self.unread += ("several lists of items",)
        elif prefix:
            self.prefix = tuple([(schema,) for schema in prefix])
        elif self.prefix:
            self.unread += ("several lists of items",)
        if rest is not True:
            self.items = (*self.items, rest)

    def member(self, name: str) -> tuple[Parts, bool, bool]:
        """Return the schemas of a member, whether it is declared, and whether a pattern may be about it, which is not decided."""
        declared = self.properties.get(name, ())
        may_match = False
        for pattern, parts in self.patterns.items():
            matches = matches_simply(pattern, name)
            if matches is None:
                may_match = True
            elif matches:
                declared = (*declared, *parts)
        extra = tuple(
            [
                schema
                for names, patterns, schema in self.extra
                if name not in names and not any(matches_simply(pattern, name) is not False for pattern in patterns)
            ]
        )
        if extra and not declared and extra != (False,):
            return extra, any(schema is not False for schema in extra), may_match
        return (*declared, *extra), bool(declared), may_match

    def choices(self) -> list[list[Any]]:
        """Return the alternatives of which none is chosen among the parts."""
        chosen = set(map(id, self.parts))
        return [branches for _, branches in self.unions if chosen.isdisjoint(map(id, branches))]

    def rest(self) -> Parts:
        """Return the schemas of members that nothing is said of by name."""
        return tuple([schema for _, _, schema in self.extra])


def matches_simply(pattern: str, name: str) -> bool | None:
    """Return whether a name matches a pattern that is a plain start or anything at all; None: not decided here."""
    if pattern in (".*", "^.*$", "^.*", ".*$", "", "^"):
        return True
    if pattern.startswith("^") and pattern[1:].replace("-", "").replace("_", "").isalnum():
        return name.startswith(pattern[1:])
    return None


def _types_named(declared: Any) -> frozenset[str] | None:
    """Return the types that the keyword `type` names; None: one is none of JSON Schema."""
    if isinstance(declared, str):
        return _OF_TYPE.get(declared)
    if not isinstance(declared, list) or not all(isinstance(name, str) and name in TYPES for name in declared):
        return None
    return frozenset().union(*[_OF_TYPE[name] for name in declared])


def _with_parts(earlier: Mapping[str, Parts], more: Mapping[str, Any]) -> dict[str, Parts]:
    return {**earlier, **{name: (*earlier.get(name, ()), schema) for name, schema in more.items()}}


@lru_cache
def texts(types: frozenset[str]) -> str:
    """Return types as people read them."""
    names = set(types)
    if names >= TYPES:
        return "anything"
    if "number" in names:
        names.discard("integer")
    return " or ".join(sorted(names, key=lambda name: (name == "null", name))) or "nothing"
