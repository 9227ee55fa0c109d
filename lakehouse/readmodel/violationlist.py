"""Findings for people: by rule, the worst first, some examples of each; and why an entity is missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import orjson

from lakehouse.errors import DocumentNotFound, EntityAbsent
from lakehouse.readmodel.file.sqliteschema import FEW
from lakehouse.readmodel.snapshotview import View
from lakehouse.text.documentnames import documents_of
from lakehouse.text.names import RegistryId, Xid
from lakehouse.text.timestamps import utc_seconds
from lakehouse.text.xid import is_message, xid_of_resource

LAST = "last"
EXAMPLE_COLUMNS = ("document_uri", "pointer", "xid", "action", "message", "hint")
_COLUMNS = ("violation_id", "ingest_id", "found_at", "registryid", "rule_id", "severity", *EXAMPLE_COLUMNS)
CONSEQUENCES = ("MSG-115",)  # their cause has its own finding
_MOST_REASONS = 5
_WORST_FIRST = {"error": 0, "warning": 1, "info": 2}


class RuleFindings(NamedTuple):
    """A rule that findings are about: how many there are, and the first of them as `EXAMPLE_COLUMNS`."""

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
    """List findings at the snapshot, by severity (the worst first), causes before consequences, rule, document, pointer.

    Args:
        view: the snapshot.
        registryid: only of this registry.
        ingest: only those that this run found first, or the last one that found any ('last'); None: those of each document's
            latest load.
        document: URI of a document in any spelling, a path, or the end of one after a `/`.
        xid: only of this entity, and of its Versions.

    Returns:
        Rows of the table `violations`, without `raw`.

    Raises:
        DocumentNotFound: `document` names none that the snapshot holds, nor one that a finding is about.
    """
    results = _findings(view, of_past_loads=bool(ingest))
    named = None if document is None else _named(view, document, results, registryid)
    if ingest == LAST:
        newest = max(results, key=lambda finding: finding["found_at"], default=None)
        ingest = None if newest is None else newest["ingest_id"]
        results = [] if newest is None else results
    wanted = {name: value for name, value in (("ingest_id", ingest), ("registryid", registryid)) if value is not None}
    rows = [finding for finding in results if all(finding[name] == value for name, value in wanted.items())]
    rows = rows if named is None else [finding for finding in rows if finding["document_uri"] in named]
    return sorted(rows if xid is None else [finding for finding in rows if _is_of(finding["xid"], xid)], key=_order)


def _is_of(xid: str | None, entity: Xid) -> bool:
    """Return whether an XID is that of an entity, or of one of its Versions."""
    return xid == entity or (xid or "").startswith(f"{entity}/versions/")


def _findings(view: View, where: str = "1", values: tuple[str, ...] = (), *, of_past_loads: bool = False) -> list[dict[str, Any]]:
    """Read the findings of each document's latest load at the snapshot, or of all loads up to it."""
    rows = view.db.execute(f"SELECT {', '.join(_COLUMNS)} FROM violations WHERE {where}", values).fetchall()
    results = [dict(zip(_COLUMNS, row, strict=True)) for row in rows]
    if not results or (of_past_loads and view.is_live):
        return results
    condition = f"snapshot_id <= {view.snapshot_id:d}" if of_past_loads else view.in_snapshot()
    loads = view.db.execute(f"SELECT body FROM log WHERE kind = 'document' AND {FEW} AND {condition}")
    recorded = {violation_id for (body,) in loads for violation_id in orjson.loads(body or "{}").get("findings") or []}
    return [finding for finding in results if finding["violation_id"] in recorded]


def _named(view: View, text: str, results: list[dict[str, Any]], registryid: RegistryId | None) -> list[str]:
    of_findings = (finding["document_uri"] for finding in results if registryid is None or finding["registryid"] == registryid)
    named = documents_of(text, [*(uri for _, uri, _, _ in view.documents(registryid)), *of_findings])
    if not named:
        raise DocumentNotFound(text, registryid)
    return named


def violations_by_rule(findings: list[dict[str, Any]], examples: int = 5) -> list[RuleFindings]:
    """Group findings by rule and severity.

    Args:
        findings: as from `find_violations`.
        examples: how many of each are returned.
    """
    from lakehouse.rules.declared import FINDING_RULES

    results: dict[tuple[str, str], RuleFindings] = {}
    for finding in findings:
        key = (finding["rule_id"], finding["severity"])
        text = FINDING_RULES[finding["rule_id"]].text if finding["rule_id"] in FINDING_RULES else ""
        rule_findings = results.setdefault(key, RuleFindings(*key, text, 0, []))
        results[key] = rule_findings._replace(findings=rule_findings.findings + 1)
        if len(rule_findings.examples) < examples:
            rule_findings.examples.append({name: finding[name] for name in EXAMPLE_COLUMNS})
    return list(results.values())


def _order(finding: dict[str, Any]) -> tuple[Any, ...]:
    first = (_WORST_FIRST[finding["severity"]], finding["rule_id"] in CONSEQUENCES, finding["rule_id"], finding["document_uri"])
    return (*first, finding["pointer"] is not None, finding["pointer"] or "", finding["violation_id"])


@contextmanager
def with_reasons(view: View, registryid: RegistryId | None = None) -> Iterator[None]:
    """Add to an error about a missing entity why it is missing.

    Args:
        view: the snapshot.
        registryid: of this registry only; None: of all.
    """
    try:
        yield
    except EntityAbsent as error:
        reasons = [] if isinstance(error, DocumentNotFound) else reasons_of(view, error.xid, registryid)
        whole = [] if reasons else rejected_documents(view, registryid)
        if reasons or whole:
            error.because(reasons or [error.advice, *whole])
        raise


def reasons_of(view: View, text: str, registryid: RegistryId | None = None) -> list[str]:
    """Return why an entity is missing in the snapshot: which rule refused it, which snapshot deleted it; empty: unknown.

    Args:
        view: the snapshot.
        text: an XID or an id.
        registryid: of this registry only; None: of all.
    """
    wanted = text.strip().removeprefix("#")
    if not wanted.rstrip("/"):
        return []
    results = [*reasons_of_refusal(view, wanted, registryid), *_deleted(view, wanted, registryid)]
    return results[:_MOST_REASONS]


def notes_on(view: View, text: str, registryid: RegistryId | None = None, *, of_message: bool = True) -> list[str]:
    """Return what an answer does not show: text that was refused; a deleted message, where its id named something else.

    Args:
        view: the snapshot.
        text: the XID or id that was asked for.
        registryid: of this registry only; None: of all.
        of_message: the answer is about a message.
    """
    wanted = text.strip()
    gone = [] if of_message or wanted.startswith("/") else _deleted(view, wanted, registryid, only_messages=True)
    return [*reasons_of_refusal(view, wanted, registryid), *gone][:_MOST_REASONS]


def rejected_documents(view: View, registryid: RegistryId | None = None) -> list[str]:
    """Return which documents were refused whole: nobody knows which entities they hold."""
    results = [
        f"{uri} was refused whole, so nothing that it holds was loaded: {facts.get('reason')}. `lakehouse show {uri}` shows more."
        for _, uri, _, facts in view.documents(registryid)
        if facts.get("status") == "rejected"
    ]
    more = [f"{len(results) - _MOST_REASONS} more documents were refused whole."] if len(results) > _MOST_REASONS else []
    return [*results[:_MOST_REASONS], *more]


def reasons_of_refusal(
    view: View, wanted: str, registryid: RegistryId | None = None, *, only_messages: bool = False
) -> list[str]:
    """Return which rule refused an entity in the latest load of its document, one text for each finding; empty: none did.

    Args:
        view: the snapshot.
        wanted: an XID or an id.
        registryid: of this registry only; None: of all.
        only_messages: leave out what is no message.
    """
    findings = [
        finding
        for finding in _findings(view, "action = 'quarantined' AND instr(xid, ?)", (xid_of_resource(Xid(wanted)),))
        if _is_meant(xid_of_resource(finding["xid"]), wanted)
        and (registryid is None or finding["registryid"] == registryid)
        and (not only_messages or is_message(finding["xid"]))
    ]
    causes = [finding for finding in findings if finding["rule_id"] not in CONSEQUENCES]
    return list(dict.fromkeys(_commit_metadata(finding) for finding in sorted(causes or findings, key=_order)))


def _commit_metadata(finding: dict[str, Any]) -> str:
    uri, rule_id = finding["document_uri"], finding["rule_id"]
    return (
        f"{xid_of_resource(finding['xid'])} was refused by {rule_id}: {finding['message']} ({uri}, {finding['pointer'] or '/'}). "
        f"`lakehouse violations --document {uri.rsplit('/', 1)[-1] or uri}` lists what was refused of its document, "
        f"`lakehouse explain {rule_id}` explains the rule."
    )


def _deleted(view: View, wanted: str, registryid: RegistryId | None, *, only_messages: bool = False) -> Iterator[str]:
    for xid in [xid_of_resource(Xid(wanted))] if wanted.startswith("/") else _deleted_of_id(view, wanted):
        if only_messages and not is_message(xid):
            continue
        rows = [row for row in view.history_rows(xid, registryid) if row["xid"] == xid]
        last = {row["registryid"]: row for row in sorted(rows, key=lambda row: int(row["snapshot_id"]))}
        for registry, row in sorted(last.items()):
            if row["op"] == "delete":
                number = int(row["snapshot_id"])
                facts = view.commit_of(number)
                when = utc_seconds(facts["committed_at"])
                yield (
                    f"{xid} was deleted from registry {registry} in snapshot {number}. `lakehouse show {xid} --at {number - 1}` "
                    f"shows it as it was. {facts['committed_by']} deleted it at {when} by {facts['command']}: "
                    f"`lakehouse log {xid}`."
                )


def _deleted_of_id(view: View, entityid: str) -> list[Xid]:
    rows = view.db.execute(  # the index has these columns, so that no text of the log is read
        "SELECT DISTINCT xid FROM log_rows INDEXED BY log_by_snapshot WHERE op = 'delete' AND snapshot_id <= ?1"
        " AND substr(xid, -length(?2)) = ?2 AND kind IN ('group', 'endpoint', 'message', 'schema') ORDER BY xid LIMIT ?3",
        (view.snapshot_id, f"/{entityid}", _MOST_REASONS),
    )
    return [Xid(xid) for (xid,) in rows]


def _is_meant(xid: Xid, wanted: str) -> bool:
    return xid == xid_of_resource(Xid(wanted)) if wanted.startswith("/") else xid.endswith(f"/{wanted}")
