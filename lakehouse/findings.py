"""What is told about a document: problems while it is read, findings once they belong to an entity."""

from __future__ import annotations

from typing import NamedTuple

# Rules of this store's own, beside those of the specifications: what it takes to trust a text at all.
NOT_JSON = "JSON-001"
DUPLICATE_KEY = "JSON-002"
BYTE_ORDER_MARK = "JSON-003"
LIMIT = "JSON-004"
CREDENTIAL = "END-111"
CONFLICT = "DOC-001"
OWNER_CHANGED = "DOC-002"
STALE = "DOC-003"
STRICT = "DOC-004"


class Problem(NamedTuple):
    """Something wrong or worth telling: where (JSON Pointer as written), the rule, how bad, what, how to fix it."""

    pointer: str
    rule_id: str
    severity: str
    message: str
    hint: str
    raw: str | None = None


class Finding(NamedTuple):
    """A problem of an entity, with what was done about it; kind and xid are empty for the document itself."""

    kind: str
    xid: str
    pointer: str
    rule_id: str
    severity: str
    action: str
    message: str
    hint: str
    raw: str | None
