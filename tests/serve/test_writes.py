"""Writes of the xRegistry API over a real socket, in both dialects, into one catalog."""

from __future__ import annotations

import base64
import json
import zlib
from concurrent.futures import ThreadPoolExecutor

import pytest
from builders import document, read, rows

from serve.writing import EVENT, empty_warehouse, writing


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory):
    return empty_warehouse(tmp_path_factory.mktemp("warehouse") / "w").folder


@pytest.fixture(scope="module")
def rc4(warehouse, tmp_path_factory):
    with writing(warehouse, tmp_path_factory.mktemp("rc4")) as served:
        yield served


@pytest.fixture(scope="module")
def rc2(warehouse, tmp_path_factory):
    with writing(warehouse, tmp_path_factory.mktemp("rc2"), "--specification", "1.0-rc2") as served:
        yield served


@pytest.fixture(params=["rc4", pytest.param("rc2", marks=pytest.mark.slow)])
def served(request):
    """Two servers that write to one warehouse."""
    return request.getfixturevalue(request.param)


@pytest.fixture
def group(request, served):
    """The path of a group of the test's own."""
    path = f"/messagegroups/{request.node.name.replace('[', '.').replace(']', '').replace('_', '-')[:100]}"
    served.done("PUT", path, {"name": "before"})
    return path


def put(served, path, **more):
    return served.done("PUT", path, EVENT | more)


def snapshot(served):
    """Return the newest snapshot that is served; None: the catalog is empty."""
    return served.ask("/").headers.get("lakehouse-snapshot")


def test_a_message_is_made_with_its_group(served, request):
    # Given a group that is not there
    path = f"/messagegroups/new-{served.address.rsplit(':', 1)[1]}/messages/m"
    # When
    answer = served.send("PUT", path, EVENT | {"name": "first"})
    # Then
    assert answer.status == 201
    assert answer.headers["location"] == answer.json["self"] == served.url + path
    assert answer.headers["content-location"] == served.url + path + "/versions/1"
    assert answer.json == served.get(path)
    assert (answer.json["name"], answer.json["versionid"], answer.json["epoch"]) == ("first", "1", 1)
    assert served.get(path.rsplit("/", 2)[0])["messagescount"] == 1


def test_put_replaces_and_patch_does_not(served, group):
    path = group + "/messages/m"
    put(served, path, name="first", description="text", labels={"a": "1", "b": "2"})
    patched = served.done("PATCH", path, {"name": "second", "description": None, "labels": {"c": "3"}})
    assert (patched["name"], patched.get("description"), patched["labels"]) == ("second", None, {"c": "3"})
    assert patched["envelope"] == "CloudEvents/1.0"
    replaced = put(served, path)
    assert ("name" in replaced, "labels" in replaced) == (False, False)
    assert [patched["epoch"], replaced["epoch"]] == [2, 3]


def test_an_empty_patch_touches(served, group):
    path = group + "/messages/m"
    first = put(served, path, name="m")
    touched = served.done("PATCH", path, {})
    assert (touched["epoch"], touched["name"], touched["createdat"]) == (2, "m", first["createdat"])
    assert touched["modifiedat"] > first["modifiedat"]


def test_a_wrong_id_or_epoch_is_refused(served, group):
    path = group + "/messages/m"
    put(served, path)
    assert served.refused("PUT", path, EVENT | {"messageid": "other"}) == (400, "mismatched_id")
    assert served.refused("PATCH", path, {"versionid": "7"}) == (400, "mismatched_id")
    assert served.refused("PATCH", path, {"epoch": 7}) == (400, "mismatched_epoch")
    ignoring = "?noepoch" if served.get("/")["specversion"] == "1.0-rc2" else "?ignore=epoch"
    assert served.done("PATCH", path + ignoring, {"epoch": 7, "name": "x"})["name"] == "x"
    assert served.done("PATCH", path, {"epoch": None, "name": "y"})["epoch"] == 3
    assert served.done("PATCH", path, {"epoch": 3, "name": "z"})["epoch"] == 4


def test_given_dates_hold(served, group):
    path = group + "/messages/m"
    reported = {"createdat": "2020-01-02T03:04:05Z", "modifiedat": "2021-01-02T03:04:05Z"}
    made = put(served, path, **reported)
    assert {name: made[name] for name in reported} == reported
    again = served.done(
        "PATCH", path, {"modifiedat": reported["modifiedat"], "name": "x"}
    )  # the stored one is none that is given
    assert again["createdat"] == reported["createdat"]
    assert again["modifiedat"] > "2026"
    assert served.refused("PATCH", path, {"createdat": "yesterday"})[0] == 400


def test_versions_are_posted(served, group):
    path = group + "/messages/m"
    put(served, path, name="one")
    answer = served.send("POST", path, EVENT | {"name": "two"})
    assert (answer.status, answer.json["versionid"], answer.headers["location"]) == (201, "2", served.url + path + "/versions/2")
    assert served.send("POST", path, EVENT | {"versionid": "v3", "name": "three"}).json["versionid"] == "v3"
    assert served.get(path)["name"] == "three"  # the newest is the default one
    ancestor = "ancestor" if served.get("/")["specversion"] == "1.0-rc2" else "ancestorid"
    assert {one["versionid"]: one[ancestor] for one in served.get(path + "/versions").values()} == {"1": "1", "2": "1", "v3": "2"}


def test_a_number_that_a_version_had_is_none_again(served, group):
    path = group + "/messages/m"
    put(served, path)
    assert [served.done("POST", path, EVENT)["versionid"] for _ in range(2)] == ["2", "3"]
    served.done("DELETE", path + "/versions/3")
    assert served.done("POST", path, EVENT)["versionid"] == "4"


def test_several_versions_at_once_answer_with_those(served, group):
    path = group + "/messages/m"
    put(served, path)
    found = served.done("POST", path + "/versions", {"2": EVENT | {"name": "b"}, "3": EVENT | {"name": "c"}})
    assert sorted(found) == ["2", "3"]
    patched = served.done("PATCH", path + "/versions", {"2": {"labels": {"x": "y"}}})
    assert (list(patched), patched["2"]["name"], patched["2"]["labels"]) == (["2"], "b", {"x": "y"})
    assert served.refused("POST", group + "/messages/other/versions", {}) == (400, "missing_versions")


def test_new_versions_of_one_request_follow_each_other_by_id(served, group):
    """model.md, `versionmode`: manual."""
    ancestor = "ancestor" if served.get("/")["specversion"] == "1.0-rc2" else "ancestorid"

    def lineage(name, method, body, path=""):
        served.done(method, f"{group}/messages/{name}{path}", body)
        found = {one: reported[ancestor] for one, reported in served.get(f"{group}/messages/{name}/versions").items()}
        return found, served.get(f"{group}/messages/{name}")["versionid"]

    one, two = {"1": "1", "2": "1"}, {"versions": {"2": EVENT, "1": EVENT}}
    assert lineage("a", "PUT", two) == (one, "2")
    new = dict.fromkeys(("5", "3", "4"), EVENT)
    assert lineage("a", "POST", new, "/versions") == (one | {"3": "2", "4": "3", "5": "4"}, "5")
    assert lineage("b", "PUT", {"versions": dict.fromkeys(("z2", "B3", "a1"), EVENT)}) == (
        {"a1": "a1", "B3": "a1", "z2": "B3"}, "z2",
    )  # fmt: skip
    said = {"b": EVENT, "c": EVENT | {ancestor: "b"}, "a": EVENT}  # c comes after b, as it says
    assert lineage("c", "PATCH", said, "/versions") == ({"a": "a", "b": "a", "c": "b"}, "c")
    said = {"z": EVENT, "y": EVENT | {ancestor: "z"}}
    assert lineage("d", "POST", said, "/versions") == ({"z": "z", "y": "z"}, "y")  # from z something was made, so y is the newest
    assert lineage("d", "POST", EVENT | {"versionid": "x"}) == ({"z": "z", "y": "z", "x": "y"}, "x")
    path = group + "/messages/d/versions"
    circle = {"z": {ancestor: "x"}}
    assert served.refused("PATCH", path, circle)[0] == 400
    for wrong in ({}, 5, "none", []):
        assert served.refused("PATCH", path, {"z": {ancestor: wrong}}) == (400, "unknown_id"), wrong
    assert lineage("d", "PATCH", {"x": {ancestor: None}}, "/versions")[0]["x"] == "y"


def test_the_default_version_is_chosen(served, group):
    path = group + "/messages/m"
    put(served, path, name="one")
    served.done("POST", path, EVENT | {"name": "two"})

    def default():
        meta = served.get(path + "/meta")
        return meta["defaultversionid"], meta["defaultversionsticky"]

    assert default() == ("2", False)
    served.done("PATCH", path + "/meta", {"defaultversionid": "1"})
    assert (default(), served.get(path)["name"]) == (("1", True), "one")
    served.done("POST", path, EVENT | {"name": "three"})
    assert default() == ("1", True)
    served.done("POST", path + "?setdefaultversionid=request", EVENT | {"name": "four"})
    assert default() == ("4", True)
    served.done("DELETE", path + "/versions/4?setdefaultversionid=2")
    assert default() == ("2", True)
    served.done("DELETE", path + "/versions/2")  # who was chosen is gone
    assert default() == ("3", False)
    served.done("PATCH", path + "/meta?setdefaultversionid=null", {})
    assert default() == ("3", False)
    assert served.refused("PATCH", path + "/meta", {"defaultversionid": "9"}) == (400, "unknown_id")
    assert served.refused("PATCH", path + "?setdefaultversionid=9", {}) == (400, "unknown_id")
    served.done("PUT", path + "/meta", {"defaultversionid": "1"})  # not sticky, so the newest is it
    assert default() == ("3", False)
    assert served.refused("PATCH", group + "?setdefaultversionid=1", {}) == (400, "bad_flag")


def test_attributes_go_to_the_version_that_was_the_default(served, group):
    """spec.md, Resource Processing Algorithm, step 2; resource.md has more of its kind."""
    path = group + "/messages/m"
    served.done("PUT", path, {"versions": {name: EVENT | {"name": name, "labels": {"a": name}} for name in "12"}})

    def names():
        return {name: one.get("name") for name, one in served.get(path + "/versions").items()}

    reported = served.done("PUT", path, EVENT | {"name": "top", "meta": {"defaultversionid": "1", "defaultversionsticky": True}})
    assert (reported["versionid"], names()) == ("1", {"1": "1", "2": "top"})
    served.done("PATCH", path, {"versions": {"2": {"labels": {"a": "2"}}}})
    reported = served.done("PUT", path, {"name": "top", "meta": {}, "versions": {"1": EVENT | {"name": "uno"}}})
    assert (reported["versionid"], reported["labels"], names()) == ("2", {"a": "2"}, {"1": "uno", "2": "top"})
    reported = served.done("PATCH", path, {"name": "dos", "meta": {"defaultversionid": "1"}})
    assert (reported["versionid"], names()) == ("1", {"1": "uno", "2": "dos"})
    reported = served.done("PATCH", path, {"name": "one", "meta": {"defaultversionsticky": False}})
    assert (reported["versionid"], names()) == ("2", {"1": "one", "2": "dos"})
    assert served.refused("PUT", path, {"versionid": "1", "meta": {"defaultversionid": "1"}}) == (400, "mismatched_id")
    served.done("PUT", path, {"versions": {"1": EVENT}})  # no attributes are none that stay
    assert names() == {"1": None, "2": None}


def test_a_default_that_becomes_sticky_is_the_newest_when_all_is_written(served, group):
    path = group + "/messages/m"
    put(served, path)
    reported = served.done("PATCH", path, {"meta": {"defaultversionsticky": True}, "versions": {"2": EVENT}})
    assert (reported["versionid"], served.get(path + "/meta")["defaultversionsticky"]) == ("2", True)
    reported = served.done("PATCH", path, {"meta": {"defaultversionsticky": True}, "versions": {"3": EVENT}})
    assert reported["versionid"] == "2"  # it was sticky before


def test_meta_is_written_back(served, group):
    path = group + "/messages/m"
    put(served, path)
    meta = served.get(path + "/meta")
    assert served.done("PUT", path + "/meta", meta)["defaultversionid"] == "1"
    meta = served.get(path + "/meta")
    served.done("POST", path, EVENT)
    ignoring = "?noepoch" if served.get("/")["specversion"] == "1.0-rc2" else "?ignore=epoch"
    for method in ("PUT", "PATCH"):
        reported = served.done(method, path + "/meta" + ignoring, meta)
        assert (reported["defaultversionid"], reported["defaultversionsticky"]) == ("2", False)
    reported = served.done("PUT", path, EVENT | {"meta": {"defaultversionid": "none"}})
    assert reported["versionid"] == "2"
    sticky = {"defaultversionid": "none", "defaultversionsticky": True}
    assert served.refused("PUT", path + "/meta", sticky) == (400, "unknown_id")
    assert served.refused("PATCH", path, {"meta": {"defaultversionid": 7}})[0] == 400


def test_a_message_is_made_through_meta(served, group):
    for name, method, body, versionid in (
        ("a", "PUT", {}, "1"),
        ("b", "PATCH", {"labels": {"a": "b"}}, "1"),
        ("c", "PUT", {"defaultversionid": "v9", "defaultversionsticky": True}, "v9"),
        ("d", "PATCH", {"defaultversionid": "v9"}, "v9"),
    ):
        path = f"{group}/messages/{name}/meta"
        answer = served.send(method, path, body)
        assert (answer.status, answer.headers.get("location"), answer.json) == (201, served.url + path, served.get(path))
        assert (answer.json["defaultversionid"], answer.json["epoch"]) == (versionid, 1)
        assert list(served.get(f"{group}/messages/{name}/versions")) == [versionid]
        assert served.send(method, path, {}).status == 200
    answer = served.send("PUT", group + "/messages/e/meta", {"xref": group + "/messages/c"})
    assert (answer.status, served.get(group + "/messages/e")["versionid"]) == (201, "v9")
    new = group.replace("messagegroups", "schemagroups") + "/schemas/s/meta"
    assert served.send("PUT", new, {"labels": {"a": "b"}}).status == 201
    assert served.refused("PATCH", group + "/messages/f/meta", {"xref": "nowhere"})[0] == 400
    assert served.send("GET", group + "/messages/f").status == 404


def test_a_new_message_names_its_default_version(served, group):
    def made(name, body, flag=""):
        path = f"{group}/messages/{name}"
        served.done("PUT", path + flag, body)
        shown = {versionid: one.get("name") for versionid, one in served.get(path + "/versions").items()}
        meta = served.get(path + "/meta")
        return shown, meta["defaultversionid"], meta["defaultversionsticky"]

    top = EVENT | {"name": "top"}
    v1 = {"versions": {"v1": EVENT}}
    assert made("a", top | {"meta": {"defaultversionid": "v9"}}) == ({"v9": "top"}, "v9", False)
    assert made("b", top, "?setdefaultversionid=v9") == ({"v9": "top"}, "v9", True)
    assert made("c", top, "?setdefaultversionid=null") == ({"1": "top"}, "1", False)
    assert made("d", top | v1) == ({"v1": None}, "v1", False)  # nothing says that there is another one
    assert made("e", top | v1 | {"versionid": "v0"}) == ({"v0": "top", "v1": None}, "v1", False)
    assert made("f", top | v1 | {"meta": {"defaultversionid": "v1"}}) == ({"v1": None}, "v1", False)
    assert made("g", top | v1, "?setdefaultversionid=v0") == ({"v0": "top", "v1": None}, "v0", True)
    sticky = {"meta": {"defaultversionid": "v1", "defaultversionsticky": True}}
    assert made("h", top | v1 | sticky | {"versionid": "v2"}) == ({"v1": None, "v2": "top"}, "v1", True)
    assert served.refused("PUT", group + "/messages/i?setdefaultversionid=v9", {"versionid": "v1"}) == (400, "unknown_id")


OLD, NEW = "2020-01-01T00:00:00Z", "2030-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("body", "of_document", "of_request"),
    [
        ({"versions": {"1": {}, "2": {}}}, "2", "2"),
        ({"versions": {"9": {}, "10": {}}}, "10", "9"),  # a number comes after a lesser one; the API compares letters
        ({"versions": {"1": {"ancestor": "2"}, "2": {"ancestor": "2"}}}, "2", "1"),  # what comes last of a line
        ({"versions": {"1": {"isdefault": True}, "2": {}}}, "1", "2"),
        ({"versions": {"1": {"isdefault": False}, "2": {"isdefault": True}}}, "2", "2"),
        ({"versionid": "1", "versions": {"1": {}, "2": {}}}, "1", "2"),
        ({"versions": {"1": {"createdat": NEW}, "2": {"createdat": OLD}}}, "1", "2"),  # 2 was made from 1
        ({"versions": {"1": {"createdat": NEW, "ancestor": "1"}, "2": {"createdat": OLD, "ancestor": "2"}}}, "1", "1"),
        ({"meta": {"defaultversionid": "1"}, "versions": {"1": {}, "2": {}}}, "1", "2"),
        ({"meta": {"defaultversionid": "1", "defaultversionsticky": True}, "versions": {"1": {}, "2": {}}}, "1", "1"),
    ],
)
def test_the_default_version_of_a_document_and_of_a_request(rc2, body, of_document, of_request):
    """The API has its own rules for it: what a server computes is ignored, and the newest follows the ancestors."""
    written = {"versions": {versionid: EVENT | one for versionid, one in body["versions"].items()}}
    reading = read(document({"g": {"messages": {"m": body | written}}}))
    [message] = rows(reading, "message").values()
    path = f"/messagegroups/of-documents/messages/m{zlib.crc32(json.dumps(body).encode())}"
    rc2.done("PUT", path, body | written)
    meta = rc2.get(path + "/meta")
    assert (message.defaultversionid, meta["defaultversionid"]) == (of_document, of_request)
    # And the answer says which one it is
    assert rc2.get(path)["versionid"] == of_request


def test_one_version_shows_itself_as_the_default(served, group):
    path = group + "/messages/m"
    put(served, path)
    served.done("POST", path, EVENT)
    served.done("PATCH", path + "/meta", {"defaultversionid": "1"})
    shown = {one["versionid"]: (one["isdefault"], one["epoch"]) for one in served.get(path + "/versions").values()}
    assert shown == {"1": (True, 1), "2": (False, 1)}


def test_an_alias_shows_what_it_stands_for(served, group):
    target, path = group + "/messages/target", group + "/messages/alias"
    put(served, target, name="shown")
    put(served, path, name="own")
    assert served.refused("PUT", path, {"name": "x", "meta": {"xref": target}})[0] == 400
    assert served.refused("PUT", path, {"meta": {"xref": "/nowhere"}})[0] == 400
    served.done("PUT", path, {"meta": {"xref": target}})
    assert (served.get(path)["name"], served.get(path + "/meta")["xref"]) == ("shown", target)
    # Back: it begins again, with an epoch that neither had
    served.done("PATCH", path, {"meta": {"xref": None}, "name": "again"} | EVENT)
    assert (served.get(path)["name"], served.get(path)["versionscount"]) == ("again", 1)


def test_an_alias_has_nothing_of_its_own(served, group):
    """spec.md, Cross Referencing Resources."""
    target, path = group + "/messages/target", group + "/messages/alias"
    put(served, target, name="shown")
    put(served, path, name="own", meta={"labels": {"a": "b"}})
    error = "extra_xref_attributes" if served.get("/")["specversion"] == "1.0-rc2" else "extra_xref_attribute"
    xref = {"xref": target}
    for more in ({"defaultversionid": "1"}, {"defaultversionsticky": True}, {"labels": {}}, {"deprecated": {}}, {"x": 1}):
        assert served.refused("PUT", path, {"meta": xref | more}) == (400, error), more
        assert served.refused("PATCH", path + "/meta", xref | more) == (400, error), more
    for more in (
        {"versions": {}},
        {"versions": {"1": EVENT}},
        {"name": "x"},
        {"versionid": "1"},
        {"createdat": "2020-01-01T00:00:00Z"},
    ):
        assert served.refused("PUT", path, {"meta": xref} | more) == (400, error), more
    assert served.refused("PUT", path + "/meta?setdefaultversionid=1", xref) == (400, error)
    assert served.refused("PUT", group + "/messages/new", {"meta": xref, "versions": {}}) == (400, error)
    assert served.get(path)["name"] == "own"
    reported = {"self": "x", "readonly": False, "epoch": served.get(path + "/meta")["epoch"], "messageid": "alias", "name": None}
    served.done("PATCH", path, {"meta": xref | reported, "messageid": "alias", "versions": None})
    assert (served.get(path)["name"], "labels" in served.get(path + "?doc&inline=meta")["meta"]) == ("shown", False)
    assert served.refused("PATCH", path + "/meta", {"labels": {"a": "b"}}) == (400, error)
    assert served.refused("PATCH", path, {"versions": {}}) == (400, error)
    exported = served.get(path + "?doc&inline=meta")
    assert served.done("PUT", path, exported)["name"] == "shown"  # what is exported is loaded again


def test_what_a_version_has_not_is_refused(served, group):
    path = group + "/messages/m"
    put(served, path)
    for name, value in (("versions", {"7": EVENT}), ("meta", {"defaultversionid": "1"})):
        for method, place, reported in (
            ("POST", path, EVENT | {name: value}),
            ("POST", group + "/messages/new", EVENT | {name: value}),
            ("PUT", path + "/versions/2", EVENT | {name: value}),
            ("PATCH", path + "/versions", {"2": EVENT | {name: value}}),
            ("PUT", path, {"versions": {"2": EVENT | {name: value}}}),
        ):
            assert served.refused(method, place, reported) == (400, "unknown_attribute"), (method, place)
    assert (served.get(path)["versionscount"], served.send("GET", group + "/messages/new").status) == (1, 404)
    shown = {name: value for name, value in served.get(path).items() if name not in ("versionid", "epoch")}
    assert served.done("POST", path, shown | {"meta": None})["versionid"] == "2"  # counts and URLs are the server's


def test_the_epoch_of_a_holder_grows_with_what_comes_and_goes(served, group):
    assert served.get(group)["epoch"] == 1
    put(served, group + "/messages/m")
    assert served.get(group)["epoch"] == 2
    put(served, group + "/messages/m")
    assert served.get(group)["epoch"] == 2
    meta = served.get(group + "/messages/m/meta")["epoch"]
    served.done("POST", group + "/messages/m", EVENT)
    assert served.get(group + "/messages/m/meta")["epoch"] == meta + 1
    served.done("DELETE", group + "/messages/m")
    assert served.get(group)["epoch"] == 3


def test_groups_are_written_with_what_they_hold(served, group):
    found = served.done("POST", group, {"messages": {"a": EVENT, "b": EVENT | {"name": "b"}}})
    assert sorted(found["messages"]) == ["a", "b"]
    assert served.get(group)["name"] == "before"  # its own attributes are untouched
    assert served.refused("POST", group, {"name": "x"}) == (400, "resources_only")
    reported = served.done("PATCH", group, {"description": "more", "messages": {"a": {"name": "a"}}})
    assert (reported["name"], reported["description"]) == ("before", "more")
    assert served.get(group + "/messages/a")["name"] == "a"
    assert served.get(group + "/messages")["b"]["name"] == "b"  # a collection is added to


def test_a_registry_is_written_by_types(served, group):
    name = group.rsplit("/", 1)[1]
    reported = {"messagegroups": {name + "x": {"messages": {"m": EVENT}}}, "schemagroups": {name: {"name": "s"}}}
    found = served.done("POST", "/", reported)
    assert {key: sorted(value) for key, value in found.items()} == {"messagegroups": [name + "x"], "schemagroups": [name]}
    assert served.refused("POST", "/", {"name": "x"}) == (400, "groups_only")
    patched = served.done("PATCH", "/", {"description": name})
    assert (patched["description"], patched["registryid"]) == (name, "default")
    assert served.refused("PATCH", "/", {"registryid": "other"}) == (400, "mismatched_id")


def test_nothing_of_a_request_remains_when_a_part_is_refused(served, group):
    before = served.get("/")["epoch"], served.get(group)
    reported = {"good": EVENT, "bad": {"envelope": 7}}
    status, _name = served.refused("POST", group + "/messages", reported)
    assert status == 400
    assert (served.get("/")["epoch"], served.get(group)) == before
    assert served.send("GET", group + "/messages/good").status == 404


def test_all_that_is_wrong_with_a_request_is_reported_at_once(served, group):
    answer = served.send("POST", group + "/messages", {"one": {"name": 5}, "two": {"envelope": 7, "description": 8}, "ok": EVENT})
    assert (answer.status, answer.json["title"].count("`name` is a number")) == (400, 1)
    first, counted, *others = answer.json["detail"].split("\n")
    assert (first.split(":")[0], counted) == ("MSG-043", "2 more:")
    assert [f"{group}/messages/two" in line for line in others] == [True, True]
    assert {line.split("`")[1] for line in others} == {"envelope", "description"}
    credentials = {"endpoints": [{"uri": f"https://u:pw12345@{host}/"} for host in ("h.example", "i.example")]}
    reported = {"usage": ["producer"], "protocol": "HTTP", "protocoloptions": credentials}
    answer = served.send("PUT", group.replace("messagegroups", "endpoints"), reported)
    assert answer.json["detail"].count("END-111") == 2
    for name in ("a", "b"):
        put(served, f"{group}/messages/{name}")
    bad = {"envelope": "Other/1.0", "envelopemetadata": {"a": {}}}
    served.done("PATCH", group, {"envelope": "CloudEvents/1.0"})
    answer = served.send("POST", group + "/messages", {"c": bad, "d": bad})
    assert answer.json["detail"].count("MSG-157") == 2


def test_the_rules_between_entities_hold(served, group):
    served.done("PATCH", group, {"envelope": "CloudEvents/1.0"})
    answer = served.send("PUT", group + "/messages/m", {"envelope": "Other/1.0", "envelopemetadata": {"a": {}}})
    assert answer.status == 400
    assert "MSG-157" in answer.json["detail"]
    put(served, group + "/messages/a")
    put(served, group + "/messages/b", basemessage=group + "/messages/a")
    answer = served.send("PATCH", group + "/messages/a", {"basemessage": group + "/messages/b"})
    assert answer.status == 400
    assert "MSG-146" in answer.json["detail"]
    answer = served.send("PUT", group + "/messages/A", EVENT)
    assert answer.status == 400
    assert "MSG-037" in answer.json["detail"]


def test_a_version_may_extend_an_older_one_of_its_message_and_not_itself(served, group):
    message = group + "/messages/m"
    put(served, message)
    put(served, message + "/versions/2", basemessage=message + "/versions/1")
    for versionid, base in (("1", message), ("1", message + "/versions/2"), ("2", message)):
        answer = served.send("PATCH", f"{message}/versions/{versionid}", {"basemessage": base})
        assert answer.status == 400, (versionid, base)
        assert "MSG-146: " in answer.json["detail"]
        assert f"leads over {base} back to this message" in answer.json["title"]


def test_an_attribute_that_a_message_needs_is_asked_for(served, group):
    answer = served.send("PUT", group + "/messages/m", {"envelope": "CloudEvents/1.0"})
    assert answer.status == 400
    assert "MSG-161" in answer.json["detail"]


def test_credentials_are_refused(served, group):
    path = group.replace("messagegroups", "endpoints")
    reported = {
        "usage": ["producer"],
        "protocol": "HTTP",
        "protocoloptions": {"endpoints": [{"uri": "https://u:pw12345@h.example/"}]},
    }
    answer = served.send("PUT", path, reported)
    assert answer.status == 400
    assert "END-111" in answer.json["detail"]
    assert b"pw12345" not in answer.body


def test_a_schema_is_uploaded_and_comes_back(served, group):
    path = group.replace("messagegroups", "schemagroups") + "/schemas/s"
    answer = served.send("PUT", path, raw=b'{"type":"object"}', Content_Type="application/json", xRegistry_name="Caf%C3%A9")
    assert (answer.status, answer.body) == (201, b'{"type":"object"}')
    assert (answer.headers["content-type"], answer.headers["xregistry-name"]) == ("application/json", "Caf%C3%A9")
    text = b'syntax = "proto3";\nmessage M {}\n'
    answer = served.send("POST", path, raw=text, Content_Type="text/plain", xRegistry_versionid="two")
    assert (answer.status, answer.body, answer.headers["xregistry-versionid"]) == (201, text, "two")
    assert served.send("PUT", path + "/versions/3", raw=b"\xff\x00").body == b"\xff\x00"
    assert served.get(path + "$details?inline=schema")["schemabase64"] == base64.b64encode(b"\xff\x00").decode()
    # What no header names is left as it is, but the content type
    again = served.send("PUT", path + "/versions/two", raw=b"other")
    assert (again.body, "xregistry-name" in again.headers, again.headers["xregistry-versionid"]) == (b"other", False, "two")
    assert served.refused("PATCH", path, {}) == (405, "details_required")
    assert served.done("PATCH", path + "/versions/two$details", {"name": "n"})["name"] == "n"
    assert served.refused("PUT", path + "$details", {"schema": 1, "schemaurl": "https://e.example/s"}) == (400, "one_resource")
    assert served.refused("PUT", path, raw=b"x", xRegistry_schema="y")[0] == 400
    elsewhere = served.send("PUT", path, xRegistry_schemaurl="https://e.example/s")
    assert (elsewhere.status, elsewhere.headers["location"]) == (303, "https://e.example/s")


def test_headers_of_documents_do_not_go_with_messages(served, group):
    assert served.refused("PUT", group + "/messages/m", EVENT, xRegistry_name="x")[0] == 400


def test_entities_are_deleted(served, group):
    for name in "abc":
        put(served, f"{group}/messages/{name}")
    assert served.refused("DELETE", group + "/messages/none") == (404, "not_found")
    assert served.refused("DELETE", group + "/messages/a?epoch=9") == (400, "mismatched_epoch")
    answer = served.send("DELETE", group + "/messages/a?epoch=1")
    assert (answer.status, answer.body) == (204, b"")
    assert served.refused("DELETE", group + "/messages", {"b": {"epoch": 1}}) == (400, "misplaced_epoch")
    served.done("DELETE", group + "/messages", {"b": {"meta": {"epoch": 1}}, "unknown": {}})
    assert list(served.get(group + "/messages")) == ["c"]
    served.done("DELETE", group + "/messages")
    assert served.get(group + "/messages") == {}
    put(served, group + "/messages/m")
    served.done("DELETE", group + "/messages/m/versions/1")  # the last one takes the message along
    assert served.send("GET", group + "/messages/m").status == 404
    assert served.refused("DELETE", group + "/messages/m/meta") == (405, _unsupported(served))
    served.done("DELETE", group)
    assert served.send("GET", group).status == 404


def test_the_epoch_of_a_deletion_is_that_of_meta(served, group):
    for path in (group + "/messages/m", group.replace("messagegroups", "schemagroups") + "/schemas/m"):
        served.done("PUT", path + "$details", {"versions": {"1": {}, "2": {}}})
        for name in "ab":
            served.done("PATCH", path + "/meta", {"labels": {"a": name}})
        assert (served.get(path + "$details")["epoch"], served.get(path + "/meta")["epoch"]) == (1, 3)
        assert served.refused("DELETE", path + "?epoch=1") == (400, "mismatched_epoch")
        assert served.refused("DELETE", path.rsplit("/", 1)[0], {"m": {"meta": {"epoch": 1}}}) == (400, "mismatched_epoch")
        assert served.get(path + "$details")["versionscount"] == 2
        served.done("DELETE", path + "?epoch=3")
        assert served.send("GET", path + "$details").status == 404


def test_a_deletion_of_members_names_them_by_their_own_ids(served, group):
    schemas, endpoints = (group.replace("messagegroups", name) for name in ("schemagroups", "endpoints"))
    put(served, group + "/messages/m")
    served.done("PUT", schemas + "/schemas/m$details", {})
    served.done("PUT", endpoints, {"usage": ["producer"], "messages": {"m": EVENT}})
    foreign = {"messageid": "zz"}
    for path, body in (
        (group + "/messages", {"m": foreign}),
        (group + "/messages", {"none": foreign}),
        (schemas + "/schemas", {"m": {"schemaid": "zz"}}),
        (endpoints + "/messages", {"m": foreign}),
        (group + "/messages/m/versions", {"1": {"versionid": "2"}}),
        (group + "/messages/m/versions", {"1": foreign}),
        (schemas + "/schemas/m/versions", {"1": {"versionid": "2"}}),
        ("/messagegroups", {group.rsplit("/", 1)[1]: {"messagegroupid": "zz"}}),
        ("/schemagroups", {schemas.rsplit("/", 1)[1]: {"schemagroupid": "zz"}}),
        ("/endpoints", {endpoints.rsplit("/", 1)[1]: {"endpointid": "zz"}}),
    ):
        assert served.refused("DELETE", path, body) == (400, "mismatched_id"), path
    own = {"messageid": "m", "epoch": 7, "meta": {"epoch": 1}, "name": 5}  # the epoch of the Version is passed over then
    served.done("DELETE", group + "/messages", {"m": own})
    served.done("DELETE", "/endpoints", {endpoints.rsplit("/", 1)[1]: {"endpointid": endpoints.rsplit("/", 1)[1]}})
    assert (served.get(group)["messagescount"], served.send("GET", endpoints).status) == (0, 404)


def _unsupported(served):
    return "method_not_allowed" if served.get("/")["specversion"] == "1.0-rc2" else "action_not_supported"


def test_what_was_deleted_goes_on_counting(served, group):
    path = group + "/messages/m"
    put(served, path)
    put(served, path)
    served.done("DELETE", path)
    assert put(served, path)["epoch"] == 3


def test_bad_bodies_are_reported(served, group):
    path = group + "/messages/m"
    assert served.refused("PUT", path)[1] in ("missing_body",)
    for raw in (b"{", b"[1]", b"7", b'{"a":1,"a":2}', b"\xff", b"{" * 3000, b'{"name": "\\ud800"}', b"[" * 100_000):
        status, _name = served.refused("PUT", path, raw=raw)
        assert status == 400, raw[:20]
    assert served.refused("PUT", path, {"versions": []})[0] == 400
    assert served.refused("PUT", path, {"versions": {"1": None}})[0] == 400
    assert served.refused("PUT", path, {"meta": 7})[0] == 400
    assert served.refused("PUT", group + "/messages/%2e%2f", EVENT) == (400, "malformed_id")
    assert served.refused("PUT", group + "/messages/a%20b", EVENT) == (400, "malformed_id")
    assert served.refused("POST", group + "/messages", {"": EVENT}) == (400, "malformed_id")
    assert served.send("GET", path).status == 404


def test_paths_report_their_methods(served):
    def allowed(path):
        return served.ask(path, "OPTIONS").headers["allow"]

    assert allowed("/messagegroups/g/messages/m") == "GET, HEAD, OPTIONS, PUT, PATCH, POST, DELETE"
    assert allowed("/messagegroups") == "GET, HEAD, OPTIONS, POST, PATCH, DELETE"
    assert allowed("/messagegroups/g/messages/m/meta") == "GET, HEAD, OPTIONS, PUT, PATCH"
    assert allowed("/model") == allowed("/at/1/messagegroups") == "GET, HEAD, OPTIONS"
    assert "PATCH" not in allowed("/schemagroups/g/schemas/s")
    assert "PATCH" in allowed("/schemagroups/g/schemas/s$details")
    answer = served.send("PUT", "/model", {})
    assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD, OPTIONS")
    assert served.refused("PUT", "/messagegroups", {})[0] == 405
    assert served.refused("PUT", "/at/1/messagegroups/g", {})[0] == 405


def test_a_method_that_a_path_has_not_is_405_with_those_it_has_and_another_path_is_404(served):
    for path in ("/foos/x", "/foos", "/messagegroups/g/foos/x", "/messagegroups/g/messages/m/foos", "/at/1/foos"):
        for method in ("PUT", "PATCH", "POST", "DELETE"):
            assert served.refused(method, path, {}) == (404, "api_not_found")
    for method, path in (
        ("PUT", "/model"), ("POST", "/effective/messagegroups/g/messages/m"), ("PUT", "/ui/"),
        ("DELETE", "/at/1/messagegroups/g"), ("PUT", "/messagecatalog/g/messagedefinitions"),
        ("PATCH", "/schemagroups/g/schemas/s"), ("TRACE", "/"),
        ("DELETE", "/messagegroups/g/messages/m/meta"), ("PUT", "/health"), ("DELETE", "/openapi.json"),
    ):  # fmt: skip
        answer = served.send(method, path, {})
        assert answer.status == 405, (method, path)
        assert "GET" in answer.headers["allow"].split(", ")
        assert method not in answer.headers["allow"].split(", ")


def test_the_patch_number_of_a_specversion_does_not_count(rc4, rc2):
    """Core, SpecVersion flag; a suffix counts."""
    assert rc4.get("/?specversion=1.0.5-rc4")["specversion"] == "1.0-rc4"
    assert rc4.get("/?specversion=1.0.0-RC2")["specversion"] == rc2.get("/?specversion=1.0.1-rc2")["specversion"] == "1.0-rc2"
    assert put(rc4, "/messagegroups/patched/messages/m?specversion=1.0.7-rc4")["messageid"] == "m"
    for wrong in ("1.0.5-rc3", "1.0.5", "1.0.5.1-rc4", "1.1.0-rc4", "1.0.-rc4", "1.0.x-rc4"):
        answer = rc4.send("GET", f"/?specversion={wrong}")
        assert (answer.status, answer.json["type"].endswith("#unsupported_specversion")) == (400, True), wrong


def test_the_attributes_of_the_server_are_not_set_by_clients(served, group):
    """Core: a request to write a read-only attribute is ignored; `$schema` at the root of a body is none."""
    said = {
        "formatvalidated": True,
        "formatvalidatedreason": "x",
        "compatibilityvalidated": 7,
        "compatibilityvalidatedreason": "",
    }
    schemas = group.replace("messagegroups", "schemagroups") + "/schemas"
    reported = {"$schema": "http://x/", **said}
    for path in (group + "/messages/m", schemas + "/s$details", schemas + "/s/versions/2$details", schemas + "/s/meta"):
        served.done("PUT", path, reported)
        assert not reported.keys() & served.get(path).keys(), path
    for path in (group, "/"):
        assert "$schema" not in served.done("PATCH", path, {"$schema": "http://x/"})
    assert "m" in served.done("POST", group + "/messages", {"$schema": "http://x/", "m": {}})


def test_names_and_dates_that_the_specification_does_not_allow_are_refused(served, group):
    """Core, Attributes, `name` and `deprecated`: MSG-007, 025, 031, 043, END-035, 046."""
    refusal = (400, "invalid_data" if served.get("/")["specversion"] == "1.0-rc2" else "invalid_attribute")
    endpoint = group.replace("messagegroups", "endpoints")
    usage = {"usage": ["producer"], "protocol": "HTTP"}
    message, schema = group + "/messages/m", group.replace("messagegroups", "schemagroups") + "/schemas/s"
    places = {"/": {}, group: {}, endpoint: usage, message: {}, message + "/versions/1": {}, schema + "$details": {}}
    for path, body in places.items():
        for name in ("My-Ext", "Ext", "1ext", "e.x", "", "x" * 64, "$schemas"):
            assert served.refused("PATCH", path, body | {name: 1}) == refusal, (path, name)
        answer = served.send("PATCH", path, body | {"name": ""})
        assert (answer.status, answer.json["title"].count("`name` is empty")) == (400, 1), path
        assert served.done("PATCH", path, body | {"my_ext1": 1, "x" * 63: 2, "My-Ext": None})["my_ext1"] == 1
    put(served, message)
    assert served.refused("PATCH", message + "/meta", {"My-Ext": 1}) == refusal
    early = {"effective": "2030-01-02T00:00:00Z", "removal": "2030-01-02T00:00:00+01:00"}
    for path, body in {group: {}, endpoint: usage, message + "/meta": {}, schema + "/meta": {}}.items():
        for wrong in (early, {"removal": "soon"}, {"effective": 7}):
            assert served.refused("PATCH", path, body | {"deprecated": wrong}) == refusal, (path, wrong)
        fine = early | {"removal": "2030-01-02T00:00:00Z"}
        assert served.done("PATCH", path, body | {"deprecated": fine})["deprecated"] == fine


def test_capabilities_report_that_entities_may_be_written(rc4, rc2):
    reported = rc4.get("/capabilities")
    assert reported["available"]["entities"]["mutable"] is True
    assert reported["available"]["model"]["mutable"] is False
    assert {"epoch", "ignore", "setdefaultversionid"} <= set(reported["flags"])
    assert "epoch" in reported["ignores"]
    assert rc2.get("/capabilities")["mutable"] == ["entities"]
    assert "noepoch" in rc2.get("/capabilities")["flags"]


def test_a_flag_that_cannot_be_followed_writes_nothing(served, group):
    path = group + "/messages/m"
    assert served.refused("PUT", path + "?inline=nothing", EVENT)[0] == 400
    assert served.refused("PUT", path + "?specversion=9", EVENT)[0] == 400
    assert served.send("GET", path).status == 404
    assert put(served, path + "?inline=meta,versions")["versions"].keys() == {"1"}


def test_a_filter_on_a_write_is_refused_and_nothing_is_written(served, group):
    """Core, Filter Flag: an entity that it does not match is 404, and a request that fails writes nothing."""
    put(served, group + "/messages/kept")
    for method, path, body in (
        ("PUT", "?filter=name=zzz", {"name": "after"}),
        ("PUT", "?filter=name=after", {"name": "after"}),
        ("PATCH", "?filter=excludeall", {"name": "after"}),
        ("POST", "/messages?filter=name=zzz", {"m": EVENT}),
        ("PUT", "/messages/m?filter=name=zzz", EVENT),
        ("DELETE", "?filter=name=zzz", None),
        ("DELETE", "/messages?filter=name=zzz", None),
    ):
        assert served.refused(method, group + path, body) == (400, "bad_flag"), (method, path)
    stored = served.get(group + "?inline=messages")
    assert (stored["name"], list(stored["messages"])) == ("before", ["kept"])


def test_a_deletion_begins_no_registry(served, group):
    before = snapshot(served)
    mount = "/reg-" + group.rsplit("/", 1)[1]
    for path in ("/messagegroups", "/endpoints", "/messagegroups/g", "/messagegroups/g/messages"):
        assert served.refused("DELETE", mount + path) == (404, "not_found")
    assert served.send("GET", mount + "/").status == 404
    assert snapshot(served) == before


def test_a_registry_of_its_own_is_begun_by_a_write(served, group):
    mount = "/reg-" + group.rsplit("/", 1)[1]
    made = served.done("PUT", mount + "/messagegroups/g/messages/m", EVENT)
    assert made["self"] == served.url + mount + "/messagegroups/g/messages/m"
    assert served.get(mount + "/")["messagegroupscount"] == 1


@pytest.mark.parametrize(
    ("method", "path"), [("PUT", "/messagegroups/g"), ("POST", "/messagegroups"), ("DELETE", "/messagegroups")]
)
def test_a_registry_without_an_id_is_not_found_and_nothing_is_written(rc4, method, path):
    before = snapshot(rc4)
    assert rc4.refused(method, "/reg-" + path, None if method == "DELETE" else {}) == (404, "not_found")
    assert snapshot(rc4) == before


def test_both_servers_see_what_one_of_them_wrote(rc4, rc2):
    put(rc4, "/messagegroups/both/messages/m", name="from one")
    rc2.done("PATCH", "/messagegroups/both/messages/m", {"description": "from the other"})
    assert rc2.get("/messagegroups/both/messages/m")["name"] == "from one"
    patched = rc4.done("PATCH", "/messagegroups/both/messages/m", {})
    assert (patched["description"], patched["epoch"]) == ("from the other", 3)


def test_the_catalog_draft_is_written(served, group):
    """CAT-025, CAT-037, CAT-038, CAT-159, CAT-160, CAT-162, CAT-163, CAT-165, CAT-169, CAT-175."""
    name = "draft" + served.address.rsplit(":", 1)[1]
    path = f"/messagecatalog/{name}"
    definition = {"id": "a.b", "format": "CloudEvents", "definition": {"attributes": {"type": {"value": "a.b"}}}}
    answer = served.send("PUT", path, {"format": "CloudEvents", "description": "d"})
    assert (answer.status, answer.json["format"]) == (201, "CloudEvents")
    answer = served.send("POST", path + "/messagedefinitions/", definition)
    assert (answer.status, answer.headers["location"]) == (201, f"{served.url}{path}/messagedefinitions/a.b/versions/1")
    assert answer.json["version"] == 1
    assert served.send("POST", path + "/messagedefinitions", definition).status == 200  # the same again is the same version
    newer = served.send("POST", path + "/messagedefinitions", definition | {"description": "newer"})
    assert (newer.status, newer.json["version"]) == (201, 2)
    assert served.get(path + "/messagedefinitions/a.b/versions") == [1, 2]
    assert served.send("PUT", path, {"format": "AMQP"}).status == 409
    again = served.send("PUT", path, {"format": "CloudEvents", "description": "e"})
    assert (again.status, again.json["description"]) == (200, "e")
    assert served.send("PUT", path + "/messagedefinitions/a.b/versions/1", {}).status == 405
    assert served.send("POST", path + "/messagedefinitions", {"format": "CloudEvents"}).status == 400
    assert served.send("POST", "/messagecatalog/none/messagedefinitions", definition).status == 404
    served.done("DELETE", path + "/messagedefinitions/a.b/versions/2")
    assert served.get(path + "/messagedefinitions/a.b")["version"] == 1
    served.done("DELETE", path + "/messagedefinitions/a.b/versions/1")  # the last one takes the definition along (CAT-035)
    assert served.send("GET", path + "/messagedefinitions/a.b").status == 404
    for known in ("a.b", "a.c"):
        of_its_own = {"id": known, "definition": {"attributes": {"type": {"value": known}}}}
        assert served.send("POST", path + "/messagedefinitions", of_its_own).status == 201
    assert served.get(path + "/messagedefinitions/a.b")["version"] == 3  # a number is not given twice
    served.done("DELETE", path + "/messagedefinitions/a.b")
    assert served.get(path + "/messagedefinitions") == ["a.c"]
    served.done("DELETE", path + "/messagedefinitions")
    assert served.get(path + "/messagedefinitions") == []
    assert served.send("PUT", path, {"format": "AMQP"}).status == 200  # it has no definition any more
    served.done("DELETE", path)
    assert served.send("GET", path).status == 404
    assert served.send("DELETE", path).status == 404
    events = served.get("/events?since=0&feed=messagecatalog")
    assert any(one["type"].endswith("deleted.v1") and one["subject"] == path for one in events)


def test_a_deletion_that_names_what_no_id_can_be_is_refused(served, group):
    put(served, group + "/messages/a")
    draft = group.replace("messagegroups", "messagecatalog")
    for path in ("/messagegroups", group + "/messages", group + "/messages/a/versions", draft + "/messagedefinitions"):
        for name in ("a/b", "", "/"):
            assert served.refused("DELETE", path, {name: {}}) == (400, "malformed_id"), (path, name)
    assert served.get(group)["messagescount"] == 1


def test_what_the_draft_api_cannot_take_is_refused_with_what_is_wrong(served, group):
    """CAT-057, CAT-081, CAT-159, CAT-163."""
    draft = group.replace("messagegroups", "messagecatalog")
    post = draft + "/messagedefinitions"
    for flag in ("?ignore", "?ignore=id"):
        assert served.done("PUT", draft + flag, {"format": "CloudEvents"})["format"] == "CloudEvents"
    put(served, group + "/messages/made")
    served.done("PUT", group + "/messages/alias", {"meta": {"xref": group + "/messages/made"}})
    definition = {"id": "alias", "definition": {"attributes": {"type": {"value": "alias"}}}}
    assert served.refused("POST", post, definition) == (400, "extra_xref_attribute")
    other = {"id": "b", "definition": {"attributes": {"type": {"value": "b"}}}}
    for value in (0, {"type": {"value": "another"}}):
        answer = served.send("POST", post, other | {"envelopemetadata": value})
        assert (answer.status, "`envelopemetadata`" in answer.json["title"]) == (400, True), answer.body
    assert served.get(post) == ["made"]
    assert served.done("POST", post, other | {"my-note": 0})["my-note"] == 0


def test_a_definition_like_a_version_that_the_draft_cannot_say_is_made(served, group):
    """CAT-163: only a version that the API shows is the same again."""
    draft = group.replace("messagegroups", "messagecatalog")
    served.done("PUT", draft, {"format": "CloudEvents"})
    put(served, group + "/messages/made/versions/beta")
    definition = {"id": "made", "definition": {"attributes": {"type": {"value": "made"}}}}
    answer = served.send("POST", draft + "/messagedefinitions", definition)
    assert (answer.status, answer.json["version"]) == (201, 1)
    assert served.send("POST", draft + "/messagedefinitions", definition).status == 200
    assert served.get(group + "/messages/made?inline=versions")["versions"].keys() == {"1", "beta"}


def test_the_draft_api_deletes_only_what_it_shows(served, group):
    """CAT-165, CAT-175: what the draft cannot say is 404 to its GET and to its DELETE, and no member of its collection."""
    draft = group.replace("messagegroups", "messagecatalog") + "/messagedefinitions"
    served.done("PUT", group, {"envelope": "CloudEvents/1.0"})
    for path in ("made/versions/1", "made/versions/beta", "of-another-type", "gone"):
        put(served, f"{group}/messages/{path}")
    served.done("PUT", group + "/messages/gone", EVENT | {"envelopemetadata": {"type": {"value": "gone"}}})
    served.done("PUT", group + "/messages/alias", {"meta": {"xref": group + "/messages/made"}})
    for path in ("made/versions/beta", "made/versions/2", "of-another-type", "of-another-type/versions/1", "alias", "none"):
        assert served.send("GET", f"{draft}/{path}").status == 404, path
        assert served.refused("DELETE", f"{draft}/{path}") == (404, "not_found"), path
    assert served.get(group + "/messages").keys() == {"made", "of-another-type", "gone", "alias"}
    assert served.get(draft) == ["gone", "made"]
    served.done("DELETE", draft, {"of-another-type": {}, "gone": {}})
    assert served.get(group + "/messages").keys() == {"made", "of-another-type", "alias"}
    served.done("DELETE", draft + "/made/versions/1")
    assert served.get(group + "/messages/made/versions").keys() == {"beta"}
    put(served, group + "/messages/made/versions/2")
    served.done("DELETE", draft)
    assert served.get(group + "/messages").keys() == {"of-another-type", "alias"}


def test_a_definition_of_the_draft_keeps_its_authority_and_its_format(served):
    """CAT-027, CAT-040, CAT-064 to CAT-066, CAT-069: what contradicts a stored definition is 409; what is invalid is 400."""
    path = "/messagecatalog/kept" + served.address.rsplit(":", 1)[1]
    served.done("PUT", path, {"format": "CloudEvents"})
    definition = {"id": "a.b", "definition": {"attributes": {"type": {"value": "a.b"}}}}
    theirs = definition | {"authority": "https://x.example"}
    post = path + "/messagedefinitions"
    assert served.done("POST", post, theirs)["authority"] == "https://x.example"
    assert served.get(post.replace("messagecatalog", "messagegroups").replace("definitions", "s") + "/a.b/meta")["authority"]
    assert served.send("POST", post, definition | {"authority": "https://y.example", "description": "2"}).status == 409
    assert served.get(post + "/a.b/versions") == [1]
    for number, reported in enumerate([{}, {"authority": ""}, {"authority": "https://x.example"}], 2):
        answer = served.done("POST", post, definition | {"description": str(number)} | reported)
        assert (answer["version"], answer["authority"]) == (number, "https://x.example")
    uri = f"https://x.example{post}/a.b/versions/3".replace("/messagecatalog", "")
    assert served.get(f"/messagedefinition?uri={uri}")["version"] == 3
    ours = {"id": "a.c", "definition": {"attributes": {"type": {"value": "a.c"}}}}
    assert "authority" not in served.done("POST", post, ours)
    assert served.done("POST", post, ours | {"authority": served.url, "description": "2"})["version"] == 2
    assert served.send("POST", post, ours | {"authority": "https://x.example", "description": "3"}).status == 409
    for wrong in ({"authority": "not a uri"}, {"format": "AMQP"}, {"format": "NATS", "definition": {}}, {"format": ""}):
        assert served.send("POST", post, ours | {"id": "a.d"} | wrong).status == 400
    assert served.get(post) == ["a.b", "a.c"]


def test_an_import_of_many_messages_is_one_snapshot(rc4):
    reported = {f"m{number}": EVENT | {"name": str(number)} for number in range(300)}
    before = int(rc4.send("PUT", "/messagegroups/many", {}).headers["lakehouse-snapshot"])
    answer = rc4.send("POST", "/messagegroups/many/messages", reported)
    assert (answer.status, int(answer.headers["lakehouse-snapshot"])) == (200, before + 1)
    assert {name: one["name"] for name, one in answer.json.items()} == {name: one["name"] for name, one in reported.items()}
    assert rc4.get("/messagegroups/many")["messagescount"] == 300


def test_what_was_written_is_an_event_and_a_change(rc4):
    put(rc4, "/messagegroups/heard/messages/m")
    events = json.loads(rc4.ask("/events?since=0").body)
    assert any(one["subject"].endswith("/messagegroups/heard/messages/m") for one in events)


HUGE = 10**400


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("", f'{{"ext": {HUGE}}}'),
        ("", '{"ext": [{"deep": 1e400}]}'),
        ("/messages/huge", json.dumps(EVENT | {"ext": -HUGE})),
    ],
    ids=["integer", "number", "message"],
)
def test_a_number_beyond_the_doubles_is_refused_and_harms_nothing(group, served, path, text):
    status, error = served.refused("PUT", f"{group}{path}", raw=text.encode())
    assert (status, error) == (400, "invalid_attribute")
    assert served.done("PUT", group, {"name": "after"})["name"] == "after"
    assert served.ask(f"{group}/messages").json == {}


@pytest.mark.parametrize("number", ["1e400", str(HUGE)])
@pytest.mark.parametrize("form", ["JSONSchema/draft-07", "Avro/1.11", "JsonStructure/draft-02", "Foo/1", None])
def test_a_schema_with_a_number_beyond_the_doubles_is_refused(rc4, number, form):
    text = f'{{"type": "int", "maximum": {number}}}'
    headers = {"Content_Type": "application/json"} | ({} if form is None else {"xRegistry_format": form})
    assert rc4.refused("PUT", "/schemagroups/huge/schemas/s", raw=text.encode(), **headers)[0] == 400
    rc4.done("PUT", "/schemagroups/huge", {"name": "after"})


def test_a_document_of_any_depth_is_kept_and_stops_nobody(rc4):
    for levels in (149, 150, 151, 198, 199, 200, 201, 1000):
        text = b'{"a":' * levels + b"1" + b"}" * levels
        path = f"/schemagroups/deep/schemas/of{levels}"
        assert rc4.send("PUT", path, raw=text, Content_Type="application/json").status == 201
        assert rc4.ask(path).body == text
        coded = {"schemabase64": base64.b64encode(text).decode()}
        rc4.done("PUT", f"{path}-coded$details", coded)
        rc4.done("PATCH", f"{path}-coded$details", {"name": "x"})
    assert len(rc4.ask("/schemagroups/deep/schemas").json) == 16
    assert rc4.ask("/export").status == 200
    assert rc4.done("PUT", "/messagegroups/shallow", {"name": "x"})["name"] == "x"


@pytest.mark.parametrize(
    "header", [{"If_None_Match": "*"}, {"If_Match": '"x"'}, {"If_Unmodified_Since": "Mon, 30 Nov 2026 00:00:00 GMT"}]
)
@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE"])
def test_a_write_with_a_condition_that_is_not_compared_is_refused(group, served, method, header):
    assert served.refused(method, group, None if method == "DELETE" else {"name": "after"}, **header) == (400, "bad_request")
    assert served.ask(group).json["name"] == "before"


@pytest.mark.parametrize("flag", ["meta", "versions.nothing", "nothing"])
def test_a_write_is_answered_as_done_whatever_its_answer_was_to_inline(group, rc4, flag):
    put(rc4, f"{group}/messages/m")
    before = len(rc4.get(f"{group}/messages/m/versions"))
    answer = rc4.send("POST", f"{group}/messages/m?inline={flag}", EVENT | {"name": "next"})
    written = len(rc4.get(f"{group}/messages/m/versions")) - before
    assert (answer.status, written) in ((201, 1), (400, 0))


def test_what_was_made_and_deleted_at_once_is_no_error(group, rc4):
    def made(number):
        return [
            rc4.send(method, f"{group}/messages/m", EVENT if method == "PUT" else None).status for method in ("PUT", "DELETE")
        ]

    with ThreadPoolExecutor(8) as pool:
        statuses = [status for pair in pool.map(made, range(40)) for status in pair[:1]]
    assert set(statuses) <= {200, 201, 204}


@pytest.mark.parametrize(("method", "is_kept"), [("PUT", False), ("PATCH", True)])
def test_a_document_elsewhere_is_left_by_a_put_that_does_not_name_it(rc4, method, is_kept):
    path = f"/schemagroups/elsewhere/schemas/{method}$details"
    rc4.done("PUT", path, {"format": "JSONSchema/draft-07", "schemaurl": "https://example.com/x"})
    assert ("schemaurl" in rc4.done(method, path, {"format": "JSONSchema/draft-07"})) is is_kept


@pytest.mark.parametrize(
    "stored", [{"schema": {"a": 1}}, {"schemabase64": "eyAiYSIgOiAxIH0="}, {"schemaurl": "https://example.com/x"}]
)
@pytest.mark.parametrize("name", ["schema", "schemabase64", "schemaurl"])
@pytest.mark.parametrize("method", ["PUT", "PATCH"])
def test_null_in_any_spelling_removes_a_document(rc4, method, name, stored):
    path = f"/schemagroups/spelled/schemas/{method}.{name}.{next(iter(stored))}"
    rc4.done("PUT", f"{path}$details", stored)
    shown = rc4.done(method, f"{path}$details", {name: None})
    assert not {"schema", "schemabase64", "schemaurl"} & shown.keys()
    assert rc4.ask(path).body == b""


def test_the_epoch_that_is_shown_of_an_alias_is_its_current_one(group, served):
    target, alias = f"{group}/messages/t", f"{group}/messages/a"
    put(served, target)
    for number in range(5):
        put(served, alias, description=str(number))
    served.done("PATCH", f"{alias}/meta", {"xref": target})
    for number in range(3):
        put(served, target, description=str(number))
    shown = served.get(f"{alias}/meta")["epoch"]
    assert served.refused("PATCH", f"{alias}/meta", {"epoch": shown + 20, "xref": target}) == (400, "mismatched_epoch")
    served.done("PATCH", f"{alias}/meta", {"epoch": shown, "xref": target})
    served.done("DELETE", f"{group}/messages", {"a": {"meta": {"epoch": served.get(f"{alias}/meta")["epoch"]}}})
    assert served.ask(alias).status == 404


@pytest.mark.parametrize("versionid", ["null", "request"])
def test_an_id_that_flags_mean_otherwise_is_none_of_a_version(group, served, versionid):
    put(served, f"{group}/messages/m")
    assert served.refused("PUT", f"{group}/messages/m/versions/{versionid}", EVENT) == (400, "malformed_id")
