"""Flattening: the views against results written by hand, against an oracle, and the laws that they keep."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from oracle import Catalog, flatten
from pyspark.sql import SparkSession

from lakehouse.settings import read_settings
from lakehouse.store.views import session_with_views

MESSAGE = (
    "registryid string, xid string, group_xid string, messageid string, defaultversionid string, xref string, "
    "document_uris array<string>"
)
VERSION = "registryid string, xid string, basemessage string, base_xid string, attributes map<string,string>"
VIEWS = ("message_chains", "flat_messages", "flat_attributes")
pytestmark = pytest.mark.slow  # the views of short chains are in test_readmodel_views, all of these in domain/test_bases

G = "/messagegroups/g/messages/"


def leaves(value: Any, path: tuple[str, ...] = ()) -> dict[str, str]:
    """Turn a definition in normal form into leaves."""
    opaque = path == ("dataschema",) or (path[:1] in (("envelopemetadata",), ("protocoloptions",)) and path[-1] == "value")
    if isinstance(value, dict) and not opaque and (value or not path):
        return {pointer: leaf for name, member in value.items() for pointer, leaf in leaves(member, (*path, name)).items()}
    tokens = (token.replace("~", "~0").replace("/", "~1") for token in path)
    return {"".join("/" + token for token in tokens): json.dumps(value, separators=(",", ":"))}


def nested(attributes: dict[str, str]) -> dict[str, Any]:
    """Turn leaves into the object that they are of; a pointer above another would be an error."""
    found: dict[str, Any] = {}
    for pointer, leaf in attributes.items():
        *parents, last = (token.replace("~1", "/").replace("~0", "~") for token in pointer[1:].split("/"))
        holder = found
        for token in parents:
            holder = holder.setdefault(token, {})
        assert last not in holder
        holder[last] = json.loads(leaf)
    return found


def look_at(spark: SparkSession, registries: dict[str, Catalog]) -> SparkSession:
    """Open a session in which the views see catalogs that are not stored."""
    messages, versions = [], []
    for registryid, catalog in registries.items():
        for xid, message in catalog.items():
            group, _, name = xid.rpartition("/messages/")
            messages.append((registryid, xid, group, name, message.get("default"), message.get("xref"), ["doc"]))
            for versionid, definition in message.get("versions", {}).items():
                base = definition.get("basemessage")
                own = {name: value for name, value in definition.items() if name != "basemessage"}
                versions.append(
                    (registryid, f"{xid}/versions/{versionid}", base, base if base and base[0] == "/" else None, leaves(own))
                )
    frames = {
        "messages": spark.createDataFrame(messages, MESSAGE),
        "versions": spark.createDataFrame(versions, VERSION),
    }
    return session_with_views(spark, read_settings(), "default", frames, VIEWS)


def flat(session: SparkSession) -> dict[tuple[str, str], tuple[str, dict[str, Any]]]:
    rows = session.sql("SELECT registryid, xid, chain_status, attributes FROM flat_messages").collect()
    found = {(row[0], row[1]): (row[2], nested(row[3])) for row in rows}
    assert len(found) == len(rows), "a message has two rows"
    return found


def one(definition: dict[str, Any], **also: Any) -> dict[str, Any]:
    return {"default": "1", "versions": {"1": definition | also}}


def chain(*definitions: dict[str, Any]) -> Catalog:
    """Build messages m0, m1 ... each the base of the one before."""
    last = len(definitions) - 1
    return {
        f"{G}m{i}": one(definition, **({"basemessage": f"{G}m{i + 1}"} if i < last else {}))
        for i, definition in enumerate(definitions)
    }


def options(protocol: str | None = None, **members: Any) -> dict[str, Any]:
    return ({"protocol": protocol} if protocol else {}) | {"protocoloptions": members}


# From the message down to the last base, and what comes out.
BY_HAND = {
    "deep": (
        [{"labels": {"a": "1"}}, {"labels": {"b": "2"}, "name": "n"}, {"labels": {"a": "9", "c": "3"}, "description": "d"}],
        {"labels": {"a": "1", "b": "2", "c": "3"}, "name": "n", "description": "d"},
    ),
    "a scalar hides an object": ([{"x": 1}, {"x": {"y": 2}}], {"x": 1}),
    "an object replaces a scalar": ([{"x": {"y": 2}}, {"x": 1}], {"x": {"y": 2}}),
    "a scalar in the middle hides what is behind it": ([{"x": {"z": 3}}, {"x": 1}, {"x": {"y": 2}}], {"x": {"z": 3}}),
    "an empty object merges with nothing": ([{"x": {}}, {"x": {"y": 2}}], {"x": {"y": 2}}),
    "an empty object replaces a scalar": ([{"x": {}}, {"x": 1}, {"x": {"y": 2}}], {"x": {}}),
    "an object fills an empty one": ([{"x": {"y": {"z": 1}}}, {"x": {}}], {"x": {"y": {"z": 1}}}),
    "arrays are replaced whole": ([{"x": [3]}, {"x": [1, 2]}], {"x": [3]}),
    "a name that starts like another": (
        [{"x": {"b": 1}}, {"x-a": 2, "x": {"c": 3}, "xa": 4}],
        {"x": {"b": 1, "c": 3}, "x-a": 2, "xa": 4},
    ),
    "schema inline": (
        [
            {"dataschema": {"type": "object"}},
            {"dataschemauri": "u", "dataschemaxid": "/schemagroups/g/schemas/s", "dataschemaformat": "f"},
        ],
        {"dataschema": {"type": "object"}, "dataschemaformat": "f"},
    ),
    "schema elsewhere": ([{"dataschemauri": "u"}, {"dataschema": {"a": 1}}], {"dataschemauri": "u"}),
    "a schema is replaced whole": ([{"dataschema": {"b": 1}}, {"dataschema": {"a": 1}}], {"dataschema": {"b": 1}}),
    "status drops method": (
        [options(status={"value": "200"}), options("HTTP", method={"value": "PUT"}, path={"value": "/p"})],
        options("HTTP", status={"value": "200"}, path={"value": "/p"}),
    ),
    "key_base64 drops key": (
        [options(key_base64={"value": "QQ"}), options("KAFKA", key={"value": "a"}, topic={"value": "t"})],
        options("KAFKA", key_base64={"value": "QQ"}, topic={"value": "t"}),
    ),
    "status and method of another protocol": (
        [options(status={"value": 1}), options("CUSTOM", method={"value": 2})],
        options("CUSTOM", status={"value": 1}, method={"value": 2}),
    ),
    "another protocol": (
        [options("MQTT/5.0", qos={"value": 1}), options("KAFKA", topic={"value": "t"}) | {"name": "n"}],
        options("MQTT/5.0", qos={"value": 1}) | {"name": "n"},
    ),
    "another version of MQTT": ([{"protocol": "MQTT/3.1.1"}, options("MQTT", qos={"value": 1})], {"protocol": "MQTT/3.1.1"}),
    "another spelling of a protocol": (
        [{"protocol": "kafka/3"}, options("KAFKA", key={"value": 1})],
        options("kafka/3", key={"value": 1}),
    ),
    "another envelope": (
        [
            {"envelope": "Other/1.0"},
            {"envelope": "CloudEvents/1.0", "envelopemetadata": {"id": {}}, "envelopeoptions": {"mode": "binary"}},
        ],
        {"envelope": "Other/1.0"},
    ),
    "a less precise envelope": (
        [{"envelope": "CloudEvents"}, {"envelope": "CloudEvents/1.0", "envelopemetadata": {"id": {"type": "string"}}}],
        {"envelope": "CloudEvents", "envelopemetadata": {"id": {"type": "string"}}},
    ),
    "a value is replaced whole, its declaration merged": (
        [{"envelopemetadata": {"x": {"value": {"b": 1}}}}, {"envelopemetadata": {"x": {"value": {"a": 1}, "required": True}}}],
        {"envelopemetadata": {"x": {"value": {"b": 1}, "required": True}}},
    ),
    "names of pointers": (
        [{"labels": {"a/b": "1", "a~b": "2"}}, {"labels": {"a": "3"}}],
        {"labels": {"a": "3", "a/b": "1", "a~b": "2"}},
    ),
}


def shapes() -> Catalog:
    """Build chains that end in all the ways that there are."""
    other = "/messagegroups/h/messages/"
    return {
        f"{G}plain": one({"name": "plain"}),
        f"{G}self": one({"name": "self"}, basemessage=f"{G}self"),
        f"{G}a": one({"name": "a"}, basemessage=f"{G}b"),
        f"{G}b": one({"description": "b"}, basemessage=f"{G}c"),
        f"{G}c": one({"documentation": "c"}, basemessage=f"{G}a"),
        f"{G}hangs": one({"name": "hangs"}, basemessage=f"{G}further"),
        f"{G}further": one({"description": "further"}, basemessage=f"{G}b"),
        f"{G}dangling": one({"name": "dangling"}, basemessage=f"{G}half"),
        f"{G}half": one({"description": "half"}, basemessage=f"{G}nowhere"),
        f"{G}external": one({"name": "external"}, basemessage="https://example.com/messagegroups/g/messages/m"),
        f"{G}unpinned": one({"name": "unpinned"}, basemessage=f"{G}versioned"),
        f"{G}pinned": one({"name": "pinned"}, basemessage=f"{G}versioned/versions/1"),
        f"{G}badly-pinned": one({"name": "badly"}, basemessage=f"{G}versioned/versions/7"),
        f"{G}versioned": {"default": "2", "versions": {"1": {"description": "one"}, "2": {"description": "two"}}},
        f"{other}alias": {"xref": f"{G}unpinned"},
        f"{other}alias-of-alias": {"xref": f"{other}alias"},
        f"{other}alias-of-nothing": {"xref": f"{G}nowhere"},
        f"{G}over-alias": one({"documentation": "over"}, basemessage=f"{other}alias"),
        f"{G}over-pinned-alias": one({"documentation": "over"}, basemessage=f"{other}alias/versions/1"),
        f"{G}over-bad-alias": one({"documentation": "over"}, basemessage=f"{other}alias-of-alias"),
        "/endpoints/e/messages/m": one({"description": "of an endpoint"}, basemessage=f"{G}plain"),
        f"{G}over-endpoint": one({"documentation": "over"}, basemessage="/endpoints/e/messages/m"),
        "/messagegroups/versions/messages/versions": one({"name": "v"}),
        f"{G}over-odd-names": one({"documentation": "over"}, basemessage="/messagegroups/versions/messages/versions"),
    }


def forest(seed: int, size: int = 150) -> Catalog:
    """Build messages at random, with bases anywhere: behind them, before them, nowhere, at themselves."""
    rng = random.Random(seed)
    names = ["x", "y", "labels", "dataschema"]
    catalog: Catalog = {}
    for i in range(size):
        definitions = {}
        for versionid in ["1", "2"][: rng.choice([1, 1, 1, 2])]:
            definition = {name: _random_value(rng, 0) for name in rng.sample(names, rng.randrange(5))}
            for name in ("dataschemauri", "dataschemaxid"):
                if rng.random() < 0.2:
                    definition[name] = f"{name} of {i}"
            if rng.random() < 0.6:
                definition["protocol"] = rng.choice(["HTTP", "KAFKA", "kafka", "MQTT", "MQTT/5.0", "MQTT/3.1.1"])
            if rng.random() < 0.7:
                members = rng.sample(["method", "status", "key", "key_base64", "z"], rng.randrange(4))
                definition["protocoloptions"] = {
                    name: rng.choice([{}, {"value": {"a": i}}, {"value": i, "required": True}]) for name in members
                }
            if rng.random() < 0.5:
                definition["envelope"] = rng.choice(["CloudEvents/1.0", "CloudEvents", "cloudevents/1.0", "Other/2"])
                definition["envelopemetadata"] = {rng.choice(["id", "a/b"]): rng.choice([{}, {"value": {"k": i}}])}
            if rng.random() < 0.75:
                target = rng.choice([f"{G}{max(0, i - 1)}", f"{G}{rng.randrange(i + 1)}", f"{G}{rng.randrange(size + 3)}"])
                definition["basemessage"] = rng.choice([target, target, target, target + "/versions/1", target + "/versions/2"])
            definitions[versionid] = definition
        catalog[f"{G}{i}"] = {"default": rng.choice(list(definitions)), "versions": definitions}
        if rng.random() < 0.05:
            catalog[f"{G}{i}"] = {"xref": f"{G}{rng.randrange(size + 3)}"}
    return catalog


def _random_value(rng: random.Random, depth: int) -> Any:
    kind = rng.randrange(6 if depth < 3 else 3)
    if kind < 3:
        return rng.choice([1, "s", True, [1], {}, 1.5])
    return {name: _random_value(rng, depth + 1) for name in rng.sample(["a", "b", "a-b", "a/b"], rng.randrange(1, 4))}


@pytest.fixture(scope="module")
def registries() -> dict[str, Catalog]:
    long = chain(*({"labels": {f"l{i}": "x", "nearest": f"{i}"}} for i in range(121)))
    too_long = chain(*({"labels": {f"l{i}": "x"}} for i in range(140)))
    made = {f"hand: {name}": chain(*layers) for name, (layers, _) in BY_HAND.items()}
    made |= {f"forest {seed}": forest(seed) for seed in range(6)}
    return made | {"shapes": shapes(), "long": long, "too long": too_long}


@pytest.fixture(scope="module")
def looked_at(spark: SparkSession, registries: dict[str, Catalog]) -> SparkSession:
    session = look_at(spark, registries)
    session.table("merged_definitions").persist().createOrReplaceTempView("merged_definitions")
    return session


@pytest.fixture(scope="module")
def effective(looked_at: SparkSession) -> dict[tuple[str, str], tuple[str, dict[str, Any]]]:
    return flat(looked_at)


@pytest.mark.parametrize("name", BY_HAND)
def test_results_written_by_hand(effective, name):
    assert effective[f"hand: {name}", f"{G}m0"] == ("resolved", BY_HAND[name][1])


def test_chains_end_in_all_ways(effective):
    status = {xid.rpartition("/")[2]: status for (registryid, xid), (status, _) in effective.items() if registryid == "shapes"}
    assert status == {
        "plain": "none", "self": "cycle", "a": "cycle", "b": "cycle", "c": "cycle", "hangs": "cycle", "further": "cycle",
        "dangling": "dangling", "half": "dangling", "external": "external", "unpinned": "resolved", "pinned": "resolved",
        "badly-pinned": "dangling", "versioned": "none", "alias": "resolved", "alias-of-alias": "dangling",
        "alias-of-nothing": "dangling", "over-alias": "resolved", "over-pinned-alias": "resolved", "over-bad-alias": "dangling",
        "m": "resolved", "over-endpoint": "resolved", "versions": "none", "over-odd-names": "resolved",
    }  # fmt: skip


def test_what_a_broken_chain_still_shows(effective):
    shown = {name: effective["shapes", G + name][1] for name in ("a", "hangs", "dangling", "external", "pinned", "unpinned")}
    assert shown == {
        "a": {"name": "a"},
        "hangs": {"name": "hangs"},
        "dangling": {"name": "dangling", "description": "half"},
        "external": {"name": "external"},
        "pinned": {"name": "pinned", "description": "one"},
        "unpinned": {"name": "unpinned", "description": "two"},
    }
    assert effective["shapes", "/messagegroups/h/messages/alias"][1] == shown["unpinned"]
    assert effective["shapes", "/messagegroups/h/messages/alias-of-nothing"][1] == {}


def test_the_oracle_agrees_on_every_message(registries, effective):
    expected = {(registryid, xid): flatten(catalog, xid) for registryid, catalog in registries.items() for xid in catalog}
    assert {status for status, _ in expected.values()} == {"none", "resolved", "dangling", "cycle", "external", "too_deep"}
    differing = {key: (effective.get(key), reported) for key, reported in expected.items() if effective.get(key) != reported}
    assert differing == {}
    assert set(effective) == set(expected)


@pytest.mark.slow
def test_each_attribute_shows_where_it_comes_from(looked_at):
    rows = looked_at.sql(
        f"""
        SELECT pointer, value, value_type, origin, declared_by, depth FROM flat_attributes
        WHERE registryid = 'hand: deep' AND xid = '{G}m0'
        """
    ).collect()
    assert sorted(map(tuple, rows)) == [
        ("/description", '"d"', "string", "inherited", f"{G}m2/versions/1", 2),
        ("/labels/a", '"1"', "string", "declared", f"{G}m0/versions/1", 0),
        ("/labels/b", '"2"', "string", "inherited", f"{G}m1/versions/1", 1),
        ("/labels/c", '"3"', "string", "inherited", f"{G}m2/versions/1", 2),
        ("/name", '"n"', "string", "inherited", f"{G}m1/versions/1", 1),
    ]


def test_chains_step_by_step(looked_at):
    rows = looked_at.sql(
        f"""
        SELECT replace(xid, '{G}', ''), depth, regexp_replace(basemessage, '^{G}', ''), replace(base_version_xid, '{G}', ''),
          status
        FROM message_chains
        WHERE registryid = 'shapes' AND xid IN ('{G}plain', '{G}self', '{G}dangling', '{G}external', '{G}over-alias')
        """
    ).collect()
    assert sorted(map(tuple, rows)) == [
        ("dangling", 1, "half", "half/versions/1", "resolved"),
        ("dangling", 2, "nowhere", None, "dangling"),
        ("external", 1, "https://example.com/messagegroups/g/messages/m", None, "external"),
        ("over-alias", 1, "/messagegroups/h/messages/alias", "unpinned/versions/1", "resolved"),
        ("over-alias", 2, "versioned", "versioned/versions/2", "resolved"),
        ("plain", 0, None, None, "none"),
        ("self", 1, "self", "self/versions/1", "cycle"),
    ]
    (deepest,) = looked_at.sql(
        f"""
        SELECT max(depth), count(*), count_if(status = 'resolved') FROM message_chains
        WHERE registryid = 'long' AND xid = '{G}m0'
        """
    ).collect()
    assert tuple(deepest) == (120, 120, 120)


@pytest.mark.slow
def test_the_depth_of_chains_is_a_setting(spark):
    frames = look_at(spark, {"r": chain(*({"labels": {f"l{i}": "x"}} for i in range(6)))})
    tables = {name: frames.table(name) for name in ("messages", "versions")}
    session = session_with_views(spark, read_settings(max_chain_depth=3), "default", tables, VIEWS)
    rows = session.sql("SELECT messageid, chain_status, chain_depth, size(attributes) FROM flat_messages ORDER BY 1").collect()
    assert [tuple(row) for row in rows] == [
        ("m0", "too_deep", 3, 4), ("m1", "too_deep", 3, 4), ("m2", "resolved", 3, 4),
        ("m3", "resolved", 2, 3), ("m4", "resolved", 1, 2), ("m5", "none", 0, 1),
    ]  # fmt: skip


_scalars = st.integers(0, 9) | st.sampled_from(["s", ""]) | st.lists(st.integers(0, 3), max_size=2)
_names = st.sampled_from(["a", "b", "a-b", "labels", "x/y"])
_members = st.recursive(_scalars, lambda inner: st.dictionaries(_names, inner, max_size=3), max_leaves=6)
_objects = st.dictionaries(_names, _members, max_size=4)


@pytest.mark.slow
@settings(max_examples=2, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.lists(st.tuples(_objects, _objects), min_size=80, max_size=80))
def test_laws(spark, pairs):
    """Nothing laid over something, or under it, changes nothing; flat of flat is flat; the order of rows does not matter."""
    registries: dict[str, Catalog] = {}
    for i, (own, base) in enumerate(pairs):
        registries |= {f"pair {i}": chain(own, base), f"over {i}": chain({}, own), f"under {i}": chain(own, {})}
    effective = flat(look_at(spark, registries))
    again: dict[str, Catalog] = {}
    for i, (own, base) in enumerate(pairs):
        assert effective[f"over {i}", f"{G}m0"] == effective[f"under {i}", f"{G}m0"] == ("resolved", own)
        again[f"flat {i}"] = chain(effective[f"pair {i}", f"{G}m0"][1], base)
        again[f"pair {i}"] = dict(reversed(chain(own, base).items()))
    second = flat(look_at(spark, dict(reversed(again.items()))))
    for i in range(len(pairs)):
        assert second[f"flat {i}", f"{G}m0"] == second[f"pair {i}", f"{G}m0"] == effective[f"pair {i}", f"{G}m0"]
