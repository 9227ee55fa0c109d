"""The xRegistry API over a real socket, in both dialects."""

from __future__ import annotations

import base64
import gzip
import json
import re
from urllib.parse import quote

import pytest

from serve.served import entities, serving, shop

ERRORS = "https://github.com/xregistry/spec/blob/main/core/spec.md#"
HTTP_ERRORS = "https://github.com/xregistry/spec/blob/main/core/http.md#"


@pytest.fixture(scope="module")
def rc4(catalog, tmp_path_factory):
    with serving(catalog.folder, tmp_path_factory.mktemp("rc4")) as served:
        yield served


@pytest.fixture(scope="module")
def rc2(catalog, tmp_path_factory):
    with serving(catalog.folder, tmp_path_factory.mktemp("rc2"), "--specification", "1.0-rc2") as served:
        yield served


@pytest.fixture(params=["rc4", "rc2"])
def served(request):
    return request.getfixturevalue(request.param)


def walk(served, path=""):
    """Follow collections from the root; give the `self` of each entity by XID, as it answers there."""
    found = {}

    def visit(entity):
        answer = served.ask(entity["self"].removeprefix(served.url))
        assert answer.status == 200, entity["self"]
        there = answer.json
        assert (there["self"], there["xid"]) == (entity["self"], entity["xid"])
        found[entity["xid"]] = there
        if "metaurl" in there:
            assert served.get(there["metaurl"].removeprefix(served.url))["xid"] == entity["xid"] + "/meta"
        for name in ("endpoints", "messagegroups", "schemagroups", "messages", "schemas", "versions"):
            if name + "url" in there:
                members = served.get(there[name + "url"].removeprefix(served.url))
                assert len(members) == there[name + "count"]
                for one in members.values():
                    visit(one)

    visit(served.get(path + "/"))
    return found


@pytest.mark.parametrize("path", ["", "/reg-shop%2Feu", "/at/2", "/at/1/reg-default"])
def test_the_walk_over_all_self_urls_finds_exactly_the_entities(served, catalog, path):
    reported = {"": shop("three"), "/at/2": shop("two"), "/at/1/reg-default": shop("one")}.get(path)
    if reported is None:
        expected = {xid for registryid, xid in catalog.held if registryid == "shop/eu"}
    else:
        expected = {xid for xid, _, _ in entities(reported)}
    if path == "":
        expected = {xid for xid in expected if not xid.startswith("/messagegroups/orders-2")}
    if path == "/at/1/reg-default":
        expected = {xid for xid in expected if "/shipped" not in xid}
    walked = set(walk(served, path))
    alias = {f"/messagegroups/orders/messages/alias/versions/{number}" for number in ("1", "2", "10")}
    assert walked - alias == expected
    assert alias <= walked or path == "/reg-shop%2Feu"


def test_a_message_shows_its_default_version(served):
    there = served.get("/messagegroups/orders/messages/many")
    assert (there["versionid"], there["name"], there["isdefault"], there["versionscount"]) == ("10", "tenth three", True, 3)
    assert there["ancestorid" if served.get("/")["specversion"] == "1.0-rc4" else "ancestor"] == "2"
    assert "meta" not in there
    assert "versions" not in there
    assert "deprecated" not in there
    meta = served.get("/messagegroups/orders/messages/many/meta")
    assert (meta["defaultversionid"], meta["defaultversionsticky"], meta["readonly"]) == ("10", False, True)
    assert list(served.get("/messagegroups/orders/messages/many/versions")) == ["1", "2", "10"]


def test_an_alias_shows_what_it_stands_for_under_its_own_ids(served):
    there = served.get("/messagegroups/orders/messages/alias?inline=meta,versions")
    assert (there["messageid"], there["name"], there["versionscount"]) == ("alias", "tenth three", 3)
    assert there["meta"]["xref"] == "/messagegroups/orders/messages/many"
    assert there["versions"]["2"]["xid"] == "/messagegroups/orders/messages/alias/versions/2"
    text = json.dumps(there).replace(there["meta"]["xref"], "")
    assert "/messages/many" not in text


def test_an_alias_of_nothing_shows_only_itself(served):
    there = served.get("/messagegroups/orders/messages/nowhere?inline=meta")
    assert {"messageid", "self", "xid", "metaurl", "meta"} == set(there)
    assert served.get("/messagegroups/orders/messages/nowhere/versions") == {}


def test_a_schema_is_its_document_with_metadata_in_headers(served):
    is_rc4 = served.get("/")["specversion"] == "1.0-rc4"
    answer = served.ask("/schemagroups/s/schemas/json")
    assert (answer.status, answer.body, answer.headers["content-type"]) == (200, b'{"title":"three"}', "application/json")
    assert answer.headers["xregistry-versionid"] == "2"
    assert answer.headers["xregistry-xid"] == "/schemagroups/s/schemas/json"
    assert answer.headers["xregistry-labels.c" if is_rc4 else "xregistry-labels-c"] == "1%202"
    assert answer.headers["content-disposition"] == "attachment; filename*=UTF-8''json"
    assert answer.headers["content-location"] == served.url + "/schemagroups/s/schemas/json/versions/2"
    assert not any("details" in value for value in answer.headers.values())
    old = served.ask("/schemagroups/s/schemas/json/versions/1")
    assert (old.body, old.headers["xregistry-isdefault"]) == (b'{"title":"one"}', "false")
    details = served.get("/schemagroups/s/schemas/json$details")
    assert details["self"].endswith("/schemagroups/s/schemas/json$details")
    assert "schema" not in details


def test_documents_of_other_kinds(served):
    proto = served.ask("/schemagroups/s/schemas/proto")
    assert (proto.body.decode(), proto.headers["content-type"]) == ('syntax = "proto3"; // ä', "text/plain; charset=utf-8")
    picture = served.ask("/schemagroups/s/schemas/bytes")
    assert (picture.body, picture.headers["content-type"]) == (b"\x89PNG", "image/png")
    far = served.ask("/schemagroups/s/schemas/far")
    assert (far.status, far.headers["location"]) == (303, "https://example.com/%C3%A4%20b")
    assert served.get("/schemagroups/s/schemas/far$details")["schemaurl"] == "https://example.com/ä b"
    assert served.ask("/schemagroups/s/schemas/nothing").body == b""


def test_documents_are_inlined_when_asked_for(served):
    there = served.get("/schemagroups/s/schemas?inline=schema,versions.schema")
    assert there["json"]["schema"] == {"title": "three"}
    assert there["json"]["versions"]["1"]["schema"] == {"title": "one"}
    assert base64.b64decode(there["bytes"]["schemabase64"]) == b"\x89PNG"
    coded = served.get("/schemagroups/s/schemas/json$details?inline=schema&binary")["schemabase64"]
    assert base64.b64decode(coded) == b'{"title":"three"}'


def test_inline_takes_what_is_named_and_its_parents(served):
    there = served.get("/?inline=messagegroups.messages.meta,model")
    assert {"endpoints", "schemagroups"}.isdisjoint(there)
    assert there["model"]["groups"]["schemagroups"]["resources"]["schemas"]["hasdocument"] is True
    placed = there["messagegroups"]["orders"]["messages"]["placed"]
    assert placed["meta"]["defaultversionid"] == "1"
    assert "versions" not in placed
    everything = served.get("/?inline=*")
    assert everything["endpoints"]["e"]["messages"]["own"]["versions"]["1"]["name"] == "own"
    assert {"model", "capabilities", "modelsource"}.isdisjoint(everything)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/messagegroups/orders/messages?filter=name=PLACED", ["placed"]),
        ("/messagegroups/orders/messages?filter=name=*ed", ["placed", "shipped"]),
        ("/messagegroups/orders/messages?filter=name=100%25\\*%20off*", ["Cancelled"]),
        ("/messagegroups/orders/messages?filter=labels.team=sales", ["placed"]),
        ("/messagegroups/orders/messages?filter=labels.team", ["placed", "shipped"]),
        ("/messagegroups/orders/messages?filter=labels.*=logistics", ["shipped"]),
        ("/messagegroups/orders/messages?filter=labels.team=null,name!=q", ["Cancelled", "alias", "many", "nowhere", "x:y@z~1"]),
        ("/messagegroups/orders/messages?filter=weight>=12,weight<12.5", ["shipped"]),
        ("/messagegroups/orders/messages?filter=name=Placed&filter=name=shipped", ["placed", "shipped"]),
        ("/messagegroups/orders/messages?filter=nothing.at.all=5", []),
        ("/messagegroups/orders/messages?filter=versions.name=first", ["alias", "many"]),
        ("/messagegroups/orders/messages?filter=versions.name=first,versions.versionid=2", []),
        ("/messagegroups/orders/messages?filter=meta.xref", ["alias", "nowhere"]),
        ("/messagegroups?filter=messages.name=q", ["mqtt"]),
        ("/messagegroups?filter=labels['stage']=prod", ["orders"]),
        ("/messagegroups/orders/messages/many/versions?filter=versionid>=10", ["10", "2"]),
        ("/messagegroups?filter=excludeall", []),
    ],
)
def test_filter_prunes_a_collection(served, path, expected):
    assert sorted(served.get(path)) == sorted(expected)


def test_filter_prunes_counts_and_leads_on(served):
    there = served.get("/?filter=messagegroups.messages.labels.team=sales&inline=messagegroups")
    assert (there["messagegroupscount"], there["endpointscount"]) == (1, 0)
    orders = there["messagegroups"]["orders"]
    assert orders["messagescount"] == 1
    assert list(served.get(orders["messagesurl"].removeprefix(served.url))) == ["placed"]
    assert served.get(there["endpointsurl"].removeprefix(served.url)) == {}
    assert list(served.get(there["messagegroupsurl"].removeprefix(served.url))) == ["orders"]


def test_filter_of_an_entity_that_does_not_match_is_not_found(served):
    assert served.ask("/?filter=name=no-match").status == 404
    assert served.ask("/?filter=name=Shop%20three").status == 200
    assert served.ask("/schemagroups/s/schemas/json?filter=format=other").status == 404


def test_sort(served):
    assert next(iter(served.get("/messagegroups/orders/messages?sort=name=desc"))) == "many"
    by_team = list(served.get("/messagegroups/orders/messages?sort=labels.team"))
    assert by_team[-2:] == ["shipped", "placed"]
    assert list(served.get("/messagegroups?sort=messagegroupid=desc")) == ["orders", "mqtt", "empty", "draft"]


def test_pages_stay_on_one_snapshot(served):
    everything = served.get("/messagegroups/orders/messages")
    collected, path, pages = {}, "/messagegroups/orders/messages?limit=3", 0
    while path:
        answer = served.ask(path)
        assert len(answer.json) <= 3
        collected |= answer.json
        pages += 1
        links = dict(reversed(one.rsplit(";count=", 1)[0].split(">;rel=")) for one in answer.headers["link"].split(", <"))
        path = links.get("next", "").removeprefix("<").removeprefix(served.url)
    assert (collected, pages) == (everything, 3)
    assert list(collected) == list(everything)
    assert f"count={len(everything)}" in answer.headers["link"]
    assert served.ask("/messagegroups/orders/messages?limit=3&page=bm9uZQ").status == 400


def test_the_document_view_has_no_copies_and_refers_into_itself(served):
    there = served.get("/messagegroups/orders?doc&inline=messages")
    assert there["self"] == "#/"
    assert there["messagesurl"] == "#/messages"
    odd = there["messages"]["x:y@z~1"]
    assert odd["self"] == "#/messages/x:y@z~01"
    assert odd["versionsurl"] == served.url + "/messagegroups/orders/messages/x:y@z~1/versions"
    assert "name" not in odd
    alias = served.ask("/messagegroups/orders/messages/alias/versions?doc")
    assert (alias.status, alias.json["type"]) == (400, ERRORS + "cannot_doc_xref")


def test_export_is_the_document_view_of_everything(served):
    is_rc4 = served.get("/")["specversion"] == "1.0-rc4"
    there = served.get("/export")
    added = {"capabilities", "modelsource"} if is_rc4 else {"capabilities", "model"}
    assert added == {"capabilities", "model", "modelsource"} & set(there)
    assert "http://127.0.0.1" not in json.dumps({k: v for k, v in there.items() if k not in added})
    many = there["messagegroups"]["orders"]["messages"]["many"]
    assert many["meta"]["defaultversionurl"] == "#/messagegroups/orders/messages/many/versions/10"
    assert set(many) == {"messageid", "self", "xid", "metaurl", "meta", "versionsurl", "versionscount", "versions"}
    alias = there["messagegroups"]["orders"]["messages"]["alias"]
    assert "versions" not in alias
    assert there["schemagroups"]["s"]["schemas"]["json"]["versions"]["1"]["schema"] == {"title": "one"}
    big = there["messagegroups"]["orders"]["messages"]["shipped"]["versions"]["1"]["big"]
    assert big == 123456789012345678901234567890


def test_collections_leave_the_entity_out(served):
    assert set(served.get("/?collections")) == {"endpoints", "messagegroups", "schemagroups"}
    assert set(served.get("/messagegroups/orders?collections")) == {"messages"}
    for path in ("/messagegroups", "/messagegroups/orders/messages/placed"):
        assert served.ask(path + "?collections").json["type"] == ERRORS + "bad_flag"


@pytest.mark.parametrize(
    ("path", "status", "rc4_type", "rc2_name"),
    [
        ("/unknown", 404, HTTP_ERRORS + "api_not_found", "api_not_found"),
        ("/messagegroups/orders/schemas", 404, HTTP_ERRORS + "api_not_found", "api_not_found"),
        ("/messagegroups/orders/messages/placed/other", 404, HTTP_ERRORS + "api_not_found", "api_not_found"),
        ("/messagegroups/Orders", 404, ERRORS + "not_found", "not_found"),
        ("/messagegroups/orders/messages/none/meta", 404, ERRORS + "not_found", "not_found"),
        ("/messagegroups/orders%2Fmessages%2Fplaced", 404, ERRORS + "not_found", "not_found"),
        ("/reg-none/", 404, ERRORS + "not_found", "not_found"),
        ("/at/99/", 404, ERRORS + "not_found", "not_found"),
        ("/at/never/", 404, ERRORS + "not_found", "not_found"),
        ("/messagegroups$details", 400, ERRORS + "bad_details", "bad_details"),
        ("/messagegroups/a%00b", 400, ERRORS + "malformed_id", "malformed_id"),
        ("/at/a%0Ab/", 400, ERRORS + "malformed_id", "malformed_id"),
        ("/messagegroups/%FF", 400, ERRORS + "bad_request", "bad_request"),
        ("/messagegroups/" + "a" * 5000, 400, ERRORS + "malformed_id", "malformed_id"),
        ("/?inline=nothing", 400, ERRORS + "bad_inline", "invalid_data"),
        ("/?inline=*.messages", 400, ERRORS + "bad_inline", "invalid_data"),
        ("/?filter==5", 400, ERRORS + "bad_filter", "invalid_data"),
        ("/messagegroups?filter=name<null", 400, ERRORS + "bad_filter", "invalid_data"),
        ("/messagegroups?filter=messages", 400, ERRORS + "bad_filter", "invalid_data"),
        ("/messagegroups?sort=name=up", 400, ERRORS + "bad_sort", "invalid_data"),
        ("/messagegroups/orders?sort=name", 400, ERRORS + "sort_noncollection", "invalid_data"),
        ("/messagegroups?limit=0", 400, ERRORS + "bad_request", "bad_request"),
        ("/messagegroups?filter=a%00", 400, ERRORS + "bad_request", "bad_request"),
        ("/?specversion=0.5", 400, ERRORS + "unsupported_specversion", "unsupported_specversion"),
    ],
)
def test_errors_are_reported_as_the_dialect_says(rc4, rc2, path, status, rc4_type, rc2_name):
    answer = rc4.ask(path)
    assert (answer.status, answer.json["type"]) == (status, rc4_type)
    assert answer.json["title"].endswith(".")
    assert not re.search("<[a-z_]+>", answer.json["title"])
    assert answer.headers["content-type"] == "application/json; charset=utf-8"
    older = rc2.ask(path)
    assert (older.status, older.json["type"]) == (status, ERRORS + rc2_name)
    assert older.json["instance"].startswith(rc2.url)


@pytest.mark.parametrize("method", ["PUT", "POST", "PATCH", "DELETE"])
def test_writes_are_not_supported(rc4, rc2, method):
    answer = rc4.ask("/messagegroups/orders", method)
    assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD, OPTIONS")
    assert answer.json["args"] == {"action": method}
    assert answer.json["type"] == ERRORS + "action_not_supported"
    assert rc2.ask("/", method).json["type"] == ERRORS + "method_not_allowed"


def test_a_url_that_is_too_long(served):
    assert served.ask("/messagegroups?filter=name=" + "a" * 20_000).status == 414
    assert served.ask("/" + "a" * 100_000).status == 431


def test_head_has_the_headers_of_get(served):
    for path in ("/", "/export", "/messagegroups/orders/messages?limit=2", "/schemagroups/s/schemas/json", "/unknown"):
        whole, head = served.ask(path), served.ask(path, "HEAD")
        assert head.body == b""
        assert (head.status, head.headers | {"date": ""}) == (whole.status, whole.headers | {"date": ""})


def test_options_and_cors(served):
    answer = served.ask(
        "/messagegroups", "OPTIONS", Origin="https://ui.example", Access_Control_Request_Headers="authorization,x-a"
    )
    assert (answer.status, answer.headers["allow"]) == (200, "GET, HEAD, OPTIONS")
    assert answer.headers["access-control-allow-methods"] == answer.headers["allow"]
    assert answer.headers["access-control-allow-headers"] == "authorization,x-a"
    for path in ("/", "/unknown", "/openapi.json"):
        assert "access-control-allow-origin" not in served.ask(path, Origin="https://ui.example").headers


def test_what_a_client_holds_is_not_sent_again(served):
    for path in ("/", "/messagegroups/orders/messages", "/at/2/export", "/schemagroups/s/schemas/json"):
        first = served.ask(path)
        again = served.ask(path, If_None_Match=first.headers["etag"])
        assert (again.status, again.body) == (304, b"")
        assert again.headers["etag"] == first.headers["etag"]
        assert served.ask(path, If_None_Match='"other"').status == 200
        assert served.ask(path, If_None_Match="*").status == 304


def test_answers_are_compressed_for_those_who_take_it(served):
    plain, packed = served.ask("/export"), served.ask("/export", Accept_Encoding="br, gzip;q=0.5")
    assert packed.headers["content-encoding"] == "gzip"
    assert gzip.decompress(packed.body) == plain.body
    assert packed.headers["etag"] != plain.headers["etag"]
    assert served.ask("/export", If_None_Match=packed.headers["etag"]).status == 304
    assert "content-encoding" not in served.ask("/export", Accept_Encoding="gzip;q=0").headers


def test_the_past_never_changes_and_names_lead_to_numbers(served):
    answer = served.ask("/at/2/messagegroups/orders-2/messages/placed")
    assert answer.json["self"] == served.url + "/at/2/messagegroups/orders-2/messages/placed"
    assert "immutable" in answer.headers["cache-control"]
    assert answer.headers["lakehouse-snapshot"] == "2"
    assert served.ask("/messagegroups/orders-2").status == 404
    for name, number in (("first", 1), ("head", 3), ("2026-01-01", 3), ("2026-01-01T00:02:30Z", 2)):
        led = served.ask(f"/at/{quote(name)}/reg-shop%2Feu/messagegroups?limit=5")
        assert (led.status, led.headers["cache-control"]) == (307, "no-cache")
        assert led.headers["location"] == f"{served.url}/at/{number}/reg-shop%2Feu/messagegroups?limit=5"


def test_capabilities_report_that_nothing_is_mutable(rc4, rc2):
    reported = rc4.get("/capabilities")
    assert set(reported) == {
        "available", "compatibilities", "flags", "formats", "ignores", "pagination", "shortself", "specversions", "versionmodes",
    }  # fmt: skip
    assert {one["mutable"] for one in reported["available"].values()} == {False}
    assert "backward_transitive" in reported["compatibilities"]["Avro/*"]
    offered = rc4.get("/capabilitiesoffered")
    assert set(offered) == set(reported)
    assert {name: one["enum"] for name, one in offered["compatibilities"]["attributes"].items()} == reported["compatibilities"]
    assert {name: one["attributes"] for name, one in offered["available"]["attributes"].items()} == {
        name: {"mutable": {"type": "boolean", "enum": [False]}} for name in reported["available"]
    }
    older = rc2.get("/capabilities")
    assert older["mutable"] == []
    assert rc2.get("/capabilities?offered")["flags"]["enum"] == older["flags"]
    assert rc4.get("/capabilities?specversion=1.0-RC2") == older | {"specversions": ["1.0-rc4", "1.0-rc2"]}


def test_the_model_holds_what_is_served(served):
    model = served.get("/model")
    resources = {name: group["resources"] for name, group in model["groups"].items()}
    assert resources["messagegroups"]["messages"]["maxversions"] == 0
    everything = served.get("/?inline=*")
    known = resources["messagegroups"]["messages"]["attributes"]
    for message in everything["messagegroups"]["orders"]["messages"].values():
        for version in message.get("versions", {}).values():
            assert set(version) - set(known) <= {"weight", "big", "deprecated"}
    assert set(everything) - set(model["attributes"]) == set()
    assert "resources" in served.get("/modelsource")["groups"]["messagegroups"]


def test_the_host_that_is_asked_stands_in_urls(served):
    assert served.ask("/", Host="localhost:81").json["self"] == "http://localhost:81/"
    assert served.ask("/", Host='a"b').status == 400
    assert served.ask("/", X_Forwarded_Host="evil.example").json["self"] == served.url + "/"


def test_health_readiness_and_figures(served):
    assert served.get("/health") == {"status": "ok"}
    assert served.get("/ready") == {"status": "ready", "snapshot": 3}
    text = served.ask("/metrics").body.decode()
    assert 'lakehouse_http_requests_total{method="GET",status="200"}' in text
    assert "lakehouse_snapshot 3.0" in text
