"""The past of the catalog: the time line, and what changed from one snapshot to the next or between any two."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple

from lakehouse.domain.diff import CLASSES, Difference
from lakehouse.errors import SnapshotNotFound
from lakehouse.log.snapshotfacts import Snapshot
from lakehouse.readmodel.queries import ChangedRow, TooManyChanges, changed_in, diff_snapshots
from lakehouse.site.addresses import COMPARE, SNAPSHOTS, path_of_comparison, path_of_differences, path_of_snapshot
from lakehouse.site.pagecontext import PER_PAGE, ListPage, Page, PageContext
from lakehouse.site.pages.causes import Cause, causes_of
from lakehouse.site.pages.consequences import broken_endpoints, feed_page
from lakehouse.site.pages.past import declared_differences
from lakehouse.site.templating import MEDIA_TYPES
from lakehouse.text.jsontext import indented
from lakehouse.text.names import RegistryId, Xid
from lakehouse.text.xid import xid_of_resource

MOST_CHANGED = 20_000  # entities that a page compares
_MOST_TOLD = 5
LAST_COMPARED, _MOST_LABELS = 5, 5  # of the snapshots by files, of the labels
_MOST_BROKEN = 100
_MOST_CHOICES = 100  # snapshots to choose from, next to those with labels
_MOST_DOCUMENTS = 50


class SnapshotRow(NamedTuple):
    """What a snapshot changed, as a page shows it: differences at most `_MOST_TOLD` of them, the gravest first."""

    change: ChangedRow
    differences: list[Difference]
    more: int
    is_breaking: bool


def snapshots_page(book: PageContext, number: int) -> Page | None:
    """Make a page of the time line, the newest first."""
    known = [one for one in book.overview.snapshots if one.snapshot_id <= book.view.snapshot_id]
    part = book.part(known[::-1], SNAPSHOTS, number)
    return None if part is None else book.page("snapshots.html", part.at(number), part=part)


def snapshot_page(book: PageContext, snapshot_id: int, number: int) -> Page | None:
    """Make a page of what a snapshot changed: the comparison with the one before it."""
    return _pair_page(book, (snapshot_id - 1, snapshot_id), number) if 1 <= snapshot_id <= book.view.snapshot_id else None


def _row(change: ChangedRow) -> SnapshotRow:
    results = []
    if change.op == "update" and change.before is not None:
        results = declared_differences(change.registryid, change.kind, change.xid, change.before, change.body)
    is_breaking = any(one.class_ == CLASSES[0] for one in results)
    return SnapshotRow(change, results[:_MOST_TOLD], max(0, len(results) - _MOST_TOLD), is_breaking)


def ready_pairs(book: PageContext) -> list[tuple[int, int]]:
    """List the pairs of snapshots that files compare: the last ones each with its predecessor, and labels with the newest."""
    number = book.view.snapshot_id
    results = [(one - 1, one) for one in range(number, max(1, number - LAST_COMPARED), -1)]
    results += [(one, other) for _, one, other in _presets(book)]
    return list(dict.fromkeys(results))


def compare_page(book: PageContext, before: str, after: str, number: int = 1, at: str = "") -> Page | None:
    """Make the page of what changed between two snapshots, as `lakehouse diff` does; None: there is no such page of it.

    Args:
        book: of the snapshot.
        before: number, label, date or time of a snapshot; empty: the last change is shown.
        after: likewise.
        number: of the page, from 1.
        at: its path; empty: that of the pair.
    """
    if not before or not after:
        head = book.view.snapshot_id
        return _pair_page(book, (head - 1, head), 1, COMPARE) if head else _page(book, ChangesView(), COMPARE)
    try:
        return _pair_page(book, (book.view.resolve(before), book.view.resolve(after)), number, at)
    except SnapshotNotFound as error:
        return _page(book, ChangesView(problem=str(error)), COMPARE) if number == 1 else None


class ChangesView(NamedTuple):
    """What the page of what changed shows.

    Attributes:
        pair: numbers of both snapshots; the first is 0 for the first one. None: none is shown.
        problem: why there is no comparison, in a sentence.
        part: of the causes, or of the rows of the log where there is no comparison; None: neither is shown.
        differences: of the comparison; None: there is none.
        causes: of these.
    """

    pair: tuple[int, int] | None = None
    problem: str = ""
    part: ListPage | None = None
    differences: list[Difference] | None = None
    causes: Sequence[Cause] = ()

    @property
    def counts(self) -> dict[str, int]:
        """Count the causes that a tile shows, by its name."""
        return {name: sum(is_shown(one.difference) for one in self.causes) for name, is_shown in _TILES.items()}

    @property
    def starts(self) -> dict[str, int]:
        """Return the page on which the first cause is that a tile shows, by its name, where there is one."""
        results: dict[str, int] = {}
        for at, one in enumerate(self.causes):
            for name in (name for name, is_shown in _TILES.items() if is_shown(one.difference)):
                results.setdefault(name, at // PER_PAGE + 1)
        return results

    @property
    def entities(self) -> list[tuple[tuple[RegistryId, Xid], list[Difference]]]:
        """Return the differences of the page, by entity."""
        rows = self.part.rows if self.part is not None and self.differences is not None else ()
        return [(key, [one.difference for one in causes]) for key, causes in groupby(rows, _entity_of)]

    @property
    def reached(self) -> dict[Difference, list[Xid]]:
        """Return the messages that differences of the page reach."""
        return {one.difference: one.reached for one in self.part.rows} if self.part is not None else {}


def _pair_page(book: PageContext, pair: tuple[int, int], number: int, at: str = "") -> Page | None:
    """Make a page of what changed between two snapshots; `at`: its path, empty: that of the pair."""
    path = path_of_comparison(COMPARE, str(pair[0]), str(pair[1]))
    problem = ""
    if _is_compared(book, pair):
        try:
            results, causes = _compared(book, *pair), _causes(book, *pair)
        except TooManyChanges:
            problem = f"More than {MOST_CHANGED:,} entities changed, which a page does not compare: the command below does."
        else:
            part = book.part(causes, path, number)
            return None if part is None else _page(book, ChangesView(pair, "", part, results, causes), at or part.at(number))
    if pair[1] != pair[0] + 1:
        return _page(book, ChangesView(pair, problem), at or path) if number == 1 else None
    total = sum(book.changes_of(pair[1]).values())
    pages = max(1, -(-total // PER_PAGE))
    if not 1 <= number <= pages:
        return None
    rows = [_row(one) for one in changed_in(book.view, pair[1], PER_PAGE, (number - 1) * PER_PAGE)]
    part = ListPage(rows, number, pages, total, path)
    return _page(book, ChangesView(pair, problem, part), at or part.at(number))


def _is_compared(book: PageContext, pair: tuple[int, int]) -> bool:
    """Return whether there is a comparison: of any two snapshots by a server, else of those in `ready_pairs`."""
    return pair[0] > 0 and (book.style.is_served or pair in ready_pairs(book))


def _page(book: PageContext, changed: ChangesView, path: str) -> Page:
    upto = book.overview.snapshots[: book.view.snapshot_id]
    between: list[Snapshot] = []
    documents: list[tuple[RegistryId, str]] = []
    if changed.pair is not None:
        first, last = sorted(changed.pair)
        between = upto[first:last]
        if last == first + 1 and path == path_of_snapshot(last):  # not on its later pages
            documents = sorted(key for key, (at, _) in book.overview.documents.items() if at == last)
    chosen = {one.snapshot_id for one in upto[-_MOST_CHOICES:]} | set(changed.pair or ())
    details: dict[str, Any] = {
        "broken": broken_endpoints(book, changed.differences or [])[:_MOST_BROKEN],
        "presets": _presets(book),
        "choices": [one for one in upto[::-1] if one.labels or one.snapshot_id in chosen],
        "ready": ready_pairs(book),
        "between": between,
        "documents": documents[:_MOST_DOCUMENTS],
    }
    return book.page("compare.html", path, changed=changed, **details)


def _presets(book: PageContext) -> list[tuple[str, int, int]]:
    """List what people compare most: the last change, the last 7 and 30 days before it, and since the last labels."""
    number = book.view.snapshot_id
    upto = [one for one in book.overview.snapshots if one.snapshot_id <= number]
    if number < 2 or not upto:
        return []
    results = [("last change", number - 1)]
    for days in (7, 30):
        before = [one.snapshot_id for one in upto if one.committed_at <= upto[-1].committed_at - timedelta(days=days)]
        results += [(f"last {days} days", before[-1])] if before else []
    labelled = [one for one in upto[:-1] if one.labels][::-1][:_MOST_LABELS]
    results += [(f"since {label}", one.snapshot_id) for one in labelled for label in one.labels]
    return [(title, one, number) for title, one in results]


def feed(book: PageContext, path: str, only_breaking: bool) -> Page:
    """Make the feed of the last snapshots; `path`: of the feed."""

    def compared(before: int, after: int) -> list[Difference] | None:
        try:
            return _compared(book, before, after)
        except TooManyChanges:
            return None

    return feed_page(book, path, compared, only_breaking)


def _compared(book: PageContext, before: int, after: int) -> list[Difference]:
    return book.remember(("diff", before, after), lambda: diff_snapshots(book.model, before, after, MOST_CHANGED), 2)


def _causes(book: PageContext, before: int, after: int) -> list[Cause]:
    return book.remember(("causes", before, after), lambda: causes_of(book, _compared(book, before, after)), 2)


def _entity_of(one: Cause) -> tuple[RegistryId, Xid]:
    return one.difference.registryid, xid_of_resource(one.difference.xid)


def _is_deletion(one: Difference) -> bool:
    return one.change == "removed" and not one.pointer


def _has_class(name: str, one: Difference) -> bool:
    return one.class_ == name


_TILES: dict[str, Callable[[Difference], bool]] = {name: partial(_has_class, name) for name in CLASSES} | {
    "deleted": _is_deletion
}


def differences_json(book: PageContext, before: str, after: str) -> Page | None:
    """Return the differences of two snapshots as `lakehouse diff --json` prints them; None: they are not compared."""
    try:
        pair = (book.view.resolve(before), book.view.resolve(after))
        text = indented([one.as_json() for one in _compared(book, *pair)])
    except (SnapshotNotFound, TooManyChanges):
        return None
    return Page(path_of_differences(*pair), text.encode(), MEDIA_TYPES["json"])


def count_rows(book: PageContext, pair: tuple[int, int]) -> int:
    """Count the rows that the pages of what changed between two snapshots show."""
    if _is_compared(book, pair):
        try:
            return len(_causes(book, *pair))
        except TooManyChanges:
            pass  # then rows of the log are shown, if it is one snapshot
    return sum(book.changes_of(pair[1]).values()) if pair[1] == pair[0] + 1 else 0
