"""The site as a server shows it: a path and its parameters become a page of the snapshot that is asked for."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from typing import Any, NamedTuple

from lakehouse.errors import SnapshotNotFound
from lakehouse.readmodel import ReadModel, View
from lakehouse.site.addresses import HOME
from lakehouse.site.overview import Overview, overview_of
from lakehouse.site.pagecontext import Page, PageContext, PageStyle
from lakehouse.site.pages.contents import find_page, missing_page
from lakehouse.site.templating import POLICY

HEADERS = {
    "Content-Security-Policy": f"{POLICY}; frame-ancestors 'none'",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
_MOST_SNAPSHOTS = 3


def _now() -> datetime:
    return datetime.now(timezone.utc)


class ServedPage(NamedTuple):
    """A page, whether it is the one of the path, and the snapshot that it shows."""

    page: Page
    is_there: bool
    snapshot_id: int


class Site:
    """Makes pages of a read model; shared by the threads of a process.

    Args:
        model: the read model.
        max_chain_depth: setting of that name.
        clock: returns what time it is: days of the newest snapshot are counted back from it.
    """

    def __init__(self, model: ReadModel, max_chain_depth: int, clock: Callable[[], datetime] = _now) -> None:
        self.model = model
        self.max_chain_depth = max_chain_depth
        self._clock = clock
        self._overviews: OrderedDict[tuple[int, str], tuple[Overview, dict[str, Any]]] = OrderedDict()
        self._guard = threading.Lock()

    def page(self, path: str, query: Mapping[str, str], api: str, at: str | None = None) -> ServedPage:
        """Make a page.

        Args:
            path: relative to the root of the site; empty: the first page.
            query: parameters.
            api: URL of the API of the catalog.
            at: a snapshot, as in `View.resolve`; None: the newest.

        Returns:
            The page; one that says so where there is none.

        Raises:
            SnapshotNotFound: there is no snapshot `at`.
        """
        return self.model.answer(lambda view: self._made(view, path or HOME, query, api, at), at)

    def problem(self, text: str, root: str) -> Page:
        """Make a page of the newest snapshot that says why there is none.

        Args:
            text: why, in a sentence.
            root: URL of the pages of the newest snapshot, from which its links lead.
        """
        return self.model.answer(lambda view: missing_page(self.page_context(view, PageStyle(True, root=root)), problem=text))

    def warm(self) -> None:
        """Look through the newest snapshot, for which the first page would wait else."""
        self.model.answer(self._overview)

    def page_context(self, view: View, style: PageStyle | None = None) -> PageContext:
        """Return what pages of a snapshot are made with, as long as the view is open."""
        overview, cache = self._overview(view)
        return PageContext(self.model, view, overview, style or PageStyle(True), cache=cache)

    def _made(self, view: View, path: str, query: Mapping[str, str], api: str, at: str | None) -> ServedPage:
        shown, now = (None, self._clock()) if at is None else (view.snapshot_id, None)
        style = PageStyle(True, api, at=shown, max_chain_depth=self.max_chain_depth, now=now)
        page_context = self.page_context(view, style)
        result, problem = None, ""
        try:
            result = find_page(page_context, path, query)
        except SnapshotNotFound as error:
            problem = str(error)
        page = result or missing_page(page_context, path, problem)
        return ServedPage(page, result is not None, view.snapshot_id)

    def _overview(self, view: View) -> tuple[Overview, dict[str, Any]]:
        key = (view.snapshot_id, str(view.commit_of(view.snapshot_id)["digest"]) if view.snapshot_id else "")
        key = (key[0], f"{key[1]}/{view.definitions_snapshot}/{len(view.labels())}")
        with self._guard:
            result = self._overviews.get(key)
            if result is not None:
                self._overviews.move_to_end(key)
                return result
            result = self._overviews[key] = (overview_of(view, self.model.settings.owner_names), {})
            while len(self._overviews) > _MOST_SNAPSHOTS:
                self._overviews.popitem(last=False)
            return result
