"""Findings for a person to read: by rule, the worst first, some examples of each; and why something is not there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import orjson

from lakehouse.errors import EntityAbsent
from lakehouse.readmodel.file.schema import FEW
from lakehouse.readmodel.view import View
from lakehouse.text.names import RegistryId, Xid
from lakehouse.text.xid import xid_of_resource

LAST = "last"
TOLD_OF_FINDING = ("document_uri", "pointer", "xid", "action", "message", "hint")
_COLUMNS = ("violation_id", "ingest_id", "found_at", "registryid", "rule_id", "severity", *TOLD_OF_FINDING)
_LOST_WITH_ANOTHER = "MSG-115"  # what it was refused with has a finding of its own
_MOST_REASONS = 5
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


@contextmanager
def with_reasons(view: View, registryid: RegistryId | None = None) -> Iterator[None]:
    """Let an error about what is not there tell why it is not.

    Args:
        view: the snapshot.
        registryid: of this registry only; None: of all.
    """
    try:
        yield
    except EntityAbsent as error:
        reasons = reasons_of(view, error.xid, registryid)
        if reasons:
            error.because(reasons)
        raise


def reasons_of(view: View, text: str, registryid: RegistryId | None = None) -> list[str]:
    """Tell why an entity is not there at the snapshot: which rule refused it, which snapshot deleted it; empty: nothing is known.

    Args:
        view: the snapshot.
        text: an XID or an id.
        registryid: of this registry only; None: of all.
    """
    wanted = text.strip().removeprefix("#")
    if not wanted.rstrip("/"):
        return []
    found = [*_refused(view, wanted, registryid), *_deleted(view, wanted, registryid)]
    return found[:_MOST_REASONS]


def _refused(view: View, wanted: str, registryid: RegistryId | None) -> list[str]:
    findings = [
        one
        for one in find_violations(view, registryid=registryid)
        if one["action"] == "quarantined" and one["xid"] and _is_meant(xid_of_resource(one["xid"]), wanted)
    ]
    causes = [one for one in findings if one["rule_id"] != _LOST_WITH_ANOTHER]
    return list(dict.fromkeys(_told_of(one) for one in causes or findings))


def _told_of(finding: dict[str, Any]) -> str:
    uri, rule_id = finding["document_uri"], finding["rule_id"]
    return (
        f"{xid_of_resource(finding['xid'])} was refused by {rule_id}: {finding['message']}. `lakehouse violations --document "
        f"{uri.rsplit('/', 1)[-1] or uri}` lists what was refused of its document, `lakehouse explain {rule_id}` tells the rule."
    )


def _deleted(view: View, wanted: str, registryid: RegistryId | None) -> Iterator[str]:
    for xid in [xid_of_resource(Xid(wanted))] if wanted.startswith("/") else _deleted_of_id(view, wanted):
        rows = [row for row in view.history_rows(xid, registryid) if row["xid"] == xid]
        last = {row["registryid"]: row for row in sorted(rows, key=lambda row: int(row["snapshot_id"]))}
        for one, row in sorted(last.items()):
            if row["op"] == "delete":
                yield (
                    f"{xid} was deleted from registry {one} in snapshot {row['snapshot_id']}. `lakehouse show {xid} --at "
                    f"{row['snapshot_id'] - 1}` shows it as it was, `lakehouse log {xid}` tells who deleted it."
                )


def _deleted_of_id(view: View, entityid: str) -> list[Xid]:
    rows = view.db.execute(  # the index has these columns, so that no text of the log is read
        "SELECT DISTINCT xid FROM log INDEXED BY log_by_snapshot WHERE op = 'delete' AND snapshot_id <= ?1"
        " AND substr(xid, -length(?2)) = ?2 AND kind IN ('group', 'endpoint', 'message', 'schema') ORDER BY xid LIMIT ?3",
        (view.snapshot_id, f"/{entityid}", _MOST_REASONS),
    )
    return [Xid(xid) for (xid,) in rows]


def _is_meant(xid: Xid, wanted: str) -> bool:
    return xid == xid_of_resource(Xid(wanted)) if wanted.startswith("/") else xid.endswith(f"/{wanted}")
