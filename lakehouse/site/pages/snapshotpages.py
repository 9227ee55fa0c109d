"""The past of the catalog: the time line, and what changed from one snapshot to the next or between any two.

What changed in a base is one difference, with the messages that it reaches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple

from lakehouse.domain.diff import CLASSES, Difference
from lakehouse.errors import SnapshotNotFound
from lakehouse.log.snapshotfacts import Snapshot
from lakehouse.readmodel.queries import (
    ChangedRow,
    TooManyChanges,
    attributes_of_default,
    changed_in,
    messages_changed_by,
    snapshot_differences,
)
from lakehouse.site.addresses import COMPARE, SNAPSHOTS, path_of_comparison, path_of_differences, path_of_snapshot
from lakehouse.site.pagecontext import PER_PAGE, ListPage, Page, PageContext
from lakehouse.site.pages.consequences import broken_endpoints, feed_page
from lakehouse.site.pages.past import bases_of, declared_differences
from lakehouse.site.templating import MEDIA_TYPES
from lakehouse.text.jsontext import indented
from lakehouse.text.names import RegistryId, Xid
from lakehouse.text.xid import xid_of_resource

_Change = tuple[str, str, str, str | None, str | None]  # registryid, change, pointer, before, after
MOST_CHANGED = 20_000  # entities that a page compares
_MOST_DIFFERENCES = 5
MOST_READY, _MOST_LABELS = 5, 5  # of the snapshots by files, of the labels
_MOST_BROKEN = 100
_MOST_CHOICES = 100  # snapshots to choose from, next to those with labels
_MOST_DOCUMENTS = 50


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
        declared, _ = attributes_of_default(page_context.view, difference.registryid, xid)
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


class SnapshotRow(NamedTuple):
    """What a snapshot changed, as a page shows it: differences at most `_MOST_DIFFERENCES` of them, the gravest first."""

    change: ChangedRow
    differences: list[Difference]
    more: int
    is_breaking: bool


def snapshots_page(page_context: PageContext, number: int) -> Page | None:
    """Make a page of the time line, the newest first."""
    snapshots = [
        snapshot for snapshot in page_context.overview.snapshots if snapshot.snapshot_id <= page_context.view.snapshot_id
    ]
    part = page_context.part(snapshots[::-1], SNAPSHOTS, number)
    return None if part is None else page_context.page("snapshots.html", part.at(number), part=part)


def snapshot_page(page_context: PageContext, snapshot_id: int, number: int) -> Page | None:
    """Make a page of what a snapshot changed: the comparison with the one before it; None: it is not that long.

    Raises:
        SnapshotNotFound: there is no such snapshot.
    """
    return _pair_page(page_context, (page_context.resolve(str(snapshot_id)) - 1, snapshot_id), number)


def _row(change: ChangedRow) -> SnapshotRow:
    results = []
    if change.op == "update" and change.before is not None:
        results = declared_differences(change.registryid, change.kind, change.xid, change.before, change.body)
    is_breaking = any(difference.class_ == CLASSES[0] for difference in results)
    return SnapshotRow(change, results[:_MOST_DIFFERENCES], max(0, len(results) - _MOST_DIFFERENCES), is_breaking)


def ready_pairs(page_context: PageContext) -> list[tuple[int, int]]:
    """List the pairs of snapshots that files compare: the last ones each with its predecessor, and labels with the newest."""
    number = page_context.view.snapshot_id
    results = [(after - 1, after) for after in range(number, max(1, number - MOST_READY), -1)]
    results += [(before, after) for _, before, after in _presets(page_context)]
    return list(dict.fromkeys(results))


def chosen_page(page_context: PageContext, before: str, after: str, number: int) -> Page | None:
    """Make the page of what changed as a form chooses it; None: there is no such page of it.

    Args:
        page_context: of the snapshot.
        before: number, label, date or time of a snapshot; empty: the one before the other.
        after: likewise; empty: the newest.
        number: of the page, from 1.

    Returns:
        The page; where a snapshot is not there, it says so.
    """
    head = page_context.view.snapshot_id
    if not head:
        return _page(page_context, ChangesView(), COMPARE)
    try:
        last = page_context.resolve(after) if after else head
        first = page_context.resolve(before) if before else last - 1
    except SnapshotNotFound as error:
        return _page(page_context, ChangesView(problem=str(error)), COMPARE)
    return _pair_page(page_context, (first, last), number, "" if before or after else COMPARE)


def compare_page(page_context: PageContext, before: str, after: str, number: int, at: str) -> Page | None:
    """Make the page of what changed between two snapshots, as `lakehouse diff` does; None: there is no such page of it.

    Args:
        page_context: of the snapshot.
        before: number, label, date or time of a snapshot.
        after: likewise.
        number: of the page, from 1.
        at: its path; empty: that of the pair.

    Raises:
        SnapshotNotFound: there is no such snapshot.
    """
    return _pair_page(page_context, (page_context.resolve(before), page_context.resolve(after)), number, at)


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
        return {name: sum(is_shown(cause.difference) for cause in self.causes) for name, is_shown in _TILES.items()}

    @property
    def starts(self) -> dict[str, int]:
        """Return the page on which the first cause is that a tile shows, by its name, where there is one."""
        results: dict[str, int] = {}
        for at, cause in enumerate(self.causes):
            for name in (name for name, is_shown in _TILES.items() if is_shown(cause.difference)):
                results.setdefault(name, at // PER_PAGE + 1)
        return results

    @property
    def entities(self) -> list[tuple[tuple[RegistryId, Xid], list[Difference]]]:
        """Return the differences of the page, by entity."""
        rows = self.part.rows if self.part is not None and self.differences is not None else ()
        return [(key, [cause.difference for cause in causes]) for key, causes in groupby(rows, _entity_of)]

    @property
    def reached(self) -> dict[Difference, list[Xid]]:
        """Return the messages that differences of the page reach."""
        return {cause.difference: cause.reached for cause in self.part.rows} if self.part is not None else {}


def _pair_page(page_context: PageContext, pair: tuple[int, int], number: int, at: str = "") -> Page | None:
    """Make a page of what changed between two snapshots; `at`: its path, empty: that of the pair."""
    path = path_of_comparison(COMPARE, str(pair[0]), str(pair[1]))
    problem = ""
    if _has_comparison(page_context, pair):
        try:
            results, causes = _differences_of(page_context, *pair), _causes(page_context, *pair)
        except TooManyChanges:
            problem = f"More than {MOST_CHANGED:,} entities changed, which a page does not compare: the command below does."
        else:
            part = page_context.part(causes, path, number)
            return (
                None if part is None else _page(page_context, ChangesView(pair, "", part, results, causes), at or part.at(number))
            )
    if pair[1] != pair[0] + 1:
        return _page(page_context, ChangesView(pair, problem), at or path) if number == 1 else None
    total = sum(page_context.changes_of(pair[1]).values())
    pages = max(1, -(-total // PER_PAGE))
    if not 1 <= number <= pages:
        return None
    rows = changed_in(page_context.view, pair[1], PER_PAGE, (number - 1) * PER_PAGE, registryid=page_context.style.registry)
    part = ListPage([_row(change) for change in rows], number, pages, total, path)
    return _page(page_context, ChangesView(pair, problem, part), at or part.at(number))


def _has_comparison(page_context: PageContext, pair: tuple[int, int]) -> bool:
    """Return whether there is a comparison: of any two snapshots by a server, else of those in `ready_pairs`."""
    return pair[0] > 0 and (page_context.style.is_served or pair in ready_pairs(page_context))


def _page(page_context: PageContext, changed: ChangesView, path: str) -> Page:
    upto = page_context.overview.snapshots[: page_context.view.snapshot_id]
    between: list[Snapshot] = []
    documents: list[tuple[RegistryId, str]] = []
    if changed.pair is not None:
        first, last = sorted(changed.pair)
        between = upto[first:last]
        if last == first + 1 and path == path_of_snapshot(last):  # not on its later pages
            documents = sorted(key for key, (at, _) in page_context.overview.documents.items() if at == last)
    chosen = {snapshot.snapshot_id for snapshot in upto[-_MOST_CHOICES:]} | set(changed.pair or ())
    details: dict[str, Any] = {
        "broken": broken_endpoints(page_context, changed.differences or [])[:_MOST_BROKEN],
        "presets": _presets(page_context),
        "choices": [snapshot for snapshot in upto[::-1] if snapshot.labels or snapshot.snapshot_id in chosen],
        "ready": ready_pairs(page_context),
        "between": between,
        "documents": documents[:_MOST_DOCUMENTS],
    }
    return page_context.page("compare.html", path, changed=changed, **details)


def _presets(page_context: PageContext) -> list[tuple[str, int, int]]:
    """List what people compare most: the last change, the last 7 and 30 days, and since the last labels; all by the newest."""
    number = page_context.view.snapshot_id
    upto = [snapshot for snapshot in page_context.overview.snapshots if snapshot.snapshot_id <= number]
    if number < 2 or not upto:
        return []
    results = [("last change", number - 1)]
    for days in (7, 30):
        first = max(1, page_context.before(days))
        results.append((f"last {days} days{page_context.end}{' (no change)' if first == number else ''}", first))
    labelled = [snapshot for snapshot in upto[:-1] if snapshot.labels][::-1][:_MOST_LABELS]
    results += [(f"since {label}", snapshot.snapshot_id) for snapshot in labelled for label in snapshot.labels]
    return [(title, snapshot_id, number) for title, snapshot_id in results]


def feed(page_context: PageContext, path: str, only_breaking: bool) -> Page:
    """Make the feed of the last snapshots; `path`: of the feed."""

    def compare(before: int, after: int) -> list[Difference] | None:
        try:
            return _differences_of(page_context, before, after)
        except TooManyChanges:
            return None

    return feed_page(page_context, path, compare, only_breaking)


def _differences_of(page_context: PageContext, before: int, after: int) -> list[Difference]:
    return page_context.remember(
        ("diff", before, after),
        lambda: snapshot_differences(page_context.model, before, after, MOST_CHANGED, registryid=page_context.style.registry),
        2,
    )


def _causes(page_context: PageContext, before: int, after: int) -> list[Cause]:
    return page_context.remember(
        ("causes", before, after), lambda: causes_of(page_context, _differences_of(page_context, before, after)), 2
    )


def _entity_of(cause: Cause) -> tuple[RegistryId, Xid]:
    return cause.difference.registryid, xid_of_resource(cause.difference.xid)


def _is_deletion(difference: Difference) -> bool:
    return difference.change == "removed" and not difference.pointer


def _has_class(name: str, difference: Difference) -> bool:
    return difference.class_ == name


_TILES: dict[str, Callable[[Difference], bool]] = {name: partial(_has_class, name) for name in CLASSES} | {
    "deleted": _is_deletion
}


def differences_json(page_context: PageContext, before: str, after: str) -> Page | None:
    """Return the differences of two snapshots as `lakehouse diff --json` prints them; None: they are not compared.

    Raises:
        SnapshotNotFound: there is no such snapshot.
    """
    pair = (page_context.resolve(before), page_context.resolve(after))
    try:
        text = indented([difference.as_json() for difference in _differences_of(page_context, *pair)])
    except TooManyChanges:
        return None
    return Page(path_of_differences(*pair), text.encode(), MEDIA_TYPES["json"])


def count_rows(page_context: PageContext, pair: tuple[int, int]) -> int:
    """Count the rows that the pages of what changed between two snapshots show."""
    if _has_comparison(page_context, pair):
        try:
            return len(_causes(page_context, *pair))
        except TooManyChanges:
            pass  # then rows of the log are shown, if it is one snapshot
    return sum(page_context.changes_of(pair[1]).values()) if pair[1] == pair[0] + 1 else 0
