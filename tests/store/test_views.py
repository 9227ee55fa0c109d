"""Views: their files, their order, and where they can be created."""

from __future__ import annotations

import re

import pytest
from queries import executions

from lakehouse.settings import data_folder
from lakehouse.store.deltatables import TABLES, attach_tables
from lakehouse.store.schema import EFFECTIVE_MESSAGES, SCHEMA
from lakehouse.store.session import open_sibling
from lakehouse.store.views import create_view, create_views, tables_read_by, view_of, views, views_named_in, with_read

HEAD = re.compile(
    r"-- (\w+): .+\.\n-- Grain: one row per .+\.  Reads: [\w, ]+\.  Read by: [\w, ]+\.\n(?:-- .+\n)*CREATE OR REPLACE VIEW \1 "
)
COLUMN = re.compile(r"^  (\w+) COMMENT '((?:[^'\\]|\\.)*)'", re.MULTILINE)


def test_each_file_is_headed_by_its_name_its_grain_and_what_it_reads():
    for name in views():
        text = (data_folder("ddl") / "views" / f"{name}.sql").read_text(encoding="utf-8")
        head = HEAD.match(text)
        assert head, name
        assert head.group(1) == name


def test_the_header_names_what_the_statement_reads():
    for view in views().values():
        steps = set(re.findall(r"^(?:WITH )?(\w+) AS \($", view.statement, re.MULTILINE))
        named = set(re.findall(r"\b(?:FROM|JOIN) ([a-z_]+)(?= AS\b|;?$)", view.statement, re.MULTILINE)) - steps
        assert named == set(view.reads), view.name


def test_each_view_comes_after_those_that_it_reads():
    names = list(views())
    for view in views().values():
        for read in view.reads:
            assert read in TABLES or names.index(read) < names.index(view.name)


def test_a_query_creates_the_views_that_it_names_and_what_they_read():
    assert views_named_in("SELECT * FROM Current_Violations") == ["documents", "current_violations"]
    assert views_named_in("SELECT 1 FROM versions") == []
    assert views_named_in("SHOW TABLES") == list(views())
    assert set(tables_read_by(with_read(["current_violations"]))) == {"changes", "violations"}


def test_flattening_is_described_alike_where_it_is_computed_stored_and_read():
    described = {name: dict(COLUMN.findall(views()[name].statement)) for name in ("flat_messages", "computed_messages")}
    stored = {
        field.name: field.metadata["comment"].replace("'", "\\'") for field in EFFECTIVE_MESSAGES if field.name != "snapshot_id"
    }
    assert described == {"flat_messages": stored, "computed_messages": stored}


@pytest.mark.slow
def test_a_view_that_stands_is_not_made_again(catalog):
    spark = catalog.spark
    attach_tables(spark, catalog.settings)
    create_views(spark, catalog.settings, SCHEMA, ["flat_messages"], stored=False)
    before = executions(spark)
    create_views(spark, catalog.settings, SCHEMA, ["flat_messages"], stored=False)
    assert executions(spark) == before
    create_views(spark, catalog.settings, SCHEMA, ["flat_messages"])  # what it reads is another relation now
    assert executions(spark) == before + 1
    assert "effective_messages" in spark.sql(f"SHOW CREATE TABLE {SCHEMA}.flat_messages").collect()[0][0]


def test_a_view_that_stands_otherwise_is_made_anew(catalog):
    spark = catalog.spark
    attach_tables(spark, catalog.settings)
    session = open_sibling(spark, SCHEMA)
    statement = "CREATE OR REPLACE VIEW one (\n  xid COMMENT '{}'\n)\nAS\nSELECT xid\nFROM {}"
    for comment, table, changed in (("a", "groups", ""), ("b", "groups", ""), ("b", "messages", "xid FROM endpoints")):
        create_view(session, SCHEMA, view_of("one", statement.format(comment, table)))
        if changed:  # by somebody else
            session.sql(f"ALTER VIEW one AS SELECT {changed}")
            create_view(session, SCHEMA, view_of("one", statement.format(comment, table)))
        made = spark.sql(f"SHOW CREATE TABLE {SCHEMA}.one").collect()[0][0]
        assert f"COMMENT '{comment}'" in made
        assert made.rstrip().endswith(f"FROM {table}")
