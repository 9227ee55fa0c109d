"""The catalog becomes registry documents: rows of the log → lines on the executors → parts → files.

Read from `changes` alone, whose texts are exact, in one shuffle: each group's rows come together, sorted, and only the last of
each entity counts. What the executors write is joined by copying bytes; the driver holds no entity but the roots.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import orjson
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from lakehouse.documentview import COLLECTIONS, MEMBERS, Stored, Urls, as_bytes, registry_view, source_of_group
from lakehouse.errors import NothingToExport
from lakehouse.model import TABLE_OF_KIND
from lakehouse.serialise import LINES, TRAILER_DIGITS, Run, Style, Trailer, writer
from lakehouse.settings import Settings
from lakehouse.tables import attach_tables, table_name
from lakehouse.targets import Target, TargetFile

logger = logging.getLogger(__name__)

_ROWS_PER_TASK = 50_000
_FEWEST_ROWS_PER_TASK = 10_000
_MAX_TOLD = 20
_UNSAFE = re.compile(r"[^A-Za-z0-9_.\-/]")


@dataclass(frozen=True)
class Request:
    """What to export, and how.

    Attributes:
        out: file or folder, a path or a URI.
        registry: the registry; None: all of them, which is one file only when there is one registry.
        to_folder: `out` is a folder with a file for each registry, or with `style.by_group` for each group.
        style: how entities are written.
        snapshot_id: the catalog as of this snapshot; None: as it is.
    """

    out: str
    registry: str | None = None
    to_folder: bool = False
    style: Style = field(default_factory=Style)
    snapshot_id: int | None = None


@dataclass
class Exported:
    """What was written; `as_json` is the contract of `lakehouse export --json`."""

    out: str
    files: int = 0
    size: int = 0
    registries: list[str] = field(default_factory=list)
    groups: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COLLECTIONS, 0))
    members: dict[str, int] = field(default_factory=lambda: {"messages": 0, "schemas": 0})

    def as_json(self) -> dict[str, Any]:
        """Give the summary as one JSON value."""
        return {
            "out": self.out,
            "files": self.files,
            "bytes": self.size,
            "registries": self.registries,
            "entities": self.groups | self.members,
        }


def export(spark: SparkSession, settings: Settings, request: Request) -> Exported:
    """Write the catalog as registry documents.

    Raises:
        WarehouseError: the warehouse holds no catalog.
        NothingToExport: the catalog or the registry is empty; or it holds several registries, and one file was asked for.
        TargetError: the target cannot be written.
    """
    attach_tables(spark, settings, ["changes"])
    log = read_log(spark, request.snapshot_id)
    _check_registry(log, request)
    with Target(spark, request.out, is_folder=request.to_folder) as target:
        _write_parts(spark, log, request, target)
        parts = _Parts(target)
        if not parts.registries:
            raise NothingToExport("the catalog is empty. Load documents with `lakehouse ingest SOURCE`.")
        exported = _join(target, parts, request)
        target.publish()
    return exported


def read_log(spark: SparkSession, snapshot_id: int | None = None) -> DataFrame:
    """Read the rows of all entities up to a snapshot."""
    log = spark.table(table_name("changes")).filter(F.col("kind").isin(*TABLE_OF_KIND))
    return log if snapshot_id is None else log.filter(F.col("snapshot_id") <= snapshot_id)


def sorted_rows(log: DataFrame, partitions: int, *, with_raw: bool) -> DataFrame:
    """Bring each group's rows together, in the order in which they are written, the last row of each entity only.

    Args:
        log: rows of `changes`.
        partitions: how many tasks share them; they hold the groups in order.
        with_raw: keep all of `raw`, and not only where it tells how a date was written.

    Returns:
        Columns of `Stored` without leaves; dates in microseconds.
    """
    keyed = log.withColumns({"group_xid": F.substring_index("xid", "/", 3), "path": F.translate("xid", "/", "\u0001")})
    dated = F.col("raw").contains('createdat"') | F.col("raw").contains('modifiedat"')
    columns = {
        "createdat": F.unix_micros("createdat"),
        "modifiedat": F.unix_micros("modifiedat"),
        "raw": F.col("raw") if with_raw else F.when(dated, F.col("raw")),
    }
    wanted = ["registryid", "kind", "xid", "epoch", "createdat", "modifiedat", "body", "raw"]
    slim = keyed.withColumns(columns).select(*wanted, "op", "snapshot_id", "group_xid", "path")
    order = ["registryid", "group_xid", "path"]
    newest_first = Window.partitionBy(*order).orderBy(F.desc("snapshot_id"))
    return (
        slim.repartitionByRange(partitions, "registryid", "group_xid")
        .withColumn("nth", F.row_number().over(newest_first))
        .filter((F.col("nth") == 1) & (F.col("op") != "delete"))
        .sortWithinPartitions(*order)
        .select(*wanted)
    )


def _check_registry(log: DataFrame, request: Request) -> None:
    """Check that the registry is there, and that one file takes all that was asked for."""
    if request.registry is None and request.to_folder and not request.style.by_group:
        return
    found = log.select("registryid").distinct().orderBy("registryid").limit(_MAX_TOLD + 1).collect()
    known = [row["registryid"] for row in found]
    told = ", ".join(known[:_MAX_TOLD]) + (" ..." if len(known) > _MAX_TOLD else "")
    if not known:
        raise NothingToExport("the catalog is empty. Load documents with `lakehouse ingest SOURCE`.")
    if request.registry is None and len(known) > 1:
        raise NothingToExport(
            f"the catalog holds several registries ({told}). Choose one with --registry, or name a folder for a file of each."
        )
    if request.registry is not None and log.filter(F.col("registryid") == request.registry).isEmpty():
        raise NothingToExport(f"there is no registry {request.registry!r}. The catalog holds {told}.")


def _write_parts(spark: SparkSession, log: DataFrame, request: Request, target: Target) -> None:
    rows = log.count()
    cores = spark.sparkContext.defaultParallelism
    partitions = max(1, rows // _ROWS_PER_TASK, min(cores, rows // _FEWEST_ROWS_PER_TASK))
    wanted = log if request.registry is None else log.filter(F.col("registryid") == request.registry)
    ordered = sorted_rows(wanted, partitions, with_raw=request.style.source)
    ordered.mapInArrow(writer(request.style), LINES).write.mode("append").text(target.scratch)


class _Parts:
    """What stands in the parts: by registry its runs with the part of each, in order, and its root row."""

    def __init__(self, target: Target) -> None:
        self.runs: dict[str, list[tuple[str, Run]]] = {}
        self.roots: dict[str, Stored] = {}
        for part in target.parts():
            trailer = Trailer.parse(target.last_line(part, TRAILER_DIGITS))
            for run in trailer.runs:
                self.runs.setdefault(run.registryid, []).append((part, run))
            self.roots |= {root.registryid: root for root in trailer.roots}

    @property
    def registries(self) -> list[str]:
        return sorted({*self.runs, *self.roots})


def _join(target: Target, parts: _Parts, request: Request) -> Exported:
    """Write the files of a target out of the parts."""
    exported = Exported(request.out, registries=parts.registries)
    for registryid in parts.registries:
        runs = parts.runs.get(registryid, [])
        root = parts.roots.get(registryid)
        head = _head(registryid, root, [run for _, run in runs], request.style)
        for name, of_file in _files(registryid, runs, request.style):
            with target.file(name) as file:
                _write_document(file, head, of_file, request.style)
            exported.files += 1
            exported.size += file.size
        for _, run in runs:
            exported.groups[run.collection] += run.groups
            exported.members[MEMBERS[run.collection]] += run.members
    return exported


def _head(registryid: str, root: Stored | None, runs: list[Run], style: Style) -> bytes:
    if style.source:
        return source_of_group(root)
    lived = (min((run.created for run in runs), default=0), max((run.modified for run in runs), default=0))
    return as_bytes(registry_view(registryid, root, lived, Urls(style.base_url)))


def _files(registryid: str, runs: list[tuple[str, Run]], style: Style) -> Iterable[tuple[str, list[tuple[str, Run]]]]:
    """Give the files of a registry: name and what stands in it."""
    if not style.by_group or not runs:
        return [(_file_name(registryid), runs)]
    return [(_file_name(f"{run.collection}/{run.groupid}"), [(part, run)]) for part, run in runs]


def _file_name(path: str) -> str:
    """Make a file's name that every filesystem takes; no two ids make the same."""
    safe = _UNSAFE.sub(lambda found: "".join(f"%{byte:02X}" for byte in found[0].encode()), path)
    return re.sub(r"(\A|/)(?=[._])", lambda found: found[0] + "%", safe) + ".json"


def _write_document(file: TargetFile, head: bytes, runs: list[tuple[str, Run]], style: Style) -> None:
    """Write one document: the root's own attributes, and each collection with its URL and count."""
    separator = b"" if head == b"{}" else b","
    file.write(head[:-1])
    for collection in COLLECTIONS:
        own = [(part, run) for part, run in runs if run.collection == collection]
        if style.source and not own:
            continue
        url = b"" if style.source else b'"%surl":%s,' % (collection.encode(), orjson.dumps(Urls(style.base_url).of(collection)))
        file.write(separator + b'\n%s"%s":{' % (url, collection.encode()))
        for index, (part, run) in enumerate(own):
            file.write(b",\n" if index else b"\n")
            file.copy(part, run.offset, run.length)
        count = b"" if style.source else b',"%scount":%d' % (collection.encode(), sum(run.groups for _, run in own))
        file.write((b"\n}" if own else b"}") + count)
        separator = b","
    file.write(b"}\n")
