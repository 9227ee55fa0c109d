"""Whom a change breaks, and the changes as a feed: what follows from the differences of two snapshots."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple

from lakehouse.domain.diff import CLASSES, Difference
from lakehouse.log.snapshotfacts import Snapshot
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


def broken_endpoints(page_context: PageContext, differences: Iterable[Difference]) -> list[BrokenEndpoint]:
    """List the endpoints that differences of messages and within schemas break: those with most messages first.

    An endpoint of producers breaks by what breaks producers, one of consumers or subscribers by what breaks consumers; one that
    says no `usage`, by either.
    """
    results: dict[tuple[str, Xid], BrokenEndpoint] = {}
    for difference in differences:
        if difference.class_ != _BREAKING or not (difference.kind == "message" or difference.is_about_schema):
            continue
        messages = (
            [difference.xid]
            if difference.kind == "message"
            else sorted(messages_changed_by(page_context.view, difference.registryid, difference.xid))
        )
        for message in messages:
            for endpoint in page_context.carriers(difference.registryid, xid_of_group(message)):
                if _breaks(difference, endpoint):
                    owner = page_context.overview.owner(endpoint.registryid, endpoint.xid)
                    broken = results.setdefault(
                        (endpoint.registryid, endpoint.xid), BrokenEndpoint(endpoint, owner, [], difference)
                    )
                    if message not in broken.messages:
                        broken.messages.append(message)
    return sorted(
        results.values(),
        key=lambda broken_endpoint: (
            -len(broken_endpoint.messages),
            broken_endpoint.endpoint.registryid,
            broken_endpoint.endpoint.xid,
        ),
    )


def _breaks(difference: Difference, endpoint: Entity) -> bool:
    sides = (("producers", difference.for_producers), ("consumers", difference.for_consumers))
    return any(effect == _BREAKING and is_endpoint_of(endpoint, side) for side, effect in sides)


def feed_page(
    page_context: PageContext, path: str, compare: Callable[[int, int], list[Difference] | None], only_breaking: bool
) -> Page:
    """Make the feed of the last snapshots, RFC 4287, the newest first.

    Args:
        page_context: of the snapshot.
        path: of the feed.
        compare: returns the differences of two snapshots; None: there are too many.
        only_breaking: leave out snapshots that break nothing.
    """
    upto = [snapshot for snapshot in page_context.overview.snapshots if snapshot.snapshot_id <= page_context.view.snapshot_id][
        ::-1
    ][:_MOST_ENTRIES]
    entries = [
        page_context.remember(("entry", snapshot.snapshot_id), partial(_entry, snapshot, compare), 50) for snapshot in upto
    ]
    shown_entries = [entry for entry in entries if entry.breaking or not only_breaking]
    site = f"{page_context.style.api}/ui" if page_context.style.api else page_context.style.base_url.rstrip("/")
    page = page_context.page(
        "changes.xml",
        path,
        entries=shown_entries,
        site=site,
        only_breaking=only_breaking,
        urn=_urn("breaking feed" if only_breaking else "feed", page_context.overview.snapshots[:1]),
    )
    return page._replace(media_type=MEDIA_TYPES["atom"])


def _entry(snapshot: Snapshot, compare: Callable[[int, int], list[Difference] | None]) -> FeedEntry:
    number = snapshot.snapshot_id
    breaking = [
        difference for difference in (compare(number - 1, number) or [] if number > 1 else []) if difference.class_ == _BREAKING
    ]
    reasons = [f"{difference.xid} {difference.pointer}: {difference.meaning}" for difference in breaking[:5]]
    return FeedEntry(snapshot, _urn("snapshot", [snapshot]), len(breaking), reasons)


def _urn(kind: str, snapshots: list[Snapshot]) -> str:
    """Return what identifies a feed or entry wherever the site is served: made of the digest of a snapshot."""
    digests = "".join(str(snapshot.facts.get("digest", "")) for snapshot in snapshots)
    return uuid.uuid5(uuid.NAMESPACE_OID, f"{kind} {digests}").urn
