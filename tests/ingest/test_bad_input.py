"""One of each kind of bad document among a thousand good ones: what is bad is reported, and all that is good loads."""

from __future__ import annotations

import gzip
import json

import pytest

pytestmark = pytest.mark.attack


def _in_group(**attributes: object) -> bytes:
    return json.dumps({"messagegroups": {"g": {"messages": {"m": {}}} | attributes}}).encode()


def _message(value: object, key: str = "m") -> bytes:
    return json.dumps({"messagegroups": {"g": {"messages": {key: value}}}}).encode()


GOOD = _message({})
# Each document, and the rule that is reported for it; None: it is not a registry document, and passed over.
BAD: dict[str, tuple[bytes, str | None]] = {
    "truncated": (GOOD[:-3], "JSON-001"),
    "blank": (b" \n", "JSON-001"),
    "trailing-comma": (b'{"messagegroups":{},}', "JSON-001"),
    "comment": (b'{"messagegroups":{}} // all', "JSON-001"),
    "nan": (b'{"messagegroups":{"g":{"x":NaN}}}', "JSON-001"),
    "overflow": (b'{"messagegroups":{"g":{"x":1e400,"messages":{"m":{}}}}}', "MSG-104"),
    "nul": (b'{"messagegroups":{}}\x00', "JSON-001"),
    "utf-16": (GOOD.decode().encode("utf-16"), "JSON-001"),
    "latin-1": ('{"name":"Bücher","messagegroups":{}}'.encode("latin-1"), "JSON-001"),
    "bom": (b"\xef\xbb\xbf" + GOOD, "JSON-003"),
    "two-in-one": (GOOD + GOOD, "JSON-001"),
    "array": (b"[1]", None),
    "null": (b"null", None),
    "deep": (b"[" * 10_000 + b"]" * 10_000, "JSON-004"),
    "key-twice-same": (b'{"name":"a","name":"a","messagegroups":{"g":{"messages":{"m":{}}}}}', "JSON-002"),
    "key-twice-other": (b'{"messagegroups":{"g":{"name":"a","name":"b","messages":{"m":{}}}}}', "JSON-002"),
    "group-null": (b'{"messagegroups":{"g":null}}', "MSG-018"),
    "message-a-string": (_message("m"), "MSG-036"),
    "envelope-nested": (_in_group(envelope={"a": "b"}), "MSG-032"),
    "epoch-negative": (_in_group(epoch=-1), "MSG-024"),
    "epoch-a-string": (_in_group(epoch="1"), "MSG-024"),
    "createdat-no-time": (_in_group(createdat="yesterday"), "MSG-047"),
    "key-is-not-id": (_message({"messageid": "other"}), "MSG-037"),
    "id-dots": (_message({}, "../m"), "MSG-037"),
    "id-quotes": (_message({}, "'m\""), "MSG-037"),
    "id-sql": (_message({}, "'; DROP TABLE x --"), "MSG-037"),
    "id-backtick": (_message({}, "`m`"), "MSG-037"),
    "id-newline": (_message({}, "m\nm"), "MSG-037"),
    "id-right-to-left": (_message({}, "\u202em"), "MSG-037"),
    "id-long": (_message({}, "m" * 300), "MSG-037"),
    "id-empty": (_message({}, ""), "MSG-037"),
    "id-case": (json.dumps({"messagegroups": {"g": {"messages": {"m": {}, "M": {}}}}}).encode(), "MSG-037"),
}
# What is no reason to refuse the message m.
HARMLESS = {"bom", "key-twice-same", "id-case"}


def test_all_that_is_good_loads_and_all_that_is_bad_is_reported(catalog):
    for number in range(1000):
        catalog.write(f"good/{number:04}.json", GOOD)
    for name, (text, _) in BAD.items():
        catalog.write(f"bad/{name}.json", text)
    catalog.write("bad/empty.json", b"")
    catalog.write("bad/bomb.json.gz", gzip.compress(b" " * 50_000_000))
    few = catalog.settings.model_copy(update={"max_unpacked_bytes": 10_000_000})
    summary = catalog.ingest(settings=few, registry_from="document")
    # All good ones, and of the bad ones what is good
    assert catalog.rows("SELECT count(*) FROM messages WHERE registryid LIKE 'good/%' AND messageid = 'm'") == [1000]
    loaded = catalog.rows("SELECT registryid, messageid FROM messages WHERE registryid NOT LIKE 'good/%'")
    assert set(loaded) == {(f"bad/{name}", "m") for name in HARMLESS}
    # Each bad one is reported with its rule; what cannot live without what was refused names the cause
    reported = catalog.rows("SELECT document_uri, rule_id FROM violations WHERE rule_id <> 'MSG-115'")
    expected = {f"{name}.json": rule for name, (_, rule) in BAD.items() if rule} | {"bomb.json.gz": "JSON-004"}
    assert sorted((uri.rsplit("/", 1)[1], rule) for uri, rule in reported) == sorted(expected.items())
    assert summary.hidden == []
    assert summary.documents["skipped"] == sum(rule is None for _, rule in BAD.values()) + 1  # the empty one
    # And nothing of them became a table, a path or a column
    assert catalog.rows("SELECT count(*) FROM violations WHERE xid LIKE '%DROP TABLE%' AND action = 'quarantined'") == [2]
    assert sorted(path.name for path in catalog.documents.parent.iterdir()) == ["documents", "warehouse"]
