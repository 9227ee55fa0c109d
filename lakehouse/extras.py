"""Extras of this package: which libraries each one brings, and what to install where one is missing.

The core reads what was loaded. What loads, validates or serves needs an extra of pyproject.toml, and names it when it is not
installed.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final

from lakehouse.errors import NotInstalled

EXTRAS: Final = {
    "spark": ("delta", "pandas", "py4j", "pyspark", "tenacity"),
    "connect": ("grpc", "grpc_status", "zstandard"),
    "validate": ("great_expectations",),
    "match": ("fastavro", "google", "grpc_tools", "json_structure", "jsonschema_rs", "re2", "xmlschema"),
    "serve": ("anyio", "httptools", "starlette", "uvicorn"),
    "mcp": ("mcp",),
    "replicate": ("urllib3",),
    "lineage": ("openlineage",),
}


def not_installed(error: ModuleNotFoundError) -> str:
    """Return which library is not installed, and the command that installs the extra which brings it."""
    library = (error.name or "").split(".")[0]
    extra = next((name for name, libraries in EXTRAS.items() if library in libraries), None)
    command = f": pip install 'xregistry-lakehouse[{extra}]'" if extra else ""
    return f"{library if extra else error.name} is not installed{command}"


def require(library: str) -> None:
    """Check that a library is installed, before work begins that needs it later.

    Raises:
        NotInstalled: it is not.
    """
    if find_spec(library) is None:
        raise NotInstalled(f"{not_installed(ModuleNotFoundError(name=library))}.")


def missing_libraries(extra: str) -> list[str]:
    """Return the libraries of an extra that are not installed."""
    return [library for library in EXTRAS[extra] if find_spec(library) is None]
