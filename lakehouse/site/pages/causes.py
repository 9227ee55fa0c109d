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


def causes_of(page_context: PageContext, differences: Iterable[Difference]) -> list[Cause]:
    """Return differences without those that messages inherit from another one that has them, which is their cause.

    Rows of an entity and its Versions are together, in the order of the gravest of each, as `differences` has them.
    """
    every = list(differences)
    alike: dict[_Change, dict[Xid, Difference]] = {}
    for difference in every:
        if difference.kind == "message" and difference.pointer:
            alike.setdefault(_change(difference), {})[difference.xid] = difference
    reached: dict[Difference, list[Xid]] = {}
    inherited: set[Difference] = set()
    for by_message in alike.values():
        for difference, cause in _inherited(page_context, by_message) if len(by_message) > 1 else ():
            inherited.add(difference)
            reached.setdefault(cause, []).append(difference.xid)
    entities: dict[tuple[str, Xid], list[Cause]] = {}
    for difference in every:
        if difference not in inherited:
            messages = reached.get(difference) or _naming(page_context, difference)
            entities.setdefault((difference.registryid, xid_of_resource(difference.xid)), []).append(Cause(difference, messages))
    return [cause for causes in entities.values() for cause in causes]


def _change(difference: Difference) -> _Change:
    return difference.registryid, difference.change, difference.pointer, difference.before, difference.after


def _inherited(page_context: PageContext, by_message: dict[Xid, Difference]) -> Iterator[tuple[Difference, Difference]]:
    """Yield differences that are inherited, each with that of the base where the chain begins."""
    bases: dict[Xid, list[Xid]] = {}
    for xid, difference in by_message.items():
        entity = page_context.entity(difference.registryid, xid)
        declared, _ = default_leaves(page_context.view, difference.registryid, xid)
        is_own = entity is None or difference.pointer in (declared or {})
        bases[xid] = [] if is_own or entity is None else [base for base in bases_of(page_context, entity) if base in by_message]
    for xid, difference in by_message.items():
        first = next((base for base in bases[xid] if not bases[base]), None)
        if first is not None:
            yield difference, by_message[first]


def _naming(page_context: PageContext, difference: Difference) -> list[Xid]:
    if difference.kind == "message" or not difference.is_about_schema:
        return []
    return sorted(messages_changed_by(page_context.view, difference.registryid, difference.xid))
