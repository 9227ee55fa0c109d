"""Templates become pages: Jinja with autoescape on, and the few words that templates need for dates, ids and differences.

Texts of documents that are written in Markdown become HTML: CommonMark without HTML, headings and pictures. Links lead to pages
of the catalog (an XID), or to http and https, with `rel` so that the other host learns nothing; any other is shown as text. An
XID or an address of http or https in a text is a link, too.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from contextvars import ContextVar
from datetime import datetime, timezone
from difflib import SequenceMatcher
from functools import cache, lru_cache
from importlib.resources import files
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

import orjson
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from lakehouse.site.addresses import path_part_of
from lakehouse.site.markdown import escaped
from lakehouse.text.jsontext import indented, read_exactly, unquoted
from lakehouse.text.names import JsonText

if TYPE_CHECKING:
    from markdown_it import MarkdownIt


FindPage = Callable[[str], str | None]  # the address of the page of an XID; None: there is none
_COLLECTIONS = r"/(?:messagegroups|endpoints|schemagroups)/"
_LINKED = re.compile(rf"(?:(https?://)|{_COLLECTIONS})[^\s<>()\[\]\"'`,;]*[^\s<>()\[\]\"'`,;.:!?]", re.IGNORECASE)
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9 ,.();:'-]*[A-Za-z0-9.)]\Z", re.ASCII)  # a line in which Markdown means nothing
_OUTSIDE = re.compile(r"https?://[^\s]+\Z", re.IGNORECASE)
_BACKTICKS = re.compile(r"`([^`\n]+)`")
_REL = "external nofollow noopener noreferrer"
T = TypeVar("T")
MEDIA_TYPES = {
    "html": "text/html; charset=utf-8",
    "md": "text/markdown; charset=utf-8",
    "json": "application/json; charset=utf-8",
    "txt": "text/plain; charset=utf-8",
    "csv": "text/csv; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
    "atom": "application/atom+xml; charset=utf-8",
}
_OWN = ("style-src", "script-src", "img-src", "connect-src", "form-action")
POLICY = "default-src 'none'; " + "".join(f"{source} 'self'; " for source in _OWN) + "base-uri 'none'"
ASSETS = ("style.css", "site.js", "icon.svg")
LARGEST = 98_000  # bytes of a page
_MOST = 400  # characters of a value that a table shows
_LEAST = 24  # characters that are left of any text
_SCALES = (1.0, 0.5, 0.25, 0.1, 0.04)
_scale: ContextVar[float] = ContextVar("scale", default=1.0)
_MOST_LINES = 300  # that are matched: the time grows with their square
_BEFORE = 40  # characters before the first that differs
_GAP = "…"


def prose(text: str, find: FindPage) -> Markup:
    """Return a text in Markdown as HTML: paragraphs, lists, code, emphasis, links."""
    if _PLAIN.match(text):
        return Markup("<p>{}</p>\n").format(text)
    return Markup(_reader().render(text, {"find": find, "open": []}))  # noqa: S704 - HTML of the text is escaped


def prose_line(text: str, find: FindPage) -> Markup:
    """Return a text in Markdown as HTML within a line: code, emphasis, links."""
    if _PLAIN.match(text):
        return escape(text)
    # Without an XID it is the same on all pages.
    return _line(text, find) if re.search(_COLLECTIONS, text) else _line_of_all(text)


def _line(text: str, find: FindPage) -> Markup:
    return Markup(_reader().renderInline(text, {"find": find, "open": []}))  # noqa: S704 - HTML of the text is escaped


@lru_cache(20_000)
def _line_of_all(text: str) -> Markup:
    return _line(text, lambda _: None)


def outside(text: str) -> Markup:
    """Return a text as HTML: a link if it is an address of http or https."""
    if not _OUTSIDE.match(text):
        return escape(text)
    return Markup('<a href="{0}" rel="{1}">{0}</a>').format(text, _REL)


@cache
def _reader() -> MarkdownIt:
    from markdown_it import MarkdownIt  # noqa: PLC0415 - takes 40 ms

    made = MarkdownIt("commonmark", {"html": False}).disable(["heading", "lheading", "hr", "image", "html_block", "html_inline"])
    made.add_render_rule("link_open", _link_open)
    made.add_render_rule("link_close", _link_close)
    made.add_render_rule("text", _text)
    return made


def _link_open(_: Any, tokens: Any, at: int, options: Any, env: Any) -> str:
    href = str(tokens[at].attrs.get("href", ""))
    page = env["find"](href)
    is_outside = page is None and _OUTSIDE.match(href) is not None
    env["open"].append(page is not None or is_outside)
    if is_outside:
        return str(Markup('<a href="{}" rel="{}">').format(href, _REL))
    return "" if page is None else str(Markup('<a href="{}">').format(page))


def _link_close(_: Any, tokens: Any, at: int, options: Any, env: Any) -> str:
    return "</a>" if env["open"].pop() else ""


def _text(_: Any, tokens: Any, at: int, options: Any, env: Any) -> str:
    text = tokens[at].content
    result, done = Markup(""), 0
    for match in _LINKED.finditer(text) if not env["open"] else ():
        page = None if match[1] else env["find"](match[0])
        if match[1] or page is not None:
            link = outside(match[0]) if page is None else Markup('<a href="{}">{}</a>').format(page, match[0])
            result += escape(text[done : match.start()]) + link
            done = match.end()
    return str(result + escape(text[done:]))


class Attributes(dict[str, Any]):
    """Attributes of an entity, of which any may be absent: a template finds None then, while it is held to all other names."""

    def __missing__(self, name: str) -> None:
        """Return None."""


@cache
def environment() -> Environment:
    """Return the environment of the templates."""
    made = Environment(
        loader=PackageLoader("lakehouse.site", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters |= {
        "moment": moment, "day": day, "shown": shown, "folded": folded, "grouped": grouped, "plural": plural, "cut": cut,
        "apart": apart, "anchor": anchor, "outside": outside, "coded": coded,
        "some": some, "quoted": shlex.quote, "markdown": markdown,
    }  # fmt: skip
    made.globals |= {"policy": POLICY}
    return made


@cache
def asset(name: str) -> bytes:
    """Return a style sheet, script or picture of the site."""
    return (files("lakehouse.site") / "assets" / name).read_bytes()


def render(template: str, /, **details: Any) -> bytes:
    """Render a page; where it would become larger than `LARGEST`, with shorter texts and lists, and says so."""
    page = environment().get_template(template)
    body = b""
    for scale in _SCALES:
        token = _scale.set(scale)
        try:
            body = page.render(details, is_cut=scale < 1).encode("utf-8", "replace")  # half of a surrogate pair cannot be written
        finally:
            _scale.reset(token)
        if len(body) <= LARGEST:
            break
    return body


def render_part(template: str, /, **details: Any) -> Markup:
    """Render a part of a page that is being rendered."""
    return Markup(environment().get_template(template).render(details))  # noqa: S704 - of a template that escapes


def shown_share() -> float:
    """Return which share of long texts and lists the page that is being rendered shows."""
    return _scale.get()


def moment(value: Any) -> str:
    """Write a moment for a person, in UTC: a datetime, RFC 3339 text, or microseconds since 1970."""
    if value is None or value == "":
        return ""
    if isinstance(value, int):
        value = datetime.fromtimestamp(value / 1_000_000, timezone.utc)
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value.replace("Z", "+00:00"))
        except ValueError:
            return str(value)
    return str(value.strftime("%Y-%m-%d %H:%M UTC"))


def day(value: Any) -> str:
    """Write the day of a moment."""
    return moment(value)[:10]


def shown(text: str | None) -> str:
    """Write JSON text for a person: texts without quotes, all else as it is, long ones cut."""
    return "" if text is None else cut(_without_quotes(text))


def apart(before: str | None, after: str | None, most: int = _MOST) -> tuple[str, str]:
    """Write two JSON texts for a person as `shown` does; of long ones the parts by which they differ."""
    sides = parts_apart(before, after, max(_LEAST, int(most * _scale.get())))
    return cut(sides[0], most), cut(sides[1], most)


def cut(text: str, most: int = _MOST) -> str:
    """Cut a long text."""
    most = max(_LEAST, int(most * _scale.get()))
    return text if len(text) <= most else text[: most - 1] + "…"


def coded(text: str, pages: Mapping[str, str] | None = None) -> Markup:
    """Write a text with what is between backticks as code.

    Args:
        text: the text.
        pages: code to the URL that it leads to.
    """
    result = Markup("")
    for at, part in enumerate(_BACKTICKS.split(text)):
        url = (pages or {}).get(part) if at % 2 else None
        shown_part = Markup("<code>{}</code>").format(part) if at % 2 else escape(part)
        result += Markup('<a href="{}">{}</a>').format(url, shown_part) if url else shown_part
    return result


def some(many: Iterable[T], most: int) -> list[T]:
    """Return the first of many."""
    return list(islice(many, max(1, int(most * _scale.get()))))


def folded(text: str) -> Markup:
    """Write an id so that a line may break where a person would break it."""
    made = str(escape(text))
    for character in "./_-:":
        made = made.replace(character, f"{character}<wbr>")
    return Markup(made)  # noqa: S704 - the text is escaped


@lru_cache(maxsize=20_000)
def anchor(pointer: str) -> str:
    """Write a JSON Pointer as a part of the id of an element, and of the address that leads there."""
    return "/".join(path_part_of(part) if part else "" for part in pointer.split("/"))


def markdown(text: str) -> Markup:
    """Write a text within a line of Markdown."""
    return Markup(escaped(text))  # noqa: S704 - no HTML


def grouped(number: int) -> str:
    """Write a number with its thousands apart."""
    return f"{number:,}".replace(",", "\u202f")


def plural(number: int, noun: str, many: str = "") -> str:
    """Write a number with its noun."""
    return f"{grouped(number)} {noun if number == 1 else many or noun + 's'}"


def _without_quotes(text: str) -> str:
    with suppress(orjson.JSONDecodeError):  # it may be cut, or no JSON at all
        return unquoted(JsonText(text))
    return text


def parts_apart(before: str | None, after: str | None, most: int) -> tuple[str, str]:
    """Return what differs of two texts, of JSON text or as it is written.

    Args:
        before: one of them; None: there is none.
        after: the other.
        most: characters up to which they are given whole.
    """
    first, other = ("" if text is None else _without_quotes(text) for text in (before, after))
    if max(len(first), len(other)) <= most or not first or not other:
        return first, other
    sides = _lines(*_trimmed(_laid_out(first), _laid_out(other)))
    return _near(sides[0], sides[1], most)


def _laid_out(text: str) -> list[str]:
    """Return the lines of a text; JSON is laid out."""
    if text.startswith(("{", "[")):
        with suppress(orjson.JSONDecodeError, orjson.JSONEncodeError):  # no JSON, or nested too deep
            text = indented(read_exactly(text.encode(errors="surrogatepass")))
    return text.split("\n")


def _trimmed(first: list[str], other: list[str]) -> tuple[list[str], list[str]]:
    """Take off the lines that both begin and end with."""
    start = 0
    while start < min(len(first), len(other)) and first[start] == other[start]:
        start += 1
    end = 0
    while end < min(len(first), len(other)) - start and first[-1 - end] == other[-1 - end]:
        end += 1
    return first[start : len(first) - end], other[start : len(other) - end]


def _lines(first: list[str], other: list[str]) -> tuple[str, str]:
    """Return the lines by which two texts differ; a gap where lines between them are the same."""
    if max(len(first), len(other)) > _MOST_LINES:
        return "\n".join(first), "\n".join(other)
    result: tuple[list[str], list[str]] = ([], [])
    for op, i, j, k, m in SequenceMatcher(None, first, other, autojunk=False).get_opcodes():
        for side, lines in zip(result, ([_GAP], [_GAP]) if op == "equal" else (first[i:j], other[k:m]), strict=True):
            side.extend(lines)
    return "\n".join(_joined(result[0])), "\n".join(_joined(result[1]))


def _joined(lines: list[str]) -> Iterator[str]:
    """Return lines without a gap at an end or next to another."""
    last = _GAP
    for at, line in enumerate(lines):
        if line == _GAP and (last == _GAP or not any(later_line != _GAP for later_line in lines[at:])):
            continue
        last = line
        yield line


def _near(first: str, other: str, most: int) -> tuple[str, str]:
    """Begin shortly before the first character that differs, where both are long up to there."""
    if max(len(first), len(other)) <= most:
        return first, other
    same = next((at for at, (a, b) in enumerate(zip(first, other, strict=False)) if a != b), min(len(first), len(other)))
    start = max(0, same - _BEFORE)
    return (first, other) if not start else (f"{_GAP}{first[start:]}", f"{_GAP}{other[start:]}")
