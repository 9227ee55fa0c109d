"""The definitions of a snapshot, read without Spark: the one place that knows where they stand.

It reads the tables `effective_messages`, `schemaversions`, `endpoints` and `groups` with deltalake. The read model is to take
its place.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from lakehouse.errors import LakehouseError, SettingsError, WarehouseError
from lakehouse.match.payload.schemas import SchemaVersion

MESSAGE_COLUMNS = ("registryid", "xid", "group_xid", "version_xid", "chain_status", "envelope", "protocol", "dataschemaformat",
                   "schema_xid", "dataschemauri", "attributes", "inferred", "depends_on")  # fmt: skip
SCHEMA_COLUMNS = ("registryid", "xid", "schema_xid", "isdefault", "format", "schema")
_ENDPOINT_COLUMNS = ("registryid", "xid", "protocol", "protocoloptions", "messagegroups")
_OWN_OPTIONS = ("topic", "key")  # of an endpoint, which apply to what it carries (END-177, END-183)


@dataclass
class Catalog:
    """What is matched with.

    Attributes:
        messages: rows of definitions, as `definition_of` takes them.
        schemas: Versions of schemas.
        snapshot_id: the snapshot that they are of.
    """

    messages: list[dict[str, Any]] = field(default_factory=list)
    schemas: list[SchemaVersion] = field(default_factory=list)
    snapshot_id: int = 0


@dataclass(frozen=True)
class Scope:
    """Whose messages are candidates; nothing given: all of the catalog.

    Attributes:
        registry: of this registry only.
        group: XID of a message group.
        endpoint: XID of an endpoint: its own messages, and those of the groups that it carries.
    """

    registry: str | None = None
    group: str | None = None
    endpoint: str | None = None

    @property
    def is_narrow(self) -> bool:
        """Tell that an endpoint or a group is asked."""
        return bool(self.group or self.endpoint)


def read_catalog(warehouse: str, scope: Scope) -> Catalog:
    """Read the definitions of the head of a warehouse.

    Raises:
        WarehouseError: there is no catalog.
        SettingsError: the scope names what is not there.
    """
    messages = read_rows(warehouse, "effective_messages", MESSAGE_COLUMNS)
    versions = read_rows(warehouse, "schemaversions", SCHEMA_COLUMNS)
    endpoints = read_rows(warehouse, "endpoints", _ENDPOINT_COLUMNS) if scope.endpoint else []
    rows = in_scope([{**row, **_as_maps(row)} for row in messages], endpoints, scope)
    schemas = [SchemaVersion(*(row[name] for name in SCHEMA_COLUMNS)) for row in versions]
    return Catalog(rows, schemas, _head(warehouse))


def in_scope(messages: list[dict[str, Any]], endpoints: list[dict[str, Any]], scope: Scope) -> list[dict[str, Any]]:
    """Narrow definitions to a scope; what an endpoint adds stands in `endpoint`.

    Raises:
        SettingsError: the scope names what is not there.
    """
    if scope.registry:
        messages = [row for row in messages if row["registryid"] == scope.registry]
        if not messages:
            raise SettingsError(f"--registry {scope.registry}: the catalog holds no message of such a registry.")
    if scope.group:
        messages = [row for row in messages if row["group_xid"] == scope.group]
        if not messages:
            raise SettingsError(
                f"--group {scope.group}: the catalog holds no message of such a group. It is an XID: /messagegroups/ID."
            )
    if scope.endpoint:
        found = [one for one in endpoints if one["xid"] == scope.endpoint and scope.registry in (None, "", one["registryid"])]
        if not found:
            raise SettingsError(f"--endpoint {scope.endpoint}: the catalog holds no such endpoint. It is an XID: /endpoints/ID.")
        carried = {
            (one["registryid"], via): own_options(one) for one in found for via in (one["xid"], *(one["messagegroups"] or ()))
        }
        messages = [
            row | {"endpoint": carried[row["registryid"], row["group_xid"]]}
            for row in messages
            if (row["registryid"], row["group_xid"]) in carried
        ]
    return messages


def own_options(endpoint: dict[str, Any]) -> dict[str, str]:
    """Give what an endpoint says where its messages say nothing: protocol, and Kafka's topic and key."""
    found: dict[str, str] = {}
    if endpoint["protocol"]:
        found["/protocol"] = orjson.dumps(endpoint["protocol"]).decode()
        if endpoint["protocol"].upper().startswith("KAFKA"):
            options = orjson.loads(endpoint["protocoloptions"] or "{}")
            texts = {name: options[name] for name in _OWN_OPTIONS if isinstance(options.get(name), str)}
            found |= {f"/protocoloptions/{name}/value": orjson.dumps(text).decode() for name, text in texts.items()}
    return found


def read_rows(warehouse: str, table: str, columns: tuple[str, ...]) -> list[dict[str, Any]]:
    """Read columns of a table of the head.

    Raises:
        WarehouseError: there is no catalog.
    """
    try:
        from deltalake import DeltaTable
        from deltalake.exceptions import TableNotFoundError
    except ModuleNotFoundError as error:
        raise LakehouseError("one event is matched without Spark, which needs deltalake: pip install deltalake==1.6.6") from error
    place = warehouse if "://" in warehouse else str(Path(warehouse).absolute())
    try:
        found: list[dict[str, Any]] = DeltaTable(f"{place}/{table}").to_pyarrow_table(columns=list(columns)).to_pylist()
    except TableNotFoundError as error:
        raise WarehouseError(
            f"{warehouse} holds no catalog (no table {table}). Load documents with `lakehouse ingest SOURCE`."
        ) from error
    return found


def _as_maps(row: dict[str, Any]) -> dict[str, Any]:
    """Arrow gives a map as a list of pairs."""
    return {name: dict(row[name] or ()) for name in ("attributes", "inferred")}


def _head(warehouse: str) -> int:
    snapshots = read_rows(warehouse, "changes", ("snapshot_id",))
    return max((row["snapshot_id"] for row in snapshots), default=0)
