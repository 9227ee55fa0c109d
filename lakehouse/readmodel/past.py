"""Effective definitions of a past snapshot, out of Delta's history of `effective_messages`: as long as Delta keeps it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from lakehouse.errors import DefinitionsGone, WarehouseError
from lakehouse.readmodel.file import rows
from lakehouse.readmodel.file.delta import Warehouse, batches, positions
from lakehouse.readmodel.file.schema import EFFECTIVE_COLUMNS, decoded
from lakehouse.text.names import RegistryId, Xid

if TYPE_CHECKING:
    import pyarrow as pa

_TABLE = "effective_messages"


class Wanted(NamedTuple):
    """The definitions of a snapshot.

    Attributes:
        snapshot_id: the snapshot.
        is_held_at: whether the table held them when it had reached another snapshot.
    """

    snapshot_id: int
    is_held_at: Callable[[int], bool]


class Past:
    """The history of `effective_messages` in a warehouse."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse

    def definitions(
        self, wanted: Wanted, registryid: RegistryId | None, group_xid: Xid | None, xids: list[Xid] | None
    ) -> Iterator[dict[str, Any]]:
        """Read definitions as they were at a snapshot, by registry and XID.

        Args:
            wanted: the snapshot's.
            registryid: only of this registry; None: of all.
            group_xid: only of this group or endpoint; None: of all.
            xids: only these messages; None: all.

        Raises:
            DefinitionsGone: there is no such version of the table any more, or its files are gone.
        """
        import pyarrow as pa

        given = (("registryid", registryid), ("group_xid", group_xid))
        where: dict[str, Sequence[str]] = {name: [value] for name, value in given if value is not None}
        if xids is not None:
            where["xid"] = xids
        found = self._read(wanted, where)
        if not found:
            return
        for batch in pa.Table.from_batches(found).sort_by([("registryid", "ascending"), ("xid", "ascending")]).to_batches():
            for row in rows.effective_rows(batch):
                yield decoded(row)

    def _read(self, wanted: Wanted, where: dict[str, Sequence[str]]) -> list[pa.RecordBatch]:
        """Read rows of the version of the table that holds what is wanted."""
        held = (version for version, position in positions(self._warehouse.open(_TABLE)) if wanted.is_held_at(position))
        version = next(held, None)
        if version is None:
            raise DefinitionsGone(wanted.snapshot_id)
        try:
            return list(batches(self._warehouse.open(_TABLE, version), EFFECTIVE_COLUMNS, where=where))
        except (WarehouseError, OSError) as error:  # a file that VACUUM deleted, a log that was cleaned up
            raise DefinitionsGone(wanted.snapshot_id) from error
