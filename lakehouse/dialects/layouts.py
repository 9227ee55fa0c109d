"""The way out: a document in normal form becomes one of any dialect that can be written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from lakehouse.dialects.detection import DRAFT
from lakehouse.dialects.draft.write import write_draft, write_drafts
from lakehouse.dialects.respell import Loss, respell
from lakehouse.dialects.tables import WHOLE_DIALECTS, WRITABLE
from lakehouse.text.names import WHOLE


class Layout(NamedTuple):
    """How documents of a dialect are laid out.

    Attributes:
        collections: those of the root that it knows.
        is_array: the document is an array of groups, and not a registry with maps of them.
        has_urls: its entities hold URLs of entities.
        rule: what a collection that it does not know is lost by.
    """

    collections: tuple[str, ...] = ("endpoints", "messagegroups", "schemagroups")
    is_array: bool = False
    has_urls: bool = True
    rule: str = ""


# Dialects that do not lay things out as xRegistry does.
_LAYOUTS = {
    DRAFT: Layout(("messagegroups",), is_array=True, has_urls=False, rule="CAT-011"),
    **dict.fromkeys(WHOLE_DIALECTS, Layout(has_urls=False)),
}


def layout_of(dialect: str) -> Layout:
    """Tell how documents of a dialect are laid out."""
    return _LAYOUTS.get(dialect, Layout())


_DRAFT_WRITERS: dict[str, Callable[[dict[str, Any]], tuple[Any, list[Loss]]]] = {
    "registry": write_drafts,
    "messagegroup": write_draft,
}


def _write_draft(value: dict[str, Any], entity: str) -> tuple[Any, list[Loss]]:
    if entity not in _DRAFT_WRITERS:
        return None, [unsaid(DRAFT, entity)]
    return _DRAFT_WRITERS[entity](value)


def unsaid(dialect: str, what: str) -> Loss:
    """Give the loss of an entity that stands in a collection that the dialect does not know."""
    return Loss(WHOLE, layout_of(dialect).rule, f"{dialect} has no {what}")


# Dialects that do not name things as xRegistry does have a writer of their own.
_WRITERS: dict[str, Callable[[dict[str, Any], str], tuple[Any, list[Loss]]]] = {DRAFT: _write_draft}


def to_dialect(
    value: dict[str, Any], dialect: str, entity: str = "registry", family: str | None = None
) -> tuple[Any, list[Loss]]:
    """Write a document, or one entity of it, in a dialect.

    Args:
        value: in normal form, with all that it holds; it is not changed.
        dialect: one of WRITABLE.
        entity: registry (the document), messagegroup, endpoint, schemagroup, message or schema.
        family: protocol family of what holds the entity, when it cannot be combined.

    Returns:
        What is written (of the catalog draft: a group, or the array of a registry's groups; None when it has nothing of the
        kind), and what the dialect cannot say, with pointers into `value`.
    """
    if dialect not in WRITABLE:
        raise ValueError(f"{dialect!r} is none of {', '.join(WRITABLE)}")
    write = _WRITERS.get(dialect)
    return respell(value, dialect, entity, family) if write is None else write(value, entity)
