"""The packages are in one row, and each imports only from those to its left."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "lakehouse"

BASE = ["version", "errors", "extras", "__init__", "failpoints", "settings", "progress"]
PACKAGES = [
    "text",
    "store",
    "dialects",
    "compatibility",
    "domain",
    "asyncapi",
    "log",
    "rules",
    "expectations",
    "operations",
    "export",
    "readmodel",
    "ingest",
    "query",
]
PACKAGES += ["match", "render", "propose", "site", "agents", "serve", "replicate", "registries", "cli"]
ORDER = [*BASE, *PACKAGES[:-1], "catalog", "cli", "__main__"]

MODULES = sorted(PACKAGE.rglob("*.py"))
MOST_LINES = {ast.Module: 700, ast.ClassDef: 200, ast.FunctionDef: 60, ast.AsyncFunctionDef: 60}
MOST_BY_POSITION = 7  # arguments; more are given by name, or together


def name_of(path: Path) -> str:
    """Return the dotted name of a module below the package."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


def room_of(path: Path) -> str:
    """Return the package that a module belongs to, or its own name where it is in none."""
    return name_of(path).split(".", maxsplit=1)[0]


@cache
def tree_of(path: Path) -> ast.Module:
    """Parse a module, once for all tests."""
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """Return all nodes of a module, walked once for all tests."""
    return tuple(ast.walk(tree_of(path)))


@cache
def imports_of(path: Path, with_types: bool = False) -> set[str]:
    """Return what a module imports of the product when it runs, dotted below the package; on request also for types."""
    found = set()
    for node in nodes_of(path) if with_types else _run(tree_of(path)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "lakehouse":
            below = node.module.split(".")[1:]
            found |= {".".join([*below, alias.name]) for alias in node.names}
        elif isinstance(node, ast.Import):
            names = [alias.name.split(".") for alias in node.names]
            found |= {".".join(name[1:]) or "__init__" for name in names if name[0] == "lakehouse"}
    return found


def _run(tree: ast.AST) -> Iterator[ast.AST]:
    """Walk through code without what is only for types."""
    for node in ast.iter_child_nodes(tree):
        if not (isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"):
            yield node
            yield from _run(node)


def test_every_package_has_its_place_in_the_row():
    assert sorted(ORDER) == sorted({room_of(path) for path in MODULES})


def test_a_package_imports_only_from_its_left():
    to_the_right = []
    for path in MODULES:
        room = room_of(path)
        rooms = {name.split(".")[0] for name in imports_of(path)} - {room}
        to_the_right += [(name_of(path), name) for name in rooms & set(ORDER) if ORDER.index(name) > ORDER.index(room)]
    assert to_the_right == []


def test_a_private_module_is_imported_in_its_own_package_alone():
    foreign = [(name_of(path), name) for path in MODULES for name in imports_of(path) if name.split(".")[0] != room_of(path)]
    private = [pair for pair in foreign if any(part.startswith("_") and not part.startswith("__") for part in pair[1].split("."))]
    assert private == []


@pytest.mark.parametrize("name", PACKAGES)
def test_a_package_explains_its_idea_and_every_name_of_its_face_is_there(name):
    face = import_module(f"lakehouse.{name}")
    assert face.__doc__
    for exported in getattr(face, "__all__", ()):
        assert getattr(face, exported).__doc__, f"lakehouse.{name}.{exported}"


@pytest.mark.parametrize("name", PACKAGES)
def test_a_package_holds_one_level_of_packages(name):
    for folder in (path for path in (PACKAGE / name).iterdir() if (path / "__init__.py").exists()):
        assert not [path for path in folder.iterdir() if (path / "__init__.py").exists()]


def test_modules_classes_and_functions_are_short():
    too_long = {}
    for path in MODULES:
        lines = {name_of(path): (len(path.read_text(encoding="utf-8").splitlines()), MOST_LINES[ast.Module])}
        for node in nodes_of(path):
            if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                place = f"{name_of(path)}.{node.name}:{node.lineno}"
                lines[place] = (node.end_lineno - node.lineno + 1, MOST_LINES[type(node)])
        too_long |= {place: count for place, (count, most) in lines.items() if count > most}
    assert too_long == {}


def test_no_function_takes_many_arguments_by_position():
    too_many = {}
    for path in MODULES:
        for node in nodes_of(path):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
                by_position = [parameter.arg for parameter in (*node.args.posonlyargs, *node.args.args)]
                if len(by_position) > MOST_BY_POSITION:
                    too_many[f"{name_of(path)}.{getattr(node, 'name', 'lambda')}:{node.lineno}"] = by_position
    assert too_many == {}


def test_modules_do_not_import_each_other_in_a_circle_not_even_for_types():
    edges = {name_of(path): {_module(name) for name in imports_of(path, with_types=True)} for path in MODULES}
    while edges:
        free = {name for name, found in edges.items() if not (found - {name}) & edges.keys()}
        assert free, f"a circle: {sorted(edges)}"
        edges = {name: found for name, found in edges.items() if name not in free}


INTERNAL = re.compile(
    r"\b(?:_jvm|_jdf|_jdt|_jc|_jsc|_jsparkSession|_gateway|_gateway_client|_ensure_initialized|launch_gateway)\b"
    r"|\.java_gateway\b|org\.apache\.spark\.sql\.(?:delta(?!\.catalog\.DeltaCatalog)|execution|catalyst|classic|hive)"
)


def test_what_is_internal_to_spark_and_delta_is_reached_by_one_package():
    others = [path for path in MODULES if path.parent.name != "internals"]
    inside = {name_of(path): INTERNAL.findall(path.read_text(encoding="utf-8")) for path in others}
    assert {name: places for name, places in inside.items() if places} == {}


def _module(name: str) -> str:
    """Return the module that an import leads to: `log.plan.Head` and `log.plan` lead to `log.plan`, `log.Head` to its package."""
    return name if name in NAMES else _module(name.rpartition(".")[0]) if "." in name else "__init__"


NAMES = {name_of(path) for path in MODULES}


def test_no_file_and_no_class_has_the_name_of_another():
    files, classes = defaultdict(list), defaultdict(list)
    for path in MODULES:
        if path.stem != "__init__":
            files[path.stem].append(name_of(path))
        for node in nodes_of(path):
            if isinstance(node, ast.ClassDef):
                classes[node.name].append(name_of(path))
    for places in (files, classes):
        assert {name: paths for name, paths in places.items() if len(paths) > 1} == {}


def test_only_the_command_line_prints():
    printing = [
        name_of(path)
        for path in MODULES
        if any(isinstance(node, ast.Call) and getattr(node.func, "id", "") == "print" for node in nodes_of(path))
    ]
    assert printing == []


def test_every_module_is_imported_before_spark_is_there(tmp_path):
    modules = [name for name in sorted(NAMES) if not name.startswith("__")]
    script = tmp_path / "imports.py"
    script.write_text("".join(f"import lakehouse.{name}\n" for name in modules) + "print('all')\n")
    here = os.environ | {"PYTHONPATH": str(PACKAGE.parent)}
    ran = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False, env=here)
    assert (ran.returncode, ran.stdout) == (0, "all\n"), ran.stderr


def test_help_is_reported_without_spark():
    heavy = ("pyspark", "pyarrow", "pandas")
    code = f"import sys, lakehouse.cli.main; print([name for name in {heavy} if name in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"


def test_what_is_run_by_hand_can_be_imported(tmp_path):
    root = PACKAGE.parent
    programs = [path for folder in ("soak", "bench") for path in sorted((root / "tests" / folder).glob("*.py"))]
    script = tmp_path / "imports.py"
    script.write_text("".join(f"import tests.{path.parent.name}.{path.stem}\n" for path in programs if path.stem != "bare_query"))
    here = os.environ | {"PYTHONPATH": str(root)}
    ran = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False, env=here)
    assert ran.returncode == 0, ran.stderr


NAMED = re.compile(r"`([A-Za-z_]+(?:\.[A-Za-z_]+)+)`")
NOT_OURS = {"jiter.LosslessFloat", "SparkContext.addFile"}
NOT_CODE = {"labels.stage", "meta.readonly", "meta.defaultversionid"}
NOT_CODE |= {"filter.prefix.subject", "config.contentmode", "SNAPSHOT.POSITION"}


def names_in(tree: ast.AST) -> set[str]:
    """Return every name that code gives something, attributes of objects among them."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Store):
            found.add(node.id if isinstance(node, ast.Name) else node.attr)
    return found


def held_names() -> dict[str, set[str]]:
    """Return what modules, packages and classes of the product hold, by the name of the holder."""
    held: dict[str, set[str]] = defaultdict(set)
    bases: set[tuple[str, str]] = set()
    for path in MODULES:
        tree = tree_of(path)
        folder = path.parent.name
        held[folder] |= {path.stem} | ({sub.parent.name for sub in path.parent.glob("*/__init__.py")})
        if path.stem == "__init__":
            held[folder] |= {word for node in nodes_of(path) if isinstance(node, ast.Constant) for word in [str(node.value)]}
        held[path.stem] |= names_in(tree)
        for node in nodes_of(path):
            if isinstance(node, ast.ClassDef):
                held[node.name] |= names_in(node)
                bases |= {(node.name, base.id) for base in node.bases if isinstance(base, ast.Name)}
    for _ in bases:  # often enough for the longest chain of base classes
        for name, base in bases:
            held[name] |= held[base]
    return held


def test_names_that_docstrings_and_comments_give_are_there():
    held = held_names()
    missing = []
    for path in MODULES:
        for name in NAMED.findall(path.read_text(encoding="utf-8")):
            *_, holder, last = name.split(".")
            is_file = last in ("csv", "sql", "json", "html", "arrow", "toml")
            if name not in NOT_OURS | NOT_CODE and not is_file and last not in held.get(holder, ()):
                missing.append((str(path.relative_to(PACKAGE)), name))
    assert missing == []
