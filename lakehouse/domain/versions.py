"""Versions of a resource: the default one, the newest one, ancestors of new ones, and circles among them.

The API orders Versions as `versionmode` `manual` says (model.md of the core specification); ids are compared without letter case.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

from lakehouse.text.jsontext import canonical, decoded, read_canonical
from lakehouse.text.names import JsonText

Ancestors = Mapping[str, str | None]  # by versionid; a root names itself, None: it is not known yet
Made = Callable[[str], int]  # when a Version was made


def newest_of(ancestors: Ancestors, made: Made) -> str | None:
    """Return the newest Version: of those that no other one was made from the last that was made; of several the last by id."""
    parents = {parent for versionid, parent in ancestors.items() if parent != versionid}
    ends = [versionid for versionid in ancestors if versionid not in parents] or list(ancestors)
    return max(ends, key=lambda versionid: (made(versionid), _by_id(versionid)), default=None)


def with_ancestors(ancestors: Ancestors, made: Made) -> dict[str, str]:
    """Return an ancestor for each Version that has none: in the order of their ids, each follows the newest Version before it.

    What was made from one of them, as the client says, comes after it, and so is not the newest before it.
    """
    children: defaultdict[str | None, list[str]] = defaultdict(list)
    for versionid, parent in ancestors.items():
        children[parent].append(versionid)
    pending = sorted(children[None], key=_by_id)
    later, at = set(pending), list(pending)
    while at:
        new = [versionid for versionid in children[at.pop()] if versionid not in later]
        later.update(new)
        at += new
    newest = newest_of({versionid: parent for versionid, parent in ancestors.items() if versionid not in later}, made)
    results: dict[str, str] = {}
    for versionid in pending:
        results[versionid] = versionid if newest is None else newest
        newest = versionid
    return results


def find_circle(ancestors: Ancestors, versionids: Iterable[str]) -> list[str]:
    """Return Versions of which each was made from the next, and the last is among those before; none: all lead to a root."""
    rooted: set[str] = set()
    for versionid in versionids:
        line: dict[str, None] = {}
        at: str | None = versionid
        while at is not None and at in ancestors and at not in rooted:
            if at in line:
                return [*line, at]
            line[at] = None
            at = None if ancestors[at] == at else ancestors[at]
        rooted.update(line)
    return []


def _by_id(versionid: str) -> tuple[str, str]:
    return versionid.lower(), versionid


class DefaultChoice(NamedTuple):
    """The default Version: its id (None: there is no Version), and ids that were named before it and are no Versions."""

    versionid: str | None
    unknown: tuple[str, ...] = ()


def choose_default(named: Iterable[str | None], versionids: Collection[str], newest: str | None) -> DefaultChoice:
    """Choose the default Version: the first that is named and exists, else the newest.

    Args:
        named: ids by which it is named, what counts most first; None: nobody says so.
        versionids: of the Versions.
        newest: id of the newest one.
    """
    unknown: list[str] = []
    for versionid in named:
        if versionid in versionids:
            return DefaultChoice(versionid, tuple(unknown))
        if versionid is not None:
            unknown.append(versionid)
    return DefaultChoice(newest, tuple(unknown))


def with_isdefault(body: JsonText, isdefault: bool) -> JsonText:
    """Return the normal form of a Version, which holds `isdefault`, with another; `owners.with_isdefault` changes a column."""
    member, other = ('"isdefault":true', '"isdefault":false') if isdefault else ('"isdefault":false', '"isdefault":true')
    before, after = body.count(other), body.count(member)
    if not before:
        return body
    if before == 1 and not after:  # so it is the Version's own, and not one inside of it
        return JsonText(body.replace(other, member))
    attributes = read_canonical(body)
    return body if attributes["isdefault"] is isdefault else decoded(canonical(attributes | {"isdefault": isdefault}))
