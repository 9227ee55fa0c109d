"""The rules: what each asks, how bad it is when it is broken, how to fix it; where it is decided; from `rules.csv`.

A row of `rules.csv` is a requirement of the specifications (its id is the one in docs/requirements.csv) or a rule of this
store, and how it is held: `rule`, checked under its own id; `covered`, by another rule; `permissive`, nothing to check since
the specification allows it; `export`, since it asks for something that only the serialised form has; `dialect`, found while a
document of an older dialect is read, since its normal form has nothing of the kind; `read`, done by reading, nothing to check.
"""

from __future__ import annotations

import ast
import json
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple

from lakehouse.dialects.draft.conversions import draft_table
from lakehouse.dialects.tables import table
from lakehouse.errors import UnknownRule
from lakehouse.text.csvtables import read_rows
from lakehouse.text.problems import ICON

if TYPE_CHECKING:
    from importlib.abc import Traversable


SEVERITIES = ("error", "warning", "info")


HOWS = ("rule", "covered", "permissive", "export", "dialect", "read")

# Types of `dialects.csv` and `cncf_catalog.csv` that are words for people.
_WORDS = ("text", "url", "labels", "documentation", "documentationformat", "tags")
_HOW_TEXTS = {
    "rule": "checked",
    "covered": "checked by another rule",
    "permissive": "nothing to check: the specification allows it",
    "export": "of what is exported: written by the export, or reported by it as lost",
    "dialect": "checked while a document of that dialect is read",
    "read": "done while a document is read, flattened or written",
}


class Rule(NamedTuple):
    """A rule.

    Attributes:
        id: the requirement's id, or one of this store's own.
        severity: error, warning or info; a single finding may be milder where the document is of an older dialect.
        action: quarantined, when what breaks it is not loaded; kept, also of an error when only an attribute is left out.
        table: entity table whose rows it is about; `documents` for a document as a whole.
        text: what it asks, in one sentence.
        hint: how to fix what breaks it.
        section: where the specification says it.
    """

    id: str
    severity: str
    action: str
    table: str
    text: str
    hint: str
    section: str


class Enforcement(NamedTuple):
    """How a requirement is held: see the module; by: the rules that cover it."""

    how: str
    by: tuple[str, ...]
    text: str


class Example(NamedTuple):
    """A document fragment: where it is (`document`, or the entity that it is), one that breaks a rule, and its repair."""

    at: str
    bad: Any
    good: Any


class _RuleRow(NamedTuple):
    """A row of `rules.csv`."""

    id: str
    how: str
    by: str
    severity: str
    table: str
    section: str
    text: str
    hint: str


class _Fragments(NamedTuple):
    """A row of `examples.csv`; bad and good are JSON."""

    id: str
    at: str
    bad: str
    good: str


def _declared() -> list[_RuleRow]:
    return read_rows("lakehouse.rules", "rules", _RuleRow)


def _of_words() -> set[str]:
    """Return the rules about mere texts for people: a value that breaks one is left out, and its entity is loaded."""
    rows = [*table(), *(row for row in draft_table() if row["level"] in ("group", "definition"))]
    rule_texts = {row["rule"] for row in rows if row["type"] not in _WORDS}
    return {row["rule"] for row in rows} - rule_texts | {ICON}


def _rules(*hows: str) -> dict[str, Rule]:
    results = {}
    of_words = _of_words()
    for row in _declared():
        if row.how in hows:
            action = "quarantined" if row.severity == "error" and row.id not in of_words else "kept"
            results[row.id] = Rule(row.id, row.severity, action, row.table, row.text, row.hint, row.section)
    return results


# What the catalog is checked by, and also what only documents of older dialects can break: all that a finding may name.
RULES: dict[str, Rule] = _rules("rule")
FINDING_RULES: dict[str, Rule] = _rules("rule", "dialect")


@cache
def enforcement() -> dict[str, Enforcement]:
    """Return for each requirement how it is enforced."""
    return {row.id: Enforcement(row.how, tuple(row.by.split()), row.text) for row in _declared()}


@cache
def examples() -> dict[str, Example]:
    """Return the examples by rule."""
    rows = read_rows("lakehouse.rules", "examples", _Fragments)
    return {row.id: Example(row.at, json.loads(row.bad), json.loads(row.good)) for row in rows}


def explain(rule_id: str, *, with_places: bool = True) -> dict[str, Any]:
    """Return all that is known about a rule or a requirement, as one JSON value.

    Args:
        rule_id: its id.
        with_places: look for the lines of code that check it, which takes a second.

    Raises:
        UnknownRule: there is none with this id.
    """
    name = rule_id.strip().upper()
    if name not in enforcement():
        close = sorted(rule_name for rule_name in enforcement() if rule_name.split("-")[0] == name.split("-")[0])
        raise UnknownRule(rule_id, close[:5])
    how, by, text = enforcement()[name]
    details: dict[str, Any] = {"id": name, "text": text, "how": _HOW_TEXTS[how]}
    if by:
        details["covered_by"] = ", ".join(by)
    if name in FINDING_RULES:
        rule = FINDING_RULES[name]
        details |= {
            "severity": rule.severity,
            "action": rule.action,
            "table": rule.table,
            "section": rule.section,
            "hint": rule.hint,
        }
    places = places_of(name) if with_places else []
    if places:
        details["checked_in"] = ", ".join(places)
    if name in examples():
        details |= examples()[name]._asdict()
    return details


def registry_of(at: str, fragment: Any) -> dict[str, Any]:
    """Return a whole document around a fragment.

    Args:
        at: what the fragment is: document, registry, messagegroup, message, endpoint, schema.
        fragment: the JSON value.
    """
    if at in ("document", "registry"):
        whole: dict[str, Any] = {"specversion": "1.0-rc2"} | fragment
        return whole
    if at == "messagegroup":
        return {"specversion": "1.0-rc2", "messagegroups": {"g": fragment}}
    if at == "message":
        return {"specversion": "1.0-rc2", "messagegroups": {"g": {"messages": {"m": fragment}}}}
    if at == "endpoint":
        return {"specversion": "1.0-rc2", "endpoints": {"e": {"usage": ["producer"]} | fragment}}
    return {"specversion": "1.0-rc2", "schemagroups": {"g": {"schemas": {"s": fragment}}}}


_RULE_ID = re.compile(r"\b[A-Z]{3,5}-[0-9]{3}\b")
_DECLARED = ("rules.csv", "examples.csv")  # what a rule is, and not where it is checked
_RELATIONS = "lakehouse/domain/relations.py"  # words the violations of rules between entities, which its callers find


def places_of(rule_id: str) -> list[str]:
    """Return the lines of tables, code and SQL that name a rule: `lakehouse/rules/entity/engine.py:123`.

    Comments and docstrings do not count. Where a constant means the rule, the lines that use it do. Of a rule between entities,
    the lines that call its function in `domain/relations.py` do, too: they find what breaks it.
    """
    return [f"{path}:{line}" for path, line in sorted(_places().get(rule_id, ()))]


@cache
def _places() -> dict[str, set[tuple[str, int]]]:
    texts = {path: file.read_text(encoding="utf-8") for path, file in _files(files("lakehouse"), "lakehouse")}
    code = {path: ast.parse(text) for path, text in texts.items() if path.endswith(".py") and _RULE_ID.search(text)}
    constants = {path: declared for path, tree in code.items() if (declared := _constants(tree))}
    uses = _uses(texts, constants)
    result = defaultdict(set)
    for path, text in texts.items():
        if not path.endswith(".py"):
            lines = list(enumerate(text.splitlines(), 1))
        else:
            lines = [text_line for text_line in _texts(code[path]) if (path, text_line[0]) not in uses] if path in code else []
        for line, written in lines:
            for rule_id in _RULE_ID.findall(written):
                result[rule_id].add((path, line))
    for (path, line), places in uses.items():
        rule_id = next(rule_id for at, rule_id in constants[path].values() if at == line)
        result[rule_id] |= places
    for rule_id, places in _callers(texts, code[_RELATIONS]).items():
        result[rule_id] |= places
    return result


def _callers(texts: dict[str, str], relations: ast.Module) -> dict[str, set[tuple[str, int]]]:
    """Return the places that call a function of `domain/relations.py`, or name it in a text, by rule.

    A function names its rules itself, or by a table or tuple of the module.
    """
    tables = {
        node.targets[0].id: _ids(node.value)
        for node in relations.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    rules = {
        function.name: _ids(function).union(
            *(tables.get(name.id, ()) for name in ast.walk(function) if isinstance(name, ast.Name))
        )
        for function in relations.body
        if isinstance(function, ast.FunctionDef) and function.name.startswith("check_")
    }
    result = defaultdict(set)
    for path, text in texts.items():
        if path == _RELATIONS or not path.endswith(".py") or not any(name in text for name in rules):
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "relations":
                name = node.attr
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                name = node.value
            else:
                continue
            for rule_id in rules.get(name, ()):
                result[rule_id].add((path, node.lineno))
    return result


def _ids(tree: ast.AST) -> set[str]:
    return {rule_id for _, text in _texts(tree) for rule_id in _RULE_ID.findall(text)}


def _files(folder: Traversable, path: str) -> Iterator[tuple[str, Traversable]]:
    for file in folder.iterdir():
        if file.is_dir():
            yield from _files(file, f"{path}/{file.name}")
        elif file.name.endswith((".py", ".csv", ".sql")) and file.name not in _DECLARED:
            yield f"{path}/{file.name}", file


def _texts(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the strings of code by line, without docstrings (strings that are statements) and examples of commands."""
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
            continue
        if id(node) not in alone and not node.value.startswith("lakehouse "):
            yield node.lineno, node.value


def _constants(tree: ast.Module) -> dict[str, tuple[int, str]]:
    """Return the names in a module that are one rule's id, such as `STALE = "DOC-003"`, with the line."""
    results = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and isinstance(node.value, ast.Constant):
            value = node.value.value
            if isinstance(value, str) and _RULE_ID.fullmatch(value):
                results[node.targets[0].id] = node.lineno, value
    return results


def _uses(texts: dict[str, str], constants: dict[str, dict[str, tuple[int, str]]]) -> dict[tuple[str, int], set[tuple[str, int]]]:
    """Return the places that use each constant, by the place where it is declared; unused ones are left out."""
    names = {name for declared_here in constants.values() for name in declared_here}
    any_name = re.compile(rf"\b({'|'.join(sorted(names))})\b")
    modules = {path.removesuffix(".py").replace("/", "."): path for path in constants}
    result = defaultdict(set)
    for path, text in texts.items():
        if not path.endswith(".py") or not any_name.search(text):
            continue
        tree = ast.parse(text)
        seen = {name: (path, line) for name, (line, _) in constants.get(path, {}).items()}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module in modules:
                declared = constants[modules[node.module]]
                seen |= {
                    imported.asname or imported.name: (modules[node.module], declared[imported.name][0])
                    for imported in node.names
                    if imported.name in declared
                }
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in seen:
                result[seen[node.id]].add((path, node.lineno))
    return result
