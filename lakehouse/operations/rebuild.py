"""Rebuild: the tables that follow the log, made again from it."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

from pyspark.sql import SparkSession

from lakehouse.errors import WarehouseError
from lakehouse.log import effectivetable
from lakehouse.log.commits import read_head
from lakehouse.log.projections import rebuild_effective, rebuild_table, roll_forward
from lakehouse.operations.doctor import RESTORE, SPARK_FAULTS, is_unreadable, short_reason
from lakehouse.settings import Settings
from lakehouse.store.deltatables import attach_tables, create_tables, forget_table
from lakehouse.store.files import move_folder, stages_location
from lakehouse.store.schema import ENTITY_TABLES
from lakehouse.store.tablelog import table_location

_THREADS = 4


def rebuild_tables(spark: SparkSession, settings: Settings) -> list[str]:
    """Make every entity table and `effective_messages` again from the log.

    A table that cannot be read is moved aside first, into `_broken`.

    Returns:
        The tables.

    Raises:
        WarehouseError: the log itself cannot be read; only a backup helps then.
    """
    try:
        attach_tables(spark, settings, ["changes"])
        head = read_head(spark)
    except SPARK_FAULTS as error:
        raise WarehouseError(f"the log cannot be read: {short_reason(error)}. {RESTORE}.") from error
    names = [*(table.name for table in ENTITY_TABLES), effectivetable.NAME]
    _move_unreadable_aside(spark, settings, names)
    create_tables(spark, settings)
    with ThreadPoolExecutor(_THREADS) as pool:
        list(pool.map(lambda table: rebuild_table(spark, table, head), ENTITY_TABLES))
    if settings.refresh_effective:
        rebuild_effective(spark, settings, head)
    roll_forward(spark, read_head(spark), settings=settings)  # what another process committed meanwhile
    return names if settings.refresh_effective else names[:-1]


def _move_unreadable_aside(spark: SparkSession, settings: Settings, names: list[str]) -> None:
    aside = f"{stages_location(settings).rsplit('/', 1)[0]}/_broken/{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}"
    for name in names:
        if is_unreadable(spark, settings, name):
            move_folder(spark, table_location(spark, name), f"{aside}-{name}")
            forget_table(spark, name)
