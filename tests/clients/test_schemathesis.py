"""Schemathesis asks the server what its own OpenAPI says may be asked: no 5xx, and every answer as it says."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from pathlib import Path
from urllib.parse import quote

import pytest
from programs import IS_ALL, serving

SCHEMATHESIS = Path(sys.executable).parent / "schemathesis"
EXAMPLES = 60 if IS_ALL else 8
# What a filter may say, OpenAPI cannot: whether valid texts are taken is not asked.
FLAGS = ["--exclude-checks", "positive_data_acceptance", "--continue-on-failure", "--generation-deterministic", "--no-color"]
FLAGS += ["--max-examples", str(EXAMPLES)]
_MEMBERS = {"messagegroups": "messages", "endpoints": "messages", "schemagroups": "schemas", "messagecatalog": "messages"}
_MOST = 4  # ids of a place that are tried


def get(url: str) -> dict:
    with urllib.request.urlopen(url, timeout=60) as answer:
        return json.load(answer)


def ids_of(url: str, collection: str) -> dict[str, list[str]]:
    """Find ids for the parameters of paths: of the group with the most members, and of what is not there."""
    there, members = collection.replace("messagecatalog", "messagegroups"), _MEMBERS[collection]
    groups = get(f"{url}/{there}")
    group = max(groups, key=lambda one: groups[one][f"{members}count"])
    resources = get(f"{url}/{there}/{quote(group, safe='')}/{members}?inline=versions")
    versions = sorted({version for one in resources.values() for version in one["versions"]})
    known = {"groupid": [group], "resourceid": list(resources)[:_MOST], "versionid": versions[:_MOST]}
    return {name: [*found, "none"] for name, found in known.items()}


def described(url: str) -> dict:
    """Give the server's OpenAPI with ids that are there."""
    document = get(f"{url}/openapi.json")
    known = {collection: ids_of(url, collection) for collection in _MEMBERS}
    for path, item in document["paths"].items():
        here = next((known[name] for name in path.split("/") if name in known), {}) | {"snapshot": ["1", "head", "99"]}
        for parameter in item["parameters"]:
            parameter["schema"]["enum"] = here[parameter["name"]]
    return document


@pytest.mark.parametrize("dialect", ["1.0-rc4", "1.0-rc2"] if IS_ALL else ["1.0-rc4"])
def test_every_answer_is_as_the_openapi_says(dialect, folder, tmp_path):
    with serving(folder / "w", tmp_path / "model", "--registry", "demo/orders", "--specification", dialect) as url:
        file = tmp_path / "openapi.json"
        file.write_text(json.dumps(described(url)))
        command = [str(SCHEMATHESIS), "run", str(file), "--url", url, "--phases", "coverage,fuzzing", *FLAGS]
        ran = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert ran.returncode == 0, ran.stdout[-8000:]
    assert f"Tested: {sum(len(item) - 1 for item in json.loads(file.read_text())['paths'].values())}" in ran.stdout, ran.stdout[
        -3000:
    ]
