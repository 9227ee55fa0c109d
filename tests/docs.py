"""Writes the pages of docs/ that are told by the code: `python tests/docs.py` (make docs). A test compares them."""

from __future__ import annotations

import re
from pathlib import Path

from pyspark.sql import SparkSession

from lakehouse.dialects import table
from lakehouse.model import CHANGES, EFFECTIVE_MESSAGES, ENTITY_TABLES, VIOLATIONS
from lakehouse.session import open_session
from lakehouse.settings import data_folder, read_settings
from lakehouse.tables import TABLES
from lakehouse.views import session_with_views, views

DOCS = Path(__file__).parents[1] / "docs"
DICTIONARY = Path(__file__).parents[1] / "ddl" / "views" / "dictionary.sql"
_COLUMN = re.compile(r"^  (\w+) (.+?)(?: NOT NULL)? COMMENT '(.*?)',?$", re.MULTILINE)


_ABOUT_DIALECTS = """\
# Dialects

Teams write registry documents in several dialects. Each becomes one normal form, that of 1.0-rc2. This page is written from
`lakehouse/dialects.csv` by `make docs`: every attribute of the normal form that is spelled otherwise somewhere, where it
stands, and how else it is spelled. A spelling is relative to its place; one that starts with `/` starts at the entity; `*`
stands for all members, so `options/*` means that the members of `options` are lifted. How often each other spelling was met
in a document is told by its row in the log (`spellings`), and the dialect that was recognised (`dialect`).

Beside names, these values are brought into normal form: references `#/messagegroups/g/messages/m` become XIDs; `protocol`
`Kafka` becomes `KAFKA`, and the text `None` absent; `usage` as a string becomes an array; a bare value of a message's
protocol option becomes a declaration (`"qos": 1` → `"qos": {"value": 1}`).

"""


_DICTIONARY = """\
-- dictionary: Dictionary: every table and view of the catalog with its columns, for clients that do not show comments.
-- Grain: one row per column.  Reads: nothing.  Read by: users.
-- Written from the other files of ddl by `make docs`.
CREATE OR REPLACE VIEW dictionary (
  table_name COMMENT 'Name of the table or view',
  table_type COMMENT 'table or view',
  position COMMENT 'Place of the column, from 1',
  column_name COMMENT 'Name of the column',
  type COMMENT 'Type of the column in Spark SQL',
  comment COMMENT 'What the column holds'
)
COMMENT 'Every table and view of the catalog with its columns.'
AS
SELECT
  table_name,
  table_type,
  position,
  column_name,
  type,
  comment
FROM VALUES
{rows}
  AS columns (table_name, table_type, position, column_name, type, comment);
"""
_ROW = re.compile(r"^  \('(\w+)', '(\w+)', \d+, '(\w+)', '(.+?)', '(.*)'\),?$", re.MULTILINE)


def dictionary(spark: SparkSession) -> str:
    """Write ddl/views/dictionary.sql: the tables as the model declares them, the views as Spark understands them."""
    declared = {one.name: one.columns for one in ENTITY_TABLES}
    declared |= {"changes": CHANGES, "violations": VIOLATIONS, "effective_messages": EFFECTIVE_MESSAGES}
    empty = {name: spark.createDataFrame([], columns) for name, columns in declared.items()}
    others = [name for name in views() if name != "dictionary"]
    session = session_with_views(spark, None, "default", empty, others)
    relations = [(name, "table", declared[name]) for name in TABLES]
    relations += [(name, "view", session.table(name).schema) for name in sorted(others)]
    rows = [
        (name, kind, position, column.name, column.dataType.simpleString(), column.metadata["comment"])
        for name, kind, schema in relations
        for position, column in enumerate(schema, 1)
    ]
    own = re.findall(r"^  (\w+) COMMENT '(.*)'", _DICTIONARY, re.MULTILINE)
    types = ["int" if name == "position" else "string" for name, _ in own]
    rows += [
        ("dictionary", "view", position, name, kind, comment)
        for position, ((name, comment), kind) in enumerate(zip(own, types, strict=True), 1)
    ]
    return _DICTIONARY.format(rows=",\n".join(f"  ({', '.join(map(_literal, row))})" for row in rows))


def _literal(value: str | int) -> str:
    return str(value) if isinstance(value, int) else "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def tables_page() -> str:
    """Write docs/tables.md from the comments in ddl/tables and ddl/views."""
    parts = [
        "# Tables and views",
        "",
        "Written from the comments in `ddl` by `make docs`. All tables and views stand in the schema `xregistry`; the view",
        "`dictionary` holds this page as rows. Views come after the tables.",
    ]
    for name in TABLES:
        text = (data_folder("ddl") / "tables" / f"{name}.sql").read_text(encoding="utf-8")
        about, grain = (line.removeprefix("-- ") for line in text.splitlines()[:2])
        parts += [
            "",
            f"## {name}",
            "",
            about.removeprefix(f"{name}: "),
            "",
            f"{grain}",
            "",
            "| column | type | meaning |",
            "|---|---|---|",
        ]
        for column, kind, comment in _COLUMN.findall(text):
            told = comment.replace("\\'", "'").replace("|", "\\|")
            parts.append(f"| {column} | {kind} | {told} |")
    described = _ROW.findall(DICTIONARY.read_text(encoding="utf-8"))
    for name in sorted(views()):
        text = (data_folder("ddl") / "views" / f"{name}.sql").read_text(encoding="utf-8")
        about, grain = (line.removeprefix("-- ") for line in text.splitlines()[:2])
        parts += ["", f"## {name} (view)", "", about.removeprefix(f"{name}: "), "", grain, ""]
        parts += ["| column | type | meaning |", "|---|---|---|"]
        for relation, _, column, kind, comment in described:
            if relation == name:
                told = comment.replace("\\'", "'").replace("\\\\", "\\").replace("|", "\\|")
                parts.append(f"| {column} | {kind} | {told} |")
    return "\n".join(parts) + "\n"


def dialects_page() -> str:
    """Write docs/dialects.md from dialects.csv."""
    dialects = ["1.0-rc1", "1.0-rc4", "0.5-wip", "cereg", "also"]
    parts = [
        *_ABOUT_DIALECTS.splitlines(),
        "| entity | place | protocol | normal form | " + " | ".join(dialects) + " | rule |",
        "|---|---|---|---|" + "---|" * len(dialects) + "---|",
    ]  # fmt: skip
    for row in table():
        if any(row[dialect] for dialect in dialects):
            cells = [row["entity"], row["place"], row["protocol"], f"`{row['name']}`"]
            cells += [" ".join(f"`{word}`" for word in row[dialect].split()) for dialect in dialects]
            parts.append("| " + " | ".join([*cells, row["rule"]]) + " |")
    return "\n".join(parts) + "\n"


PAGES = {"tables.md": tables_page, "dialects.md": dialects_page}

if __name__ == "__main__":
    DICTIONARY.write_text(dictionary(open_session(read_settings())), encoding="utf-8")
    views.cache_clear()
    for page, write in PAGES.items():
        (DOCS / page).write_text(write(), encoding="utf-8")
