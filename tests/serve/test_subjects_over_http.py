"""`/ccompat/v7` answers as a Confluent Schema Registry that is read only: subjects, versions, ids, look-ups, levels, errors."""

from __future__ import annotations

import base64
import hashlib
import http.client
import json
from typing import Any

import pytest
from registries.registrystandins import ORDER, ORDER_2, PROTO, RegistryStandIn, shop

from lakehouse.registries.schemastopic import record_of_line, replay
from lakehouse.registries.subjectdocuments import SubjectMapping
from serve.served import Response, Served, Shops, serving

TYPE = "application/vnd.schemaregistry.v1+json"
OWN = {"ancestor": "1", "isdefault": True}
HAND_MADE = {
    "format": "Avro/1.11",
    "schema": {"type": "record", "name": "Item", "fields": [{"name": "sku", "type": "string"}]},
}
FIRST_OWN_ID = 1 << 30


def in_normal_form(registry: RegistryStandIn, *, deleted: bool = False) -> dict[str, Any]:
    """Return the schemagroups of a registry, as the log holds them."""
    content = replay(record_of_line(line) for line in registry.lines().splitlines())
    if not deleted:
        content.versions = [one for one in content.versions if not one.is_deleted]
    groups: dict[str, Any] = {}
    for document in SubjectMapping(content, keep_deleted=deleted).documents():
        for groupid, group in document.value["schemagroups"].items():
            own = {name: value for name, value in group.items() if name not in ("schemas", "schemagroupid")}
            schemas = groups.setdefault(groupid, own | {"schemas": {}})["schemas"]
            for schemaid, schema in group["schemas"].items():
                meta = {name: value for name, value in schema["meta"].items() if name != "schemaid"}
                newest = next(reversed(schema["versions"]))
                versions = {number: _normal(version, number == meta.get("defaultversionid", newest))
                            for number, version in schema["versions"].items()}  # fmt: skip
                schemas[schemaid] = {"defaultversionid": newest} | meta | {"versions": versions}
    return groups


def _normal(version: dict[str, Any], is_default: bool) -> dict[str, Any]:
    known = {name: version[name] for name in ("name", "labels", "format", "schema") if name in version}
    unknown = {name: version[name] for name in ("references", "ruleset", "metadata") if name in version}
    return known | {"ancestor": version["ancestorid"], "isdefault": is_default} | ({"extensions": unknown} if unknown else {})


def hand_made(**attributes: Any) -> dict[str, Any]:
    """Return a schema with one Version."""
    return {"defaultversionid": "1", "versions": {"1": OWN | attributes}}


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory) -> Shops:
    """A registry that was loaded, with groups that were not; and another registry with the same ids."""
    written = Shops(tmp_path_factory.mktemp("warehouse") / "w")
    groups = in_normal_form(shop(), deleted=True)
    groups["default"]["schemas"]["Item"] = hand_made(**HAND_MADE)
    groups["docs"] = {"schemas": {
        "Cart": hand_made(**{"format": "JsonSchema/draft-07", "schema": {"type": "object", "title": "Cart"}}),
        "Only-XSD": hand_made(**{"format": "XSD/1.1", "schema": "<schema/>"}),
        "Far": hand_made(**{"format": "Avro/1.9", "schemauri": "https://example.com/far"}),
        "Same": {"xref": "/schemagroups/docs/schemas/Cart"},
        "Named": {"defaultversionid": "b", "versions": {
            "b": OWN | {"format": "Protobuf/3", "schema": PROTO},
            "a10": OWN | {"format": "Protobuf/3", "schema": PROTO + "// a\n"},
        }},
    }}  # fmt: skip
    other = RegistryStandIn()
    other.register("payments-value", '{"type":"record","name":"Payment","fields":[]}')
    written.load({"default": {"schemagroups": groups}, "other": {"schemagroups": in_normal_form(other)}})
    changed = json.loads(json.dumps(groups))
    changed["default"]["schemas"]["Item"]["versions"]["1"]["labels"] = {"team": "shop"}  # the schema stays
    written.load({"default": {"schemagroups": changed}, "other": {"schemagroups": in_normal_form(other)}})
    last = json.loads(json.dumps(changed))
    item = last["default"]["schemas"]["Item"]["versions"]["1"]
    item["schema"]["fields"].append({"name": "count", "type": "int", "default": 0})  # another schema
    del last["docs"]["schemas"]["Named"]
    written.load({"default": {"schemagroups": last}, "other": {"schemagroups": in_normal_form(other)}})
    return written


@pytest.fixture(scope="module")
def served(warehouse, tmp_path_factory):
    with serving(warehouse.folder, tmp_path_factory.mktemp("model")) as found:
        yield found


def ask(
    served: Served,
    path: str,
    body: Any = None,
    method: str | None = None,
    prefix: str = "/ccompat/v7",
    headers: dict[str, str] | None = None,
    content_type: str = TYPE,
) -> Response:
    """Send a request as Kafka clients do."""
    connection = http.client.HTTPConnection(served.address, timeout=60)
    content = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    given = {"Accept": TYPE, "Content-Type": TYPE} | (headers or {})
    connection.request(method or ("GET" if body is None else "POST"), prefix + path, content, given)
    answer = connection.getresponse()
    result = Response(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())
    connection.close()
    assert result.headers["content-type"] == content_type, result
    return result


def get(served: Served, path: str, **more: str) -> Any:
    answer = ask(served, path, **more)
    assert answer.status == 200, (path, answer)
    return answer.json


def refused(served: Served, path: str, *more: Any, **named: Any) -> int:
    answer = ask(served, path, *more, **named)
    assert answer.status == int(str(answer.json["error_code"])[:3])
    assert set(answer.json) == {"error_code", "message"}
    return answer.json["error_code"]


def test_subjects_are_listed_with_contexts_prefixes_and_pages(served):
    plain = ["Item", "lines-value", "orders-key", "orders-value"]
    assert get(served, "/subjects") == [":.docs:Cart", ":.docs:Same", ":.eu:carts/value", ":.eu:paid-shop.Paid", *plain]
    assert get(served, "/subjects?subjectPrefix=") == plain
    assert get(served, "/subjects?subjectPrefix=orders") == ["orders-key", "orders-value"]
    assert get(served, "/subjects?subjectPrefix=:.eu:c") == [":.eu:carts/value"]
    assert get(served, "/subjects?subjectPrefix=:*:c") == [":.eu:carts/value"]
    assert get(served, "/subjects?offset=1&limit=2") == [":.docs:Same", ":.eu:carts/value"]
    assert get(served, "/subjects?deleted=true&subjectPrefix=g") == ["gone-value"]
    assert get(served, "/subjects?deletedOnly=true") == ["gone-value"]
    assert get(served, "/contexts") == [".", ".docs", ".eu"]
    assert get(served, "/contexts/:.eu:/subjects") == get(served, "/contexts/.eu/subjects")
    assert get(served, "/contexts/.eu/subjects") == [":.eu:carts/value", ":.eu:paid-shop.Paid"]


def test_versions_are_those_of_the_registry_with_ids_references_metadata_and_the_text_alone(served):
    assert get(served, "/subjects/orders-value/versions") == [1, 2]
    assert get(served, "/subjects/orders-value/versions?deleted=true") == [1, 2, 3]
    assert get(served, "/subjects/orders-value/versions?deletedOnly=true") == [3]
    first = get(served, "/subjects/orders-value/versions/1")
    assert json.loads(first.pop("schema")) == ORDER
    guid = "00000000-0000-0000-0000-000000000001"
    owner = {"properties": {"owner": "shop"}, "sensitive": ["pin"]}
    assert first == {"subject": "orders-value", "version": 1, "id": 1, "guid": guid, "metadata": owner}
    latest = get(served, "/subjects/orders-value/versions/latest")
    assert latest == get(served, "/subjects/orders-value/versions/-1") == get(served, "/subjects/orders-value/versions/2")
    assert get(served, "/subjects/orders-value/versions/2/schema") == ORDER_2
    assert get(served, "/subjects/orders-value/versions/3?deleted=true")["deleted"] is True
    lines = get(served, "/subjects/lines-value/versions/1")
    assert lines["references"] == [{"name": "shop.Order", "subject": "orders-value", "version": 2}]
    assert get(served, "/subjects/orders-value/versions/2/referencedby") == [lines["id"]]
    paid = get(served, "/subjects/:.eu:paid-shop.Paid/versions/1")
    assert (paid["schemaType"], paid["schema"]) == ("PROTOBUF", PROTO)
    assert ask(served, "/subjects/:.eu:paid-shop.Paid/versions/1/schema").body.decode() == PROTO
    assert get(served, "/subjects/:.eu:carts%2Fvalue/versions/1")["schemaType"] == "JSON"
    assert get(served, "/contexts/.eu/subjects/carts%2Fvalue/versions/1")["subject"] == ":.eu:carts/value"
    assert get(served, "/subjects/paid-shop.Paid/versions/1") == paid  # only one context has it
    assert get(served, "/subjects/orders-value/metadata?key=owner&value=shop")["version"] == 1


def test_schemas_that_came_from_documents_have_versions_and_own_ids(served):
    cart, same = (get(served, f"/subjects/:.docs:{name}/versions/1") for name in ("Cart", "Same"))
    assert (cart["schemaType"], same["schema"]) == ("JSON", cart["schema"])
    assert same["id"] == cart["id"] > FIRST_OWN_ID
    assert get(served, f"/schemas/ids/{cart['id']}")["schema"] == cart["schema"]
    assert get(served, "/schemas/types") == ["JSON", "PROTOBUF", "AVRO"]
    assert refused(served, "/subjects/:.docs:Only-XSD/versions/1") == 40401
    assert refused(served, "/subjects/:.docs:Far/versions/1") == 40401


def test_versions_whose_ids_are_no_numbers_are_numbered_as_they_came(served):
    assert get(served, "/subjects/:.docs:Named/versions", prefix="/at/1/ccompat/v7") == [1, 2]
    assert get(served, "/subjects/:.docs:Named/versions/1", prefix="/at/1/ccompat/v7")["schema"].endswith("// a\n")
    assert get(served, "/subjects/:.docs:Named/versions/latest", prefix="/at/1/ccompat/v7")["version"] == 2


def test_an_own_id_is_of_one_schema_for_good_and_leads_to_what_is_no_more(served):
    before, labelled = (get(served, "/subjects/Item/versions/1", prefix=f"/at/{number}/ccompat/v7") for number in (1, 2))
    now = get(served, "/subjects/Item/versions/1")
    assert before["id"] == labelled["id"] != now["id"]  # a label makes no other schema
    assert get(served, f"/schemas/ids/{before['id']}")["schema"] == before["schema"] != now["schema"]
    assert get(served, f"/schemas/ids/{before['id']}/versions") == []
    assert get(served, f"/schemas/ids/{before['id']}/versions", prefix="/at/2/ccompat/v7") == [{"subject": "Item", "version": 1}]
    assert get(served, f"/schemas/ids/{now['id']}/versions") == [{"subject": "Item", "version": 1}]
    assert refused(served, f"/schemas/ids/{now['id']}", prefix="/at/1/ccompat/v7") == 40403
    gone = get(served, "/subjects/:.docs:Named/versions/2", prefix="/at/1/ccompat/v7")
    assert get(served, f"/schemas/ids/{gone['id']}")["schema"] == gone["schema"]
    assert get(served, f"/schemas/ids/{gone['id']}/subjects") == []


def test_ids_stay_when_the_read_model_is_built_again(served, warehouse, tmp_path):
    names = ["Item", ":.docs:Cart", "orders-value", ":.eu:paid-shop.Paid"]
    ids = [get(served, f"/subjects/{name}/versions/1")["id"] for name in names]
    with serving(warehouse.folder, tmp_path / "another") as again:
        assert [get(again, f"/subjects/{name}/versions/1")["id"] for name in names] == ids


def test_an_id_means_a_schema_in_its_context_and_its_registry(served):
    assert get(served, "/schemas/ids/2")["schema"] == get(served, "/subjects/orders-value/versions/2")["schema"]
    assert json.loads(get(served, "/schemas/ids/1/schema")["name"].join('""')) == "Order"
    assert get(served, "/schemas/ids/1/versions") == [{"subject": "orders-value", "version": 1}]
    assert get(served, "/schemas/ids/1/subjects?subject=orders-value") == ["orders-value"]
    assert get(served, "/schemas/ids/8?deleted=true")["schema"] == get(served, "/schemas/ids/1")["schema"]
    assert refused(served, "/schemas/ids/4") == 40403  # of the context eu
    for path in ("/schemas/ids/4?subject=:.eu:", "/schemas/ids/4?subject=paid-shop.Paid", "/contexts/.eu/schemas/ids/4"):
        assert get(served, path)["schema"] == PROTO
    assert "Payment" in get(served, "/schemas/ids/1", prefix="/reg-other/ccompat/v7")["schema"]
    guid = "00000000-0000-0000-0000-000000000004"
    assert get(served, f"/schemas/guids/{guid.upper()}")["schema"] == PROTO
    assert get(served, f"/schemas/guids/{guid}/ids") == [{"context": ".eu", "id": 4}]


def test_all_versions_come_page_by_page(served):
    every = get(served, "/schemas")
    assert [(one["subject"], one["version"]) for one in every] == [
        (":.docs:Cart", 1), (":.docs:Same", 1), (":.eu:carts/value", 1), (":.eu:paid-shop.Paid", 1), ("Item", 1),
        ("lines-value", 1), ("orders-key", 1), ("orders-value", 1), ("orders-value", 2),
    ]  # fmt: skip
    pages = [get(served, f"/schemas?offset={offset}&limit=2") for offset in range(0, 10, 2)]
    assert [one for page in pages for one in page] == every
    assert [one["version"] for one in get(served, "/schemas?latestOnly=true&subjectPrefix=orders-v")] == [2]
    assert len(get(served, "/schemas?deleted=true")) == len(every) + 2


def test_levels_and_modes(served):
    assert get(served, "/config") == {"compatibilityLevel": "NONE"}
    assert get(served, "/config/orders-value") == {"compatibilityLevel": "BACKWARD_TRANSITIVE"}
    assert refused(served, "/config/Item") == 40408
    assert get(served, "/config/Item?defaultToGlobal=true") == {"compatibilityLevel": "NONE"}
    assert get(served, "/mode") == get(served, "/mode/orders-key") == {"mode": "READONLY"}
    assert refused(served, "/mode/none") == 40401


@pytest.mark.parametrize(
    ("subject", "schema", "number"),
    [
        ("orders-value", {"schema": json.dumps(ORDER, indent=2)}, 1),
        ("orders-value", {"schema": json.dumps({"fields": ORDER["fields"], "name": "shop.Order", "type": "record"})}, 1),
        ("orders-key", {"schema": '{"type":"string"}'}, 1),
        (":.eu:paid-shop.Paid", {"schema": PROTO.replace("\n", " // a comment\n"), "schemaType": "PROTOBUF"}, 1),
        (":.docs:Cart", {"schema": '{"title": "Cart", "type": "object"}', "schemaType": "JSON"}, 1),
    ],
)
def test_a_schema_is_looked_up_however_it_is_written(served, subject, schema, number):
    found = ask(served, f"/subjects/{subject}?normalize=False&deleted=False", schema)
    assert found.status == 200, found
    assert found.json == get(served, f"/subjects/{subject}/versions/{number}")
    assert ask(served, f"/subjects/{subject}/versions", schema).json == found.json  # registered already
    other = schema | {"schema": schema["schema"].replace("Order", "Another").replace("Cart", "Another")
                      .replace("string", "bytes")}  # fmt: skip
    assert refused(served, f"/subjects/{subject}", other) == 40403
    assert refused(served, f"/subjects/{subject}/versions", other) == 42205


def test_a_schema_with_references_is_looked_up_with_them(served):
    lines = {"schema": '{"type":"array","items":"shop.Order"}'}
    assert refused(served, "/subjects/lines-value", lines) == 40403
    lines["references"] = [{"name": "shop.Order", "subject": "orders-value", "version": 2}]
    assert ask(served, "/subjects/lines-value", lines).json["version"] == 1


def test_protobuf_is_looked_up_and_given_as_a_descriptor(served):
    given = get(served, "/subjects/:.eu:paid-shop.Paid/versions/1?format=serialized")
    descriptor_pb2 = pytest.importorskip("google.protobuf.descriptor_pb2")
    descriptor = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(given["schema"]))
    assert (descriptor.package, descriptor.message_type[0].field[0].name) == ("shop", "id")
    descriptor.name, descriptor.message_type[0].field[0].json_name = "paid.proto", "id"  # as a compiler may write them
    body = {"schema": base64.b64encode(descriptor.SerializeToString()).decode(), "schemaType": "PROTOBUF"}
    assert ask(served, "/subjects/:.eu:paid-shop.Paid", body).json["version"] == 1
    descriptor.message_type[0].field[0].number = 2
    body["schema"] = base64.b64encode(descriptor.SerializeToString()).decode()
    assert refused(served, "/subjects/:.eu:paid-shop.Paid", body) == 40403


def test_compatibility_is_judged_by_the_level_of_the_subject(served):
    wider = json.dumps(ORDER_2 | {"fields": [*ORDER_2["fields"], {"name": "more", "type": "int", "default": 0}]})
    broken = json.dumps(ORDER | {"fields": [{"name": "key", "type": "long"}]})
    path = "/compatibility/subjects/orders-value/versions"
    for where in (path, f"{path}/1", f"{path}/latest"):
        assert ask(served, where, {"schema": wider}).json == {"is_compatible": True}
        assert ask(served, where, {"schema": broken}).json == {"is_compatible": False}
    verbose = ask(served, f"{path}?verbose=true", {"schema": broken}).json
    assert verbose["messages"][0].startswith("Version 2:")
    assert "key" in "".join(verbose["messages"])
    assert any(text.startswith("Version 1:") for text in verbose["messages"])  # the level is transitive
    other = {"schema": '{"type": "object"}', "schemaType": "JSON"}
    assert "is AVRO" in ask(served, f"{path}/latest?verbose=true", other).json["messages"][0]
    assert ask(served, "/compatibility/subjects/Item/versions/1", {"schema": broken}).json == {"is_compatible": True}  # no level
    assert ask(served, "/compatibility/subjects/new/versions/latest", {"schema": broken}).json == {"is_compatible": True}
    assert refused(served, "/compatibility/subjects/new/versions/1", {"schema": broken}) == 40401
    assert refused(served, f"{path}/9", {"schema": broken}) == 40402
    assert refused(served, f"{path}/latest", {"schema": '{"type":"record"}'}) == 42201


def test_errors_have_the_form_of_the_api(served):
    assert refused(served, "/subjects/none/versions") == 40401
    assert refused(served, "/subjects/gone-value/versions") == 40401
    assert refused(served, "/subjects/orders-value/versions/9") == 40402
    assert refused(served, "/subjects/orders-value/versions/3") == 40402
    for version in ("0", "x", "4294967296"):
        assert refused(served, f"/subjects/orders-value/versions/{version}") == 42202
    for number in ("77", "x", "99999999999"):
        assert refused(served, f"/schemas/ids/{number}") == 40403
    assert refused(served, "/schemas/guids/none") == 40403
    for body in (b"{", {"schema": ""}, {"schema": '{"type":"record"}'}, {"schema": "{}", "schemaType": "THRIFT"}, [], {}):
        assert refused(served, "/subjects/orders-value", body) == 42201
    assert refused(served, "/nothing") == refused(served, "/subjects", prefix="/ccompat/v6") == 404
    assert refused(served, "/subjects?limit=x") == refused(served, "/subjects?offset=") == 400
    odd = {"schema": "\u0082y", "schemaType": "PROTOBUF"}
    assert refused(served, "/compatibility/subjects/orders-value/versions", odd) == 42201
    assert refused(served, "/subjects", prefix="/reg-none/ccompat/v7") == refused(served, "/", prefix="/at/99/ccompat/v7") == 404
    assert get(served, "/") == {}


@pytest.mark.parametrize(
    ("method", "path"),
    [("PUT", "/config"), ("PUT", "/config/a"), ("DELETE", "/subjects/orders-value"), ("PUT", "/mode"), ("DELETE", "/config/a"),
     ("DELETE", "/subjects/orders-value/versions/1"), ("POST", "/subjects/new/versions")],
)  # fmt: skip
def test_writes_are_refused(served, method, path):
    answer = ask(served, path, {"schema": '"string"'}, method=method)
    assert (answer.status, answer.json["error_code"]) == (422 if method == "POST" else 405, 42205)
    reads = "OPTIONS, POST" if path == "/subjects/orders-value" else "GET, HEAD, OPTIONS"
    assert answer.headers.get("allow") == (None if method == "POST" else reads)
    assert get(served, "/subjects/orders-value/versions") == [1, 2]


def test_the_api_is_described(served):
    described = get(served, "/openapi.json", prefix="", content_type="application/json")["paths"]
    assert described["/ccompat/v7/schemas/ids/{id}"]["get"]["responses"]["404"]["content"].keys() == {TYPE}
    assert set(described["/ccompat/v7/subjects/{subject}/versions"]) == {"get", "post", "parameters"}


def test_answers_are_cached_as_all_others(served):
    first = ask(served, "/schemas/ids/1")
    assert served.ask("/ccompat/v7/schemas/ids/1", If_None_Match=first.headers["etag"]).status == 304
    assert "immutable" in ask(served, "/subjects", prefix="/at/1/ccompat/v7").headers["cache-control"]
    assert served.ask("/ccompat/v7/subjects/a/versions", "OPTIONS").headers["allow"] == "GET, HEAD, OPTIONS, POST"
    assert served.ask("/ccompat/v7/subjects", "OPTIONS").headers["allow"] == "GET, HEAD, OPTIONS"
    assert served.ask("/ccompat/v7/subjects", "HEAD").body == b""


def test_users_are_asked_for_and_bodies_are_limited(warehouse, tmp_path):
    users = tmp_path / "users"
    digest = hashlib.pbkdf2_hmac("sha256", b"one", b"salt", 1000)
    users.write_text(f"anna:1000:{base64.b64encode(b'salt').decode()}:{base64.b64encode(digest).decode()}\n")
    with serving(warehouse.folder, tmp_path / "model", "--users", users, LAKEHOUSE_HTTP_BODIES_BYTES="1000") as limited:
        anonymous = ask(limited, "/subjects")
        assert (anonymous.status, anonymous.json["error_code"]) == (401, 401)
        assert "www-authenticate" in anonymous.headers
        anna = {"Authorization": "Basic " + base64.b64encode(b"anna:one").decode()}
        assert ask(limited, "/subjects/orders-value", {"schema": json.dumps(ORDER)}, headers=anna).status == 200
        assert refused(limited, "/subjects/orders-value", {"schema": "x" * 2000}, headers=anna) == 413
