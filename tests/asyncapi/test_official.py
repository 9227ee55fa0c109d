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
# A folder of AsyncAPI documents of others, such as the examples of the specification.
SAMPLES = Path(os.environ["ASYNCAPI_SAMPLES"]).resolve() if "ASYNCAPI_SAMPLES" in os.environ else DATA
DOCUMENTS = sorted({*DATA.glob("*.yaml"), *DEMO.glob("*.json"), *SAMPLES.glob("*.yml"), *SAMPLES.glob("*.yaml")})


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
    told = [json.loads(line) for line in ran.stdout.splitlines()]
    assert {one["file"]: one["found"] for one in told if one["found"]} == {}
    assert {one["file"]: one["operations"] for one in told} == operations
    with capsys.disabled():
        print(f"\n{len(told)} documents are valid AsyncAPI 3.0 and 3.1, of {len(DOCUMENTS)} that were loaded")


@pytest.mark.parametrize("path", [path for path in DOCUMENTS if path.suffix != ".json"], ids=lambda path: path.stem)
def test_what_is_exported_is_loaded_again_as_it_was(path):
    there = trip(path)
    assert there.differing == set()
    assert there.written.losses == []
