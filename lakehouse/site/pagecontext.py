"""What the pages of a snapshot are made with, and how it is put together."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from math import ceil
from typing import Any, NamedTuple, TypeVar

from markupsafe import Markup

from lakehouse.errors import SnapshotNotFound
from lakehouse.readmodel.flattened import endpoints_carrying
from lakehouse.readmodel.model import ReadModel
from lakehouse.readmodel.queries import count_changed
from lakehouse.readmodel.snapshotview import Entity, View, remember
from lakehouse.readmodel.traffic import SentMessage, SentTotals
from lakehouse.site import addresses
from lakehouse.site.overview import Overview
from lakehouse.site.templating import MEDIA_TYPES, prose, prose_line, render
from lakehouse.text.names import RegistryId, Xid
from lakehouse.text.xid import xid_of_resource

T = TypeVar("T")
PER_PAGE = 100
_MOST_CACHED = 8


class Page(NamedTuple):
    """A page.

    Attributes:
        path: where it is, relative to the root of the site.
        body: its bytes.
        media_type: of the body.
    """

    path: str
    body: bytes
    media_type: str = MEDIA_TYPES["html"]


class ListPage(NamedTuple):
    """A page of a list.

    Attributes:
        rows: what it shows.
        number: which one, from 1.
        pages: how many there are.
        total: of all rows.
        path: of the first page.
    """

    rows: Sequence[Any]
    number: int
    pages: int
    total: int
    path: str

    @property
    def first(self) -> int:
        """Return the number of the first row that is shown, from 1."""
        return (self.number - 1) * PER_PAGE + 1

    def at(self, number: int) -> str:
        """Return the path of another page."""
        return addresses.page_of_list(self.path, number)

    @property
    def near(self) -> list[int]:
        """Return the numbers of the pages that are linked: the first, the last and those around; 0 stands for a gap."""
        wanted = sorted({1, self.pages, *range(max(1, self.number - 2), min(self.pages, self.number + 2) + 1)})
        results: list[int] = []
        for page_number in wanted:
            if results and page_number > results[-1] + 1:
                results.append(0)
            results.append(page_number)
        return results


@dataclass
class PageStyle:
    """How pages are made.

    Attributes:
        is_served: a server answers: search and comparisons take parameters.
        api: URL of the API of the catalog, for lines of `curl`; empty: there is none.
        base_url: URL under which the site is served; empty: that is unknown.
        at: the past snapshot that the whole site shows; None: the newest.
        max_chain_depth: setting of that name.
        registry: the whole site shows this one alone; None: all.
        root: URL from which links lead; empty: they are relative.
        now: moment from which days are counted back; None: that of the snapshot, so that pages of it stay as they are.
    """

    is_served: bool = False
    api: str = ""
    base_url: str = ""
    at: int | None = None
    max_chain_depth: int = 128
    registry: RegistryId | None = None
    root: str = ""
    now: datetime | None = None

    @property
    def leads_to_past(self) -> bool:
        """Return whether pages lead to those of past snapshots, which only a server has."""
        return self.is_served and self.at is None


@dataclass
class PageContext:
    """What pages of a snapshot are made with; valid as long as the view is.

    Attributes:
        model: whose snapshot it is.
        view: the snapshot.
        overview: of it.
        style: how pages are made.
    """

    model: ReadModel
    view: View
    overview: Overview
    style: PageStyle = field(default_factory=PageStyle)
    cache: dict[str, OrderedDict[Any, Any]] = field(default_factory=dict)

    def page(self, template: str, path: str, /, **details: Any) -> Page:
        """Make a page of a template; its links lead from its path."""
        root = self.style.root or "../" * path.count("/") or "./"
        links = Links(self.overview)
        common = {"style": self.style, "end": self.end, "overview": self.overview, "links": links, "root": root, "path": path}
        return Page(path, render(template, **common, **details))

    def resolve(self, text: str) -> int:
        """Return the number of a snapshot that the pages know, as `View.resolve` reads it.

        Raises:
            SnapshotNotFound: there is none, or it is later than what is shown.
        """
        number = self.view.resolve(text)
        if number > self.view.snapshot_id:
            raise SnapshotNotFound(text, f"these pages show the catalog as of snapshot {self.view.snapshot_id}, which is earlier")
        return number

    def before(self, days: int) -> int:
        """Return the last snapshot that is at least some days old: as of now, or as of the one that is shown; 0: none is."""
        upto = [snapshot for snapshot in self.overview.snapshots if snapshot.snapshot_id <= self.view.snapshot_id]
        since = (self.style.now or upto[-1].committed_at) - timedelta(days) if upto else None
        return max((snapshot.snapshot_id for snapshot in upto if since and snapshot.committed_at <= since), default=0)

    @property
    def end(self) -> str:
        """Return in words from when days are counted back; empty: from now."""
        return "" if self.style.now is not None else f" before snapshot {self.view.snapshot_id}"

    def part(self, rows: Sequence[Any], path: str, number: int, read: Callable[[Any], Any] | None = None) -> ListPage | None:
        """Cut a page out of a list; None: it is not that long.

        Args:
            rows: the list.
            path: of the first page.
            number: of the page, from 1.
            read: makes what is shown of each row of the page.
        """
        pages = max(1, ceil(len(rows) / PER_PAGE))
        if not 1 <= number <= pages:
            return None
        some = rows[(number - 1) * PER_PAGE : number * PER_PAGE]
        return ListPage([read(row) for row in some] if read else some, number, pages, len(rows), path)

    def entity(self, registryid: RegistryId, xid: Xid) -> Entity | None:
        """Look an entity up."""
        return self.view.entity(registryid, xid)

    def definition(self, registryid: RegistryId, xid: Xid) -> dict[str, Any] | None:
        """Return the effective definition of a message; None: it is not computed yet."""
        return self.remember(("definition", registryid, xid), lambda: self.view.definition(registryid, xid), _MOST_CACHED)

    def sent(self, registryid: RegistryId, xids: Collection[Xid]) -> SentMessage | None:
        """Return what was sent of messages, as `match --into` found it; None: nothing, or a past snapshot is shown."""
        return None if self.style.at is not None else self.model.traffic.messages(registryid, xids)

    def all_sent(self) -> SentTotals | None:
        """Return what was sent of all messages; None: nothing was matched yet, or a past snapshot is shown."""
        return None if self.style.at is not None else self.model.traffic.totals()

    def carriers(self, registryid: RegistryId, group_xid: Xid) -> list[Entity]:
        """Return the endpoints that carry the messages of a group."""
        key = ("carrying", registryid, group_xid)
        return self.remember(key, lambda: endpoints_carrying(self.view, registryid, group_xid), 200)

    def commit_of(self, snapshot_id: int) -> dict[str, Any]:
        """Return the facts of a snapshot."""
        return self.remember(("commit", snapshot_id), lambda: self.view.commit_of(snapshot_id), 2000)

    def changes_of(self, snapshot_id: int) -> dict[str, int]:
        """Count what a snapshot changed, by op."""
        return self.remember(("changes", snapshot_id), lambda: count_changed(self.view, snapshot_id, self.style.registry), 2000)

    def remember(self, key: Any, make: Callable[[], T], most: int = _MOST_CACHED) -> T:
        """Make something once for many pages.

        Args:
            key: begins with what kind of thing it is.
            make: makes it.
            most: of that kind are kept.
        """
        cache: OrderedDict[Any, T] = self.cache.setdefault(key[0], OrderedDict())
        return remember(cache, key, make, most)


class Links:
    """Paths as templates ask for them."""

    def __init__(self, overview: Overview) -> None:
        self.overview = overview
        self.rule = addresses.path_of_rule
        self.snapshot = addresses.path_of_snapshot
        self.to = addresses.path_of
        self.beside = addresses.path_beside
        self.differences = addresses.path_of_differences

    def document(self, registryid: RegistryId, uri: str) -> str | None:
        """Return the path of a document; None: the catalog does not have it any more."""
        return addresses.path_of_document(registryid, uri) if (registryid, uri) in self.overview.documents else None

    def path_of_existing(self, registryid: RegistryId, xid: Xid | None) -> str | None:
        """Return the path of what an XID names; None: it is not in the catalog."""
        if not xid or not xid.startswith("/"):
            return None
        resource_xid = xid_of_resource(xid)
        if not self.overview.has(registryid, resource_xid):
            return None
        # The page of a message shows its default Version; a message with a single one has no other page.
        return addresses.path_of(registryid, xid if xid.startswith("/schemagroups/") else resource_xid)

    def prose(self, registryid: RegistryId, text: str, root: str, as_html: Callable[..., Markup] = prose) -> Markup:
        """Return a text in Markdown as HTML, with links to pages of the registry."""

        def find(target: str) -> str | None:
            path = self.path_of_existing(registryid, Xid(target)) if target.count("/") in (2, 4, 6) else None
            return None if path is None else root + path

        return as_html(text, find)

    def line(self, registryid: RegistryId, text: str, root: str) -> Markup:
        """Return a text in Markdown as HTML within a line, with links to pages of the registry."""
        return self.prose(registryid, text, root, prose_line)

    @staticmethod
    def pair(before: int, after: int) -> str:
        """Return the path of what changed between two snapshots."""
        return addresses.path_of_comparison(addresses.COMPARE, str(before), str(after))

    @staticmethod
    def name(xid: Xid | None) -> str:
        """Return the id at the end of an XID; of a Version of a message with its parent's."""
        if not xid:
            return ""
        parts = xid.split("/")
        return f"{parts[4]} (Version {parts[6]})" if len(parts) == 7 else parts[-1]
