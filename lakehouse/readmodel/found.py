"""Findings for a person to read: grouped by rule, the worst first, some examples of each."""

from __future__ import annotations

from typing import Any, NamedTuple

import orjson

from lakehouse.readmodel.file.schema import FEW
from lakehouse.readmodel.view import View
from lakehouse.text.names import RegistryId, Xid

LAST = "last"
TOLD_OF_FINDING = ("document_uri", "pointer", "xid", "action", "message", "hint")
_COLUMNS = ("violation_id", "ingest_id", "found_at", "registryid", "rule_id", "severity", *TOLD_OF_FINDING)
_WORST_FIRST = {"error": 0, "warning": 1, "info": 2}


class Broken(NamedTuple):
    """A rule that findings are about: how many there are, and the first of them as `TOLD_OF_FINDING`."""

    rule_id: str
    severity: str
    text: str
    findings: int
    examples: list[dict[str, Any]]


def find_violations(
    view: View,
    *,
    registryid: RegistryId | None = None,
    ingest: str | None = None,
    document: str | None = None,
    xid: Xid | None = None,
) -> list[dict[str, Any]]:
    """List findings at the snapshot, by rule (the worst first), document, pointer.

    Args:
        view: the snapshot.
        registryid: only of this registry.
        ingest: only those that this run found first, or the last one that found any ('last'); None: those of each document's
            latest load.
        document: URI of a document, or its end after a `/`.
        xid: only of this entity, and of its Versions.

    Returns:
        Rows of the table `violations`, without `raw`.
    """
    holds = f"snapshot_id <= {view.snapshot_id:d}" + (
        f" AND until > {view.snapshot_id:d} AND op <> 'delete'" if not ingest else ""
    )
    loads = view.db.execute(f"SELECT body FROM log WHERE kind = 'document' AND {FEW} AND {holds}")
    wanted = {violation_id for (body,) in loads for violation_id in orjson.loads(body or "{}").get("findings") or []}
    found = []
    for row in view.db.execute(f"SELECT {', '.join(_COLUMNS)} FROM violations"):
        one = dict(zip(_COLUMNS, row, strict=True))
        is_known = one["violation_id"] in wanted or (bool(ingest) and view.is_live)
        if is_known:
            found.append(one)
    if ingest == LAST:
        newest = max(found, key=lambda one: one["found_at"], default=None)
        ingest = None if newest is None else newest["ingest_id"]
        found = [] if newest is None else found
    found = [
        one
        for one in found
        if (ingest is None or one["ingest_id"] == ingest)
        and (registryid is None or one["registryid"] == registryid)
        and (document is None or one["document_uri"] == document or one["document_uri"].endswith("/" + document))
        and (xid is None or one["xid"] == xid or (one["xid"] or "").startswith(f"{xid}/versions/"))
    ]
    return sorted(found, key=_order)


def violations_by_rule(findings: list[dict[str, Any]], examples: int = 5) -> list[Broken]:
    """Group findings by rule and severity.

    Args:
        findings: as from `find_violations`.
        examples: how many of each are told.
    """
    from lakehouse.rules.declared import TOLD

    found: dict[tuple[str, str], Broken] = {}
    for one in findings:
        key = (one["rule_id"], one["severity"])
        text = TOLD[one["rule_id"]].text if one["rule_id"] in TOLD else ""
        known = found.setdefault(key, Broken(*key, text, 0, []))
        found[key] = known._replace(findings=known.findings + 1)
        if len(known.examples) < examples:
            known.examples.append({name: one[name] for name in TOLD_OF_FINDING})
    return list(found.values())


def _order(one: dict[str, Any]) -> tuple[Any, ...]:
    first = (_WORST_FIRST[one["severity"]], one["rule_id"], one["document_uri"])
    return (*first, one["pointer"] is not None, one["pointer"] or "", one["violation_id"])
