"""Two messages, or two schemas, side by side: attributes in effect, fields of the payload, and what the difference means."""

from __future__ import annotations

from typing import NamedTuple

from lakehouse.domain.diff import differences
from lakehouse.readmodel.queries import comparable_attributes
from lakehouse.readmodel.snapshotview import Entity
from lakehouse.site.addresses import TO, WITH, id_of_path_part, path_beside, path_of
from lakehouse.site.fields.listing import Field
from lakehouse.site.pagecontext import Page, PageContext
from lakehouse.site.schematext import Readable
from lakehouse.site.templating import shown
from lakehouse.text.names import Xid
from lakehouse.text.xid import last_id

_MOST_ROWS = 300


class Beside(NamedTuple):
    """A row: name, both texts (empty: that side has it not), whether they differ, and how deep a field is."""

    name: str
    first: str
    other: str
    differs: bool
    depth: int = 0


def other_of(page_context: PageContext, entity: Entity, of: str, query: str) -> Entity | None:
    """Find the second side: by the end of a path, or as a form names it: an XID, or an id, of the first by XID."""
    names = of.split(TO)
    xid = query.strip()
    if of and len(names) == 3:
        groups = (last_id(group) for registryid, group in page_context.overview.groups if registryid == entity.registryid)
        group = id_of_path_part(names[1], groups)
        group_xid = Xid(f"/{names[0]}/{group}")
        entityid = id_of_path_part(
            names[2],
            (last_id(member_xid) for member_xid in page_context.overview.members.get((entity.registryid, group_xid), ())),
        )
        xid = f"{group_xid}/{entity.xid.split('/')[3]}/{entityid}"
    elif xid and not xid.startswith("/"):
        of_registry = (xids for (registryid, _), xids in page_context.overview.members.items() if registryid == entity.registryid)
        xid = next(
            (
                member_xid
                for xids in of_registry
                for member_xid in xids
                if last_id(member_xid) == xid and member_xid != entity.xid
            ),
            "",
        )
    other = page_context.entity(entity.registryid, Xid(xid)) if xid.count("/") == 4 else None
    return other if other is not None and other.kind == entity.kind else None


def beside_page(
    page_context: PageContext, entity: Entity, other: Entity, schemas: tuple[Readable | None, Readable | None]
) -> Page:
    """Make the page that shows two messages or two schemas side by side.

    Args:
        page_context: of the snapshot.
        entity: the first, whose page it belongs to.
        other: the second, of the same kind and registry.
        schemas: of their payloads, or themselves; None: it is not in the catalog.
    """
    sides = [comparable_attributes(page_context.view, each) for each in (entity, other)]
    key = (entity.registryid, "message" if entity.kind == "message" else "schemaversion", entity.xid)
    judged = differences({key: sides[0]}, {key: sides[1]})
    pointers = sorted(sides[0].keys() | sides[1].keys())
    same = [Beside(name, shown(sides[0][name]), "", False) for name in pointers if sides[0].get(name) == sides[1].get(name)]
    return page_context.page(
        "sidebyside.html",
        path_beside(entity.registryid, entity.xid, other.xid),
        entity=entity,
        other=other,
        judged=judged[:_MOST_ROWS],
        more=max(0, len(judged) - _MOST_ROWS),
        same=same[:_MOST_ROWS],
        fields=_fields(*schemas),
    )


def choice_page(page_context: PageContext, entity: Entity, wanted: str) -> Page:
    """Make the page that asks what to compare with; wanted: what a form named, of which there is no entity of that kind."""
    path = path_of(entity.registryid, entity.xid, WITH)
    return page_context.page("sidebyside.html", path, entity=entity, other=None, wanted=wanted)


def _fields(first: Readable | None, other: Readable | None) -> list[Beside]:
    """Put the fields of two schemas side by side, by their paths."""
    sides = [_by_path(side.fields if side is not None else []) for side in (first, other)]
    rows = []
    for path in dict.fromkeys([*sides[0], *sides[1]]):
        texts = ["" if field is None else _text(field) for field in (sides[0].get(path), sides[1].get(path))]
        rows.append(Beside(".".join(path), texts[0], texts[1], texts[0] != texts[1], len(path) - 1))
    return rows[:_MOST_ROWS]


def _by_path(fields: list[Field]) -> dict[tuple[str, ...], Field]:
    results: dict[tuple[str, ...], Field] = {}
    within: list[str] = []
    for field in fields:
        within = [*within[: field.depth], field.name]
        results.setdefault(tuple(within), field)
    return results


def _text(field: Field) -> str:
    required = {True: "required", False: "optional", None: ""}[field.required]
    return ", ".join(part for part in (field.type, required, field.limits) if part)
