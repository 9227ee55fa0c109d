"""What is wrong with a call and can be found before Spark starts: files and folders, snapshots, labels, registries, entities.

Spark looks again at all of it. Where paths need not be local ones (spark-submit, another default filesystem), and in warehouses
that are elsewhere, it alone does.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from lakehouse.cli.console import Context, bar
from lakehouse.cli.printing import log_stderr
from lakehouse.errors import (
    LabelTaken,
    NoBackup,
    WarehouseError,
    WarehouseTaken,
)
from lakehouse.store.localpaths import check_target, holds_table, local_path, names_folder, no_catalog
from lakehouse.text.names import RegistryId, Xid

if TYPE_CHECKING:
    from lakehouse.match.definition.scope import Scope
    from lakehouse.readmodel.snapshotview import View

T = TypeVar("T")
_UNITS = ("group", "endpoint", "message", "schema")


def is_local(context: Context) -> bool:
    """Return whether a path without a scheme is one of this machine's disks, for Spark too. The run begins here, for machines."""
    settings = context.settings
    if context.options.get("log_json") or context.options.get("metrics"):
        context.begin(settings)
    elsewhere = {"PYSPARK_GATEWAY_PORT", "HADOOP_CONF_DIR"} & set(os.environ)
    return not elsewhere and "spark.hadoop.fs.defaultFS" not in settings.spark


def ask(context: Context, question: Callable[[View], T], at: str | None = None) -> T | None:
    """Return an answer of the read model; None if there is no local catalog.

    Raises:
        SnapshotNotFound: `at` names none; and what the question raises.
    """
    from lakehouse.readmodel import open_model

    settings = context.settings
    if not is_local(context) or local_path(settings.warehouse) is None or not holds_table(settings.warehouse, "changes"):
        return None
    try:
        with bar(context) as progress, open_model(settings, progress=progress) as model:
            return model.answer(question, at)
    except (WarehouseError, OSError) as error:
        log_stderr(f"note: only Spark checks this command, later: {error}")
        return None


def check_snapshots(context: Context, *snapshots: str | None) -> None:
    """Check that each text names a snapshot.

    Raises:
        SnapshotNotFound: one names none.
    """
    named = [snapshot for snapshot in snapshots if snapshot is not None]
    if named:
        ask(context, lambda view: [view.resolve(snapshot) for snapshot in named])


def check_catalog(context: Context) -> None:
    """Check that a local warehouse holds a catalog.

    Raises:
        WarehouseError: it does not.
    """
    warehouse = context.settings.warehouse
    if is_local(context) and not holds_table(warehouse, "changes"):
        raise no_catalog(warehouse, "changes")


def check_sources(context: Context, sources: Iterable[str]) -> None:
    """Check that files and folders are there; of a glob the folder before its first wildcard.

    Raises:
        SourceNotFound: one is not.
    """
    from lakehouse.ingest.sources import check_source

    for source in sources if is_local(context) else ():
        check_source(source)


def check_label_is_free(context: Context, name: str | None) -> None:
    """Check that a name can be a label and names nothing yet.

    Raises:
        SettingsError: it looks like a number or a time.
        LabelTaken: it names a snapshot.
    """
    from lakehouse.log.snapshotfacts import check_label

    if name is None:
        return
    check_label(name)
    taken = ask(context, lambda view: view.labels().get(name))
    if taken is not None:
        raise LabelTaken(name, taken[0])


def check_export(context: Context, request: Any) -> None:
    """Check what an export (`export.run.ExportRequest`) is asked for, and its target.

    Raises:
        SnapshotNotFound, NothingToExport: what is asked for is not there.
        TargetError: the target cannot be written.
    """
    from lakehouse.export.selection import choose_registry, refuse_unknown

    def choose(view: View) -> bool:
        registryid, is_selected = request.registry, bool(request.select)
        registryids = view.registries()
        chosen = choose_registry(registryids, registryid, request.out, to_folder=request.to_folder, is_selected=is_selected)
        refuse_unknown([xid for xid in request.select if not _is_unit(view, chosen.registryid, xid)])
        return chosen.to_folder

    to_folder = ask(context, choose, request.at)
    if is_local(context):
        check_target(request.out, to_folder=request.to_folder or bool(to_folder), replace=request.replace)


def _is_unit(view: View, registryid: RegistryId | None, xid: Xid) -> bool:
    entity = None if registryid is None else view.entity(registryid, xid)
    return entity is not None and entity.kind in _UNITS


def check_match(context: Context, sources: Iterable[str], scope: Scope, at: str | None, results: str | None) -> None:
    """Check what a run of `match` names; a source without `/` may be a table, which Spark alone knows.

    Raises:
        SourceNotFound: a file or folder is not there.
        SnapshotNotFound, SettingsError: a snapshot, registry, group or endpoint is not there.
        TargetError: the file of results cannot be written.
    """
    check_sources(context, [source for source in sources if "/" in source])
    check_snapshots(context, at)
    if at is None and (scope.registry or scope.group or scope.endpoint):
        ask(context, lambda view: _check_scope(view, scope))
    if results is not None and is_local(context):
        to_folder = names_folder(results)
        check_target(results, to_folder=to_folder, parents=to_folder)


def _check_scope(view: View, scope: Scope) -> None:
    from lakehouse.match.definition.scope import endpoint_row, in_scope

    discriminators = [row._asdict() for row in islice(view.discriminators(scope.registry, group_xid=scope.group), 1)]
    results = view.entities(scope.endpoint, scope.registry) if scope.endpoint else []
    in_scope(discriminators, [endpoint_row(entity) for entity in results], scope)


def check_backup(context: Context, folder: str) -> None:
    """Check that a backup can be written into a folder.

    Raises:
        TargetError: it cannot.
    """
    if is_local(context):
        check_target(folder, to_folder=True)


def check_restore(context: Context, folder: str) -> None:
    """Check that a folder holds a backup, and that the warehouse holds no snapshot.

    Raises:
        BackupError: it is not so.
    """
    settings, place = context.settings, local_path(folder)
    if is_local(context) and place is not None and not any((place / "manifests").glob("*.json")):
        raise NoBackup(folder)
    if ask(context, lambda view: view.head):
        raise WarehouseTaken(settings.warehouse)
