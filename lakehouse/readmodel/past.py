"""Effective definitions of a past snapshot, out of Delta's history of `effective_messages`: as long as Delta keeps it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from lakehouse.errors import WarehouseError
from lakehouse.readmodel.file import rows
from lakehouse.readmodel.file.delta import batches, positions
from lakehouse.readmodel.file.schema import EFFECTIVE_COLUMNS, decoded
from lakehouse.text.names import RegistryId, Xid

if TYPE_CHECKING:
    import pyarrow as pa

    from lakehouse.readmodel.view import View


def past_definitions(
    view: View, defined: int, registryid: RegistryId | None, group_xid: Xid | None, xids: list[Xid] | None
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
    import pyarrow as pa

    given = (("registryid", registryid), ("group_xid", group_xid))
    where: dict[str, Sequence[str]] = {name: [value] for name, value in given if value is not None}
    if xids is not None:
        where["xid"] = xids
    if defined == 0 or xids == []:
        return
    found = _read(view, defined, EFFECTIVE_COLUMNS, where=where)
    if not found:
        return
    for batch in pa.Table.from_batches(found).sort_by([("registryid", "ascending"), ("xid", "ascending")]).to_batches():
        for row in rows.effective_rows(batch):
            yield decoded(row)


def past_computed(view: View, defined: int, above: int) -> list[tuple[RegistryId, Xid]]:
    """List the messages, by registryid and XID, whose definition at the view's snapshot was computed after another snapshot.

    Args:
        view: the snapshot.
        defined: as for `past_definitions`.
        above: the other snapshot.

    Raises:
        DefinitionsGone: as for `past_definitions`.
    """
    if defined == 0:
        return []
    found = _read(view, defined, ("registryid", "xid", "snapshot_id"), above=above)
    return [(row["registryid"], row["xid"]) for batch in found for row in batch.to_pylist()]


def _read(view: View, defined: int, columns: tuple[str, ...], **which: Any) -> list[pa.RecordBatch]:
    """Read rows, as `batches` takes what is wanted, of the version of the table that holds it."""
    warehouse = view.model.warehouse
    fitting = [
        version
        for version, position in positions(warehouse.open("effective_messages"))
        if defined <= position <= view.head and view.last_defining(position) == defined
    ]
    if not fitting:
        raise view.gone()
    try:
        return list(batches(warehouse.open("effective_messages", fitting[0]), columns, **which))
    except (WarehouseError, OSError) as error:  # a file that VACUUM deleted, a log that was cleaned up
        raise view.gone() from error
