"""The views: created from `ddl/views`, as late as a command needs them, in whatever schema holds what they read.

A view's text has bare names, which Spark binds to the schema in which the view is created: the live one, or one that shows
the catalog as of a snapshot. A session of its own, in which temporary views stand for tables, serves for what is not stored
yet. In all of them `scope` tells which messages are looked at.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession

from lakehouse.settings import Settings, data_folder
from lakehouse.store.frames import hand_over
from lakehouse.store.sessions import open_sibling

_READS = re.compile(r"^-- .*\bReads: ([\w, ]+)\.", re.MULTILINE)
_CREATES = re.compile(r"^CREATE OR REPLACE VIEW\b", re.MULTILINE)
_DEPTH = re.compile(r"\b128 AS max_depth\b")


class View(NamedTuple):
    """A file of `ddl/views`: the view's name, the tables and views that it reads, the statement that creates it."""

    name: str
    reads: tuple[str, ...]
    statement: str


@cache
def views() -> dict[str, View]:
    """Read the views by name, each after those that it reads."""
    found = {}
    for file in (file for file in (data_folder("ddl") / "views").iterdir() if file.name.endswith(".sql")):
        name, text = Path(file.name).stem, file.read_text(encoding="utf-8")
        reads = _READS.search(text)
        names = tuple(word.strip() for word in reads.group(1).split(",")) if reads and reads.group(1) != "nothing" else ()
        found[name] = View(name, names, text.rstrip().removesuffix(";"))
    order = TopologicalSorter({view.name: sorted(set(view.reads) & set(found)) for view in found.values()})
    return {name: found[name] for name in order.static_order()}


def views_named_in(query: str) -> list[str]:
    """Give the views whose names stand in a query, all of them when it lists what is there; and those that they read."""
    words = {word.lower() for word in re.findall(r"\w+", query)}
    if re.match(r"\s*show\s+(tables|views)\b", query, re.IGNORECASE):
        return list(views())
    return with_read(name for name in views() if name in words)


def with_read(names: Iterable[str]) -> list[str]:
    """Give views and the views that they read, each after those that it reads."""
    wanted = set(names)
    for name in reversed(views()):
        if name in wanted:
            wanted.update(read for read in views()[name].reads if read in views())
    return [name for name in views() if name in wanted]


def tables_read_by(names: Iterable[str]) -> list[str]:
    """Give the tables that views read."""
    read = (table for name in names for table in views()[name].reads if table not in views())
    return list(dict.fromkeys(read))


def create_views(spark: SparkSession, settings: Settings, schema: str, names: Iterable[str] | None = None) -> None:
    """Create views in a schema that holds, as tables or views, what they read.

    Args:
        spark: the session.
        settings: how far chains are followed.
        schema: the schema; the views' names are bound to it.
        names: the views, with those that they read created too; None: all.
    """
    session = open_sibling(spark, schema)
    for name in with_read(views() if names is None else names):
        session.sql(_statement(views()[name], settings))


def session_with_views(
    spark: SparkSession, settings: Settings | None, schema: str, stand_ins: Mapping[str, DataFrame], names: Iterable[str]
) -> SparkSession:
    """Open a session in which the views look at rows that are not stored: nothing of it is seen elsewhere.

    Args:
        spark: the session.
        settings: how far chains are followed; None: as far as the views can.
        schema: schema of the relations that nothing stands in for.
        stand_ins: rows to be seen instead of a table or a view of that name.
        names: the views, with those that they read created too.
    """
    session = open_sibling(spark, schema)
    for name, rows in stand_ins.items():
        hand_over(rows, session).createOrReplaceTempView(name)
    for name in _still_read(names, stand_ins):
        session.sql(_CREATES.sub("CREATE OR REPLACE TEMPORARY VIEW", _statement(views()[name], settings)))
    return session


def _still_read(names: Iterable[str], stand_ins: Mapping[str, DataFrame]) -> list[str]:
    """Give views and what they read, without looking behind what something stands in for."""
    wanted = set(names) - set(stand_ins)
    for name in reversed(views()):
        if name in wanted:
            wanted.update(read for read in views()[name].reads if read in views() and read not in stand_ins)
    return [name for name in views() if name in wanted]


def _statement(view: View, settings: Settings | None) -> str:
    return _DEPTH.sub(f"{settings.max_chain_depth} AS max_depth", view.statement) if settings else view.statement
