"""The gate: what breaks a rule between entities is not loaded, what is published stays, and no secret reaches the warehouse."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from builders import document, group
from conftest import Catalog

from lakehouse.domain.ownership import Policy
from lakehouse.ingest.pipeline import IngestRequest
from lakehouse.rules.published import check_catalog

EVENT = {"envelope": "CloudEvents/1.0", "envelopemetadata": {"id": {"required": True}}}
OTHER = {"envelope": "own/1", "envelopemetadata": {"id": {}}}
SECRETS = {name: f"hunter-{name}-4711" for name in ("password", "userinfo", "header", "cookie", "message", "property", "base")}


def planted() -> dict[str, object]:
    """Build a document with a secret in every place that one is looked for, and placeholders that are none."""
    options = {
        "endpoints": [{"uri": f"https://user:{SECRETS['userinfo']}@example.com/in"}],
        "authorization": {"type": "Plain", "password": SECRETS["password"]},
        "headers": [
            {"name": "Authorization", "value": f"Bearer {SECRETS['header']}"},
            {"name": "cookie", "value": SECRETS["cookie"]},
        ],
    }
    harmless = {"headers": [{"name": "Authorization", "value": "Bearer {token}"}]}
    message = {"protocol": "HTTP/1.1", "protocoloptions": {"headers": [{"name": "X-Api-Key", "value": SECRETS["message"]}]}}
    amqp = {"application-properties": {"authorization": {"value": SECRETS["property"]}}}
    return document(
        {
            "safe": group(
                {
                    "a": message,
                    "b": {"versions": {"1": {"protocol": "AMQP/1.0", "protocoloptions": amqp}}},
                    "c": {"dataschemauri": f"https://me:{SECRETS['base']}@example.com/s", "dataschemaformat": "Avro/1.9.0"},
                    "d": {"protocol": "HTTP/1.1", "protocoloptions": harmless},
                }
            )
        },
        {
            "secret": {"usage": ["producer"], "protocol": "HTTP/1.1", "protocoloptions": options},
            "open": {"usage": ["producer"], "protocol": "HTTP/1.1", "protocoloptions": harmless},
        },
    )


def files_with(folder: Path, text: str) -> list[str]:
    return [path.name for path in folder.rglob("*") if path.is_file() and text.encode() in path.read_bytes()]


@pytest.fixture
def catalog(catalog):
    """A catalog whose ingests apply the rules between entities."""
    catalog.settings = catalog.settings.model_copy(update={"check_relations": True})
    return catalog


def test_no_secret_reaches_the_warehouse_and_what_holds_one_is_refused(catalog, capfd):
    catalog.write("planted.json", planted())
    broken = b'{"endpoints": {"e": {"protocoloptions": {"headers": [{"name": "Authorization", "value": "Basic %s"}]}}}, "x": }'
    catalog.write("broken.json", broken % SECRETS["cookie"].encode())
    summary = catalog.ingest(request=IngestRequest())
    assert summary.refused
    warehouse = Path(catalog.settings.warehouse)
    assert {secret: files_with(warehouse, secret) for secret in SECRETS.values()} == {secret: [] for secret in SECRETS.values()}
    reported = capfd.readouterr()
    assert not [secret for secret in SECRETS.values() if secret in reported.out + reported.err]
    violations = catalog.rows(
        "SELECT DISTINCT xid FROM xregistry.violations WHERE rule_id = 'END-111' AND action = 'quarantined'"
    )
    assert sorted(violations) == [
        "/endpoints/secret",
        "/messagegroups/safe/messages/a/versions/1",
        "/messagegroups/safe/messages/b/versions/1",
        "/messagegroups/safe/messages/c/versions/1",
    ]
    assert catalog.rows("SELECT xid FROM xregistry.endpoints") == ["/endpoints/open"]
    assert catalog.rows("SELECT messageid FROM xregistry.messages") == ["d"]
    assert files_with(warehouse, "REDACTED") != []  # the files are looked into, not past


@pytest.mark.slow
def test_errors_between_entities_take_out_the_entity_and_what_cannot_live_without_it(catalog):
    # Given a group whose messages fit, and one whose message will not
    # (one leans on its base for the metadata that its envelope asks for)
    base = {"basemessage": "/messagegroups/g/messages/good", "envelope": "CloudEvents/1.0"}
    shop = {"good": EVENT, "leans": base, "later": EVENT, "two": {"versions": {"1": EVENT, "2": EVENT}}}
    catalog.write("shop.json", document({"g": group(shop, envelope="CloudEvents/1.0")}))
    assert not catalog.ingest().refused
    # When the group takes in a message that does not fit, and published ones are changed for the worse
    drops = base | {"protocol": "HTTP/1.1"}  # options that neither it nor its base has
    worse = {
        "good": EVENT,
        "leans": base,
        "drops": drops,
        "bad": OTHER,
        "later": OTHER,
        "two": {"versions": {"1": EVENT, "2": OTHER}},
    }
    catalog.write("shop.json", document({"g": group(worse, envelope="CloudEvents/1.0")}))
    strict = catalog.ingest(request=IngestRequest(strict=True, dry_run=True))
    summary = catalog.ingest()
    # Then the group stays, what was published stays, and each refused entity has its own finding
    nothing = {"inserted": 0, "updated": 0, "deleted": 0}
    assert summary.entities["messages"] == nothing | {"unchanged": 2, "quarantined": 4}
    assert catalog.rows("SELECT messageid FROM xregistry.messages ORDER BY 1") == ["good", "later", "leans", "two"]
    assert catalog.rows("SELECT DISTINCT envelope, protocol FROM xregistry.versions") == [("CloudEvents/1.0", None)]
    found = catalog.rows(
        "SELECT rule_id, xid, message, pointer, raw IS NULL FROM xregistry.violations WHERE severity = 'error' ORDER BY 2"
    )
    at = "/messagegroups/g/messages"
    assert [(one[0], one[1]) for one in found] == [
        ("MSG-115", f"{at}/bad"),
        ("MSG-157", f"{at}/bad/versions/1"),
        ("MSG-115", f"{at}/drops"),
        ("MSG-166", f"{at}/drops/versions/1"),
        ("MSG-115", f"{at}/later"),
        ("MSG-157", f"{at}/later/versions/1"),
        ("MSG-115", f"{at}/two"),
        ("MSG-115", f"{at}/two/versions/1"),
        ("MSG-157", f"{at}/two/versions/2"),
    ]
    assert found[0][2] == f"it cannot be loaded: {at}/bad/versions/1 was refused"
    assert found[1][2:] == ("`envelope` is own/1, and that of what holds it is CloudEvents/1.0", f"{at}/bad/envelope", False)
    # And strict would have refused the document
    assert strict.documents["rejected"] == 1
    assert strict.entities["messages"] == dict.fromkeys(strict.entities["messages"], 0)
    # And the document is read again, and reported again
    again = catalog.ingest()
    assert again.refused
    assert again.snapshot_id is None
    # And the catalog itself has no error
    catalog.spark.catalog.setCurrentDatabase("xregistry")
    assert check_catalog(catalog.spark).filter("finding.severity = 'error'").count() == 0


@pytest.mark.slow
def test_what_is_published_unchanged_is_looked_at_with_the_default_version_that_is_published(catalog):
    """Of a document that names another one, and lost it."""
    message = "/messagegroups/g/messages/m"
    catalog.write("a.json", document({"g": group({"m": {"name": "first"}})}))
    two = {"versions": {"1": {"name": "first"}, "2": {"basemessage": message}}, "meta": {"defaultversionid": "2"}}
    catalog.write("b.json", document({"g": group({"m": two})}))
    request = IngestRequest(Policy(on_conflict="refuse"))
    for snapshot_id in (1, None):
        assert catalog.ingest(request=request).snapshot_id == snapshot_id
        found = catalog.rows("SELECT rule_id, xid FROM xregistry.violations WHERE severity = 'error'")
        assert found == [("DOC-001", message)]  # and no MSG-146: the base is Version 1
    assert catalog.rows("SELECT versionid FROM xregistry.versions ORDER BY 1") == ["1", "2"]


@pytest.mark.slow
def test_who_loses_an_entity_is_reported_at_once_what_the_next_ingest_would_report(catalog):
    catalog.write("a.json", document({"g": group({"m": {"basemessage": "/messagegroups/g/messages/nowhere"}})}))
    catalog.ingest()
    findings = "SELECT rule_id, document_uri LIKE '%/a.json' FROM xregistry.violations WHERE severity <> 'warning'"
    assert catalog.rows(findings) == [("MSG-150", True)]
    catalog.write("b.json", document({"g": group({"m": {"name": "other"}})}))
    assert catalog.ingest().snapshot_id == 2
    facts = "SELECT max_by(body, snapshot_id) FROM xregistry.changes WHERE kind = 'document' AND xid LIKE '%/a.json'"
    assert "findings" not in json.loads(catalog.rows(facts)[0])
    assert catalog.ingest().snapshot_id is None


def _shows(versionid: str, base: str | None = "/messagegroups/g/messages/m") -> dict[str, Any]:
    second = {"name": "second"} | ({} if base is None else {"basemessage": base})
    return {"versions": {"1": {"name": "first"}, "2": second}, "meta": {"defaultversionid": versionid}}


def _shown_and_reported(catalog: Catalog) -> tuple[list[Any], list[Any]]:
    reported = (
        "SELECT rule_id, action, xid FROM xregistry.violations WHERE severity = 'error' AND rule_id LIKE 'MSG-%' ORDER BY 3"
    )
    return catalog.rows("SELECT defaultversionid FROM xregistry.messages WHERE messageid = 'm'"), catalog.rows(reported)


_CLOSED = [
    ("MSG-146", "quarantined", "/messagegroups/g/messages/m"),
    ("MSG-115", "quarantined", "/messagegroups/g/messages/m/versions/1"),
    ("MSG-115", "quarantined", "/messagegroups/g/messages/m/versions/2"),
]


@pytest.mark.slow
def test_a_message_that_comes_to_show_a_version_on_a_cycle_is_refused(catalog):
    catalog.write("a.json", document({"g": group({"m": _shows("1")})}))
    catalog.ingest()
    assert _shown_and_reported(catalog) == (["1"], [])  # Version 2 extends Version 1
    catalog.write("a.json", document({"g": group({"m": _shows("2")})}))  # and itself
    assert catalog.ingest().refused
    assert _shown_and_reported(catalog) == (["1"], _CLOSED)
    assert catalog.ingest().snapshot_id is None
    catalog.write("a.json", document({"g": group({"m": _shows("2", base=None)})}))
    assert not catalog.ingest().refused
    assert _shown_and_reported(catalog)[0] == ["2"]


@pytest.mark.slow
def test_a_message_that_waits_is_refused_where_it_would_show_a_version_on_a_cycle(catalog):
    catalog.write("a.json", document({"g": group({"m": {"name": "first"}})}))
    catalog.write("b.json", document({"g": group({"m": _shows("2")})}))
    catalog.ingest(request=IngestRequest(Policy(on_conflict="refuse")))
    catalog.write("a.json", document({"g": group({})}))
    assert catalog.ingest(request=IngestRequest(Policy(prune=True, force=True))).refused
    assert _shown_and_reported(catalog) == (["1"], _CLOSED)


@pytest.mark.slow
def test_a_message_may_show_a_version_of_another_document(catalog):
    """The first document says what Version 2 is, the second one comes to name it."""
    catalog.write("a.json", document({"g": group({"m": _shows("1")})}))
    catalog.write("b.json", document({"g": group({"m": _shows("1", base=None)})}))
    catalog.ingest()
    catalog.write("b.json", document({"g": group({"m": _shows("2", base=None)})}))
    catalog.ingest()
    assert _shown_and_reported(catalog) == (["1"], _CLOSED)
    catalog.spark.catalog.setCurrentDatabase("xregistry")
    assert check_catalog(catalog.spark).filter("finding.severity = 'error'").count() == 0


def test_a_message_falls_with_the_default_version_of_its_own_document(catalog):
    """Two documents have the same Version on a cycle; it is the default one of the second only, which loses the message."""
    message = "/messagegroups/g/messages/m"
    cycle = {"name": "first", "basemessage": f"{message}/versions/1"}
    other = {"versions": {"1": cycle, "2": {"name": "second", "ancestor": "2"}}, "meta": {"defaultversionid": "2"}}
    catalog.write("a.json", document({"g": group({"m": other})}))
    catalog.write("b.json", document({"g": group({"m": {"versions": {"1": cycle}}})}))
    for snapshot_id in (1, None):
        assert catalog.ingest().snapshot_id == snapshot_id
        reported = "SELECT right(document_uri, 6), rule_id, xid FROM xregistry.violations WHERE severity = 'error' ORDER BY ALL"
        assert catalog.rows(reported) == [
            ("a.json", "MSG-146", f"{message}/versions/1"),
            ("b.json", "MSG-115", message),
            ("b.json", "MSG-146", f"{message}/versions/1"),
        ]
    assert catalog.rows("SELECT versionid, isdefault FROM xregistry.versions") == [("2", True)]


@pytest.mark.slow
def test_what_a_rejected_document_said_before_is_reported_of_in_its_spelling(catalog):
    message = {"basemessageurl": "#/messagegroups/g/messages/nowhere"}
    catalog.write("b.json", document({"h": group({"ok": {}, "bad": {"envelope": 7}})}))  # read each time
    catalog.write("a.json", {"specversion": "0.5-wip", "messagegroups": {"g": group({"m": message})}})
    catalog.ingest()
    reported = "SELECT pointer FROM xregistry.violations WHERE rule_id = 'MSG-150'"
    assert catalog.rows(reported) == ["/messagegroups/g/messages/m/basemessageurl"]
    catalog.write("a.json", {"messagegroups": []})
    for snapshot_id in (2, None, None):
        assert catalog.ingest().snapshot_id == snapshot_id
        assert catalog.rows(reported) == ["/messagegroups/g/messages/m/basemessageurl"]
    facts = "SELECT max_by(body, snapshot_id) FROM xregistry.changes WHERE kind = 'document' AND xid LIKE '%/a.json'"
    known = json.loads(catalog.rows(facts)[0])
    assert (known["status"], known["dialect"]) == ("rejected", "0.5-wip")
    catalog.write("b.json", document({"h": group({"ok": {}})}))
    for snapshot_id in (3, None):  # and where nothing else is read any more
        assert catalog.ingest().snapshot_id == snapshot_id
    assert catalog.rows(reported) == ["/messagegroups/g/messages/m/basemessageurl"]
