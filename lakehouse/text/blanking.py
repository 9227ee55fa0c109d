"""What was never parsed loses whatever may be a secret: broken JSON or YAML, values of doubled keys, messages of parsers.

Nobody can be sure where a value ends in a text that is broken, or which format it has, so in doubt more is blanked: every
value behind a key that looks secret, in JSON, block YAML and flow YAML, and what follows `Bearer`, `Basic` and the like.
"""

from __future__ import annotations

import re
from typing import Any

REDACTED = "REDACTED"
_LONG = 4096  # characters of a text that are kept: to look for ends of values takes time

_FLAGS = re.IGNORECASE | re.ASCII
_WORDS = (
    "pass[-_. ]?(?:word|wd|phrase|code)|pwd|secret|token|credential|authorization|cookie|connection[-_. ]?string|jaas|"
    "(?:api|access|account|private|encryption|signing|functions|subscription|sas)[-_. ]?key"
)
_NAMES = "key|value|auth"  # secret below an `authorization`, or next to the name of a header
_SECRET = re.compile(rf"{_WORDS}|\A(?:{_NAMES})\Z", _FLAGS)
# A key and what is between it and its value; a colon may be missing between two quoted texts.
_KEY = re.compile(
    rf"(?:(?:{_WORDS})[^\"'\n:=,{{}}\[\]]*|(?<![\w.-])(?:{_NAMES}))(?:\\*[\"'])?(?:\s*[:=]\s*|(?<=[\"'])\s+(?=[\"']))", _FLAGS
)
_SCHEME = re.compile(
    r"(?<!\w)((?:bearer|basic|digest|negotiate|apikey|sharedaccesssignature)(?:[\s:=]|\\[tnr ])+)((?:\\.|[^\"\n\\])+)", _FLAGS
)
# User and password of a URI, up to the @ or, when that is cut off, to the end; a port is no password.
_USERINFO = re.compile(r"(:/{2}[^/@\s:\"]*:)(?!\d{1,5}[/?#\"'\s,}\])])((?:\\.|[^\s\"\\])+@|(?:\\.|[^\s\"\\])+)")
_PRIVATE_KEY = re.compile(r"(-----BEGIN [A-Z ]*PRIVATE KEY-----).*?(?:-----END|\Z)", re.DOTALL)

# Spellings of ASCII that JSON and YAML have besides the plain one, and a line that YAML continues.
_ESCAPED = re.compile(r"(?<!\\)(\\+)(?:u00([0-7][0-9a-fA-F])|x([0-7][0-9a-fA-F])|U000000([0-7][0-9a-fA-F])|(/)|\r?\n[ \t]*)")

_TAGS = re.compile(r"(?:[!&][^\s,{}\[\]]*\s+)*")
_CLEAN_END = re.compile(r"[ \t]*(?:\r?\n|\Z|[}\]]|#|,\s*(?:\Z|[}\]{\[]|[\"']?[^\"':,{}\[\]\n]*[\"']?\s*(?::|\Z)))")
_TO_BRACKET = re.compile(r"[^,\]}]*[,\]}][^\n]*|[^,\]}]*\Z")
_IN_DOUBLE = re.compile(r'(?:[^"\\]|\\.|\\\Z)*', re.DOTALL)
_IN_SINGLE = re.compile(r"(?:''|[^'])*")
_BLANKS = re.compile(r"[ \t]*")
_MARKS = re.compile(r"[ \t?:-]*")
_MEMBER = re.compile(
    r"[ \t]*(?P<dash>-[ \t]+)*(?:\?[ \t]+)?"
    r"(?:\"(?:[^\"\\\n]|\\.)*\"|'[^'\n]*'|[^\s#\"'{}\[\],|>&*!%@`-][^:#\n]*?)[ \t]*:(?:\s|\Z)"
)
_DOCUMENT_END = re.compile(r"(?:---|\.\.\.)(?:\s|\Z)")


def looks_secret(key: str) -> bool:
    """Return whether a value behind this key may be a secret."""
    return _SECRET.search(key) is not None


def blank_bytes(text: bytes) -> str:
    """Blank the secrets of a document's text, whatever encoding and format it is meant to have."""
    return blank_text(text.replace(b"\0", b"").decode("utf-8", errors="replace"))  # UTF-16 of ASCII: every other byte is zero


def blank_text(text: str) -> str:
    """Blank what may be a secret in a text: a document that could not be read or was cut off, or a message that quotes it."""
    text = _PRIVATE_KEY.sub(rf"\1{REDACTED}", _ESCAPED.sub(_plain, text))
    text = _SCHEME.sub(rf"\1{REDACTED}", _blank_values(text))
    return _USERINFO.sub(lambda result: result[1] + REDACTED + ("@" if result[2].endswith("@") else ""), text)


def blank_value(value: Any) -> Any:
    """Return a copy of a JSON value without what may be a secret."""
    if isinstance(value, dict):
        return {key: REDACTED if looks_secret(key) else blank_value(member) for key, member in value.items()}
    if isinstance(value, list):
        return [blank_value(member) for member in value]
    if not isinstance(value, str):
        return value
    return blank_text(value) if len(value) <= _LONG else blank_text(value[:_LONG]) + "…"


def _plain(escape: re.Match[str]) -> str:
    """Undo the escape of an ASCII character, unless its backslash is escaped itself."""
    slashes, *codes, slash = escape.groups()
    if len(slashes) % 2 == 0:
        return escape.group()
    code = next((code for code in codes if code), None)
    character = chr(int(code, 16)) if code else slash or ""
    character = character if not character or character.isprintable() else " "
    return slashes[1:] + (f"\\{character}" if character and character in '\\"' else character)


def _blank_values(text: str) -> str:
    made: list[str] = []
    done = 0
    while (key := _KEY.search(text, done)) is not None:
        begin, end = _value(text, key.start(), key.end())
        made += [text[done:begin], REDACTED if end > begin else ""]
        done = max(end, key.end())
    return "".join(made) + text[done:]


def _value(text: str, key: int, at: int) -> tuple[int, int]:
    """Return start and end of the value whose key begins at `key`; `at`: where the value begins, in quotes or not."""
    start = _end_of(_TAGS, text, at)
    first = text[start : start + 1]
    quoted = start + 1 if start == at else at  # the quote stays, unless a tag is before
    if not first:
        return at, start
    if first in "\"'":
        end = _end_of_quoted(text, start)
        if end < len(text) and not _CLEAN_END.match(text, end + 1):
            return quoted, _end_of_lines(text, key, end)  # a quote inside the value, or one is missing
        return quoted, end if start == at else min(end + 1, len(text))
    if first == "\\":  # JSON inside a text
        return at, _end_of_quoted(text, start, '"')
    if first in "{[":
        return at, max(_end_of_nested(text, start, '"'), _end_of_nested(text, start, "\"'"))
    is_empty = start == at and "\n" in text[key:at] and _ends_before(text, text.rfind("\n", 0, start) + 1, _indent(text, key))
    end = at if is_empty else _end_of_lines(text, key, start)
    if re.search(r"[{\[]", text[:key]):  # in flow YAML no indent counts, and the value goes up to a comma or bracket at least
        end = max(end, _end_of(_TO_BRACKET, text, start))
    return at, max(end, _end_of_line(text, at)) if start > at else end


def _end_of_quoted(text: str, start: int, quote: str = "") -> int:
    """Return the position of the closing quote of the text that opens at `start`, else the end of the text."""
    quote = quote or text[start]
    return _end_of(_IN_SINGLE if quote == "'" else _IN_DOUBLE, text, start + (text[start] == quote))


def _end_of_nested(text: str, start: int, quotes: str) -> int:
    """Return the end of the object or array that opens at `start`, without counting brackets inside these quotes."""
    depth, at = 0, start
    while at < len(text):
        if text[at] in quotes:
            at = _end_of_quoted(text, at)
        depth += (text[at : at + 1] in ("{", "[")) - (text[at : at + 1] in ("}", "]"))
        at += 1
        if depth == 0:
            return at
    return len(text)


def _end_of_line(text: str, start: int) -> int:
    end = text.find("\n", start)
    return len(text) if end < 0 else end


def _end_of_lines(text: str, key: int, start: int) -> int:
    """Return the end of a plain or block scalar, or of what is nested below a key in block YAML.

    It ends before a line that holds a member of the same object or of one around it; a line that does not look so belongs to
    the value, since its indent may be what is wrong.
    """
    indent = _indent(text, key)
    end = _end_of_line(text, start)
    while end < len(text) and not _ends_before(text, end + 1, indent):
        end = _end_of_line(text, end + 1)
    return end


def _indent(text: str, key: int) -> int:
    """Return the column at which the first key of a line begins, after the marks of lists."""
    line = text.rfind("\n", 0, key) + 1
    return _end_of(_MARKS, text, line) - line


def _ends_before(text: str, line: int, indent: int) -> bool:
    """Return whether the line at `line` is a member of an object at this indent or less, or ends the document."""
    if _DOCUMENT_END.match(text, line):
        return True
    member = _MEMBER.match(text, line)
    column = _end_of(_BLANKS, text, line) - line
    return member is not None and (column < indent or (column == indent and not member["dash"]))


def _end_of(pattern: re.Pattern[str], text: str, start: int) -> int:
    """Return the end of the match of a pattern that also matches the empty text, so that there always is one."""
    match = pattern.match(text, start)
    return match.end() if match else start
