"""The site as `lakehouse serve` shows it: over real sockets, and the page function itself."""

from __future__ import annotations

import csv
import io
import json
import re
import unicodedata
from datetime import datetime, timezone
from urllib.parse import parse_qsl, unquote, urldefrag, urlencode, urljoin
from xml.etree.ElementTree import fromstring

import pytest
from serve.served import Shops, serving
from sitecatalogs import Catalog, opened, write_demo
from sitechecks import Page

from lakehouse.errors import SnapshotNotFound
from lakehouse.readmodel.wordsearch import distance
from lakehouse.serve.answer.exchange import ApiAnswer, ApiRequest
from lakehouse.serve.answer.live import SnapshotWatcher
from lakehouse.serve.answer.reads import UI, ReadHandler
from lakehouse.serve.apierrors import ProblemFound
from lakehouse.serve.config import Options
from lakehouse.serve.targets import RequestTarget
from lakehouse.site import Site, write_site

KAFKA = "reg-default/messagegroups/shop.orders.kafka/shop.orders.OrderPlaced.html"
HTML = {"Accept": "text/html,application/xhtml+xml"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("served")
    write_demo(made / "warehouse")
    return made


@pytest.fixture(scope="module")
def site(folder):
    return Site(opened(folder / "warehouse", folder / "readmodel"), 128, lambda: datetime(2026, 2, 4, tzinfo=timezone.utc))


def text_of(site: Site, path: str, at: str | None = None, **query: str) -> str:
    page, is_there, _ = site.page(path, query, "http://x", at)
    assert is_there, path
    return Page(page.body.decode()).text


@pytest.fixture(scope="module")
def server(folder):
    with serving(folder / "warehouse", folder / "readmodel") as running:
        yield running


def test_a_browser_is_led_to_the_pages_and_a_program_is_not(server):
    led = server.ask("/", **HTML)
    assert (led.status, led.headers["location"]) == (303, f"{server.url}/ui/")
    assert server.ask("/", Accept="application/json").json["registryid"] == "default"
    assert server.ask("/").headers["content-type"].startswith("application/json")
    assert server.ask("/ui").headers["location"] == f"{server.url}/ui/"


def test_pages_come_with_a_policy_and_an_etag(server):
    answer = server.ask("/ui/")
    assert answer.status == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert server.ask("/ui/", If_None_Match=answer.headers["etag"]).status == 304
    assert server.ask("/ui/assets/site.js").headers["content-type"].startswith("text/javascript")


@pytest.mark.parametrize("path", ["map", "map/", "findings?x=1", "reg-default", KAFKA.removesuffix(".html"), "compare?a=1&b=3"])
def test_a_page_is_found_without_its_ending(server, path):
    name, _, query = path.partition("?")
    for before in ("/ui/", "/at/1/ui/"):
        led = server.ask(before + path)
        whole = name.rstrip("/") + ".html" + (f"?{query}" if query else "")
        assert (led.status, led.headers["location"]) == (307, f"{server.url}{before}{whole}")
        assert server.ask(before + whole).status in (200, 303)


def followed(server, url: str) -> tuple[str, Page]:
    """Ask for a page as a browser does: led on, and every link and source of the page asked for too."""
    for _ in range(3):
        answer = server.ask(url.removeprefix(server.url))
        if answer.status not in (303, 307):
            break
        url = answer.headers["location"]
    assert answer.status == 200, url
    page = Page(answer.body.decode())
    for link in page.links:
        target = urldefrag(urljoin(url, link))[0]
        assert server.ask(target.removeprefix(server.url)).status in (200, 303), f"{url}: {link}"
    return url, page


FORMS = {
    "index.html": {"q": "order"},
    "search.html": {"q": "order"},
    "compare.html": {"a": "1", "b": "3"},
    KAFKA: {"other": "shop.orders.OrderPaid"},
    "reg-default/schemagroups/shop.orders.schemas/shop.orders.OrderPlacedData.html": {
        "a": "v1",
        "other": "shop.orders.OrderCancelledData",
    },
}


@pytest.mark.parametrize("path", FORMS)
@pytest.mark.parametrize("prefix", ["/ui/", "/at/3/ui/"])
def test_what_a_form_leads_to_is_a_page_whose_links_lead_on(server, prefix, path):
    url, page = followed(server, server.url + prefix + path)
    assert page.forms
    for action, fields in page.forms:
        values = {name: FORMS[path].get(name, value) for name, value in fields.items()}
        led, answer = followed(server, f"{urljoin(url, action)}?{urlencode(values)}")
        assert answer.links
        if "b" in fields:
            assert "~to~" in led
            assert "?" not in led


def test_the_form_of_compare_leads_to_the_address_of_the_comparison(server):
    for query in ("a=1&b=3", "a=spring&b=head"):
        answer = server.ask(f"/ui/compare.html?{query}")
        assert (answer.status, answer.headers["location"]) == (303, f"{server.url}/ui/compare/1~to~3.html")
    one = server.ask("/ui/compare/2~to~3.html")  # the page of a snapshot is the comparison with the one before
    assert (one.status, one.headers["location"]) == (303, f"{server.url}/ui/snapshots/3.html")
    assert b"names no snapshot" in server.ask("/ui/compare.html?a=never&b=head").body


def test_what_is_not_there_is_404_with_a_page(server):
    for path in (
        "/ui/nothing.html",
        "/ui/nothing",
        "/ui/reg-default/messagegroups/none.html",
        "/ui/%2e%2e/secret",
        "/ui/reg-x.html",
    ):
        answer = server.ask(path)
        assert (answer.status, answer.headers["content-type"]) == (404, "text/html; charset=utf-8"), path
    assert server.ask("/at/99/ui/").status == 404


def test_the_past_is_served(server):
    led = server.ask(f"/at/spring/ui/{KAFKA}")
    assert led.status == 200
    assert b"as of snapshot 1" in led.body
    assert led.headers["cache-control"] == "no-cache"


def test_every_link_of_the_files_is_answered(site, folder, tmp_path):
    written = write_site(site.model, str(tmp_path / "site"))
    paths = [path.relative_to(tmp_path / "site").as_posix() for path in (tmp_path / "site").rglob("*") if path.is_file()]
    paths = [path for path in paths if path not in ("site.json", "search-index.js")]
    assert len(paths) == written.pages - 1
    for path in paths:
        page, is_there, _ = site.page(path, {}, "http://x")
        assert is_there or path == "404.html", path
        assert page.body


def test_search_ranks_and_filters(site):
    page, *_ = site.page("search.html", {"q": "shop.orders.OrderPlaced"}, "http://x")
    first = next(link for link in Page(page.body.decode()).links if "reg-default" in link)
    assert first.endswith("/shop.orders.OrderPlaced.html")  # what has exactly that id, before what begins so
    page, *_ = site.page("search.html", {"q": "order", "protocol": "KAFKA", "kind": "message"}, "http://x")
    links = [link for link in Page(page.body.decode()).links if "reg-default" in link]
    assert len(links) == 4
    assert all("shop.orders.kafka" in link for link in links)
    grouped, *_ = site.page("search.html", {"q": "order", "group": "shop.orders"}, "http://x")
    links = [link for link in Page(grouped.body.decode()).links if "reg-default" in link]
    assert links
    assert all("/shop.orders/" in link or link.endswith("/shop.orders.html") for link in links)
    assert "Nothing has all these words" in text_of(site, "search.html", q="order", label="team=nobody")
    assert "Nothing has all these words" in text_of(site, "search.html", q='"; DROP TABLE log; --')


def words_in(text: str) -> list[str]:
    plain = "".join(one for one in unicodedata.normalize("NFD", text) if not unicodedata.category(one).startswith("M"))
    return re.findall(r"[^\W_]+", plain.lower())


def found_in_files(reported: dict, q: str, **wanted: str) -> set[str]:
    """Search the index of the files, as the script does."""
    tables = {"": ("words", 9), "field": ("fields", 10), "attr": ("names", 11), "topic": ("addresses", 12)}
    parts = [
        (*tables[prefix], word, sign)
        for prefix, sign, part in re.findall(r"(?:(field|attr|topic):(=?))?(\S+)", q)
        for word in ([part] if sign else words_in(part))
    ]
    rows = reported["rows"] if parts else []
    for at, (table, place, word, sign) in enumerate(parts):
        names = [one.partition("\t")[0] for one in reported[table]]
        numbers = {
            number
            for number, name in enumerate(names)
            if name == word
            or (not sign and any(one.startswith(word) if at == len(parts) - 1 else one == word for one in words_in(name)))
        }
        rows = [row for row in rows if numbers & set(row[place] if isinstance(row[place], list) else [row[place]])]
    kinds = reported["kinds"]
    if "protocol" in wanted:
        rows = [
            row for row in rows if kinds[row[0]] == "message" and (reported["protocols"][row[6]] or "none") == wanted["protocol"]
        ]
    if "label" in wanted:
        rows = [row for row in rows if kinds[row[0]] == "message" and wanted["label"] in row[8]]
    if "owner" in wanted:
        rows = [row for row in rows if reported["owners"][row[13]] == wanted["owner"]]
    if "state" in wanted:
        rows = [row for row in rows if wanted["state"] in [reported["states"][one] for one in row[14]]]
    if "format" in wanted:
        rows = [row for row in rows if wanted["format"] in [reported["formats"][one] for one in row[15]]]
    if "group" in wanted:
        rows = [row for row in rows if reported["groups"][row[7]] == wanted["group"]]
    return {row[2] for row in rows}


def found_by_server(site: Site, q: str, **wanted: str) -> set[str]:
    found: set[str] = set()
    for number in range(1, 9):
        page, *_ = site.page("search.html", {"q": q, "page": str(number), **wanted}, "http://x")
        hits = page.body.decode().partition('<section id="results"')[2].partition("<aside")[0]
        hits = hits.partition('<nav class="pager"')[0].partition("<p>Did you mean")[0]
        found |= {link.removeprefix("./") for link in Page(f"<div>{hits}").links}
    return found


@pytest.mark.slow
def test_the_files_find_what_the_server_finds(site, tmp_path):
    write_site(site.model, str(tmp_path / "site"))
    text = (tmp_path / "site" / "search-index.js").read_text()
    reported = json.loads(text.removeprefix("lakehouseIndex(").rstrip().removesuffix(");"))
    assert len(reported["words"]) > 200
    queries = [
        *reported["words"],
        *(one[:3] for one in reported["words"]),
        "order placed",
        "Customer bóught",
        "placed ka",
        "nothing of it",
        "field:quantity",
        "field:lines.isbn kafka",
        "attr:region",
        "attr:region field:tot",
        "topic:harbour",
        "field:region",
        "field:=isbn",
        "field:=lines.isbn",
        "attr:=type order",
        "topic:=harbour.orders",
    ]
    for q in queries:
        assert found_in_files(reported, q) == found_by_server(site, q), q
    some = (
        {"owner": "checkout"},
        {"state": "has findings"},
        {"state": "changed in the last 7 days"},
        {"format": "JSONSchema"},
        {"protocol": "KAFKA"},
        {"protocol": "AMQP"},
        {"protocol": "none"},
        {"group": "shop.orders"},
        {"label": "team=orders"},
        {"group": "shop"},
    )
    for wanted in some:
        for q in ("order", "shop", "stock"):
            assert found_in_files(reported, q, **wanted) == found_by_server(site, q, **wanted), (q, wanted)


def test_facets_count_what_each_choice_would_leave(site):
    text = text_of(site, "search.html", q="order", kind="message")
    kinds = text.partition("Kind message ")[2].partition("Protocol")[0]
    counts = dict(re.findall(r"(group|endpoint|schema) (\d+)", kinds))
    assert all(len(found_by_server(site, "order", kind=kind)) == int(count) for kind, count in counts.items())
    assert set(counts) == {"group", "endpoint", "schema"}
    assert f"{len(found_by_server(site, 'order', kind='message'))} hits" in text
    assert "49 hits" in text_of(site, "search.html")  # 22 messages, 15 groups and endpoints, 8 schemas, 4 documents
    assert "22 hits" in text_of(site, "search.html", kind="message")


def test_a_search_is_ordered_and_its_list_is_json_and_csv(site):
    page, is_there, _ = site.page("search.json", {"q": "order", "order": "name", "protocol": "kafka"}, "http://x")
    assert is_there
    result = json.loads(page.body)
    names = [one["xid"].rpartition("/")[2].casefold() for one in result["hits"]]
    assert names == sorted(names)
    assert len(names) == result["total"] == 4
    assert {one["protocol"] for one in result["hits"]} == {"KAFKA"}
    latest = json.loads(site.page("search.json", {"order": "last change"}, "http://x")[0].body)["hits"]
    numbers = [one["snapshot_id"] for one in latest]
    assert numbers == sorted(numbers, reverse=True)
    assert numbers[-1] < numbers[0] == 3
    rows = list(csv.DictReader(io.StringIO(site.page("search.csv", {"kind": "schema"}, "http://x")[0].body.decode())))
    assert len(rows) == 8
    assert {row["format"] for row in rows} >= {"JSONSchema", "Avro"}
    assert rows[0]["path"].startswith("reg-default/schemagroups/")


def test_a_search_is_of_the_snapshot_that_is_shown(site, tmp_path):
    write_site(site.model, str(tmp_path / "site"), at="1")
    text = (tmp_path / "site" / "search-index.js").read_text()
    then = json.loads(text.removeprefix("lakehouseIndex(").rstrip().removesuffix(");"))
    differing = 0
    for q in (*then["words"], "field:giftmessage", "field:=lines.isbn", "attr:region", "topic:harbour"):
        results = {row["path"] for row in hits_at(site, q, "1")}
        assert results == found_in_files(then, q), q
        differing += results != {row["path"] for row in hits_at(site, q)}
    assert differing > 10


def hits_at(site: Site, q: str, at: str | None = None) -> list[dict]:
    return json.loads(site.page("search.json", {"q": q}, "http://x", at)[0].body)["hits"]


def test_a_word_that_is_misspelled_leads_to_one_that_is_not(site):
    page, *_ = site.page("search.html", {"q": "field:quantitty", "kind": "message"}, "http://x")
    assert "Did you mean field:quantity?" in Page(page.body.decode()).text
    assert b"search.html?q=field%3Aquantity&amp;kind=message" in page.body
    assert "Did you mean" not in text_of(site, "search.html", q="xyzzyqq")
    for wrong, right in {"regoin": "region", "reigon": "region", "kafak": "kafka", "warehuose": "warehouse"}.items():
        assert f"Did you mean {right}?" in text_of(site, "search.html", q=wrong)
    for prefix in ("owner:", "field:", "attr:"):  # as one types it
        assert "Did you mean" not in text_of(site, "search.html", q=prefix)


@pytest.mark.parametrize(
    ("one", "other", "changed"),
    [("region", "region", 0), ("regoin", "region", 1), ("", "ab", 2), ("harbor", "harbour", 1), ("abc", "cab", 2)],
)
def test_the_distance_of_words_counts_letters(one, other, changed):
    assert distance(one, other) == distance(other, one) == changed


def test_counts_lead_to_as_many_hits(site):
    text = site.page("index.html", {}, "http://x")[0].body.decode()
    links = re.findall(r'href="\./search\.html\?([^"]+)"[^>]*>(\d+)[^<]*</a>', text)
    assert len(links) > 12
    assert ("kind=message&amp;protocol=none", "6") in links
    for query, count in links:
        wanted = dict(parse_qsl(query.replace("&amp;", "&")))
        assert json.loads(site.page("search.json", wanted, "http://x")[0].body)["total"] == int(count), query


def test_what_fits_no_filter_is_not_called_a_word(site):
    for wanted in ({"owner": "nope"}, {"kind": "nope"}, {"protocol": "NOPE"}):
        text = text_of(site, "search.html", **wanted)
        assert "Nothing fits these filters" in text
        assert "Nothing has all these words" not in text
    page = site.page("search.html", {"kind": "nope"}, "http://x")[0].body.decode()
    assert "<option selected>nope</option>" in page  # as the address says
    assert re.search(r'<a href="[^"]*" aria-current="true"><bdi>nope</bdi></a>', page)  # and a click takes it away
    last = text_of(site, "search.html", page="2")
    assert "49 hits Before" in last
    assert text_of(site, "search.html", page="999999") == last


def test_titles_say_what_a_page_is_of(site):
    def title(path: str, **query: str) -> str:
        return re.search("<title>(.*?) · xRegistry", site.page(path, query, "http://x")[0].body.decode())[1]

    assert title("search.html") == "Search"
    assert title("search.html", kind="message", owner="checkout") == "kind: message, owner: checkout"
    assert title("search.html", page="2") == "Search, page 2"
    assert title(KAFKA.replace(".html", "~compare1~to~3.html")) == "shop.orders.OrderPlaced: Snapshot 1 → Snapshot 3"
    beside = site.page(KAFKA.replace(".html", "~with.html"), {"other": "shop.orders.OrderPlaced"}, "http://x")[0].path
    assert title(beside) == "shop.orders.OrderPlaced (shop.orders.kafka) and shop.orders.OrderPlaced (shop.orders)"


def test_documents_with_findings_are_found(site):
    hits = json.loads(site.page("search.json", {"state": "has findings", "kind": "document"}, "http://x")[0].body)["hits"]
    with_findings = {uri for _, uri in site.model.answer(lambda view: site.page_context(view).overview.findings_by_document)}
    assert {hit["xid"] for hit in hits} == with_findings & {hit["xid"] for hit in hits_at(site, "xreg")}
    assert hits


def test_a_hit_says_the_whole_part_that_was_found(site):
    text = text_of(site, "search.html", q="lines.isbn", kind="message")
    assert "payload field lines.isbn" in text
    assert "lines.quantity" not in text
    assert "address harbour.orders" in text_of(site, "search.html", q="topic:harbour.orders")
    assert "in address, attributes" not in text_of(site, "search.html", q="topic:harbour")
    assert "payload field lines.isbn" in text_of(site, "search.html", q="isbn", kind="schema")
    assert "attribute" not in text_of(site, "search.html", q="field:region").partition("hits")[0].partition("· ")[2]


def test_the_list_of_the_map_has_every_message_and_endpoint_of_the_picture(tmp_path):
    catalog = Catalog(tmp_path / "w")
    own = {"usage": ["consumer"], "protocol": "MQTT", "messages": {"RoomTooWarm": {}}}
    endpoints = {"alarms": own, "idle": {"usage": ["producer"]}, "carrier": {"messagegroups": ["/messagegroups/g"]}}
    catalog.ingest({"file:/a.json": ("default", {"endpoints": endpoints, "messagegroups": {"g": {"messages": {"m": {}}}}})})
    body = Site(opened(catalog.folder, tmp_path / "rm"), 128).page("map.html", {}, "http://x")[0].body.decode()
    picture, listed = (Page(f"<div>{part}").links for part in body.partition("<main")[2].split('id="list"'))
    assert set(listed) >= {link for link in picture if "/reg-default/" in f"/{link}"}
    assert "./reg-default/endpoints/alarms/RoomTooWarm.html" in listed


def test_the_way_from_a_past_search_to_now_keeps_what_is_searched_for(site):
    page = site.page("search.html", {"q": "order", "kind": "message"}, "http://x", "1")[0]
    assert b'../../../ui/search.html?q=order&amp;kind=message">To now' in page.body


def test_all_attributes_and_fields_are_listed_with_the_messages_that_have_them(site):
    page, *_ = site.page("names.html", {}, "http://x")
    rows = re.findall(
        r"<code>([^<]+)</code>.*?>(attribute|payload field)<.*?search\.html\?q=([^&]+)&amp;kind=message.*?>(\d+)</a>",
        page.body.decode().replace("<wbr>", ""),
    )
    assert ("lines.quantity", "payload field", "field%3A%3Dlines.quantity", "2") in rows
    counts = [int(count) for *_, count in rows]
    assert counts == sorted(counts, reverse=True)
    for name, _, query, count in rows:
        assert len(found_by_server(site, unquote(query), kind="message")) == int(count), name


def test_owners_are_found_by_a_prefix_of_the_word(site):
    by_facet = found_by_server(site, "", owner="checkout")
    assert by_facet
    assert found_by_server(site, "owner:checkout") == by_facet
    assert found_by_server(site, "owner:Check order") == found_by_server(site, "order", owner="checkout")


def test_messages_are_found_by_the_fields_of_their_payloads(site):
    text = text_of(site, "search.html", q="field:quantity", kind="message")
    assert "payload field lines.quantity" in text
    assert len(found_by_server(site, "field:quantity")) == 2
    text = text_of(site, "search.html", q="attr:region protocolkafka")
    assert "Nothing has all these words" in text
    assert "envelope attribute region, required" in text_of(site, "search.html", q="region")


def test_two_states_are_compared_as_they_are_asked_for(site):
    path = KAFKA.replace(".html", "~compare.html")
    assert "breaking" in text_of(site, path, a="1", b="3")
    assert text_of(site, path, a="3", b="1") != text_of(site, path, a="1", b="3")
    assert "Snapshot 1 → 3: what changed" in text_of(site, "compare.html", a="spring", b="head")
    assert "names no snapshot" in text_of(site, "compare.html", a="never", b="head")
    schema = "reg-default/schemagroups/shop.orders.schemas/shop.orders.OrderPlacedData~compare.html"
    assert "/schema" in text_of(site, schema, a="v1", b="v2")


def test_one_side_of_a_comparison_is_enough(site):
    for query, path in (({"a": "1"}, "compare/1~to~3.html"), ({"b": "2"}, "snapshots/2.html"), ({}, "compare.html")):
        assert site.page("compare.html", query, "http://x")[0].path == path


def test_an_entity_is_compared_at_any_snapshot_that_has_it(site):
    path = KAFKA.replace(".html", "~compare")
    assert "Snapshot 1 → Snapshot 2" in text_of(site, f"{path}1~to~2.html")  # 2 did not change it
    assert site.page(f"{path}.html", {"a": "spring", "b": "2"}, "http://x")[0].path == f"{path}1~to~2.html"
    text = text_of(site, f"{path}.html", a="nope", b="3")
    assert "'nope' names no snapshot" in text
    assert "What it means" not in text
    page, is_there, _ = site.page(f"{path}1~to~9.html", {}, "http://x")
    assert not is_there
    assert "'9' names no snapshot" in Page(page.body.decode()).text


def test_what_is_compared_first_are_two_snapshots_or_two_versions(site):
    path = "reg-default/messagegroups/warehouse.stock.amqp/warehouse.PickListReady~compare"
    assert site.page(f"{path}.html", {}, "http://x")[0].path == f"{path}v1~to~v2.html"
    assert site.page(KAFKA.replace(".html", "~compare.html"), {}, "http://x")[0].path.endswith("~compare1~to~3.html")


def test_two_messages_are_shown_side_by_side(site):
    path = KAFKA.replace(".html", "~with.html")
    page, is_there, _ = site.page(path, {"other": "/messagegroups/shop.orders/messages/shop.orders.OrderPlaced"}, "http://x")
    assert is_there
    text = Page(page.body.decode()).text
    assert "/protocoloptions/topic/value harbour.orders" in text
    assert "The message travels over another protocol" in text
    assert "lines.isbn string, required the same" in text
    assert text_of(site, page.path) == text
    by_id, _, _ = site.page(path, {"other": "shop.orders.OrderPaid"}, "http://x")
    assert by_id.path.endswith("~withmessagegroups~to~shop.orders.kafka~to~shop.orders.OrderPaid.html")
    assert "no.such.message names no other message" in text_of(site, path, other="no.such.message")
    schema = "reg-default/schemagroups/shop.orders.schemas/shop.orders.OrderPlacedData~with.html"
    fields = text_of(site, schema, other="shop.orders.OrderCancelledData")
    assert "giftmessage string, optional, maxLength 200" in fields
    assert "shop.orders.OrderPaid names no other schema" in text_of(site, schema, other="shop.orders.OrderPaid")


def test_a_comparison_says_whom_it_breaks(site):
    text = text_of(site, "compare.html", a="spring", b="head")
    assert "From 3 · 2026-02-03 · release-2 2 · 2026-01-23 1 · 2026-01-12 · spring to 3" in text
    assert "last change · last 7 days · last 30 days · since spring" in text
    assert "Snapshots in between 2 Snapshot 3" in text
    broken = text.partition("Whom it breaks 1")[2].partition("What differs")[0]
    assert "shop.orders.kafka.producer producer checkout 1 shop.orders.kafka / shop.orders.OrderPlaced" in broken
    assert "/envelopemetadata/region/required Producers must send an attribute that they could leave out" in broken
    assert "shop.orders.kafka.consumer" not in broken  # an attribute more breaks nobody who reads


def test_days_are_counted_back_from_now_and_in_files_from_their_snapshot(site, tmp_path):
    def presets(site: Site, at: str | None = None) -> dict[str, str]:
        body = site.page("compare.html", {}, "http://x", at)[0].body.decode()
        line = body.partition('<p class="ready">')[2].partition("</p>")[0]
        return {title: path for path, title in re.findall(r'href="\./([^"]+)"[^>]*>([^<]+)<', line)}

    changed = {"state": "changed in the last 7 days"}
    now = presets(site)
    assert (now["last 7 days"], now["last 30 days"]) == ("snapshots/3.html", "compare/1~to~3.html")  # none is so old: the first
    assert "Nothing fits" not in text_of(site, "search.html", **changed)
    later = Site(site.model, 128, lambda: datetime(2026, 11, 28, tzinfo=timezone.utc))
    assert presets(later)["last 7 days (no change)"] == "compare/3~to~3.html"
    assert "Nothing differs" in text_of(later, "compare/3~to~3.html")
    assert "Nothing fits" in text_of(later, "search.html", **changed)
    assert presets(later, "2")["last 7 days before snapshot 2"] == "snapshots/2.html"
    write_site(site.model, str(tmp_path / "site"))
    assert "last 30 days before snapshot 3" in (tmp_path / "site/compare.html").read_text()
    assert "Changed in the last 7 days before snapshot 3" in (tmp_path / "site/index.html").read_text()
    assert (tmp_path / "site/compare/1~to~3.html").exists()


def test_the_last_changes_are_a_feed(site, server):
    answer = server.ask("/ui/changes.atom")
    assert answer.headers["content-type"] == "application/atom+xml; charset=utf-8"
    atom = "{http://www.w3.org/2005/Atom}"
    feed = fromstring(answer.body)
    entries = feed.findall(f"{atom}entry")
    titles = [one.findtext(f"{atom}title") for one in entries]
    assert titles == ["Snapshot 3: 2 breaking differences", "Snapshot 2", "Snapshot 1"]
    assert entries[0].find(f"{atom}link").get("href") == f"{server.url}/ui/snapshots/3.html"
    ids = [feed.findtext(f"{atom}id"), *(one.findtext(f"{atom}id") for one in entries)]
    assert len(set(ids)) == 4
    assert all(one.startswith("urn:uuid:") for one in ids)
    for path in ("changes.atom?breaking", "breaking.atom"):
        answer = server.ask(f"/ui/{path}")
        if "?" in path:  # it has its own address
            assert (answer.status, answer.headers["location"]) == (303, f"{server.url}/ui/breaking.atom")
            continue
        breaking = fromstring(answer.body)
        assert breaking.findtext(f"{atom}title") == "Breaking changes of the catalog"
        assert breaking.find(f"{atom}link").get("href") == f"{server.url}/ui/breaking.atom"
        assert [one.findtext(f"{atom}title") for one in breaking.findall(f"{atom}entry")] == titles[:1]


def test_a_line_of_curl_names_the_api(site):
    assert "curl 'http://x/reg-default/messagegroups/shop.orders.kafka/messages/shop.orders.OrderPlaced'" in text_of(site, KAFKA)


def test_a_snapshot_that_is_not_there_is_reported(site):
    with pytest.raises(SnapshotNotFound):
        site.page("index.html", {}, "http://x", "never")


def test_an_empty_warehouse_has_a_page(tmp_path):
    Shops(tmp_path / "w")
    with serving(tmp_path / "w", tmp_path / "rm") as running:
        answer = running.ask("/ui/")
        assert answer.status == 200
        assert b"The catalog is empty" in answer.body
        assert running.ask("/ui/assets/style.css").headers["content-type"] == "text/css; charset=utf-8"


@pytest.fixture(scope="module")
def shrunk(tmp_path_factory):
    """Serve a catalog of which a message and a group were deleted in snapshot 2."""
    folder = tmp_path_factory.mktemp("shrunk")
    catalog = Catalog(folder / "w")
    before = {"g": {"messages": {"m": {"description": "Once"}, "n": {}}}, "gone": {}}
    catalog.ingest({"file:/shop.json": ("default", {"messagegroups": before})}, label="full")
    catalog.ingest({"file:/shop.json": ("default", {"messagegroups": {"g": {"messages": {"n": {}}}}})}, by="ann")
    with serving(folder / "w", folder / "rm") as running:
        yield running


@pytest.mark.parametrize("path", ["g/m", "gone"])
def test_the_page_of_what_was_deleted_says_when_and_leads_to_its_last_state(shrunk, path):
    url = f"/ui/reg-default/messagegroups/{path}.html"
    answer = shrunk.ask(url)
    page = Page(answer.body.decode())
    assert answer.status == 404
    assert "It was deleted in snapshot 2, 2026-01-23 01:14 UTC, by ann. Until then it was held by shop.json." in page.text
    last = urljoin(shrunk.url + url, next(link for link in page.links if "/at/1/" in link))
    assert last == f"{shrunk.url}/at/1{url}"
    then = Page(shrunk.ask(last.removeprefix(shrunk.url)).body.decode())
    assert "The catalog as of snapshot 1, 2026-01-12 00:37 UTC full, not as it is now. To now" in then.text
    assert urljoin(last, next(link for link in then.links if link.endswith(f"/ui/reg-default/messagegroups/{path}.html"))) == (
        shrunk.url + url
    )
    changed = Page(shrunk.ask("/ui/snapshots/2.html").body.decode())
    assert last in [urljoin(f"{shrunk.url}/ui/snapshots/2.html", link) for link in changed.links]


def test_what_never_was_is_not_called_deleted(shrunk):
    answer = shrunk.ask("/ui/reg-default/messagegroups/g/never.html")
    assert answer.status == 404
    assert "There is no such page" in Page(answer.body.decode()).text


def test_the_page_of_what_comes_later_says_with_which_snapshot_and_leads_there(server):
    url = "/at/1/ui/reg-default/messagegroups/web.events/web.SearchMade.html"
    answer = server.ask(url)
    page = Page(answer.body.decode())
    assert answer.status == 404
    assert "web.SearchMade is not in the catalog yet: it comes with snapshot 2, 2026-01-23" in page.text
    first = urljoin(server.url + url, next(link for link in page.links if "/2/ui/" in link))
    assert first == server.url + url.replace("/at/1/", "/at/2/")
    assert server.ask(first.removeprefix(server.url)).status == 200


@pytest.mark.parametrize("path", ["compare/nope~to~3.html", "compare/0~to~3.json", "compare/nope~to~3.json", "snapshots/9.html"])
def test_an_address_that_names_no_snapshot_is_404_with_the_reason(server, path):
    answer = server.ask(f"/ui/{path}")
    assert (answer.status, answer.headers["content-type"]) == (404, "text/html; charset=utf-8")
    page = Page(answer.body.decode())
    assert "names no snapshot: " in page.text
    assert any(link.endswith("snapshots.html") for link in page.links)


def test_past_pages_compare_what_was_there(server):
    answer = server.ask("/at/1/ui/compare/1~to~3.html")
    assert answer.status == 404
    assert "'3' names no snapshot: these pages show the catalog as of snapshot 1" in Page(answer.body.decode()).text


def test_a_snapshot_that_is_not_there_has_a_page_whose_links_lead_to_the_newest(server):
    answer = server.ask("/at/nope/ui/map.html", **HTML)
    page = Page(answer.body.decode())
    assert (answer.status, answer.headers["content-type"]) == (404, "text/html; charset=utf-8")
    assert "nope" in page.text
    assert f"{server.url}/ui/index.html" in page.links
    assert all(link.startswith(f"{server.url}/ui/") for link in page.links if not link.startswith("#"))


def test_pages_say_that_the_catalog_is_being_loaded(folder):
    settings = opened(folder / "warehouse", folder / "readmodel").settings
    reads = ReadHandler(SnapshotWatcher(settings, Options()), settings, Options(), {})
    answer = reads.answer(ApiRequest(RequestTarget(None, None, (UI,), "", details=False), b"", "/ui/", "http://x"))
    assert answer.status == 503
    assert b'http-equiv="refresh"' in answer.body
    assert b'href="http://x/ui/assets/style.css"' in answer.body

    def asked(name: str) -> ApiAnswer:
        target = RequestTarget(None, None, (UI, *name.split("/")), "", details=False)
        return reads.answer(ApiRequest(target, b"", f"/ui/{name}", "http://x"))

    assert asked("assets/style.css").media_type == "text/css; charset=utf-8"
    with pytest.raises(ProblemFound):  # a reader of feeds takes no page for one
        asked("changes.atom")


@pytest.mark.parametrize(("path", "status"), [("/at/ui/", 404), ("/at/%00/ui/", 400), (f"/at/{'9' * 7000}/ui/x.html", 400)])
def test_an_error_of_an_address_of_pages_is_a_page_for_a_browser(server, path, status):
    answer = server.ask(path, **HTML)
    assert (answer.status, answer.headers["content-type"]) == (status, "text/html; charset=utf-8")
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")
    page = Page(answer.body.decode())
    assert page.faults == []
    assert f"{server.url}/ui/" in page.links
    assert server.ask(path).headers["content-type"].startswith("application/json")
    assert server.ask(path.replace("/ui/", "/ux/"), **HTML).headers["content-type"].startswith("application/json")
