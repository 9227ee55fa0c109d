"""Who owns what: histories of documents that say the same, say otherwise, take entities over, or drop them (decision 4)."""

from __future__ import annotations

import json

import pytest

from lakehouse.domain.ownership import Policy
from lakehouse.ingest.pipeline import IngestRequest
from lakehouse.settings import read_settings

PRUNE = IngestRequest(Policy(prune=True))
BAD = {"envelope": 5}


def says(**messages):
    """Build a document of the group g; a text is a message with that name."""
    written = {name: {"name": said} if isinstance(said, str) else said for name, said in messages.items()}
    return {"messagegroups": {"g": {"messages": written}}}


@pytest.fixture
def history(catalog):
    """A catalog, as shipped, with short words for what a history does and shows."""
    return History(catalog)


class History:
    def __init__(self, catalog):
        self.catalog = catalog
        self.catalog.settings = catalog.settings.model_copy(update={"check_relations": True})

    def write(self, **documents):
        for name, said in documents.items():
            self.catalog.write(f"{name}.json", said)

    def remove(self, name):
        (self.catalog.documents / f"{name}.json").unlink()

    def ingest(self, *names, **options):
        return self.catalog.ingest(*(self.catalog.documents / f"{name}.json" for name in names), **options)

    def published(self):
        """Return for each Version its name and its owners."""
        query = "SELECT message_xid, versionid, name, document_uris FROM xregistry.versions"
        found = {}
        for xid, versionid, name, uris in self.catalog.rows(query):
            owners = "".join(uri.rsplit("/", 1)[1].removesuffix(".json") for uri in uris)
            messageid = xid.rsplit("/", 1)[1]
            found[messageid if versionid == "1" else f"{messageid}/{versionid}"] = (name, owners)
        return found

    def current(self):
        query = """SELECT substring_index(document_uri, '/', -1), rule_id, coalesce(substring_index(xid, '/', -3), '')
            FROM xregistry.current_violations ORDER BY ALL"""
        return [(uri.removesuffix(".json"), rule, xid) for uri, rule, xid in self.query(query)]

    def query(self, query):
        from lakehouse.query.sql import run_query

        rows = run_query(self.catalog.spark, self.catalog.settings, query.replace("xregistry.", "")).frame.collect()
        return list(map(tuple, rows))


@pytest.mark.slow
def test_a_schema_that_goes_stops_nobody(history):
    # Given a message that names a schema of another document
    schemas = {"schemagroups": {"s": {"schemas": {"t": {"format": "Avro/1.9"}, "u": {"format": "Avro/1.9"}}}}}
    history.write(a=says(m={"dataschemaxid": "/schemagroups/s/schemas/t"}), schemas=schemas)
    assert not history.ingest().refused
    # When the schema goes and a third document says something
    del schemas["schemagroups"]["s"]["schemas"]["t"]
    history.write(schemas=schemas, c=says(n="N"))
    # Then as long as the schema stays published nothing is wrong, and when it goes that is reported and stops nobody
    assert history.ingest().violations["error"] == 0
    history.write(c=says(n="N2"))
    summary = history.ingest(request=PRUNE)
    assert (summary.refused, summary.violations["error"]) == (False, 1)
    found = history.catalog.rows("SELECT rule_id, action FROM xregistry.violations WHERE severity = 'error'")
    assert found == [("MSG-183", "kept")]
    assert history.published() == {"m": (None, "a"), "n": ("N2", "c")}
    assert history.catalog.rows("SELECT count(*) FROM xregistry.schemas") == [1]
    # And when the message is edited and names it still, that is refused, and kept, though the published one has the same
    # finding
    history.write(a=says(m={"dataschemaxid": "/schemagroups/s/schemas/t", "name": "M"}))
    assert history.ingest().refused
    assert history.published()["m"] == (None, "a")
    found = history.catalog.rows("SELECT rule_id, action, raw FROM xregistry.violations WHERE severity = 'error' ORDER BY ALL")
    assert [one[:2] for one in found] == [("MSG-115", "quarantined"), ("MSG-183", "kept"), ("MSG-183", "quarantined")]
    assert json.loads(found[2][2])["name"] == "M"


@pytest.mark.slow
def test_a_group_in_both_spellings_is_refused_and_the_rest_loads(history):
    twice = says(m="M") | {"definitionGroups": {"g": {"definitions": {"n": {"name": "N"}}}}}
    twice["messagegroups"]["h"] = {"messages": {"o": {"name": "O"}}}
    history.write(a=twice, b={"messagegroups": {"i": {"messages": {"p": {"name": "P"}}}}})
    assert history.ingest().refused
    assert history.published() == {"o": ("O", "a"), "p": ("P", "b")}
    assert history.ingest().snapshot_id is None


@pytest.mark.slow
def test_a_file_vanishes_only_by_itself_and_a_folder_only_what_it_lists(history):
    documents = history.catalog.documents
    history.catalog.write("c.txt", says(c="C"))
    history.write(a=says(a="A"), b=says(b="B"))
    history.catalog.ingest(documents, documents / "c.txt")
    assert history.ingest("a", request=PRUNE).entities["messages"]["deleted"] == 0
    assert history.ingest(request=PRUNE).entities["messages"]["deleted"] == 0  # c.txt exists, but no folder lists it
    history.remove("b")
    assert history.catalog.ingest(documents / "a*.json", request=PRUNE).entities["messages"]["deleted"] == 0
    assert history.catalog.ingest(documents / "[a-c].{json,txt}", request=PRUNE).entities["messages"]["deleted"] == 1
    assert set(history.published()) == {"a", "c"}


@pytest.mark.slow
def test_what_is_dropped_stays_published_without_prune_and_is_no_dangling_target(history):
    two = {"versions": {"1": {"name": "one"}, "2": {"name": "two", "ancestor": "1"}}}
    history.write(a=says(m=two, base="B", n={"basemessage": "/messagegroups/g/messages/base"}))
    history.ingest()
    history.write(
        a=says(
            m={"versions": {"2": {"name": "two", "ancestor": "1"}}},
            n={"basemessage": "/messagegroups/g/messages/base", "name": "N"},
        )
    )
    summary = history.ingest()
    assert (summary.refused, summary.violations) == (False, {"error": 0, "warning": 0, "info": 0})


@pytest.mark.slow
def test_a_base_that_is_deleted_is_missed_in_the_same_ingest(history):
    history.write(a=says(base="B"), b=says(m={"basemessage": "/messagegroups/g/messages/base"}, bad=BAD))
    history.ingest()
    history.write(a=says(other="O"))
    summary = history.ingest(request=PRUNE)
    assert summary.violations["info"] == 1
    assert ("b", "MSG-150", "m/versions/1") in history.current()
    assert history.ingest(request=PRUNE).snapshot_id is None


@pytest.mark.slow
def test_a_cycle_through_a_document_that_was_not_read_costs_its_last_link_only(history):
    at = "/messagegroups/g/messages/"
    history.write(a=says(p={"basemessage": f"{at}r"}))
    assert not history.ingest().refused
    history.write(b=says(r={"basemessage": f"{at}p"}), good=says(s="S"))
    summary = history.ingest()
    assert summary.entities["messages"] | {"unchanged": 0} == {
        "inserted": 1, "updated": 0, "deleted": 0, "unchanged": 0, "quarantined": 1,
    }  # fmt: skip
    assert history.published() == {"p": (None, "a"), "s": ("S", "good")}
    assert ("b", "MSG-146", "r/versions/1") in history.current()
    assert not [one for one in history.current() if one[:2] == ("a", "MSG-146")]
    assert history.ingest().snapshot_id is None
    # and the published link stays untouched when its document is read for another reason
    history.write(a=says(p={"basemessage": f"{at}r"}, bad=BAD))
    history.ingest()
    assert history.published() == {"p": (None, "a"), "s": ("S", "good")}
    assert not [one for one in history.current() if one[:2] == ("a", "MSG-146")]


def test_what_was_wrong_with_a_text_is_mended_where_it_was_reported(history):
    named = says(m="M") | {"registryid": "r"}
    history.catalog.write("a.json", b"{")
    history.ingest()
    history.write(a=named)
    assert not history.ingest().refused
    assert history.current() == []
    history.catalog.write("a.json", b"{")
    assert history.ingest().refused
    assert history.published() == {"m": ("M", "a")}
    history.write(a=named)
    assert not history.ingest().refused
    assert history.current() == []


@pytest.mark.slow
def test_a_document_leaves_the_registry_that_it_no_longer_names(history):
    history.write(a=says(m="M") | {"registryid": "one"}, b=says(n="N") | {"registryid": "one"})
    history.ingest()
    history.write(a=says(m="M") | {"registryid": "two"})
    history.ingest()
    query = "SELECT registryid, size(document_uris) FROM xregistry.messages WHERE messageid = 'm' ORDER BY 1"
    assert history.catalog.rows(query) == [("one", 0), ("two", 1)]
    history.ingest(request=PRUNE)
    assert history.catalog.rows(query) == [("two", 1)]
    assert history.ingest().snapshot_id is None


AT = "/messagegroups/g/messages/"
IN_A_CIRCLE = {name: {"basemessage": f"{AT}{base}"} for name, base in (("p", "q"), ("q", "p"))}


@pytest.mark.parametrize(
    ("wrong", "interpreted"),
    [
        pytest.param({"n": BAD}, True, id="as it is read", marks=pytest.mark.slow),
        pytest.param(IN_A_CIRCLE, True, id="by rules between few entities"),
        pytest.param(IN_A_CIRCLE, False, id="by rules between many entities", marks=pytest.mark.slow),
    ],
)
def test_a_document_that_is_refused_whole_stays_in_the_registry_that_it_no_longer_names(history, wrong, interpreted):
    if not interpreted:
        history.catalog.settings = history.catalog.settings.model_copy(update={"interpreted_rows": 0, "planner": "spark"})
    history.write(a=says(m="M") | {"registryid": "one"}, b=says(n="N") | {"registryid": "one"})
    history.ingest()
    # When a document names another registry, and is refused whole
    kept = {"dataschemauri": "file:///home/me/order.avsc", "dataschemaformat": "Avro/1.9"}  # a warning, MSG-179
    history.write(a=says(m="M2", o=kept, **wrong) | {"registryid": "two"})
    assert history.ingest(request=IngestRequest(strict=True)).documents["rejected"] == 1
    # Then what is published of it stays, and so does the document
    assert history.catalog.rows("SELECT registryid, messageid, size(document_uris) FROM xregistry.messages ORDER BY ALL") == [
        ("one", "m", 1),
        ("one", "n", 1),
    ]
    reported = "SELECT registryid, status FROM xregistry.documents WHERE document_uri LIKE '%/a.json'"
    assert history.query(reported) == [("one", "rejected")]
    found = "SELECT DISTINCT registryid, rule_id FROM xregistry.current_violations"
    assert history.query(found) == [("one", "DOC-004")]
    # And once it is fixed, it moves
    history.write(a=says(m="M2") | {"registryid": "two"})
    assert not history.ingest(request=IngestRequest(Policy(prune=True), strict=True)).refused
    assert history.query(reported) == [("two", "loaded")]
    query = "SELECT registryid, message_xid, name FROM xregistry.versions ORDER BY ALL"
    assert history.catalog.rows(query) == [("one", f"{AT}n", "N"), ("two", f"{AT}m", "M2")]
    assert history.current() == []


@pytest.mark.slow
def test_a_takeover_stays_reported_when_the_same_documents_are_read_again(history):
    history.write(a=says(m="1"), b=says(bad=BAD))
    history.ingest()
    history.write(b=says(bad=BAD, m="2"))
    history.ingest()
    assert ("b", "DOC-002", "m/versions/1") in history.current()
    reported = history.current()
    assert history.ingest().snapshot_id is None
    assert history.current() == reported
    assert history.published() == {"m": ("2", "b")}


@pytest.mark.slow
def test_force_lets_no_document_win_again_that_lost(history):
    history.write(a=says(m="1"))
    history.ingest()
    history.write(b=says(m="2"))
    history.ingest()
    for request in (IngestRequest(Policy(force=True)), IngestRequest(), IngestRequest(Policy(force=True, prune=True))):
        summary = history.ingest(request=request)
        assert (summary.snapshot_id, summary.refused) == (None, False)
        assert history.published() == {"m": ("2", "b")}
    # but what it changes counts, and only that
    history.write(a=says(m="1", n="N"))
    history.ingest()
    assert history.published() == {"m": ("2", "b"), "n": ("N", "a")}
    history.write(a=says(m="3", n="N"))
    history.ingest()
    assert history.published() == {"m": ("3", "a"), "n": ("N", "a")}


@pytest.mark.slow
@pytest.mark.parametrize("taken_over", [False, True])
def test_who_still_says_it_gets_it_back_when_the_owner_lets_go(history, taken_over):
    if taken_over:
        history.write(a=says(m="1", x="X"))
        history.ingest()
        history.write(b=says(m="2"))
    else:
        history.write(b=says(m="1"), a=says(m="1", x="X"))
        history.ingest()
        history.write(b=says(m="2"))
    history.ingest()
    assert history.published()["m"] == ("2", "b")
    history.write(b=says(other="O"))
    # the owner, read alone, drops it; what a says is known, so nothing is deleted
    assert history.ingest("b", request=PRUNE).entities["messages"]["deleted"] == 0
    assert history.published()["m"] == ("2", "")
    summary = history.ingest(request=PRUNE)
    assert (summary.refused, summary.violations["info"]) == (False, 1)
    assert history.published() == {"m": ("1", "a"), "x": ("X", "a"), "other": ("O", "b")}
    assert ("a", "DOC-005", "m/versions/1") in history.current()
    assert history.catalog.rows("SELECT DISTINCT chain_status FROM xregistry.effective_messages") in ([], ["none"])
    assert history.ingest(request=PRUNE).snapshot_id is None


@pytest.mark.slow
@pytest.mark.parametrize("is_broken", [False, True])
def test_who_waits_owns_what_others_publish_as_it_says_though_it_is_not_read(history, is_broken):
    # Given a document that was overruled, and waits
    history.write(c=says(m="1"))
    history.ingest()
    history.write(a=says(m="2"))
    history.ingest()
    # When another one says the same as it, while it is not read, or cannot be
    history.write(a=says(x="X"), b=says(m="1"))
    if is_broken:
        history.catalog.write("c.json", b"{")
        history.ingest()
    else:
        history.ingest("a", "b")
    # Then both own it, and it waits no more
    assert history.published() == {"m": ("1", "bc"), "x": ("X", "a")}
    last = """SELECT max_by(body, snapshot_id) FROM xregistry.changes
        WHERE kind = 'document' AND xid LIKE '%/c.json'"""
    assert "disputes" not in json.loads(history.catalog.rows(last)[0])
    history.write(c=says(m="1"))
    history.ingest()
    assert history.published()["m"] == ("1", "bc")
    assert history.ingest().snapshot_id is None


@pytest.mark.slow
@pytest.mark.parametrize("is_read", [False, True])
def test_a_takeover_is_reported_of_who_says_something_new_and_not_of_who_waits(history, is_read):
    history.write(a=says(m="1"))
    history.ingest()
    history.write(b=says(m="2"))
    history.ingest()
    history.write(c=says(m="1"))
    history.ingest(*(() if is_read else ("c",)))
    assert history.published() == {"m": ("1", "ac")}
    assert [one for one in history.current() if one[1] == "DOC-002"] == [("c", "DOC-002", "m/versions/1")]


def endpoint(**more):
    options = {"endpoints": [{"uri": "mqtt://host"}], "options": {"willmessage": "/messagegroups/g/messages/m"}}
    return {"usage": ["producer"], "protocol": "MQTT/5.0", "protocoloptions": options} | more


@pytest.mark.slow
def test_what_is_published_is_reported_of_the_same_documents_whichever_were_read(history):
    # Given two endpoints, one of them refused in another document, and their will message
    event = {"envelope": "CloudEvents/1.0", "envelopemetadata": {"type": {"value": "m"}}}
    others = dict.fromkeys("nopqrs", "N")
    history.write(a={"endpoints": {"e": endpoint()}}, x={"endpoints": {"f": endpoint()}}, z=says(m=event, **others))
    history.write(d={"endpoints": {"f": endpoint(epoch="first")}})
    history.ingest()
    # When the message goes, with the document of one endpoint, and another document says the same as that of the other
    history.write(b={"endpoints": {"e": endpoint()}}, z=says(**others))
    history.remove("x")
    history.ingest(request=PRUNE)
    # Then that they lead nowhere is reported for their owners, and nothing more is reported when the same is ingested again
    query = """SELECT substring_index(document_uri, '/', -1), xid FROM xregistry.violations WHERE rule_id = 'END-173'
        ORDER BY ALL"""
    reported = [("", "/endpoints/f"), ("a.json", "/endpoints/e"), ("b.json", "/endpoints/e")]
    assert history.catalog.rows(query) == reported
    assert history.ingest(request=PRUNE).snapshot_id is None
    assert history.catalog.rows(query) == reported


def defaults(history):
    query = "SELECT message_xid, collect_list(versionid) FROM xregistry.versions WHERE isdefault GROUP BY 1"
    named = "SELECT xid, array(defaultversionid) FROM xregistry.messages"
    return sorted(map(str, history.catalog.rows(query))), sorted(map(str, history.catalog.rows(named)))


def versions(*ids, **more):
    return {"versions": {one: {"name": one} for one in ids}} | more


@pytest.mark.slow
def test_one_version_is_the_default_whoever_holds_the_others(history):
    history.write(a=says(m=versions("1", "2")))
    history.ingest()
    epochs = "SELECT versionid, epoch, isdefault FROM xregistry.versions ORDER BY 1"
    history.write(a=says(m=versions("1")))
    history.ingest()
    was, named = defaults(history)
    assert was == named
    assert history.catalog.rows(epochs) == [("1", 1, True), ("2", 1, False)]  # isdefault is no part of a definition
    history.write(b=says(m=versions("2", "3")))
    history.ingest()
    was, named = defaults(history)
    assert was == named
    for request in (PRUNE, IngestRequest(Policy(force=True)), IngestRequest()):
        history.ingest(request=request)
        was, named = defaults(history)
        assert was == named
    hashes = "SELECT count(*) FROM xregistry.changes WHERE content_hash <> sha2(body, 256)"
    assert history.catalog.rows(hashes) == [0]


@pytest.mark.slow
def test_a_document_rejected_under_strict_did_not_lose(history):
    history.write(a=says(m="1"))
    history.ingest()
    history.write(b=says(m="2", bad=BAD))
    assert history.ingest(request=IngestRequest(strict=True)).documents["rejected"] == 1
    history.ingest()
    assert ("b", "DOC-002", "m/versions/1") in history.current()
    assert history.published() == {"m": ("2", "b")}


@pytest.mark.slow
def test_a_takeover_is_reported_until_its_document_changes_though_the_change_is_rejected(history):
    history.write(a=says(m="1"))
    history.ingest()
    history.write(b=says(m="2"))
    history.ingest()
    assert ("b", "DOC-002", "m/versions/1") in history.current()
    history.write(b=says(m="2", bad=BAD))
    assert history.ingest(request=IngestRequest(strict=True)).documents["rejected"] == 1
    history.ingest()
    assert history.published() == {"m": ("2", "b")}
    assert not [one for one in history.current() if one[1] == "DOC-002"]


@pytest.mark.slow
def test_an_unrelated_error_neither_helps_nor_hinders_a_takeover(history):
    history.write(a=says(m="1", bad=BAD))
    history.ingest()
    history.write(b=says(m="2"))
    history.ingest()
    assert history.published() == {"m": ("2", "b")}
    assert ("b", "DOC-002", "m/versions/1") in history.current()
    assert history.ingest().snapshot_id is None


@pytest.mark.slow
def test_what_is_refused_in_a_document_keeps_nothing_that_stands_below_it(history):
    others = dict.fromkeys("nopq", "N")
    history.write(a=says(m=versions("1", "2"), **others), b=says(m=versions("2"), **others))
    history.ingest()
    # When the message is refused in one document, which never had Version 1, and the one that had it is gone
    history.remove("a")
    history.write(b=says(m={"versions": {"2": BAD}}, **others))
    history.ingest(request=PRUNE)
    # Then what nobody says is pruned
    assert set(history.published()) == {"m/2", *others}
    assert history.ingest(request=PRUNE).snapshot_id is None


@pytest.mark.slow
def test_what_was_refused_in_a_document_and_is_gone_from_it_keeps_nothing(history):
    def bad(**messages):
        written = says(**messages)
        written["messagegroups"]["g"]["epoch"] = "first"
        return written

    history.write(a=says(m="1"), b=bad(m="2"), c=says(**dict.fromkeys("nopq", "N")))
    history.ingest()
    history.write(b=bad())
    history.ingest()
    history.remove("a")
    history.ingest(request=PRUNE)
    assert set(history.published()) == set("nopq")


@pytest.mark.slow
def test_what_is_refused_in_a_renamed_document_is_not_pruned(history):
    history.write(a=says(m="1", n="N", o="O"))
    history.ingest()
    history.remove("a")
    history.write(c=says(m=BAD, n="N", o="O"))
    history.ingest(request=PRUNE)
    assert history.published() == {"m": ("1", ""), "n": ("N", "c"), "o": ("O", "c")}
    history.ingest(request=PRUNE)
    assert "m" in history.published()
    history.write(c=says(n="N", o="O"))
    history.ingest(request=PRUNE)
    assert history.published() == {"n": ("N", "c"), "o": ("O", "c")}


@pytest.mark.slow
def test_of_several_new_definitions_the_first_by_uri_wins_and_the_others_wait(history):
    history.write(a=says(m="1"), b=says(m="2"), c=says(m="3"))
    assert history.ingest().refused
    assert history.published() == {"m": ("1", "a")}
    assert [one for one in history.current() if one[1] == "DOC-001"] == [
        ("b", "DOC-001", "m/versions/1"),
        ("c", "DOC-001", "m/versions/1"),
    ]
    again = history.ingest()
    assert (again.refused, again.snapshot_id) == (True, None)
    history.write(a=says(x="X"))
    history.ingest()
    assert history.published() == {"m": ("2", "b"), "x": ("X", "a")}
    facts = history.catalog.rows("SELECT body FROM xregistry.changes WHERE kind = 'document' AND snapshot_id = 2")
    disputes = [one for body in facts for one in json.loads(body).get("disputes", [])]
    assert sorted({one.get("rule_id") for one in disputes}) == ["DOC-001", "DOC-005"]


@pytest.mark.slow
def test_a_message_of_the_oldest_dialect_without_versions_is_changed_by_editing_it(history):
    def oldest(name, **versions):
        message = {"id": "m", "name": name} if not versions else {"id": "m", "versions": versions}
        return {"definitionGroups": {"g": {"id": "g", "definitions": {"m": message}}}}

    # Given a message of the oldest dialect without Versions, that was edited
    history.write(a=oldest("one"))
    history.ingest()
    history.write(a=oldest("two"))
    assert not history.ingest().refused
    assert history.published() == {"m": ("two", "a")}
    # When another document says that the message has two Versions
    history.write(b=oldest("", **{"1": {"name": "two"}, "2": {"name": "new"}}))
    history.ingest("b")
    history.write(a=oldest("three"))
    # Then the plain definition is edited all the same
    assert not history.ingest().refused
    assert history.published() == {"m": ("three", "a"), "m/2": ("new", "b")}


@pytest.mark.slow
def test_what_is_reported_of_a_document_that_was_not_read_stands_where_it_wrote_it(catalog):
    catalog.settings = read_settings(warehouse=catalog.settings.warehouse)  # with the rules between entities
    based = {"envelope": "CloudEvents/1.0", "envelopemetadata": {"type": {"value": "m"}}}
    based["basemessageuri"] = "/messagegroups/g/messages/no"
    catalog.write("b.json", {"specversion": "1.0-rc1", "messagegroups": {"g": {"messages": {"m": based}}}})
    for name in ("one", "two"):
        edited = catalog.write("a.json", {"specversion": "1.0-rc2", "messagegroups": {"h": {"name": name}}})
        catalog.ingest(*([edited] if name == "two" else []))
    reported = catalog.rows("SELECT rule_id, pointer FROM xregistry.violations")
    assert reported == [("MSG-150", "/messagegroups/g/messages/m/basemessageuri")]


@pytest.mark.slow
def test_what_is_reported_of_a_first_owner_that_was_not_read_stands_where_it_wrote_it(catalog):
    catalog.settings = read_settings(warehouse=catalog.settings.warehouse)  # with the rules between entities
    based = {"envelope": "CloudEvents/1.0", "envelopemetadata": {"type": {"value": "m"}}}
    no = "/messagegroups/g/messages/no"
    a = catalog.write(
        "a.json", {"specversion": "1.0-rc1", "messagegroups": {"g": {"messages": {"m": based | {"basemessageuri": no}}}}}
    )
    catalog.ingest(a)
    # When another document says the same in another dialect
    b = catalog.write(
        "b.json", {"specversion": "1.0-rc2", "messagegroups": {"g": {"messages": {"m": based | {"basemessage": no}}}}}
    )
    catalog.ingest(b)
    reported = catalog.rows("SELECT substring_index(document_uri, '/', -1), pointer FROM xregistry.violations ORDER BY ALL")
    at = "/messagegroups/g/messages/m"
    assert reported == [("a.json", f"{at}/basemessageuri"), ("b.json", f"{at}/basemessage")]


@pytest.mark.slow
def test_a_registry_shows_the_attributes_of_the_first_document_that_is_left(history):
    history.write(a=says(m="M") | {"name": "A"}, b=says(n="N", o="O", p="P") | {"name": "B"}, c=says(q="Q") | {"name": "C"})
    history.ingest()
    query = "SELECT name, epoch FROM registries"
    assert history.catalog.rows(query) == [("A", 1)]
    history.remove("a")
    history.ingest(request=PRUNE)
    assert history.catalog.rows(query) == [("B", 2)]
    assert history.current() == [("c", "DOC-001", "/")]
    assert history.ingest(request=PRUNE).snapshot_id is None


@pytest.mark.slow
@pytest.mark.parametrize("named", [(), ("a",)], ids=["of a folder", "alone"])
def test_a_registry_that_its_first_document_left_shows_the_attributes_of_the_next(history, named):
    history.write(a=says(m="M") | {"name": "A", "registryid": "r"}, b=says(n="N") | {"name": "B", "registryid": "r"})
    history.ingest()
    history.write(a=says(m="M") | {"name": "A", "registryid": "s"})
    history.ingest(*named)
    query = "SELECT registryid, name, size(document_uris) FROM registries ORDER BY registryid"
    if named:  # the next one is read when it is looked at again, changed or not
        assert history.catalog.rows(query) == [("r", "A", 1), ("s", "A", 1)]
        history.ingest()
    assert history.catalog.rows(query) == [("r", "B", 1), ("s", "A", 1)]
    assert history.current() == []
    assert history.ingest().snapshot_id is None
