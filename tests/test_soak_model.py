"""The model of the stateful test, in plain Python: written histories, its laws, and that documents say what it thinks."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from random import Random

import pytest
from builders import seeds
from soak.documents import DIALECTS, SUFFIXES, write
from soak.edits import edit, first_documents
from soak.model import Catalog, Ingest, Key, TooMuchPruned, broken, definition, missed, read, settle, unfounded
from soak.terms import Document, Group, Resource, Text, as_json, from_json

from lakehouse.ingest.parse.parse import read_as
from lakehouse.text.jsontext import NotJson
from lakehouse.text.redact import redact
from lakehouse.text.yamltext import read_text

X1, X2, X3 = (Resource({"1": Text(name)}, plain=True) for name in ("X1", "X2", "X3"))
BAD = Resource({"1": Text("X1", bad=True)}, plain=True)
M = Key("default", "version", "/messagegroups/g/messages/m/versions/1")
MESSAGE = Key("default", "message", "/messagegroups/g/messages/m")


def of(registry=None, **messages):
    return Document(registry, groups={"g": Group("G", messages)})


def based(base, name="X1"):
    return Resource({"1": Text(name, base=base)}, plain=True)


class History:
    """A catalog, and ingests of a folder into it."""

    def __init__(self):
        self.catalog = Catalog()
        self.folder = {}

    def ingest(self, *only, files=None, **options):
        """Put files into the folder (None: take one away), and ingest it, or some of it."""
        for name, document in (files or {}).items():
            self.folder.pop(name, None)
            if document is not None:
                self.folder[name] = document
        found = {name: self.folder[name] for name in only or self.folder}
        below = frozenset(only) or frozenset(self.folder) | frozenset(self.catalog.said)
        before = self.catalog
        self.catalog, settled = settle(before, Ingest(found, below=below, **options))
        assert unfounded(before, settled, self.catalog) == {}
        return settled

    def text(self, key=M):
        return dict(self.catalog.published[key].said).get("name")

    def owners(self, key=M):
        return self.catalog.published[key].owners


@pytest.fixture
def history():
    return History()


# Written histories


def test_a_cycle_over_a_message_that_is_not_read_refuses_the_new_one(history):
    history.ingest(files={"a": of(p=based("g/r"))})
    settled = history.ingest("b", "s", files={"b": of(r=based("g/p")), "s": of(s=X1)})
    r = Key("default", "version", "/messagegroups/g/messages/r/versions/1")
    assert settled.refused["b"] == {r}
    assert {key.xid.rsplit("/", 1)[-1] for key in history.catalog.published if key.kind == "message"} == {"p", "s"}


def test_a_version_may_extend_an_older_one_of_its_message_and_not_itself(history):
    older, itself = (Resource({"1": Text("X1"), "2": Text("X2", base=base)}) for base in ("g/m/1", "g/m"))
    assert not history.ingest(files={"a": of(m=older)}).refused
    second = M._replace(xid=M.xid.replace("/1", "/2"))
    assert history.ingest(files={"a": of(m=itself)}).refused == {"a": {second}}
    assert dict(history.catalog.published[second].said)["base"] == "/messagegroups/g/messages/m/versions/1"


def test_a_version_falls_with_the_ancestor_that_rules_refuse(history):
    own = {"1": Text("X1", base="g/m/1"), "2": Text("X2"), "3": Text("X3")}
    settled = history.ingest(files={"a": of(m=Resource(own), n=X1)})
    assert {key.xid.rsplit("/", 1)[1] for key in settled.refused["a"]} == {"1", "2", "3"}
    assert MESSAGE not in history.catalog.published
    assert M._replace(xid="/messagegroups/g/messages/n/versions/1") in history.catalog.published


def test_a_document_that_names_its_registry_is_broken_and_mended(history):
    history.ingest(files={"a": of("r", m=X1)})
    then = history.catalog
    history.ingest(files={"a": replace(of("r", m=X1), damage="cut")})
    assert history.catalog.published == then.published
    history.ingest(files={"a": of("r", m=X1)})
    assert history.catalog == then


@pytest.mark.parametrize("prune", [False, True])
def test_a_document_that_changes_its_registry_owns_nothing_in_the_old_one(history, prune):
    history.ingest(files={"a": of("r", m=X1), "b": of("r", n=X1)})
    history.ingest(files={"a": of("q", m=X1)}, prune=prune)
    old = Key("r", "version", M.xid)
    assert (old in history.catalog.published) is not prune
    assert prune or history.owners(old) == ()
    assert history.owners(Key("q", "version", M.xid)) == ("a",)


def test_the_same_documents_again_change_nothing_after_a_takeover(history):
    history.ingest(files={"a": of(m=X1), "b": of(bad=BAD)})
    history.ingest(files={"b": of(bad=BAD, m=X2)})
    assert (history.text(), history.catalog.taken["b"]) == ("X2", {M})
    then = history.catalog
    history.ingest()
    assert history.catalog == then


def test_who_lost_and_said_nothing_new_does_not_win_by_force(history):
    history.ingest(files={"a": of(m=X1)})
    history.ingest(files={"b": of(m=X2)})
    history.ingest(force=True)
    assert (history.text(), history.catalog.published[M].epoch) == ("X2", 2)


def test_who_still_holds_an_entity_gets_it_back_when_its_owner_lets_go(history):
    history.ingest(files={"a": of(m=X1), "b": of(m=X1)})
    history.ingest(files={"a": of(m=X2)})
    assert (history.text(), history.owners()) == ("X2", ("a",))
    history.ingest(files={"a": of()}, prune=True)
    assert (history.text(), history.owners(), history.owners(MESSAGE)) == ("X1", ("b",), ("b",))


def test_who_was_overruled_gets_it_back_too(history):
    history.ingest(files={"a": of(m=X1)})
    history.ingest(files={"b": of(m=X2)})
    history.ingest(files={"b": of()}, prune=True)
    assert (history.text(), history.owners()) == ("X1", ("a",))


@pytest.mark.parametrize("is_read", [False, True])
def test_a_takeover_is_reported_of_who_says_something_new_and_not_of_who_waits(history, is_read):
    history.ingest(files={"a": of(m=X1)})
    history.ingest(files={"b": of(m=X2)})
    history.ingest(*(() if is_read else ("c",)), files={"c": of(m=X1)})
    assert (history.text(), history.owners()) == ("X1", ("a", "c"))
    assert (history.catalog.taken["a"], history.catalog.taken["c"]) == (frozenset(), {M})


def test_a_takeover_is_reported_no_more_when_another_document_takes_over(history):
    history.ingest(files={"a": of(m=X1)})
    history.ingest(files={"b": of(m=X2)})
    assert history.catalog.taken["b"] == {M}
    history.ingest(files={"c": of(m=X3)})
    assert (history.catalog.taken["b"], history.catalog.taken["c"]) == (frozenset(), {M})


def test_a_takeover_stays_reported_where_only_what_is_left_out_is_said_otherwise(history):
    history.ingest(files={"a": of(m=X1)})
    history.ingest(files={"b": of(m=Resource({"1": Text("X2", odd=True)}, plain=True))})
    history.ingest(files={"b": of(m=Resource({"1": Text("X3", odd=True)}, plain=True))})  # the same text
    assert history.catalog.taken["b"] == {M}
    history.ingest(files={"b": of(m=Resource({"1": Text("X3", odd=True)}, plain=True), n=X1)})
    assert history.catalog.taken["b"] == frozenset()


def test_one_version_is_the_default_when_two_documents_name_another(history):
    def versions(default):
        return Resource({"1": Text("X1"), "2": Text("X2")}, default)

    history.ingest(files={"a": of(m=versions("2"))})
    history.ingest(files={"b": of(m=versions("1"))})
    keys = [Key("default", "version", f"{MESSAGE.xid}/versions/{versionid}") for versionid in "12"]
    assert [history.catalog.isdefault(key) for key in keys] == [True, False]
    assert [history.catalog.published[key].epoch for key in keys] == [1, 1]
    history.ingest(files={"b": of()})
    assert [history.catalog.isdefault(key) for key in keys] == [False, True]


@pytest.mark.parametrize("text", [X1, X2])
def test_what_moves_to_another_document_is_taken_from_nobody(history, text):
    history.ingest(files={"a": of(m=X1, n=X1)})
    history.ingest(files={"a": of(n=X1), "b": of(m=text)})
    assert (history.owners(M), history.catalog.taken["b"]) == (("b",), frozenset())


def test_a_rejection_under_strict_is_no_lost_conflict(history):
    history.ingest(files={"a": of(m=X1)})
    history.ingest(files={"b": of(m=X2, bad=BAD)}, strict=True)
    assert history.text() == "X1"
    history.ingest()
    assert (history.text(), history.catalog.lost["b"], history.catalog.taken["b"]) == ("X2", frozenset(), {M})


def test_a_broken_entity_blocks_no_takeover_of_another(history):
    history.ingest(files={"a": of(m=X1, bad=BAD)})
    history.ingest(files={"b": of(m=X2)})
    assert history.text() == "X2"
    history.ingest()
    assert history.text() == "X2"


def test_a_rename_together_with_a_break_says_nothing(history):
    history.ingest(files={"a": of(m=X1), "c": of(n=X1, o=X1)})
    history.ingest(files={"a": None, "b": replace(of(m=X1), damage="cut")})
    assert history.owners() == ("a",)
    history.ingest(prune=True)
    assert M not in history.catalog.published


def test_of_two_that_say_something_new_the_first_wins(history):
    history.ingest(files={"a": of(m=X1), "b": of(m=X2)})
    assert (history.text(), history.catalog.lost["b"]) == ("X1", {M})
    history.ingest(files={"c": of(m=X2)})
    assert (history.owners(), history.catalog.lost["b"]) == (("b", "c"), frozenset())


def test_more_than_half_is_pruned_by_force_only(history):
    history.ingest(files={"a": of(m=X1), "b": Document(groups={"h": Group("H")})})
    with pytest.raises(TooMuchPruned):
        history.ingest(files={"a": None}, prune=True)
    history.ingest(prune=True, force=True)
    assert M not in history.catalog.published


def test_more_than_half_of_a_small_registry_is_not_pruned_since_a_large_one_loses_little(history):
    large = Document(registry="p", groups={"h": Group("H", {f"m{number}": X1 for number in range(9)})})
    history.ingest(files={"a": of(m=X1), "b": large, "c": Document(registry="p", groups={"i": Group("I")})})
    with pytest.raises(TooMuchPruned, match="of default"):
        history.ingest(files={"a": None, "c": None}, prune=True)


def test_a_schema_that_goes_leaves_what_is_published(history):
    user = of(m=Resource({"1": Text("X1", schema="s/t")}, plain=True))
    schemas = Document(schemagroups={"s": Group("S", {"t": X1})})
    history.ingest(files={"a": user, "s": schemas, "z": of(n=X1)})
    history.ingest(files={"s": Document(schemagroups={"s": Group("S")}), "z": of(n=X2)}, prune=True)
    assert M in history.catalog.published
    assert broken(history.catalog.published) == {M: "schema"}
    settled = history.ingest(files={"b": replace(user, groups={"h": Group("H", {"p": user.groups["g"].members["m"]})})})
    assert {key.xid for key in settled.refused["b"]} == {"/messagegroups/h/messages/p/versions/1"}


# Laws


@pytest.mark.parametrize("seed", seeds(30, 150))
def test_laws_of_the_model(seed):
    random = Random(seed)
    catalog, documents = Catalog(), first_documents(random)
    for _ in range(15):
        edit(random, documents)
        assert {path: from_json(json.loads(json.dumps(as_json(one)))) for path, one in documents.items()} == documents
        some = {path: one for path, one in documents.items() if random.random() < 0.8}
        below = frozenset(some) | (frozenset(catalog.said) - frozenset(documents))
        flags = {name: random.random() < 0.3 for name in ("prune", "force", "strict")}
        before = catalog
        try:
            catalog, settled = settle(before, Ingest(some, below=below, **flags))
        except TooMuchPruned:
            continue
        assert missed(before, catalog) == set()
        assert unfounded(before, settled, catalog) == {}
        assert settle(catalog, Ingest(some, below=below, **flags))[0] == catalog, "the same again"
        check_laws(catalog)


def check_laws(catalog):
    said = {key for every in catalog.said.values() for key in every}
    assert said <= set(catalog.published), "what a known document says is there"
    for key, one in catalog.published.items():
        sayers = {path for path, every in catalog.said.items() if every.get(key) == one.said}
        assert key.kind == "registry" or set(one.owners) == sayers
        if key.kind in ("message", "schema"):
            default = f"{key.xid}/versions/{dict(one.said)['default']}"
            assert Key(key.registry, "version" if key.kind == "message" else "schemaversion", default) in catalog.published
        if "/versions/" in key.xid:
            resource = key.xid.split("/versions/")[0]
            assert Key(key.registry, "message" if key.kind == "version" else "schema", resource) in catalog.published


# Documents say what the model thinks

COLUMNS = {"registry": {"name": "name"}, "group": {"name": "name"}, "endpoint": {"name": "name"},
           "message": {"defaultversionid": "default"}, "schema": {"defaultversionid": "default"},
           "version": {"name": "name", "ancestor": "ancestor", "basemessage": "base", "dataschemaxid": "schema"},
           "schemaversion": {"name": "name", "ancestor": "ancestor", "schema": "text"}}  # fmt: skip


def said_by(reading, registry):
    """Return what the product's parser makes of a document, in the terms of the model."""
    found = {}
    for row in reading.rows:
        body = json.loads(row.body)
        values = {name: body.get(column) for column, name in COLUMNS[row.kind].items()}
        if row.kind == "endpoint":
            values["will"] = body["protocoloptions"].get("willmessage")
        if "text" in values:
            values["text"] = values["text"]["title"]
        found[Key(registry, row.kind, row.xid)] = definition(**values)
    return found


@pytest.mark.parametrize("seed", seeds(10, 40))
def test_a_document_says_the_same_in_every_format_and_dialect(seed):
    random = Random(seed)
    documents = first_documents(random)
    for _ in range(4):
        edit(random, documents)
        for document in documents.values():
            for suffix in SUFFIXES:
                agrees(document, f"x{suffix}")
    plain = {path: one for path, one in documents.items() if not one.doubled and one.damage is None}
    for path, document in plain.items():
        if all(member.plain for group in document.groups.values() for member in group.members.values()):
            for dialect in DIALECTS:
                agrees(replace(document, dialect=dialect), path)


def agrees(document, path):
    expected = read(document)
    text = write(document, path)
    try:
        text = gzip.decompress(text) if path.endswith(".gz") else text
        value, problems = read_text(text, path, 64)
    except NotJson:
        assert expected.rejected or document.damage == "empty"
        return
    if document.damage is not None or document.doubled:
        return  # reported elsewhere
    problems += redact(value)
    dialect, reading = read_as(value, problems, path, None)
    assert dialect == document.dialect
    rows = said_by(reading, expected.registry)
    refused = {Key(expected.registry, one.kind, one.xid) for one in reading.findings if one.action == "quarantined"}
    assert {key: rows[key] for key in rows if key not in refused} == expected.accepted
    assert refused == expected.refused
