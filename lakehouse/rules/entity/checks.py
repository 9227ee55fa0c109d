"""The tests of `constraints.csv`: each checks one value of an entity in normal form, and returns what is wrong with it.

A test gets the value, the argument of its row, and its context; it returns the rest of a sentence that starts
with the name of what is tested, or None. Tests of declared properties get the declaration.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any

from lakehouse.dialects.tables import FAMILIES, family_of
from lakehouse.text import values
from lakehouse.text.jsontext import as_written
from lakehouse.text.timestamps import microseconds

_LONGEST_VALUE = 100


class CheckContext:
    """The context of a value for a test: its name, the names that its place has, the whole entity."""

    __slots__ = ("attributes", "name", "names")

    def __init__(self, names: frozenset[str], attributes: dict[str, Any]) -> None:
        self.name = ""
        self.names = names
        self.attributes = attributes


Test = Callable[[Any, str, CheckContext], "str | None"]


def shown(value: Any) -> str:
    """Write a value into a message: as JSON, cut when it is long."""
    text = as_written(value)
    return text if len(text) <= _LONGEST_VALUE else text[:_LONGEST_VALUE] + "…"


def _not_empty(value: Any, argument: str, context: CheckContext) -> str | None:
    if isinstance(value, str) and value.strip():
        return None
    return "is empty" if value == "" else f"is {shown(value)} and must be a string"


def _form(value: Any, argument: str, context: CheckContext) -> str | None:
    if not isinstance(value, str) or value == "" or _pattern(argument).fullmatch(value):
        return None if isinstance(value, str) else f"is {shown(value)} and must be a string"
    return f"is {shown(value)}, which does not have the required form"


def _not(value: Any, argument: str, context: CheckContext) -> str | None:
    return f"is {shown(value)}" if isinstance(value, str) and _pattern(argument).fullmatch(value) else None


@cache
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text)


def _not_local(value: Any, argument: str, context: CheckContext) -> str | None:
    is_local = isinstance(value, str) and _pattern(r"(?i)\s*(?:file:|[a-z]:[\\/]).*").fullmatch(value)
    return f"is {shown(value)}, a file of one machine, which nobody else can open" if is_local else None


def _known_envelope(value: Any, argument: str, context: CheckContext) -> str | None:
    is_other = _is_other(value, argument) and not value.lower().startswith("cloudevents")
    return f"is {shown(value)}, your own envelope" if is_other else None


def _is_other(value: Any, misspelt: str) -> bool:
    return isinstance(value, str) and value != "" and not (misspelt and _pattern(misspelt).fullmatch(value))


def _known_protocol(value: Any, argument: str, context: CheckContext) -> str | None:
    is_other = _is_other(value, argument) and family_of(value) not in (*FAMILIES, None)
    return f"is {shown(value)}, your own protocol" if is_other else None


def _should_have_version(value: Any, argument: str, context: CheckContext) -> str | None:
    has_none = isinstance(value, str) and value and "/" not in value and family_of(value) not in FAMILIES
    return f"is {shown(value)}, without a version" if has_none else None


def _size(value: Any, argument: str, context: CheckContext) -> str | None:
    return "is empty" if value == [] else None


def _subset(value: Any, argument: str, context: CheckContext) -> str | None:
    other = [role for role in value if role not in argument.split()] if isinstance(value, list) else []
    return f"holds {shown(other[0])}; allowed: {argument.replace(' ', ', ')}" if other else None


def _distinct(value: Any, argument: str, context: CheckContext) -> str | None:
    return f"names one role twice: {shown(value)}" if isinstance(value, list) and len(set(value)) < len(value) else None


def _each(value: Any, argument: str, context: CheckContext) -> str | None:
    other = [member for member in value if not _pattern(argument).fullmatch(member)] if isinstance(value, list) else []
    return f"holds {shown(other[0])}, which does not have the required form" if other else None


def _deprecation(value: Any, argument: str, context: CheckContext) -> str | None:
    if not isinstance(value, dict):
        return None
    moments: dict[str, int] = {}
    for name in ("effective", "removal"):
        if value.get(name) is not None:
            try:
                moments[name] = microseconds(value[name] if isinstance(value[name], str) else "")[0]
            except ValueError:
                return f"has `{name}` {shown(value[name])}, which is not a timestamp such as 2024-12-31T23:59:59Z"
    if len(moments) == 2 and moments["removal"] < moments["effective"]:
        return f"has `removal` {value['removal']}, which is before `effective` {value['effective']}"
    return None


def _one_of(value: Any, argument: str, context: CheckContext) -> str | None:
    return None if value in argument.split() else f"is {shown(value)}; allowed: {argument.replace(' ', ', ')}"


def _advised(value: Any, argument: str, context: CheckContext) -> str | None:
    return None if value == "" else _one_of(value, argument, context)


def _boolean(value: Any, argument: str, context: CheckContext) -> str | None:
    return None if isinstance(value, bool) else f"is {shown(value)} and must be true or false"


def _string(value: Any, argument: str, context: CheckContext) -> str | None:
    return None if isinstance(value, str) else f"is {shown(value)} and must be a string"


def _integer(value: Any, argument: str, context: CheckContext) -> str | None:
    return None if isinstance(value, int) and not isinstance(value, bool) else f"is {shown(value)} and must be a whole number"


def _range(value: Any, argument: str, context: CheckContext) -> str | None:
    low, high = map(int, argument.split())
    is_in = isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
    return None if is_in else f"is {shown(value)} and must be a whole number from {low} to {high}"


def _keys(value: Any, argument: str, context: CheckContext) -> str | None:
    return "an option has the empty name" if "" in value else None


def _map(value: Any, argument: str, context: CheckContext) -> str | None:
    return None if isinstance(value, dict) else f"is {shown(value)} and must be a map"


def _texts(value: Any, argument: str, context: CheckContext) -> str | None:
    if not isinstance(value, dict):
        return f"is {shown(value)} and must be a map of strings"
    return _texts_but(value, argument, context)


def _texts_but(value: Any, argument: str, context: CheckContext) -> str | None:
    exempt = argument.split()
    for key, member in value.items():
        if key == "" or (key not in exempt and member is not None and not (isinstance(member, str) and member)):
            return f"has the entry {shown({key: member})}, and neither name nor value may be empty or other than a string"
    return None


def _known_keys(value: Any, argument: str, context: CheckContext) -> str | None:
    other = [key for key in value if key and key not in argument.split()]
    return f"`{other[0]}` is not a member of `authorization`" if other else None


def _strings(value: Any, argument: str, context: CheckContext) -> str | None:
    is_list = isinstance(value, list) and all(isinstance(member, str) for member in value)
    return None if is_list or isinstance(value, dict) else f"is {shown(value)} and should be a list of strings"


def _no_map(value: Any, argument: str, context: CheckContext) -> str | None:
    return f"is {shown(value)}, an object" if isinstance(value, dict) else None


def _token(value: Any, argument: str, context: CheckContext) -> str | None:
    is_other = isinstance(value, str) and not values.TOKEN.fullmatch(value)
    return f"is {shown(value)}, which is not a method name" if is_other else None


def _array(value: Any, argument: str, context: CheckContext) -> str | None:
    if isinstance(value, list) and all(isinstance(item, dict) for item in value):
        return None
    return f"is {shown(value)} and must be an array of objects with `name` and `value`"


def _items(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _item_names(value: Any, argument: str, context: CheckContext) -> str | None:
    bad = [item for item in _items(value) if not (isinstance(item.get("name"), str) and item["name"])]
    return f"has an entry without a name: {shown(bad[0])}" if bad else None


def _item_values(value: Any, argument: str, context: CheckContext) -> str | None:
    bad = [item for item in _items(value) if not (isinstance(item.get("value"), str) and item["value"])]
    return f"has an entry without a value: {shown(bad[0])}" if bad else None


def _header_names(value: Any, argument: str, context: CheckContext) -> str | None:
    bad = [item for item in _items(value) if not (isinstance(item.get("name"), str) and values.TOKEN.fullmatch(item["name"]))]
    return f"has an entry whose name is not an HTTP field name: {shown(bad[0])}" if bad else None


def _pairs(value: Any, argument: str, context: CheckContext) -> str | None:
    if not isinstance(value, list):
        return None  # another type is reported while the document is read
    bad = [item for item in value if not (isinstance(item, dict) and isinstance(item.get("name"), str) and item["name"])]
    return f"has an entry that is not an object with `name` and `value`: {shown(bad[0])}" if bad else None


def _role(value: Any, argument: str, context: CheckContext) -> str | None:
    usage = context.attributes.get("usage")
    is_for_others = isinstance(usage, list) and usage and argument not in usage
    return f"is an option for a {argument}, and `usage` is {shown(usage)}" if is_for_others else None


def _uri(value: Any, argument: str, context: CheckContext) -> str | None:
    return None if values.is_uri(value) else f"is not a URI: {shown(value)}"


def _uri_reference(value: Any, argument: str, context: CheckContext) -> str | None:
    return None if not isinstance(value, str) or values.is_uri_reference(value) else f"is not a URI-reference: {shown(value)}"


def _media_type(value: Any, argument: str, context: CheckContext) -> str | None:
    return None if values.is_media_type(value) else f"is not a media type: {shown(value)}"


def _name(value: Any, argument: str, context: CheckContext) -> str | None:
    return None if _pattern(argument).fullmatch(context.name) else f"does not match {argument}"


def _member(value: Any, argument: str, context: CheckContext) -> str | None:
    return None if context.name in context.names else "is not a member of this section"


# Tests of declarations.


def _value_of(declaration: Any) -> Any:
    return declaration.get("value") if isinstance(declaration, dict) else None


def _types(declaration: Any, argument: str, context: CheckContext) -> str | None:
    kind = declaration.get("type") if isinstance(declaration, dict) else None
    if not isinstance(kind, str) or kind == "any":
        return None
    kind = values.OLD_TYPES.get(kind, kind)
    allowed = argument.split()
    if kind in allowed or kind not in values.TYPES:
        return None
    details = [kind_name for kind_name in allowed if kind_name != "asciisymbol"]
    return f"has the type {kind!r}; allowed: {', '.join(details)}"


def _fits(declaration: Any, argument: str, context: CheckContext) -> str | None:
    value = _value_of(declaration)
    if value is None or "type" in declaration or values.fits(argument, value):
        return None
    return f"has the value {shown(value)}, which is not of its type `{argument.replace('asciisymbol', 'symbol')}`"


def _typed(declaration: Any, argument: str, context: CheckContext) -> str | None:
    return _types(declaration, argument, context) or _fits(declaration, argument.split(maxsplit=1)[0], context)


def _constant(declaration: Any, argument: str, context: CheckContext) -> str | None:
    value = _value_of(declaration)
    return None if value in (None, argument) else f"has the value {shown(value)} and must have {argument!r}"


def _not_optional(declaration: Any, argument: str, context: CheckContext) -> str | None:
    is_optional = isinstance(declaration, dict) and declaration.get("required") is False
    return "is declared with `required` false, and CloudEvents requires it" if is_optional else None


def _no_value(declaration: Any, argument: str, context: CheckContext) -> str | None:
    value = _value_of(declaration)
    is_fixed = value is not None and not values.is_template(value)
    return f"has the value {shown(value)}, so all events would be one" if is_fixed else None


def _no_fixed_value(declaration: Any, argument: str, context: CheckContext) -> str | None:
    value = _value_of(declaration)
    is_fixed = value is not None and declaration.get("type") != "uritemplate"
    return f"has the value {shown(value)}, so all messages would be one" if is_fixed else None


def _no_time(declaration: Any, argument: str, context: CheckContext) -> str | None:
    value = _value_of(declaration)
    is_fixed = value is not None and not values.is_now(value) and not values.is_template(value)
    return f"has the value {shown(value)}, which is not the time of an event" if is_fixed else None


def _media_type_value(declaration: Any, argument: str, context: CheckContext) -> str | None:
    value = _value_of(declaration)
    is_wrong = isinstance(value, str) and not values.is_template(value) and not values.is_media_type(value)
    return f"has the value {shown(value)}, which is not a media type" if is_wrong else None


def _uri_value(declaration: Any, argument: str, context: CheckContext) -> str | None:
    value = _value_of(declaration)
    is_wrong = isinstance(value, str) and not values.is_template(value) and not values.is_uri_reference(value)
    return f"has the value {shown(value)}, which is not a URI" if is_wrong else None


def _text_values(value: Any, argument: str, context: CheckContext) -> str | None:
    members = value.items() if isinstance(value, dict) else ()
    bad = [(name, _value_of(member)) for name, member in members if not isinstance(_value_of(member), str | None)]
    return f"has the entry {shown(dict(bad[:1]))}, whose value is not text" if bad else None


def _method(declaration: Any, argument: str, context: CheckContext) -> str | None:
    value = _value_of(declaration)
    is_wrong = isinstance(value, str) and not values.is_template(value) and not values.TOKEN.fullmatch(value)
    return f"is {shown(value)}, which is not a method name" if is_wrong else None


def _value_form(declaration: Any, argument: str, context: CheckContext) -> str | None:
    value = _value_of(declaration)
    is_wrong = isinstance(value, str) and not values.is_template(value) and not _pattern(argument).fullmatch(value)
    return f"is {shown(value)}, which does not match {argument}" if is_wrong else None


def _value_range(declaration: Any, argument: str, context: CheckContext) -> str | None:
    value = _value_of(declaration)
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    low, high = map(int, argument.split())
    return None if low <= value <= high else f"is {value} and must be a whole number from {low} to {high}"


def _not_with(value: Any, argument: str, context: CheckContext) -> str | None:
    return f"is not available with {argument}" if str(context.attributes.get("protocol", "")).upper() == argument else None


TESTS: dict[str, Test] = {
    "advised": _advised,
    "array": _array,
    "boolean": _boolean,
    "constant": _constant,
    "deprecation": _deprecation,
    "distinct": _distinct,
    "each": _each,
    "fits": _fits,
    "form": _form,
    "header_names": _header_names,
    "integer": _integer,
    "item_names": _item_names,
    "item_values": _item_values,
    "keys": _keys,
    "known_envelope": _known_envelope,
    "known_keys": _known_keys,
    "known_protocol": _known_protocol,
    "map": _map,
    "media_type": _media_type,
    "media_type_value": _media_type_value,
    "member": _member,
    "method": _method,
    "name": _name,
    "no_fixed_value": _no_fixed_value,
    "no_map": _no_map,
    "no_time": _no_time,
    "no_value": _no_value,
    "nonempty": _not_empty,
    "not": _not,
    "not_local": _not_local,
    "not_optional": _not_optional,
    "not_with": _not_with,
    "oneof": _one_of,
    "pairs": _pairs,
    "range": _range,
    "role": _role,
    "should_have_version": _should_have_version,
    "size": _size,
    "string": _string,
    "strings": _strings,
    "subset": _subset,
    "text_values": _text_values,
    "texts": _texts,
    "texts_but": _texts_but,
    "token": _token,
    "typed": _typed,
    "types": _types,
    "uri": _uri,
    "uri_value": _uri_value,
    "urireference": _uri_reference,
    "value_form": _value_form,
    "value_range": _value_range,
}
