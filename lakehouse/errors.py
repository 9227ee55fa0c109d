"""The errors that this package raises.

Faults of a caller or of the machine raise one of these; faults in data are rows of the table `violations`.
Each error carries its facts as attributes, and its text says what is wrong, where, and how to fix it.
"""

from __future__ import annotations


class LakehouseError(Exception):
    """Base of all errors that this package raises; the command line prints its text and exits with `exit_code`."""

    exit_code = 1


class SettingsError(LakehouseError):
    """A setting, an option or an argument is wrong (exit code 2)."""

    exit_code = 2


class JavaNotFound(LakehouseError):
    """No Java that Spark runs on was found."""


class SourceNotFound(LakehouseError):
    """A SOURCE of an ingest names nothing that can be read (exit code 2).

    Attributes:
        source: the argument as given.
    """

    exit_code = 2

    def __init__(self, source: str, reason: str) -> None:
        super().__init__(f"{source}: {reason}")
        self.source = source


class WarehouseError(LakehouseError):
    """The tables of a warehouse are not the ones that this version of the product works with."""


class QueryError(LakehouseError):
    """A query of `lakehouse sql` cannot be run (exit code 2)."""

    exit_code = 2


class UnknownRule(LakehouseError):
    """No rule has that id (exit code 2).

    Attributes:
        rule_id: what was asked for.
    """

    exit_code = 2

    def __init__(self, rule_id: str, close: list[str]) -> None:
        hint = f"Ids with that prefix: {', '.join(close)}, …" if close else "`lakehouse rules` lists them."
        super().__init__(f"there is no rule {rule_id}. {hint}")
        self.rule_id = rule_id


class PruneRefused(LakehouseError):
    """Pruning would delete more than half of the entities.

    Attributes:
        deleted: entities that would go.
        held: entities of the registries concerned.
    """

    def __init__(self, deleted: int, held: int) -> None:
        super().__init__(
            f"--prune would delete {deleted} of {held} entities, more than half, so nothing was done. Check that SOURCE is whole "
            "(an empty or half-copied folder looks like this), or say --force."
        )
        self.deleted = deleted
        self.held = held


class CandidateRefused(LakehouseError):
    """What would be committed does not meet an expectation of severity error, so nothing was committed.

    Attributes:
        data_docs: first page of what came out; None when none was written.
    """

    def __init__(self, told: list[str], failed: int, data_docs: str | None) -> None:
        more = f"\n  and {failed - len(told)} more" if failed > len(told) else ""
        super().__init__(
            f"what would be published breaks {failed} of the expectations that must hold, so nothing was changed:"
            + "".join(f"\n  {line}" for line in told)
            + more
            + (f"\nData Docs: {data_docs}" if data_docs else "")
        )
        self.data_docs = data_docs


class CommitLost(LakehouseError):
    """Another writer committed the snapshot first; the caller plans again on the new head.

    Attributes:
        snapshot_id: the snapshot that the other writer has taken.
    """

    def __init__(self, snapshot_id: int) -> None:
        super().__init__(f"snapshot {snapshot_id} was committed by another writer. Run the command again.")
        self.snapshot_id = snapshot_id


class EntityNotFound(LakehouseError):
    """The catalog holds no message of that XID (exit code 2).

    Attributes:
        xid: the XID as given.
    """

    exit_code = 2

    def __init__(self, xid: str) -> None:
        super().__init__(f"{xid}: the catalog holds no such message. Query the table `messages` for those that there are.")
        self.xid = xid
