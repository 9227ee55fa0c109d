"""Schemathesis asks the server what its own OpenAPI says may be asked: no 5xx, and every answer as it says."""

from __future__ import annotations

import json
import shutil
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
# Whatever a body says is taken or refused by rules that OpenAPI cannot report.
RULES_OF_OUR_OWN = "positive_data_acceptance,negative_data_rejection,unsupported_method"
FLAGS_OF_WRITES = ["--max-examples", "20" if IS_ALL else "2", *(() if IS_ALL else ("--phases", "fuzzing"))]
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


def ids_of_subjects(url: str) -> dict[str, list[str]]:
    """Find ids for the parameters of paths below `/ccompat/v7`: some that are there, and some that are not."""
    subjects = get(f"{url}/ccompat/v7/subjects")[:_MOST]
    records = [get(f"{url}/ccompat/v7/subjects/{quote(name, safe='')}/versions/latest") for name in subjects]
    known = {
        "subject": subjects,
        "id": [str(one["id"]) for one in records],
        "guid": [one["guid"] for one in records if "guid" in one],
    }
    return {name: [*values, "none"] for name, values in known.items()} | {"version": ["1", "latest", "99"]}


def described(url: str, *subscribed: str) -> dict:
    """Return the server's OpenAPI with ids that are there, and those of subscriptions."""
    document = get(f"{url}/openapi.json")
    known = {collection: ids_of(url, collection) for collection in _MEMBERS} | {"ccompat": ids_of_subjects(url)}
    for path, item in document["paths"].items():
        here = next((known[name] for name in path.split("/") if name in known), {}) | {"snapshot": ["1", "head", "99"]}
        here |= {"subscriptionid": [*subscribed, "none"]}
        for parameter in item["parameters"]:
            parameter["schema"]["enum"] = here[parameter["name"]]
    return document


def subscribe(url: str) -> str:
    """Subscribe for nothing, and give the id."""
    reported = {"sink": "https://sink.invalid/", "types": ["none"]}
    request = urllib.request.Request(f"{url}/subscriptions", json.dumps(reported).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)["id"]


def run(document: dict, url: str, place: Path, *flags: str) -> str:
    """Run Schemathesis, and give what it says."""
    file = place / "openapi.json"
    file.write_text(json.dumps(document))
    command = [str(SCHEMATHESIS), "run", str(file), "--url", url, "--phases", "coverage,fuzzing", *FLAGS, *flags]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=place, check=False)
    assert ran.returncode == 0, ran.stdout[-8000:]
    return ran.stdout


def operations(document: dict) -> int:
    """Count the operations of a document."""
    return sum(len(item) - 1 for item in document["paths"].values())


@pytest.mark.parametrize("dialect", ["1.0-rc4", "1.0-rc2"] if IS_ALL else ["1.0-rc4"])
def test_every_answer_is_as_the_openapi_says(dialect, folder, tmp_path):
    with serving(folder / "w", tmp_path / "model", "--registry", "demo/orders", "--specification", dialect) as url:
        document = described(url)
        said = run(document, url, tmp_path)
    assert f"Tested: {operations(document)}" in said, said[-3000:]


def test_no_request_that_writes_is_a_fault_of_the_server(folder, tmp_path):
    """With all methods; what is written goes into a copy of the catalog, whose tables do not follow here."""
    shutil.copytree(folder / "w", tmp_path / "w")
    options = ("--registry", "demo/orders", "--writable", "--subscriptions", tmp_path / "kept")
    with serving(tmp_path / "w", tmp_path / "model", *options, JAVA_HOME="/nowhere", PATH="/nowhere") as url:
        document = described(url, *(subscribe(url) for _ in range(2)))
        # Effective definitions follow by Spark, which is not here.
        del document["paths"]["/effective/messagegroups/{groupid}/messages/{resourceid}"]
        said = run(document, url, tmp_path, "--exclude-checks", RULES_OF_OUR_OWN, *FLAGS_OF_WRITES)
    assert f"Tested: {operations(document)}" in said, said[-3000:]
