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

Teams write registry documents in several dialects. Each becomes one normal form, that of 1.0-rc2. This page is written from
`lakehouse/dialects.csv` by `make docs`: every attribute of the normal form that is spelled otherwise somewhere, where it
stands, and how else it is spelled. A spelling is relative to its place; one that starts with `/` starts at the entity; `*`
stands for all members, so `options/*` means that the members of `options` are lifted. How often each other spelling was met
in a document is told by its row in the log (`spellings`), and the dialect that was recognised (`dialect`).

Beside names, these values are brought into normal form: references `#/messagegroups/g/messages/m` become XIDs; `protocol`
`Kafka` becomes `KAFKA`, and the text `None` absent; `usage` as a string becomes an array; a bare value of a message's
protocol option becomes a declaration (`"qos": 1` → `"qos": {"value": 1}`).

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


_ABOUT_COMPATIBILITY = """\
# Compatibility

What `lakehouse diff` and the view `snapshot_diff` say of a difference, and why. This page is written by `make docs` from
`ddl/views/compatibility_rules.sql`, which is what the product runs: `SELECT * FROM compatibility_rules` gives the same.

Compared are *effective* definitions: the bases of a message merged in, and what the specifications infer (an edit of a base
shows in every message that extends it; saying a default is no difference). For each difference the first rule that fits holds.
`breaking` is meant for two sides: **producers** have to change what they send, or **consumers** receive what they do not expect
or miss what they rely on. A difference is as grave as the graver of the two. `cosmetic` are words for people.

A rule fits by kind of entity, by change (`added`, `removed`, `changed`), by the pointer to the attribute (a regular expression;
that of an entity which came or went is empty) and by the value that came, or that went. *Place* is said of declarations, such as
`/envelopemetadata/region/required`: `new` when nothing was declared of that name before, `gone` when nothing is after,
`declaration` when it stays.

"""
_RULE = re.compile(r"^  \((\d+), (.*)\),?$", re.MULTILINE)


def compatibility_page() -> str:
    """Write docs/compatibility.md from ddl/views/compatibility_rules.sql."""
    text = (data_folder("ddl") / "views" / "compatibility_rules.sql").read_text(encoding="utf-8")
    parts = [
        *_ABOUT_COMPATIBILITY.splitlines(),
        "| rule | kind | change | place | pointer | value | producers | consumers | meaning |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for _, row in _RULE.findall(text):
        name, kind, change, place, pointer, value, producers, consumers, told = re.findall(r"r?'([^']*)'", row)
        patterns = (f"`{pattern}`".replace("|", "\\|") if pattern else "" for pattern in (pointer, value))
        parts.append("| " + " | ".join([name, kind, change, place, *patterns, producers, consumers, told]) + " |")
    return "\n".join(parts) + "\n"


PAGES = {"tables.md": tables_page, "dialects.md": dialects_page, "compatibility.md": compatibility_page}

if __name__ == "__main__":
    for page, write in PAGES.items():
        (DOCS / page).write_text(write(), encoding="utf-8")
