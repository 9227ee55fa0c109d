"""The errors that this package raises.

Faults of a caller or of the machine raise one of these; faults in data are rows of the table `violations`.
Each error carries its facts as attributes, and its text says what is wrong, where, and how to fix it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lakehouse.text.names import Xid

_MOST_REGISTRIES = 20  # that an error lists


class LakehouseError(Exception):
    """Base of all errors that this package raises; the command line prints its text and exits with `exit_code`."""

    exit_code = 1


class SettingsError(LakehouseError):
    """A setting, an option or an argument is wrong (exit code 2)."""

    exit_code = 2


class NotInstalled(LakehouseError):
    """A library of an extra is not installed (exit code 2)."""

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


class PartMissing(WarehouseError):
    """A part file that a Delta table names is gone.

    Attributes:
        table: its name.
    """

    def __init__(self, table: str, path: str) -> None:
        super().__init__(f"{table}: its part file {path} is gone. `lakehouse doctor` shows what is wrong and how to repair it.")
        self.table = table


class WarehouseTooNew(WarehouseError):
    """The warehouse was written by a newer version of the product."""


class QueryError(LakehouseError):
    """A query of `lakehouse sql` cannot be run (exit code 2)."""

    exit_code = 2


class SnapshotNotFound(LakehouseError):
    """What was given names no snapshot (exit code 2).

    Attributes:
        text: number, label, time or date as given.
    """

    exit_code = 2

    def __init__(self, text: str, reason: str) -> None:
        super().__init__(f"{text!r} names no snapshot: {reason}. `lakehouse snapshots` lists all.")
        self.text = text


class EntityAbsent(LakehouseError):
    """The catalog does not hold what was asked for (exit code 2).

    Attributes:
        xid: as given.
        detail: what is absent.
        advice: where to look.
    """

    exit_code = 2

    def __init__(self, xid: str, message: str, advice: str) -> None:
        super().__init__(f"{message} {advice}")
        self.xid = xid
        self.detail = message
        self.advice = advice

    def because(self, reasons: list[str]) -> None:
        """Replace the advice by the reasons for the absence, one a line."""
        self.args = ("\n  ".join([self.detail, *reasons]),)


class EntityNotFound(EntityAbsent):
    """The catalog never held the entity that was asked for (exit code 2)."""

    def __init__(self, xid: str, registryid: str | None) -> None:
        where = "" if registryid is None else f" in registry {registryid!r}"
        message = f"no entity {xid!r} was ever in the catalog{where}."
        super().__init__(xid, message, "An XID starts with /; `lakehouse search` finds entities by their words.")


class BackupError(LakehouseError):
    """A backup cannot be made or restored."""


class NoBackup(BackupError):
    """A folder holds no backup."""

    def __init__(self, folder: str) -> None:
        super().__init__(f"{folder} holds no backup. `lakehouse backup {folder}` makes one.")


class WarehouseTaken(BackupError):
    """A backup would be restored into a warehouse that holds snapshots."""

    def __init__(self, warehouse: str) -> None:
        super().__init__(f"{warehouse} holds a catalog already. Restore into an empty warehouse and use that one.")


class LabelTaken(LakehouseError):
    """The label names another snapshot already (exit code 2)."""

    exit_code = 2

    def __init__(self, name: str, snapshot_id: int) -> None:
        super().__init__(
            f"label {name!r} names snapshot {snapshot_id} already. Choose another, or move it with `lakehouse label --move`."
        )


class PruneRefused(LakehouseError):
    """Pruning would delete more than half of the entities of a registry.

    Attributes:
        registryid: the registry, the first by its id of several.
        deleted: entities of it that would go.
        existing: entities of it.
    """

    def __init__(self, registryid: str, deleted: int, existing: int) -> None:
        super().__init__(
            f"--prune would delete {deleted} of the {existing} entities of registry {registryid!r}, more than half, so nothing "
            "was done. Check that SOURCE is complete (an empty or half-copied folder looks like this), or pass --force."
        )
        self.registryid = registryid
        self.deleted = deleted
        self.existing = existing


class CandidateRefused(LakehouseError):
    """What would be committed does not meet an expectation of severity error, so nothing was committed.

    Attributes:
        data_docs: first page of what came out; None when none was written.
    """

    def __init__(self, details: list[str], failed: int, data_docs: str | None) -> None:
        more = f"\n  and {failed - len(details)} more" if failed > len(details) else ""
        super().__init__(
            f"{failed} expectation{'' if failed == 1 else 's'} of severity error would fail, so nothing was changed:"
            + "".join(f"\n  {line}" for line in details)
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


class DocumentsOvertaken(LakehouseError):
    """Another ingest loaded documents otherwise while this one read them; the caller reads them again.

    Attributes:
        documents: their URIs.
    """

    def __init__(self, documents: list[str]) -> None:
        message = ", ".join(documents[:3]) + (f" and {len(documents) - 3} more" if len(documents) > 3 else "")
        super().__init__(f"{message}: loaded by another ingest with other content while this one read it. Run the command again.")
        self.documents = documents


class ReplicationError(LakehouseError):
    """Another catalog cannot be read or written as it should; nothing of this one was changed.

    Attributes:
        url: what was asked for, without user and password.
    """

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(f"{url}: {reason}")
        self.url = url


class TargetError(LakehouseError):
    """A target of an export cannot be written (exit code 2).

    Attributes:
        target: the target as given.
    """

    exit_code = 2

    def __init__(self, target: str, reason: str) -> None:
        super().__init__(f"{target}: {reason}")
        self.target = target


class NothingToExport(LakehouseError):
    """What was asked for is not in the catalog (exit code 2)."""

    exit_code = 2


class RegistryNotFound(NothingToExport):
    """The catalog holds nothing in a registry of the id that was given (exit code 2)."""

    def __init__(self, registryid: str, existing: Iterable[str]) -> None:
        ids = sorted(existing)
        listed = ", ".join(ids[:_MOST_REGISTRIES]) + (" ..." if len(ids) > _MOST_REGISTRIES else "")
        super().__init__(f"there is nothing in a registry {registryid!r}. The catalog holds {listed or 'no registry'}.")


class LossyExport(LakehouseError):
    """A dialect cannot say all that would be exported (exit code 3).

    Attributes:
        dialect: the dialect.
        count: how much it cannot say.
        details: what, rule by rule, with examples.
    """

    exit_code = 3

    def __init__(self, dialect: str, count: int, details: list[str]) -> None:
        lines = "".join(f"\n  {line}" for line in details)
        super().__init__(
            f"{dialect} cannot express {count} values of the export, so nothing was written:{lines}\n"
            "`lakehouse explain RULE` explains why. --lossy writes the rest, --examples N lists more."
        )
        self.dialect = dialect
        self.count = count
        self.details = details


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


class MessageNotFound(EntityAbsent):
    """The catalog holds no message of that XID or id (exit code 2).

    Args:
        xid: as given.
        same_id: XIDs of what else has that id.
    """

    def __init__(self, xid: str, same_id: list[Xid] | None = None) -> None:
        also = f" The id is also that of {', '.join(same_id)}: name that by its XID." if same_id else ""
        message = f"{xid}: the catalog holds no such message.{also}"
        super().__init__(xid, message, "`lakehouse search --kind message` finds messages by their words.")


class XidNotFound(EntityAbsent):
    """The catalog holds nothing of that XID, id or URI (exit code 2)."""

    def __init__(self, xid: str) -> None:
        super().__init__(xid, f"{xid}: the catalog holds no such entity.", "`lakehouse search` finds entities by their words.")


class DocumentNotFound(EntityAbsent):
    """The catalog knows no document of that URI, path or end of one (exit code 2)."""

    def __init__(self, text: str, registryid: str | None = None) -> None:
        where = "" if registryid is None else f" in registry {registryid!r}"
        message = f"{text}: the catalog has loaded no such document{where}."
        super().__init__(text, message, "`lakehouse search --kind document NAME` finds documents by their names.")


class AmbiguousId(LakehouseError):
    """An id is that of several entities (exit code 2).

    Attributes:
        text: the id as given.
        xids: the entities that it may mean.
    """

    exit_code = 2

    def __init__(self, text: str, xids: list[str], more: int = 0) -> None:
        message = "".join(f"\n  {xid}" for xid in xids) + (f"\n  and {more} more" if more else "")
        super().__init__(f"{text} is the id of {len(xids) + more} entities; name one by its XID:{message}")
        self.text = text
        self.xids = xids


class DefinitionNotYet(LakehouseError):
    """The effective definition of a message is not computed yet.

    Attributes:
        xid: of the message.
        snapshot_id: up to which snapshot definitions are computed.
    """

    def __init__(self, xid: str, snapshot_id: int) -> None:
        super().__init__(
            f"{xid}: its effective definition is not computed yet; effective_messages is at snapshot {snapshot_id}. "
            "A server that writes brings it forward within a minute, else the next ingest; `lakehouse rebuild` does it now."
        )
        self.xid = xid
        self.snapshot_id = snapshot_id


def reason_of(error: Exception) -> str:
    """Return the message and first cause of an error whose text holds Java's stack; else the whole text."""
    text = str(error)
    lines = text.splitlines()
    if "\n\tat " not in text:
        return text
    failed = lines[1].removeprefix(": ") if lines[1].startswith(": ") else lines[0]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    return "; caused by ".join([failed, *causes[-1:]])
