"""A second run of the written site makes few pages, and gives the same files as a run into an empty folder."""

from __future__ import annotations

from copy import deepcopy
from random import Random
from typing import Any

import pytest
from matchresults import at, event, write_events
from sitecatalogs import Catalog, opened

from lakehouse.site import pagecontext, static, write_site
from lakehouse.site.overview import overview_of
from lakehouse.site.pages import contents, messages, search, snapshotpages

URI = "file:/catalog.json"
SCHEMAS = "/schemagroups/s/schemas"


def message(messageid: str, **attributes: Any) -> dict[str, Any]:
    return {"envelope": "CloudEvents/1.0", "envelopemetadata": {"type": {"value": messageid}}, **attributes}


def start() -> dict[str, Any]:
    """Return a catalog: bases, variants in other groups, schemas, endpoints, links in texts."""
    schema = {"type": "object", "properties": {"id": {"type": "string"}}}
    groups: dict[str, Any] = {}
    for group in ("base", "kafka", "http"):
        messages = {}
        for number in range(6):
            one = message(f"{group}.m{number}", description=f"See {SCHEMAS}/x{number % 3} and /messagegroups/base/messages/m1.")
            if group == "base" and number < 4:
                one |= {"dataschemaformat": "JSONSchema/draft-07", "dataschemauri": f"#{SCHEMAS}/x{number % 3}"}
            elif group != "base":
                one |= {"protocol": f"{group.upper()}", "basemessage": f"/messagegroups/base/messages/m{number // 2}"}
            messages[f"m{number}"] = one
        groups[group] = {"messages": messages}
    groups["aside"] = {"messages": {f"z{number}": message(f"z{number}") for number in range(6)}}  # that nothing else names
    endpoints = {
        name: {"usage": [usage], "messagegroups": [f"/messagegroups/{group}"]}
        for name, usage, group in (("in", "consumer", "kafka"), ("out", "producer", "http"))
    }
    schemas = {
        f"x{number}": {"versions": {"1": {"format": "JSONSchema/draft-07", "schema": deepcopy(schema)}}} for number in range(3)
    }
    return {"messagegroups": groups, "endpoints": endpoints, "schemagroups": {"s": {"schemas": schemas}}}


def edit(document: dict[str, Any], kind: str, random: Random) -> None:
    groups = document["messagegroups"]
    messages = groups[random.choice(sorted(groups))]["messages"]
    messageid = random.choice(sorted(messages))
    versions = document["schemagroups"]["s"]["schemas"][f"x{random.randrange(3)}"]["versions"]
    number = random.randrange(10**6)
    if kind == "text":
        messages[messageid]["description"] = f"Text {number}"
    elif kind == "attribute":
        groups["base"]["messages"]["m0"]["envelopemetadata"][f"a{number}"] = {"type": "string", "required": True}
    elif kind == "base":
        groups["http"]["messages"][f"m{random.randrange(3)}"]["basemessage"] = "/messagegroups/kafka/messages/m5"
    elif kind == "add":
        messages[f"n{number}"] = message(f"n{number}", basemessage="/messagegroups/base/messages/m1")
    elif kind == "delete":
        groups["http"]["messages"].pop(sorted(groups["http"]["messages"])[-1])
    elif kind == "schema":
        versions["1"]["schema"]["properties"][f"p{number}"] = {"type": "integer"}
    elif kind == "version":
        versions[str(1 + len(versions))] = deepcopy(versions["1"])
    elif kind == "owner":
        groups["kafka"]["labels"] = {"owner": f"team{number}"}
    elif kind == "endpoint":
        document["endpoints"]["in"]["usage"] = [random.choice(("subscriber", "producer"))]


KINDS = ("text", "attribute", "base", "add", "delete", "schema", "version", "owner", "endpoint")


def files_of(folder) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name != "site.json"
    }


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_a_second_run_gives_what_a_first_one_would(tmp_path, seed, monkeypatch):
    made: list[int | None] = []
    kept: list[set[str]] = []
    decide, keep = static.members_to_make, static.pages_to_keep

    def counting(*args: Any) -> Any:
        result = decide(*args)
        made.append(None if result is None else len(result))
        return result

    monkeypatch.setattr(static, "members_to_make", counting)
    monkeypatch.setattr(static, "pages_to_keep", lambda *args: kept.append(keep(*args)) or kept[-1])
    for module in (pagecontext, contents, snapshotpages):  # so that lists have several pages
        monkeypatch.setattr(module, "PER_PAGE", 4)
    monkeypatch.setattr(contents.page_paths, "__defaults__", (4,))
    random = Random(seed)
    document = start()
    catalog = Catalog(tmp_path / "warehouse")
    catalog.ingest({URI: ("default", document)})
    model = opened(tmp_path / "warehouse", tmp_path / "readmodel")
    write_site(model, str(tmp_path / "site"))
    for number, kind in enumerate(random.sample(KINDS, len(KINDS))):
        edit(document, kind, random)
        catalog.ingest({URI: ("default", deepcopy(document))})
        model.refresh()
        write_site(model, str(tmp_path / "site"))
        write_site(model, str(tmp_path / f"new{number}"))
        again, new = files_of(tmp_path / "site"), files_of(tmp_path / f"new{number}")
        assert again.keys() == new.keys(), kind
        assert [path for path in new if again[path] != new[path]] == [], kind
    assert made.count(None) == 2  # of an owner and an endpoint: all
    assert 0 < min(one for one in made if one is not None) < 15
    assert set() in kept  # something came, or went
    assert {path.partition("/")[0] for one in kept for path in one} == {"reg-default", "snapshots", "findings", "documents"}


def test_events_that_were_matched_meanwhile_are_on_the_pages_that_show_them(tmp_path, monkeypatch):
    """Never sent is said only where events are known, so the first ones concern all pages; later ones those of their messages."""
    wanted: list[Any] = []
    decide = static.members_to_make
    monkeypatch.setattr(static, "members_to_make", lambda *args: wanted.append(decide(*args)) or wanted[-1])
    warehouse, m0, m1 = tmp_path / "warehouse", "/messagegroups/kafka/messages/m0", "/messagegroups/kafka/messages/m1"
    Catalog(warehouse).ingest({URI: ("default", start())})
    model = opened(warehouse, tmp_path / "readmodel")

    def page(path: str) -> str:
        return (tmp_path / "site" / path).read_text()

    reasons = [{"pointer": "/envelopemetadata/time", "reason": "absent", "expected": None, "actual": None}]
    near = event(None, at(4), nearest_xid=m1, reasons=reasons)
    for number, events in enumerate(([], [event(m0, at(2))], [event(m1, at(3), "invalid"), near])):
        if events:
            write_events(warehouse, events)
        write_site(model, str(tmp_path / "site"))
        write_site(model, str(tmp_path / f"new{number}"))
        assert files_of(tmp_path / "site") == files_of(tmp_path / f"new{number}")
        if not events:
            assert "What was sent" not in page("index.html") + page("reg-default/messagegroups/kafka/m0.html")
    assert wanted == [None, {("default", m1)}]
    assert "1 event, the last 2026-03-02 00:00 UTC, 100% of the payloads" in page("reg-default/messagegroups/kafka/m0.html")
    assert "0% of the payloads" in page("reg-default/messagegroups/kafka/m1.html")
    assert "No event of it was seen." in page("reg-default/messagegroups/kafka/m2.html")
    assert "2 events, the last 2026-03-03 00:00 UTC, 50.0% of the payloads" in page("index.html")
    assert "Declared, never seen (10)" in page("index.html")  # of the two groups that endpoints name
    assert "66.7% of 3 events that landed match a definition." in page("index.html")
    assert "50.0% of the events that come nearest to its definition match." in page("reg-default/messagegroups/kafka/m1.html")
    of_endpoint = page("reg-default/endpoints/in.html")
    assert of_endpoint.count("never seen") == 4
    assert "2 events, the last 2026-03-03 00:00 UTC, 50.0% of the payloads that were checked are valid." in of_endpoint
    assert "66.7% of the events that come nearest to definitions of its messages match." in of_endpoint
    assert 'aria-label="Events a day from 2026-02-02 to 2026-03-03, at most 1"' in of_endpoint
    assert "comes nearest, and does not match" in of_endpoint
    assert "What was sent" not in page("reg-default/endpoints/out.html")


def test_what_a_template_of_an_endpoint_carries_was_not_to_be_seen(tmp_path):
    catalog, document = Catalog(tmp_path / "warehouse"), start()
    document["endpoints"]["out"] |= {"protocol": "HTTP", "protocoloptions": {"deployed": False}}
    catalog.ingest({URI: ("default", document)})
    write_events(tmp_path / "warehouse", [event("/messagegroups/kafka/messages/m0", at(2))])
    write_site(opened(tmp_path / "warehouse", tmp_path / "readmodel"), str(tmp_path / "site"))
    assert "Declared, never seen (5)" in (tmp_path / "site" / "index.html").read_text()


def test_nothing_new_makes_no_page_and_a_lost_file_makes_all(tmp_path, monkeypatch):
    catalog = Catalog(tmp_path / "warehouse")
    catalog.ingest({URI: ("default", start())})
    model = opened(tmp_path / "warehouse", tmp_path / "readmodel")
    first = write_site(model, str(tmp_path / "site"))
    paths: list[str] = []
    make = static.find_page
    monkeypatch.setattr(static, "find_page", lambda page_context, path: paths.append(path) or make(page_context, path))
    again = write_site(model, str(tmp_path / "site"))
    assert (again.pages, again.unchanged, again.written, paths) == (first.pages, first.pages, 0, [])
    (tmp_path / "site" / "reg-default" / "messagegroups" / "http" / "m1.html").unlink()
    assert write_site(model, str(tmp_path / "site")).written == 1
    assert len(paths) > 20
    paths.clear()
    write_site(model, str(tmp_path / "site"), base_url="https://example.com/")  # pages have other links then
    assert len(paths) > 20


def test_an_entity_is_looked_up_once_for_all_pages_of_a_message(tmp_path):
    catalog = Catalog(tmp_path / "warehouse")
    catalog.ingest({URI: ("default", start())})
    model = opened(tmp_path / "warehouse", tmp_path / "readmodel")
    with model.at() as view:
        page_context = pagecontext.PageContext(model, view, overview_of(view, ()))
        looked_up: list[str] = []
        view.db.set_trace_callback(looked_up.append)
        for path in contents.paths_of_member(page_context, "default", "/messagegroups/kafka/messages/m3"):
            assert contents.find_page(page_context, path)
        view.db.set_trace_callback(None)
    entities = [text for text in looked_up if "xid = '" in text and "content_hash" in text]
    assert len(entities) == len(set(entities)) > 3
    assert len([text for text in looked_up if not text.startswith("--")]) < 25


def test_a_row_of_attributes_is_made_once_for_all_messages_that_have_it_alike(tmp_path, monkeypatch):
    catalog = Catalog(tmp_path / "warehouse")
    catalog.ingest({URI: ("default", start())})
    model = opened(tmp_path / "warehouse", tmp_path / "readmodel")
    made: list[str] = []
    monkeypatch.setattr(messages, "render_part", lambda template, **row: made.append(row["row"].name) or row["row"].name)
    messages._row_shown.cache_clear()
    write_site(model, str(tmp_path / "site"))
    messages._row_shown.cache_clear()
    assert made.count("id") == 1  # what CloudEvents requires is the same everywhere
    assert made.count("type") >= 18  # each message has its own


def test_a_second_run_makes_what_shows_the_change_and_reads_all_texts_once(tmp_path, monkeypatch):
    """Two documents, lists of several pages, findings with and without an entity: one text of a message changes."""
    for module in (pagecontext, contents, snapshotpages):
        monkeypatch.setattr(module, "PER_PAGE", 2)
    monkeypatch.setattr(contents.page_paths, "__defaults__", (2,))
    document, other = start(), {"messagegroups": {"far": {"messages": {"f1": message("f1", protocol="nonsense/1")}}}}
    document["messagegroups"]["aside"]["messages"]["z0"]["unknown attribute!"] = 1
    catalog = Catalog(tmp_path / "warehouse")
    documents = {URI: ("default", document), "file:/other.json": ("default", other)}
    catalog.ingest(documents)
    model = opened(tmp_path / "warehouse", tmp_path / "readmodel")
    write_site(model, str(tmp_path / "site"))
    document["messagegroups"]["aside"]["messages"]["z3"]["description"] = "Another text"
    catalog.ingest(deepcopy(documents))
    model.refresh()
    paths: list[str] = []
    scans: list[int] = []
    make, read = static.find_page, static.find_mentions
    monkeypatch.setattr(static, "find_page", lambda page_context, path: paths.append(path) or make(page_context, path))
    monkeypatch.setattr(static, "find_mentions", lambda view, members: scans.append(len(members)) or read(view, members))
    write_site(model, str(tmp_path / "site"))
    write_site(model, str(tmp_path / "new"))
    assert files_of(tmp_path / "site") == files_of(tmp_path / "new")
    again = paths[: paths.index("index.html", paths.index("index.html") + 1)]
    assert scans == [1]
    group = "reg-default/messagegroups/aside"
    lists = [path for path in again if path.count("/") == 2 and path.endswith("html")]
    assert lists == [f"{group}.html", f"{group}~p2.html"]  # not its third page
    assert {path.split("~")[0].removesuffix(".html") for path in again if path.startswith(f"{group}/")} >= {f"{group}/z3"}
    assert not [path for path in again if path.startswith(f"{group}/z0")]
    assert not [path for path in again if path.startswith("findings/")]
    assert [path for path in paths if path.startswith("findings/")]
    assert len(paths) > 3 * len(again)


def test_the_index_of_a_search_reads_the_definitions_of_a_group_at_once(tmp_path):
    catalog = Catalog(tmp_path / "warehouse")
    document = start()
    catalog.ingest({URI: ("default", document)})
    model = opened(tmp_path / "warehouse", tmp_path / "readmodel")

    def index(at: int) -> tuple[bytes, int]:
        with model.at(at) as view:
            page_context = pagecontext.PageContext(model, view, overview_of(view, ()))
            search.traits_of(page_context)
            looked_up: list[str] = []
            view.db.set_trace_callback(looked_up.append)
            page = search.search_index(page_context)
            view.db.set_trace_callback(None)
        return page.body, len([text for text in looked_up if " FROM effective " in text])

    body, times = index(1)
    assert times == 4  # as many groups with messages
    document["messagegroups"]["base"]["messages"]["m0"]["description"] = "Another text"
    catalog.ingest({URI: ("default", document)})
    model.refresh()
    assert index(1)[0] == body  # whose definitions are computed now
    assert index(2)[0] != body


def test_a_document_page_counts_the_findings_and_groups_of_its_document(tmp_path):
    catalog = Catalog(tmp_path / "warehouse")
    other = {"messagegroups": {"far": {"messages": {"f1": message("f1", basemessage="/messagegroups/none/messages/m")}}}}
    catalog.ingest({URI: ("default", start()), "file:/other.json": ("default", other)})
    model = opened(tmp_path / "warehouse", tmp_path / "readmodel")
    with model.at() as view:
        overview = overview_of(view, ())
    assert overview.groups_by_document["default", "file:/other.json"] == ["/messagegroups/far"]
    assert len(overview.groups_by_document["default", URI]) == 7
    assert sum(map(len, overview.findings_by_document.values())) == len(overview.findings)
    assert all(one["document_uri"] == uri for (_, uri), every in overview.findings_by_document.items() for one in every)
