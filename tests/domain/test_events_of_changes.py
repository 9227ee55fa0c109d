"""Change events: which follow from a change of the log."""

from __future__ import annotations

import json

from lakehouse.domain.events import CORE, MESSAGE_CATALOG, Changed, ChangeEvent, Commit, cloudevents, event_of, parts_of

G, M, V = "/messagegroups/g", "/messagegroups/g/messages/m", "/messagegroups/g/messages/m/versions/"
NOON = 1_772_366_400_000_000  # 2026-03-01T12:00:00Z


def log(*rows) -> list[tuple[int, Changed]]:
    """Build the changes of a log out of (snapshot_id, kind, xid, op, body, raw), each with the body before."""
    last, changes = {}, []
    for number, kind, xid, op, body, raw in ((*row, None)[:6] for row in rows):
        text, written = json.dumps(body), None if raw is None else json.dumps(raw)
        if op != "own":
            changes.append((number, Changed("r", kind, xid, op, NOON, NOON, written, text, last.get(xid))))
        last[xid] = None if op == "delete" else text
    return changes


def events_of(changes: list[tuple[int, Changed]], feed: str) -> dict[tuple, ChangeEvent]:
    """Return the events of a feed by snapshot and what makes them one event."""
    parts = {}
    for number, row in changes:
        for part in parts_of(row, [feed]):
            parts.setdefault((number, *part.key), []).append(part)
    return {key: event_of(found) for key, found in parts.items()}


def reported(changes: list[tuple[int, Changed]], since: int = 0) -> dict[tuple[int, str, str], list[str] | None]:
    """Return (snapshot, type without its prefix, subject) with what changed, for the feed of the core."""
    events = events_of([one for one in changes if one[0] > since], CORE)
    return {(key[0], event.type.split(".", 2)[2], event.subject): event.changed for key, event in events.items()}


def test_what_comes_has_events_of_itself_and_of_its_parent():
    rows = log(
        (1, "registry", "/", "insert", {}),
        (1, "group", G, "insert", {}),
        (2, "message", M, "insert", {}),
        (2, "version", V + "1", "insert", {"isdefault": True}),
    )
    events = reported(rows)
    assert events == {
        (1, "registry.created", "/"): None,
        (1, "group.created", G): None,
        (2, "group.updated", G): ["epoch", "messages", "messagescount", "modifiedat"],
        (2, "resource.created", M): None,
        (2, "version.created", V + "1"): None,
    }
    assert reported(rows, 1).keys() == {key for key in events if key[0] == 2}


def test_an_update_names_the_attributes_and_a_default_version_shows_at_its_resource():
    rows = log(
        (1, "version", V + "1", "insert", {"isdefault": True, "name": "a", "labels": {"x": "1"}, "extensions": {"house": 1}}),
        (2, "version", V + "1", "own", {"isdefault": True, "name": "a", "labels": {"x": "1"}, "extensions": {"house": 1}}),
        (3, "version", V + "1", "update", {"isdefault": True, "name": "a", "labels": {"x": "2"}, "extensions": {"house": 2}}),
    )
    changed = ["epoch", "house", "labels", "modifiedat"]
    assert reported(rows, 1) == {
        (3, "version.updated", V + "1"): changed,
        (3, "resource.updated", M): changed,
    }


def test_another_default_version_is_reported_at_the_resource_only():
    rows = log(
        (1, "message", M, "insert", {"defaultversionid": "1"}),
        (1, "version", V + "1", "insert", {"isdefault": True, "name": "a"}),
        (1, "version", V + "2", "insert", {"isdefault": False, "description": "b"}),
        (2, "message", M, "update", {"defaultversionid": "2"}),
        (2, "version", V + "1", "update", {"isdefault": False, "name": "a"}),
        (2, "version", V + "2", "update", {"isdefault": True, "description": "b"}),
    )
    meta = ["meta.defaultversionid", "meta.epoch", "meta.modifiedat"]
    assert reported(rows, 1) == {(2, "resource.updated", M): ["description", "epoch", *meta, "modifiedat", "name"]}


def test_deletions_deprecations_and_the_model():
    rows = log(
        (1, "registry", "/", "insert", {"capabilities": {"a": 1, "b": 1}, "model": {}}),
        (1, "group", G, "insert", {}),
        (2, "group", G, "update", {"deprecated": {"effective": "2030-01-01T00:00:00Z"}}),
        (2, "registry", "/", "update", {"capabilities": {"a": 1, "b": 2}, "model": {"x": 1}}),
        (3, "group", G, "delete", {"deprecated": {}}),
        (4, "group", G, "insert", {}),
    )
    events = reported(rows, 1)
    assert events == {
        (2, "group.updated", G): ["deprecated", "epoch", "modifiedat"],
        (2, "group.deprecation", G): ["effective"],
        (2, "registry.updated", "/"): ["capabilities", "epoch", "model", "modifiedat"],
        (2, "capabilities.updated", "/"): ["b"],
        (2, "model.updated", "/"): None,
        (3, "group.deleted", G): None,
        (3, "registry.updated", "/"): ["epoch", "messagegroups", "messagegroupscount", "modifiedat"],
        (4, "group.created", G): None,
        (4, "registry.updated", "/"): ["epoch", "messagegroups", "messagegroupscount", "modifiedat"],
    }


def test_a_message_catalog_has_events_of_groups_messages_and_versions_at_their_recorded_times():
    in_zone = {"createdat": "2026-03-01T13:00:00+01:00"}
    drafted = {"createdtimeutc": "2026-03-01T11:00:00Z", "updatedtimeutc": "2026-03-01T12:00:00.5000Z"}
    rows = log(
        (1, "group", "/messagegroups/messages", "insert", {}),
        (1, "version", "/messagegroups/messages/messages/versions/versions/1", "insert", {}, in_zone),
        (1, "version", V + "1", "insert", {}, {"createdat": "2026-03-01T12:00:00"}),
        (1, "group", "/messagegroups/draft", "insert", {}, drafted),
        (1, "schema", "/schemagroups/s/schemas/t", "insert", {}),
        (1, "endpoint", "/endpoints/e", "insert", {}),
        (2, "message", M, "delete", {}),
    )
    assert {(one.type, one.subject): (one.time, one.changed) for one in events_of(rows, MESSAGE_CATALOG).values()} == {
        ("io.cloudevents.messagecatalog.updated.v1", "/messagecatalog/messages"): ("2026-03-01T12:00:00Z", None),
        ("io.cloudevents.messagecatalog.updated.v1", "/messagecatalog/draft"): (drafted["updatedtimeutc"], None),
        (
            "io.cloudevents.messagecatalog.updated.v1",
            "/messagecatalog/messages/messagedefinitions/versions/versions/1",
        ): (in_zone["createdat"], None),
        ("io.cloudevents.messagecatalog.updated.v1", "/messagecatalog/g/messagedefinitions/m/versions/1"): (
            "2026-03-01T12:00:00Z",
            None,
        ),
        ("io.cloudevents.messagecatalog.deleted.v1", "/messagecatalog/g/messagedefinitions/m"): (None, None),
    }


def test_a_version_says_what_differs_from_its_ancestor_or_from_what_it_was_and_whom_that_breaks():
    schema = "/schemagroups/g/schemas/s"

    def body(type_: str, **more) -> str:
        return json.dumps({"ancestor": "1", "format": "Avro", "schema": type_, **more})

    def row(op: str, kind: str = "schemaversion", xid: str = f"{schema}/versions/2", **bodies: str) -> Changed:
        texts = {"raw": None, "body": None, "before": None, **bodies}
        return Changed("r", kind, xid, op, NOON, NOON, **texts)

    def event(changed: Changed, *feeds: str) -> dict:
        events = cloudevents(Commit(7, "2026-03-01T12:00:00+00:00", "i"), [changed], "https://a", feeds or [CORE], found)
        return next(one for one in map(json.loads, events) if "version" in one["type"] or "definition" in one["subject"])

    def found(one: ChangeEvent) -> dict:
        return {who: ["/endpoints/e"] for who in one.broken}

    created = event(row("insert", body=body("long"), ancestor=body("int")))
    assert "changed" not in created["data"]
    assert created["data"]["compatibility"]["comparedwith"] == f"{schema}/versions/1"
    assert created["data"]["compatibility"]["breaks"] == {"readers": "yes", "writers": "no"}
    assert created["data"]["compatibility"]["endpoints"] == {"consumers": ["/endpoints/e"]}
    assert [one["what"] for one in created["data"]["compatibility"]["differences"]] == ["was int, is long"]
    updated = event(row("update", body=body("int"), before=body("string")))["data"]
    assert updated["changed"] == ["epoch", "modifiedat", "schema"]
    assert updated["compatibility"]["comparedwith"] == f"{schema}/versions/2"
    assert updated["compatibility"]["endpoints"] == {"consumers": ["/endpoints/e"], "producers": ["/endpoints/e"]}
    assert "compatibility" not in event(row("update", body=body("int", name="x"), before=body("int")))["data"]
    assert "data" not in event(row("insert", body=body("int")))
    assert "data" not in event(row("delete", body=body("int"), before=body("long")))
    of_message = row("update", "version", f"{V}1", body='{"protocol":"HTTP"}', before='{"protocol":"KAFKA"}')
    (difference,) = event(of_message)["data"]["compatibility"]["differences"]
    assert (difference["pointer"], difference["kind"], difference["what"]) == ("/protocol", "protocol", 'was "KAFKA", is "HTTP"')
    assert "data" not in event(of_message, MESSAGE_CATALOG)


def test_an_event_is_json_in_order_with_an_id_that_is_the_same_whenever_it_is_written():
    rows = [row for _, row in log((1, "group", G, "insert", {}), (1, "registry", "/", "insert", {}))]
    commit = Commit(7, "2026-03-01T12:00:00.500000+00:00", "i")
    written = list(cloudevents(commit, rows, "https://a/{registryid}"))
    assert written == list(cloudevents(commit, rows[::-1], "https://a/{registryid}"))
    events = [json.loads(text) for text in written]
    assert [(one["subject"], one["type"], one["time"]) for one in events] == [
        ("/", "io.xregistry.registry.created", "2026-03-01T12:00:00.5Z"),
        ("/messagecatalog/g", "io.cloudevents.messagecatalog.updated.v1", "2026-03-01T12:00:00Z"),
        (G, "io.xregistry.group.created", "2026-03-01T12:00:00.5Z"),
    ]
    assert {(one["source"], one["xregcorrelationid"], one["id"][:2]) for one in events} == {("https://a/r", "i", "7-")}
    assert len({one["id"] for one in events}) == 3
