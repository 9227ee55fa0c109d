"""The index of names: every attribute that messages declare and every field of their payloads, with how many have it."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from lakehouse.readmodel.wordsearch import names_of_messages
from lakehouse.site.addresses import NAMES
from lakehouse.site.pagecontext import Page, PageContext
from lakehouse.site.pages.search import Wanted, past_entities

_KINDS = {"attr": "attribute", "field": "payload field"}


class NameRow(NamedTuple):
    """A name.

    Attributes:
        kind: attribute or payload field.
        name: as messages or schemas declare it.
        messages: how many have it.
        query: of the search that finds them.
    """

    kind: str
    name: str
    messages: int
    query: str


def names_page(page_context: PageContext, number: int) -> Page | None:
    """Make a page of the index, what most messages have first."""
    part = page_context.part(_rows(page_context), NAMES, number)
    return None if part is None else page_context.page("names.html", part.at(number), part=part)


def count_names(page_context: PageContext) -> int:
    """Count the names of the index."""
    return len(_rows(page_context))


def _rows(page_context: PageContext) -> list[NameRow]:
    return page_context.remember(("names",), lambda: _counted(page_context))


def _counted(page_context: PageContext) -> list[NameRow]:
    past = past_entities(page_context)
    present = [(names, fields) for key, names, fields in names_of_messages(page_context.view) if key not in past]
    present += [
        (past_entity.words.names, past_entity.words.fields)
        for key, past_entity in past.items()
        if past_entity is not None and key[1] == "message"
    ]
    counts: Counter[tuple[str, str]] = Counter()
    for names, fields in present:
        counts.update(("attr", name) for name in (names or "").split())
        counts.update(("field", path) for path in (fields or "").partition("\n")[0].split())
    most = sorted(counts.items(), key=lambda counted_name: (-counted_name[1], counted_name[0]))
    return [NameRow(_KINDS[kind], name, count, Wanted(f"{kind}:{name}", kind="message").query()) for (kind, name), count in most]
