"""What an ingest found at a snapshot, remembered: the same ingest again, with nothing published since, finds the same.

Documents of which something was refused are judged by what else is published, so they are read again at each ingest. That is
only needed once something changed: a document, the catalog, what was asked for, a setting, or this product with its rules.
"""

from __future__ import annotations

import hashlib
import json
from functools import cache
from typing import Any, NamedTuple

from pyspark.sql import Column, Row, SparkSession
from pyspark.sql import functions as F

from lakehouse.log.head import Head
from lakehouse.rules.declared import TOLD
from lakehouse.settings import Settings
from lakehouse.store.files import exists, list_folder, read_text, remove_folder, write_text
from lakehouse.store.session import absolute_location
from lakehouse.version import VERSION

_MOST = 100  # calls that are remembered


class Uris(NamedTuple):
    """Which documents there were: their number, and two sums of their URIs, whatever their order."""

    number: int
    xor: int
    sum: int

    def joined(self, other: Uris) -> Uris:
        """Return the union of both."""
        return Uris(self.number + other.number, self.xor ^ other.xor, self.sum + other.sum)


def uris_in(uri: Column) -> list[Column]:
    """Return the aggregates that `uris_of` reads, over a column with the URIs of documents, where NULL means none."""
    xor, total = (F.when(uri.isNotNull(), hashed) for hashed in (F.xxhash64(uri), F.hash(uri)))  # a hash of NULL is a number
    xor, total = (F.coalesce(one, F.lit(0)) for one in (F.bit_xor(xor), F.sum(total)))
    return [F.count(uri).alias("number"), xor.alias("xor"), total.alias("sum")]


def uris_of(row: Row) -> Uris:
    """Read what the columns of `uris_in` hold."""
    return Uris(row["number"], row["xor"], row["sum"])


def judgement(settings: Settings, **call: Any) -> str:
    """Return the file of an ingest's cached result; its name covers all that the findings depend on.

    Args:
        settings: all of them count.
        call: what the ingest was called with.
    """
    told = json.dumps([VERSION, _rules(), settings.model_dump(), call], sort_keys=True, default=str)
    return f"{_folder(settings)}/{hashlib.sha256(told.encode()).hexdigest()}"


def is_judged(spark: SparkSession, location: str, head: Head, uris: Uris) -> bool:
    """Return whether a file says that its ingest ended at this head with these documents."""
    return exists(spark, location) and read_text(spark, location) == _text(head, uris)


def remember(spark: SparkSession, settings: Settings, location: str, head: Head, uris: Uris) -> None:
    """Record that an ingest ended at a head: repeating it would change nothing."""
    if len(list_folder(spark, _folder(settings))) >= _MOST:
        remove_folder(spark, _folder(settings))
    write_text(spark, location, _text(head, uris))


def _folder(settings: Settings) -> str:
    return f"{absolute_location(settings.warehouse)}/_judged"


def _text(head: Head, uris: Uris) -> str:
    return json.dumps([head.snapshot_id, head.digest, *uris])


@cache
def _rules() -> str:
    return hashlib.sha256(repr(sorted(TOLD.items())).encode()).hexdigest()
