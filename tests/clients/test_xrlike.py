"""What the command `xr` does, at two servers that may be written to: one of documents, and one that begins empty.

Each test holds to the specification, 1.0-rc4: core/spec.md and core/http.md.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from programs import BIN, ROOT, serving
from xrlike import Failed, Xr, check_model

# Warehouses without Spark: of entities of every kind, of a document that breaks no rule, and with nothing.
_WRITERS = """
import json, sys
from pathlib import Path
from serve.served import write_catalog
from serve.test_roundtrip import SHOP, write_document
from serve.writing import empty_warehouse
writers = {"odd": write_catalog, "shop": lambda place: write_document(place, json.dumps(SHOP).encode()), "empty": empty_warehouse}
writers[sys.argv[1]](Path(sys.argv[2]))
"""
NO_JAVA = {"JAVA_HOME": "/nowhere", "PATH": "/nowhere"}
EVENT = {"envelope": "CloudEvents/1.0", "envelopemetadata": {"type": {"value": "made"}}}
ORDERS = "/messagegroups/orders/messages"
OF_SERVER = {"capabilities", "model", "modelsource"}


@contextmanager
def server_of(kind: str, place: Path, registry: str) -> Iterator[Xr]:
    """Run a server that accepts writes, with its own warehouse."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "tests")))}
    subprocess.run([BIN / "python", "-c", _WRITERS, kind, place / "w"], env=environment, check=True)
    with serving(place / "w", place / "model", "--registry", registry, "--writable", **NO_JAVA) as url:
        yield Xr(url)


@pytest.fixture(scope="module")
def documents(tmp_path_factory):
    """A server whose registry documents hold."""
    with server_of("odd", tmp_path_factory.mktemp("documents"), "default") as found:
        yield found


@pytest.fixture(scope="module")
def xr(tmp_path_factory):
    """A server that began empty."""
    with server_of("empty", tmp_path_factory.mktemp("empty"), "default") as found:
        yield found


@pytest.fixture
def group(request, xr) -> str:
    """A group of the test's own."""
    path = "/messagegroups/" + request.node.name.replace("[", ".").replace("]", "").replace("_", "-")[:100]
    xr.create(path, {"name": "before"})
    return path


def refused(command: Any, *arguments: Any, **more: Any) -> tuple[int, str]:
    """Run a command that the server refuses: the status, and the name of the error."""
    with pytest.raises(Failed) as found:
        command(*arguments, **more)
    return found.value.status, found.value.name


def versions(xr: Xr, path: str, *attributes: str) -> dict[str, Any]:
    """Read attributes of all Versions: the attribute, or a list of several, by id."""
    found = xr.get(path + "/versions")
    return {
        name: one.get(attributes[0]) if len(attributes) == 1 else [one.get(attribute) for attribute in attributes]
        for name, one in found.items()
    }


def default_of(xr: Xr, path: str) -> tuple[str, bool]:
    meta = xr.get(path + "/meta")
    return meta["defaultversionid"], meta["defaultversionsticky"]


# Create, get, update, delete, with epochs


def test_an_entity_is_created_read_updated_and_deleted(xr, group):
    path = group + "/messages/m"
    made = xr.create(path, EVENT | {"name": "one"})
    assert made == xr.get(path)
    assert refused(xr.update, path, {"epoch": 7, "name": "x"}) == (400, "mismatched_epoch")
    assert xr.update(path, {"epoch": 1, "name": "two"})["epoch"] == 2
    assert xr.update(path, {"epoch": 7, "name": "three"}, "?ignore=epoch")["epoch"] == 3
    assert xr.update(path, {"name": None}).get("name") is None
    assert xr.replace(path, EVENT)["envelope"] == "CloudEvents/1.0"
    xr.delete(path)
    xr.delete(group)
    assert not xr.is_there(path)


def test_a_deletion_with_a_stale_epoch_deletes_nothing(xr, group):
    """The epoch of a Resource is that of its meta, which counts its Versions as well (core/spec.md, "Meta Entity")."""
    path = group + "/messages/m"
    xr.create(path, EVENT)
    for number in ("2", "3", "4"):
        xr.add(path, EVENT | {"versionid": number})
    epoch = xr.get(path + "/meta")["epoch"]
    assert epoch == 4
    assert refused(xr.delete, path, query="?epoch=1") == (400, "mismatched_epoch")
    assert refused(xr.request, "DELETE", group + "/messages", {"m": {"meta": {"epoch": 1}}}) == (400, "mismatched_epoch")
    assert refused(xr.request, "DELETE", group + "/messages", {"m": {"epoch": epoch}}) == (400, "misplaced_epoch")
    assert len(xr.get(path + "/versions")) == 4
    xr.delete(path, query=f"?epoch={epoch}")
    assert refused(xr.request, "DELETE", group + "?epoch=99") == (400, "mismatched_epoch")


def test_a_map_of_deletions_names_each_by_its_own_id(xr, group):
    for name in ("a", "b"):
        xr.create(f"{group}/messages/{name}", EVENT)
    xr.add(group + "/messages/a", EVENT | {"versionid": "2"})
    assert refused(xr.request, "DELETE", group + "/messages", {"a": {"messageid": "zz"}}) == (400, "mismatched_id")
    assert refused(xr.request, "DELETE", group + "/messages/a/versions", {"2": {"versionid": "zz"}}) == (400, "mismatched_id")
    groupid = group.rsplit("/", 1)[1]
    assert refused(xr.request, "DELETE", "/messagegroups", {groupid: {"messagegroupid": "zz"}}) == (400, "mismatched_id")
    assert sorted(xr.get(group + "/messages")) == ["a", "b"]
    assert xr.request("DELETE", group + "/messages", {}).status == 204
    assert sorted(xr.get(group + "/messages")) == ["a", "b"]
    assert xr.request("DELETE", group + "/messages", {"a": {"messageid": "a"}, "gone": {}}).status == 204
    assert sorted(xr.get(group + "/messages")) == ["b"]


# The default Version, and meta


def test_attributes_go_to_the_version_that_was_the_default(xr, group):
    path = group + "/messages/m"
    xr.create(path, EVENT | {"name": "one"})
    xr.add(path, EVENT | {"versionid": "2", "name": "two"})
    xr.update(path, {"name": "top", "meta": {"defaultversionid": "1", "defaultversionsticky": True}})
    assert versions(xr, path, "name") == {"1": "one", "2": "top"}
    assert default_of(xr, path) == ("1", True)
    xr.update(path + "/versions/2", {"labels": {"kept": "yes"}})
    xr.update(path, {"name": "ignored", "meta": {"defaultversionsticky": False}, "versions": {"1": {"name": "uno"}}})
    assert versions(xr, path, "name", "labels") == {"1": ["uno", None], "2": ["top", {"kept": "yes"}]}
    assert default_of(xr, path) == ("2", False)


def test_the_default_version_is_set_by_flag(xr, group):
    path = group + "/messages/m"
    xr.create(path, EVENT)
    xr.add(path, EVENT | {"versionid": "2"})
    xr.add(path, EVENT | {"versionid": "3"}, "?setdefaultversionid=1")
    assert default_of(xr, path) == ("1", True)
    xr.add(path, EVENT, "?setdefaultversionid=request")
    assert default_of(xr, path) == ("4", True)
    assert refused(xr.update, path, {}, "?setdefaultversionid=none") == (400, "unknown_id")
    xr.update(path, {}, "?setdefaultversionid=null")
    assert default_of(xr, path) == ("4", False)
    xr.delete(path + "/versions/4", query="?setdefaultversionid=2")
    assert default_of(xr, path) == ("2", True)


def test_meta_is_written_back_as_it_was_read(xr, group):
    path = group + "/messages/m"
    xr.create(path, EVENT)
    read = xr.get(path + "/meta")
    xr.add(path, EVENT | {"versionid": "2"})
    assert refused(xr.replace, path + "/meta", read) == (400, "mismatched_epoch")
    xr.replace(path + "/meta", read, "?ignore=epoch")
    assert default_of(xr, path) == ("2", False)
    xr.replace(path + "/meta", xr.get(path + "/meta") | {"compatibility": "backward"})
    assert xr.get(path + "/meta")["compatibility"] == "backward"


def test_a_message_is_created_through_its_meta(xr, group):
    made = xr.request("PUT", group + "/messages/by-meta/meta", {"compatibility": "full"})
    assert (made.status, xr.get(group + "/messages/by-meta")["versionscount"]) == (201, 1)
    named = xr.replace(group + "/messages/named", EVENT | {"meta": {"defaultversionid": "v9", "defaultversionsticky": True}})
    assert (named["versionid"], default_of(xr, group + "/messages/named")) == ("v9", ("v9", True))
    asked = xr.replace(group + "/messages/asked", EVENT, "?setdefaultversionid=v9")
    assert asked["versionid"] == "v9"


def test_new_versions_of_one_request_follow_each_other(xr, group):
    path = group + "/messages/m"
    xr.create(path, EVENT)
    xr.add(path, EVENT | {"versionid": "2"})
    xr.add(path + "/versions", {"5": EVENT, "3": EVENT, "4": EVENT})
    assert versions(xr, path, "ancestorid") == {"1": "1", "2": "1", "3": "2", "4": "3", "5": "4"}
    xr.replace(group + "/messages/new", {"versions": {"z2": EVENT, "b3": EVENT, "a1": EVENT}})
    assert versions(xr, group + "/messages/new", "ancestorid") == {"a1": "a1", "b3": "a1", "z2": "b3"}


def test_an_alias_is_made_and_ended(xr, group):
    xr.create(group + "/messages/m", EVENT | {"name": "target"})
    path = group + "/messages/alias"
    xr.replace(path, {"meta": {"xref": group + "/messages/m"}})
    assert xr.get(path)["name"] == "target"
    assert refused(xr.request, "GET", path + "/versions?doc") == (400, "cannot_doc_xref")
    xr.replace(path + "/meta", {"xref": None})
    assert "name" not in xr.get(path)


# Documents


def test_a_document_comes_back_byte_for_byte(xr):
    path = "/schemagroups/s/schemas/json"
    reported = b'\xef\xbb\xbf{ "b": 1e2,\n  "a": 1.10 }\n'
    xr.request("PUT", path, reported, Content_Type="application/json", xRegistry_format="JSONSchema/draft-07")
    answer = xr.request("GET", path)
    assert (answer.body, answer.headers["content-type"]) == (reported, "application/json")
    xr.update(path + "$details", {"name": "named"})
    assert xr.request("GET", path).body == reported
    assert xr.get(path + "$details")["name"] == "named"
    assert refused(xr.request, "PATCH", path, b"{}") == (405, "details_required")


def test_a_document_in_metadata_is_json(xr):
    xr.replace("/schemagroups/s/schemas/inline$details", {"format": "JSONSchema/draft-07", "schema": {"type": "object"}})
    assert xr.get("/schemagroups/s/schemas/inline$details")["contenttype"] == "application/json"
    assert xr.request("GET", "/schemagroups/s/schemas/inline").json == {"type": "object"}


# Flags of import


def test_ignore_takes_what_capabilities_list(xr, group):
    assert set(xr.capabilities["ignores"]) >= {"capabilities", "defaultversionid", "epoch", "id", "modelsource", "readonly"}
    path = group + "/messages/m"
    xr.create(path, EVENT)
    assert refused(xr.replace, path, EVENT | {"messageid": "other"}) == (400, "mismatched_id")
    assert xr.replace(path, EVENT | {"messageid": "other"}, "?ignore=id")["messageid"] == "m"
    assert refused(xr.replace, path, EVENT, "?ignore=nothing") == (400, "bad_ignore")


def test_what_documents_hold_is_left_out_of_a_map(documents):
    reported = {"placed": EVENT | {"name": "mine"}, "new-one": EVENT | {"name": "mine"}}
    assert refused(documents.add, ORDERS, reported) == (400, "readonly")
    documents.add(ORDERS, reported, "?ignore=readonly")
    assert (documents.get(ORDERS + "/placed")["name"], documents.get(ORDERS + "/new-one")["name"]) == ("Placed", "mine")
    assert refused(documents.update, ORDERS + "/placed", {"name": "mine"}) == (400, "readonly")
    documents.delete(ORDERS + "/new-one")


def test_what_a_read_adds_is_ignored_in_a_write(xr, group):
    """`$schema`, read-only attributes, URLs and counts: a Version's validation is the server's to say."""
    path = group + "/messages/m"
    made = xr.create(path, EVENT | {"$schema": "https://schema.example", "versionscount": 9, "xid": "/x", "self": "x"})
    assert (made["versionscount"], "$schema" in made, made["xid"]) == (1, False, path)
    read = xr.get(path)
    assert xr.replace(path, read)["epoch"] == 2
    schema = "/schemagroups/s/schemas/validated$details"
    xr.replace(schema, {"format": "JSONSchema/draft-07", "formatvalidated": True, "compatibilityvalidated": True})
    answer = xr.get(schema)
    assert (answer["formatvalidated"], "compatibilityvalidated" in answer) == (False, False)


@pytest.mark.parametrize(
    ("reported", "name"),
    [
        ({"My-Ext": 1}, "invalid_attribute"),
        ({"name": ""}, "invalid_attribute"),
        ({"deprecated": {"effective": "2030-01-01T00:00:00Z", "removal": "2029-01-01T00:00:00Z"}}, "invalid_attribute"),
    ],
)
def test_what_no_entity_may_say_is_refused(xr, reported, name):
    assert refused(xr.replace, "/messagegroups/never", reported) == (400, name)
    assert not xr.is_there("/messagegroups/never")


def test_paths_and_methods_that_there_are_not(xr):
    assert refused(xr.replace, "/foos/x", {}) == (404, "api_not_found")
    assert refused(xr.request, "PUT", "/messagegroups", {}) == (405, "action_not_supported")
    assert xr.get("/?specversion=1.0.5-rc4")["specversion"] == "1.0-rc4"
    assert refused(xr.get, "/?specversion=1.1-rc4") == (400, "unsupported_specversion")


# Reads


def test_counts_are_filtered_and_sorted_by(documents):
    counted = {name: one["messagescount"] for name, one in documents.get("/messagegroups").items()}
    for count in set(counted.values()):
        found = documents.get(f"/messagegroups?filter=messagescount={count}")
        assert set(found) == {name for name, one in counted.items() if one == count}
    assert next(iter(documents.get("/messagegroups?sort=messagescount=desc"))) == max(counted, key=lambda name: counted[name])
    assert documents.get(f"/?filter=messagegroupscount={len(counted)}")["messagegroupscount"] == len(counted)
    assert refused(documents.get, "/messagegroups?filter=excludeall,name=x") == (400, "bad_filter")


def test_everything_is_downloaded(documents):
    found = documents.download()
    exported = json.loads(found["/export"])
    assert {name.split("$")[0] for name in found} >= {
        f"/{collection}/{name}" for collection in ("messagegroups", "endpoints", "schemagroups") for name in exported[collection]
    }
    assert set(documents.get("/export?inline=model")) & (OF_SERVER | {"messagegroups"}) == {"model"}
    shown = documents.get(f"{ORDERS}?doc&inline=*&filter=versions.versionid=2")
    assert shown["many"]["meta"]["defaultversionurl"].startswith(documents.url)
    assert shown["many"]["meta"]["readonly"] is False


def test_the_source_of_the_model_is_a_model(documents, xr):
    """What `/modelsource` gives makes the same model at another server: ours has one, so it is the same here."""
    source = documents.get("/modelsource")
    check_model(source)
    assert source == documents.get("/export")["modelsource"] == xr.get("/modelsource")
    for name, group in source["groups"].items():
        whole = xr.model["groups"][name]
        assert group["attributes"].items() <= whole["attributes"].items()
        for members, resource in group["resources"].items():
            assert resource["attributes"].items() <= whole["resources"][members]["attributes"].items()


# From one registry into another


def facts(value: Any, here: str = "") -> dict[str, Any]:
    """Return what a registry says, by JSON Pointer, without what each server sets: epochs, dates, `readonly`, and whose it is."""
    if not isinstance(value, dict):
        return {here: value}
    own = {"epoch", "createdat", "modifiedat", "registryid", "readonly", *OF_SERVER}
    found = {here: "object"}
    for key, one in value.items():
        if key not in own:
            found |= facts(one, f"{here}/{key}")
    return found


def check_taken(found: Any, reported: Any) -> None:
    """See that a registry says what was reported: JSON may have got a `contenttype`, and an empty document may be there."""
    taken, expected = facts(found), facts(reported)
    added = {pointer: taken.pop(pointer) for pointer in set(taken) - set(expected)}
    assert taken == expected
    known = {("contenttype", "application/json"), ("schemabase64", "")}
    assert {(pointer.rsplit("/", 1)[1], value) for pointer, value in added.items()} <= known


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """A server of a registry that breaks no rule."""
    with server_of("shop", tmp_path_factory.mktemp("shop"), "shop") as found:
        yield found


@pytest.fixture
def fresh(tmp_path):
    """A server of a registry in which nothing was ever written."""
    with server_of("empty", tmp_path, "mine") as found:
        yield found


def test_an_export_is_put_into_another_registry(shop, fresh):
    exported = shop.get("/export")
    assert refused(fresh.replace, "/", exported) == (400, "mismatched_id")
    fresh.replace("/", exported, "?ignore=id,epoch,capabilities,modelsource")
    check_taken(fresh.get("/export"), exported)
    assert fresh.get("/")["registryid"] == "mine"
    fresh.replace("/", fresh.get("/export"), "?ignore=epoch,capabilities,modelsource")
    check_taken(fresh.get("/export"), exported)


def test_collections_are_posted_into_another_registry(shop, fresh):
    """As core/spec.md, "Collections Flag", says: the answer of one is the request to the other."""
    groups = shop.get("/?doc&collections")
    fresh.add("/", groups)
    check_taken(fresh.get("/?doc&collections"), groups)
    api = fresh.get("/?collections")
    assert refused(fresh.add, "/", api, "?ignore=epoch") == (400, "extra_xref_attribute")  # an alias shows what its target says
    del api["messagegroups"]["orders"]["messages"]["alias"]
    fresh.add("/", api, "?ignore=epoch")
    check_taken(fresh.get("/?doc&collections"), groups)
