"""The entity tables follow what was written: a Spark session beside the writer brings them forward, one time for many commits."""

from __future__ import annotations

import logging
import os
import sys
import threading
from typing import TYPE_CHECKING

from lakehouse.errors import LakehouseError
from lakehouse.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)

_SECONDS_AFTER_A_FAILURE = 10.0
_NICENESS = 10  # readers and writers come first


class Tables:
    """Brings the tables forward in a thread of its own; Spark starts with the first need of it."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._session: SparkSession | None = None
        self._guard = threading.Lock()
        self._wanted = threading.Event()

    def session(self) -> SparkSession:
        """Give the Spark session, with the tables attached.

        Raises:
            JavaNotFound: Java is missing.
        """
        with self._guard:
            if self._session is None:
                from lakehouse.store.session import open_session
                from lakehouse.store.tables import attach_log, create_tables

                spark = open_session(self.settings)
                if not attach_log(spark, self.settings):
                    create_tables(spark, self.settings)
                self._session = spark
            return self._session

    def create(self) -> None:
        """Make the tables of a new warehouse."""
        self.session()

    def follow(self) -> None:
        """Begin to follow."""
        threading.Thread(target=self._follow, name="lakehouse-tables", daemon=True).start()

    def bring(self) -> None:
        """Have the tables brought to what is committed now."""
        self._wanted.set()

    def _follow(self) -> None:
        if sys.platform == "linux":  # elsewhere it would be that of the whole process
            os.nice(_NICENESS)
        stop, told = threading.Event(), ""
        while True:
            self._wanted.wait()
            self._wanted.clear()
            try:
                self._roll()
                told = ""
            except LakehouseError as error:
                if str(error) != told:  # once, and not after each commit
                    told = str(error)
                    logger.warning("the tables do not follow: %s", error)
                stop.wait(_SECONDS_AFTER_A_FAILURE)
            except Exception:
                logger.exception("the tables do not follow")
                stop.wait(_SECONDS_AFTER_A_FAILURE)
                self._wanted.set()

    def _roll(self) -> None:
        from lakehouse.log.commits import read_head
        from lakehouse.log.projections import lagging, roll_forward
        from lakehouse.store.sessions import interpreted
        from lakehouse.store.tables import create_tables, is_small

        spark = self.session()
        with interpreted(spark, is_small(spark, self.settings)):
            head = read_head(spark)
            if lagging(spark, head, settings=self.settings):
                create_tables(spark, self.settings)
                roll_forward(spark, head, settings=self.settings)
