"""Which entities an export of a few takes along, so that it is complete: what they hold and what they refer to.

A unit is a group, an endpoint, a message or a schema; the latter two with their Versions. Followed are `basemessage`, `xref`,
`dataschemaxid`, `dataschemauri`, an endpoint's `messagegroups` and `willmessage`; what is not in the registry is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from lakehouse.errors import NothingToExport, RegistryNotFound
from lakehouse.store.xids import group_of, message_of, named_entities, no_uris, spelled_xid
from lakehouse.text.documentnames import is_document
from lakehouse.text.names import RegistryId, Xid

MOST_PROBLEMS = 20
_UNITS = ("group", "endpoint", "message", "schema")
_REFERENCES = {
    "message": ("$.xref",),
    "schema": ("$.xref",),
    "version": ("$.basemessage", "$.dataschemaxid", "$.dataschemauri"),
    "endpoint": ("$.protocoloptions.willmessage",),
}


@dataclass(frozen=True)
class Selection:
    """What is exported.

    Attributes:
        log: the rows of it, with the root and the groups that hold it.
        added: how many units were added, by kind.
        added_first: XIDs of the first ones.
    """

    log: DataFrame
    added: dict[str, int] = field(default_factory=dict)
    added_first: list[str] = field(default_factory=list)


def select_units(log: DataFrame, xids: list[Xid]) -> Selection:
    """Choose units, what they hold and what they refer to.

    Args:
        log: rows of `changes` of one registry.
        xids: groups, endpoints, messages or schemas.

    Raises:
        NothingToExport: one of them is not in the registry.
    """
    state = current_rows(log).select("kind", "xid", "body").localCheckpoint()
    units = state.filter(F.col("kind").isin(*_UNITS)).select("kind", "xid").localCheckpoint()
    edges = edges_of(state).join(units.select(F.col("xid").alias("target")), on="target", how="left_semi").localCheckpoint()
    named = units.filter(F.col("xid").isin(*xids)).select("xid")
    _check_in_registry(named, xids)
    chosen = named.localCheckpoint()
    frontier = chosen
    while not frontier.isEmpty():
        reached = edges.join(frontier.select(F.col("xid").alias("source")), on="source", how="left_semi")
        targets = reached.select(F.col("target").alias("xid")).distinct()
        frontier = targets.join(chosen, on="xid", how="left_anti").localCheckpoint()
        chosen = chosen.unionByName(frontier).localCheckpoint()
    own = F.col("xid").isin(*xids) | group_of("xid").isin(*xids)
    added = units.join(chosen, on="xid", how="left_semi").filter(~own).localCheckpoint()
    counts = {row["kind"]: row["count"] for row in added.groupBy("kind").count().orderBy("kind").collect()}
    details = [row["xid"] for row in added.orderBy("xid").limit(MOST_PROBLEMS).collect()]
    groups = chosen.select(group_of("xid").alias("xid"))
    wanted = chosen.unionByName(groups).distinct().withColumnRenamed("xid", "unit")
    selected = log.withColumn("unit", message_of("xid")).join(wanted, on="unit", how="left_semi").drop("unit")
    return Selection(selected.unionByName(log.filter(F.col("kind") == "registry")), counts, details)


def current_rows(log: DataFrame) -> DataFrame:
    """Keep the last row of each entity, unless that deleted it."""
    newest_first = Window.partitionBy("registryid", "xid").orderBy(F.desc("snapshot_id"))
    numbered = log.withColumn("nth", F.row_number().over(newest_first))
    return numbered.filter((F.col("nth") == 1) & (F.col("op") != "delete")).drop("nth")


def edges_of(state: DataFrame) -> DataFrame:
    """Return the edges from unit to unit.

    Args:
        state: one row per entity; columns kind, xid, body.

    Returns:
        source, target: a group and each member, or what a unit refers to; a target need not be there, and of a reference that
        may be read in two ways both are given.
    """
    members = state.filter(F.col("kind").isin("message", "schema"))
    members_of_groups = members.select(group_of("xid").alias("source"), F.col("xid").alias("target"))
    return members_of_groups.unionByName(references_of(state)).distinct()


def references_of(state: DataFrame, *also: str) -> DataFrame:
    """Return what units refer to.

    Args:
        state: one row per entity; columns kind, xid, body.
        also: more columns of it to keep.

    Returns:
        One row per reading of a reference, which may come several times: `also`, source and target, both XIDs of units.
    """
    named = [
        F.when((F.col("kind") == kind) & F.col("body").contains(f'"{path.rpartition(".")[2]}":'), F.get_json_object("body", path))
        for kind, paths in _REFERENCES.items()
        for path in paths
    ]
    lists = F.when(F.col("kind") == "endpoint", F.from_json(F.get_json_object("body", "$.messagegroups"), "array<string>"))
    written = F.explode(F.concat(F.array_compact(F.array(*named)), F.coalesce(lists, no_uris())))
    referring = state.select(*also, message_of("xid").alias("source"), written.alias("written"))
    readings = F.transform(named_entities(spelled_xid("written")), message_of)
    return referring.select(*also, "source", F.explode(readings).alias("target"))


def _check_in_registry(named: DataFrame, xids: list[Xid]) -> None:
    result = {row["xid"] for row in named.collect()}
    refuse_unknown([xid for xid in xids if xid not in result])


_MOST_DETAILS = 20


class ExportChoice(NamedTuple):
    """The registry to export, None: all of them; and whether the target is a folder."""

    registryid: RegistryId | None
    to_folder: bool


def choose_registry(
    registryids: Iterable[RegistryId], registryid: RegistryId | None, out: str, *, to_folder: bool, is_selected: bool
) -> ExportChoice:
    """Choose what is exported. Several registries need a folder: a target that is not named like a document becomes one.

    Args:
        registryids: registries of the catalog.
        registryid: the one that was named.
        out: the target.
        to_folder: the target was named as a folder.
        is_selected: only some entities are exported, which are those of one registry.

    Raises:
        NothingToExport: there is none, or not one when one is needed.
    """
    existing = sorted(registryids)
    message = ", ".join(existing[:_MOST_DETAILS]) + (" ..." if len(existing) > _MOST_DETAILS else "")
    if not existing:
        raise NothingToExport("the catalog is empty. Load documents with `lakehouse ingest SOURCE`.")
    if registryid is not None:
        if registryid not in existing:
            raise RegistryNotFound(registryid, existing)
        return ExportChoice(registryid, to_folder)
    if len(existing) == 1:
        return ExportChoice(existing[0], to_folder)
    if is_selected or (not to_folder and is_document(out)):
        raise NothingToExport(
            f"the catalog holds several registries ({message}). Choose one with --registry, or name a folder for a file of each."
        )
    return ExportChoice(None, True)


def refuse_unknown(missing: Sequence[Xid]) -> None:
    """Refuse a selection of what the registry does not hold.

    Raises:
        NothingToExport: something is missing.
    """
    if missing:
        raise NothingToExport(
            f"there is no group, endpoint, message or schema {', '.join(missing)} in the registry. "
            "Write XIDs as /messagegroups/<id>/messages/<id>."
        )
