"""Commands for operators: prepare, doctor, rebuild, migrate, maintain, backup, restore."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack
from importlib.resources import as_file, files
from tempfile import TemporaryDirectory
from typing import Any

import click

from lakehouse.cli.console import Context, progress_of, session, with_globals_but_registry
from lakehouse.cli.helping import command
from lakehouse.cli.printing import show_maintained, show_table
from lakehouse.settings import Settings


@command("lakehouse prepare")
@with_globals_but_registry
@click.pass_obj
def prepare(context: Context) -> int:
    """Prepare this machine, so that Spark starts faster.

    Resolves Delta Lake's jars from Maven, and archives the Java classes that Spark loads (200 MB, next to the jars). To be run
    once, and again after an update of Java, PySpark or the jars: an archive that does not fit is not used. No catalog is needed.
    """
    from lakehouse.store.session import archive_classes

    settings = context.settings
    run = context.begin(settings)
    with progress_of(context) as shown, run.watch(shown).stage("prepare", "archiving the classes of a first session"):
        archive = archive_classes(settings, lambda spark: _work_as_usual(spark, settings))
    size = archive.stat().st_size
    shown_size = f"{size / 1e6:.0f} MB"
    click.echo(json.dumps({"archive": str(archive), "bytes": size}) if context.as_json else f"{archive} ({shown_size})")
    return 0


def _work_as_usual(spark: Any, settings: Settings) -> None:
    """Load the documents of the demo into a catalog that is deleted, and read it."""
    from lakehouse.ingest.pipeline import ingest as run_ingest
    from lakehouse.query.sql import run_query

    with ExitStack() as stack:
        folder = stack.enter_context(TemporaryDirectory(prefix="lakehouse-"))
        documents = stack.enter_context(as_file(files("lakehouse.cli") / "demo"))
        own = settings.model_copy(update={"warehouse": folder})
        for _ in range(2):
            run_ingest(spark, own, [str(documents)])
        run_query(spark, own, "SELECT * FROM flat_messages ORDER BY xid").text_rows()


@command("lakehouse doctor --deep")
@click.option(
    "--deep",
    is_flag=True,
    help="Compare all columns of the tables with the log, and verify the checksums of all Parquet pages (slower).",
)
@with_globals_but_registry
@click.pass_obj
def doctor(context: Context, deep: bool) -> int:
    """Check the warehouse and name the fix for each fault.

    Exit code 1 if there is an error (of `validate` and others it is 3).
    """
    from lakehouse.operations.doctor import diagnose

    with session(context) as (spark, settings, watcher), watcher.stage("doctor", "reading all tables"):
        results = [check.as_json() for check in diagnose(spark, settings, deep=deep)]
    if context.as_json:
        click.echo(json.dumps(results))
    else:
        columns = ["state", "check", "table", "found", "fix"]
        show_table(columns, ([check[name] for name in columns] for check in results))
    return 1 if any(check["state"] == "error" for check in results) else 0


@command("lakehouse rebuild")
@with_globals_but_registry
@click.pass_obj
def rebuild(context: Context) -> int:
    """Rebuild the derived tables from the log.

    Writes the entity tables and effective_messages again; the log `changes` and `violations` stay as they are.
    """
    from lakehouse.operations.rebuild import rebuild_tables

    with session(context) as (spark, settings, watcher), watcher.stage("rebuild", "all tables but the log and the findings"):
        names = rebuild_tables(spark, settings)
    click.echo(json.dumps(names) if context.as_json else f"Rebuilt from the log: {', '.join(names)}.")
    return 0


@command("lakehouse migrate")
@with_globals_but_registry
@click.pass_obj
def migrate(context: Context) -> int:
    """Migrate the tables of an older release.

    An ingest does the same before it loads.
    """
    from lakehouse.cli.beforehand import check_catalog
    from lakehouse.store.deltatables import SCHEMA_VERSION, migrate_catalog

    check_catalog(context)
    with session(context) as (spark, settings, watcher), watcher.stage("migrate", settings.warehouse):
        migrate_catalog(spark, settings)
    click.echo(json.dumps({"schema_version": SCHEMA_VERSION}) if context.as_json else f"Tables of version {SCHEMA_VERSION}.")
    return 0


@command("lakehouse ddl > catalog.sql", "lakehouse ddl --location s3a://lake/catalog --catalog main --schema contracts")
@click.option(
    "--location", metavar="URI", help="Warehouse as the session that runs the script reaches it (default: --warehouse)."
)
@click.option(
    "--catalog", metavar="NAME", default="", help="Catalog of Spark for the schema (default: the session's current one)."
)
@click.option("--schema", metavar="NAME", default="xregistry", help="Schema for tables and views (default xregistry).")
@with_globals_but_registry
@click.pass_obj
def ddl(context: Context, location: str | None, catalog: str, schema: str) -> int:
    """Print a SQL script that registers the catalog.

    Any Spark session with Delta Lake runs it, such as `spark-sql -f` or a platform's; it needs nothing of this package.
    It creates the schema, the tables where the warehouse has them, and the views.
    """
    from lakehouse.store.session import absolute_location
    from lakehouse.store.views import ddl_script

    settings = context.settings
    script = ddl_script(settings, absolute_location(location or settings.warehouse), catalog, schema)
    click.echo(json.dumps({"script": script}) if context.as_json else script, nl=context.as_json)
    return 0


@command("lakehouse maintain --dry-run")
@click.option("--dry-run", is_flag=True, help="Print what would be done, and do nothing.")
@click.option("--full", is_flag=True, help="Sort all files again, even those that are sorted.")
@with_globals_but_registry
@click.pass_obj
def maintain(context: Context, dry_run: bool, full: bool) -> int:
    """Compact the tables and delete unneeded files.

    Merges small files and sorts them by key. Deletes files that no table version within the retention needs. Rows do not change.
    """
    from lakehouse.operations.maintenance import maintain as run_maintenance

    with session(context) as (spark, settings, watcher), watcher.stage("maintain", "all tables"):
        maintained = run_maintenance(spark, settings, dry_run=dry_run, full=full)
    context.run.result = maintained.as_json()
    if context.as_json:
        click.echo(json.dumps(maintained.as_json()))
    else:
        show_maintained(maintained.as_json())
    return 0


@command("lakehouse backup /mnt/backups/catalog")
@click.argument("folder", metavar="DIR")
@with_globals_but_registry
@click.pass_obj
def backup(context: Context, folder: str) -> int:
    """Back up the catalog into a folder.

    Copies what is new since the last backup into DIR and verifies it. Ingests may run meanwhile.
    """
    from lakehouse.cli.beforehand import check_backup
    from lakehouse.operations.backups import backup as make_backup

    check_backup(context, folder)
    return _report_backup(context, folder, make_backup, "Backup of snapshots 1 to {} in {}", makes_catalog=False)


@command("lakehouse restore /mnt/backups/catalog --warehouse new-warehouse")
@click.argument("folder", metavar="DIR")
@with_globals_but_registry
@click.pass_obj
def restore(context: Context, folder: str) -> int:
    """Restore the newest backup into an empty warehouse.

    The backup in DIR is verified first.
    """
    from lakehouse.cli.beforehand import check_restore
    from lakehouse.operations.backups import restore as restore_backup

    check_restore(context, folder)
    return _report_backup(context, folder, restore_backup, "Restored snapshots 1 to {} from {}", makes_catalog=True)


def _report_backup(context: Context, folder: str, act: Callable[..., Any], result: str, *, makes_catalog: bool) -> int:
    with session(context, makes_catalog=makes_catalog) as (spark, settings, watcher), watcher.stage("backup", folder):
        manifest = act(spark, settings, folder)
    counts = f"{manifest.rows} rows, {manifest.findings_count} findings; digests verified"
    details = f"{result.format(manifest.snapshot_id, folder)}: {counts}."
    if not manifest.snapshot_id:
        details = f"{settings.warehouse} holds no snapshot: there is nothing to back up."
    click.echo(json.dumps(manifest.as_json()) if context.as_json else details)
    return 0
