"""New Versions of schemas that payloads break: in a document that is read without findings, and on the page of evidence."""

from __future__ import annotations

import json

import orjson
from builders import read
from match.catalogs import load

from lakehouse.match import Index, Matcher, MatchRequest, Payloads, Schemas
from lakehouse.match.event.canonical import events_of
from lakehouse.match.event.captured import landed_of_text
from lakehouse.match.payload.schemas import VersionsInMemory
from lakehouse.propose.decided import Observed, Thresholds
from lakehouse.propose.evidence import evidence_page
from lakehouse.propose.kinds import EventCounter
from lakehouse.propose.proposals import as_bytes, groups_of, propose_kinds
from lakehouse.propose.widening import BrokenSchema, widen_versions
from propose.test_proposals import kafka

ORDER = "/schemagroups/shop.orders/schemas/shop.orders.OrderPlaced"
SCHEMA = {"type": "object", "properties": {"orderid": {"type": "string"}, "total": {"type": "integer"}}, "required": ["orderid"]}


def declared(schema=SCHEMA, versionid="1", format="JSONSchema/draft-07"):
    """Return a document that declares the messages of `kafka` with a schema."""
    message = {
        "messageid": "OrderPlaced", "envelope": "CloudEvents/1.0", "dataschemaformat": format,
        "envelopemetadata": {"type": {"value": "shop.orders.OrderPlaced"}}, "dataschemauri": f"#{ORDER}",
    }  # fmt: skip
    version = {"schemaid": "shop.orders.OrderPlaced", "versionid": versionid, "format": format, "schema": schema}
    schemas = {"shop.orders.OrderPlaced": {"schemaid": "shop.orders.OrderPlaced", "versions": {versionid: version}}}
    return {
        "specversion": "1.0-rc2",
        "messagegroups": {"shop": {"messagegroupid": "shop", "messages": {"OrderPlaced": message}}},
        "schemagroups": {"shop.orders": {"schemagroupid": "shop.orders", "schemas": schemas}},
    }  # fmt: skip


def widened(document, messages):
    """Return what is proposed for the schema of a document by messages whose payloads break it."""
    rows, schemas = load({"shop": document})
    matcher = Matcher(Index.of(rows), Payloads(Schemas(schemas)), MatchRequest())
    counter = EventCounter()
    for message in messages:
        for event in (event for landed in landed_of_text(orjson.dumps(message)) for event in events_of(landed)):
            match, verdict = matcher.match(event)
            assert verdict.status == "invalid"
            broken = BrokenSchema.of(matcher.payloads.schemas.resolve(match.shown.definition))
            counter.add([(event, "")])
    observed = [Observed.of(kind, days, broken.written) for kind, days in counter.by_kind.items()]
    return widen_versions(observed, VersionsInMemory(schemas), Thresholds())


BROKEN = [kafka(number) for number in range(40)]


def statuses(document, messages):
    rows, schemas = load({"shop": document})
    matcher = Matcher(Index.of(rows), Payloads(Schemas(schemas)), MatchRequest())
    return {
        row["payload_status"] for one in messages for landed in landed_of_text(orjson.dumps(one)) for row in matcher.rows(landed)
    }


def test_a_new_version_takes_what_broke_the_last_one_and_is_judged():
    (one,) = widened(declared(), BROKEN)
    assert one.versionid == "2"
    assert one.widened.schema == SCHEMA | {"properties": {"orderid": {"type": "string"}, "total": {"type": "number"}}}
    shown = one.as_json()
    assert (shown["events"], shown["comparedwith"]) == (40, f"{ORDER}/versions/1")
    assert shown["breaks"] == {"readers": "yes", "writers": "no"}
    assert [difference["pointer"] for difference in shown["differences"]] == ["/total"]
    assert (statuses(declared(), BROKEN), statuses(declared(one.widened.schema), BROKEN)) == ({"invalid"}, {"valid"})


def test_a_document_holds_both_versions_and_is_read_without_findings():
    (name, group), *others = groups_of([], widened(declared(), BROKEN)).items()
    assert (name, others) == ("shop.orders", [])
    reading = read(as_bytes(group.document), rules=True)
    assert [one for one in reading.findings if one.severity == "error"] == []
    versions = {row.xid: json.loads(row.body) for row in reading.rows if row.kind == "schemaversion"}
    assert {xid: (body.get("ancestor"), body.get("isdefault", False)) for xid, body in versions.items()} == {
        f"{ORDER}/versions/1": ("1", False), f"{ORDER}/versions/2": ("1", True),
    }  # fmt: skip


def test_the_page_says_what_changes_and_whom_that_breaks():
    (group,) = groups_of([], widened(declared(), BROKEN)).values()
    page = evidence_page("shop.orders", group, Thresholds())
    assert f"40 events break {ORDER}/versions/1 of shop: shop.orders.OrderPlaced." in page
    assert [line for line in page.splitlines() if line.startswith("| /total |")] == [
        "| /total | was integer, is number | breaking | A producer with the new schema may write number, and a consumer with the "
        "old schema takes integer. |"
    ]


def test_a_schema_that_takes_the_payloads_by_now_is_not_proposed_again():
    (one,) = widened(declared(), BROKEN)
    _, schemas = load({"shop": declared(one.widened.schema, "2")})
    assert widen_versions(one.observed, VersionsInMemory(schemas), Thresholds()) == []


def test_of_another_format_the_page_says_that_it_is_not_widened():
    avro = {"type": "record", "name": "Order", "fields": [{"name": "orderid", "type": "int"}]}
    observed = widened(declared(), BROKEN)[0].observed
    _, schemas = load({"shop": declared(avro, format="Avro/1.11.0")})
    (one,) = widen_versions(observed, VersionsInMemory(schemas), Thresholds())
    assert (one.is_changed, one.widened.undecided) == (False, ["schemas of format Avro/1.11.0 are not widened"])


def test_kinds_and_schemas_of_one_id_are_in_documents_of_their_own():
    changed = widened(declared(), BROKEN)
    counter = EventCounter()
    counter.add([(event, "") for landed in landed_of_text(orjson.dumps(kafka(1))) for event in events_of(landed)])
    kinds = propose_kinds([Observed.of(kind, days) for kind, days in counter.by_kind.items()], Thresholds())
    groups = groups_of(kinds, changed + changed)
    assert list(groups) == ["shop.orders", "shop.shop.orders", "shop.shop.orders-2"]
