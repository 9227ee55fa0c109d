"""What must hold after each step: the catalog is the model's, what nobody touched is untouched, counts add up."""

from __future__ import annotations

from typing import Any, NamedTuple

from lakehouse.ingest.summary import Summary

from .model import TABLES, Catalog, Ingest, Key, Reading, missed, read, unfounded, with_dependents
from .off import OFF
from .warehouse import Load, Row, Warehouse, kind_of

RELATIONS = {"MSG-049", "MSG-146", "MSG-183", "END-173"}  # rules between entities that the model knows


class Broken(AssertionError):
    """The catalog is not what it ought to be."""


def check(invariant: str, holds: bool, reported: str) -> None:
    """Ask for an invariant.

    Raises:
        Broken: it does not hold, and is not switched off.
    """
    if not holds and invariant not in OFF:
        raise Broken(f"{invariant}: {reported}")


class Step(NamedTuple):
    """A step that was done: the model before and after, and what was ingested."""

    before: Catalog
    after: Catalog
    ingest: Ingest

    def reading(self, path: str) -> Reading:
        return read(self.ingest.documents[path], is_named=path in self.ingest.named)

    def status(self, path: str) -> str:
        """Return what is to come of a document."""
        reading = self.reading(path)
        if reading.skipped:
            return "skipped"
        is_rejected = reading.rejected or path in self.ingest.rejected or (self.ingest.strict and reading.has_errors)
        return "rejected" if is_rejected else "loaded"

    def refused(self, path: str) -> set[Key]:
        """Return what is refused in a document that is loaded."""
        reading = self.reading(path)
        out = with_dependents(reading, self.ingest.refused.get(path, frozenset()))
        return {*reading.refused, *out, *(self.after.lost[path] & reading.accepted.keys())}


def with_refused(ingest: Ingest, warehouse: Warehouse) -> Ingest:
    """Add to an ingest what rules between entities refused, as the facts of the documents report it."""
    refused: dict[str, frozenset[Key]] = {}
    rejected: set[str] = set()
    known = warehouse.findings()
    for path, load in last_loads(warehouse, ingest).items():
        reading = read(ingest.documents[path], is_named=path in ingest.named)
        reported = [known[one] for one in load.facts.get("findings") or [] if one in known]
        quarantined = [one for one in reported if one["rule_id"] in RELATIONS and one["action"] == "quarantined"]
        if quarantined and load.facts["status"] == "loaded":
            refused[path] = frozenset(_key(one) for one in quarantined)
        if load.facts["status"] == "rejected" and ingest.strict and not reading.rejected and not reading.has_errors:
            rejected.add(path)
    return ingest._replace(refused=refused, rejected=frozenset(rejected))


def last_loads(warehouse: Warehouse, ingest: Ingest) -> dict[str, Load]:
    """Return the last load of each document of an ingest, in whatever registry."""
    loads = sorted(warehouse.loads(), key=lambda load: load.snapshot_id)
    return {load.path: load for load in loads if load.path in ingest.documents}


def check_refused(step: Step) -> None:
    """Rules between entities refuse what breaks them, and nothing else."""
    before, after, ingest = step
    check("unfounded", not (wrong := unfounded(before, ingest, after)), f"refused without a reason: {wrong}")
    check("missed", not (wrong := missed(before, after)), f"published though it breaks a rule: {wrong}")
    for path in ingest.rejected:
        reasons = frozenset(key for key in step.reading(path).accepted if key.kind in ("version", "endpoint"))
        without = unfounded(before, ingest._replace(refused={path: reasons}), after).get(path, set())
        check("unfounded", bool(reasons - without), f"{path} was rejected without a reason")


def check_entities(step: Step, rows: dict[Key, Row], earlier: dict[Key, Row], warehouse: Warehouse) -> None:
    """The published entities are the model's, in the tables and in the log; what nobody touched is as it was."""
    expected = step.after.published
    lacks, extra = sorted(expected.keys() - rows.keys()), sorted(rows.keys() - expected.keys())
    check("entities", not lacks and not extra, f"missing: {lacks}, too many: {extra}")
    for key, row in rows.items():
        if key not in expected:
            continue
        one = expected[key]
        if key.kind == "registry":
            said = {every[key] for every in step.after.said.values() if key in every}
            # Where the first document is gone, and the next one was not looked at or cannot be read, a later ingest reads it.
            was = earlier.get(key)
            was_read = {path for path in step.ingest.documents if step.status(path) != "rejected"}
            waits = was is not None and was.said == row.said and not set(one.owners) <= was_read
            check("definitions", row.said in said or not one.owners or waits, f"{key} is {row.said}, which nobody says")
            if was is not None:
                moved = any(one.registry == key.registry and one.xid.count("/") == 2 for one in rows.keys() ^ earlier.keys())
                counted = was.epoch + (moved or row.content_hash != was.content_hash)
                check("epochs", row.epoch == counted, f"{key} has the epoch {row.epoch} and not {counted}")
        else:
            check("definitions", row.said == one.said, f"{key} is {row.said} and not {one.said}")
            check("epochs", row.epoch == one.epoch, f"{key} has the epoch {row.epoch} and not {one.epoch}")
        check("owners", row.owners == one.owners, f"{key} is owned by {row.owners} and not {one.owners}")
        if row.isdefault is not None:
            check("defaults", row.isdefault == step.after.isdefault(key), f"{key} has isdefault {row.isdefault}")
        _check_untouched(step, key, row, earlier.get(key))
    log = warehouse.from_log()
    reported = {key: (row.content_hash, row.epoch, *row.dates, row.owners, row.snapshot_id) for key, row in rows.items()}
    differing = sorted(key for key in reported | log if reported.get(key) != log.get(key))
    check("log", not differing, f"tables differ from the log: {differing}")
    messages = {(key.registry, key.xid) for key in rows if key.kind == "message"}
    check("flattened", warehouse.flattened() == messages, "effective_messages has other messages")


def _check_untouched(step: Step, key: Key, row: Row, old: Row | None) -> None:
    """What nobody said anything new of has the same row; another owner alone changes neither epoch nor dates nor hash,
    and what came or went only the epoch and the date of its holder."""
    was, one = step.before.published.get(key), step.after.published[key]
    if old is None or was is None or key.kind == "registry" or was.said != one.said:
        return
    touched = f"{key} was touched: {old} became {row}"
    grew = was.epoch != one.epoch  # something came into it or went
    check("untouched", grew or (old.dates, old.epoch) == (row.dates, row.epoch), touched)
    check("untouched", not grew or (old.dates[0] == row.dates[0] and old.dates[1] < row.dates[1]), touched)
    if "/versions/" in key.xid and step.before.isdefault(key) != step.after.isdefault(key):
        return
    check("untouched", old.content_hash == row.content_hash, touched)
    check("untouched", grew or old.snapshot_id == row.snapshot_id or was.owners != one.owners, touched)


def check_documents(step: Step, warehouse: Warehouse) -> None:
    """Of each document is known what came of it, and which conflicts it lost or won."""
    loads, known = last_loads(warehouse, step.ingest), warehouse.findings()
    for path in step.ingest.documents:
        expected = step.status(path)
        check("documents", path in loads, f"{path} is not known")
        if path not in loads:
            continue
        facts, reading = loads[path].facts, step.reading(path)
        check("documents", facts["status"] == expected, f"{path} is {facts['status']} and not {expected}: {facts.get('reason')}")
        if expected == "loaded":
            check("documents", loads[path].registry == reading.registry, f"{path} is known in {loads[path].registry}")
            every = [known[one] for one in facts.get("findings") or []]
            out = {_key(one) for one in every if one["action"] == "quarantined" and one["xid"] is not None}
            check(
                "findings",
                out == step.refused(path),
                f"{path}: reported as refused: {sorted(out ^ step.refused(path))}, or not so",
            )
            reported = [one for one in every if one["xid"] != "/"]
            accepted = reading.accepted.keys() - with_dependents(reading, step.ingest.refused.get(path, frozenset()))
            for rule, keys in (("DOC-001", step.after.lost[path]), ("DOC-002", step.after.taken[path])):
                _check_reported(
                    path, rule, reported, keys & accepted
                )  # of what is refused for another reason, that reason is reported
    registries: dict[str, set[str]] = {}
    for load in warehouse.loads():
        registries.setdefault(load.path, set()).add(load.registry)
    twice = {path: names for path, names in registries.items() if len(names) > 1}
    check("registries of documents", not twice, f"documents are known in several registries: {twice}")


def _check_reported(path: str, rule: str, reported: list[dict[str, Any]], expected: set[Key]) -> None:
    has = {_key(one) for one in reported if one["rule_id"] == rule}
    check("disputes", has == expected, f"{path}: {rule} is reported for {sorted(has)} and not for {sorted(expected)}")


def _key(finding: dict[str, Any]) -> Key:
    return Key(finding["registryid"], kind_of(finding["xid"]), finding["xid"])


def check_counts(step: Step, summary: Summary, warehouse: Warehouse, head: int | None) -> None:
    """The summary says what is in the log, and exit code 3 where something was refused.

    Args:
        step: what was done.
        summary: what the ingest reported.
        warehouse: where it went.
        head: the snapshot before; None: a run that died did some of it, which the next one does not report.
    """
    statuses = [step.status(path) for path in step.ingest.documents]
    counted = {"read": len(statuses)} | {name: statuses.count(name) for name in ("skipped", "rejected")}
    has = {name: summary.documents[name] for name in counted}
    # One that was passed over before and did not change is unchanged.
    check("counts", all(has[name] == counted[name] for name in ("read", "rejected")), f"documents: {has} instead of {counted}")
    check("counts", has["skipped"] <= counted["skipped"], f"documents: {has} instead of {counted}")
    refused = [key for path in step.ingest.documents if step.status(path) == "loaded" for key in step.refused(path)]
    quarantined = {table: sum(TABLES[key.kind] == table for key in refused) for table in TABLES.values()}
    has = {table: summary.entities[table]["quarantined"] for table in quarantined}
    check("counts", quarantined == has, f"quarantined: {has} instead of {quarantined}")
    is_refused = bool(refused) or "rejected" in statuses
    check("exit code", summary.refused == is_refused, f"refused is {summary.refused}: {refused} {statuses}")
    if head is None:
        return
    snapshots = warehouse.snapshots()
    check("counts", max(snapshots, default=0) == (summary.snapshot_id or head), f"snapshot {summary.snapshot_id} after {head}")
    ops = snapshots.get(summary.snapshot_id or -1, {})
    outcomes = {"inserted": ("insert",), "updated": ("update", "own"), "deleted": ("delete",)}
    for kind, table in TABLES.items():
        for name, of in outcomes.items():
            n, reported = sum(ops.get(kind, {}).get(op, 0) for op in of), summary.entities[table][name]
            check("counts", reported == n, f"{table} {name}: {reported} reported, {n} in the log")
