"""Many CloudEvents in one message: a batch in JSON, alone or as the body of an HTTP request (HTTP binding, 3.3)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import orjson

from lakehouse.render.rendered import Rendered
from lakehouse.text.names import NO_XID

BATCH_JSON = "application/cloudevents-batch+json"


def batched(messages: Iterable[Rendered]) -> list[Rendered]:
    """Put structured events into batches: those that go with the same path, query and headers into one.

    Args:
        messages: rendered in structured mode, over HTTP or for no protocol.

    Returns:
        A message for each batch, in the order of their first events; of a batch of several definitions `xid` is empty.
    """
    found: dict[tuple[str | None, str | None, bytes], list[Rendered]] = {}
    for message in messages:
        key = (message.protocol, message.uri, orjson.dumps(message.captured, option=orjson.OPT_SORT_KEYS))
        found.setdefault(key, []).append(message)
    return [_batch(members) for members in found.values()]


def _batch(members: list[Rendered]) -> Rendered:
    first = members[0]
    events = [member.event for member in members]
    captured: dict[str, Any] = dict(first.captured)
    if "headers" in captured:
        others = [one for one in captured["headers"] if one["name"].lower() != "content-type"]
        captured["headers"] = [*others, {"name": "content-type", "value": BATCH_JSON}]
    one_definition = len({(member.registryid, member.xid) for member in members}) == 1
    statuses = {member.payload_status for member in members}
    return replace(
        first,
        xid=first.xid if one_definition else NO_XID,
        captured=captured,
        event=None,
        body=orjson.dumps(events),
        variables=first.variables if len(members) == 1 else {},
        payload_status=statuses.pop() if len(statuses) == 1 else "mixed",
        remarks=tuple(dict.fromkeys(remark for member in members for remark in member.remarks)),
    )
