"""Texts of documents that are written in Markdown, as HTML: CommonMark without HTML, headings and pictures.

Links lead to pages of the catalog (an XID), or to http and https, with `rel` so that the other host learns nothing; any other is
shown as text. An XID in a text is a link, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

FindPage = Callable[[str], str | None]  # the address of the page of an XID; None: there is none
_XID = re.compile(r"/(?:messagegroups|endpoints|schemagroups)/[^\s<>()\[\]\"'`,;]*[^\s<>()\[\]\"'`,;.:!?]")
_OUTSIDE = re.compile(r"https?://[^\s]+\Z", re.IGNORECASE)
_REL = "external nofollow noopener noreferrer"


def prose(text: str, find: FindPage) -> Markup:
    """Return a text in Markdown as HTML: paragraphs, lists, code, emphasis, links."""
    return Markup(_reader().render(text, {"find": find, "open": []}))  # noqa: S704 - HTML of the text is escaped


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
    for match in _XID.finditer(text) if not env["open"] else ():
        page = env["find"](match[0])
        if page is not None:
            result += escape(text[done : match.start()]) + Markup('<a href="{}">{}</a>').format(page, match[0])
            done = match.end()
    return str(result + escape(text[done:]))
