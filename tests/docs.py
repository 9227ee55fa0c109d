"""Writes the pages of docs/, and of ddl/ the tables and views, that come from the code: `python tests/docs.py` (make docs).

Tests compare.

`python tests/docs.py pages` writes all but the dictionaries in `ddl`, and needs no Spark.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from textwrap import fill
from typing import Any

import click
from called import all_commands
from pyspark.sql import SparkSession
from pyspark.sql.types import DataType

from lakehouse.cli.main import cli
from lakehouse.dialects.draft.conversions import draft_table
from lakehouse.dialects.tables import table
from lakehouse.domain.diff import CompatibilityRule, compatibility_rules
from lakehouse.match.conformance import TABLES as MATCH_TABLES
from lakehouse.match.conformance import VIEWS as MATCH_VIEWS
from lakehouse.match.conformance import open_conformance
from lakehouse.propose.proposalruns import TABLE as OBSERVED
from lakehouse.rules.declared import FINDING_RULES, RULES, Rule, enforcement
from lakehouse.settings import Settings, data_folder, read_settings
from lakehouse.store.deltatables import SCHEMA_VERSION, TABLES, create_tables
from lakehouse.store.firstcommits import table_properties
from lakehouse.store.schema import DECLARATIONS, EFFECTIVE_MESSAGES
from lakehouse.store.session import open_session
from lakehouse.store.views import base_paths, session_with_views, views

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

DOCS = Path(__file__).parents[1] / "docs"
DDL = Path(__file__).parents[1] / "ddl"
DICTIONARY = DDL / "views" / "dictionary.sql"
COMPATIBILITY_VIEW = DICTIONARY.with_name("compatibility_rules.sql")
MATCH_DICTIONARY = DDL / "match" / "views" / "dictionary.sql"
_COLUMN = re.compile(r"^  `?(\w+)`? (.+?)(?: NOT NULL)? COMMENT '(.*?)',?$", re.MULTILINE)


_ABOUT_DIALECTS = """\
# Dialects

How historic spellings of xRegistry are read and written. Every dialect is mapped to one normal form, that of 1.0-rc2 (the
"normal form" in tables and columns). `lakehouse export --dialect` writes another dialect again (see [export](export.md)).
`make docs` writes this page from the tables in `lakehouse/dialects/data`, which the program reads too.

| dialect | what it is |
|---|---|
| 1.0-rc1, 1.0-rc2, 1.0-rc4 | release candidates of xRegistry 1.0; rc2 is the normal form |
| 0.5-wip | the draft before them |
| cereg | the oldest: `definitionGroups`, `definitions`, `schemaGroups`; JSON or YAML |
| cncf-catalog | the working draft of the CNCF Message and Event Catalog API |
| asyncapi-2, asyncapi-3 | AsyncAPI 2.0 to 2.6, 3.0 and 3.1, which names things otherwise: see [AsyncAPI](asyncapi.md) |

## Which dialect a document is in

A document of the CNCF catalog draft is a group (`messagedefinitions`, or `id` and `format`), an array of groups, or one
definition (`definition`, or `versions` with `id` and `format`). A document of AsyncAPI
has `asyncapi`. For any other document the first mark below that fits decides;
without any it is read as 1.0-rc2. The dialect is detected once for the whole document, also for one that is read part by part.
`lakehouse ingest --dialect NAME` overrides it. The summary counts documents by dialect. The log keeps each document's `dialect`,
and how often each other spelling occurs in it (`spellings`).

"""
_ABOUT_SPELLINGS = """\

## Spellings

Every attribute of the normal form that has another spelling somewhere, its place, and the other spellings. A spelling is
relative to its place; one that starts with `/` starts at the entity; `*` means all members, so `options/*` moves the
members of `options` up. A spelling is understood in every document, whatever its dialect.

Some values are mapped, too:

- references `#/messagegroups/g/messages/m` become XIDs;
- `protocol` `Kafka` becomes `KAFKA`, and the text `None` is dropped;
- `usage` as a string becomes an array;
- a bare value of a message's protocol option becomes a declaration (`"qos": 1` → `"qos": {"value": 1}`);
- `authorization` as a list of one becomes its object.

"""
_ABOUT_DRAFT = """\

## The CNCF catalog draft

`format` of a group is its envelope or its protocol. `tags` are labels without values; a `documentation` that is no URL is kept as
`documentationtext`. A file that holds a single definition belongs to the group in its path
(`.../GROUP/messagedefinitions/...`), else to the group `default`. Of two definitions with one id, the first of the document is
loaded, and the other is rejected. A member that the draft does not know is kept, unless it has the name of something that the
`definition` becomes (`envelopemetadata`): the `definition` counts, and the member is left out with an error (CAT-081).

Versions are integers. A version without a number gets the next one; a free number is kept. A changed definition becomes a new
Version above the highest that ever existed, also if it has the number of an existing Version. An existing
Version never changes, and the latest is the default. A changed `authority` is rejected, and so is a changed `format`
of a group that holds definitions. `version_uri` is the authority joined with the path of the version; without an authority it is
the catalog's URI and not stored.

| format | member | normal form | type | rule |
|---|---|---|---|---|
"""
_ABOUT_MERGE = """\

## How a message and its base are merged

Definitions are merged in normal form, so that the spelling does not influence the result.

| what | effect |
|---|---|
| order | from the farthest base to the message; the nearer one wins |
| objects and maps | merged member by member |
| scalars, arrays, schemas, the `value` of a declaration | replaced whole |
| a scalar over an object, an object over a scalar | replaces it |
| null | as if it were not written |
| `dataschema` and `dataschemauri`, `method` and `status`, `key` and `key_base64` | one slot: a nearer one drops the other |
| another `protocol` | drops the inherited `protocoloptions`; `Kafka` and `KAFKA` are the same |
| another `envelope` | drops the inherited `envelopemetadata` and `envelopeoptions` |
| ids, dates, epoch, `ancestor`, `isdefault`, `meta`, `basemessage`, `deprecated` | never inherited |
| a base that is missing | nothing is added; it is no error |
| a cycle of bases | refused |
"""


_ROW = re.compile(r"^  \('(\w+)', '(\w+)', \d+, '(\w+)', '(.+?)', '(.*)'\),?$", re.MULTILINE)


def table_statement(name: str) -> str:
    """Write ddl/tables/NAME.sql, which creates a table as it is declared."""
    table = DECLARATIONS[name]
    columns = [
        f"  {column.name} {_sql_type(column.dataType)}{' NOT NULL' if column.name in table.key else ''}"
        f" COMMENT {_literal(column.metadata['comment'])}"
        for column in table.columns
    ]
    properties = table_properties(name, SCHEMA_VERSION)
    parts = [
        f"-- {name}: {table.comment}",
        f"-- Grain: one row per {table.row}.  Key: {', '.join(table.key)}.",
        "-- Retention: Delta's own time travel reaches 30 days back; the log `changes` keeps every past state.",
        "-- Creates an empty table. To use the tables of an existing catalog, run the script that `lakehouse ddl` prints.",
        f"CREATE TABLE IF NOT EXISTS {name} (",
        ",\n".join(columns),
        ")",
        "USING DELTA",
        *([f"CLUSTER BY ({', '.join(table.cluster_by)})"] if table.cluster_by else []),
        f"COMMENT {_literal(table.comment)}",
        "TBLPROPERTIES (",
        ",\n".join(f"  {_literal(property)} = {_literal(value)}" for property, value in properties.items()),
        ");",
    ]
    return "\n".join(parts) + "\n"


def _sql_type(kind: DataType) -> str:
    return re.sub(r"[a-z]+(?![a-z]*:)", lambda word: word[0].upper(), kind.simpleString()).replace(",", ", ").replace(":", ": ")


def effective_view(name: str) -> str:
    """Write ddl/views/NAME.sql of `flat_messages` or `computed_messages`: its columns are those of `effective_messages`."""
    text = (DDL / "views" / f"{name}.sql").read_text(encoding="utf-8")
    columns = [column for column in EFFECTIVE_MESSAGES if column.name != "snapshot_id"]
    declared = ",\n".join(f"  {column.name} COMMENT {_literal(column.metadata['comment'])}" for column in columns)
    before, _, rest = text.partition(f" VIEW {name} (\n")
    after = rest[rest.index("\n)\nCOMMENT ") :]
    if name == "flat_messages":
        selected = ",\n".join(f"  {column.name}" for column in columns)
        after = f"{after[: after.index('SELECT')]}SELECT\n{selected}\nFROM effective_messages;\n"
    return f"{before} VIEW {name} (\n{declared}{after}"


def dictionary(spark: SparkSession) -> str:
    """Write ddl/views/dictionary.sql: the tables as they are declared, the views as Spark understands them."""
    empty = {name: spark.createDataFrame([], table.columns) for name, table in DECLARATIONS.items()}
    others = [name for name in views() if name != "dictionary"]
    session = session_with_views(spark, None, "default", empty, others)
    rows = [
        (name, "table", position, column.name, column.dataType.simpleString(), column.metadata["comment"])
        for name, table in DECLARATIONS.items()
        for position, column in enumerate(table.columns, 1)
    ]
    # Spark understood the views as they were created; reading one would let it analyse all that it reads again.
    rows += [
        (name, "view", position, column.name, column.dataType, column.description or "")
        for name in sorted(others)
        for position, column in enumerate(session.catalog.listColumns(name), 1)
    ]
    return _with_rows(DICTIONARY, rows)


def match_dictionary(spark: SparkSession, settings: Settings) -> str:
    """Write ddl/match/views/dictionary.sql: the results of matching as Spark understands them; the warehouse has tables."""
    open_conformance(spark, settings, "described")
    named = [
        *((name, "table") for name in MATCH_TABLES),
        *((name, "view") for name in sorted(MATCH_VIEWS) if name != "dictionary"),
    ]
    return _with_rows(
        MATCH_DICTIONARY,
        [
            (name, kind, position, column.name, column.dataType.simpleString(), column.metadata["comment"])
            for name, kind in named
            for position, column in enumerate(spark.table(f"described.{name}").schema, 1)
        ],
    )


def _with_rows(dictionary: Path, rows: list[tuple[str, str, int, str, str, str]]) -> str:
    """Write a dictionary of these rows; its own head and end stay as they are."""
    head, _, rest = dictionary.read_text(encoding="utf-8").partition("FROM VALUES\n")
    own = re.findall(r"^  (\w+) COMMENT '(.*)'", head, re.MULTILINE)
    types = ["int" if name == "position" else "string" for name, _ in own]
    rows += [
        ("dictionary", "view", position, name, kind, comment)
        for position, ((name, comment), kind) in enumerate(zip(own, types, strict=True), 1)
    ]
    values = ",\n".join(f"  ({', '.join(map(_literal, row))})" for row in rows)
    return f"{head}FROM VALUES\n{values}\n{rest[rest.index('  AS columns') :]}"


def _literal(value: str | int) -> str:
    return str(value) if isinstance(value, int) else "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def tables_page() -> str:
    """Write docs/tables.md from the comments in ddl/tables and ddl/views."""
    parts = [
        "# Tables and views",
        "",
        "Every table and view with its columns, first the tables, then the views. They are in the schema `xregistry`; the view",
        "`dictionary` holds this page as rows. Not here: `snapshot_diff`, which `lakehouse sql --diff A B` makes",
        "([audits](audits.md)), and the star for BI tools ([bi](bi.md)). `make docs` writes this page from `ddl`.",
    ]
    parts += _of_tables(data_folder("ddl") / "tables", TABLES)
    parts += _of_views(data_folder("ddl") / "views", sorted(views()), DICTIONARY)
    parts += ["", "## Results of matching", "", *_ABOUT_MATCH_TABLES.splitlines()]
    parts += _of_tables(data_folder("ddl") / "match", MATCH_TABLES)
    parts += _of_views(data_folder("ddl") / "match" / "views", sorted(MATCH_VIEWS), MATCH_DICTIONARY)
    parts += ["", "## Counts of proposals", "", *_ABOUT_OBSERVED.splitlines()]
    parts += _of_tables(data_folder("ddl") / "propose", (OBSERVED,))
    parts += _of_observed_members((data_folder("ddl") / "propose" / "observed_members.sql").read_text(encoding="utf-8"))
    parts += ["", "Next: [query](query.md), [BI tools](bi.md)."]
    return "\n".join(parts) + "\n"


def _of_observed_members(text: str) -> Iterator[str]:
    about, grain = (line.removeprefix("-- ") for line in text.splitlines()[:2])
    name, _, what = about.partition(": ")
    yield from ("", f"## {name} (view)", "", fill(what, 130), "", fill(grain, 130), "", "| column | meaning |", "|---|---|")
    yield from (f"| {column} | {comment} |" for column, comment in re.findall(r"^  (\w+) COMMENT '(.*?)',?$", text, re.MULTILINE))


_ABOUT_OBSERVED = """\
`lakehouse propose` makes this table below the warehouse, at `_propose/observed_paths` ([proposals](propose.md)). The view is in
`ddl/propose`, for any Spark session: parents and nulls of a path come from several rows, so no row holds them."""
_ABOUT_MATCH_TABLES = """\
`lakehouse match --into DATABASE` makes these in a Spark schema of that name ([match](match.md)); its own `dictionary` holds this
part of the page. Rows of events are kept for `match_retention_days` (0, the default: for ever). Texts of events are cut at 120
characters, and what looks like a secret is removed."""


def _of_tables(folder: Any, names: Iterable[str]) -> Iterator[str]:
    for name in names:
        text = (folder / f"{name}.sql").read_text(encoding="utf-8")
        about, grain = (line.removeprefix("-- ") for line in text.splitlines()[:2])
        yield from ("", f"## {name}", "", fill(about.removeprefix(f"{name}: "), 130), "", fill(grain, 130), "")
        yield from ("| column | type | meaning |", "|---|---|---|")
        for column, kind, comment in _COLUMN.findall(text):
            reported = comment.replace("\\'", "'").replace("|", "\\|")
            yield f"| {column} | {kind.replace('`', '')} | {reported} |"


def _of_views(folder: Any, names: Iterable[str], dictionary: Path) -> Iterator[str]:
    described = _ROW.findall(dictionary.read_text(encoding="utf-8"))
    for name in names:
        text = (folder / f"{name}.sql").read_text(encoding="utf-8")
        about, grain = (line.removeprefix("-- ") for line in text.splitlines()[:2])
        yield from ("", f"## {name} (view)", "", fill(about.removeprefix(f"{name}: "), 130), "", fill(grain, 130), "")
        yield from ("| column | type | meaning |", "|---|---|---|")
        for relation, _, column, kind, comment in described:
            if relation == name:
                reported = comment.replace("\\'", "'").replace("\\\\", "\\").replace("|", "\\|")
                yield f"| {column} | {kind} | {reported} |"


def dialects_page() -> str:
    """Write docs/dialects.md from the tables of the package."""
    dialects = ["1.0-rc1", "1.0-rc4", "0.5-wip", "cereg", "also"]
    parts = [*_ABOUT_DIALECTS.splitlines(), "| looked at | mark | dialect |", "|---|---|---|"]
    parts += [f"| {row['what']} | {_code(row['mark'])} | {row['dialect'] or 'as it says'} |" for row in table("detection")]
    parts += [
        *_ABOUT_SPELLINGS.splitlines(),
        "| entity | place | protocol | normal form | " + " | ".join(dialects) + " | rule |",
        "|---|---|---|---|" + "---|" * len(dialects) + "---|",
    ]
    for row in table():
        if any(row[dialect] for dialect in dialects):
            cells = [row["entity"], row["place"], row["protocol"], f"`{row['name']}`"]
            cells += [_code(row[dialect]) for dialect in dialects]
            parts.append("| " + " | ".join([*cells, row["rule"]]) + " |")
    parts += _ABOUT_DRAFT.splitlines()
    for row in draft_table():
        if row["level"] in ("group", "definition", "version", "section"):
            holder = row["format"] or f"({row['level']})"
            normal = _code(row["normal"])
            parts.append(f"| {holder} | `{row['path']}` | {normal} | {row['type'].replace('|', ' or ')} | {row['rule']} |")
    for title, name in _OTHER_TABLES.items():
        columns = [*table(name)[0], *(["what it asks"] if name == "dialect_checks" else [])]
        parts += ["", f"## {title}", ""]
        parts += [*_ABOUT_TABLE[name].splitlines(), ""] if name in _ABOUT_TABLE else []
        parts += ["| " + " | ".join(columns) + " |", "|---" * len(columns) + "|"]
        rows = [_with_rule(row) if name == "dialect_checks" else row for row in table(name)]
        parts += ["| " + " | ".join(re.sub(r"(?<!\\)\|", r"\\|", row[column]) for column in columns) + " |" for row in rows]
    parts += [*_ABOUT_MERGE.splitlines(), "", "Next: [flattening](flattening.md), [export](export.md)."]
    return "\n".join(parts) + "\n"


def _with_rule(row: Mapping[str, str]) -> dict[str, str]:
    """Return a row of `dialect_checks` with the severity and the text of its rule."""
    rule = RULES[row["rule"]]
    return {**row, "severity": row["severity"] or f"{rule.severity}, here only", "what it asks": _cell(rule.text)}


_OTHER_TABLES = {
    "Values with another spelling": "dialect_values",
    "What only one dialect requires": "dialect_rules",
    "Rules of some dialects only": "dialect_checks",
    "What a dialect cannot express": "dialect_lacks",
    "How a dialect writes values": "dialect_writes",
    "Protocols": "protocols",
    "Defaults of endpoint options": "option_defaults",
}


_ABOUT_TABLE = {
    "dialect_rules": "A warning while a document of the dialect is read.",
    "dialect_checks": """\
A rule marked *here only* applies in no other dialect (CAT-098 warns in the others). The other rules apply everywhere, and in the
dialect with this severity.""",
    "dialect_lacks": """\
What an export in the dialect leaves out. *computed*: a registry computes it again, so it is no loss. *implied*: it is no loss if
reading the document gives the same value. *of Versions*: a message or schema itself has none, its Versions have. *lost*: it is
reported, and without `--lossy` nothing is written. What the CNCF catalog draft cannot express follows from its table above.""",
    "dialect_writes": "How an export in the dialect writes values of a type, where this differs from the normal form.",
    "protocols": """\
A shorthand is the version that a protocol without one means. Other schemes are kept with a warning. *address* and
*content_type*: the options of a message that hold its address and the type of its payload. *ce_attributes*: prefixes of options
that are CloudEvents attributes; the first is written. *landed*: what every message has, so that a captured message without it is
incomplete. *undeclared*: what `render` accepts although the definition does not declare it. *endpoint_options*: options of
endpoints that messages have too, under the path after the colon, or that an option of the message after the bar replaces.
*guessed*: the rank of the protocol among those that a message without one may have by its options. *exclusive*: options that
take each other's place, and the rule for both. *dotted*: options whose segments are separated by dots.""",
}


def _code(words: str) -> str:
    return " ".join(f"`{word}`" for word in words.split())


_ABOUT_RULES = """\
# Rules

All rules that documents and the catalog are checked by. `lakehouse explain MSG-250` explains one, with a failing and a corrected
example. The ids are those of [requirements.csv](requirements.csv), which lists what the specifications require; `JSON`, `DOC`,
`TEXT`, `MATCH` and `AAPI` (AsyncAPI) rules are those of this product.
`make docs` writes this page from `lakehouse/rules/data/rules.csv`.

An **error** quarantines the entity that violates it, and what depends on it; with `--strict` the whole document. Texts for
people (`name`, `description`, `documentation`, `icon`, `labels`) are no reason to lose an entity. One of a wrong type is an
**error, kept**: it is left out, it remains in `raw`, and the entity is loaded. A **warning** or an **info** is reported, and the
entity is loaded. All findings are in the table `violations`. If a document's older dialect lacks a rule, or
if published documents commonly violate it without harm, a single finding may be milder than its rule.

Each rule is tested by its own examples, in `lakehouse/rules/data/examples.csv`: `test_rules.py` for rules about one entity,
`test_checks.py` for rules between entities, and for those of this store the tests named in the last column.

"""
_TESTED_IN = {
    "JSON-004": "test_safety.py", "JSON-005": "test_one_bad_document.py",
    "JSON-006": "test_one_bad_document.py",
    "DOC-001": "test_ownership.py", "DOC-002": "test_ownership.py", "DOC-003": "test_safety.py",
    "DOC-004": "test_gate.py", "DOC-005": "test_ownership.py", "CAT-038": "test_checks.py", "CAT-064": "test_checks.py",
    "MSG-002": "test_safety.py", "MATCH-001": "match/test_definitions.py", "MATCH-002": "match/test_definitions.py",
    "MATCH-003": "match/test_definitions.py",
}  # fmt: skip


def rules_page() -> str:
    """Write docs/rules.md from rules.csv."""
    from exampled import BY_ONE_ENTITY

    parts = [
        *_ABOUT_RULES.splitlines(),
        "## Checked",
        "",
        "| rule | severity | table | what it asks | tests |",
        "|---|---|---|---|---|",
    ]
    for rule in RULES.values():
        tests = _TESTED_IN.get(rule.id, "test_rules.py" if rule.id in BY_ONE_ENTITY else "test_checks.py")
        parts.append(f"| {rule.id} | {_severity(rule)} | {rule.table} | {_cell(rule.text)} | {tests} |")
    parts += [
        "",
        "## Checked in older dialects only",
        "",
        "Reported while a document of that dialect is read; the normal form cannot violate them. Tests:",
    ]
    parts += ["`test_catalogdraft.py` and `test_old_dialects.py`.", ""]
    parts += ["| rule | severity | table | what it asks |", "|---|---|---|---|"]
    others = [one for one in FINDING_RULES.values() if one.id not in RULES]
    parts += [f"| {one.id} | {_severity(one)} | {one.table} | {_cell(one.text)} |" for one in others]
    for how, title, about in (
        ("covered", "Covered by another rule", "The rule named second finds violations of the requirement."),
        ("permissive", "Permitted", "The specification allows it; `test_rules.py` proves that it is loaded."),
        ("export", "Of the export", "It concerns the serialised form only, or what a dialect cannot express."),
        ("read", "Done by reading", "Values that are mapped to the normal form, and defaults: nothing is checked."),
    ):
        parts += ["", f"## {title}", "", about, "", "| requirement | covered by | text |", "|---|---|---|"]
        parts += [f"| {one} | {' '.join(row.by)} | {_cell(row.text)} |" for one, row in enforcement().items() if row.how == how]
    parts += ["", "Next: [validate](validation.md), [requirements](requirements.md)."]
    return "\n".join(parts) + "\n"


def _severity(rule: Rule) -> str:
    return "error, kept" if rule.severity == "error" and rule.action == "kept" else rule.severity


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


_ABOUT_COMPATIBILITY = """\
## Definitions

How `lakehouse diff` and the view `snapshot_diff` classify a difference: `breaking`, `unknown`, `compatible` or `cosmetic`.
`make docs` writes this table from `lakehouse/domain/data/compatibility_rules.csv`, which the product reads:
`SELECT * FROM compatibility_rules` gives the same. Where the document of a schema changed, `lakehouse diff`, the pages and
Python's `diff` compare [what is in it](#schemas): the row says which fields came, went or became required, with reasons. So
they do where a message leads to another schema or Version, or a schema has another default Version, if the catalog holds both
documents. The view is plain SQL, which cannot look into schemas: there these rows are `unknown`. `lakehouse diff --breaking`
lists what is `unknown`, too, and fails for `breaking` alone.

*Effective* definitions are compared, with bases merged in and with what the specifications infer. So an edit of a base
shows in every message that extends it, and writing down a default is no difference. The first rule that fits applies.
`breaking` has two sides: **producers** have to change what they send, or **consumers** receive what they do not expect
or miss what they rely on. The graver side decides. `cosmetic` are texts for people.

A rule fits by kind of entity, by change (`added`, `removed`, `changed`), by the pointer to the attribute (a regular expression;
empty for an added or removed entity) and by the added or removed value. *Place* applies to declarations, such as
`/envelopemetadata/region/required`: `new` if nothing was declared under that name before, `gone` if nothing is after,
`declaration` otherwise.

"""


def compatibility_view() -> str:
    """Write ddl/views/compatibility_rules.sql from the table of the package; its own head stays as it is."""
    head, _, _ = COMPATIBILITY_VIEW.read_text(encoding="utf-8").partition("FROM VALUES\n")
    rows = []
    for rule in compatibility_rules():
        patterns = {name: f"r'{getattr(rule, name)}'" for name in ("pointer", "value") if getattr(rule, name)}
        cells = {name: _literal(value) for name, value in rule._asdict().items()} | {"ordinal": rule.ordinal} | patterns
        rows.append(f"  ({', '.join(cells.values())})")
    values, columns = ",\n".join(rows), ", ".join(CompatibilityRule._fields)
    return f"{head}FROM VALUES\n{values}\nAS rules ({columns});\n"


def compatibility_page() -> str:
    """Write docs/compatibility.md: what it says of schemas stays as it is, and rules of definitions come from the table."""
    head, _, _ = (DOCS / "compatibility.md").read_text(encoding="utf-8").partition("## Definitions\n")
    parts = [
        *head.splitlines(),
        *_ABOUT_COMPATIBILITY.splitlines(),
        "| rule | kind | change | place | pointer | value | producers | consumers | meaning |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for _, name, kind, change, place, pointer, value, producers, consumers, reported in compatibility_rules():
        patterns = (f"`{pattern}`".replace("|", "\\|") if pattern else "" for pattern in (pointer, value))
        parts.append("| " + " | ".join([name, kind, change, place, *patterns, producers, consumers, reported]) + " |")
    parts += ["", "Next: [audit](audits.md), [flattening](flattening.md)."]
    return "\n".join(parts) + "\n"


_ABOUT_COMMANDS = """\
# Commands

Every command with its options, as `lakehouse COMMAND --help` prints them. Look here for an option; start with
[Get started](get-started.md) to learn the product. `make docs` writes this page from the program.

Exit codes: 0 done; 2 wrong usage or settings; 3 something was rejected or does not conform; 4 `diff --breaking` or `compat` found
a breaking change; 1 any other failure. With 3, an ingest has loaded everything else; an export that would lose something has
written nothing. The global options (`--warehouse`, `--json`, `--quiet` …) may come before or after the command.

## lakehouse

"""


def commands_page() -> str:
    """Write docs/cli.md from the commands."""
    parts = [*_ABOUT_COMMANDS.splitlines(), *_help_of(cli, "lakehouse")]
    for path, command in list(all_commands())[1:]:
        name = " ".join(("lakehouse", *path))
        parts += ["", f"## {name}", "", *_help_of(command, name)]
    return "\n".join([*parts, "", "Next: [settings](settings.md), the [Python API](python.md)."]) + "\n"


def _help_of(command: click.Command, path: str) -> list[str]:
    settings = {**command.context_settings, "max_content_width": 100, "terminal_width": 100}
    text = command.get_help(click.Context(command, info_name=path, **settings))
    return ["```text", *(line.rstrip() for line in text.splitlines()), "```"]


_ABOUT_SETTINGS = """\
# Settings

Every setting with its default. Copy `conf/lakehouse.toml`, change what you need, and name the file with `--conf FILE` or
`LAKEHOUSE_CONF`. Each key is also an environment variable: `LAKEHOUSE_<KEY>`. The command line wins over the environment, the
environment over the file, the file over the defaults. `make docs` writes this page from `conf/lakehouse.toml`.

| setting | default | meaning |
|---|---|---|
"""


def settings_page() -> str:
    """Write docs/settings.md from conf/lakehouse.toml: each paragraph of comments with the keys below it."""
    text = (data_folder("conf") / "lakehouse.toml").read_text(encoding="utf-8")
    parts = _ABOUT_SETTINGS.splitlines()
    for paragraph in text.split("\n\n")[1:]:
        lines = paragraph.splitlines()
        about = " ".join(line.removeprefix("# ") for line in lines if line.startswith("#"))
        code = "\n".join(line for line in lines if not line.startswith("#"))
        rows = [
            (f"`{key}`", "a table" if isinstance(value, dict) else f"`{_toml(value)}`")
            for key, value in tomllib.loads(code).items()
        ]
        keys, values = (" ".join(column) for column in zip(*rows, strict=True))
        parts.append(f"| {keys} | {values} | {_cell(about)} |")
    parts += [
        "",
        "Spark's own settings are in `conf/spark-defaults.conf`; those for clusters in [operations](operations.md#clusters).",
    ]
    return "\n".join([*parts, "", "Next: [operations](operations.md), [performance](performance.md)."]) + "\n"


def _toml(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else f'"{value}"' if isinstance(value, str) else str(value)


PAGES = {
    "cli.md": commands_page,
    "settings.md": settings_page,
    "tables.md": tables_page,
    "dialects.md": dialects_page,
    "rules.md": rules_page,
    "compatibility.md": compatibility_page,
}

# Below ddl/, but for the dictionaries.
STATEMENTS: dict[str, Callable[[], str]] = {
    **{f"tables/{name}.sql": partial(table_statement, name) for name in TABLES},
    **{f"views/{name}.sql": partial(effective_view, name) for name in ("flat_messages", "computed_messages")},
    "views/base_paths.sql": base_paths,
    "views/compatibility_rules.sql": compatibility_view,
}

if __name__ == "__main__":
    for statement, write in STATEMENTS.items():
        (DDL / statement).write_text(write(), encoding="utf-8")
    if sys.argv[1:] != ["pages"]:
        with tempfile.TemporaryDirectory() as folder:
            settings = read_settings(warehouse=f"{folder}/warehouse")
            session = open_session(settings)
            DICTIONARY.write_text(dictionary(session), encoding="utf-8")
            create_tables(session, settings)
            MATCH_DICTIONARY.write_text(match_dictionary(session, settings), encoding="utf-8")
            session.stop()
    views.cache_clear()
    for page, write in PAGES.items():
        (DOCS / page).write_text(write(), encoding="utf-8")
