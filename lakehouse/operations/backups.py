"""Backups: the log and the findings, copied in parts into another folder; all else is made again from them.

A backup goes up to one snapshot, so it is consistent whatever an ingest does meanwhile. The next one adds only the snapshots
that came since. Each part is read back and its digests are computed again before the manifest that names it is written, and
again before anything is restored.

    DIR/parts/<part>/...                     rows of `changes`, and of `violations`, as Parquet
    DIR/manifests/backup-<snapshot>.json     the parts of one backup, written last
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import reduce
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.errors import BackupError, NoBackup, WarehouseTaken
from lakehouse.log.commits import read_head
from lakehouse.log.projections import roll_forward
from lakehouse.log.snapshotfacts import APPLICATION
from lakehouse.operations.digestcheck import Link, check_chain
from lakehouse.settings import Settings
from lakehouse.store.deltatables import SCHEMA_VERSION, attach_tables, create_tables, table_name
from lakehouse.store.durable import sync_tree
from lakehouse.store.files import list_folder, read_text, replace_text
from lakehouse.store.localpaths import local_path, no_glob
from lakehouse.store.materialize import no_rows
from lakehouse.store.schema import CHANGES, VIOLATIONS
from lakehouse.store.session import absolute_location
from lakehouse.store.tablelog import sync_table
from lakehouse.version import VERSION

_PART = re.compile(r"changes-[0-9]{9,}-[0-9]{9,}-[0-9a-f]{8}")
_FINDINGS = re.compile(r"violations-[0-9]{9,}-[0-9a-f]{8}")


@dataclass(frozen=True)
class Manifest:
    """What one backup consists of.

    Attributes:
        snapshot_id, digest: the snapshot that it goes up to.
        parts: folders below `parts` with rows of `changes`, oldest first.
        findings: folders below `parts` with rows of `violations`.
        rows: rows of `changes` in all.
        findings_count: rows of `violations` in all.
        product_version, schema_version: what wrote it.
    """

    snapshot_id: int = 0
    digest: str = ""
    parts: list[str] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)
    rows: int = 0
    findings_count: int = 0
    product_version: str = VERSION
    schema_version: int = SCHEMA_VERSION

    def as_json(self) -> dict[str, Any]:
        """Return the manifest as it is written."""
        return asdict(self)


def backup(spark: SparkSession, settings: Settings, folder: str) -> Manifest:
    """Copy what came since the last backup into a folder, and verify the copy.

    Args:
        spark: the session.
        settings: the warehouse.
        folder: folder or URI; the backups of one catalog go into the same.

    Returns:
        What the folder holds now; the manifest of no snapshot where the catalog has none: then nothing is written.

    Raises:
        BackupError: the folder holds backups of another catalog, or the copy is not what was committed.
    """
    attach_tables(spark, settings, ["changes", "violations"])
    head, last, place = read_head(spark), read_manifest(spark, folder), absolute_location(folder)
    log = spark.table(table_name("changes"))
    _check_same_catalog(log, last, head.snapshot_id, folder)
    if not head.snapshot_id:
        return last
    parts, findings = list(last.parts), list(last.findings)
    rows, count = last.rows, last.findings_count
    if head.snapshot_id > last.snapshot_id:
        name = f"changes-{last.snapshot_id + 1:09}-{head.snapshot_id:09}-{uuid.uuid4().hex[:8]}"
        added = log.filter((F.col("snapshot_id") > last.snapshot_id) & (F.col("snapshot_id") <= head.snapshot_id))
        added.write.parquet(f"{place}/parts/{name}")
        copy = _read(spark, place, [name], CHANGES)
        _verify(copy, Link(last.snapshot_id, last.digest), Link(head.snapshot_id, head.digest), name)
        parts.append(name)
        rows += copy.count()
    # Findings are recorded before the commit that they belong to: those of the snapshots above are all there now.
    backed_up = _read(spark, place, findings, VIOLATIONS).select("violation_id")
    new = spark.table(table_name("violations")).join(backed_up, on="violation_id", how="left_anti")
    if new.take(1):
        name = f"violations-{head.snapshot_id:09}-{uuid.uuid4().hex[:8]}"
        new.select(*VIOLATIONS.names).write.parquet(f"{place}/parts/{name}")
        findings.append(name)
        count += _read(spark, place, [name], VIOLATIONS).count()
    made = Manifest(head.snapshot_id, head.digest, parts, findings, rows, count)
    if made != last:
        local = local_path(place) if settings.sync else None
        if local is not None:
            sync_tree(local / "parts")
        replace_text(spark, f"{place}/manifests/backup-{head.snapshot_id:09}.json", json.dumps(made.as_json(), indent=1))
        if local is not None:
            sync_tree(local / "manifests")
    return made


def restore(spark: SparkSession, settings: Settings, folder: str) -> Manifest:
    """Make a catalog in an empty warehouse out of the newest backup in a folder, verified before anything is written.

    Snapshots, labels, digests and findings are those of the catalog that was backed up.

    Raises:
        BackupError: there is no backup, it is damaged, or the warehouse holds snapshots already.
    """
    place, manifest = absolute_location(folder), read_manifest(spark, folder)
    if manifest.snapshot_id == 0:
        raise NoBackup(folder)
    with _readable(folder):
        _check_parts(spark, place, [*manifest.parts, *manifest.findings])
        rows = _read(spark, place, manifest.parts, CHANGES)
        _verify(rows, Link(), Link(manifest.snapshot_id, manifest.digest), folder)
        result = _read(spark, place, manifest.findings, VIOLATIONS)
        if (counted := result.count()) != manifest.findings_count:
            raise BackupError(f"{folder} holds {counted} findings instead of {manifest.findings_count}. Restore another backup.")
    create_tables(spark, settings)
    if read_head(spark).snapshot_id:
        raise WarehouseTaken(settings.warehouse)
    findings = result.join(spark.table(table_name("violations")).select("violation_id"), on="violation_id", how="left_anti")
    findings.select(*VIOLATIONS.names).write.format("delta").mode("append").saveAsTable(table_name("violations"))
    details = json.dumps({"snapshot_id": manifest.snapshot_id, "command": "restore"})
    writer = rows.select(*CHANGES.names).write.format("delta").mode("append").option("userMetadata", details)
    writer = writer.option("txnAppId", APPLICATION).option("txnVersion", manifest.snapshot_id)
    writer.saveAsTable(table_name("changes"))
    for name in ("violations", "changes"):
        sync_table(spark, settings, name)
    head = read_head(spark)
    if (head.snapshot_id, head.digest) != (manifest.snapshot_id, manifest.digest):
        raise BackupError(f"another process committed snapshot {head.snapshot_id} to {settings.warehouse} meanwhile.")
    roll_forward(spark, head, settings=settings)
    return manifest


def read_manifest(spark: SparkSession, folder: str) -> Manifest:
    """Read the newest manifest of a folder; one of no snapshot when there is none. One that was cut off is passed over.

    Raises:
        BackupError: it is whole, and not one that `backup` writes.
    """
    listed = list_folder(spark, f"{absolute_location(folder)}/manifests")
    paths = sorted((path for path, _, _ in listed if path.endswith(".json")), reverse=True)
    read = (parse_manifest(read_text(spark, path, checksums=False), path) for path in paths)
    return next((result for result in read if result is not None), Manifest())


def parse_manifest(text: str, path: str) -> Manifest | None:
    """Read a manifest; None for one that was cut off while it was written: the one before counts.

    Args:
        text: of the file.
        path: of the file, for the error.

    Raises:
        BackupError: it is whole, and not one that `backup` writes: the names of parts are names, no paths and no patterns.
    """
    try:
        details = json.loads(text)
    except (ValueError, RecursionError):
        return None
    version = details.get("schema_version") if isinstance(details, dict) else None
    if type(version) is int and version > SCHEMA_VERSION:
        raise BackupError(f"{path} was made by a newer release ({details.get('product_version')}). Install that.")
    wanted = Manifest().as_json()
    wrong = "" if isinstance(details, dict) and details.keys() == wanted.keys() else "its members are not those of a manifest"
    for name, value in wanted.items() if not wrong else ():
        if type(details[name]) is not type(value) or (isinstance(value, int) and details[name] < 0):
            wrong = f"`{name}` is {json.dumps(details[name])[:100]}"
    for name, pattern in (("parts", _PART), ("findings", _FINDINGS)) if not wrong else ():
        odd = [
            name_of_part
            for name_of_part in details[name]
            if not (isinstance(name_of_part, str) and pattern.fullmatch(name_of_part))
        ]
        wrong = wrong or (f"`{name}` holds {json.dumps(odd[0])[:100]}, which names no part of a backup" if odd else "")
    if wrong:
        raise BackupError(
            f"{path} is not a manifest that `lakehouse backup` wrote: {wrong}. Restore another backup, or delete it."
        )
    return Manifest(**details)


@contextmanager
def _readable(folder: str) -> Iterator[None]:
    """Report what Spark cannot read of a backup as a fault of the backup."""
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        details = str(error).splitlines()[0][:300]
        raise BackupError(f"{folder}: the backup cannot be read ({details}). Restore another one.") from error


def _check_parts(spark: SparkSession, place: str, names: list[str]) -> None:
    """Check that the parts are there, and in the folder: no link leads elsewhere.

    Raises:
        BackupError: it is not so.
    """
    for name in names:
        if not list_folder(spark, f"{place}/parts/{name}"):
            raise BackupError(f"{place} does not hold {name}, which its manifest names. Restore another backup.")
        local = local_path(f"{place}/parts/{name}")
        linked = next((path for path in [local.parent, local, *local.rglob("*")] if path.is_symlink()), None) if local else None
        if linked is not None:
            raise BackupError(f"{linked} is a link; a backup holds its files itself. Copy them there, or restore another one.")


def _check_same_catalog(log: DataFrame, last: Manifest, head_id: int, folder: str) -> None:
    if last.snapshot_id == 0:
        return
    rows = log.filter((F.col("snapshot_id") == last.snapshot_id) & (F.col("kind") == "snapshot")).select("body").collect()
    if last.snapshot_id > head_id or [json.loads(row["body"])["digest"] for row in rows] != [last.digest]:
        raise BackupError(
            f"{folder} holds backups of another catalog, or this one lost snapshots (`lakehouse doctor` reports it). "
            "Name another folder."
        )


def _verify(rows: DataFrame, before: Link, wanted: Link, name: str) -> None:
    last, problems = check_chain(rows, before, deep=True)
    if problems or last != wanted:
        details = "; ".join(problems) or f"it ends at snapshot {last.snapshot_id} instead of {wanted.snapshot_id}"
        raise BackupError(f"{name} is not what was committed: {details}")


def _read(spark: SparkSession, place: str, names: list[str], schema: Any) -> DataFrame:
    parts = [spark.read.schema(schema).parquet(no_glob(f"{place}/parts/{name}")) for name in names]
    return reduce(DataFrame.unionByName, parts) if parts else no_rows(spark, schema)
