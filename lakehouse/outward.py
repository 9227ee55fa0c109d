"""The way out: a document in normal form becomes one of any dialect that can be written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lakehouse.catalogexport import write_draft, write_drafts
from lakehouse.detection import DRAFT
from lakehouse.respell import Loss, respell

WRITABLE = ("1.0-rc1", "1.0-rc2", "1.0-rc4", "0.5-wip", DRAFT)
_DRAFT_WRITERS: dict[str, Callable[[dict[str, Any]], tuple[Any, list[Loss]]]] = {
    "registry": write_drafts,
    "messagegroup": write_draft,
}


def _write_draft(value: dict[str, Any], entity: str) -> tuple[Any, list[Loss]]:
    if entity not in _DRAFT_WRITERS:
        return None, [Loss("", "CAT-011", f"a catalog of the draft holds message groups, and no {entity}")]
    return _DRAFT_WRITERS[entity](value)


# Dialects that do not name things as xRegistry does have a writer of their own.
_WRITERS: dict[str, Callable[[dict[str, Any], str], tuple[Any, list[Loss]]]] = {DRAFT: _write_draft}


def to_dialect(value: dict[str, Any], dialect: str, entity: str = "registry") -> tuple[Any, list[Loss]]:
    """Write a document, or one entity of it, in a dialect.

    Args:
        value: in normal form, with all that it holds; it is not changed.
        dialect: one of WRITABLE.
        entity: registry (the document), messagegroup, endpoint or schemagroup.

    Returns:
        What is written (of the catalog draft: a group, or the array of a registry's groups; None when it has nothing of the
        kind), and what the dialect cannot say, with pointers into `value`.
    """
    if dialect not in WRITABLE:
        raise ValueError(f"{dialect!r} is none of {', '.join(WRITABLE)}")
    write = _WRITERS.get(dialect)
    return respell(value, dialect, entity) if write is None else write(value, entity)
