"""The types of the tables: each checks a value of an attribute and brings it into normal form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from lakehouse.dialects.tables import FAMILIES, Attribute, places_of, spelled_values
from lakehouse.text.jsontext import pointer_of, same
from lakehouse.text.values import decoded_base64, is_uri_reference
from lakehouse.text.xid import as_xid

_DECLARATION = {"type", "value", "required", "description", "specurl"}


class ProblemReporter(Protocol):
    """Receives the findings of the entity that is read."""

    name: str

    def wrong(self, attribute: Attribute, value: Any, where: str, wanted: str) -> None:
        """Report an error: the value is of another type than the specification's."""

    def leave_out(self, attribute: Attribute, value: Any, where: str, wanted: str) -> None:
        """Report that a value of another type is left out, and its entity kept."""

    def warn(self, where: str, rule: str, message: str, hint: str) -> None:
        """Report a warning."""

    def respelled(self, spelled: str, normal: str) -> None:
        """Count a value that was written otherwise."""


class Renamed(NamedTuple):
    """A value that belongs to another attribute of its place."""

    name: str
    value: Any


def is_declaration(value: dict[str, Any]) -> bool:
    """Distinguish a declaration from a map of declarations, which may hold one of `type` too (requirements.md 7)."""
    plain = all(not isinstance(member, dict) for key, member in value.items() if key != "value")
    return bool(value) and value.keys() <= _DECLARATION and plain


def kind_of(value: Any) -> str:
    """Return the kind of a JSON value, with the value if it is short."""
    for kind, name in ((bool, "a boolean"), (str, "a string"), (int, "a number"), (dict, "an object"), (list, "an array")):
        if isinstance(value, kind):
            return f"{name} ({value!r})" if kind in (bool, str, int) and len(repr(value)) < 60 else name
    return "null" if value is None else f"a number ({value})"


Coercion = Callable[[ProblemReporter, Attribute, Any, str, str], Any]


def _typed(kind: type, wanted: str) -> Coercion:
    def coerce(reporter: ProblemReporter, attribute: Attribute, value: Any, where: str, path: str) -> Any:
        if isinstance(value, kind) and not (kind is int and isinstance(value, bool)):
            return value
        return reporter.wrong(attribute, value, where, wanted)

    return coerce


def _uinteger(reporter: ProblemReporter, attribute: Attribute, value: Any, where: str, path: str) -> Any:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63:
        return value
    return reporter.wrong(attribute, value, where, "an unsigned integer below 2^63")


def _protocol(reporter: ProblemReporter, attribute: Attribute, value: Any, where: str, path: str) -> Any:
    """Write a known protocol's name as the specification does; the text "None" is absent (decision 14, MSG-375)."""
    if not isinstance(value, str):
        return reporter.wrong(attribute, value, where, "a string")
    if value.strip().lower() == "none":
        return reporter.respelled('protocol "None"', "absent")
    name, slash, version = value.partition("/")
    if name.upper() in FAMILIES and name != name.upper():
        reporter.respelled(f'protocol "{name}"', f'"{name.upper()}"')
        return name.upper() + slash + version
    return value


# Words for people: of another type they are left out, since that is no reason to lose what they describe.


def _text(reporter: ProblemReporter, attribute: Attribute, value: Any, where: str, path: str) -> Any:
    if attribute.name == "name" and value == "":  # core, `name` attribute: a description may be empty
        return reporter.leave_out(attribute, value, where, "a string that is not empty")
    return value if isinstance(value, str) else reporter.leave_out(attribute, value, where, "a string")


def _url(reporter: ProblemReporter, attribute: Attribute, value: Any, where: str, path: str) -> Any:
    return value if is_uri_reference(value) else reporter.leave_out(attribute, value, where, "a URL")


def _labels(reporter: ProblemReporter, attribute: Attribute, value: Any, where: str, path: str) -> Any:
    if not isinstance(value, dict):
        return reporter.leave_out(attribute, value, where, "a map of strings")
    wrong_members = {key: member for key, member in value.items() if not isinstance(member, str)}
    for key, member in wrong_members.items():
        reporter.leave_out(attribute._replace(name=f"{attribute.name}.{key}"), member, where + pointer_of(key), "a string")
    return None if wrong_members else value


def _strings(reporter: ProblemReporter, attribute: Attribute, value: Any, where: str, path: str) -> Any:
    """Take an array of strings; one bare string becomes an array (END-057)."""
    if isinstance(value, str):
        reporter.respelled(f"{path} as a string", "an array")
        return [value]
    if isinstance(value, list) and all(isinstance(member, str) for member in value):
        return value
    return reporter.wrong(attribute, value, where, "an array of strings")


def _xid(reporter: ProblemReporter, attribute: Attribute, value: Any, where: str, path: str) -> Any:
    """Turn a reference into an XID; one that leads to another host stays as written (requirements.md 6)."""
    if not isinstance(value, str):
        return reporter.wrong(attribute, value, where, "an XID")
    xid = as_xid(value)
    if xid is not None and xid != value:
        reporter.respelled(f"{path} #/…", "an XID")
    return xid or value


def _xids(reporter: ProblemReporter, attribute: Attribute, value: Any, where: str, path: str) -> Any:
    references = _strings(reporter, attribute, value, where, path)
    if references is None:
        return None
    return [_xid(reporter, attribute, reference, where, path) for reference in references]


def _addresses(reporter: ProblemReporter, attribute: Attribute, value: Any, where: str, path: str) -> Any:
    """Take addresses as objects with `uri`; older spellings are a bare string and `url` (END-047)."""
    if not isinstance(value, list):
        return reporter.wrong(attribute, value, where, "an array of objects")
    addresses = []
    for index, item in enumerate(value):
        pointer = f"{where}/{index}"
        if isinstance(item, str):
            reporter.respelled(f"{path}/[] as a string", f"{path}/[]/uri")
            addresses.append({"uri": item})
        elif not isinstance(item, dict):
            reporter.wrong(attribute, item, pointer, "an object with `uri`")
        elif "url" in item:
            reporter.respelled(f"{path}/[]/url", f"{path}/[]/uri")
            if item.get("uri", item["url"]) != item["url"]:
                reporter.warn(pointer, "END-047", "`uri` and `url` differ; `uri` is taken", "Keep `uri`.")
            addresses.append(
                {"uri": item.get("uri", item["url"])} | {key: item[key] for key in item if key not in ("url", "uri")}
            )
        else:
            addresses.append(item)
    return addresses


def _declaration(reporter: ProblemReporter, attribute: Attribute, value: Any, where: str, path: str) -> Any:
    """Take a declaration; a bare value becomes one (decision 11, requirements.md 15)."""
    declared = value if isinstance(value, dict) else {"value": value}
    if is_normal_declaration(declared):
        return declared
    return _with_normal_values(
        reporter, {key: member for key, member in declared.items() if member is not None or key == "value"}
    )


def is_normal_declaration(declaration: dict[str, Any]) -> bool:
    """Return whether a declaration is without nulls and without older names of values."""
    return None not in declaration.values() and not _has_old_values(declaration)


def _has_old_values(declaration: dict[str, Any]) -> bool:
    for member, text in spelled_values():  # noqa: SIM110  a generator would take twice the time, for each declaration
        if declaration.get(member) == text:
            return True
    return False


def _with_normal_values(reporter: ProblemReporter, declaration: dict[str, Any]) -> dict[str, Any]:
    """Replace older names of types, and the older marker of the current time."""
    for (member, text), normal in spelled_values().items():
        if declaration.get(member) == text:
            reporter.respelled(f'{member} "{text}"', f'"{normal}"')
            declaration[member] = normal
    return declaration


def _binary_key(reporter: ProblemReporter, attribute: Attribute, value: Any, where: str, path: str) -> Any:
    """Take a Kafka key that is base64: readable text becomes `key`, other bytes `key_base64` (requirements.md 44)."""
    declaration = _declaration(reporter, attribute, value, where, path)
    text = declaration.get("value")
    if not isinstance(text, str) or "{" in text:
        return declaration
    decoded = decoded_base64(text)
    if decoded is None:
        return declaration
    try:
        readable = decoded.decode()
    except UnicodeDecodeError:
        readable = ""
    if readable and readable.isprintable():
        reporter.respelled(f"{path} as base64", path)
        return declaration | {"value": readable}
    reporter.respelled(path, f"{path}_base64")
    return Renamed(f"{attribute.name}_base64", declaration)


def _authorization(reporter: ProblemReporter, attribute: Attribute, value: Any, where: str, path: str) -> Any:
    """Take an object; a list of one (1.0-rc4) becomes it, a longer one stays, since no object holds it."""
    if isinstance(value, list) and all(isinstance(item, dict) for item in value):
        if len(value) == 1:
            reporter.respelled(f"{path} as a list", "an object")
            return value[0]
        message = f"`{attribute.name}` is a list of {len(value)} choices, which 1.0-rc2 does not know; it is kept as it is"
        reporter.warn(where, attribute.rule, message, "Keep the one that is used.")
        return value
    return value if isinstance(value, dict) else reporter.wrong(attribute, value, where, "an object")


def _attribute(reporter: ProblemReporter, attribute: Attribute, value: Any, where: str, path: str) -> Any:
    if not isinstance(value, dict):
        return reporter.wrong(attribute, value, where, 'a declaration such as {"value": …}')
    return _declaration(reporter, attribute, value, where, path)


def _declarations(reporter: ProblemReporter, attribute: Attribute, value: Any, where: str, path: str) -> Any:
    """Take a section: a map of declarations; the names of a section with fixed members are spelled as in the table."""
    if not isinstance(value, dict):
        return reporter.wrong(attribute, value, where, "a map of declarations")
    fixed = places_of(reporter.name, "AMQP").get(path)
    names = {} if fixed is None else fixed.targets
    section: dict[str, Any] = {}
    for key, member in value.items():
        name = names[key].name if key in names else key
        if name != key:
            reporter.respelled(f"{path}/{key}", f"{path}/{name}")
        if member is not None:
            declaration = _declaration(reporter, attribute, member, where, path)
            if name not in section:
                section[name] = declaration
            elif not same(section[name], declaration):
                message = f"`{name}` is written twice with different values; the first is taken"
                reporter.warn(where + pointer_of(key), attribute.rule, message, "Keep one of them.")
    return section


def _named_values(reporter: ProblemReporter, attribute: Attribute, value: Any, where: str, path: str) -> Any:
    """Take a map name → declaration; written as a list it becomes one when no name occurs twice (requirements.md 14)."""
    if isinstance(value, list):
        names = [item.get("name") if isinstance(item, dict) else None for item in value]
        if not all(isinstance(name, str) for name in names):
            return reporter.wrong(attribute, value, where, "a map, or a list of objects with `name`")
        if len(set(names)) < len(names):
            return value
        reporter.respelled(f"{path} as a list", "a map")
        return {item["name"]: _without_name(item, item["name"]) for item in value}
    if not isinstance(value, dict):
        return reporter.wrong(attribute, value, where, "a map")
    if value.get("type") == "object" and isinstance(value.get("properties"), dict):
        reporter.warn(
            where,
            attribute.rule,
            f"`{attribute.name}` is shaped like a JSON Schema; its `properties` are taken",
            "Write a map of name to declaration.",
        )
        value = value["properties"]
    return {
        key: _without_name(_declaration(reporter, attribute, member, where, path), key)
        for key, member in value.items()
        if member is not None
    }


def _without_name(item: dict[str, Any], name: str) -> dict[str, Any]:
    if "name" not in item and None not in item.values():
        return item
    return {
        key: member
        for key, member in item.items()
        if not (key == "name" and member == name) and (member is not None or key == "value")
    }


def _headers(reporter: ProblemReporter, attribute: Attribute, value: Any, where: str, path: str) -> Any:
    """Take a list of named items; a map, or items `{name: declaration}`, become one (WIP-056, decision 13)."""
    if isinstance(value, dict):
        reporter.respelled(f"{path} as a map", "a list")
        return [{"name": name} | _declaration(reporter, attribute, member, where, path) for name, member in value.items()]
    if not isinstance(value, list):
        return reporter.wrong(attribute, value, where, "an array of objects with `name` and `value`")
    items = []
    for index, written in enumerate(value):
        item = written
        if not isinstance(item, dict):
            return reporter.wrong(attribute, item, f"{where}/{index}", "an object with `name` and `value`")
        if len(item) == 1 and isinstance(inner := next(iter(item.values())), dict):
            reporter.respelled(f"{path}/[] as {{name: declaration}}", f"{path}/[]/name")
            item = {"name": next(iter(item))} | inner
        items.append(_with_normal_values(reporter, dict(item)) if _has_old_values(item) else item)
    return items


COERCIONS: dict[str, Coercion] = {
    "string": _typed(str, "a string"),
    "id": _typed(str, "a string"),
    "timestamp": _typed(str, "a timestamp (RFC 3339) in a string"),
    "boolean": _typed(bool, "true or false"),
    "object": _typed(dict, "an object"),
    "uinteger": _uinteger,
    "protocol": _protocol,
    "text": _text,
    "url": _url,
    "labels": _labels,
    "strings": _strings,
    "xid": _xid,
    "xids": _xids,
    "addresses": _addresses,
    "declaration": _declaration,
    "attribute": _attribute,
    "declarations": _declarations,
    "namedvalues": _named_values,
    "headers": _headers,
    "binarykey": _binary_key,
    "authorization": _authorization,
}
