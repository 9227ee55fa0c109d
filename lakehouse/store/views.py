"""The views: created from `ddl/views`, as late as a command needs them, in whatever schema holds what they read.

Each has a file, but `base_paths`, which is written for the depth of bases that the catalog has.

A view's text has bare names, which Spark binds to the schema in which the view is created: the live one, or one that shows
the catalog as of a snapshot. A separate session, in which temporary views replace tables, serves for what is not stored
yet. In all of them `scope` selects the messages.

`flat_messages` reads the stored result of flattening where there is one (`stored`), and else what computes it.

`ddl_script` writes the catalog as one SQL script, for Spark sessions and platforms that have Delta Lake and not this package:
tables where the warehouse has them, whose columns come from Delta's log, and the views, each after those that it reads.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from graphlib import TopologicalSorter
from hashlib import sha256
from pathlib import Path
from string import Template
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.settings import Settings, data_folder
from lakehouse.store.internals.plans import view_made_by
from lakehouse.store.materialize import hand_over
from lakehouse.store.schema import DECLARATIONS, SCHEMA
from lakehouse.store.session import open_sibling

MOST_BASES = 128  # the most that the setting max_chain_depth may be

_HEAD = """\
-- base_paths: Base paths: the bases of each Version that has one, nearest first.
-- Grain: one row per Version that has a basemessage.  Reads: base_links.  Read by: definition_chains.
-- Pointer doubling instead of recursion: with each round every Version sees twice as far, so seven rounds see 128 bases,
-- whatever the number of messages. In a round each Version that sees as far as it can so far asks the last base that it sees
-- for what that base sees. A path that comes to a Version twice leads into a cycle.
-- The setting max_chain_depth takes the place of 128 (store/views.py).
CREATE OR REPLACE VIEW base_paths (
  registryid COMMENT 'Registry that the Version belongs to',
  version_xid COMMENT 'XID of the Version',
  path COMMENT 'XIDs of the Versions that it extends, nearest first; the last may be missing; in a cycle each once',
  is_open COMMENT 'true: the last Version of path may have a base too, which was not followed (setting max_chain_depth)',
  is_cycle COMMENT 'true: following the bases leads into a cycle; path then holds its members'
)
COMMENT 'The bases of each Version that has one, nearest first.'
AS
"""
_FIRST = """\
WITH paths_1 AS (
  SELECT registryid, version_xid, array_compact(array(base_version_xid)) AS path
  FROM base_links
),
"""
_ROUND = Template("""
answers_$sees AS (
  SELECT registryid, version_xid, path, asks, any_value(CASE WHEN asks = 0 THEN path END, TRUE) OVER (PARTITION BY registryid, key) AS further
  FROM paths_$seen
  LATERAL VIEW posexplode(CASE WHEN size(path) = $seen THEN array(version_xid, path[$last]) ELSE array(version_xid) END) AS asks, key
),

paths_$sees AS (
  SELECT registryid, version_xid, CASE WHEN asks = 1 AND further IS NOT NULL THEN concat(path, further) ELSE path END AS path
  FROM answers_$sees
  WHERE asks = 1 OR size(path) < $seen
),
""")  # noqa: E501
_END = Template("""
cycles AS (
  SELECT
    registryid,
    version_xid,
    path,
    size(array_distinct(path)) < size(path) OR array_contains(path, version_xid) AS is_cycle,
    $max_depth AS max_depth
  FROM paths_$seen
)

SELECT
  registryid,
  version_xid,
  CASE WHEN is_cycle THEN array_distinct(path) ELSE slice(path, 1, max_depth) END AS path,
  NOT is_cycle AND (size(path) = $seen OR size(path) > max_depth) AS is_open,
  is_cycle
FROM cycles;
""")
_HEADER = re.compile(r"\A(?:--.*\n)+")


def sees(based: int) -> int:
    """Return how far paths have to be seen: a power of two, at most `MOST_BASES`.

    Args:
        based: how many Versions of a registry have a base, at most. A path that is longer comes to one of them twice, so it
            leads into a cycle, and more rounds would find the same.
    """
    return min(1 << based.bit_length(), MOST_BASES)


def most_based(versions: DataFrame) -> int:
    """Return how many Versions with a base the registry has that has most of them: bases are of the same registry.

    Args:
        versions: rows of `versions`.
    """
    based = versions.filter(F.col("basemessage").isNotNull()).groupBy("registryid").count()
    return based.agg(F.max("count")).collect()[0][0] or 0


def base_paths(max_depth: int = MOST_BASES, seen: int = MOST_BASES) -> str:
    """Write the statement that creates the view.

    Args:
        max_depth: bases are followed no further, from 1 to `MOST_BASES`.
        seen: how far the rounds see, as from `sees`.
    """
    numbers = [2**number for number in range(seen.bit_length() - 1)]
    rounds = (_ROUND.substitute(sees=2 * number, seen=number, last=number - 1) for number in numbers)
    return f"{_HEAD}{_FIRST}{''.join(rounds)}{_END.substitute(max_depth=max_depth, seen=seen)}"


_READS = re.compile(r"^-- .*\bReads: ([\w, ]+)\.", re.MULTILINE)
# The parts of a file, of which all statements are put together: its first lines, what is declared of the view, its query.
_PARTS = re.compile(r"(.*?)^CREATE OR REPLACE VIEW (.*?)^AS\n(.*)", re.MULTILINE | re.DOTALL)
_COLUMN = re.compile(r"^  (\w+) COMMENT '", re.MULTILINE)
_STATEMENT = "xregistry.statement"  # property of a view: digest of what created it
# Spark resolves a step or less of a query in one; its default is 100. A view keeps this for who reads it.
ALL_STEPS = ("spark.sql.analyzer.maxIterations", "300")
# What reads the stored result of flattening, what computes it, and how far that follows bases.
_FLAT, _COMPUTED, _PATHS = "flat_messages", "computed_messages", "base_paths"


class ViewFile(NamedTuple):
    """A view as its file in `ddl/views` declares it.

    Attributes:
        name: of the view.
        reads: the tables and views that it reads.
        comments: the first lines of the file.
        declaration: the view's name, its columns and its comment, as they precede AS.
        query: what follows AS.
    """

    name: str
    reads: tuple[str, ...]
    comments: str
    declaration: str
    query: str

    @property
    def columns(self) -> str:
        """Return the names of its columns as a list in SQL."""
        return ", ".join(_COLUMN.findall(self.declaration))

    @property
    def statement(self) -> str:
        """Return the statement that creates the view."""
        return self.creating()

    def creating(self, kind: str = "VIEW", properties: str = "") -> str:
        """Return the statement that creates the view, or a TEMPORARY VIEW, with a line of properties."""
        return f"{self.comments}CREATE OR REPLACE {kind} {self.declaration}{properties}AS\n{self.query}"


def view_of(name: str, text: str) -> ViewFile:
    """Read the file of a view."""
    reads = _READS.search(text)
    names = tuple(word.strip() for word in reads.group(1).split(",")) if reads and reads.group(1) != "nothing" else ()
    parts = _PARTS.fullmatch(text.rstrip().removesuffix(";"))
    if parts is None:
        raise ValueError(f"ddl/views/{name}.sql is no `CREATE OR REPLACE VIEW … AS`, with AS on a line alone")
    return ViewFile(name, names, *parts.groups())


@cache
def views(stored: bool = True, max_depth: int = MOST_BASES, seen: int = MOST_BASES) -> dict[str, ViewFile]:
    """Read the views by name, each after those that it reads.

    Args:
        stored: `flat_messages` reads `effective_messages`; otherwise `computed_messages`.
        max_depth: how far chains are followed.
        seen: how far the rounds of `base_paths` see.
    """
    texts = {
        Path(file.name).stem: file.read_text(encoding="utf-8")
        for file in (data_folder("ddl") / "views").iterdir()
        if file.name.endswith(".sql")
    }
    texts[_PATHS] = base_paths(max_depth, seen)
    result = {name: view_of(name, text) for name, text in texts.items()}
    if not stored:
        flat = result[_FLAT]
        result[_FLAT] = flat._replace(reads=(_COMPUTED,), query=f"SELECT {flat.columns} FROM {_COMPUTED}")  # noqa: S608
    order = TopologicalSorter({view.name: sorted(set(view.reads) & set(result)) for view in result.values()})
    return {name: result[name] for name in order.static_order()}


def views_named_in(query: str) -> list[str]:
    """Return the views that a query names, with those that they read; all of them if it lists views."""
    words = {word.lower() for word in re.findall(r"\w+", query)}
    if re.match(r"\s*show\s+(tables|views)\b", query, re.IGNORECASE):
        return list(views())
    return with_read(name for name in views() if name in words)


def with_read(names: Iterable[str], *, stored: bool = True) -> list[str]:
    """Return views and those that they read, each after the ones that it reads; `stored` as for `views`."""
    return _with_read(names, _as_created(stored), ())


def tables_read_by(names: Iterable[str], *, stored: bool = True) -> list[str]:
    """Return the tables that views read; `stored` as for `views`."""
    by_name = _as_created(stored)
    read = (table for name in names for table in by_name[name].reads if table not in by_name)
    return list(dict.fromkeys(read))


def create_views(
    spark: SparkSession, settings: Settings, schema: str, names: Iterable[str] | None = None, *, stored: bool = True
) -> None:
    """Create views in a schema that holds, as tables or views, what they read; one that is there as it would be made stays.

    Args:
        spark: the session.
        settings: how far chains are followed.
        schema: the schema; the views' names are bound to it.
        names: the views, with those that they read created too; None: all.
        stored: as for `views`: the schema has `effective_messages`, which is what flattening gives.
    """
    session = open_sibling(spark, schema)
    session.conf.set(*ALL_STEPS)
    by_name = _as_created(stored, max_depth=settings.max_chain_depth)
    for name in _with_read(by_name if names is None else names, by_name, ()):
        create_view(session, schema, by_name[name])


def view_statements(settings: Settings) -> list[str]:
    """Return what `create_views` runs in the live schema, in that order."""
    return [view.statement for view in _as_created(True, max_depth=settings.max_chain_depth).values()]


def create_view(session: SparkSession, schema: str, view: ViewFile) -> None:
    """Create a view, unless it is there as it would be made: Spark would analyse it, and all that it reads.

    Args:
        session: a session whose current schema is this one.
        schema: the schema.
        view: the view.
    """
    digest = sha256(view.statement.encode()).hexdigest()
    if not _stands(session, schema, view, digest):
        session.sql(view.creating(properties=f"TBLPROPERTIES ('{_STATEMENT}' = '{digest}')\n"))


def _stands(session: SparkSession, schema: str, view: ViewFile, digest: str) -> bool:
    """Return whether a view exists with this query, made by the statement of this digest."""
    result = view_made_by(session, schema, view.name, _STATEMENT)
    return result is not None and result[0] == digest and result[1] != "" and view.query.endswith(result[1])


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
    session.conf.set(*ALL_STEPS)
    for name, rows in stand_ins.items():
        hand_over(rows, session).createOrReplaceTempView(name)
    by_name = _as_created(False, frozenset(stand_ins), _depth_of(settings))  # stand-ins are not stored
    for name in _with_read(set(names) - set(stand_ins), by_name, stand_ins):
        session.sql(by_name[name].creating("TEMPORARY VIEW"))
    return session


def read_view(
    spark: SparkSession,
    settings: Settings | None,
    schema: str,
    stand_ins: Mapping[str, DataFrame],
    name: str,
    *,
    based: int | None = None,
) -> DataFrame:
    """Read a view that looks at rows that are not stored, in one query.

    Args: as for `session_with_views`; name: the view; based: as for `sees`, of the Versions that are looked at; None:
        they were not counted.
    """
    session = session_with_views(spark, settings, schema, stand_ins, [])
    by_name = views(False, _depth_of(settings), MOST_BASES if based is None else sees(based))
    return session.sql(_as_one_query(name, by_name, stand_ins))


@cache
def _as_created(stored: bool, stand_ins: frozenset[str] = frozenset(), max_depth: int = MOST_BASES) -> dict[str, ViewFile]:
    """Return `views` as they are created: those that compute flattening contain the views that they read, but no stand-ins."""
    by_name = views(stored, max_depth)
    steps = _with_read([_COMPUTED], by_name, stand_ins)
    read = dict.fromkeys(name for step in steps for name in by_name[step].reads if name not in steps)
    query = _as_one_query(_COMPUTED, by_name, stand_ins)
    return by_name | {_COMPUTED: by_name[_COMPUTED]._replace(reads=tuple(read), query=query)}


def _as_one_query(name: str, by_name: dict[str, ViewFile], stand_ins: Iterable[str]) -> str:
    """Return the query of a view with the views that it reads as CTEs: Spark then analyses each only once."""
    steps = [by_name[step] for step in _with_read([name], by_name, stand_ins)]
    common = ", ".join(f"{step.name} ({step.columns}) AS (\n{step.query}\n)" for step in steps)
    return f"WITH {common}\nSELECT * FROM {name}"


def _with_read(names: Iterable[str], by_name: dict[str, ViewFile], stand_ins: Iterable[str]) -> list[str]:
    """Return views and those that they read, without following views that have a stand-in."""
    wanted, behind = set(names), set(by_name) - set(stand_ins)
    for name in reversed(by_name):
        if name in wanted:
            wanted.update(behind.intersection(by_name[name].reads))
    return [name for name in by_name if name in wanted]


def _depth_of(settings: Settings | None) -> int:
    return MOST_BASES if settings is None else settings.max_chain_depth


def ddl_script(settings: Settings, location: str, catalog: str = "", schema: str = SCHEMA) -> str:
    """Return the statements, each ended by `;` and an empty line, which occur nowhere within one.

    Args:
        settings: how far the views follow bases.
        location: URI or absolute path of the warehouse, as the session that runs the script reaches it.
        catalog: catalog of Spark that the schema is in; empty: the session's current one.
        schema: schema that is created where it is missing, and holds tables and views.
    """
    name = ".".join(_quoted(part) for part in (catalog, schema) if part)
    folder = location.rstrip("/")
    statements = [
        f"SET {' = '.join(ALL_STEPS)}",
        # Fails where there is no warehouse: CREATE TABLE would make an empty one.
        f"DESCRIBE DETAIL delta.{_quoted(f'{folder}/changes')}",
        f"CREATE SCHEMA IF NOT EXISTS {name}",
        f"USE {name}",
        *(f"CREATE TABLE IF NOT EXISTS {table} USING DELTA LOCATION {_literal(f'{folder}/{table}')}" for table in DECLARATIONS),
        *(_HEADER.sub("", statement) for statement in view_statements(settings)),
    ]
    return "".join(f"{statement};\n\n" for statement in statements)


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def _literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
