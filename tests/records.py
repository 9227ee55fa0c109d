"""The entities of one document in memory, around which the rules between entities are tried without Spark."""

from __future__ import annotations

from collections import Counter
from typing import Any

from lakehouse.dialects.detection import dialect_of, marks_of
from lakehouse.domain.neighbours import EntityState, RuleLimits, violations_of
from lakehouse.ingest.parse.document import read_document
from lakehouse.text.jsontext import read_canonical
from lakehouse.text.xid import xid_of_group, xid_of_resource


class Records:
    """The entities of one document."""

    def __init__(self, written: dict[str, Any], dialect: str = "1.0-rc2") -> None:
        rows = read_document(written, [], dialect).rows
        self.states = {row.xid: EntityState(row.kind, row.xid, read_canonical(row.body), dialect) for row in rows}

    def entity(self, xid):
        return self.states.get(xid)

    def children(self, xid):
        def holder(one):
            return xid_of_resource(one) if "/versions/" in one else xid_of_group(one)

        return [state for one, state in sorted(self.states.items()) if one != xid and holder(one) == xid]

    def siblings(self, version):
        return [one for one in self.children(xid_of_resource(version.xid)) if one.kind == "version"]

    def alike(self, xid):
        collection = xid.rpartition("/")[0]
        others = (one for one in sorted(self.states) if one != xid and one.rpartition("/")[0] == collection)
        return next((one for one in others if one.lower() == xid.lower()), None)

    def first_of_type(self, ce_type):
        typed = [
            xid_of_resource(state.xid)
            for state in self.states.values()
            if state.attributes.get("envelopemetadata", {}).get("type", {}).get("value") == ce_type
        ]
        return min(typed, default=None)

    def broken(self, before: Records | None = None, **limits):
        wanted = RuleLimits(
            **({"max_chain_depth": 128, "duplicate_messageids": "warning", "first_of_type": self.first_of_type} | limits)
        )
        return {
            (xid, violation)
            for xid, state in self.states.items()
            for violation in violations_of(state, before.entity(xid) if before else None, self, wanted)
            if before is None or state != before.entity(xid)
        }


def records_of(written: dict[str, Any]) -> Records:
    """Read a document in the dialect that it reports."""
    return Records(written, dialect_of(written, Counter(), marks_of(written)))
