"""Commands that answer from the read model: each in a new process, with and without Java on the PATH."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from deltas import unpack
from histories import shop
from shortform import first_of
from warehouses import CHANGES, Written

M = "/messagegroups/g/messages/m"
QUICK: list[tuple[str, ...]] = [
    ("show", M),
    ("show", "m", "--at", "first"),
    ("show", "/endpoints/e"),
    ("show", "/messagegroups/g"),
    ("show", "/schemagroups/s/schemas/t", "--json"),
    ("show", "a.json"),
    ("log", M),
    ("log", "/messagegroups/g", "--below", "--json"),
    ("blame", f"{M}/versions/1"),
    ("snapshots",),
    ("violations",),
    ("violations", "--ingest", "last", "--json"),
    ("changes", "--since", "2"),
    ("diff", "1", "2"),
    ("diff", "first", "3", "--markdown"),
    ("search", "three"),
    ("search", "event", "--kind", "message", "--json"),
    ("label", "1", "first"),
]


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("quick")
    unpack(folder)
    return folder


def run(
    place: Path, *arguments: str, java: bool = False, program: list[str] | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run the command; without Java nothing is on the PATH at all."""
    inherited = {name: value for name, value in os.environ.items() if name != "JAVA_HOME" or java}
    given = {
        "LAKEHOUSE_WAREHOUSE": str(place / "warehouse"),
        "LAKEHOUSE_READMODEL_DIR": str(place / "model"),
        "PATH": os.environ["PATH"] if java else str(place),
        "PYTHONPATH": str(Path(__file__).parents[2]),
        **environment,
    }
    command = [*(program or [sys.executable, "-m", "lakehouse"]), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=inherited | given, timeout=120)


@pytest.mark.parametrize("arguments", first_of(map(pytest.param, QUICK), 8), ids=[" ".join(words) for words in QUICK])
def test_it_answers_without_java(place, arguments):
    ran = run(place, *arguments)
    assert (ran.returncode, ran.stdout != "") == (0, True), ran.stderr
    if "--json" in arguments:
        assert json.loads(ran.stdout)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("java") is None, reason="there is no Java")
def test_java_on_the_path_changes_nothing(place):
    for arguments in (("show", M), ("snapshots",)):
        assert run(place, *arguments, java=True).stdout == run(place, *arguments).stdout


@pytest.mark.parametrize(("since", "until", "following"), [("1", "2", 2), ("head", "1", 3)])
def test_the_next_call_of_changes_repeats_no_event(place, since, until, following):
    ran = run(place, "changes", "--since", since, "--until", until)
    assert (ran.returncode, f"Next time: --since {following}\n" in ran.stderr) == (0, True), ran.stderr
    assert (ran.stdout == "") == (since == "head")


def test_an_encoding_that_lacks_characters_gets_escapes(place):
    ran = run(place, "match", "--help", PYTHONIOENCODING="latin-1")
    assert (ran.returncode, ran.stderr, "MQTT/5.0, \\u2026" in ran.stdout) == (0, "", True)


@pytest.mark.parametrize("stream", [1, 2])
def test_a_stream_that_was_closed_before_the_start_is_no_error(place, stream):
    program = ["sh", "-c", f'exec "$0" -m lakehouse "$@" {stream}>&-', sys.executable]
    ran = run(place, "snapshots", program=program, java=True)
    assert (ran.returncode, ran.stderr, ran.stdout != "") == (0, "", stream == 2)


def test_what_needs_spark_still_says_that_java_is_missing(place):
    ran = run(place, "sql", "SELECT 1")
    assert (ran.returncode, "Java" in ran.stderr) == (1, True)


@pytest.mark.slow
def test_documents_that_are_not_loaded_are_compared_without_java(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.json").write_text(json.dumps(shop(name, "m")))
    (tmp_path / "one" / "b.json").write_text('{"registryid": "other", "messagegroups": {"g": {}}}')
    (tmp_path / "one" / "notes.json").write_text('{"no": "registry"}')
    (tmp_path / "one" / "empty.json").touch()
    found = json.loads(run(tmp_path, "diff", f"{tmp_path}/one", f"{tmp_path}/two", "--json").stdout)
    required = [one["xid"] for one in found if one["rule"] == "required-attribute-added"]
    assert required == ["/messagegroups/base/messages/event", "/messagegroups/g/messages/m"]
    assert [one["xid"] for one in found if one["registryid"] == "other"] == ["/messagegroups/g"]
    ran = run(tmp_path, "diff", f"{tmp_path}/one/a.json", f"{tmp_path}/two/a.json", "--breaking", "--markdown")
    assert (ran.returncode, "breaking**" in ran.stdout) == (4, True), ran.stderr
    assert run(tmp_path, "diff", f"{tmp_path}/one", f"{tmp_path}/one", "--json").stdout == "[]\n"
    assert not (tmp_path / "warehouse").exists()


SLOW = ("pyspark", "great_expectations", "pandas", "pyarrow", "deltalake")


@pytest.mark.parametrize(
    ("arguments", "refused"),
    # Arrow's `dataset` imports pandas, which takes a quarter second of each look at the past.
    [(["show", M], SLOW), (["show", M, "--at", "first"], SLOW[:3]), (["diff", "1", "2"], SLOW[:3])],
    ids=["show", "show --at", "diff"],
)
def test_what_is_slow_to_import_is_not_imported(place, arguments, refused):
    run(place, "snapshots")
    script = (
        f"import sys\nfrom lakehouse.cli.main import main\nsys.argv[1:] = {arguments}\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        f"sys.stderr.write(','.join(sorted({{*{refused}}} & set(sys.modules))))"
    )
    given = {"LAKEHOUSE_WAREHOUSE": str(place / "warehouse"), "LAKEHOUSE_READMODEL_DIR": str(place / "model")}
    where = {"PYTHONPATH": str(Path(__file__).parents[2])}
    ran = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, env=os.environ | given | where, timeout=120
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout


def test_findings_of_an_ingest_say_which_one_found_them_first(place):
    ran = run(place, "violations", "--ingest", "last", "--json")
    assert {one["rule_id"] for one in json.loads(ran.stdout)} == {"MSG-043", "MSG-115"}
    assert re.match(r"first reported by ingest \w+ at 2\S+Z\nfindings that earlier ingests .* `lakehouse violations`", ran.stderr)
    assert run(place, "violations", "--json").stderr == ""


@pytest.mark.parametrize(
    ("arguments", "reported"),
    [
        (("show", "nothing-has-this-id"), "`lakehouse search` finds"),
        (("show", "/messagegroups/g/messages/none"), "no such message. `lakehouse search --kind message` finds"),
        (("show", "/messagegroups/none"), "no such entity"),
        (("show", M, "--at", "9"), "snapshots 1 to 3"),
        (("log", "/messagegroups/none"), "was ever in the catalog. An XID starts with /; `lakehouse search` finds"),
        (("label", "9", "x"), "names no snapshot"),
        (("label", "2", "first"), "names snapshot 1 already"),
        (("search", "a", "--kind", "nothing"), "is not one of"),
    ],
)
def test_a_wrong_call_is_reported(place, arguments, reported):
    ran = run(place, *arguments)
    assert (ran.returncode, reported in ran.stderr, ran.stdout) == (2, True, ""), ran.stderr


REFUSED = "/messagegroups/g/messages/bad was refused by MSG-043: `name` is a number (5)"
DELETED = "was deleted from registry default in snapshot 3. `lakehouse show /messagegroups/g/messages/n --at 2`"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "reported"),
    [
        (("show", "bad"), REFUSED),
        (("show", "/messagegroups/g/messages/bad"), "`lakehouse violations --document a.json` lists"),
        (("log", "/messagegroups/g/messages/bad/versions/1"), "`lakehouse explain MSG-043`"),
        (("render", "bad"), REFUSED),
        (("show", "n"), DELETED),
        (("show", "/messagegroups/g/messages/n/versions/1", "--registry", "default"), DELETED),
        (("blame", "n"), DELETED),
    ],
)
def test_what_was_refused_or_deleted_is_reported_so(place, arguments, reported):
    ran = run(place, *arguments)
    assert (ran.returncode, reported in ran.stderr, ran.stdout) == (2, True, ""), ran.stderr


@pytest.mark.slow
def test_a_search_that_finds_nothing_reports_what_was_refused_or_deleted(place):
    assert REFUSED in run(place, "search", "bad").stdout
    assert DELETED in run(place, "search", "n", "--kind", "endpoint").stdout
    assert run(place, "search", "nothing-has-this").stdout == "Nothing found.\n"
    for arguments in (("show", "n", "--at", "2"), ("show", "n", "--registry", "other")):
        assert "was deleted" not in run(place, *arguments).stderr


def test_an_id_of_several_entities_is_listed(tmp_path):
    written = Written(tmp_path / "warehouse", 1)
    xids = [f"/messagegroups/g{n}/messages/same" for n in (1, 2)]
    written.head = 1
    rows = [written.row("message", xid, "insert", {"defaultversionid": "1"}) for xid in xids]
    written.last = {"messages": 1, "versions": 1}
    written.append("changes", pa.Table.from_pylist([*rows, written.snapshot()], CHANGES), None)
    ran = run(tmp_path, "show", "same")
    assert ran.returncode == 2
    assert all(xid in ran.stderr for xid in xids)
    behind = run(tmp_path, "show", xids[0])
    assert (behind.returncode, "not computed yet" in behind.stderr) == (1, True)


@pytest.mark.slow
def test_a_difference_names_its_registry_where_there_are_several(tmp_path, place):
    written = Written(tmp_path / "warehouse", 1)
    for registries in (["r"], ["r", "s"], ["s"]):
        written.head += 1
        rows = [written.row("group", f"/messagegroups/n{written.head}", "insert", {}) | {"registryid": one} for one in registries]
        written.append("changes", pa.Table.from_pylist([*rows, written.snapshot()], CHANGES), None)
    ran = run(tmp_path, "diff", "2", "3")
    assert [line.split()[:4] for line in ran.stdout.splitlines()] == [
        ["class", "registryid", "kind", "xid"],
        ["compatible", "s", "group", "/messagegroups/n3"],
    ], ran.stderr
    assert "| `s` | group `/messagegroups/n3` | added |" in run(tmp_path, "diff", "2", "3", "--markdown").stdout
    assert "registry" not in run(place, "diff", "1", "2").stdout + run(place, "diff", "1", "2", "--markdown").stdout


@pytest.mark.slow
def test_a_past_of_which_delta_keeps_no_definitions_is_answered_without_java(place, tmp_path):
    shutil.copytree(place / "warehouse", tmp_path / "warehouse")
    gone = tmp_path / "warehouse" / "effective_messages"
    table = DeltaTable(str(place / "warehouse" / "effective_messages"))
    kept = {Path(uri).name for uri in table.file_uris()}
    for file in gone.glob("*.parquet"):
        if file.name not in kept:
            file.unlink()
    (shown,) = json.loads(run(tmp_path, "show", M, "--at", "1", "--json").stdout)
    assert shown["chain_status"] == "resolved"
    origins = {one["pointer"]: one["origin"] for one in shown["attributes"]}
    assert (origins["/name"], origins["/envelope"], origins["/envelopemetadata/id/type"]) == ("declared", "inherited", "inferred")
    written = json.loads(run(tmp_path, "site", "--at", "1", "--out", str(tmp_path / "pages"), "--json").stdout)
    assert written["pages"] > 20


def completed(place: Path, words: str) -> list[str]:
    position = len(words.split(" ")) - 1
    # Shells complete the installed program, by its name.
    asked = {"_LAKEHOUSE_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(position)}
    ran = run(place, program=[str(Path(sys.executable).with_name("lakehouse"))], **asked)
    return [line.split(",", 1)[1] for line in ran.stdout.splitlines()]


@pytest.mark.slow
def test_a_shell_completes_xids_labels_and_rules(place):
    run(place, "snapshots")
    assert completed(place, f"lakehouse show {M[:-1]}") == [f"/messagegroups/g/messages/{name}" for name in ("m", "o")]
    assert completed(place, "lakehouse show ev") == ["event"]
    assert completed(place, "lakehouse show m --at f") == ["first"]
    for command in ("export", "sql x", "log m", "blame m", "site", "violations", "match x", "validate"):
        assert completed(place, f"lakehouse {command} --at f") == ["first"], command
    assert completed(place, "lakehouse render ev") == ["event"]
    assert completed(place, "lakehouse render --endpoint /e") == ["/endpoints/e"]
    assert completed(place, "lakehouse export --select /messagegroups/b") == [
        "/messagegroups/base",
        "/messagegroups/base/messages/event",
    ]
    assert completed(place, "lakehouse explain DOC-00") == [f"DOC-00{number}" for number in range(1, 6)]
