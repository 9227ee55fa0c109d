"""Where a rule is held: looked up in the files of the package, not typed, so that it is never out of date."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.abc import Traversable

_RULE_ID = re.compile(r"\b[A-Z]{3,5}-[0-9]{3}\b")
_DECLARED = ("rules.csv", "examples.csv")  # what a rule is, and not where it is held


def places_of(rule_id: str) -> list[str]:
    """Return the lines of tables, code and SQL that name a rule: `lakehouse/rules/entity/engine.py:123`.

    Comments and docstrings do not count. Where a constant stands for the rule, the lines that use it do.
    """
    return [f"{path}:{line}" for path, line in sorted(_places().get(rule_id, ()))]


@cache
def _places() -> dict[str, set[tuple[str, int]]]:
    texts = {path: file.read_text(encoding="utf-8") for path, file in _files(files("lakehouse"), "lakehouse")}
    code = {path: ast.parse(text) for path, text in texts.items() if path.endswith(".py") and _RULE_ID.search(text)}
    constants = {path: known for path, tree in code.items() if (known := _constants(tree))}
    uses = _uses(texts, constants)
    found = defaultdict(set)
    for path, text in texts.items():
        if not path.endswith(".py"):
            lines = list(enumerate(text.splitlines(), 1))
        else:
            lines = [one for one in _texts(code[path]) if (path, one[0]) not in uses] if path in code else []
        for line, written in lines:
            for rule_id in _RULE_ID.findall(written):
                found[rule_id].add((path, line))
    for (path, line), places in uses.items():
        rule_id = next(rule_id for at, rule_id in constants[path].values() if at == line)
        found[rule_id] |= places
    return found


def _files(folder: Traversable, path: str) -> Iterator[tuple[str, Traversable]]:
    for one in folder.iterdir():
        if one.is_dir():
            yield from _files(one, f"{path}/{one.name}")
        elif one.name.endswith((".py", ".csv", ".sql")) and one.name not in _DECLARED:
            yield f"{path}/{one.name}", one


def _texts(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the strings of code by line, without docstrings (strings that are statements) and examples of commands."""
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
            continue
        if id(node) not in alone and not node.value.startswith("lakehouse "):
            yield node.lineno, node.value


def _constants(tree: ast.Module) -> dict[str, tuple[int, str]]:
    """Return the names in a module that are one rule's id, such as `STALE = "DOC-003"`, with the line."""
    found = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and isinstance(node.value, ast.Constant):
            value = node.value.value
            if isinstance(value, str) and _RULE_ID.fullmatch(value):
                found[node.targets[0].id] = node.lineno, value
    return found


def _uses(texts: dict[str, str], constants: dict[str, dict[str, tuple[int, str]]]) -> dict[tuple[str, int], set[tuple[str, int]]]:
    """Return the places that use each constant, by the place where it is declared; unused ones are left out."""
    names = {name for known in constants.values() for name in known}
    any_name = re.compile(rf"\b({'|'.join(sorted(names))})\b")
    modules = {path.removesuffix(".py").replace("/", "."): path for path in constants}
    found = defaultdict(set)
    for path, text in texts.items():
        if not path.endswith(".py") or not any_name.search(text):
            continue
        tree = ast.parse(text)
        seen = {name: (path, line) for name, (line, _) in constants.get(path, {}).items()}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module in modules:
                declared = constants[modules[node.module]]
                seen |= {
                    one.asname or one.name: (modules[node.module], declared[one.name][0])
                    for one in node.names
                    if one.name in declared
                }
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in seen:
                found[seen[node.id]].add((path, node.lineno))
    return found
