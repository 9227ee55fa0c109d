"""Writes the pages of docs/ that are told by the code: `python tests/docs.py` (make docs). A test compares them."""

from __future__ import annotations

import re
from pathlib import Path

from lakehouse.dialects import table
from lakehouse.settings import data_folder
from lakehouse.tables import TABLES

DOCS = Path(__file__).parents[1] / "docs"
_COLUMN = re.compile(r"^  (\w+) (.+?)(?: NOT NULL)? COMMENT '(.*?)',?$", re.MULTILINE)


_ABOUT_DIALECTS = """\
# Dialects

Teams write documents in several dialects. Each becomes one normal form, that of 1.0-rc2, and the normal form can be written in
another dialect again. This page is written by `make docs` from the tables in `lakehouse/*.csv`, which the program reads too.

| dialect | what it is |
|---|---|
| 1.0-rc1, 1.0-rc2, 1.0-rc4 | release candidates of xRegistry 1.0; rc2 is the normal form |
| 0.5-wip | the draft before them |
| cereg | the oldest: `definitionGroups`, `definitions`, `schemaGroups`; JSON or YAML |
| cncf-catalog | the working draft of the CNCF Message and Event Catalog API |

## Which dialect a document is in

A document of the CNCF catalog draft is a group (`messagedefinitions`, or `id` and `format`), an array of groups, or one
definition (`definition`, or `versions` with `id` and `format`). Any other document is told by the first of these that fits;
without any it is taken for 1.0-rc2. `lakehouse ingest --dialect NAME` overrides it. The summary counts documents by dialect, and
the log keeps each document's `dialect`, and how often each other spelling was met in it (`spellings`).

"""
_ABOUT_SPELLINGS = """\

## Spellings

Every attribute of the normal form that is spelled otherwise somewhere, where it stands, and how else it is spelled. A spelling is
relative to its place; one that starts with `/` starts at the entity; `*` stands for all members, so `options/*` means that the
members of `options` are lifted. A spelling is understood in every document, whatever its dialect.

Beside names, these values are brought into normal form: references `#/messagegroups/g/messages/m` become XIDs; `protocol`
`Kafka` becomes `KAFKA`, and the text `None` absent; `usage` as a string becomes an array; a bare value of a message's
protocol option becomes a declaration (`"qos": 1` → `"qos": {"value": 1}`); `authorization` as a list of one becomes its object.

"""
_ABOUT_DRAFT = """\

## The CNCF catalog draft

`format` of a group is its envelope or its protocol. `tags` are labels without values; a `documentation` that is no URL is kept as
`documentationtext`. A definition that stands alone in its file belongs to the group that its path names
(`.../GROUP/messagedefinitions/...`), else to the group `default`.

Versions are integers. A version without a number gets the next; one whose number is free keeps it. When a definition has
changed, also under the number of a Version that the catalog holds, it becomes a new Version above the highest that ever was; a
Version that exists never changes, and the latest is the default. A changed `authority` is refused, and so is a changed `format`
of a group that holds definitions. `version_uri` is the authority joined with the path of the version; without an authority it is
the catalog's own and not stored.

| format | member | normal form | type | rule |
|---|---|---|---|---|
"""
_ABOUT_MERGE = """\

## How a message and its base are merged

Definitions are merged in normal form, so that no spelling decides the result.

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


def tables_page() -> str:
    """Write docs/tables.md from the comments in ddl/tables."""
    parts = [
        "# Tables",
        "",
        "Written from the comments in `ddl/tables` by `make docs`. All tables stand in the schema `xregistry`.",
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
    return "\n".join(parts) + "\n"


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
    for row in table("cncf_catalog"):
        if row["level"] in ("group", "definition", "version", "section"):
            holder = row["format"] or f"({row['level']})"
            normal = _code(row["normal"])
            parts.append(f"| {holder} | `{row['path']}` | {normal} | {row['type'].replace('|', ' or ')} | {row['rule']} |")
    for title, name in _OTHER_TABLES.items():
        columns = list(table(name)[0])
        parts += ["", f"## {title}", "", "| " + " | ".join(columns) + " |", "|---" * len(columns) + "|"]
        parts += ["| " + " | ".join(row[column] for column in columns) + " |" for row in table(name)]
    parts += _ABOUT_MERGE.splitlines()
    return "\n".join(parts) + "\n"


_OTHER_TABLES = {
    "Values that are written otherwise": "dialect_values",
    "What one dialect alone asks for": "dialect_rules",
    "What a dialect does not know": "dialect_lacks",
    "How a dialect writes values": "dialect_writes",
    "Protocols": "protocols",
    "Defaults of endpoint options": "option_defaults",
}


def _code(words: str) -> str:
    return " ".join(f"`{word}`" for word in words.split())


PAGES = {"tables.md": tables_page, "dialects.md": dialects_page}

if __name__ == "__main__":
    for page, write in PAGES.items():
        (DOCS / page).write_text(write(), encoding="utf-8")
