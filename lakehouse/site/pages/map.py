"""The map: who sends to which endpoint, the messages that it carries, and who receives them, drawn as an SVG and listed.

A picture has three columns: endpoints that producers send to, groups as boxes with their messages, endpoints that consumers
receive from. A line leads from each endpoint to each group that it carries; arrows say which way messages go. What is connected
is drawn together, and no line crosses a box. The layout is a function of the catalog alone. A map of more than `_MOST_NODES` goes
over several pages; of a group that is too large for a page the first messages are shown.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil
from typing import NamedTuple

from lakehouse.readmodel.queries import is_endpoint_of
from lakehouse.readmodel.snapshotview import Entity
from lakehouse.site.addresses import MAP, page_of_list, path_of
from lakehouse.site.overview import Key
from lakehouse.site.pagecontext import Page, PageContext
from lakehouse.text.names import Xid
from lakehouse.text.xid import last_id

_MOST_NODES = 500
_MOST_LISTED = 150  # messages that the list of a page names
_MOST_BYTES = 60_000  # of the links of one picture
_WIDTH, _SIDE, _BETWEEN = 1160, 250, 92  # of a picture, of a column of endpoints, from column to column
_COLUMNS, _ROW, _HEAD, _GAP, _PAD = 3, 20, 34, 18, 10
_ENDPOINT = 40
_LETTERS = 30  # of an id that are shown


class MapNode(NamedTuple):
    """A message in a box: XID, what is shown, place, and family of its protocol."""

    xid: Xid
    path: str
    text: str
    x: int
    y: int
    family: str


class Box(NamedTuple):
    """A group, or an endpoint: `number` is its place among the boxes of the picture, which lines name."""

    entity: Entity
    path: str
    text: str
    note: str
    x: int
    y: int
    width: int
    height: int
    nodes: list[MapNode]
    number: int = 0


class Line(NamedTuple):
    """A line between an endpoint and a group.

    Attributes:
        d: the `d` of an SVG path, from left to right.
        title: which way messages go, in words.
        ends: numbers of both boxes.
        to_right: messages go from the left end to the right one.
        to_left: they go from the right end to the left one.
    """

    d: str
    title: str
    ends: tuple[int, int]
    to_right: bool
    to_left: bool


class MapRow(NamedTuple):
    """A group, or an endpoint with its own messages or without a group, as the list has it, with the endpoints on each side."""

    group: Entity
    messages: list[Xid]
    sent_to: list[Entity]
    received_from: list[Entity]


class Drawn(NamedTuple):
    """A picture."""

    width: int
    height: int
    endpoints: list[Box]
    groups: list[Box]
    lines: list[Line]


def map_page(page_context: PageContext, number: int) -> Page | None:
    """Make a page of the map."""
    pages = page_context.remember(("map", page_context.view.snapshot_id), lambda: _pages(page_context))
    if not 1 <= number <= max(1, len(pages)):
        return None
    endpoints, groups = pages[number - 1] if pages else ([], [])
    drawn = _drawn(page_context, endpoints, groups, _MOST_NODES) if pages else None
    alone = [endpoint for endpoint in endpoints if _is_listed(page_context, endpoint)]
    rows = [_row(page_context, entity) for entity in (*groups, *alone)]
    return page_context.page(
        "map.html", page_of_list(MAP, number), drawn=drawn, number=number, pages=max(1, len(pages)),
        rows=rows, most=_MOST_LISTED // max(1, len(rows)), at=lambda page_number: page_of_list(MAP, page_number),
    )  # fmt: skip


def _is_listed(page_context: PageContext, endpoint: Entity) -> bool:
    """Return whether an endpoint has a row: those that only carry groups are in the rows of these."""
    key = (endpoint.registryid, endpoint.xid)
    return bool(page_context.overview.members[key]) or key not in all_neighbours(page_context)


def _row(page_context: PageContext, group: Entity) -> MapRow:
    key = (group.registryid, group.xid)
    carriers = [page_context.overview.groups[neighbour] for neighbour in sorted(all_neighbours(page_context).get(key, ()))]
    carriers = [group] if group.kind == "endpoint" else carriers
    sent_to, received_from = (
        [carrier for carrier in carriers if is_endpoint_of(carrier, side)] for side in ("producers", "consumers")
    )
    return MapRow(group, page_context.overview.members[key], sent_to, received_from)


def count_pages(page_context: PageContext) -> int:
    """Count the pages of the map."""
    return max(1, len(page_context.remember(("map", page_context.view.snapshot_id), lambda: _pages(page_context))))


def drawing_of(page_context: PageContext, entity: Entity) -> Drawn | None:
    """Draw what is around a group or an endpoint; None: there is nothing around it."""
    registryid = entity.registryid
    neighbours = all_neighbours(page_context)
    key = (registryid, entity.xid)
    near = [page_context.overview.groups[neighbour] for neighbour in sorted(neighbours.get(key, ()))][:20]
    if not near:
        return None
    both = [entity, *near]
    endpoints = [entity for entity in both if entity.kind == "endpoint"]
    groups = [entity for entity in both if entity.kind != "endpoint"]
    return _drawn(page_context, endpoints, groups, 60)


def all_neighbours(page_context: PageContext) -> dict[Key, set[Key]]:
    """Return which groups each endpoint carries, and by which endpoints each group is carried."""
    return page_context.remember(("neighbours", page_context.view.snapshot_id), lambda: _neighbours(page_context))


def _neighbours(page_context: PageContext) -> dict[Key, set[Key]]:
    """Find which groups each endpoint carries, and by which endpoints each group is carried."""
    results: dict[Key, set[Key]] = {}
    for (registryid, xid), entity in page_context.overview.groups.items():
        for named in entity.attributes.get("messagegroups") or [] if entity.kind == "endpoint" else []:
            if (registryid, named) in page_context.overview.groups and named != xid:
                results.setdefault((registryid, xid), set()).add((registryid, named))
                results.setdefault((registryid, named), set()).add((registryid, xid))
    return results


def _pages(page_context: PageContext) -> list[tuple[list[Entity], list[Entity]]]:
    """Share the catalog out to pages: what hangs together on one page, as far as it fits; the most connected first."""
    neighbours = all_neighbours(page_context)
    seen: set[Key] = set()
    parts: list[list[Key]] = []
    every = sorted(key for key in page_context.overview.groups if not key[1].startswith("/schemagroups/"))
    for start in every:
        if start in seen:
            continue
        part, open_ = [], [start]
        while open_:
            at = open_.pop()
            if at not in seen:
                seen.add(at)
                part.append(at)
                open_ += sorted(neighbours.get(at, ()), reverse=True)
        parts.append(part)
    parts.sort(key=lambda part: (-len(part), part[0]))
    pages: list[list[Key]] = []
    size = _MOST_NODES + 1
    for part in parts:
        for some in _cut_to_fit(page_context, part):
            nodes = _size(page_context, some)
            if size + nodes > _MOST_NODES:
                pages.append([])
                size = 0
            pages[-1] += some
            size += nodes
    return [
        (
            [entity for entity in entities if entity.kind == "endpoint"],
            [entity for entity in entities if entity.kind != "endpoint"],
        )
        for entities in ([page_context.overview.groups[key] for key in keys] for keys in pages)
    ]


def _size(page_context: PageContext, keys: Iterable[Key]) -> int:
    return sum(1 + min(len(page_context.overview.members[key]), _MOST_NODES // 4) for key in keys)


def _cut_to_fit(page_context: PageContext, part: list[Key]) -> list[list[Key]]:
    """Cut what hangs together where it is too much for one page."""
    results: list[list[Key]] = [[]]
    size = 0
    for key in part:
        nodes = _size(page_context, [key])
        if size + nodes > _MOST_NODES and results[-1]:
            results.append([])
            size = 0
        results[-1].append(key)
        size += nodes
    return results


def _drawn(page_context: PageContext, endpoints: list[Entity], groups: list[Entity], most: int) -> Drawn:
    """Lay a picture out."""
    neighbours = all_neighbours(page_context)
    limit = _limit(page_context, [*endpoints, *groups], most)
    # Groups that the same endpoints carry are placed together, in the order of their first endpoint.
    order = {(endpoint.registryid, endpoint.xid): at for at, endpoint in enumerate(endpoints)}
    groups = sorted(
        groups,
        key=lambda group: (
            sorted(order.get(key, len(order)) for key in neighbours.get((group.registryid, group.xid), ())) or [len(order)],
            group.xid,
        ),
    )
    left = [endpoint for endpoint in endpoints if is_endpoint_of(endpoint, "producers")]
    right = [endpoint for endpoint in endpoints if not is_endpoint_of(endpoint, "producers")]
    start = _GAP + (_SIDE + _BETWEEN if left else 0)
    width = _WIDTH - _GAP - start - (_SIDE + _BETWEEN if right else 0)
    boxes: list[Box] = []
    y = _GAP
    for number, group in enumerate(groups):
        box = _group_box(page_context, group, (start, y), width, limit)._replace(number=number)
        boxes.append(box)
        y += box.height + _GAP
    placed = {(box.entity.registryid, box.entity.xid): box for box in boxes}
    drawn, heights = [], [y, 80]
    for column, x in ((left, _GAP), (right, _WIDTH - _GAP - _SIDE)):
        some, bottom = _endpoint_boxes(page_context, column, placed, x, limit)
        drawn += some
        heights.append(bottom)
    drawn = [box._replace(number=len(boxes) + at) for at, box in enumerate(drawn)]
    lines = [
        _line(box, placed[key])
        for box in drawn
        for key in sorted(neighbours.get((box.entity.registryid, box.entity.xid), ()))
        if key in placed
    ]
    return Drawn(_WIDTH, max(heights), drawn, boxes, lines)


def _limit(page_context: PageContext, entities: list[Entity], most: int) -> int:
    """Find how many messages of each group can be shown."""
    sizes = [len(page_context.overview.members[group.registryid, group.xid]) for group in entities]
    longest = max((len(path_of(entity.registryid, entity.xid)) for entity in entities), default=0) + 110
    for limit in (200, 120, 60, 30, 18, 9, 3):
        shown = sum(min(limit, size) for size in sizes)
        if shown + len(entities) <= most and (shown + len(entities)) * longest <= _MOST_BYTES:
            return limit
    return 0


def _group_box(page_context: PageContext, group: Entity, at: tuple[int, int], width: int, limit: int) -> Box:
    x, y = at
    members = page_context.overview.members[group.registryid, group.xid]
    shown = members[:limit]
    columns = _COLUMNS if width > 600 else 2 if width > 440 else 1
    step = (width - 2 * _PAD) // columns
    rows = ceil(len(shown) / columns)
    prefix = _common(last_id(group.xid), [message_xid.rpartition("/")[2] for message_xid in shown])
    nodes = [
        MapNode(
            xid, path_of(group.registryid, xid), _short(last_id(xid).removeprefix(prefix), step // 7 - 3),
            x + _PAD + step * (place // rows), y + _HEAD + _ROW * (place % rows) + 12,
            page_context.overview.family(group.registryid, xid),
        )
        for place, xid in enumerate(shown)
    ]  # fmt: skip
    more = len(members) - len(shown)
    note = f"{len(members)} message{'' if len(members) == 1 else 's'}" + (f", {more} not drawn" if more else "")
    name = _short(last_id(group.xid), (width - 170) // 8)
    height = _HEAD + _ROW * rows + (_PAD if rows else 0)
    return Box(group, path_of(group.registryid, group.xid), name, note, x, y, width, height, nodes)


def _endpoint_boxes(
    page_context: PageContext, endpoints: list[Entity], placed: dict[Key, Box], x: int, limit: int
) -> tuple[list[Box], int]:
    """Place a column of endpoints next to the middle of what they carry, from top to bottom; return the height, too."""
    neighbours = all_neighbours(page_context)

    def middle(endpoint: Entity) -> float:
        near = [placed[key] for key in neighbours.get((endpoint.registryid, endpoint.xid), ()) if key in placed]
        return sum(box.y + box.height / 2 for box in near) / len(near) if near else float("inf")

    results: list[Box] = []
    y = _GAP
    for endpoint in sorted(endpoints, key=lambda endpoint: (middle(endpoint), endpoint.xid)):
        centre = middle(endpoint)
        members = page_context.overview.members[endpoint.registryid, endpoint.xid][:limit]
        height = _ENDPOINT + 12 + (_ROW * len(members) + _PAD if members else 0)
        top = y if centre == float("inf") else max(y, int(centre - height / 2))
        nodes = [
            MapNode(
                xid, path_of(endpoint.registryid, xid), _short(last_id(xid), _LETTERS), x + _PAD,
                top + _ENDPOINT + 12 + _ROW * at + 12, page_context.overview.family(endpoint.registryid, xid),
            )
            for at, xid in enumerate(members)
        ]  # fmt: skip
        attributes = endpoint.attributes
        usage = ", ".join(role for role in attributes.get("usage") or [] if isinstance(role, str))
        note = " · ".join(text for text in (usage, attributes.get("protocol")) if isinstance(text, str) and text)
        name = _short(last_id(endpoint.xid), _LETTERS)
        path = path_of(endpoint.registryid, endpoint.xid)
        results.append(Box(endpoint, path, name, _short(note, 36), x, top, _SIDE, height, nodes))
        y = top + height + _GAP
    return results, y


def _line(endpoint: Box, group: Box) -> Line:
    """Draw a line between an endpoint and a group, from the left one to the right one."""
    is_left = endpoint.x < group.x
    sent, received = (is_endpoint_of(endpoint.entity, side) for side in ("producers", "consumers"))
    left, other = (endpoint, group) if is_left else (group, endpoint)
    x1, x2 = left.x + left.width, other.x
    y1, y2 = (box.y + min((_ENDPOINT if box is endpoint else _HEAD) // 2, box.height // 2) for box in (left, other))
    bend = (x2 - x1) // 2
    names = last_id(endpoint.entity.xid), last_id(group.entity.xid)
    words = [f"producers send {names[1]} to {names[0]}"] if sent else []
    words += [f"consumers receive {names[1]} from {names[0]}"] if received else []
    return Line(
        f"M{x1} {y1}C{x1 + bend} {y1} {x2 - bend} {y2} {x2} {y2}",
        "; ".join(words) or f"{names[0]} carries {names[1]}",  # a `usage` that the specification does not have
        (endpoint.number, group.number),
        to_right=sent if is_left else received,
        to_left=received if is_left else sent,
    )


def _common(groupid: str, ids: list[str]) -> str:
    """Return what the ids of a group begin with, as the group's own id does: it need not be said again."""
    for sep in (".", "-", "_", "/"):
        start = groupid + sep
        if ids and all(member_id.startswith(start) and len(member_id) > len(start) for member_id in ids):
            return start
    return ""


def _short(text: str, most: int) -> str:
    """Cut a text in the middle, where ids differ least."""
    most = max(8, most)
    return text if len(text) <= most else f"{text[: most // 2 - 1]}…{text[len(text) - (most - most // 2) :]}"
