"""What other servers write is taken as it comes: collections, exports, and what `?ignore` leaves out of a request."""

from __future__ import annotations

import pytest

from serve.served import shop
from serve.writing import EVENT, empty_warehouse, writing

HELD = "/messagegroups/orders/messages/placed"


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A server that may be written to, of a catalog whose registry documents hold."""
    folder = tmp_path_factory.mktemp("imports")
    written = empty_warehouse(folder / "w")
    written.load({"default": shop("one")})
    with writing(written.folder, folder / "r") as found:
        yield found


def named(problem):
    return problem.status, problem.json["type"].rsplit("#", 1)[-1]


def test_the_id_of_what_a_request_is_directed_at_can_be_ignored(served):
    reported = {"messagegroupid": "other", "messages": {"m": EVENT | {"messageid": "m"}}}
    assert served.refused("PUT", "/messagegroups/ids", reported) == (400, "mismatched_id")
    assert served.done("PUT", "/messagegroups/ids?ignore=id", reported)["messagegroupid"] == "ids"
    path = "/messagegroups/ids/messages/copy"
    copied = served.get("/messagegroups/ids/messages/m?inline=meta,versions&doc")
    assert served.refused("PUT", path, copied) == (400, "mismatched_id")
    assert served.done("PUT", path + "?ignore=id", copied)["messageid"] == "copy"
    version = served.get("/messagegroups/ids/messages/m/versions/1")
    assert served.done("PUT", path + "/versions/7?ignore=id,epoch", version)["versionid"] == "7"
    assert served.done("PATCH", path + "/meta?ignore=id,epoch", {"messageid": "m", "labels": {"a": "b"}})["messageid"] == "copy"
    # Entities below it keep their ids, and so do the members of a collection
    nested = {"messages": {"m": {"messageid": "n"}}}
    assert served.refused("PATCH", "/messagegroups/ids?ignore=id", nested) == (400, "mismatched_id")
    assert served.refused("PATCH", "/messagegroups/ids/messages?ignore=id", {"m": {"messageid": "n"}}) == (400, "mismatched_id")


def test_the_id_in_a_header_of_a_document_can_be_ignored(served):
    path, header = "/schemagroups/ids/schemas/s", {"xRegistry_schemaid": "other"}
    assert named(served.send("PUT", path, raw=b"{}", **header)) == (400, "mismatched_id")
    assert served.send("PUT", path + "?ignore=id", raw=b"{}", **header).status == 201


def test_an_export_of_another_server_is_put(served):
    many = {"meta": {"defaultversionid": "1", "defaultversionsticky": True}, "versions": {"1": EVENT, "2": EVENT}}
    schemas = {"s": {"format": "JSONSchema/draft-07", "schema": {"title": "s"}}}
    reported = {"messagegroups": {"g": {"messages": {"many": many}}}, "schemagroups": {"g": {"schemas": schemas}}}
    served.done("PUT", "/reg-source/", {"name": "Source", **reported})
    export = served.get("/reg-source/export")
    assert {"capabilities", "modelsource", "registryid"} <= export.keys()
    assert served.refused("PUT", "/reg-copy/", export)[0] == 400
    for number, (flag, default) in enumerate(
        (("ignore", "2"), ("ignore=", "2"), ("ignore=*", "2"), ("ignore=id,capabilities,modelsource,epoch", "1"))
    ):
        copy = served.done("PUT", f"/reg-copy-{number}/?{flag}", export)
        assert (copy["name"], copy["registryid"], copy["schemagroupscount"]) == ("Source", f"copy-{number}", 1)
        assert served.get(f"/reg-copy-{number}/messagegroups/g/messages/many")["versionid"] == default


def test_what_is_read_only_is_passed_over_in_a_collection(served):
    group, answers = "/messagegroups/orders/messages", []
    reported = {"placed": {"description": "not mine"}, "of-mine": EVENT}
    assert served.refused("POST", group, reported) == (400, "readonly")
    assert served.refused("PATCH", group, reported) == (400, "readonly")
    before = served.get(HELD)
    for method, path, body in (
        ("POST", group, reported),
        ("PATCH", group + "?inline=meta", reported),
        ("POST", "/messagegroups/orders", {"messages": reported}),
        ("POST", "/messagegroups", {"orders": {"name": "not mine", "messages": reported}, "mine-too": {}}),
        ("POST", "/", {"messagegroups": {"orders": {"name": "not mine", "messages": reported}}}),
    ):
        answers.append(served.done(method, path + ("&" if "?" in path else "?") + "ignore=readonly", body))
    assert [sorted(one) for one in answers] == [["of-mine"], ["of-mine"], ["messages"], ["mine-too"], []]
    assert (served.get(HELD), served.get(group + "/of-mine")["epoch"]) == (before, 5)
    assert "name" not in served.get("/messagegroups/orders")


def test_what_is_read_only_is_passed_over_when_a_collection_is_deleted(served):
    served.done("PUT", "/messagegroups/orders/messages/to-go", EVENT)
    reported = {"placed": {}, "to-go": {}}
    assert served.refused("DELETE", "/messagegroups/orders/messages", reported) == (400, "readonly")
    served.done("DELETE", "/messagegroups/orders/messages?ignore=readonly", reported)
    assert [served.send("GET", f"/messagegroups/orders/messages/{name}").status for name in reported] == [200, 404]
    served.done("PUT", "/schemagroups/to-go", {})
    served.done("DELETE", "/schemagroups?ignore=readonly", {"s": {}, "to-go": {}})
    assert [served.send("GET", f"/schemagroups/{name}").status for name in ("s", "to-go")] == [200, 404]


def test_a_request_for_one_read_only_entity_cannot_ignore_it(served):
    for method, path in (
        ("PATCH", HELD), ("PATCH", HELD + "/meta"), ("DELETE", HELD), ("POST", HELD + "/versions"),
        ("PATCH", "/messagegroups/orders"), ("PATCH", "/"),
    ):  # fmt: skip
        assert served.refused(method, path, {"1": {}} if path.endswith("versions") else {}) == (400, "readonly")
        assert served.refused(method, path + "?ignore=readonly", {}) == (400, "bad_flag"), (method, path)


def test_urls_and_counts_of_collections_are_ignored(served):
    """Core, Registry Collections: what `GET ?collections` gives is taken by POST of another server as it is."""
    types = {"messagegroups": {"taken": {"messages": {"m": EVENT}, "messagesurl": "http://x/", "messagescount": 7}}}
    counted = {"messagegroupsurl": "http://x/", "messagegroupscount": 7, "endpointsurl": "http://x/", "endpointscount": 0}
    assert sorted(served.done("POST", "/", types | counted)) == ["messagegroups"]
    found = served.done(
        "POST", "/messagegroups/taken", {"messages": {"n": EVENT}, "messagesurl": "http://x/", "messagescount": 7}
    )
    assert {name: sorted(members) for name, members in found.items()} == {"messages": ["n"]}
    assert served.get("/messagegroups/taken")["messagescount"] == 2
    patched = served.done("PATCH", "/reg-taken/", counted | {"name": "n"})
    assert (patched["endpointscount"], patched["endpointsurl"]) == (0, served.url + "/reg-taken/endpoints")
    assert served.refused("POST", "/", {"itemsurl": "http://x/"}) == (400, "groups_only")
    assert served.refused("POST", "/messagegroups/taken", {"schemasurl": "http://x/"}) == (400, "resources_only")
