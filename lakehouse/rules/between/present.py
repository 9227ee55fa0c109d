"""How many there are of what rules between entities are about: what is not there is not looked for, and few rows are sent."""

from __future__ import annotations

from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse.store.frames import count_if

_FEW = 100_000


class Present(NamedTuple):
    """How many there are of what rules are about."""

    holders: int
    aliases: int
    references: int
    bases: int
    wills: int
    lists: int
    options: int
    earlier: int
    uris: int


def look_at(things: DataFrame) -> Present:
    """Count what rules are about."""
    version, endpoint = F.col("kind") == "version", F.col("kind") == "endpoint"
    references = F.coalesce("basemessage", "dataschemaxid", "ancestor", "willmessage").isNotNull()
    counted = {
        "holders": F.col("kind").isin("group", "endpoint"),
        "aliases": F.col("kind").isin("message", "schema") & F.col("xref").isNotNull(),
        "references": (version | endpoint) & references,
        "bases": version & F.col("basemessage").isNotNull(),
        "wills": endpoint & F.col("willmessage").isNotNull(),
        "lists": endpoint & F.col("messagegroups").isNotNull(),
        "options": endpoint & F.col("options").isNotNull(),
        "earlier": F.startswith("kind", F.lit("earlier ")),
        "uris": F.col("schema_reference").isNotNull(),
    }
    return Present(**count_if(things, counted))


def few(rows: DataFrame, count: int) -> DataFrame:
    """Let rows be sent to all tasks that join with them, when they are few; then the other side stays where it is."""
    return F.broadcast(rows) if count <= _FEW else rows
