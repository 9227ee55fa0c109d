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
    """Give the lines of tables, code and SQL that name a rule: `lakehouse/rules/one/engine.py:123`.

    Comments and docstrings do not count.
    """
    return [f"{path}:{line}" for path, line in sorted(_places().get(rule_id, ()))]


@cache
def _places() -> dict[str, set[tuple[str, int]]]:
    found = defaultdict(set)
    for path, file in _files(files("lakehouse"), "lakehouse"):
        for line, text in _texts(path, file.read_text(encoding="utf-8")):
            for rule_id in _RULE_ID.findall(text):
                found[rule_id].add((path, line))
    return found


def _files(folder: Traversable, path: str) -> Iterator[tuple[str, Traversable]]:
    for one in folder.iterdir():
        if one.is_dir():
            yield from _files(one, f"{path}/{one.name}")
        elif one.name.endswith((".py", ".csv", ".sql")) and one.name not in _DECLARED:
            yield f"{path}/{one.name}", one


def _texts(path: str, text: str) -> Iterator[tuple[int, str]]:
    """Give lines of a table; of code the texts in it, but for docstrings, which are texts that stand alone."""
    if not path.endswith(".py"):
        yield from enumerate(text.splitlines(), 1)
    elif _RULE_ID.search(text):
        tree = ast.parse(text)
        alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in alone:
                yield node.lineno, node.value
