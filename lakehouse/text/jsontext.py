"""JSON text, read strictly and written canonically; of a key that occurs twice all values are kept where that is needed.

Reading refuses what two readers could understand differently: one key with two values, NaN, numbers that no double holds,
text that is not UTF-8. Numbers keep their spelling until they are written: `as_written` gives it back, `canonical` writes
integers exactly and other numbers as the shortest double (RFC 8785 in spirit, keys sorted).
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from decimal import Decimal
from json.encoder import encode_basestring  # escapes what RFC 8785 escapes and nothing else, as orjson does
from typing import Any, cast

import jiter
import orjson

from lakehouse.text.blanking import REDACTED, blank_value, looks_secret
from lakehouse.text.names import ROOT, JsonText, Pointer
from lakehouse.text.problems import BYTE_ORDER_MARK, DUPLICATE_KEY, Problem

BOM = b"\xef\xbb\xbf"
# Plain functions, of which mypy knows what they make: each leaf goes through them, and the call of a NewType would cost.
_quoted = cast("Callable[[str], JsonText]", encode_basestring)
decoded = cast("Callable[[bytes], JsonText]", bytes.decode)
_joined = cast("Callable[[Iterable[str]], Pointer]", "".join)
_TRUE, _FALSE = JsonText("true"), JsonText("false")
_TWO_DIGITS = re.compile("[0-9]{2}")
_LONG_NUMBER = re.compile("[0-9]{19}")
# Each digit as 0, the minus as it is, all else as a blank: what has more than 64 bits is one of these runs.
_DIGITS = bytes(0x30 if byte in b"0123456789" else byte if byte in b"-" else 0x20 for byte in range(256))
_NINETEEN_DIGITS, _BIG_INTEGER, _BIG_NEGATIVE = b"0" * 19, b"0" * 20, b"-" + b"0" * 19
_AT = re.compile(r" at line ([0-9]+) column 0\Z")
FIX_HINT = "Fix the text at that place and load it again: nothing of it was loaded. An editor that knows JSON marks the place."
_NAME_IT = "If it is YAML, let its name end in .yaml or .yml; else write JSON."
_SAVE = "Save it as UTF-8, and load it again: nothing of it was loaded."
_FLATTEN = "Nest less, or raise the limit max_json_depth, and load it again: nothing of it was loaded."
_TOO_DEEP = "deeper than {} levels of objects and arrays (setting max_json_depth)"


class NotJson(Exception):
    """The text is not a JSON document that can be trusted; its message shows why and where.

    Attributes:
        hint: how to fix it.
    """

    def __init__(self, message: str, hint: str = FIX_HINT) -> None:
        super().__init__(message)
        self.hint = hint


def read_json(text: bytes, max_depth: int) -> tuple[Any, list[Problem]]:
    """Read a JSON document.

    Args:
        text: the document, UTF-8.
        max_depth: levels of nesting allowed.

    Returns:
        The value, with numbers that are not integers as `jiter.LosslessFloat`; and what was found: a byte order mark, keys
        that are duplicate (with one value: a warning, the key counts once; with different values: an error at its pointer, which
        names them without what may be a secret).

    Raises:
        NotJson: the text is not JSON, not UTF-8, too deep, or holds NaN, Infinity or a number outside the doubles.
    """
    problems: list[Problem] = []
    if text.startswith(BOM):
        text = text[len(BOM) :]
        problems.append(
            Problem(
                ROOT, BYTE_ORDER_MARK, "warning", "the document starts with a byte order mark", "Save it as UTF-8 without one."
            )
        )
    try:
        value = jiter.from_json(text, allow_inf_nan=False, catch_duplicate_keys=True, float_mode="lossless-float")
    except ValueError as error:
        if "duplicate key" not in str(error).lower():
            raise _refused(text, error, max_depth) from error
        value = _read_with_duplicates(text, max_depth)
        problems.extend(_duplicates(value, ROOT))
    if text.count(b"{") + text.count(b"[") > max_depth and _depth(text) > max_depth:
        raise too_deep(max_depth)
    return value, problems


def canonical_body(attributes: dict[str, Any]) -> bytes:
    """Write the attributes of an entity as `canonical` does.

    Raises:
        OverflowError: a number lies outside the doubles, also an integer.
    """
    try:
        return orjson.dumps(attributes, default=_double, option=orjson.OPT_SORT_KEYS)
    except TypeError:  # there is such a number, or an integer of more than 64 bits
        _refuse_beyond_doubles(attributes)
        return canonical(attributes)


def canonical(value: Any) -> bytes:
    """Write a value canonically: keys sorted, no blanks, integers exact, other numbers as the shortest double.

    Raises:
        OverflowError: a number that is no integer lies outside the doubles.
    """
    try:
        return orjson.dumps(value, default=_double, option=orjson.OPT_SORT_KEYS)
    except TypeError as error:
        if isinstance(error.__cause__, OverflowError):
            raise error.__cause__ from error
    try:
        return orjson.dumps(_with_big_integers(value), default=_double, option=orjson.OPT_SORT_KEYS)
    except TypeError as error:
        raise (error.__cause__ if isinstance(error.__cause__, OverflowError) else error) from error


def hash_of(body: JsonText) -> str:
    """Return the SHA-256 of a body in hexadecimal digits: its `content_hash`."""
    return hashlib.sha256(body.encode()).hexdigest()


def canonical_text(value: Any) -> JsonText:
    """Write a value like `canonical`, as text; what most leaves are is written without more ado.

    Raises:
        OverflowError: a number lies outside the doubles.
    """
    kind = type(value)
    if kind is str:
        return _quoted(value)
    if kind is bool:
        return _TRUE if value else _FALSE
    return decoded(canonical(value))


def as_written(value: Any) -> JsonText:
    """Write a value with its keys in their order and its numbers in their spelling, without blanks."""
    try:
        return decoded(orjson.dumps(value, default=_spelling))
    except TypeError:
        return decoded(orjson.dumps(_with_big_integers(value), default=_spelling))


def indented(value: Any) -> JsonText:
    """Write a value for people, two blanks a level; integers may be of any size.

    Raises:
        orjson.JSONEncodeError: it is nested too deep.
    """
    try:
        return decoded(orjson.dumps(value, option=orjson.OPT_INDENT_2))
    except orjson.JSONEncodeError as error:
        try:
            smaller = _with_big_integers(value)
        except RecursionError:
            raise error from None
        return decoded(orjson.dumps(smaller, option=orjson.OPT_INDENT_2, default=_spelling))


def as_read(value: Any) -> bytes:
    """Write a value that was read like `as_written`, with every value of keys that occur twice: read again, as much is found."""
    try:
        return orjson.dumps(value, default=_with_twins, option=orjson.OPT_PASSTHROUGH_SUBCLASS)
    except TypeError:
        return orjson.dumps(_with_big_integers(value), default=_with_twins, option=orjson.OPT_PASSTHROUGH_SUBCLASS)


def read_canonical(text: JsonText) -> Any:
    """Read what `canonical` wrote into values of Python; written canonically again it is the same text.

    Integers keep all digits. Other numbers are floats, which lose nothing: canonical text holds shortest doubles.
    """
    if text.startswith('"') and "\\" not in text:
        return text[1:-1]
    # A run of 19 digits has two at every 9th place: most texts are passed over quickly.
    if _TWO_DIGITS.search(text[::9]) and _LONG_NUMBER.search(text):  # orjson makes a double of an integer of more than 64 bits
        with suppress(ValueError):  # deeper than jiter reads
            return jiter.from_json(text.encode())
    return orjson.loads(text)


def read_exactly(text: bytes) -> Any:
    """Read JSON into values of Python; integers of any size keep their digits, where orjson makes doubles of long ones.

    Raises:
        orjson.JSONDecodeError: it is no JSON, or holds a number that is no integer and lies outside the doubles.
    """
    kinds = text.translate(_DIGITS)
    # `find` takes half of the time of `in`, which is felt where payloads are matched.
    if kinds.find(_NINETEEN_DIGITS) < 0 or (_BIG_INTEGER not in kinds and _BIG_NEGATIVE not in kinds):
        return orjson.loads(text)
    try:
        value = jiter.from_json(text, allow_inf_nan=False)
    except ValueError:  # no JSON, or deeper than jiter reads
        return orjson.loads(text)
    return orjson.loads(text) if _holds_infinity(value) else value  # jiter makes one of 1e999, which orjson refuses


def read_written(text: JsonText) -> Any:
    """Read what `as_written` wrote; written so again it is the same text."""
    return jiter.from_json(text.encode(), float_mode="lossless-float")


def unquoted(text: JsonText) -> str:
    """Return JSON text without the quotes of a text; all else as it is.

    Raises:
        orjson.JSONDecodeError: it begins with a quote, and is no JSON text.
    """
    return str(orjson.loads(text)) if text.startswith('"') else text


def as_column_text(value: Any) -> str | None:
    """Return a JSON value as Spark's JSON functions read it into a STRING: a text without quotes, doubles as Java's."""
    return value if value is None or isinstance(value, str) else decoded(in_order(_with_java_doubles(value)))


def in_order(value: Any) -> bytes:
    """Write a value like `canonical`, with its keys in their order."""
    try:
        return orjson.dumps(value, default=_double)
    except TypeError:
        return orjson.dumps(_with_big_integers(value), default=_double)


def same(value: Any, other: Any) -> bool:
    """Return whether two values are equal, however their numbers are spelled (`jiter.LosslessFloat` compares by identity)."""
    return _comparable(value) == _comparable(other)


def object_at(value: Any, name: str) -> dict[str, Any]:
    """Return a member that is an object; an empty one: there is none."""
    member = value.get(name) if isinstance(value, dict) else None
    return member if isinstance(member, dict) else {}


def objects_at(value: Any, name: str) -> dict[str, dict[str, Any]]:
    """Return the members of a member that are objects, by their names."""
    return {key: member for key, member in object_at(value, name).items() if isinstance(member, dict)}


def array_at(value: Any, name: str) -> list[Any]:
    """Return a member that is an array; an empty one: there is none."""
    member = value.get(name) if isinstance(value, dict) else None
    return member if isinstance(member, list) else []


def texts_in(value: Any, name: str) -> list[str]:
    """Return the strings of a member that is an array."""
    return [member for member in array_at(value, name) if isinstance(member, str)]


def text_at(value: Any, name: str) -> str | None:
    """Return a member that is a string; None: there is none."""
    member = value.get(name) if isinstance(value, dict) else None
    return member if isinstance(member, str) else None


def pointer_of(*tokens: str) -> Pointer:
    """Join tokens to a JSON Pointer (RFC 6901)."""
    return _joined([f"/{escaped(token)}" for token in tokens])


def below(pointer: Pointer, *tokens: str) -> Pointer:
    """Return the JSON Pointer of a member below another one."""
    return _joined([pointer, *[f"/{escaped(token)}" for token in tokens]])


def escaped(token: str) -> str:
    """Write a token as it is in a JSON Pointer."""
    return token.replace("~", "~0").replace("/", "~1") if "/" in token or "~" in token else token


def too_deep(max_depth: int) -> NotJson:
    """Return the error for a text that nests deeper than the limit."""
    return NotJson(_TOO_DEEP.format(max_depth), _FLATTEN)


def not_utf8(text: bytes, error: UnicodeDecodeError) -> NotJson:
    """Return the error for a text that is not UTF-8, with the position."""
    return NotJson(f"not UTF-8: the byte 0x{text[error.start]:02x}{_place(text, error.start)}", _SAVE)


def _refused(text: bytes, error: Exception, max_depth: int) -> NotJson:
    """Return the error for a text that is not JSON, with the reason and the position."""
    details = str(error)
    if "recursion limit" in details.lower():
        return too_deep(max_depth)
    try:
        text.decode()
    except UnicodeDecodeError as encoded:
        return not_utf8(text, encoded)
    is_json = text.lstrip()[:1] in (b"{", b"[")
    ends_line = _AT.search(details)  # the place is that of a line feed: behind the end of the line before
    if ends_line:
        details = details[: ends_line.start()] + _place(text, _end_of_line(text, int(ends_line[1]) - 1))
    return NotJson(f"not JSON: {details}", FIX_HINT if is_json else _NAME_IT)


def _place(text: bytes, offset: int) -> str:
    """Return line and column of a byte."""
    line, start = text.count(b"\n", 0, offset) + 1, text.rfind(b"\n", 0, offset) + 1
    return f" at line {line} column {offset - start + 1}"


def _end_of_line(text: bytes, number: int) -> int:
    end = -1
    for _ in range(number):
        end = text.index(b"\n", end + 1)
    return end


def _double(number: Any) -> float:
    if not isinstance(number, jiter.LosslessFloat):
        raise TypeError(f"not a JSON value: {type(number).__name__}")
    double = float(number)
    if math.isinf(double):
        raise OverflowError(f"the number {number} lies outside the range of a double")
    return double


def _spelling(number: Any) -> orjson.Fragment:
    if not isinstance(number, jiter.LosslessFloat):
        raise TypeError(f"not a JSON value: {type(number).__name__}")
    return orjson.Fragment(bytes(number))


def _with_java_doubles(value: Any) -> Any:
    if isinstance(value, float):
        return orjson.Fragment(_java_double(value))
    if isinstance(value, dict):
        return {name: _with_java_doubles(member) for name, member in value.items()}
    return [_with_java_doubles(member) for member in value] if isinstance(value, list) else value


def _java_double(number: float) -> str:
    """Write a double as Java does: `1.0E16`, `0.1`, `1.0E-5`."""
    sign, digits, exponent = Decimal(repr(number)).normalize().as_tuple()
    first = len(digits) + int(exponent) - 1  # power of ten of the first digit
    minus = "-" if sign else ""
    if number == 0:
        return f"{minus}0.0"
    text = "".join(map(str, digits))
    if not -3 <= first < 7:
        return f"{minus}{text[0]}.{text[1:] or '0'}E{first}"
    if first < 0:
        return f"{minus}0.{'0' * (-first - 1)}{text}"
    return f"{minus}{text[: first + 1].ljust(first + 1, '0')}.{text[first + 1 :] or '0'}"


def _with_twins(value: Any) -> orjson.Fragment:
    if isinstance(value, Duplicated):
        details = (as_read(key) + b":" + as_read(member) for key, member in members(value))
        return orjson.Fragment(b"{" + b",".join(details) + b"}")
    return _spelling(value)


def _with_big_integers(value: Any) -> Any:
    """Replace integers of more than 64 bits by their text: orjson writes none."""
    if isinstance(value, dict):
        return object_of((key, _with_big_integers(member)) for key, member in members(value))
    if isinstance(value, list):
        return [_with_big_integers(member) for member in value]
    is_big = isinstance(value, int) and not -(2**63) <= value < 2**64
    return orjson.Fragment(str(value)) if is_big else value


def _refuse_beyond_doubles(value: Any) -> None:
    """Raise `OverflowError` for an integer beyond the doubles, which most readers of JSON refuse."""
    for scalar in _scalars(value):
        if isinstance(scalar, int):
            try:
                float(scalar)
            except OverflowError:
                raise OverflowError("an integer of more than 308 digits lies outside the range of a double") from None


def _holds_infinity(value: Any) -> bool:
    return any(isinstance(scalar, float) and math.isinf(scalar) for scalar in _scalars(value))


def _scalars(value: Any) -> Iterator[Any]:
    left = [value]
    while left:
        part = left.pop()
        if isinstance(part, dict):
            left += part.values()
        elif isinstance(part, list):
            left += part
        else:
            yield part


def _comparable(value: Any) -> bytes:
    try:
        return canonical(value)
    except OverflowError:
        return as_written(value).encode()


def _depth(text: bytes) -> int:
    """Count the levels of nesting of a valid JSON text: brackets outside strings, vectorised."""
    import numpy as np  # noqa: PLC0415  a tenth of the time in which a command starts, and few of them read documents

    if b"\\" in text:
        text = text.replace(rb"\\", b"__").replace(rb"\"", b"__")
    # Strings without brackets are two quotes side by side then; without these all others open and close what they did.
    marks = np.frombuffer(text.translate(None, _NO_MARKS).replace(b'""', b""), dtype=np.uint8)
    kinds = np.frombuffer(_KIND_OF_BYTE, dtype=np.int8)[marks]
    quotes = kinds == _QUOTE
    outside = np.cumsum(quotes) % 2 == 0
    steps = kinds[outside & ~quotes]
    return int(np.cumsum(steps, dtype=np.int64).max(initial=0))


_NO_MARKS = bytes(set(range(256)) - set(b'{}[]"'))
_QUOTE = 2
_MARKS = dict.fromkeys(b"{[", 1) | dict.fromkeys(b"}]", 255) | {ord('"'): _QUOTE}
_KIND_OF_BYTE = bytes(_MARKS.get(byte, 0) for byte in range(256))  # signed: 255 is -1


def _read_with_duplicates(text: bytes, max_depth: int) -> Any:
    def refuse(constant: str) -> Any:
        raise ValueError(f"{constant} is not a JSON number")

    try:
        value = json.loads(
            text.decode(),
            object_pairs_hook=object_of,
            parse_constant=refuse,
            parse_float=lambda t: jiter.LosslessFloat(t.encode()),
        )
        as_written(value)  # a lone surrogate cannot be written
    except RecursionError as error:
        raise too_deep(max_depth) from error
    except (ValueError, TypeError) as error:
        raise _refused(text, _error_with_place(text, error), max_depth) from error
    return value


def _error_with_place(text: bytes, error: Exception) -> Exception:
    """Return jiter's error for a text with duplicate keys: `json` does not give a position with each of its errors."""
    try:
        jiter.from_json(text, allow_inf_nan=False, float_mode="lossless-float")
    except ValueError as placed:
        return placed
    return error


def _duplicates(value: Any, pointer: Pointer) -> Iterator[Problem]:
    if isinstance(value, Duplicated):
        for key, values in value.twice.items():
            differs = len({_comparable(value) for value in values}) > 1
            message = "different values" if differs else "the same value"
            yield Problem(
                below(pointer, key),
                DUPLICATE_KEY,
                "error" if differs else "warning",
                f"the key {key!r} occurs {len(values)} times in one object, with {message}",
                "Keep one of them.",
                as_written(_blanked(below(pointer, key), values)),
            )
    if isinstance(value, dict):
        for key, member in value.items():
            yield from _duplicates(member, below(pointer, key))
    elif isinstance(value, list):
        for index, member in enumerate(value):
            yield from _duplicates(member, below(pointer, str(index)))


def _blanked(pointer: Pointer, values: list[Any]) -> list[Any]:
    """Blank what may be a secret in the values of a key that is there twice: all but one never reach what is redacted."""
    return [REDACTED] * len(values) if any(map(looks_secret, pointer.split("/"))) else blank_value(values)


class Duplicated(dict[str, Any]):
    """An object in which keys occur twice; as a dict it holds the first value of each.

    Attributes:
        twice: all values of each such key.
    """

    twice: dict[str, list[Any]]


def members(value: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield keys and values of an object, with each value of a duplicate key."""
    if not isinstance(value, Duplicated):
        yield from value.items()
        return
    for key, first in value.items():
        for member in value.twice.get(key, [first]):
            yield key, member


def object_of(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Make an object of keys and values; one in which no key occurs twice is a plain dict."""
    first = Duplicated()
    first.twice = {}
    for key, value in pairs:
        if key in first:
            first.twice.setdefault(key, [first[key]]).append(value)
        else:
            first[key] = value
    return first if first.twice else dict(first)


def without(value: dict[str, Any], names: Collection[str]) -> dict[str, Any]:
    """Return an object without some of its members."""
    return object_of((key, member) for key, member in members(value) if key not in names)


def with_member(value: dict[str, Any], name: str, member: Any) -> dict[str, Any]:
    """Return an object with another value of one member, which becomes the last."""
    return object_of([*members(without(value, (name,))), (name, member)])


def values_of(value: dict[str, Any], name: str) -> list[Any]:
    """Return all values of a key in an object; an empty list if it has none."""
    return [member for key, member in members(value) if key == name]
