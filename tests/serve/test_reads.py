"""What flags do to answers, and what the model says: the places where 1.0-rc4 leaves no choice."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from lakehouse.serve.answer.queryparameters import _rank
from serve.served import Shops, message, schema_groups, serving, shop

ORDERS = "/messagegroups/orders/messages"
# core/spec.md, "Data Types" and "Attributes"; core/model.md, `namecharset`
NAMES = {"strict": r"[a-z_][a-z0-9_]{0,62}", "extended": r"[a-z0-9][a-z0-9_.:\-]{0,62}"}
KINDS: dict[str, Any] = {
    **dict.fromkeys(("string", "timestamp", "url", "uri", "xid"), str),
    **{"uinteger": int, "boolean": bool, "map": dict, "object": dict, "array": list, "any": object},
}


def refused(served, path):
    answer = served.ask(path)
    return answer.status, answer.json["type"].rsplit("#")[-1]


@pytest.fixture(scope="module")
def older(catalog, tmp_path_factory):
    with serving(catalog.folder, tmp_path_factory.mktemp("model"), "--specification", "1.0-rc2") as found:
        yield found


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/messagegroups?filter=messagescount=7", ["orders"]),
        ("/messagegroups?filter=messagescount>1", ["draft", "orders"]),
        ("/messagegroups?filter=messagescount", ["draft", "empty", "mqtt", "orders"]),
        ("/messagegroups?filter=messagescount=0", ["empty"]),
        ("/messagegroups?filter=*=7", ["orders"]),
        ("/messagegroups?filter=messagesurl=*orders/messages", ["orders"]),
        ("/schemagroups?filter=schemascount=5", ["s"]),
        ("/endpoints?filter=messagescount=1", ["e"]),
        ("/messagegroups?filter=messages.versionscount=3", ["draft", "orders"]),
        (f"{ORDERS}?filter=versionscount=3", ["alias", "many"]),
        ("/messagegroups?sort=messagescount", ["empty", "mqtt", "draft", "orders"]),
        ("/messagegroups?sort=messagescount=desc&limit=2", ["orders", "draft"]),
        ("/messagegroups?filter=messages.name=*ed&sort=messagescount=desc", ["orders"]),
    ],
)
def test_counts_and_urls_of_collections_are_filtered_and_sorted_by(served, path, expected):
    found = list(served.get(path))
    assert (found if "sort" in path else sorted(found)) == expected


def test_numbers_of_any_size_are_sorted_by():
    values = [10**400, 2.5, 2**53 + 1, True, 2**53, "b", "A", -1, 1e300]
    assert sorted(values, key=_rank) == [True, -1, 2.5, 2**53, 2**53 + 1, 1e300, 10**400, "A", "b"]


def test_counts_of_the_registry_and_of_a_group_are_asked(served):
    counted = served.get("/")["messagegroupscount"]
    assert served.get(f"/?filter=messagegroupscount={counted}")["messagegroupscount"] == counted
    assert refused(served, f"/?filter=messagegroupscount={counted + 1}") == (404, "not_found")
    assert served.get("/messagegroups/orders?filter=messagescount=7")["messagescount"] == 7
    assert refused(served, "/messagegroups/orders?filter=messagescount=6") == (404, "not_found")


@pytest.mark.parametrize("value", ["ja%5C,%20gerne", "ja%5C,*", "*%5C,%20g*,messagegroups.labels.stage=prod"])
def test_a_comma_in_a_filter_stays_one_in_the_urls_of_collections(served, value):
    found = served.get(f"/?filter=messagegroups.labels.K%C3%A4se={value}")
    assert found["messagegroupscount"] == 1
    assert list(served.get(found["messagegroupsurl"].removeprefix(served.url))) == ["orders"]


def test_urls_are_filtered_as_clients_see_them(served):
    for path in ("/messagegroups/mqtt", f"{ORDERS}/placed", f"{ORDERS}/many/versions/2"):
        url = served.get(path)["self"]
        collection, _, name = path.rpartition("/")
        assert list(served.get(f"{collection}?filter=self={url}")) == [name]
        assert served.get(f"{collection}?filter=self!={url}").keys().isdisjoint([name])


def test_excludeall_stands_alone(served):
    """core/spec.md, "Filter Flag": nothing of a collection, no entity, and no other expression with it."""
    assert served.get("/messagegroups?filter=excludeall") == {}
    assert refused(served, "/messagegroups/orders?filter=excludeall") == (404, "not_found")
    for query in ("excludeall,name=x", "name=x,excludeall", "excludeall&filter=name=x", "name=x&filter=excludeall"):
        assert refused(served, f"/messagegroups?filter={query}") == (400, "bad_filter")
    assert served.get("/messagegroups?filter=name=excludeall") == {}


def test_inline_overrides_what_an_export_inlines(served):
    added = {"capabilities", "model", "modelsource", "messagegroups", "endpoints", "schemagroups"}
    for wanted in (["messagegroups"], ["model"], ["endpoints", "capabilities"]):
        there = served.get(f"/export?inline={','.join(wanted)}")
        assert added & set(there) == set(wanted)
        assert there["self"] == "#/"
    group = served.get("/export?inline=messagegroups")["messagegroups"]["orders"]
    assert "messages" not in group
    assert group["messagesurl"] == served.url + ORDERS
    assert added & set(served.get("/export")) > {"messagegroups", "endpoints", "schemagroups"}
    assert set(served.get("/export?collections")) == {"messagegroups", "endpoints", "schemagroups"}
    assert set(served.get("/?collections&inline=model")) == {"messagegroups", "endpoints", "schemagroups"}


def references(value: Any) -> list[str]:
    """Find the references into a document."""
    if isinstance(value, dict):
        own = [one for key, one in value.items() if key.endswith(("url", "self")) and isinstance(one, str) and one[:1] == "#"]
        return own + [one for inner in value.values() for one in references(inner)]
    return []


def at(document: Any, reference: str) -> Any:
    """Follow a reference; KeyError: it leads nowhere."""
    for token in filter(None, reference.removeprefix("#").split("/")):
        document = document[token.replace("~1", "/").replace("~0", "~")]
    return document


@pytest.mark.parametrize(
    "path",
    [
        "/export",
        "/?doc&inline=*",
        "/?doc&inline=*&filter=messagegroups.messages.versions.versionid=1",
        "/?doc&inline=*&filter=schemagroups.schemas.versions.versionid=1",
        "/?doc&inline=*&filter=messagegroups.messages.name=nothing-is-named-so",
        "/?doc&inline=messagegroups.messages&filter=messagegroups.messages.labels.team=sales",
        "/messagegroups?doc&inline=*&filter=messages.versions.name=first",
        f"{ORDERS}?doc&inline=*&filter=versions.versionid=2",
        f"{ORDERS}/many?doc&inline=*&filter=versions.versionid=1",
        "/schemagroups/s?doc&inline=schemas.meta,schemas.versions&filter=schemas.versions.versionid=1",
    ],
)
def test_references_of_the_document_view_lead_to_what_is_in_the_answer(served, older, path):
    for server in (served, older):
        there = server.get(path)
        found = references(there)
        assert found or there == {}
        for reference in found:
            assert isinstance(at(there, reference), dict), reference


def test_what_is_not_in_the_document_has_its_own_url(served, older):
    """A default Version that a filter left out, and one that is not inlined: of a document, the URL is that of its metadata."""
    meta = served.get(f"{ORDERS}?doc&inline=meta,versions&filter=versions.versionid=2")["many"]["meta"]
    assert meta["defaultversionurl"] == f"{served.url}{ORDERS}/many/versions/10"
    assert served.get(meta["defaultversionurl"].removeprefix(served.url))["versionid"] == "10"
    schema = "/schemagroups/s/schemas/json"
    for server, details in ((served, "$details"), (older, "")):
        for path in (f"{schema}$details?doc&inline=meta", f"{schema}/meta?doc"):
            there = server.get(path)
            assert there.get("meta", there)["defaultversionurl"] == f"{server.url}{schema}/versions/2{details}"
        assert server.get(f"{schema}/meta")["defaultversionurl"] == f"{server.url}{schema}/versions/2{details}"


def test_readonly_is_in_the_document_view_and_an_alias_keeps_that_of_its_target_out(served, older):
    """core/spec.md, "Doc Flag": `readonly` is a Boolean that is always there, but for aliases."""
    for server in (served, older):
        members = server.get("/export")["messagegroups"]["orders"]["messages"]
        assert members["many"]["meta"]["readonly"] is False
        assert {"readonly", "defaultversionid", "defaultversionurl"}.isdisjoint(members["alias"]["meta"])
        assert {"readonly", "defaultversionid", "defaultversionurl"}.isdisjoint(members["nowhere"]["meta"])
        assert server.get(f"{ORDERS}/many/meta?doc")["readonly"] is False


def problems(value: Any, described: dict[str, Any], charset: str, here: str) -> list[str]:
    """Hold attributes of an entity or object to their model, as a server does that takes them."""
    found = [f"{here}: no {name}" for name, one in described.items() if one.get("required") and name not in value]
    for name, one in value.items():
        reported = described.get(name, described.get("*"))
        if reported is None:
            found.append(f"{here}/{name}: unknown")
        else:
            if not re.fullmatch(NAMES[charset], name):
                found.append(f"{here}/{name}: not {charset}")
            found += mismatches(one, reported, f"{here}/{name}")
    return found


def mismatches(value: Any, reported: dict[str, Any], here: str) -> list[str]:
    if not isinstance(value, KINDS[reported["type"]]) or (reported["type"] == "xid" and not value.startswith("/")):
        return [f"{here}: no {reported['type']}"]
    if reported["type"] == "object":
        return problems(value, reported["attributes"], reported.get("namecharset", "strict"), here)
    inner = list(value.items()) if reported["type"] == "map" else list(enumerate(value)) if reported["type"] == "array" else []
    return [problem for key, one in inner for problem in mismatches(one, reported["item"], f"{here}/{key}")]


def test_another_server_takes_what_is_exported_with_our_modelsource(tmp_path):
    """Every attribute that is not one of all registries is in `/modelsource`, by a name and with a type that it admits."""
    reported = shop("one")
    reported["extra"] = {"Any Name": [1]}
    reported["endpoints"]["e"] |= {"protocol": "AMQP/1.0", "protocoloptions": {"options": {"link-properties": {"X-Y": "z"}}}}
    reported["messagegroups"] = {
        "amqp": {
            "protocol": "AMQP/1.0",
            "messages": {
                "m": message(
                    "m",
                    protocol="AMQP/1.0",
                    basemessage="https://registry.example/messagegroups/g/messages/b",
                    protocoloptions={"properties": {"message-id": {"value": "x"}}, "message-annotations": {"x-opt-a": {}}},
                )
                | {"authority": "https://shop.example", "odd": 1}
            },
        }
    }
    reported["schemagroups"] = schema_groups("one")
    written = Shops(tmp_path / "w")
    written.load({"default": reported})
    with serving(written.folder, tmp_path / "model") as served:
        exported, source, model = served.get("/export"), served.get("/modelsource"), served.get("/model")
    assert exported["modelsource"] == source
    found = problems(own(exported, model["attributes"], source["attributes"]), source["attributes"], "strict", "")
    for collection, group_model in source["groups"].items():
        whole = model["groups"][collection]
        for groupid, group in exported[collection].items():
            here = f"/{collection}/{groupid}"
            shown = own(group, whole["attributes"], group_model["attributes"])
            found += problems(shown, group_model["attributes"], "strict", here)
            for members, resource_model in group_model["resources"].items():
                for memberid, member in group[members].items():
                    found += of_resource(member, resource_model, whole["resources"][members], f"{here}/{members}/{memberid}")
    assert found == []
    amqp = exported["messagegroups"]["amqp"]["messages"]["m"]["versions"]["1"]["protocoloptions"]
    assert any("-" in name for name in [*amqp, *amqp["properties"]])


def own(entity: dict[str, Any], whole: dict[str, Any], ours: dict[str, Any]) -> dict[str, Any]:
    """Return what an entity has beyond what all registries know of it."""
    return {name: value for name, value in entity.items() if name in ours or name not in whole}


def of_resource(member: dict[str, Any], ours: dict[str, Any], whole: dict[str, Any], here: str) -> list[str]:
    found = problems(own(member["meta"], whole["metaattributes"], ours["metaattributes"]), ours["metaattributes"], "strict", here)
    for versionid, version in member.get("versions", {}).items():
        shown = own(version, whole["attributes"], ours["attributes"])
        found += problems(shown, ours["attributes"], "strict", f"{here}/versions/{versionid}")
    return found


def test_the_model_says_what_the_specification_says(served, older):
    """core/spec.md: `deprecated`, `compatibility`, `constraints` (1.0-rc4 alone); 002: `usage`."""
    parts = {"effective": "timestamp", "removal": "timestamp", "alternative": "url", "documentation": "url", "*": "any"}
    for server in (served, older):
        for path in ("/model", "/modelsource"):
            usage = server.get(path)["groups"]["endpoints"]["attributes"]["usage"]
            assert usage == {"name": "usage", "type": "array", "item": {"type": "string"}, "required": True}
        for name, group in server.get("/model")["groups"].items():
            meta = next(iter(group["resources"].values()))["metaattributes"]
            for deprecated in (group["attributes"]["deprecated"], meta["deprecated"]):
                assert {part: reported["type"] for part, reported in deprecated["attributes"].items()} == parts, name
            assert meta["compatibility"]["enum"][:2] == ["backward", "backward_transitive"]
            assert len(meta["compatibility"]["enum"]) == 6
            assert ("constraints" in group["attributes"]) == (server is served)
    constraints = served.get("/model")["groups"]["schemagroups"]["attributes"]["constraints"]
    assert (constraints["type"], set(constraints["item"]["attributes"])) == ("map", {"default", "enum", "equals"})


def test_whoever_names_an_attribute_of_the_model_names_it_as_its_key(served):
    def walk(value: Any) -> None:
        if isinstance(value, dict):
            for key, reported in value.get("attributes", {}).items() if isinstance(value.get("attributes"), dict) else ():
                if isinstance(reported, dict) and "type" in reported:
                    assert reported["name"] == key, json.dumps(value)[:300]
            for one in value.values():
                walk(one)

    walk(served.get("/model"))
    walk(served.get("/modelsource"))


def test_links_to_pages_repeat_what_the_server_knows_and_nothing_else(served):
    answer = served.ask("/messagegroups?limit=1&unknown=" + "x" * 5000 + "&filter=epoch=1&collections=false")
    assert answer.status == 200
    assert "filter=epoch" in answer.headers["link"]
    assert "limit=1" in answer.headers["link"]
    assert "unknown" not in answer.headers["link"]
    assert "xxx" not in answer.headers["link"]
