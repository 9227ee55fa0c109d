"""Whom a change breaks, and the changes as a feed: what follows from the differences of two snapshots."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple

from lakehouse.domain.diff import CLASSES, Difference
from lakehouse.log.snapshotfacts import Snapshot
from lakehouse.readmodel.flattened import carrying
from lakehouse.readmodel.queries import is_endpoint_of, messages_changed_by
from lakehouse.readmodel.snapshotview import Entity
from lakehouse.site.pagecontext import Page, PageContext
from lakehouse.site.templating import MEDIA_TYPES
from lakehouse.text.names import Xid
from lakehouse.text.xid import xid_of_group

FEEDS = ("changes.atom", "breaking.atom")  # all; of what breaks something, as a server has with the parameter `breaking`, too
_BREAKING = CLASSES[0]
_MOST_ENTRIES = 10  # of the feed: each compares two snapshots once


class BrokenEndpoint(NamedTuple):
    """An endpoint that a change breaks.

    Attributes:
        endpoint: it carries the messages that changed.
        owner: of it; empty: no label names one.
        messages: XIDs of the messages by which it breaks.
        first: the first reason.
    """

    endpoint: Entity
    owner: str
    messages: list[Xid]
    first: Difference


class FeedEntry(NamedTuple):
    """A snapshot in the feed: `urn` identifies it; differences that break, and messages of these in words."""

    snapshot: Snapshot
    urn: str
    breaking: int
    reasons: list[str]


def broken_endpoints(book: PageContext, differences: Iterable[Difference]) -> list[BrokenEndpoint]:
    """List the endpoints that differences of messages and within schemas break: those with most messages first.

    An endpoint of producers breaks by what breaks producers, one of consumers or subscribers by what breaks consumers; one that
    says no `usage`, by either.
    """
    results: dict[tuple[str, Xid], BrokenEndpoint] = {}
    for one in differences:
        if one.class_ != _BREAKING or not (one.kind == "message" or one.is_about_schema):
            continue
        messages = [one.xid] if one.kind == "message" else sorted(messages_changed_by(book.view, one.registryid, one.xid))
        for message in messages:
            group = xid_of_group(message)
            key = ("carrying", one.registryid, group)
            for endpoint in book.remember(key, partial(carrying, book.view, one.registryid, group), 200):
                if _breaks(one, endpoint):
                    owner = book.overview.owner(endpoint.registryid, endpoint.xid)
                    broken = results.setdefault((endpoint.registryid, endpoint.xid), BrokenEndpoint(endpoint, owner, [], one))
                    if message not in broken.messages:
                        broken.messages.append(message)
    return sorted(results.values(), key=lambda one: (-len(one.messages), one.endpoint.registryid, one.endpoint.xid))


def _breaks(one: Difference, endpoint: Entity) -> bool:
    sides = (("producers", one.for_producers), ("consumers", one.for_consumers))
    return any(effect == _BREAKING and is_endpoint_of(endpoint, who) for who, effect in sides)


def feed_page(book: PageContext, path: str, compared: Callable[[int, int], list[Difference] | None], only_breaking: bool) -> Page:
    """Make the feed of the last snapshots, RFC 4287, the newest first.

    Args:
        book: of the snapshot.
        path: of the feed.
        compared: returns the differences of two snapshots; None: there are too many.
        only_breaking: leave out snapshots that break nothing.
    """
    upto = [one for one in book.overview.snapshots if one.snapshot_id <= book.view.snapshot_id][::-1][:_MOST_ENTRIES]
    entries = [book.remember(("entry", one.snapshot_id), partial(_entry, one, compared), 50) for one in upto]
    kept = [one for one in entries if one.breaking or not only_breaking]
    site = f"{book.style.api}/ui" if book.style.api else book.style.base_url.rstrip("/")
    page = book.page(
        "changes.xml",
        path,
        entries=kept,
        site=site,
        urn=_urn("breaking feed" if only_breaking else "feed", book.overview.snapshots[:1]),
    )
    return page._replace(media_type=MEDIA_TYPES["atom"])


def _entry(snapshot: Snapshot, compared: Callable[[int, int], list[Difference] | None]) -> FeedEntry:
    number = snapshot.snapshot_id
    breaking = [one for one in (compared(number - 1, number) or [] if number > 1 else []) if one.class_ == _BREAKING]
    reasons = [f"{one.xid} {one.pointer}: {one.told}" for one in breaking[:5]]
    return FeedEntry(snapshot, _urn("snapshot", [snapshot]), len(breaking), reasons)


def _urn(kind: str, snapshots: list[Snapshot]) -> str:
    """Return what identifies a feed or entry wherever the site is served: made of the digest of a snapshot."""
    digests = "".join(str(one.facts.get("digest", "")) for one in snapshots)
    return uuid.uuid5(uuid.NAMESPACE_OID, f"{kind} {digests}").urn
