"""Where stages are kept while an ingest runs, and how those of dead runs go."""

from __future__ import annotations

import time
import uuid

from pyspark.sql import SparkSession

from lakehouse.errors import WarehouseError
from lakehouse.settings import Settings
from lakehouse.store.internals.hadoop import filesystem_of
from lakehouse.store.localpaths import STAGES
from lakehouse.store.session import absolute_location


def stages_location(settings: Settings) -> str:
    """Return the folder in which each run has a folder for its stage."""
    return f"{absolute_location(settings.warehouse)}/{STAGES}"


def remove_dead_stages(spark: SparkSession, settings: Settings) -> None:
    """Remove stages that are older than `stage_retention_hours`: their runs have died."""
    for stage in dead_stages(spark, settings):
        remove_folder(spark, stage)


def dead_stages(spark: SparkSession, settings: Settings) -> list[str]:
    """List the stages that are older than `stage_retention_hours`."""
    oldest = time.time() - settings.stage_retention_hours * 3600
    return [path for path, _, modified in list_folder(spark, stages_location(settings)) if modified < oldest]


def exists(spark: SparkSession, location: str) -> bool:
    """Return whether there is a file or folder."""
    return filesystem_of(spark, location).exists(location)


def remove_folder(spark: SparkSession, location: str) -> None:
    """Remove a folder and what is in it."""
    filesystem_of(spark, location).remove(location)


def list_folder(spark: SparkSession, location: str) -> list[tuple[str, int, float]]:
    """List a folder: path, size in bytes and time of change of each member; nothing when there is no folder."""
    return [(entry.uri, entry.size, entry.modified) for entry in filesystem_of(spark, location).members(location)]


def folder_size(spark: SparkSession, location: str) -> tuple[int, int]:
    """Count the files below a folder and their bytes; nothing when there is no folder."""
    return filesystem_of(spark, location).size_below(location)


def move_folder(spark: SparkSession, location: str, target: str) -> None:
    """Move a folder to a place whose parent is made when it is missing; does nothing when there is no folder.

    Raises:
        WarehouseError: the filesystem did not move it.
    """
    files = filesystem_of(spark, location)
    if not files.exists(location):
        return
    above = files.qualified(target).rpartition("/")[0]
    if not (files.make_folder(above) and files.rename(location, target)):
        raise WarehouseError(f"{location} could not be moved to {target}. Move or delete it by hand.")


def read_text(spark: SparkSession, location: str, *, checksums: bool = True) -> str:
    """Read a small text file.

    Args:
        spark: the session.
        location: of the file.
        checksums: as for `filesystem_of`; False: a local file that was cut off is read as far as it goes.
    """
    return filesystem_of(spark, location, checksums=checksums).read(location).decode()


def write_text(spark: SparkSession, location: str, text: str, *, checksums: bool = True) -> None:
    """Write a small text file, over the one that is there.

    Args:
        spark: the session.
        location: of the file.
        text: what it holds.
        checksums: as for `filesystem_of`.
    """
    stream = filesystem_of(spark, location, checksums=checksums).create(location)
    try:
        stream.write(text.encode())
    finally:
        stream.close()


def replace_text(spark: SparkSession, location: str, text: str) -> None:
    """Write a small text file whole or not at all, over the one that is there; without a checksum file of Hadoop.

    A local one is written under another name, and renamed. Object stores show a file once it is complete.

    Raises:
        WarehouseError: the filesystem did not rename it.
    """
    files = filesystem_of(spark, location, checksums=False)
    if not files.is_local:
        write_text(spark, location, text)
        return
    aside = f"{location}.{uuid.uuid4().hex}.part"
    write_text(spark, aside, text, checksums=False)
    above, _, name = location.rpartition("/")
    files.remove(f"{above}/.{name}.crc")  # which is of the file that was there
    if not files.rename(aside, location):
        raise WarehouseError(f"{aside} could not be renamed to {location}. Rename it by hand.")
