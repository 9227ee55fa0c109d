"""Where the DAGs find their warehouse, documents and programs: the variable `lakehouse` of a test."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).parents[2]
BIN = Path(os.environ.get("LAKEHOUSE_BIN", ROOT / ".venv" / "bin"))


def make_places(folder: Path, properties: Path) -> dict[str, str]:
    """Make the folders of a warehouse with the demo documents, and return the variable."""
    documents = folder / "documents"
    documents.mkdir()
    (folder / "exports").mkdir()
    found = list((ROOT / "lakehouse" / "cli" / "demo").glob("*.json"))
    assert found
    for demo in found:
        (documents / demo.name).write_bytes(demo.read_bytes())
    return {
        "warehouse": str(folder / "warehouse"),
        "documents": str(documents),
        "exports": str(folder / "exports"),
        "jobs": str(ROOT / "jobs"),
        "python": str(BIN / "python"),
        "properties_file": str(properties),
        "conf": str(properties.with_name("lakehouse.toml")),
    }
