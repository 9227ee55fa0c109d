"""The past of the catalog: the time line, what each snapshot changed, and the difference between two of them."""

from __future__ import annotations

from datetime import timedelta
from itertools import groupby
from typing import Any, NamedTuple

from lakehouse.domain.diff import CLASSES, Difference
from lakehouse.errors import SnapshotNotFound
from lakehouse.readmodel.queries import ChangedRow, TooManyChanges, changed_in, diff_snapshots
from lakehouse.site.addresses import COMPARE, SNAPSHOTS, path_of_comparison, path_of_snapshot
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
_LAST, _MOST_LABELS = 5, 5
_MOST_BROKEN = 100


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
    """Make a page of what a snapshot changed."""
    known = next((one for one in book.overview.snapshots if one.snapshot_id == snapshot_id), None)
    if known is None or snapshot_id > book.view.snapshot_id:
        return None
    total = sum(book.changes_of(snapshot_id).values())
    pages = max(1, -(-total // PER_PAGE))
    if not 1 <= number <= pages:
        return None
    rows = [_row(one) for one in changed_in(book.view, snapshot_id, PER_PAGE, (number - 1) * PER_PAGE)]
    part = ListPage(rows, number, pages, total, path_of_snapshot(snapshot_id))
    documents = [(key, facts) for key, (at, facts) in book.overview.documents.items() if at == snapshot_id]
    return book.page(
        "snapshot.html", part.at(number), snapshot=known, part=part, documents=sorted(documents)[:50],
        compared=_path(book, snapshot_id),
    )  # fmt: skip


def _row(change: ChangedRow) -> SnapshotRow:
    results = []
    if change.op == "update" and change.before is not None:
        results = declared_differences(change.registryid, change.kind, change.xid, change.before, change.body)
    is_breaking = any(one.class_ == CLASSES[0] for one in results)
    return SnapshotRow(change, results[:_MOST_TOLD], max(0, len(results) - _MOST_TOLD), is_breaking)


def _path(book: PageContext, snapshot_id: int) -> str | None:
    """Return the path of the comparison with the snapshot before, where there is one."""
    pair = (snapshot_id - 1, snapshot_id)
    if snapshot_id < 2 or not (book.style.is_served or pair in ready_pairs(book)):
        return None
    return path_of_comparison(COMPARE, str(pair[0]), str(pair[1]))


def ready_pairs(book: PageContext) -> list[tuple[int, int]]:
    """List the pairs of snapshots that files compare: the last ones each with its predecessor, and labels with the newest."""
    number = book.view.snapshot_id
    results = [(one - 1, one) for one in range(number, max(1, number - _LAST), -1)]
    results += [(one, other) for _, one, other in _presets(book)]
    return list(dict.fromkeys(results))


def compare_page(book: PageContext, before: str, after: str, number: int = 1) -> Page | None:
    """Make the page that compares two snapshots, as `lakehouse diff` does; None: there is no such page of it.

    Args:
        book: of the snapshot.
        before: number, label, date or time of a snapshot; empty: only the choice is shown.
        after: likewise.
        number: of the page, from 1.
    """
    results: list[Difference] = []
    causes: list[Cause] = []
    problem, pair = "", None
    if before and after:
        try:
            pair = (book.view.resolve(before), book.view.resolve(after))
            results, causes = _compared(book, *pair), _causes(book, *pair)
        except SnapshotNotFound as error:
            problem = str(error)
        except TooManyChanges:
            problem = (
                f"More than {MOST_CHANGED:,} entities changed, which a page does not compare: "
                f"lakehouse diff {before} {after} does."
            )
    path = path_of_comparison(COMPARE, str(pair[0]), str(pair[1])) if pair else COMPARE
    part = book.part(causes, path, number)
    if part is None:
        return None
    counts: dict[str, int] = {name: sum(one.difference.class_ == name for one in causes) for name in CLASSES}
    counts["deleted"] = sum(_is_deletion(one.difference) for one in causes)
    ready = [(one, other, path_of_comparison(COMPARE, str(one), str(other))) for one, other in ready_pairs(book)]
    entities = [(key, [one.difference for one in rows]) for key, rows in groupby(part.rows, _entity_of)]
    details: dict[str, Any] = {
        "broken": broken_endpoints(book, results)[:_MOST_BROKEN],
        "presets": [(title, path_of_comparison(COMPARE, str(one), str(other))) for title, one, other in _presets(book)],
        "part": part,
        "entities": entities,
        "reached": {one.difference: one.reached for one in part.rows},
        "differing": len(results),
        "counts": counts,
        "pair": pair,
        "problem": problem,
        "ready": ready,
    }
    return book.page("compare.html", part.at(number), before=before, after=after, **details)


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


def feed(book: PageContext, only_breaking: bool) -> Page:
    """Make the feed of the last snapshots."""

    def compared(before: int, after: int) -> list[Difference] | None:
        try:
            return _compared(book, before, after)
        except TooManyChanges:
            return None

    return feed_page(book, compared, only_breaking)


def _compared(book: PageContext, before: int, after: int) -> list[Difference]:
    return book.remember(("diff", before, after), lambda: diff_snapshots(book.model, before, after, MOST_CHANGED), 2)


def _causes(book: PageContext, before: int, after: int) -> list[Cause]:
    return book.remember(("causes", before, after), lambda: causes_of(book, _compared(book, before, after)), 2)


def _entity_of(one: Cause) -> tuple[RegistryId, Xid]:
    return one.difference.registryid, xid_of_resource(one.difference.xid)


def _is_deletion(one: Difference) -> bool:
    return one.change == "removed" and not one.pointer


def differences_json(book: PageContext, before: str, after: str) -> Page | None:
    """Return the differences of two snapshots as `lakehouse diff --json` prints them; None: they are not compared."""
    try:
        pair = (book.view.resolve(before), book.view.resolve(after))
        text = indented([one.as_json() for one in _compared(book, *pair)])
    except (SnapshotNotFound, TooManyChanges):
        return None
    path = path_of_comparison(COMPARE, str(pair[0]), str(pair[1])).removesuffix("html") + "json"
    return Page(path, text.encode(), MEDIA_TYPES["json"])


def count_differences(book: PageContext, before: int, after: int) -> int:
    """Count the causes that a comparison of two snapshots shows."""
    try:
        return len(_causes(book, before, after))
    except (SnapshotNotFound, TooManyChanges):
        return 0
