"""Causes of differences: what changed in a base is one difference, with the messages that it reaches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from lakehouse.domain.diff import Difference
from lakehouse.readmodel.queries import default_leaves, messages_changed_by
from lakehouse.site.pagecontext import PageContext
from lakehouse.site.pages.past import bases_of
from lakehouse.text.names import Xid
from lakehouse.text.xid import xid_of_resource

_Change = tuple[str, str, str, str | None, str | None]  # registryid, change, pointer, before, after


class Cause(NamedTuple):
    """A difference with the messages that have it by inheritance, or that name the schema that changed: their XIDs."""

    difference: Difference
    reached: list[Xid]


def causes_of(book: PageContext, differences: Iterable[Difference]) -> list[Cause]:
    """Return differences without those that messages inherit from another one that has them, which is their cause.

    Rows of an entity and its Versions are together, in the order of the gravest of each, as `differences` has them.
    """
    every = list(differences)
    alike: dict[_Change, dict[Xid, Difference]] = {}
    for one in every:
        if one.kind == "message" and one.pointer:
            alike.setdefault(_change(one), {})[one.xid] = one
    reached: dict[Difference, list[Xid]] = {}
    inherited: set[Difference] = set()
    for by_message in alike.values():
        for one, cause in _inherited(book, by_message) if len(by_message) > 1 else ():
            inherited.add(one)
            reached.setdefault(cause, []).append(one.xid)
    entities: dict[tuple[str, Xid], list[Cause]] = {}
    for one in every:
        if one not in inherited:
            messages = reached.get(one) or _naming(book, one)
            entities.setdefault((one.registryid, xid_of_resource(one.xid)), []).append(Cause(one, messages))
    return [cause for causes in entities.values() for cause in causes]


def _change(one: Difference) -> _Change:
    return one.registryid, one.change, one.pointer, one.before, one.after


def _inherited(book: PageContext, by_message: dict[Xid, Difference]) -> Iterator[tuple[Difference, Difference]]:
    """Yield differences that are inherited, each with that of the base where the chain begins."""
    bases: dict[Xid, list[Xid]] = {}
    for xid, one in by_message.items():
        entity = book.entity(one.registryid, xid)
        declared, _ = default_leaves(book.view, one.registryid, xid)
        is_own = entity is None or one.pointer in (declared or {})
        bases[xid] = [] if is_own or entity is None else [base for base in bases_of(book, entity) if base in by_message]
    for xid, one in by_message.items():
        first = next((base for base in bases[xid] if not bases[base]), None)
        if first is not None:
            yield one, by_message[first]


def _naming(book: PageContext, one: Difference) -> list[Xid]:
    if one.kind == "message" or not one.is_about_schema:
        return []
    return sorted(messages_changed_by(book.view, one.registryid, one.xid))
