"""Findings about a document: problems while it is read, findings once they belong to an entity."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, NamedTuple

from lakehouse.text.names import Pointer, RegistryId, Xid

if TYPE_CHECKING:
    from pyspark.sql import Column

# This store's own rules, besides those of the specifications: what it takes to trust a text at all.
NOT_JSON = "JSON-001"
DUPLICATE_KEY = "JSON-002"
BYTE_ORDER_MARK = "JSON-003"
LIMIT = "JSON-004"
FAULT = "JSON-005"
NO_DOCUMENT = "JSON-006"
CREDENTIAL = "END-111"
CONFLICT = "DOC-001"
OWNER_CHANGED = "DOC-002"
STALE = "DOC-003"
STRICT = "DOC-004"
REGAINED = "DOC-005"
ICON = "TEXT-001"
MISSPELLED = "TEXT-002"
REPORTED_ONLY = (OWNER_CHANGED, REGAINED)  # they ask for nothing: what they are about is published as the document says


class Problem(NamedTuple):
    """Something wrong or worth reporting: where (JSON Pointer as written), the rule, how bad, what, how to fix it.

    `keeps_entity` means an error that removes nothing: what is wrong was left out of the normal form, and its entity stays.
    """

    pointer: Pointer
    rule_id: str
    severity: str
    message: str
    hint: str
    raw: str | None = None
    keeps_entity: bool = False


class Finding(NamedTuple):
    """A problem of an entity, with what was done about it; kind and xid are empty for the document itself."""

    kind: str
    xid: Xid
    pointer: Pointer
    rule_id: str
    severity: str
    action: str
    message: str
    hint: str
    raw: str | None


def violation_id(
    registryid: RegistryId, document_uri: str, rule_id: str, xid: Xid, pointer: Pointer, message: str, action: str
) -> str:
    """Return the id of a finding, the same in every run; `violation_id_column` computes it as a column.

    What was kept is another finding than what was refused: what is published may break a rule, and its next edition too.
    """
    identity = (registryid, document_uri, rule_id, xid, pointer, message, action)
    return hashlib.sha256("\0".join(identity).encode()).hexdigest()[:32]


def violation_id_column(
    registryid: Column | str,
    document_uri: Column | str,
    rule_id: Column | str,
    xid: Column | str,
    pointer: Column | str,
    message: Column | str,
    action: Column | str,
) -> Column:
    """Return the id of findings, as `violation_id`, computed of columns or their names; NULL counts as an empty text."""
    from pyspark.sql import functions as F  # noqa: PLC0415 - reading documents needs no Spark

    parts = (F.coalesce(column, F.lit("")) for column in (registryid, document_uri, rule_id, xid, pointer, message, action))
    return F.substring(F.sha2(F.concat_ws("\0", *parts), 256), 1, 32)
