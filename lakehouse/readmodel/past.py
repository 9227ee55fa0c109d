"""Effective definitions of a past snapshot, out of Delta's history of `effective_messages`: as long as Delta keeps it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from lakehouse.errors import WarehouseError
from lakehouse.readmodel.file import rows
from lakehouse.readmodel.file.delta import dataset, positions
from lakehouse.readmodel.file.schema import EFFECTIVE_COLUMNS, decoded

if TYPE_CHECKING:
    from lakehouse.readmodel.view import View


def past_definitions(
    view: View, defined: int, registryid: str | None, group_xid: str | None, xids: list[str] | None
) -> Iterator[dict[str, Any]]:
    """Read definitions as they were at the view's snapshot, by registry and XID.

    Args:
        view: the snapshot.
        defined: the last snapshot up to it that changed a message; a version of the table that stands between it and the next
            such snapshot holds what is wanted.
        registryid: only of this registry; None: of all.
        group_xid: only of this group or endpoint; None: of all.
        xids: only these messages; None: all.

    Raises:
        DefinitionsGone: there is no such version any more, or its files are gone.
    """
    import pyarrow.dataset as ds

    if defined == 0:
        return
    warehouse = view.model.warehouse
    fitting = [
        version
        for version, position in positions(warehouse.open("effective_messages"))
        if defined <= position <= view.head and view.last_defining(position) == defined
    ]
    if not fitting:
        raise view.gone()
    condition: Any = None
    for name, value in (("registryid", registryid), ("group_xid", group_xid)):
        if value is not None:
            one = ds.field(name) == value
            condition = one if condition is None else condition & one
    if xids is not None:
        one = ds.field("xid").isin(xids)
        condition = one if condition is None else condition & one
    try:
        table = warehouse.open("effective_messages", fitting[0])
        found = dataset(table).to_table(columns=list(EFFECTIVE_COLUMNS), filter=condition)
    except (WarehouseError, OSError) as error:  # a file that VACUUM deleted, a log that was cleaned up
        raise view.gone() from error
    for batch in found.sort_by([("registryid", "ascending"), ("xid", "ascending")]).to_batches():
        for row in rows.effective_rows(batch):
            yield decoded(row)
