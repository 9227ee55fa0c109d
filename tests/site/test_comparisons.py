"""What pages say of two states: the parts that differ, the gravest first, and the same counts wherever a snapshot is counted."""

from __future__ import annotations

import json
import re

import pytest
from sitecatalogs import Catalog, opened
from sitechecks import Page, broken_links, pages_of

from lakehouse.domain.diff import CLASSES
from lakehouse.site import Site, write_site
from lakehouse.site.templating import coded, parts_apart

VERSIONS = (("1", "first"), ("2", "second"))
SCHEMA = "reg-default/schemagroups/s/order"


def schema(*names: str) -> dict:
    """Return a JSON Schema whose text is long before it comes to these properties."""
    return {
        "properties": {f"p{n:03}": {"type": "string", "description": "d" * 40} for n in range(40)} | {one: {} for one in names}
    }


def document(first: dict, second: dict, **more) -> dict:
    versions = {"1": {"format": "JSONSchema/draft-07", "schema": first}, "2": {"format": "JSONSchema/draft-07", "schema": second}}
    return {"specversion": "1.0-rc2", "schemagroups": {"s": {"schemas": {"order": {"versions": versions}}}}, **more}


def text_of(site: Site, path: str) -> str:
    page, is_there, _ = site.page(path, {}, "http://x")
    assert is_there, path
    return Page(page.body.decode()).text


class Shared(Catalog):
    """A catalog whose second snapshot changes the documents of two entities, too, and rejects one of another registry."""

    def _changes(self, wanted):
        rows = super()._changes(wanted)
        if self.head == 2:
            kept = [(key, held) for key, held in wanted.items() if held[0] == "group"][:2]
            rows += [self._row(kind, registryid, xid, "own", body, uri) for (registryid, xid), (kind, body, uri) in kept]
            rejected = json.dumps({"status": "rejected", "reason": "not JSON", "findings": []})
            rows.append(self._row("document", "ghost", "file:/broken.json", "insert", rejected, None))
        return rows


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compared")
    catalog = Shared(folder / "warehouse")

    def groups(required: bool, text: str) -> dict:
        message = {"envelope": "CloudEvents/1.0", "envelopemetadata": {"subject": {"type": "string", "required": required}}}
        return {
            "a": {"messages": {"first": {"description": text}}},
            "b": {"messages": {"later": message}},
        }

    before = document(schema("old"), schema("old", "new"), messagegroups=groups(required=False, text="one"))
    after = document(schema("changed"), schema("old", "new"), messagegroups=groups(required=True, text="two"))
    catalog.ingest({"file:/shop.json": ("default", before)})
    catalog.ingest({"file:/shop.json": ("default", after)})
    return Site(opened(catalog.folder, folder / "readmodel"), 128)


def test_two_versions_of_a_schema_are_compared_by_what_is_in_them(site):
    text = text_of(site, f"{SCHEMA}~comparev1~to~v2.html")
    assert "/changed went: anything, was optional" in text
    assert "/new came: anything, optional" in text
    for part in ('"changed": {}', '"old": {}', '"new": {}'):
        assert part in text


def test_a_version_that_changed_under_its_id_says_which_fields_differ(site):
    text = text_of(site, "compare/1~to~2.html")
    assert "/old went: anything, was optional" in text
    assert "/changed came: anything, optional" in text
    assert '"changed": {}' in text


def test_what_breaks_comes_first_whatever_its_name(site):
    text = text_of(site, "compare/1~to~2.html")
    below = text.partition(" all ")[2]  # the last of the tiles
    classes = re.findall(r"\b(breaking|unknown|compatible|cosmetic)\b(?! ·)", below)
    assert "cosmetic" in classes
    assert classes == sorted(classes, key=CLASSES.index)
    assert text.index("later") < text.index("first")


def test_a_snapshot_is_counted_alike_wherever_it_is_counted(site):
    counts = {path: re.findall(r"[\d,]+ created, .*? deleted(?:, \d+ held by other documents)?", text_of(site, path))
              for path in ("index.html", "snapshots.html", "snapshots/2.html")}  # fmt: skip
    assert counts["index.html"][0] == counts["snapshots.html"][0] == counts["snapshots/2.html"][0]
    assert "No entity changed" not in text_of(site, "snapshots/1.html")  # there is none before it: what came is listed
    assert counts["snapshots/2.html"][0].endswith(", 2 held by other documents")
    assert counts["index.html"] == counts["snapshots.html"]


def test_the_page_of_a_rejected_document_links_to_no_registry_that_is_not_there(site, tmp_path):
    write_site(site.model, str(tmp_path / "site"))
    pages = pages_of(tmp_path / "site")
    path = next(path for path in pages if path.startswith("documents/broken"))
    assert "registry ghost" in pages[path].text
    assert broken_links(tmp_path / "site", pages) == []


@pytest.mark.parametrize("kind", ["message", "schema"])
def test_the_site_of_an_entity_that_went_and_came_again_compares_the_snapshots_that_have_it(tmp_path, kind):
    def state(text: str, *, is_there: bool = True) -> dict:
        base = {"messages": {"base": {"description": text}}}
        own = {"messages": {"own": {"description": text, "basemessage": "/messagegroups/bases/messages/base"}}}
        schemas = {"own": {"versions": {"1": {"format": "JSONSchema/draft-07", "schema": {"title": text}}}}}
        groups = {"messagegroups": {"bases": base} | ({"g": own} if is_there else {})}
        return {"specversion": "1.0-rc2", **groups, "schemagroups": {"s": {"schemas": schemas if is_there else {}}}}

    catalog = Catalog(tmp_path / "warehouse")
    there = (True, True, False, False, True, True)
    for number, is_there in enumerate(there):
        catalog.ingest({"file:/shop.json": ("default", state(f"text {number}", is_there=is_there))})
    site = Site(opened(catalog.folder, tmp_path / "readmodel"), 128)
    write_site(site.model, str(tmp_path / "site"))
    path = "reg-default/messagegroups/g/own" if kind == "message" else "reg-default/schemagroups/s/own"
    written = {page.name for page in (tmp_path / "site" / path).parent.glob("own~compare*~to~*.html")}
    numbers = [number for number, is_there in enumerate(there, 1) if is_there]
    assert written == {f"own~compare{one}~to~{other}.html" for one in numbers for other in numbers if one < other}
    assert broken_links(tmp_path / "site", pages_of(tmp_path / "site")) == []


def test_a_base_says_who_carries_its_variants(tmp_path):
    base = {"description": "What a variant extends"}
    reported = {
        "specversion": "1.0-rc2",
        "messagegroups": {
            "base": {"messages": {"placed": base}},
            "middle": {"messages": {"placed": {"basemessage": "/messagegroups/base/messages/placed"}}},
            "kafka": {"messages": {"placed": {"basemessage": "/messagegroups/middle/messages/placed", "protocol": "KAFKA"}}},
        },
        "endpoints": {
            name: {"usage": ["producer"], "protocol": "KAFKA", "messagegroups": ["/messagegroups/kafka"]}
            for name in ("one", "two")
        },
    }
    catalog = Catalog(tmp_path / "warehouse")
    catalog.ingest({"file:/shop.json": ("default", reported)})
    site = Site(opened(catalog.folder, tmp_path / "readmodel"), 128)
    for group in ("base", "middle"):
        text = text_of(site, f"reg-default/messagegroups/{group}/placed.html")
        assert "Producers send it to one as kafka / placed two as kafka / placed" in text
    assert "Producers send it to one two placed" in text_of(site, "reg-default/messagegroups/kafka/placed.html")


def test_long_texts_show_where_they_differ():
    one, other = parts_apart(json.dumps(schema("a", "c")), json.dumps(schema("b", "c")), 400)
    assert one.strip() == '"a": {},'
    assert other.strip() == '"b": {},'
    one, other = parts_apart(json.dumps("x" * 900 + "old"), json.dumps("x" * 900 + "new"), 400)
    assert (one, other) == ("…" + "x" * 40 + "old", "…" + "x" * 40 + "new")
    assert parts_apart('"a"', "1", 400) == ("a", "1")
    assert parts_apart(None, json.dumps("y" * 900), 400) == ("", "y" * 900)
    many = ["\n".join(str(n + shift) for n in range(2_000)) for shift in (0, 5_000)]
    assert all(parts_apart(json.dumps(many[0]), json.dumps(many[1]), 400))
    limits = [json.dumps({"description": "x" * 500, "maximum": number}) for number in (10**25, 10**25 + 1)]
    one, other = parts_apart(limits[0], limits[1], 400)
    assert (one.strip(), other.strip()) == (f'"maximum": {10**25}', f'"maximum": {10**25 + 1}')


@pytest.fixture(scope="module")
def inherited(tmp_path_factory):
    """Show a catalog whose second snapshot changes a base of three messages, one of them itself, and the schema of another."""
    folder = tmp_path_factory.mktemp("inherited")
    catalog = Catalog(folder / "warehouse")

    def document(required: bool, versions: int) -> dict:
        tenant = {"envelope": "CloudEvents/1.0", "envelopemetadata": {"tenant": {"type": "string", "required": required}}}
        schemas = {str(n): {"format": "JSONSchema/draft-07", "schema": {"type": "object", "required": ["a"] * (n - 1)}}
                   for n in range(1, versions + 1)}  # fmt: skip
        groups = {"base": {"messages": {"placed": tenant}}}
        for name, extends in (("one", "base"), ("two", "base"), ("far", "one")):
            message = {"basemessage": f"/messagegroups/{extends}/messages/placed", "description": "x" if required else "y"}
            groups[name] = {"messages": {"placed": message}}
        groups["paid"] = {"messages": {"m": {"dataschemauri": "/schemagroups/s/schemas/p"}}}
        if not required:
            groups["gone"] = {}
        return {"messagegroups": groups, "schemagroups": {"s": {"schemas": {"p": {"versions": schemas}}}}}

    catalog.ingest({"file:/a.json": ("default", document(False, 1))})
    catalog.ingest({"file:/a.json": ("default", document(True, 2))})
    return Site(opened(catalog.folder, folder / "readmodel"), 128)


def test_what_messages_inherit_is_one_cause_with_whom_it_reaches(inherited):
    text = text_of(inherited, "compare/1~to~2.html")
    assert text.count("/envelopemetadata/tenant/required") == 1
    row = text.partition("/envelopemetadata/tenant/required")[2]
    assert re.search(r"reaches 3 messages far / placed one / placed two / placed\b", row)
    assert text.count("/description") == 3  # declared by each: no one inherits it
    differences = json.loads(inherited.page("compare/1~to~2.json", {}, "http://x").page.body)
    assert sum(one["pointer"] == "/envelopemetadata/tenant/required" for one in differences) == 4
    assert f"{len(differences)} differences" in text


def test_a_schema_and_its_versions_are_one_entry_that_says_whom_it_reaches(inherited):
    text = text_of(inherited, "compare/1~to~2.html").partition("s / p schema")[2]
    assert "/defaultversionid" in text
    assert "Version 2" in text
    assert "reaches 1 message paid / m" in text


def test_tiles_count_causes_and_what_was_deleted(inherited):
    text = text_of(inherited, "compare/1~to~2.html")
    assert re.search(r"Show only \d+ breaking .*\b1 deleted \d+ all\b", text)


def test_where_there_is_no_comparison_a_snapshot_lists_what_it_changed(inherited, monkeypatch):
    monkeypatch.setattr("lakehouse.site.pages.snapshotpages.MOST_CHANGED", 1)
    fresh = Site(inherited.model, 128)
    text = text_of(fresh, "snapshots/2.html")
    assert "which a page does not compare" in text
    assert re.search(r"deleted group .*gone", text), text
    assert "/envelopemetadata/tenant/required" in text
    assert "Nothing differs" not in text


def test_pages_of_a_long_comparison_say_where_each_class_begins(inherited, monkeypatch):
    monkeypatch.setattr("lakehouse.site.pages.snapshotpages.PER_PAGE", 2)
    monkeypatch.setattr("lakehouse.site.pagecontext.PER_PAGE", 2)
    text = text_of(inherited, "snapshots/2.html")
    assert re.search(r"Pages with the first: breaking 1 .*· deleted \d", text)
    last = inherited.page("snapshots/2~p3.html", {}, "http://x").page.body
    assert b'id="only-all" checked' in last
    assert b"what changed, page 3 \xc2\xb7" in last
    assert b'id="only-breaking" checked' in inherited.page("snapshots/2.html", {}, "http://x").page.body


def test_two_versions_show_their_fields_side_by_side(site, tmp_path):
    text = text_of(site, f"{SCHEMA}~comparev1~to~v2.html").partition("Fields")[2]
    assert "changed any optional" in text.replace(",", "").replace("the same", "")
    assert "new any, optional" in text.replace("anything", "any")
    versions = {}
    for versionid, name in VERSIONS:
        schema = {"type": "object", "properties": {name: {"type": "string"}}}
        versions[versionid] = {"dataschemaformat": "JSONSchema/draft-07", "dataschema": schema}
    catalog = Catalog(tmp_path / "w")
    groups = {"g": {"messages": {"m": {"versions": versions}}}}
    catalog.ingest({"file:/a.json": ("default", {"messagegroups": groups})})
    of_message = Site(opened(catalog.folder, tmp_path / "rm"), 128)
    fields = text_of(of_message, "reg-default/messagegroups/g/m~comparev1~to~v2.html").partition("Fields")[2]
    assert "Field Version 1 Version 2 first string, optional second string, optional" in fields


def test_messages_of_two_registries_are_shown_side_by_side(tmp_path):
    catalog = Catalog(tmp_path / "w")

    def groups(description: str, messageid: str) -> dict:
        return {
            "messagegroups": {"g": {"messages": {messageid: {"description": description}, "same": {"description": description}}}}
        }

    catalog.ingest({"file:/a.json": ("one", groups("here", "a")), "file:/b.json": ("two", groups("elsewhere", "b"))})
    site = Site(opened(catalog.folder, tmp_path / "rm"), 128)
    path = "reg-one/messagegroups/g/same~with"
    beside = f"{path}reg-two~to~messagegroups~to~g~to~same.html"
    for other in ("same", "/messagegroups/g/messages/same", "http://x/ui/reg-two/messagegroups/g/same.html"):
        assert site.page(f"{path}.html", {"other": other}, "http://x")[0].path == beside, other
    text = text_of(site, beside)
    assert "same (one, g) and same (two, g)" in text
    assert "/description here elsewhere" in text
    assert site.page(f"{path}.html", {"other": "b"}, "http://x")[0].path == beside.replace("~same.", "~b.")
    assert site.page(f"{path}.html", {"other": "a"}, "http://x")[0].path == f"{path}messagegroups~to~g~to~a.html"
    assert not site.page(beside.replace("two", "three"), {}, "http://x")[1]


def test_what_breaks_by_a_deletion_leads_to_the_page_of_what_was_deleted(tmp_path):
    catalog = Catalog(tmp_path / "w")
    endpoint = {"usage": ["consumer"], "protocol": "KAFKA", "messagegroups": ["/messagegroups/g"]}
    for messages in ({"m1": {}, "m2": {}}, {"m1": {}}):
        document = {"endpoints": {"e": endpoint}, "messagegroups": {"g": {"messages": messages}}}
        catalog.ingest({"file:/a.json": ("default", document)})
    site = Site(opened(catalog.folder, tmp_path / "rm"), 128)
    body = site.page("snapshots/2.html", {}, "http://x")[0].body.decode()
    broken = body.partition('id="broken"')[2].partition("</section>")[0]
    assert '<a href="../reg-default/messagegroups/g/m2.html"><bdi>m2</bdi></a>' in broken
    assert "It was deleted in snapshot 2" in Page(site.page("reg-default/messagegroups/g/m2.html", {}, "")[0].body.decode()).text


def test_what_stands_between_backticks_is_code():
    assert coded("`a<b` and `lakehouse snapshots` lists `all") == (
        "<code>a&lt;b</code> and <code>lakehouse snapshots</code> lists `all"
    )
    assert coded("`x` & y", {"x": "x.html"}) == '<a href="x.html"><code>x</code></a> &amp; y'
