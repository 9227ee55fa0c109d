"""The laws of export on one catalog: documents of our own, and published ones where they are there, loaded once."""

from __future__ import annotations

import copy
import json
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from builders import group
from click.testing import CliRunner
from conftest import Catalog
from jsonschema import Draft202012Validator
from published import published
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from soak.sessions import forget

from lakehouse.cli.console import Context
from lakehouse.cli.main import cli
from lakehouse.domain.ownership import Policy
from lakehouse.errors import NothingToExport, SnapshotNotFound, TargetError
from lakehouse.export import run as export_module
from lakehouse.export.run import Exported, ExportRequest, WriteStyle, export, read_log, sorted_rows
from lakehouse.export.selection import current_rows
from lakehouse.ingest.pipeline import IngestRequest
from lakehouse.settings import data_folder
from lakehouse.store.deltatables import create_tables
from lakehouse.text.names import RegistryId

SHOP: dict[str, Any] = {
    "specversion": "1.0-rc1",
    "name": "Shop",
    "x-root": {"b": 1, "a": None},
    "messagegroups": {
        "base": {
            "protocol": "MQTT/5.0",
            "messages": {
                "event": {
                    "envelope": "CloudEvents/1.0",
                    "envelopemetadata": {"type": {"value": "event"}},
                    "labels": {"team": "shop"},
                    "protocoloptions": {"qos": 1},
                },
                "unrelated": {},
                "gone": {"name": "is dropped"},
            },
        },
        "orders": {
            "createdat": "2024-05-01T10:00:00+02:00",
            "x-color": "red",
            "messages": {
                "placed": {
                    "basemessageuri": "#/messagegroups/base/messages/event",
                    "schemaurl": "#/schemagroups/s/schemas/order/versions/1:Order",
                    "epoch": 7,
                    "x-num": 1.10,
                },
                "many": {
                    "versions": {"1": {"name": "one"}, "2": {"name": "two", "basemessage": "/messagegroups/base/messages/event"}},
                    "meta": {"defaultversionid": "2", "readonly": True},
                },
                "alias": {"meta": {"xref": "/messagegroups/orders/messages/placed"}},
                "dangling": {"basemessage": "/messagegroups/none/messages/none"},
            },
        },
    },
    "endpoints": {
        "e": {
            "usage": "producer",
            "protocol": "KAFKA",
            "endpoints": [{"url": "kafka://host:9092"}],
            "messagegroups": ["#/messagegroups/base"],
            "messages": {
                "own": {
                    "protocol": "Kafka",
                    "protocoloptions": {"topic": "t", "headers": {"h": {"value": "v", "required": True}}},
                }
            },
        }
    },
    "schemagroups": {
        "s": {"schemas": {"order": {"format": "Avro/1.11.1", "schema": {"type": "record", "default": None}}, "b": {}}}
    },
}
PLAIN = {"messagegroups": {"g": group({"m": {}})}}


class Trip:
    """What came out of one journey through two catalogs; folders of exports by name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.facts: dict[str, Any] = {}
        self.exported: dict[str, Exported] = {}
        self.own_catalog_ops: Counter[tuple[str, str]] = Counter()
        self.rows_without_root: set[str] = set()
        self.errors: dict[str, str] = {}
        self.stdout = ""
        self.partitioned: dict[int, list[Any]] = {}

    def document(self, name: str, registryid: str = "shop") -> Any:
        return json.loads((self.folder / name / f"{registryid}.json").read_text(encoding="utf-8"))

    def bytes_of(self, name: str) -> dict[str, bytes]:
        root = self.folder / name
        return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def facts_of(spark: SparkSession) -> set[tuple[Any, ...]]:
    dates = [F.unix_micros(name) for name in ("createdat", "modifiedat")]  # Python knows no dates before the year 1
    columns = ("registryid", "kind", "xid", "content_hash", "epoch", "body")
    return {tuple(row) for row in current_rows(read_log(spark)).select(*columns, *dates).collect()}


@pytest.fixture(scope="module", params=[pytest.param(None, id="all", marks=pytest.mark.slow)])
def trip(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trip]:
    folder = tmp_path_factory.mktemp("trip")
    done = Trip(folder)
    for name in ("one", "two"):
        (folder / name).mkdir()
    catalog = Catalog(spark, folder / "one")

    def to(name: str, **options: Any) -> None:
        options = {"to_folder": True} | options
        done.exported[name] = export(spark, catalog.settings, ExportRequest(str(folder / name), **options))

    def refused(name: str, error: type[Exception], out: str = "refused", **options: Any) -> None:
        before = sorted(path.name for path in folder.iterdir())
        with pytest.raises(error) as found:
            export(spark, catalog.settings, ExportRequest(str(folder / out), **options))
        assert sorted(path.name for path in folder.iterdir()) == before, "something was left behind"
        done.errors[name] = str(found.value)

    create_tables(spark, catalog.settings)
    refused("empty", NothingToExport)
    catalog.write("shop.json", SHOP)
    catalog.write("plain.json", PLAIN)
    sources = [catalog.documents, *published(None)]
    catalog.ingest(*sources, registry_from="document")
    to("first")
    to("first_source", style=WriteStyle(source=True))
    changed = copy.deepcopy(SHOP)
    changed["messagegroups"]["base"]["messages"].pop("gone")
    changed["messagegroups"]["base"]["messages"]["event"]["labels"]["team"] = "other"
    catalog.write("shop.json", changed)
    prune = catalog.ingest(catalog.documents, registry_from="document", request=_pruning())
    assert prune.entities["messages"]["deleted"] == 1

    _export_in_all_ways(to)
    invoked = CliRunner().invoke(cli, ["export", "--warehouse", catalog.settings.warehouse, "--registry", "shop"], obj=Context())
    assert invoked.exit_code == 0, invoked.output
    done.stdout = invoked.stdout
    for count in (1, 3):
        done.partitioned[count] = sorted_rows(read_log(spark), count, with_raw=False).select("registryid", "xid").collect()

    _refuse_all_that_is_wrong(refused)

    done.facts["one"] = facts_of(spark)
    summary = catalog.ingest(folder / "out", registry_from="document")
    rows = spark.sql(f"SELECT kind, op FROM xregistry.changes WHERE snapshot_id = {summary.snapshot_id}").collect()
    done.own_catalog_ops = Counter((row["kind"], row["op"]) for row in rows)
    done.facts["one after"] = facts_of(spark)
    forget(spark, Path(catalog.settings.warehouse))

    catalog = Catalog(spark, folder / "two")
    catalog.ingest(folder / "out", registry_from="document")
    done.facts["two"] = facts_of(spark)
    to("out_of_two")
    to("flat_of_two", flat=True)
    yield done
    forget(spark, Path(catalog.settings.warehouse))
    shutil.rmtree(folder)


def _export_in_all_ways(to: Any) -> None:
    to("out")
    to("again")
    to("source", style=WriteStyle(source=True))
    to("flat", flat=True)
    to("at", at="1")
    to("based", registry="shop", style=WriteStyle(base_url="https://example.com/r/"))
    to("split", registry="shop", style=WriteStyle(by_group=True))
    to("named", to_folder=False)
    to("split_all", style=WriteStyle(by_group=True))
    to("replaced")
    to("replaced", registry="shop", style=WriteStyle(by_group=True), replace=True)
    to("one.json", registry="shop", to_folder=False)
    to("one.json", registry="shop", to_folder=False)  # a file is replaced
    to("placed.json", registry="shop", to_folder=False, select=("/messagegroups/orders/messages/alias",))
    to("endpoint.json", registry="shop", to_folder=False, select=("/endpoints/e",))


def _refuse_all_that_is_wrong(refused: Any) -> None:
    refused("several", NothingToExport, "several.json")
    refused("several selected", NothingToExport, "several", select=("/messagegroups/orders",))
    refused("registry", NothingToExport, registry="nowhere")
    refused("xid", NothingToExport, registry="shop", select=("/messagegroups/orders", "/messagegroups/x"))
    refused("snapshot", SnapshotNotFound, registry="shop", at="99")
    refused("not empty", TargetError, "out", to_folder=True)
    refused("no export", TargetError, "one", to_folder=True, replace=True)  # it holds the warehouse
    refused("a folder", TargetError, "out", registry="shop")
    refused("a file", TargetError, "one.json", to_folder=True)
    refused("below a file", TargetError, "one.json/x.json", registry="shop")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(export_module, "_write_document", _break_off)
        refused("interrupted", InterruptedError, "one.json", registry="shop")
        refused("interrupted folder", InterruptedError, registry="shop", to_folder=True)


def _pruning() -> Any:
    from lakehouse.domain.ownership import Policy
    from lakehouse.ingest.pipeline import IngestRequest as Ingest

    return Ingest(Policy(prune=True, force=True))


def _break_off(file: Any, *_: Any) -> None:
    file.write(b"{")
    raise InterruptedError("the plug was pulled")


def without_roots_of(rows: set[tuple[Any, ...]], registries: set[str]) -> set[tuple[Any, ...]]:
    return {row for row in rows if not (row[1] == "registry" and row[0] in registries)}


@pytest.mark.slow
def test_a_catalog_fed_with_an_export_exports_the_same(catalog: Catalog, tmp_path: Path) -> None:
    catalog.write("shop.json", SHOP)
    catalog.ingest(registry_from="document")
    texts = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        written = tmp_path / name / "shop.json"  # the registry is named after the file
        export(catalog.spark, catalog.settings, ExportRequest(str(written), registry="shop"))
        texts.append(written.read_bytes())
        forget(catalog.spark, Path(catalog.settings.warehouse))
        shutil.rmtree(catalog.settings.warehouse)
        catalog.ingest(written, registry_from="document")
    assert texts[0] == texts[1]
    messages = json.loads(texts[0])["messagegroups"]["orders"]["messages"]
    assert (messages["many"]["versionid"], messages["placed"]["epoch"], len(messages)) == ("2", 7, 4)


@pytest.mark.slow
def test_a_registry_whose_entities_are_all_deleted_is_not_exported(catalog: Catalog, tmp_path: Path) -> None:
    for name in ("a", "b"):
        catalog.write(f"{name}.json", {"messagegroups": {"g": group({"m": {}})}})
    catalog.ingest(registry_from="document")
    (catalog.documents / "b.json").unlink()
    catalog.ingest(registry_from="document", request=IngestRequest(Policy(prune=True, force=True)))
    out = tmp_path / "out.json"
    export(catalog.spark, catalog.settings, ExportRequest(str(out)))
    assert json.loads(out.read_bytes())["registryid"] == "a"
    with pytest.raises(NothingToExport, match=r"there is nothing in a registry 'b'. The catalog holds a\."):
        export(catalog.spark, catalog.settings, ExportRequest(str(out), registry=RegistryId("b")))
    both = export(catalog.spark, catalog.settings, ExportRequest(f"{tmp_path}/both", to_folder=True, at="1"))
    assert both.files == 2


# The laws


def test_an_empty_catalog_fed_with_the_export_has_the_same_rows(trip):
    rootless = {row[0] for row in trip.facts["one"]} - {row[0] for row in trip.facts["one"] if row[1] == "registry"}
    assert without_roots_of(trip.facts["two"], rootless) == trip.facts["one"]
    assert len(trip.facts["one"]) > 20


def test_exporting_that_gives_the_same_bytes(trip):
    assert trip.bytes_of("out_of_two") == trip.bytes_of("out")


def test_the_effective_definitions_are_the_same(trip):
    assert trip.bytes_of("flat_of_two") == trip.bytes_of("flat")


def test_two_exports_of_one_snapshot_are_byte_equal(trip):
    assert trip.bytes_of("again") == trip.bytes_of("out")


def test_loading_an_export_where_it_came_from_changes_no_entity(trip):
    assert {op for (kind, op), _ in trip.own_catalog_ops.items() if kind not in ("document", "snapshot", "registry")} == {"own"}
    rootless = {row[0] for row in trip.facts["one"]} - {row[0] for row in trip.facts["one"] if row[1] == "registry"}
    assert trip.own_catalog_ops["registry", "insert"] == len(rootless)
    assert trip.own_catalog_ops["registry", "update"] == 0
    assert without_roots_of(trip.facts["one after"], rootless) == trip.facts["one"]


def test_every_export_fits_its_json_schema(trip):
    schema = json.loads((data_folder("expectations") / "schemas" / "export.schema.json").read_text(encoding="utf-8"))
    Draft202012Validator.check_schema(schema)
    validator = Draft202012Validator(schema)
    texts = [text for name in ("out", "flat", "at", "split", "based") for text in trip.bytes_of(name).values()]
    texts += [(trip.folder / name).read_bytes() for name in ("one.json", "placed.json", "endpoint.json")]
    wrong = [f"{error.json_path}: {error.message[:200]}" for text in texts for error in validator.iter_errors(json.loads(text))]
    assert wrong == []
    broken = trip.document("out")
    del broken["messagegroups"]["base"]["messages"]["event"]["versions"]
    broken["messagegroups"]["base"]["epoch"] = "1"
    assert len(list(validator.iter_errors(broken))) == 2


def test_every_count_is_that_of_its_map(trip):
    def check(value: Any) -> None:
        for name, member in value.items() if isinstance(value, dict) else ():
            if name.endswith("count") and isinstance(value.get(name.removesuffix("count")), dict):
                assert member == len(value[name.removesuffix("count")])
            if name not in ("dataschema", "schema"):
                check(member)

    for text in trip.bytes_of("out").values():
        check(json.loads(text))


def test_the_summary_counts_what_was_written(trip):
    reported = trip.exported["one.json"].as_json()
    assert reported["entities"] == {"endpoints": 1, "messagegroups": 2, "schemagroups": 1, "messages": 7, "schemas": 2}
    assert (reported["files"], reported["registries"]) == (1, ["shop"])
    assert reported["bytes"] == (trip.folder / "one.json").stat().st_size


# What the document contains


def test_the_root_is_in_normal_form(trip):
    document = trip.document("out")
    assert (document["specversion"], document["registryid"], document["name"]) == ("1.0-rc2", "shop", "Shop")
    assert document["x-root"] == {"b": 1, "a": None}
    assert (document["endpointscount"], document["messagegroupscount"], document["schemagroupscount"]) == (1, 2, 1)


def test_messages_are_in_normal_form(trip):
    document = trip.document("out")
    placed = document["messagegroups"]["orders"]["messages"]["placed"]
    assert (placed["basemessage"], placed["epoch"], placed["x-num"]) == ("/messagegroups/base/messages/event", 7, 1.1)
    assert placed["dataschemauri"] == "#/schemagroups/s/schemas/order/versions/1:Order"
    assert document["messagegroups"]["orders"]["createdat"] == "2024-05-01T10:00:00+02:00"
    own = document["endpoints"]["e"]["messages"]["own"]
    assert (own["protocol"], own["protocoloptions"]["topic"]) == ("KAFKA", "t")
    assert document["endpoints"]["e"]["protocoloptions"]["endpoints"] == [{"uri": "kafka://host:9092"}]


def test_what_was_deleted_is_gone_and_is_there_at_the_snapshot_before(trip):
    assert "gone" not in trip.document("out")["messagegroups"]["base"]["messages"]
    assert trip.bytes_of("at") == trip.bytes_of("first")
    assert trip.document("at")["messagegroups"]["base"]["messages"]["gone"]["name"] == "is dropped"


def test_source_gives_back_what_came_in(trip):
    assert trip.document("first_source") == SHOP
    assert trip.document("first_source", "plain") == PLAIN
    assert b'"x-num":1.1,' in trip.bytes_of("source")["shop.json"].replace(b"1.1}", b"1.1,")


def test_flat_shows_effective_definitions(trip):
    messages = trip.document("flat")["messagegroups"]["orders"]["messages"]
    for name in ("placed", "alias"):
        assert messages[name]["envelopemetadata"] == {"type": {"value": "event"}}
        assert messages[name]["labels"] == {"team": "other"}
        assert messages[name]["protocoloptions"] == {"qos": {"value": 1}}  # without its own protocol it stays a declaration
        assert "xref" not in messages[name]["meta"]
        assert list(messages[name]["versions"]) == ["1"]
    assert list(messages["many"]["versions"]) == ["2"]
    assert messages["many"]["labels"] == {"team": "other"}
    assert b"basemessage" not in trip.bytes_of("flat")["shop.json"]


def test_a_base_url_makes_urls_absolute(trip):
    event = trip.document("based")["messagegroups"]["base"]["messages"]["event"]
    assert event["self"] == "https://example.com/r/messagegroups/base/messages/event"


def test_standard_output_takes_the_document(trip):
    assert trip.stdout.encode() == (trip.folder / "one.json").read_bytes()


def test_a_split_has_a_document_for_each_group(trip):
    files = trip.bytes_of("split")
    assert list(files) == ["endpoints/e.json", "messagegroups/base.json", "messagegroups/orders.json", "schemagroups/s.json"]
    whole = trip.document("out")
    for collection in ("endpoints", "messagegroups", "schemagroups"):
        parts = [json.loads(text)[collection] for text in files.values()]
        assert {key: value for part in parts for key, value in part.items()} == whole[collection]


def test_a_selection_stands_on_its_own(trip):
    document = json.loads((trip.folder / "placed.json").read_text(encoding="utf-8"))
    assert {key: sorted(value["messages"]) for key, value in document["messagegroups"].items()} == {
        "base": ["event"],
        "orders": ["alias", "placed"],
    }
    assert list(document["schemagroups"]["s"]["schemas"]) == ["order"]
    assert document["endpoints"] == {}
    reported = trip.exported["placed.json"].as_json()
    assert reported["added"] == {"message": 2, "schema": 1}
    assert reported["added_first"] == [
        "/messagegroups/base/messages/event",
        "/messagegroups/orders/messages/placed",
        "/schemagroups/s/schemas/order",
    ]


def test_a_selected_endpoint_takes_its_messages_and_groups_along(trip):
    document = json.loads((trip.folder / "endpoint.json").read_text(encoding="utf-8"))
    assert list(document["endpoints"]["e"]["messages"]) == ["own"]
    assert sorted(document["messagegroups"]["base"]["messages"]) == ["event", "unrelated"]
    assert trip.exported["endpoint.json"].added == {"group": 1, "message": 2}


def test_the_order_does_not_depend_on_the_number_of_tasks(trip):
    assert trip.partitioned[1] == trip.partitioned[3]
    xids = [row["xid"] for row in trip.partitioned[1] if row["registryid"] == "shop"]
    assert xids == sorted(xids, key=lambda xid: xid.split("/"))


def files_in(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_an_export_takes_the_place_of_an_earlier_one_whole(trip):
    assert files_in(trip.folder / "replaced") == files_in(trip.folder / "split")


def test_of_several_registries_a_new_name_is_a_folder_unless_it_is_that_of_a_document(trip):
    assert files_in(trip.folder / "named") == files_in(trip.folder / "again")


def test_of_several_registries_each_has_a_folder_with_its_groups(trip):
    assert files_in(trip.folder / "split_all" / "shop") == files_in(trip.folder / "split")
    assert len(list((trip.folder / "split_all").iterdir())) > 1


# Errors


@pytest.mark.parametrize(
    ("name", "reported"),
    [
        ("empty", "the catalog is empty"),
        ("several", "several registries"),
        ("several selected", "several registries"),
        ("registry", "'nowhere'"),
        ("xid", "/messagegroups/x in the registry"),
        ("snapshot", "99"),
        ("not empty", "the folder is not empty"),
        ("no export", "which no export wrote"),
        ("a folder", "it is a folder"),
        ("a file", "it is a file"),
        ("below a file", "cannot be written"),
    ],
)
def test_errors_report_what_is_wrong(trip, name, reported):
    assert reported in trip.errors[name]


def test_an_interrupted_export_leaves_what_was_there(trip):
    assert {"interrupted", "interrupted folder"} <= set(trip.errors)
    assert json.loads((trip.folder / "one.json").read_bytes())["registryid"] == "shop"
    assert not (trip.folder / "refused").exists()
