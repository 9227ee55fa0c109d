"""The site as files: links, escaping, sizes, what is on the pages, and what a second run writes."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner
from sitecatalogs import STRANGE, Catalog, numbered, opened, write_demo, write_strange
from sitechecks import broken_links, faults_of, pages_of, too_large
from warehouses import Written as Random

from lakehouse.cli.main import cli
from lakehouse.domain.diff import differences
from lakehouse.errors import SettingsError
from lakehouse.readmodel.queries import definitions_of
from lakehouse.site import write_site
from lakehouse.site.addresses import path_of

GROUP = "/messagegroups/shop.orders/messages"
KAFKA = "reg-default/messagegroups/shop.orders.kafka/shop.orders.OrderPlaced"


class Site:
    """A written site, and the catalog that it shows."""

    def __init__(self, folder: Path, catalog: Catalog, **options) -> None:
        self.catalog, self.folder = catalog, folder
        self.model = opened(catalog.folder, folder.parent / "readmodel")
        self.written = write_site(self.model, str(folder), **options)
        self.pages = pages_of(folder)

    def text(self, path: str) -> str:
        return self.pages[path].text


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    return Site(folder / "site", write_demo(folder / "warehouse"))


@pytest.fixture(scope="module")
def strange(tmp_path_factory):
    folder = tmp_path_factory.mktemp("strange")
    return Site(folder / "site", write_strange(folder / "warehouse"))


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    folder = tmp_path_factory.mktemp("many")
    catalog = Catalog(folder / "warehouse")
    catalog.ingest({"file:/many.json": ("default", numbered(520, 4, 2))})
    return Site(folder / "site", catalog)


@pytest.mark.parametrize("name", ["demo", "strange", pytest.param("many", marks=pytest.mark.slow)])
def test_links_lead_somewhere_and_pages_are_sound_and_small(name, request):
    site = request.getfixturevalue(name)
    assert broken_links(site.folder, site.pages) == []
    assert faults_of(site.pages) == []
    assert too_large(site.folder) == []
    assert len(site.pages) > 20


def test_no_page_asks_another_host(demo, strange):
    for site in (demo, strange):
        for page in site.pages.values():
            assert not [link for link in page.links if "//" in link]


def test_the_first_page_shows_what_the_catalog_holds(demo):
    text = demo.text("index.html")
    assert "messages 22" in text
    assert "endpoints 6" in text
    assert "release-2" in text
    assert "MSG-037" in text


def test_the_page_of_a_variant_answers_what_is_required_from_where_and_what_changed_last(demo):
    text = demo.text(f"{KAFKA}.html")
    assert "declared here: partitionkey, headers/region" in text
    assert "from shop.orders / shop.orders.OrderPlaced : type, source, subject, time, region" in text.replace(":", " :")
    assert "Changed in the base shop.orders / shop.orders.OrderPlaced in snapshot 3" in text
    assert "/envelopemetadata/region/required: Producers must send an attribute that they could leave out" in text
    assert "shop.orders.kafka.producer" in text
    assert '"isbn":' in text  # an example of the payload


def test_a_message_has_a_command_that_sends_an_example(demo):
    text = demo.text(f"{KAFKA}.html")
    assert "to shop.orders.kafka.producer" in text
    assert "kcat -P -b kafka-1.example.com:9093 -X security.protocol=ssl -t harbour.orders" in text
    assert "lakehouse render /messagegroups/shop.orders.kafka/messages/shop.orders.OrderPlaced --example" in text


def test_a_message_that_only_variants_carry_leads_to_their_commands(demo):
    page = demo.pages["reg-default/messagegroups/shop.orders/shop.orders.OrderPlaced.html"]
    assert "It is sent as shop.orders.kafka / shop.orders.OrderPlaced: the page of each has the command" in page.text
    assert "localhost" not in page.text
    assert f"../../../{KAFKA}.html#use" in page.links


@pytest.mark.parametrize(
    ("path", "script"),
    [
        ("messagegroups/warehouse.stock.amqp/warehouse.PickListReady", "create_sender('harbour.stock')"),
        ("endpoints/sensors.coldstore.alarms/sensors.RoomTooWarm", "transport='websockets'"),
    ],
)
def test_what_no_line_of_a_shell_sends_has_a_script(demo, path, script):
    text = demo.text(f"reg-default/{path}.html")
    assert script in text.partition("Send an example")[2]
    assert "cannot be rendered" not in text


def test_a_payload_that_is_encoded_is_shown_as_json_beside_its_bytes(demo):
    text = demo.text("reg-default/messagegroups/shop.orders.kafka/shop.orders.OrderPaid.html").partition("Examples")[2]
    assert "Payload as JSON, which is encoded below (Avro/1.11.1)" in text
    assert '{ "orderid": "orderid-' in text
    assert "payload_base64" in text
    assert "Payload as JSON" not in demo.text(f"{KAFKA}.html")


def test_a_variant_is_compared_with_its_base(demo):
    path = f"{KAFKA}~withmessagegroups~to~shop.orders~to~shop.orders.OrderPlaced.html"
    assert any(link.endswith(path.rpartition("/")[2]) for link in demo.pages[f"{KAFKA}.html"].links)
    assert "An attribute that was always there is no longer" in demo.text(path)
    page = (demo.folder / path).read_text()
    assert "<title>shop.orders.OrderPlaced (shop.orders.kafka) and shop.orders.OrderPlaced (shop.orders)" in page
    assert page.count('<th scope="col">shop.orders.OrderPlaced (shop.orders.kafka)</th>') == 2  # of attributes, and of fields


def test_a_message_links_each_of_its_versions(demo):
    page = demo.pages["reg-default/messagegroups/warehouse.stock.amqp/warehouse.PickListReady.html"]
    assert {link for link in page.links if "PickListReady/" in link} >= {
        f"../../../reg-default/messagegroups/warehouse.stock.amqp/warehouse.PickListReady/{version}.html" for version in (1, 2)
    }


def test_the_nearest_label_names_the_owner(tmp_path):
    message = {"name": "M"}
    version = {"format": "JSONSchema/draft-07", "schema": {}, "labels": {"stage": "test"}}
    schema = {"versions": {"1": version | {"documentation": "https://docs.example.com/x"}}}
    own = {"versions": {"1": version | {"labels": {"owner": "eve"}}}}
    document = {
        "labels": {"team": "platform"},
        "messagegroups": {
            "near": {
                "labels": {"team": "other", "owner": "sales"},
                "messages": {"m": message, "own": {"versions": {n: message | {"labels": {"owner": "ana"}} for n in "12"}}},
            },
            "far": {"messages": {"m": message}},
        },
        "schemagroups": {"s": {"labels": {"owner": "data"}, "schemas": {"x": schema, "y": own}}},
    }
    catalog = Catalog(tmp_path / "warehouse")
    catalog.ingest({"file:/owned.json": ("default", document)})
    site = Site(tmp_path / "site", catalog)
    for path, owner in (
        ("", "platform"), ("/messagegroups/near/own/2", "ana"), ("/schemagroups/s/x", "data"), ("/schemagroups/s/x/1", "data"),
        ("/schemagroups/s/y", "eve"),
    ):  # fmt: skip
        assert f"owner: {owner}" in site.text(f"reg-default{path}.html"), path
    [of_document] = [page.text for path, page in site.pages.items() if path.startswith("documents/")]
    assert "document owner: data owner: platform owner: sales" in of_document
    for shown in ("stage=test", "Documentation: https://docs.example.com/x"):
        assert shown in site.text("reg-default/schemagroups/s/x.html")
    for path, owner in (("near/m", "sales"), ("near/own", "ana"), ("far/m", "platform"), ("near", "sales")):
        assert f"{'owner:' if path == 'near' else 'Owner'} {owner}" in site.text(f"reg-default/messagegroups/{path}.html")


SCHEMA = "/schemagroups/s/schemas/order"


@pytest.mark.parametrize(
    ("named", "field"),
    [
        ({"dataschemaxid": f"{SCHEMA}/versions/1"}, "first"),
        ({"dataschemaxid": SCHEMA}, "second"),
        ({"dataschemauri": f"#{SCHEMA}/versions/1"}, "first"),
        ({"dataschemauri": "#/schemagroups/s/schemas/alias"}, "second"),
        ({"dataschemauri": "#/schemagroups/s/schemas/alias/versions/1"}, "first"),
    ],
)
def test_a_message_shows_and_renders_the_version_of_the_schema_that_it_names(tmp_path, named, field):
    versions = {
        str(number): {
            "format": "JSONSchema/draft-07",
            "schema": {"type": "object", "required": [name], "properties": {name: {"type": "string", "const": f"{name} value"}}},
        }
        for number, name in enumerate(("first", "second"), 1)
    }
    message = {
        "envelope": "CloudEvents/1.0",
        "envelopemetadata": {"type": {"value": "t"}},
        "dataschemaformat": "JSONSchema/draft-07",
    }
    catalog = Catalog(tmp_path / "warehouse")
    schemas = {"s": {"schemas": {"order": {"versions": versions}, "alias": {"meta": {"xref": SCHEMA}}}}}
    document = {"messagegroups": {"g": {"messages": {"m": message | named}}}, "schemagroups": schemas}
    catalog.ingest({"file:/a.json": ("default", document)})
    text = Site(tmp_path / "site", catalog).text("reg-default/messagegroups/g/m.html")
    assert f'"{field}": "{field} value"' in text
    assert "not in the catalog" not in text


def test_attributes_report_their_origin(demo):
    page = (demo.folder / f"{KAFKA}.html").read_text()
    every = page.split("<tr ")[1:]
    rows = [row for row in every if "<code>subject</code>" in row]
    assert len(rows) == 1
    assert 'class="other must"' in rows[0]
    assert "inherited" in rows[0]
    own = next(row for row in every if "<code>partitionkey</code>" in row)
    assert 'class="own must"' in own


def test_a_comparison_says_what_the_diff_says(demo):
    with demo.model.at(2) as before, demo.model.at(3) as after:
        reported = differences(definitions_of(before), definitions_of(after))
    page = demo.text("compare/2~to~3.html")
    assert {one.class_ for one in reported} == {"breaking", "compatible", "cosmetic"}
    for one in reported:
        assert one.meaning in page
        assert one.pointer in page
    single = demo.text(f"{KAFKA}~compare1~to~3.html")
    assert "As in effect" in single
    assert "breaking" in single


def test_what_was_refused_is_shown_where_it_would_stand(demo):
    text = demo.text("reg-default/messagegroups/web.events.html")
    assert "Not loaded 1" in text
    assert "web.BasketAbandoned" in text
    assert path_of("default", "/messagegroups/web.events/messages/web.BasketAbandoned") not in demo.pages


def test_what_is_deprecated_looks_so(demo):
    page = (demo.folder / "reg-default/messagegroups/shop.orders/shop.orders.OrderPaid.html").read_text()
    assert 'class="title old"' in page
    assert "Goes away on 2027-06-01" in page


def test_json_and_texts_stand_beside_the_pages(demo):
    reported = json.loads((demo.folder / "reg-default/messagegroups/shop.orders/shop.orders.OrderPlaced.json").read_bytes())
    assert reported["messageid"] == "shop.orders.OrderPlaced"
    raw = demo.folder / "reg-default/schemagroups/shop.orders.schemas/shop.orders.OrderPlacedData/2~raw.txt"
    assert "giftmessage" in json.loads(raw.read_text())["properties"]


def test_ids_and_texts_are_shown_and_never_run(strange):
    for registry in ("reg-default", "reg-a~2Fb"):
        listed = strange.text(f"{registry}/messagegroups/strange.html")
        for messageid, message in STRANGE["messagegroups"]["strange"]["messages"].items():
            assert messageid in listed.replace(" ", "") or messageid in listed
            page = strange.pages[
                path_of({"reg-default": "default"}.get(registry, "a/b"), f"/messagegroups/strange/messages/{messageid}")
            ]
            assert message.get("name", "") in page.text
    assert "{{7*7}}" in strange.text("reg-default/messagegroups/strange.html")
    assert "49" not in strange.text("reg-default/messagegroups/strange.html")
    index = (strange.folder / "search-index.js").read_text()
    assert "<" not in index


def test_texts_from_right_to_left_are_set_apart(strange):
    page = (strange.folder / path_of("default", "/messagegroups/strange/messages/طلب")).read_text()
    assert "<bdi>طلب</bdi>" in page
    assert "<bdi>تم تقديم الطلب</bdi>" in page


def test_tables_of_fields_say_what_they_lack(tmp_path):
    proto = 'syntax = "proto3"; import "google/protobuf/any.proto"; message A { string a = 1; string b = 2; } enum E { X = 0; }'
    texts = {"proto": ("Protobuf/3", proto), "xsd": ("XSD/1.1", "<broken>"), "thrift": ("Thrift/1", "struct A {}")}
    schemas = {name: {"versions": {"1": {"format": format_, "schema": text}}} for name, (format_, text) in texts.items()}
    message = {"dataschemaformat": "Protobuf/3", "dataschemauri": "#/schemagroups/s/schemas/proto"}
    document = {"messagegroups": {"g": {"messages": {"m": message}}}, "schemagroups": {"s": {"schemas": schemas}}}
    catalog = Catalog(tmp_path / "warehouse")
    catalog.ingest({"file:/schemas.json": ("default", document)})
    site = Site(tmp_path / "site", catalog)
    for path in ("schemagroups/s/proto", "schemagroups/s/proto/1", "messagegroups/g/m"):
        text = site.text(f"reg-default/{path}.html")
        for reported in ("b string no. 2", "X value no. 0", "What it imports is not listed: google/protobuf/any.proto."):
            assert reported in text
    assert "Its fields are not listed: the schema is not XML" in site.text("reg-default/schemagroups/s/xsd.html")
    assert "Fields of the format Thrift/1 are not listed." in site.text("reg-default/schemagroups/s/thrift.html")


@pytest.mark.slow
def test_long_lists_are_paged(many):
    group = "reg-default/messagegroups/g0"
    assert "1\u2013100 of 130" in many.text(f"{group}.html")
    assert "101\u2013130 of 130" in many.text(f"{group}~p2.html")
    both = {link for name in (f"{group}.html", f"{group}~p2.html") for link in many.pages[name].links if "/g0/" in link}
    assert len(both) == 130


def test_a_page_stays_small_whatever_it_shows(tmp_path):
    attribute = {"type": "string", "required": True, "value": "v" * 900, "description": "d" * 900}
    big = {"envelope": "CloudEvents/1.0", "envelopemetadata": {f"a{n}": attribute for n in range(500)}, "description": "x" * 9000}
    schema = {"properties": {f"p{n}": {"type": "string", "description": "s" * 500} for n in range(500)}}
    big |= {"dataschemaformat": "JSONSchema/draft-07", "dataschema": schema, "labels": {f"l{n}": "y" * 400 for n in range(300)}}
    catalog = Catalog(tmp_path / "warehouse")
    catalog.ingest({"file:/big.json": ("default", {"messagegroups": {"g": {"messages": {"big": big}, "labels": big["labels"]}}})})
    site = Site(tmp_path / "site", catalog)
    assert too_large(site.folder) == []
    text = site.text("reg-default/messagegroups/g/big.html")
    assert "cut short" in text
    assert "a499" in (site.folder / "reg-default/messagegroups/g/big.json").read_text()
    assert broken_links(site.folder, site.pages) == []


@pytest.mark.slow
def test_the_map_has_every_group_and_endpoint_once(many):
    maps = [page for path, page in many.pages.items() if path.startswith("map")]
    ids = [f"reg-default/messagegroups/g{n}.html" for n in range(4)] + [
        f"reg-default/endpoints/broker-{n}.html" for n in range(2)
    ]
    drawn = {path: (many.folder / path).read_text().partition("</svg>")[0] for path in many.pages if path.startswith("map")}
    for one in ids:
        assert sum(text.count(f'{one}"><text class="head"') for text in drawn.values()) == 1
    for page in maps:
        assert sum("/messagegroups/g" in link for link in page.links) <= 500 + 150  # of the picture, and of the list
    shown = {link.removeprefix("./") for page in maps for link in page.links if re.search(r"/g\d/g\d\.event", link)}
    assert len(shown) == 520


def test_a_second_run_writes_nothing_and_a_change_only_what_it_touches(tmp_path):
    catalog = Catalog(tmp_path / "warehouse")
    before = numbered(40, 2, 1)
    catalog.ingest({"file:/a.json": ("default", before)})
    site = Site(tmp_path / "site", catalog)
    stamps = {path: path.stat().st_mtime_ns for path in site.folder.rglob("*.html")}
    again = write_site(site.model, str(site.folder))
    assert (again.written, again.deleted, again.pages) == (0, 0, site.written.pages)
    assert {path: path.stat().st_mtime_ns for path in site.folder.rglob("*.html")} == stamps
    changed = numbered(40, 2, 1)
    changed["messagegroups"]["g1"]["messages"]["g1.event3"]["description"] = "Another one"
    del changed["messagegroups"]["g1"]["messages"]["g1.event4"]
    catalog.ingest({"file:/a.json": ("default", changed)})
    site.model.refresh()
    after = write_site(site.model, str(site.folder))
    touched = {
        path.relative_to(site.folder).as_posix()
        for path, stamp in stamps.items()
        if path.exists() and path.stat().st_mtime_ns != stamp
    }
    assert "reg-default/messagegroups/g1/g1.event3.html" in touched
    assert not (site.folder / "reg-default/messagegroups/g1/g1.event4.html").exists()
    untouched = [f"reg-default/messagegroups/g{g}/g{g}.event{n}.html" for g in (0, 1) for n in (7, 8)]
    assert not touched & set(untouched)
    assert after.deleted == 5  # the page, the one that shows it next to its base, the Markdown of both, its JSON
    pages = pages_of(site.folder)
    assert broken_links(site.folder, pages) == []


def test_files_of_others_stay_and_a_folder_of_others_is_refused(demo, tmp_path):
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "thesis.txt").write_text("do not delete")
    with pytest.raises(SettingsError, match=r"site\.json"):
        write_site(demo.model, str(folder))
    copied = shutil.copytree(demo.folder, tmp_path / "copy")
    (copied / "robots.txt").write_text("mine")
    write_site(demo.model, str(copied))
    assert (copied / "robots.txt").read_text() == "mine"


def test_a_manifest_that_names_files_elsewhere_is_refused(demo, tmp_path):
    copied = shutil.copytree(demo.folder, tmp_path / "copy")
    (copied / "site.json").write_text(json.dumps({"pages": {"../secret": "x"}}))
    with pytest.raises(SettingsError, match="outside"):
        write_site(demo.model, str(copied))


def test_the_past_is_written_as_it_was(demo, tmp_path):
    written = write_site(demo.model, str(tmp_path / "past"), at="spring", base_url="https://example.com/catalog/")
    pages = pages_of(tmp_path / "past")
    assert written.snapshot_id == 1
    assert not [path for path in pages if "web.events" in path]
    assert "The catalog as of snapshot 1" in pages["index.html"].text
    assert "A customer has bought something" in pages["reg-default/messagegroups/shop.orders/shop.orders.OrderPlaced.html"].text
    assert "curl 'https://example.com/catalog/reg-default/messagegroups/shop.orders.kafka/" in pages[f"{KAFKA}.html"].text
    links = [link for page in pages.values() for link in page.links if not link.startswith("https://example.com/catalog/")]
    assert not [link for link in links if "//" in link]


@pytest.mark.slow
def test_several_processes_write_the_same(many, tmp_path):
    alone = {path: path.read_bytes() for path in many.folder.rglob("*.html")}
    written = write_site(many.model, str(tmp_path / "site"), processes=2)
    assert written.pages == many.written.pages
    for path, body in alone.items():
        assert (tmp_path / "site" / path.relative_to(many.folder)).read_bytes() == body


def test_an_empty_catalog_has_a_page_that_says_so(tmp_path):
    Random(tmp_path / "warehouse", 1)
    model = opened(tmp_path / "warehouse", tmp_path / "readmodel")
    write_site(model, str(tmp_path / "site"))
    pages = pages_of(tmp_path / "site")
    assert "The catalog is empty" in pages["index.html"].text
    assert broken_links(tmp_path / "site", pages) == []
    assert faults_of(pages) == []


def test_the_command_reports_what_it_wrote(demo, tmp_path):
    place = ["--warehouse", str(demo.catalog.folder), "--json"]
    ran = CliRunner().invoke(cli, ["site", "--out", str(tmp_path / "out"), *place], catch_exceptions=False)
    assert ran.exit_code == 0
    reported = json.loads(ran.stdout)
    assert reported["snapshot_id"] == 3
    assert reported["pages"] == reported["written"] > 100
    wrong = CliRunner().invoke(cli, ["site", "--out", str(tmp_path / "out"), "--base-url", "example.com", *place])
    assert wrong.exit_code == 2


def test_the_index_finds_what_is_there(demo):
    text = (demo.folder / "search-index.js").read_text()
    reported = json.loads(text.removeprefix("lakehouseIndex(").rstrip().removesuffix(");"))
    paths = [row[2] for row in reported["rows"]]
    assert len(paths) == len(set(paths)) == 22 + 15 + 8 + 4
    assert all((demo.folder / path).exists() for path in paths)
    kafka = next(row for row in reported["rows"] if row[2] == f"{KAFKA}.html")
    assert reported["protocols"][kafka[6]] == "KAFKA"
    assert reported["groups"][kafka[7]] == "shop.orders.kafka"
    assert {"harbour", "orders", "partitionkey"} <= {reported["words"][number] for number in kafka[9]}
