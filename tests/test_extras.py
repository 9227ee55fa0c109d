"""The extras: what is installed by each, and what an error says where one is missing."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import packages_distributions, requires

import pytest

from lakehouse.errors import NotInstalled
from lakehouse.extras import EXTRAS, missing_libraries, not_installed, require

WITHOUT = """
import sys
sys.modules[{library!r}] = None
from lakehouse.cli.main import main
sys.argv = ["lakehouse", *{command!r}]
main()
"""


def spelled(distribution: str) -> str:
    """Return the name of a distribution as package indexes compare it."""
    return re.sub(r"[-_.]+", "-", distribution).lower()


def required(extra: str) -> set[str]:
    """Return the distributions that an extra requires on every system."""
    lines = [line for line in requires("xregistry-lakehouse") or () if f"extra == '{extra}'" in line]
    return {spelled(re.split(r"[\s<>=;!~\[]", line, maxsplit=1)[0]) for line in lines if "sys_platform" not in line}


@pytest.mark.parametrize("extra", EXTRAS)
def test_an_extra_brings_the_libraries_that_it_is_listed_with(extra):
    brought_by = {library: {spelled(name) for name in names} for library, names in packages_distributions().items()}
    assert required(extra) <= set().union(*(brought_by[library] for libraries in EXTRAS.values() for library in libraries))
    own = [library for library in EXTRAS[extra] if library != "py4j"]  # which PySpark brings
    assert [library for library in own if not brought_by[library] & required(extra)] == []
    assert missing_libraries(extra) == []


@pytest.mark.parametrize(
    ("library", "command", "extra"),
    [
        ("pyspark", ["sql", "SELECT 1"], "spark"),
        ("pyspark", ["doctor"], "spark"),
        ("uvicorn", ["serve"], "serve"),
    ],
)
def test_a_command_without_its_library_names_the_extra(library, command, extra, tmp_path):
    code = WITHOUT.format(library=library, command=["--warehouse", str(tmp_path / "none"), *command])
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.stderr == f"error: {library} is not installed: pip install 'xregistry-lakehouse[{extra}]'.\n"
    assert ran.returncode == 2


def test_the_catalog_without_spark_names_the_extra():
    code = "import sys; sys.modules['pyspark'] = None\nfrom lakehouse import Catalog"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    last = ran.stderr.splitlines()[-1]
    assert last == "lakehouse.errors.NotInstalled: pyspark is not installed: pip install 'xregistry-lakehouse[spark]'."


def test_spark_alone_loads_queries_and_exports():
    """With the extra `spark` and no other: what an ingest imports, and `Catalog`."""
    absent = [library for extra, libraries in EXTRAS.items() if extra != "spark" for library in libraries]
    code = f"import sys; sys.modules.update(dict.fromkeys({absent!r}))\nfrom lakehouse import Catalog\n"
    code += "import lakehouse.export.run, lakehouse.ingest.planner, lakehouse.log.effectivetable, lakehouse.rules.gate\n"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_a_library_of_no_extra_is_named_alone():
    require("json")
    with pytest.raises(NotInstalled, match=r"\Anot_there is not installed\.\Z"):
        require("not_there")
    assert not_installed(ModuleNotFoundError(name="google.protobuf")).endswith("xregistry-lakehouse[match]'")
