"""The modules stand in one row, and each imports only from modules to its left."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "lakehouse"

ORDER = [
    "__init__",
    "errors", "faults", "settings", "findings", "xid", "timestamps", "blanking", "jsontext", "texts", "streams", "redact",
    "model", "watching", "suites", "expectations",
    "conflicts", "session", "siblings", "stages", "migrations", "tables", "positions", "views",
    "dialects", "values", "coercions", "entities", "catalogtypes", "detection", "families", "rows", "versionorder",
    "rules", "criteria", "constraints", "locate", "normalform", "respell",
    "catalogsections", "catalogconversion", "catalogdraft", "catalogexport", "outward", "stagebatches", "folders", "documents",
    "parse",
    "violations", "refusals", "telling", "disputes", "ownership", "staleness", "defaults", "numbering", "plans",
    "changes", "digests", "effective", "projections", "dryruns",
    "relationrows", "references", "relations", "presence", "gate", "catalogchecks",
    "maintenance", "datadocs", "candidates", "snapshots", "serving", "audits", "events", "backups", "doctor", "diffs",
    "documentview", "losses", "groupwriters", "serialise", "targets", "selection", "export",
    "queries", "violationlist", "show", "pipeline", "landing", "validation", "telemetry", "demo",
    "printing", "match", "render", "console", "commands_load", "commands_ask", "commands_audit", "commands_keep",
    "commands_match", "commands_render", "cli", "__main__",
]  # fmt: skip


def imports_of(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "lakehouse":
            parts = node.module.split(".")
            found |= {parts[1]} if len(parts) > 1 else {alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {[*alias.name.split("."), "__init__"][1] for alias in node.names if alias.name.split(".")[0] == "lakehouse"}
    return found


MODULES = [*sorted(PACKAGE.glob("*.py")), *(PACKAGE / name / "__init__.py" for name in ("demo", "match", "render"))]


def name_of(path: Path) -> str:
    return path.parent.name if path.parent != PACKAGE else path.stem


def test_every_module_has_its_place_in_the_row():
    assert sorted(ORDER) == sorted(name_of(path) for path in MODULES)


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_module_imports_only_from_its_left(path):
    place = ORDER.index(name_of(path))
    to_the_right = [name for name in imports_of(path) if ORDER.index(name) >= place and name != "__init__"]
    assert to_the_right == []


def test_only_the_command_line_prints():
    printing = [
        name_of(path)
        for path in MODULES
        if any(
            isinstance(node, ast.Call) and getattr(node.func, "id", "") == "print"
            for node in ast.walk(ast.parse(path.read_text()))
        )
    ]
    assert printing == []


def test_every_module_is_imported_before_spark_is_there(tmp_path):
    modules = [name for name in ORDER if not name.startswith("__")]
    script = tmp_path / "imports.py"
    script.write_text("".join(f"import lakehouse.{name}\n" for name in modules) + "print('all')\n")
    here = os.environ | {"PYTHONPATH": str(PACKAGE.parent)}
    ran = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False, env=here)
    assert (ran.returncode, ran.stdout) == (0, "all\n"), ran.stderr


def test_what_is_run_by_hand_can_be_imported(tmp_path):
    root = PACKAGE.parent
    programs = [path for folder in ("soak", "bench") for path in sorted((root / "tests" / folder).glob("*.py"))]
    script = tmp_path / "imports.py"
    script.write_text("".join(f"import tests.{path.parent.name}.{path.stem}\n" for path in programs if path.stem != "bare_count"))
    here = os.environ | {"PYTHONPATH": str(root)}
    ran = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False, env=here)
    assert ran.returncode == 0, ran.stderr
