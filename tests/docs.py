"""Writes the pages of docs/ that are told by the code: `python tests/docs.py` (make docs). A test compares them."""

from __future__ import annotations

import re
from pathlib import Path

from pyspark.sql import SparkSession

from lakehouse.dialects import table
from lakehouse.model import CHANGES, EFFECTIVE_MESSAGES, ENTITY_TABLES, VIOLATIONS
from lakehouse.rules import RULES, held
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


_ABOUT_RULES = """\
# Rules

What documents and the catalog are checked by, written from `lakehouse/rules.csv` by `make docs`. The ids are those of
[requirements.csv](requirements.csv), which lists what the specifications ask; `JSON` and `DOC` rules are this store's own.
`lakehouse explain MSG-250` tells one rule with an example that breaks it and its repair.

An **error** takes out the entity that breaks it, and what cannot live without it; with `--strict` the whole document. A
**warning** or an **info** is told, and the entity is loaded. Everything told stands in the table `violations`. Where a
document is of an older dialect that lacks a rule, or where published documents commonly break it in a way that does no harm,
a single finding may be milder than its rule.

Each rule is tested by its own examples, in `lakehouse/examples.csv`: `test_rules.py` for rules about one entity,
`test_checks.py` for rules between entities, and for those of this store the tests named in the last column.

"""
_TESTED_IN = {
    "JSON-004": "test_safety.py", "DOC-001": "test_ingest.py", "DOC-002": "test_ingest.py", "DOC-003": "test_safety.py",
    "DOC-004": "test_gate.py", "CAT-038": "test_checks.py", "CAT-064": "test_checks.py", "MSG-002": "test_safety.py",
}  # fmt: skip


def rules_page() -> str:
    """Write docs/rules.md from rules.csv."""
    from test_rules import BY_ONE_ENTITY

    parts = [
        *_ABOUT_RULES.splitlines(),
        "## Checked",
        "",
        "| rule | severity | table | what it asks | tests |",
        "|---|---|---|---|---|",
    ]
    for rule in RULES.values():
        tests = _TESTED_IN.get(rule.id, "test_rules.py" if rule.id in BY_ONE_ENTITY else "test_checks.py")
        parts.append(f"| {rule.id} | {rule.severity} | {rule.table} | {_cell(rule.text)} | {tests} |")
    for how, title, about in (
        ("covered", "Covered by another rule", "The rule named second finds what breaks the requirement."),
        ("permissive", "Permitted", "The specification allows it; `test_rules.py` proves that it is loaded."),
        ("export", "Of the export", "It asks for something that only the serialised form has."),
    ):
        parts += ["", f"## {title}", "", about, "", "| requirement | covered by | text |", "|---|---|---|"]
        parts += [f"| {one} | {' '.join(row.by)} | {_cell(row.text)} |" for one, row in held().items() if row.how == how]
    return "\n".join(parts) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


PAGES = {"tables.md": tables_page, "dialects.md": dialects_page, "rules.md": rules_page}

if __name__ == "__main__":
    DICTIONARY.write_text(dictionary(open_session(read_settings())), encoding="utf-8")
    views.cache_clear()
    for page, write in PAGES.items():
        (DOCS / page).write_text(write(), encoding="utf-8")
