"""Three releases of a shop's document: loaded, edited, edited again with something refused, dropped and pruned."""

from __future__ import annotations

from typing import Any

from lakehouse.domain.ownership import Policy
from lakehouse.ingest.pipeline import IngestRequest
from lakehouse.store.schema import ENTITY_TABLES


def shop(version: str, *messages: str) -> dict[str, Any]:
    """Build the document of a release; all messages extend /messagegroups/base/messages/event."""
    event = {"envelope": "CloudEvents/1.0", "envelopemetadata": {"type": {"required": True}}}
    if version != "one":
        event["envelopemetadata"]["tenant"] = {"type": "string", "required": True}
    base = "/messagegroups/base/messages/event"
    return {
        "labels": {"version": version},
        "messagegroups": {
            "base": {"messages": {"event": event}},
            "g": {"envelope": "CloudEvents/1.0", "messages": {m: {"name": version, "basemessage": base} for m in messages}},
        },
        "endpoints": {
            "e": {
                "usage": ["producer"],
                "protocol": "MQTT",
                "protocoloptions": {"deployed": True, "endpoints": [{"uri": "mqtt://a", "x": 1}], "options": {"topic": version}},
                "messagegroups": ["/messagegroups/g"],
            }
        },
        "schemagroups": {"s": {"schemas": {"t": {"format": "JSONSchema/draft-07", "schema": {"title": version}}}}},
    }


def load(catalog: Any) -> dict[int, dict[str, list[str]]]:
    """Load the releases, and give the rows of all tables after each."""
    then = {}
    catalog.write("a.json", shop("one", "m", "n", "o"))
    catalog.ingest(request=IngestRequest(label="first"))
    then[1] = contents(catalog, "xregistry")
    catalog.write("a.json", shop("two", "m", "n", "o"))
    catalog.ingest()
    then[2] = contents(catalog, "xregistry")
    edited = shop("three", "m", "o")
    edited["messagegroups"]["g"]["messages"]["bad"] = {"envelope": 5}
    edited["messagegroups"]["g"]["deprecated"] = {"effective": "2030-01-01T00:00:00Z"}
    catalog.write("a.json", edited)
    catalog.ingest(request=IngestRequest(Policy(prune=True)))
    then[3] = contents(catalog, "xregistry")
    return then


def contents(catalog: Any, schema: str) -> dict[str, list[str]]:
    """Return the rows of all tables as text, sorted."""
    names = [*(table.name for table in ENTITY_TABLES), "violations"]
    return {name: sorted(map(str, catalog.spark.table(f"{schema}.{name}").collect())) for name in names}
