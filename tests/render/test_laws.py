"""Laws of rendering: what is rendered is matched by its definition; rendering what was matched gives the same.

All published samples if they are next to this checkout, and always the demo's documents.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from builders import law
from hypothesis import given as for_all
from hypothesis import strategies as st
from match.catalogs import SAMPLES, load, samples
from shortform import first_of

import lakehouse
from lakehouse.match import Index, Matcher, MatchRequest, Payloads, Schemas
from lakehouse.match.definition.compiled import definition_of
from lakehouse.match.event.canonical import events_of
from lakehouse.match.event.captured import landed_of_text
from lakehouse.render import MissingValues, Renderer, RenderInput, RenderRefused, RenderStyle, bindings_of
from lakehouse.render.filling import needs_of
from lakehouse.render.protocolbinding import FAMILIES, is_enveloped
from render.definitions import NOW, cloudevent, row

DEMO = Path(lakehouse.__file__).parent / "cli" / "demo"
MODES = ("binary", "structured")
has_samples = pytest.mark.skipif(not SAMPLES.is_dir(), reason="the published samples are not next to this checkout")
# Its source is declared as an empty text, which no CloudEvent may have.
CONTRADICTIONS = {("minimal-proto.xreg.json", "/messagegroups/com.example.grp1/messages/com.example.grp1.ev1")}


def demo() -> tuple[list[dict[str, Any]], list[Any]]:
    return load({path.name: path.read_bytes() for path in sorted(DEMO.glob("*.xreg.json"))})


def codegen() -> tuple[list[dict[str, Any]], list[Any]]:
    return samples("codegen")


def spec() -> tuple[list[dict[str, Any]], list[Any]]:
    return samples("spec", "windgenerator-kafka-avro.xreg.json", "mqtt-sparkplugB.xreg.json", "inkjet-proto3.xreg.json")


CATALOGS = [
    demo,
    *(pytest.param(one, marks=has_samples) for one in (lambda: samples("feeds"), codegen, spec)),
]


def has_no_binary(way: Any) -> bool:
    """Return whether a CloudEvent cannot be in binary mode there."""
    return way.definition.is_cloudevent and (way.only_structured or is_enveloped(way.definition))


def families_back(rendered: Any, row: dict[str, Any]) -> str | None:
    """Return the protocol of a CloudEvent for no protocol, as whoever lands it would: its definition's."""
    return row["protocol"] if rendered.protocol is None and row["protocol"] not in (None, "None") else None


@pytest.mark.parametrize("catalog", first_of(CATALOGS, 1), ids=["demo", "feeds", "codegen", "spec"])
def test_what_is_rendered_is_matched_by_its_definition(catalog):
    rows, versions = catalog()
    schemas = Schemas(versions)
    payloads = Payloads(schemas)
    matchers = {
        registry: Matcher(Index.of([one for one in rows if one["registryid"] == registry]), payloads, MatchRequest())
        for registry in {one["registryid"] for one in rows}
    }
    renderers = [Renderer(schemas, RenderStyle(mode, example=True, seed=7, now=NOW)) for mode in MODES]
    counted: Counter[str] = Counter()
    for one in rows:
        definition = definition_of(one)
        if (one["registryid"], one["xid"]) in CONTRADICTIONS:
            continue
        for way in bindings_of(one, (), ["ALL"]):
            for renderer in renderers:
                if renderer.style.mode == "binary" and has_no_binary(way):
                    continue
                message = renderer.render(way)
                reported = (one["registryid"], one["xid"], way.protocol, message.mode)
                [landed] = landed_of_text(message.line(), families_back(message, one))
                [event] = events_of(landed)
                result = matchers[one["registryid"]].row(event)
                if one["chain_status"] == "dangling":  # what its missing base would declare is unknown
                    assert result["status"] == "incomplete", reported
                    assert any(one["xid"] in remark for remark in result["remarks"]), (reported, result["remarks"])
                    continue
                assert one["xid"] in {match["xid"] for match in result["matches"]}, (reported, result["reasons"])
                extending = [best["xid"] for best in result["best"] if best["xid"] != one["xid"]]
                if one["xid"] not in {best["xid"] for best in result["best"]}:
                    assert is_more_specific(extending, definition, rows, one["registryid"]), (reported, result["best"])
                elif result["xid"] == one["xid"]:
                    assert result["variables"] == message.variables, reported
                assert message.payload_status == "valid" or is_without_schema(schemas, definition, message), (
                    reported,
                    message.remarks,
                )
                counted[way.family] += 1
    assert all(counted[family] for family in ("CLOUDEVENTS", "KAFKA"))


def is_more_specific(xids: list[str], definition: Any, rows: list[dict[str, Any]], registry: str) -> bool:
    best = [definition_of(one) for one in rows if one["registryid"] == registry and one["xid"] in xids]
    return bool(best) and all(definition.xid in one.chain or one.shapes > definition.shapes for one in best)


def is_without_schema(schemas: Schemas, definition: Any, message: Any) -> bool:
    resolved = schemas.resolve(definition)
    if isinstance(resolved, str):  # none, or not in the catalog
        return True
    unusable = ("not validated", "does not compile", "no valid schema", "refers to what is not there")
    return any("no payload was made up" in reported and any(why in reported for why in unusable) for reported in message.remarks)


@pytest.mark.parametrize("catalog", first_of(CATALOGS[:2], 1), ids=["demo", "feeds"])
def test_structured_and_binary_of_one_event_match_alike(catalog):
    rows, versions = catalog()
    schemas = Schemas(versions)
    reported: dict[Any, list[Any]] = {}
    for registry in {one["registryid"] for one in rows}:
        own = [one for one in rows if one["registryid"] == registry]
        matcher = Matcher(Index.of(own), Payloads(schemas), MatchRequest())
        for mode in MODES:
            renderer = Renderer(schemas, RenderStyle(mode, example=True, seed=3, now=NOW))
            for one in own:
                for way in bindings_of(one, (), ["ALL"]):
                    if has_no_binary(way):
                        continue
                    [landed] = landed_of_text(renderer.render(way).line())
                    [event] = events_of(landed)
                    result = matcher.row(event)
                    kept = (
                        "matches",
                        "best",
                        "status",
                        "variables",
                        "payload_status",
                        "ce_id",
                        "ce_source",
                        "ce_type",
                        "address",
                    )
                    reported.setdefault((registry, one["xid"], way.family), []).append({name: result[name] for name in kept})
    assert reported
    assert [key for key, results in reported.items() if results[0] != results[1]] == []


@has_samples
def test_rendering_what_was_matched_gives_the_same_metadata():
    """Match, then render with the captured variables, id and time: the message is the one that was matched."""
    rows, versions = samples("feeds")
    by_xid = {(one["registryid"], one["xid"]): one for one in rows}
    schemas = Schemas(versions)
    matcher = Matcher(Index.of(rows), Payloads(schemas), MatchRequest(payload_share=0))
    compared = 0
    for line in (SAMPLES / "events" / "captured.jsonl").read_bytes().splitlines():
        [landed] = landed_of_text(line)
        [event] = events_of(landed)
        result = matcher.row(event)
        if not result["best"]:
            continue
        one = by_xid[result["registryid"], result["xid"]]
        family = event.family or ""
        [way] = bindings_of(one, (), [family])
        values = dict(result["variables"])
        values |= {f"/envelopemetadata/{name}": event.ce[name] for name in ("id", "time") if event.ce.get(name) is not None}
        address = {"KAFKA": "topic", "MQTT": "topic_name"}.get(family)
        if address:
            declared = way.definition.attribute(f"/protocoloptions/{address}")
            if declared is None or not declared.has_value:
                values[f"/protocoloptions/{address}"] = event.options[address]
        message = Renderer(schemas, RenderStyle(event.mode, now=NOW)).render(way, RenderInput(values))
        [again] = [found for one_landed in landed_of_text(message.line()) for found in events_of(one_landed)]
        same = matcher.row(again)
        assert (same["best"], same["variables"]) == (result["best"], result["variables"])
        names = {one.key for one in way.definition.attributes if one.section == "envelope"} | {"id", "time"}
        names -= {"datacontenttype"} - set(event.ce)  # the protocol may say it instead
        assert {name: again.ce.get(name) for name in names} == {name: event.ce.get(name) for name in names}
        compared += 1
    assert compared > 1_000


def squashed(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


@has_samples
def test_rendered_from_the_arguments_of_the_senders_is_what_they_sent():
    """`arguments` and the definition give topic, key, headers, subject and properties as they were captured."""
    rows, versions = samples("feeds")
    by_xid = {(one["registryid"], one["xid"]): one for one in rows}
    compared: Counter[str] = Counter()
    differing = []
    for text in (SAMPLES / "events" / "captured.jsonl").read_bytes().splitlines():
        line = json.loads(text)
        one = by_xid[line["document"], line["sent_as"]]
        family = line["protocol"].partition("/")[0]
        if (one["protocol"] or "None").partition("/")[0].upper() not in ("NONE", family):
            continue  # sent over another protocol than it is declared for
        [way] = bindings_of(one, (), [family])
        arguments = {squashed(name): value for name, value in line["arguments"].items() if value is not None}
        values = {name: arguments[squashed(name)] for name in way.placeholders if squashed(name) in arguments}
        captured = line["captured"]
        for need in needs_of(way, RenderInput(values)):
            if need.template is None:
                values[need.name] = captured.get("topic", "none")  # the endpoint says it
            else:
                values[need.name] = line["expected"]["variables"].get(need.name, "2026-01-01")
        message = Renderer(Schemas(versions), RenderStyle(line["mode"], now=NOW)).render(way, RenderInput(values)).captured
        for section, name, ours, theirs in flat(message, captured):
            compared[section] += 1
            if ours != theirs:
                differing.append((line["document"], line["sent_as"], section, name, ours, theirs))
    assert differing == []
    assert sum(compared.values()) > 3_000
    assert {"topic", "key", "topic_name", "headers", "user_properties", "properties", "application-properties"} <= set(compared)


def flat(ours: dict[str, Any], theirs: dict[str, Any]) -> list[tuple[str, str, Any, Any]]:
    """Pair what was rendered with what was captured; ids, times and content types of clients aside."""
    found = []
    for section, held in ours.items():
        if isinstance(held, list):
            sent = {one["name"]: one["value"] for one in theirs.get(section, [])}
            found += [(section, one["name"], one["value"], sent.get(one["name"])) for one in held]
        elif isinstance(held, dict):
            found += [(section, name, value, theirs.get(section, {}).get(name)) for name, value in held.items()]
        else:
            found.append((section, "", held, theirs.get(section)))
    made = ("id", "time", "content_type")
    return [one for one in found if one[1].replace("ce_", "").replace("cloudEvents:", "") not in made and one[0] not in made]


NAMES = st.sampled_from(["a", "b", "c"])
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\x00", exclude_categories=["Cc", "Cs"]), max_size=6)
PIECES = st.sampled_from(["x", "{a}", "{b}", "{c}", "{a}-{b}", "x.{c}", "y"])
TEMPLATES = st.lists(PIECES, min_size=1, max_size=3).map("/".join)


def attempted(way: Any, given: RenderInput, style: RenderStyle) -> tuple[Any, Exception | None]:
    try:
        return Renderer(Schemas([]), style).render(way, given), None
    except (MissingValues, RenderRefused) as error:
        return None, error


@law
@for_all(TEMPLATES, TEMPLATES, st.dictionaries(NAMES, TEXTS), st.sampled_from(FAMILIES), st.sampled_from(MODES))
def test_a_message_is_refused_or_comes_back_with_its_values(source, other, values, family, mode):
    address = {"KAFKA": "key", "MQTT": "topic_name", "AMQP": "properties", "NATS": "headers", "HTTP": "headers"}[family]
    held: Any = {"value": other}
    options = {address: {"subject" if family == "AMQP" else "h": held} if address in ("properties", "headers") else held}
    declared = cloudevent(family, options, source={"value": source}, subject={"value": "{a}", "type": "string"})
    [way] = bindings_of(row(declared), (), [family])
    values = values | {name: "t" for name in ("topic", "/protocoloptions/subject") if family in ("KAFKA", "NATS")}
    if family == "AMQP":
        values.pop("/protocoloptions/subject", None)
    message, error = attempted(way, RenderInput(values), RenderStyle(mode, now=NOW, seed=1))
    if isinstance(error, MissingValues):
        assert {need.name for need in error.needs} == set(way.placeholders) - set(values)
    elif isinstance(error, RenderRefused):
        assert all(one.pointer.startswith(("/envelopemetadata", "/protocoloptions")) for one in error.refusals)
    if error:
        return
    [landed] = landed_of_text(message.line())
    result = Matcher(Index.of([row(declared)]), Payloads(Schemas([])), MatchRequest()).row(next(iter(events_of(landed))))
    assert result["status"] == "matched"
    assert result["variables"] == {name: values[name] for name in way.placeholders}


def test_the_same_seed_makes_the_same_example():
    [first] = bindings_of(row(cloudevent(subject={"value": "{a}/{b}"})), (), ["CLOUDEVENTS"])
    seeds = [Renderer(Schemas([]), RenderStyle(example=True, seed=seed, now=NOW)).render(first).line() for seed in (5, 5, 6)]
    assert seeds[0] == seeds[1] != seeds[2]
