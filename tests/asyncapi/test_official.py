"""What is exported is valid by the official JSON Schemas and the official parser: `make asyncapi-test`, which installs both."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from asyncapitrips import trip

HERE = Path(__file__).parent
DATA = HERE.parent / "data" / "asyncapi"
DEMO = HERE.parents[1] / "lakehouse" / "cli" / "demo"
# Folders of AsyncAPI documents of others, such as the examples of the specification in 2.x and 3.x.
SAMPLES = [Path(folder).resolve() for folder in os.environ.get("ASYNCAPI_SAMPLES", "").split(os.pathsep) if folder]
DOCUMENTS = sorted({*DEMO.glob("*.json"), *(path for folder in (DATA, *SAMPLES) for path in folder.glob("*.y*ml"))})
LOADED = [path for path in DOCUMENTS if path.suffix != ".json"]


def test_what_is_exported_is_valid(tmp_path, capsys):
    files, operations = [], {}
    for path in DOCUMENTS:
        for perspective in ("client", "server"):
            there = trip(path, perspective)
            file = tmp_path / f"{path.parent.name}-{path.stem}-{perspective}.json"
            file.write_text(json.dumps(there.written.document))
            files.append(str(file))
            operations[str(file)] = len(there.written.document["operations"])
    ran = subprocess.run(["node", str(HERE / "check.mjs"), *files], capture_output=True, text=True, check=True)
    reported = [json.loads(line) for line in ran.stdout.splitlines()]
    assert {one["file"]: one["found"] for one in reported if one["found"]} == {}
    assert {one["file"]: one["operations"] for one in reported} == operations
    with capsys.disabled():
        counts = f"{len(LOADED)} of AsyncAPI and {len(DOCUMENTS) - len(LOADED)} of xRegistry"
        print(f"\n{len(reported)} documents are valid AsyncAPI 3.0 and 3.1, of {len(DOCUMENTS)} that were loaded: {counts}")


@pytest.mark.parametrize("path", LOADED, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_what_is_exported_is_loaded_again_as_it_was(path):
    there = trip(path)
    assert there.differing == set()
    assert there.written.losses == []
