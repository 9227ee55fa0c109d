"""What is taken out of a document: the entity, and what cannot live without it, each with a finding and its raw JSON."""

from __future__ import annotations

from typing import Any

from lakehouse.ingest.parse.identity import dependent, meta_of
from lakehouse.ingest.parse.readings import Reading
from lakehouse.store.keys import VERSION_KIND
from lakehouse.text.jsontext import as_written, below
from lakehouse.text.names import Pointer, Xid
from lakehouse.text.problems import Finding, Problem
from lakehouse.text.xid import xid_of_version


class Refusals:
    """Adds findings, and counts of what is quarantined, to what was read of a document."""

    def __init__(self, reading: Reading) -> None:
        self.reading = reading

    def refuse_shape(self, kind: str, xid: Xid, here: Pointer, written: Any, rule: str) -> None:
        """Refuse what is not an object."""
        told = Problem(here, rule, "error", "it is not an object", "Write an object.")
        self.refuse(kind, xid, told, as_written(written))

    def refuse_dependent(self, kind: str, xid: Xid, here: Pointer, written: Any, cause: str) -> None:
        """Refuse what cannot live without an entity that was refused: a message or schema with its Versions, or a Version."""
        self.refuse(kind, xid, dependent(here, cause), as_written(written))
        if kind in VERSION_KIND:
            self.refuse_versions(kind, xid, here, written, cause)

    def refuse_versions(self, kind: str, xid: Xid, here: Pointer, written: Any, cause: str) -> None:
        """Refuse the Versions of a message or schema that was refused; one that names none has one."""
        if isinstance(written, dict) and "xref" in meta_of(kind, written):
            return  # an alias has no Versions
        versions = written.get("versions") if isinstance(written, dict) else None
        if isinstance(versions, dict) and versions:
            for versionid in versions:
                self.refuse(
                    VERSION_KIND[kind],
                    xid_of_version(xid, versionid),
                    dependent(below(here, "versions", versionid), cause),
                    None,
                )
        else:
            declared = written.get("versionid", written.get("defaultversionid")) if isinstance(written, dict) else None
            versionid = declared if isinstance(declared, str) else "1"
            self.refuse(VERSION_KIND[kind], xid_of_version(xid, versionid), dependent(here, cause), None)

    def refuse(self, kind: str, xid: Xid, problem: Problem, raw: str | None) -> None:
        """Refuse an entity for a problem, and keep its JSON."""
        self.reading.refuse(kind, xid)
        self.tell(kind, xid, problem, "quarantined", raw)

    def tell(self, kind: str, xid: Xid, problem: Problem, action: str, raw: str | None) -> None:
        """Add a finding about an entity; raw: its JSON, where the problem has none of its own."""
        pointer, rule_id, severity, message, hint, own_raw, _ = problem
        self.reading.findings.append(Finding(kind, xid, pointer, rule_id, severity, action, message, hint, own_raw or raw))
