"""`xrcg` makes of our URL what it makes of the file that `lakehouse export` writes, byte for byte."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from programs import DEMO, DOCUMENTS, IS_ALL, files, serving

HERE = Path(__file__).parent
XRCG = Path(sys.executable).parent / "xrcg"
STYLES = {"asyncapi": "producer"} | ({"py": "kafkaproducer", "java": "kafkaproducer"} if IS_ALL else {})
DIALECTS = ("1.0-rc4", "1.0-rc2")
_ERROR = re.compile(r"^([!>] at \$.*?): ", re.MULTILINE)

# What the original document gives and our URL does not: each is named in docs/export.md, "What differs from a source".
_PLACES = "`endpoints` and `deployed` stand in `protocoloptions`, as 1.0-rc2 has them"
_XIDS = "the tool looks for an XID in a reference at the root of the file's host, and finds it at ours"
_EMPTY = "collections without members are there, as the API has them"
DIFFERS = {
    "codegen/cloudevent-mixed-embedded": _EMPTY,
    "codegen/cloudevent-proto-embedded": _EMPTY,
    "codegen/inkjet-kafka-basemessageuri": _EMPTY,
    "codegen/inkjet-protocol-variants": "`basemessageurl`, `dataschemaurl`, `protocolmetadata` are names of another dialect",
    "codegen/mqtt-sparkplugB": "group `format` and `endpoints: []` are of another dialect",
    "demo/sensors": f"{_PLACES}; {_XIDS}",
    "demo/warehouse": _XIDS,
    "feeds/entur-norway": _PLACES,
    "feeds/feeds": _PLACES,
    "feeds/jma-bosai-quake": _PLACES,
}


class Generated(NamedTuple):
    """What a run wrote, and how it ended."""

    reported: str
    files: dict[str, bytes]


def xrcg(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the tool, in an order of sets and with random values that are always the same."""
    environment = os.environ | {"PYTHONHASHSEED": "0", "PYTHONPATH": str(HERE / "seeded"), "NO_COLOR": "1"}
    reported = {"capture_output": True, "text": True, "stdin": subprocess.DEVNULL}
    return subprocess.run([str(XRCG), *arguments], env=environment, timeout=600, check=False, **reported)


def generate(definitions: str, language: str, folder: Path, *more: str) -> Generated:
    """Let the tool write code, always into the same folder, because that code may contain its name."""
    shutil.rmtree(folder, ignore_errors=True)
    named = ["--projectname", "Shop", "--language", language, "--style", STYLES[language], "--output", str(folder)]
    ran = xrcg("generate", *named, "--definitions", definitions, *more)
    written = {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
    failed = [line for line in ran.stderr.strip().splitlines() if re.match(r"[\w.]+(Error|Exception)\b", line)]
    return Generated("".join(failed[-1:]), written)


def without_urls(written: dict[str, bytes], url: str) -> dict[str, bytes]:
    """Write URLs as an export writes them: as references into the document."""
    return {name: text.replace(url.encode(), b"#") for name, text in written.items()}


@pytest.fixture
def exported(exports, tmp_path):
    """The file of an export, with the one name that the API spells otherwise (docs/http.md)."""

    def copied(dialect: str, registryid: str) -> Path:
        copy = tmp_path / dialect / f"{registryid.replace('/', '-')}.json"
        copy.parent.mkdir(exist_ok=True)
        copy.write_bytes(exports(dialect, registryid).read_bytes().replace(b'"schemauri":', b'"schemaurl":'))
        return copy

    return copied


def test_there_are_documents_enough():
    assert len(DOCUMENTS) >= (20 if IS_ALL else 3)


@pytest.mark.parametrize("language", STYLES)
@pytest.mark.parametrize("registryid", DOCUMENTS)
def test_a_url_gives_what_the_file_of_the_export_gives(registryid, language, exported, servers, tmp_path):
    for dialect in DIALECTS if language == "asyncapi" else DIALECTS[:1]:
        file = exported(dialect, registryid)
        with files(file.parent) as place:
            reported = generate(f"{place}/{file.name}", language, tmp_path / "out")
        url = servers(dialect, registryid)
        found = generate(f"{url}/?inline=*", language, tmp_path / "out")
        assert found.reported == reported.reported
        assert without_urls(found.files, url) == reported.files
        assert found.files or found.reported


@pytest.mark.parametrize("registryid", DOCUMENTS)
def test_validate_finds_what_it_finds_in_the_file_of_the_export(registryid, exported, servers):
    for dialect in DIALECTS:
        reported, found = (
            xrcg("validate", "--definitions", definitions)
            for definitions in (str(exported(dialect, registryid)), servers(dialect, registryid) + "/?inline=*")
        )
        assert (found.returncode, errors(found)) == (reported.returncode, errors(reported))
        assert errors(found) or "is valid" in found.stdout, found.stderr


def errors(ran: subprocess.CompletedProcess[str]) -> list[str]:
    """Return the places that the tool finds wrong."""
    return sorted(_ERROR.findall(ran.stdout))


@pytest.mark.parametrize("registryid", [one for one in DOCUMENTS if one not in DIFFERS])
def test_the_original_document_gives_the_same_up_to_order(registryid, servers, tmp_path):
    document = DOCUMENTS[registryid]
    with files(document.parent) as place:
        reported = generate(f"{place}/{document.name}", "asyncapi", tmp_path / "out")
    found = generate(servers("1.0-rc2", registryid) + "/?inline=*", "asyncapi", tmp_path / "out")
    assert found.reported == reported.reported
    assert {name: unordered(name, text) for name, text in found.files.items()} == {
        name: unordered(name, text) for name, text in reported.files.items()
    }


def unordered(name: str, text: bytes) -> Any:
    """Return what a file says, whatever the order in which it says it."""
    if name.endswith((".json", ".avsc")):
        return json.loads(text)
    return sorted(line.strip() for line in text.decode().splitlines() if line.strip())


def test_a_group_is_generated_from_its_own_url(folder, tmp_path):
    """At the root of a server, where the tool asks for `?inline=*` by itself."""
    group = next(iter(json.loads((DEMO / "orders.xreg.json").read_bytes())["messagegroups"]))
    with serving(folder / "w", tmp_path / "model", "--registry", "demo/orders") as url:
        found = generate(f"{url}/messagegroups/{group}", "asyncapi", tmp_path / "out")
        assert found.reported == ""
        assert any(group.encode() in text or b"channels:" in text for text in found.files.values())
