from __future__ import annotations

from urllib.parse import quote

import pytest
from builders import ids, law
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.text.jsontext import pointer_of
from lakehouse.text.xid import as_xid, id_problem, split_version, xid_of


@pytest.mark.parametrize("text", ["a", "_", "0", "A.b-c~d:e@f", "Contoso.Lamp.On", "1.0:Type", "a" * 128])
def test_an_id_may_hold_letters_digits_and_a_few_signs(text):
    assert id_problem(text) is None


@pytest.mark.parametrize(
    "text", ["", ".a", "-a", "~a", ":a", "@a", "a b", "a/b", "a#b", "a?b", "a%20b", "é", "\uff11", "a\n", "a" * 129, "a\x00"]
)
def test_an_id_with_anything_else_has_a_problem_that_shows_it(text):
    problem = id_problem(text)
    assert problem is not None
    assert repr(text) in problem


@pytest.mark.parametrize(
    ("reference", "xid"),
    [
        ("/messagegroups/g/messages/m", "/messagegroups/g/messages/m"),
        ("#/messagegroups/g/messages/m", "/messagegroups/g/messages/m"),
        ("  #/messagegroups/g/messages/m ", "/messagegroups/g/messages/m"),
        ("#/definitionGroups/g/definitions/m", "/messagegroups/g/messages/m"),
        ("/definitionGroups/g/definitions/m", "/messagegroups/g/messages/m"),
        ("#/schemaGroups/g/schemas/s/versions/1", "/schemagroups/g/schemas/s/versions/1"),
        ("#/endpoints/e/definitions/m", "/endpoints/e/messages/m"),
        ("#/messagegroups/a%3Ab/messages/m", "/messagegroups/a:b/messages/m"),
        ("#/messagegroups/a~0b/messages/m", "/messagegroups/a~b/messages/m"),
        ("#/messagegroups/a~01/messages/m", "/messagegroups/a~1/messages/m"),
        ("#/messagegroups/a%7E0b/messages/m", "/messagegroups/a~b/messages/m"),
        ("/messagegroups/a~0b/messages/m", "/messagegroups/a~0b/messages/m"),
    ],
)
def test_a_reference_within_the_registry_becomes_an_xid(reference, xid):
    assert as_xid(reference) == xid


def test_an_id_that_is_spelled_like_an_old_collection_stays():
    assert as_xid("#/definitionGroups/definitions/definitions/schemaGroups") == "/messagegroups/definitions/messages/schemaGroups"


@pytest.mark.parametrize(
    "reference",
    [
        "",
        " ",
        "#",
        "#/",
        "/",
        "#messagegroups/g",
        "messagegroups/g/messages/m",
        "https://other.example/messagegroups/g",
        "https://other.example/r.json#/messagegroups/g",
        "//other.example/messagegroups/g",
        "/messagegroups//messages/m",
        "/messagegroups/g/",
        "/messagegroups/g?inline",
        "/messagegroups/g#x",
        "/messagegroups/a b",
        "#/messagegroups/a%20b",
    ],
)
def test_anything_else_is_no_xid(reference):
    assert as_xid(reference) is None


@pytest.mark.parametrize("reference", ["#/messagegroups/g~1messages~1m", "#/messagegroups/g%2Fmessages%2Fm"])
def test_an_escaped_slash_is_part_of_an_id_and_never_parts_an_xid(reference):
    # No id holds a slash, so such a reference leads nowhere; above all it must not lead to message m of group g.
    assert as_xid(reference) is None


def test_the_xid_of_the_registry_is_a_slash():
    assert xid_of() == "/"


collections = st.sampled_from(["messagegroups", "endpoints", "schemagroups", "messages", "schemas", "versions"])
paths = st.lists(st.tuples(collections, ids), min_size=1, max_size=3).map(
    lambda pairs: [token for pair in pairs for token in pair]
)


@law
@given(paths)
def test_as_xid_of_an_xid_is_itself(tokens):
    assert as_xid(xid_of(*tokens)) == xid_of(*tokens)


@law
@given(paths)
def test_as_xid_of_a_json_pointer_to_an_entity_is_its_xid(tokens):
    assert as_xid("#" + pointer_of(*tokens)) == xid_of(*tokens)
    assert as_xid("#" + quote(pointer_of(*tokens), safe="/")) == xid_of(*tokens)


@law
@given(st.text())
def test_as_xid_takes_any_text_and_its_answer_is_stable(text):
    xid = as_xid(text)
    assert xid is None or as_xid(xid) == xid


@pytest.mark.parametrize(
    ("xid", "parts"),
    [
        ("/messagegroups/g/messages/m/versions/1", ("/messagegroups/g/messages/m", "1")),
        ("/endpoints/e/messages/versions/versions/v", ("/endpoints/e/messages/versions", "v")),
        ("/schemagroups/g/schemas/s", ("/schemagroups/g/schemas/s", None)),
        ("/messagegroups/versions", ("/messagegroups/versions", None)),
        ("/messagegroups/g/messages/m/versions", ("/messagegroups/g/messages/m/versions", None)),
        ("/messagegroups/g/messages/m/others/1", ("/messagegroups/g/messages/m/others/1", None)),
        ("/messagegroups/g/messages/m/versions/1/x", ("/messagegroups/g/messages/m/versions/1/x", None)),
        ("https://example.com/g/messages/m/versions/1", ("https://example.com/g/messages/m/versions/1", None)),
    ],
)
def test_an_xid_is_split_at_its_version(xid, parts):
    assert split_version(xid) == parts
