"""Where stages are kept while an ingest runs, and how those of dead runs go."""

from __future__ import annotations

import time
from typing import Any

from pyspark.sql import SparkSession

from lakehouse.errors import WarehouseError
from lakehouse.settings import Settings
from lakehouse.store.jvm import java_class
from lakehouse.store.places import STAGES
from lakehouse.store.session import absolute_location


def stages_location(settings: Settings) -> str:
    """Give the folder in which each run has a folder of its own."""
    return f"{absolute_location(settings.warehouse)}/{STAGES}"


def remove_dead_stages(spark: SparkSession, settings: Settings) -> None:
    """Remove stages that are older than `stage_retention_hours`: their runs have died."""
    for stage in dead_stages(spark, settings):
        remove_folder(spark, stage)


def dead_stages(spark: SparkSession, settings: Settings) -> list[str]:
    """List the stages that are older than `stage_retention_hours`."""
    oldest = time.time() - settings.stage_retention_hours * 3600
    return [path for path, _, modified in list_folder(spark, stages_location(settings)) if modified < oldest]


def open_path(spark: SparkSession, location: str) -> tuple[Any, Any]:
    """Give a location as Hadoop's path, and the filesystem that it is of."""
    jvm: Any = spark._jvm
    path = java_class(jvm, "org.apache.hadoop.fs.Path")(location)
    return path, path.getFileSystem(spark._jsc.hadoopConfiguration())


def exists(spark: SparkSession, location: str) -> bool:
    """Tell whether there is a file or folder."""
    path, filesystem = open_path(spark, location)
    return bool(filesystem.exists(path))


def remove_folder(spark: SparkSession, location: str) -> None:
    """Remove a folder and what is in it."""
    path, filesystem = open_path(spark, location)
    filesystem.delete(path, True)


def list_folder(spark: SparkSession, location: str) -> list[tuple[str, int, float]]:
    """List a folder: path, size in bytes and time of change of each member; nothing when there is no folder."""
    path, filesystem = open_path(spark, location)
    if not filesystem.exists(path):
        return []
    return [
        (str(status.getPath().toString()), int(status.getLen()), status.getModificationTime() / 1000)
        for status in filesystem.listStatus(path)
    ]


def folder_size(spark: SparkSession, location: str) -> tuple[int, int]:
    """Count the files below a folder and their bytes; nothing when there is no folder."""
    path, filesystem = open_path(spark, location)
    if not filesystem.exists(path):
        return 0, 0
    told = filesystem.getContentSummary(path)
    return int(told.getFileCount()), int(told.getLength())


def move_folder(spark: SparkSession, location: str, target: str) -> None:
    """Move a folder to a place whose parent is made when it is missing; does nothing when there is no folder.

    Raises:
        WarehouseError: the filesystem did not move it.
    """
    path, filesystem = open_path(spark, location)
    wanted, _ = open_path(spark, target)
    if not filesystem.exists(path):
        return
    # Hadoop's filesystems answer so when they could not, and not all of them raise an error.
    if not (filesystem.mkdirs(wanted.getParent()) and filesystem.rename(path, wanted)):
        raise WarehouseError(f"{location} could not be moved to {target}. Move or delete it by hand.")


def read_text(spark: SparkSession, location: str) -> str:
    """Read a small text file."""
    path, filesystem = open_path(spark, location)
    stream = filesystem.open(path)
    try:
        jvm: Any = spark._jvm
        return bytes(java_class(jvm, "org.apache.commons.io.IOUtils").toByteArray(stream)).decode()
    finally:
        stream.close()


def write_text(spark: SparkSession, location: str, text: str) -> None:
    """Write a small text file, over the one that is there."""
    path, filesystem = open_path(spark, location)
    stream = filesystem.create(path, True)
    try:
        stream.write(bytearray(text.encode()))
    finally:
        stream.close()


def is_local(filesystem: Any) -> bool:
    """Tell the local filesystem; not each of them tells its scheme, but all know their URI."""
    return str(filesystem.getUri().getScheme()) == "file"
