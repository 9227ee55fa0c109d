"""`/subscriptions` as OpenAPI describes it: what is asked for, what is shown, and the errors.

A test holds it against what the server routes, takes and answers.
"""

from __future__ import annotations

from typing import Any

from lakehouse.serve.describe.openapi import Document, errors
from lakehouse.serve.subscriptions.asked import MEDIA_TYPES, MODES, PROTOCOLS
from lakehouse.serve.subscriptions.store import ACTIVE, PARKED, VALIDATING

PATH = "/subscriptions"
_FILTER = "#/components/schemas/SubscriptionFilter"
_TEXT: Document = {"type": "string", "minLength": 1}
_COUNT: Document = {"type": "integer", "minimum": 0}


def described(dialect: str) -> Document:
    """Describe the paths, and what they refer to.

    Args:
        dialect: of errors.

    Returns:
        `paths` and `components` of an OpenAPI document.
    """
    return {"paths": _paths(dialect), "components": {"schemas": {"SubscriptionFilter": _filter()}}}


def _paths(dialect: str) -> Document:
    one = {"content": {"application/json": {"schema": _shown()}}}
    many = {"content": {"application/json": {"schema": {"type": "array", "items": _shown()}}}}
    location = {"headers": {"Location": {"schema": _TEXT}}}
    always = ("400", "401")
    there = _told(dialect, *always, "404")
    writing = _told(dialect, *always, "408", "413", "415")
    name = {"name": "subscriptionid", "in": "path", "required": True, "schema": _TEXT}
    return {
        PATH: {
            "parameters": [],
            "get": _operation("All subscriptions", {"200": _found("All.", many)} | _told(dialect, *always)),
            "post": _operation(
                "Subscribe to events",
                {"201": _found("It is kept.", one | location)} | writing | _told(dialect, "503"),
                _asked(),
            ),
        },
        PATH + "/{subscriptionid}": {
            "parameters": [name],
            "get": _operation(
                "A subscription, with the last event its sink received", {"200": _found("There it is.", one)} | there
            ),
            "put": _operation(
                "Replace it; a parked one resumes", {"200": _found("It is kept.", one)} | there | writing, _asked()
            ),
            "delete": _operation("End it", {"204": {"description": "It is no more."}} | there),
        },
    }


def _filter() -> Document:
    texts = {"type": "object", "minProperties": 1, "additionalProperties": _TEXT}
    several = {"type": "array", "minItems": 1, "items": {"$ref": _FILTER}}
    members = {"exact": texts, "prefix": texts, "suffix": texts, "all": several, "any": several, "not": {"$ref": _FILTER}}
    told = "Attributes of an event that are, begin or end so; all, any or none of other filters."
    return _object(members) | {"description": told, "minProperties": 1}


def _members() -> Document:
    """Describe the members that a client writes and is shown."""
    return {
        "source": _TEXT | {"description": "The root of the catalog, or `/reg-ID` below it (CAT-193)."},
        "types": {"type": ["array", "null"], "items": _TEXT, "description": "Types of events; without, all."},
        "filter": {"$ref": _FILTER},
        "filters": {"type": "array", "items": {"$ref": _FILTER}, "description": "Each has to match."},
        "sink": _TEXT | {"format": "uri", "description": "A URL of https or http that events are sent to."},
        "protocol": {"enum": list(PROTOCOLS)},
        "protocolsettings": _object({"method": {"const": "POST"}}),
        "config": _object({"contentmode": {"enum": list(MODES)}}),
    }


def _asked() -> Document:
    credential = {
        "credentialtype": {"const": "ACCESSTOKEN"},
        "accesstokentype": {"const": "bearer"},
        "accesstoken": _TEXT | {"description": "Sent as Bearer; shown by nothing."},
    }
    kept = {"id": {"description": "The server chooses it."}, "status": {"description": "The server knows it."}}
    asked = _object(kept | _members() | {"sinkcredential": _object(credential, "accesstoken")}, "sink")
    return {"required": True, "content": {media_type: {"schema": asked} for media_type in MEDIA_TYPES}}


def _shown() -> Document:
    event = {"type": "object", "required": ["specversion", "id", "source", "type"]}
    status = {
        "state": {"enum": [VALIDATING, ACTIVE, PARKED]},
        "reason": {"type": ["string", "null"], "description": "Why the last attempt failed."},
        "snapshot": _COUNT | {"description": "The last event that the sink received."},
        **dict.fromkeys(("delivered", "parked", "gaps", "attempts"), _COUNT),
        "parkedevents": {"type": "array", "items": _object({"event": event, "reason": _TEXT}, "event", "reason")},
    }
    counts = ("state", "reason", "snapshot", "delivered", "parked", "gaps", "attempts")
    return _object({"id": _TEXT} | _members() | {"status": _object(status, *counts)}, "id", "sink", "status")


def _object(members: dict[str, Any], *required: str) -> Document:
    return {"type": "object", "properties": members, "required": list(required), "additionalProperties": False}


def _found(text: str, content: Document) -> Document:
    return {"description": text} | content


def _operation(summary: str, responses: Document, body: Document | None = None) -> Document:
    return {"summary": summary, "parameters": [], "responses": responses} | ({"requestBody": body} if body is not None else {})


def _told(dialect: str, *statuses: str) -> Document:
    known = errors(dialect)
    content = known["400"]["content"]
    more = {"408": "The body did not come in time.", "413": "The body is too large.", "415": "The body is of another type."}
    return {status: known.get(status) or {"description": more[status], "content": content} for status in statuses}
