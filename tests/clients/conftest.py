"""A catalog of documents, what `lakehouse export` writes of it, and `lakehouse serve`.

`CLIENTS_FOLDER` names a folder that keeps the catalog and the exports for the next run.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from programs import DOCUMENTS, lakehouse, serving


@pytest.fixture(scope="session")
def folder(tmp_path_factory) -> Path:
    """Where catalog and exports are: the warehouse `w`, `1.0-rc4/` and `1.0-rc2/`."""
    kept = os.environ.get("CLIENTS_FOLDER")
    place = Path(kept) if kept else tmp_path_factory.mktemp("clients")
    if not (place / "w").exists():
        sources = place / "documents"
        for registryid, document in DOCUMENTS.items():
            copy = sources / f"{registryid}.xreg.json"
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(document, copy)
        lakehouse("--warehouse", place / "w", "ingest", sources, "--registry-from", "document", "--json")
    return place


@pytest.fixture(scope="session")
def exports(folder) -> Callable[[str, str], Path]:
    """The file of a registry that `lakehouse export --dialect` writes."""

    def exported(dialect: str, registryid: str) -> Path:
        place = folder / dialect
        if not place.exists():
            lakehouse("--warehouse", folder / "w", "export", "--dialect", dialect, "--out", f"{place}/", "--json")
        return place / f"{registryid}.json"

    return exported


@pytest.fixture(scope="session")
def servers(folder, tmp_path_factory) -> Iterator[Callable[[str, str], str]]:
    """URLs of a registry in a dialect: of servers that run until the session ends."""
    cache = tmp_path_factory.mktemp("model")
    with serving(folder / "w", cache) as rc4, serving(folder / "w", cache, "--specification", "1.0-rc2") as rc2:
        urls = {"1.0-rc4": rc4, "1.0-rc2": rc2}
        yield lambda dialect, registryid: f"{urls[dialect]}/reg-{quote(registryid, safe='')}"
