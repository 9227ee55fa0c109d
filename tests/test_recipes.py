"""The recipes of CONTRIBUTING.md for columns, followed on a copy of the checkout: they name what is edited, and no more."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from test_contributing import ROOT, TEXT, found

Edit = Callable[[str], str]

COPIED = ("lakehouse", "ddl", "conf", "expectations", "docs", "tests", "CHANGELOG.md")
COMMENT = "Whether the broker retains it"


def after(line: str, addition: str) -> Edit:
    """Return an edit that adds text behind the first match of a pattern."""

    def edit(text: str) -> str:
        result, count = re.subn(line, lambda match: match[0] + addition, text, count=1)
        assert count == 1, line
        return result

    return edit


def all_of(*edits: Edit) -> Edit:
    def edit(text: str) -> str:
        for one in edits:
            text = one(text)
        return text

    return edit


def counted_up(name: str) -> Edit:
    """Return an edit that raises a number by one."""
    return lambda text: re.sub(rf"(?m)^{name} = (\d+)", lambda match: f"{name} = {int(match[1]) + 1}", text, count=1)


BUMPED = {
    "lakehouse/store/deltatables.py": counted_up("SCHEMA_VERSION"),
    "lakehouse/readmodel/file/delta.py": counted_up("SCHEMA_VERSION"),
    "CHANGELOG.md": after(r"## \[Unreleased\]\n\n", "- A column.\n"),
}
# By the title of the recipe: the files that it has one edit, and how; a folder gets the statement of a migration.
EDITS: dict[str, dict[str, Edit | str]] = {
    "Add a column.": {
        **BUMPED,
        "lakehouse/store/schema.py": all_of(
            after(r'    "endpoint",\n    _columns\(\n.*\n', f'        ("retain", _STRING, "{COMMENT}"),\n'),
            after(r'derived=\("endpointid", ', '"retain", '),
        ),
        "lakehouse/log/projections.py": after(
            r'"endpointid": _part\(2\),\n', """            "retain": "get_json_object(b.protocoloptions, '$.retain')",\n"""
        ),
        "ddl/migrations": f"ALTER TABLE endpoints ADD COLUMNS (retain STRING COMMENT '{COMMENT}' AFTER endpointid);\n",
    },
    "Add a column to `flat_messages`.": {
        **BUMPED,
        "lakehouse/store/schema.py": after(r'    \("kafka_key", .*\n', f'    ("retained", _BOOLEAN, "{COMMENT}"),\n'),
        "ddl/views/computed_messages.sql": after(
            r"(?m)^  .* AS kafka_key,\n", "  texts['/protocoloptions/retain/value'] = 'true' AS retained,\n"
        ),
        "ddl/views/message_texts.sql": after(
            r"( +)'/protocoloptions/key_base64/value',\n", "          '/protocoloptions/retain/value',\n"
        ),
        "lakehouse/domain/effective.py": after(
            r'        "kafka_key": .*\n',
            '        "retained": None if (retain := _option(attributes, "retain")) is None else retain == "true",\n',
        ),
        "lakehouse/readmodel/file/sqliteschema.py": all_of(
            after(r'EFFECTIVE_COLUMNS = \([^)]*"kafka_key", ', '"retained", '),
            after(r"BOOLEAN_COLUMNS = \(", '"retained", '),
            counted_up("FORMAT"),
        ),
        "ddl/migrations": f"ALTER TABLE effective_messages ADD COLUMNS (retained BOOLEAN COMMENT '{COMMENT}' AFTER kafka_key);\n",
    },
}
# What the commands that a recipe names write.
WRITTEN = {
    "Add a column.": {"ddl/tables", "docs/tables.md"},
    "Add a column to `flat_messages`.": {"ddl/tables", "docs/tables.md", "ddl/views/flat_messages.sql"},
}
WRITTEN_WITH_SPARK = {"ddl/views/dictionary.sql"}  # by both
RUN = {"Add a column.": {"tests/golden.py", "tests/test_golden.py"}, "Add a column to `flat_messages`.": {"tests/golden.py"}}


def recipe(title: str) -> str:
    """Return the text of a recipe, up to the next one or what is said of several."""
    return re.split(r"\n\n(?=\*\*|`)", TEXT[TEXT.index(f"**{title}**") :], maxsplit=1)[0]


def named_in(text: str) -> set[str]:
    """Return the files and folders that a text names in backticks, below the checkout."""
    words = {word for span in re.findall(r"`([^`]+)`", text) for word in span.split()}
    paths = {word for word in words if re.fullmatch(r"[\w./]+(\.(py|csv|sql|md)|/)", word)}
    return {place.relative_to(ROOT).as_posix() for path in paths for place in found(path)}


@pytest.mark.parametrize("title", EDITS)
def test_a_recipe_names_what_is_edited_written_and_run(title):
    assert named_in(recipe(title)) == set(EDITS[title]) | WRITTEN[title] | WRITTEN_WITH_SPARK | RUN[title]
    assert "`make docs`" in recipe(title)


def run(copy: Path, *arguments: str, **variables: str) -> str:
    """Run Python on the copy, and return what it printed."""
    environment = os.environ | {"PYTHONPATH": f"{copy}{os.pathsep}{copy / 'tests'}"} | variables
    ran = subprocess.run([sys.executable, *arguments], cwd=copy, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[-5000:]
    return ran.stdout


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the checkout in which both recipes were followed, but for what needs Spark."""
    folder = tmp_path_factory.mktemp("copy")
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "node_modules", ".*"))
        else:
            shutil.copy(ROOT / name, folder / name)
    newest = max(int(path.name[:4]) for path in (ROOT / "ddl" / "migrations").glob("*.sql"))
    for number, edits in enumerate(EDITS.values(), newest + 1):
        for name, edit in edits.items():
            if isinstance(edit, str):
                (folder / name / f"{number:04}_column.sql").write_text(edit)
            else:
                path = folder / name
                path.write_text(edit(before := path.read_text(encoding="utf-8")), encoding="utf-8")
                assert path.read_text(encoding="utf-8") != before
    target = re.search(r"(?m)^docs: .*\n\t\$\(BIN\)/python (\S+)$", (ROOT / "Makefile").read_text(encoding="utf-8"))
    assert target is not None
    run(folder, target[1], "pages")
    return folder


def test_the_commands_of_a_recipe_write_what_it_says(copy):
    for title, names in WRITTEN.items():
        for name in names:
            files = [path for path in [ROOT / name, *sorted((ROOT / name).rglob("*.sql"))] if path.is_file()]
            changed = [path for path in files if (copy / path.relative_to(ROOT)).read_bytes() != path.read_bytes()]
            assert changed, (title, name)


ORDERS = """
import json
import re
import tarfile
from pathlib import Path

from deltas import DATA_ONLY
from golden import FOLDER
from lakehouse.domain.effective import columns_of
from lakehouse.readmodel import open_model
from lakehouse.readmodel.file import delta
from lakehouse.readmodel.file.sqliteschema import EFFECTIVE_COLUMNS
from lakehouse.settings import read_settings
from lakehouse.store.deltatables import SCHEMA_VERSION, migrations
from lakehouse.store.schema import EFFECTIVE_MESSAGES

def declared(path):
    head = Path(path).read_text().partition(") USING")[0].partition("\\nAS\\n")[0]
    return re.findall(r"(?m)^  `?(\\w+)`? .*COMMENT '", head)

def selected(name):
    text = Path(f"ddl/views/{name}.sql").read_text().rpartition("\\nSELECT\\n")[2]
    return [column for column in re.findall(r"(?m)^  (?:\\S.* AS )?(\\w+),?$", text) if column != "CASE"]

newest = max(FOLDER.glob("warehouse-*.tar.gz"), key=lambda path: int(re.sub(r"\\D", "", path.name)))
with tarfile.open(newest) as packed:
    packed.extractall("older", **DATA_ONLY)
with open_model(read_settings(warehouse="older/warehouse", readmodel_dir="older/model")) as model, model.at() as view:
    stored = list(view.definitions())
    differing = [
        name
        for row in stored
        for name, value in view.bodies.effective(row["registryid"], row["xid"]).items()
        if name != "retained" and row[name] != value
    ]

print(json.dumps({
    "schema": EFFECTIVE_MESSAGES.names,
    "readmodel": list(EFFECTIVE_COLUMNS),
    "table": declared("ddl/tables/effective_messages.sql"),
    **{name: [*declared(f"ddl/views/{name}.sql"), "snapshot_id"] for name in ("computed_messages", "flat_messages")},
    **{f"SELECT of {name}": [*selected(name), "snapshot_id"] for name in ("computed_messages", "flat_messages")},
    "python": [columns_of({} if value is None else {"/protocoloptions/retain/value": value})["retained"]
               for value in ("true", "false", None)],
    "versions": [SCHEMA_VERSION, delta.SCHEMA_VERSION, migrations()[-1].version],
    "older": [sorted({row["retained"] for row in stored}), differing],
}))
"""


def test_columns_of_effective_messages_are_in_the_same_order_everywhere(copy):
    results = json.loads(run(copy, "-c", ORDERS))
    columns = results.pop("schema")
    assert columns[columns.index("kafka_key") + 1] == "retained"
    assert results.pop("python") == [True, False, None]
    assert len(set(results.pop("versions"))) == 1
    assert results.pop("older") == [[None], []]  # without Spark, a warehouse that was not migrated yet
    assert {name: value for name, value in results.items() if value != columns} == {}


# One Spark session: what `make docs` and `python tests/golden.py` do with it, then a warehouse of the release before.
FOLLOWED = """
import json
import sys
from pathlib import Path

import docs
import golden
from soak.sessions import forget_attached, open_quick

from lakehouse import Catalog
from lakehouse.operations.doctor import rebuild
from lakehouse.readmodel import open_model
from lakehouse.store.deltatables import DECLARATIONS, SCHEMA_VERSION, stored_version

warehouse, document = sys.argv[1:]
FLAT = "SELECT messageid, retained FROM flat_messages ORDER BY messageid"
spark = open_quick(Path("session"))
docs.DICTIONARY.write_text(docs.dictionary(spark))
golden.open_session = lambda settings: spark
golden.main()
forget_attached(spark)

def rows(catalog, query):
    return [list(row) for row in catalog.sql(query).collect()]

def quick(settings):
    with open_model(settings) as model, model.at() as view:
        return sorted([row["messageid"], row["retained"]] for row in view.definitions())

results = {"version": SCHEMA_VERSION}
with Catalog(warehouse, spark) as catalog:
    results["quick, not migrated"] = quick(catalog.settings)
    catalog.ingest(document)
    results["migrated"] = stored_version(spark)
    results["orders"] = [
        name for name in ("effective_messages", "endpoints")
        if spark.table(f"xregistry.{name}").columns != DECLARATIONS[name].columns.names
    ]
    results["comment"] = [row[1:] for row in rows(catalog, "DESCRIBE flat_messages") if row[0] == "retained"]
    results["described"] = rows(catalog, "SELECT table_name, comment FROM dictionary WHERE column_name = 'retained' ORDER BY 1")
    for state in ("ingested", "rebuilt"):
        results[state] = rows(catalog, FLAT)
        results[f"endpoints, {state}"] = rows(catalog, "SELECT endpointid, retain FROM endpoints ORDER BY endpointid")
        results[f"quick, {state}"] = quick(catalog.settings)
        results[f"shown, {state}"] = [
            row["value"] for one in catalog.show("/messagegroups/new/messages/heir") for row in one.attributes
            if row["pointer"] == "/protocoloptions/retain/value"
        ]
        if state == "ingested":
            results["at 1"] = rows(catalog.at("1"), FLAT)
            results["endpoints, at 1"] = rows(catalog.at("1"), "SELECT endpointid, retain FROM endpoints")
            rebuild(catalog.spark, catalog.settings)
    results["at the head"] = rows(catalog.at("head"), FLAT)
    results["faults"] = [str(one) for one in catalog.doctor(deep=True) if one.state != "ok"]
Path("results.json").write_text(json.dumps(results))
"""


def message(retain: bool | None, **attributes: object) -> dict[str, object]:
    options = {"topic_name": {"value": "t"}} | ({} if retain is None else {"retain": {"value": retain}})
    return {"protocol": "MQTT/5.0", "protocoloptions": options, **attributes}


def document(group: str, **messages: object) -> dict[str, object]:
    endpoint = {"usage": ["producer"], "protocol": "MQTT/5.0", "protocoloptions": {"retain": True}}
    return {"messagegroups": {group: {"messages": messages}}, "endpoints": {group: endpoint}}


@pytest.mark.slow
def test_a_warehouse_of_before_is_migrated_read_and_rebuilt(copy, bare_catalog, tmp_path):
    bare_catalog.write("old.json", document("old", kept=message(True), dropped=message(False), plain=message(None)))
    bare_catalog.ingest()
    heir = {"basemessage": "/messagegroups/new/messages/base"}
    new = tmp_path / "new.json"
    new.write_text(json.dumps(document("new", base=message(True), heir=heir)))
    warehouse = bare_catalog.settings.warehouse
    run(copy, "-c", FOLLOWED, warehouse, str(new), LAKEHOUSE_READMODEL_DIR=str(tmp_path / "model"))
    results = json.loads((copy / "results.json").read_text())
    assert (copy / "tests" / "data" / "golden" / f"warehouse-{results['version']}.tar.gz").exists()
    assert (results["migrated"], results["orders"]) == (results["version"], [])
    assert results["comment"] == [["boolean", COMMENT]]
    assert results["described"] == [[name, COMMENT] for name in ("computed_messages", "effective_messages", "flat_messages")]
    unknown: list[list[Any]] = [["dropped", None], ["kept", None], ["plain", None]]
    old: list[list[Any]] = [["dropped", False], ["kept", True], ["plain", None]]
    added: list[list[Any]] = [["base", True], ["heir", True]]
    assert results["quick, not migrated"] == unknown
    assert results["ingested"] == results["quick, ingested"] == sorted(added + unknown)
    assert results["endpoints, ingested"] == [["new", "true"], ["old", None]]
    assert results["rebuilt"] == results["quick, rebuilt"] == results["at the head"] == sorted(added + old)
    assert results["endpoints, rebuilt"] == [["new", "true"], ["old", "true"]]
    assert results["shown, ingested"] == results["shown, rebuilt"] == ["true"]
    assert results["at 1"] == old  # computed: Delta's history has no such column
    assert results["endpoints, at 1"] == [["old", "true"]]
    assert results["faults"] == []
