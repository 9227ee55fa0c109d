"""A catalog as a Python object: what the command gives a shell, for notebooks, jobs and other programs."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from lakehouse.dialects.tables import NORMAL
from lakehouse.expectations.run import warm_up
from lakehouse.expectations.validation import Validation, validate
from lakehouse.export.run import Exported
from lakehouse.export.run import Request as ExportRequest
from lakehouse.export.run import export as run_export
from lakehouse.export.writers import Style
from lakehouse.ingest.pipeline import Request
from lakehouse.ingest.pipeline import ingest as run_ingest
from lakehouse.ingest.summary import Summary
from lakehouse.log.ownership.owners import Policy
from lakehouse.log.snapshotfacts import Snapshot, check_label
from lakehouse.log.snapshots import label_snapshot, read_snapshots, resolve_snapshot
from lakehouse.match.conformance import all_runs
from lakehouse.match.definition.catalog import Scope
from lakehouse.match.definition.definitionchecks import check_all
from lakehouse.match.matching.engine import match
from lakehouse.match.matching.matcher import Request as MatchRequest
from lakehouse.progress import Watcher
from lakehouse.query.diff import diff_snapshots, read_differences
from lakehouse.query.show import show_message
from lakehouse.query.sql import run_query
from lakehouse.query.violations import list_violations
from lakehouse.readmodel.differences import Difference
from lakehouse.readmodel.found import Broken
from lakehouse.readmodel.model import open_model
from lakehouse.readmodel.shown import Shown
from lakehouse.render.catalog import read_selected
from lakehouse.render.engine import render_table
from lakehouse.render.rendering import Style as RenderStyle
from lakehouse.render.runs import families_of
from lakehouse.rules.declared import RULES
from lakehouse.settings import Settings, read_settings
from lakehouse.store.session import open_beside, open_session
from lakehouse.store.tables import attach_tables
from lakehouse.text.names import RegistryId, Xid


class CatalogState:
    """A state of a catalog, and what can be asked of it.

    Attributes:
        spark: the session.
        settings: the settings in force.
        snapshot: the snapshot that reads are as of; None: the newest.
    """

    def __init__(self, spark: SparkSession, settings: Settings, snapshot: str | None = None) -> None:
        self.spark = spark
        self.settings = settings
        self.snapshot = snapshot

    def sql(self, query: str, *, diff: tuple[str, str] | None = None) -> DataFrame:
        """Run a query on the tables and views, as `lakehouse sql`.

        Args:
            query: Spark SQL; tables and views go by their bare names.
            diff: two snapshots, which the view `snapshot_diff` compares.

        Raises:
            QueryError: Spark does not understand it, or a name in it does not exist.
            SnapshotNotFound: there is no such snapshot.
        """
        return run_query(self.spark, self.settings, query, self.snapshot, diff).frame

    def show(self, xid: str) -> list[Shown]:
        """Show a message, in each registry that has it, as `lakehouse show`.

        Raises:
            MessageNotFound: no registry has it.
        """
        return show_message(self.spark, self.settings, xid, self.snapshot)

    def export(
        self,
        out: str,
        *,
        split: bool = False,
        select: Iterable[str] = (),
        dialect: str | None = None,
        base_url: str | None = None,
        flat: bool = False,
        source: bool = False,
        lossy: bool = False,
        replace: bool = False,
    ) -> Exported:
        """Write the catalog as documents, as `lakehouse export --out`.

        Args:
            out: file, folder (it ends in `/`, or is there) or URI.
            split: one document for each group and endpoint.
            select: XIDs of what alone is written, with what it needs; none: all.
            dialect: a dialect that can be written; None: the normal form.
            base_url: absolute URLs below this one.
            flat: effective definitions, without basemessage.
            source: entities as they were written.
            lossy: write also when the dialect cannot say everything.
            replace: `out` may hold an earlier export: it gives way to this one.

        Raises:
            LakehouseError: the catalog holds several registries and none is named, `out` cannot be written, or something
                would be lost and `lossy` is not set.
        """
        style = Style(base_url, source, split, dialect or NORMAL)
        place = (out, RegistryId(self.settings.registry) or None, split or out.endswith("/"), style)
        request = ExportRequest(*place, at=self.snapshot, select=tuple(map(Xid, select)), flat=flat, lossy=lossy, replace=replace)
        return run_export(self.spark, self.settings, request)

    def validate(self, *, suites: Iterable[str] = (), watcher: Watcher | None = None) -> Validation:
        """Run all rules and suites of expectations over the catalog, as `lakehouse validate`; writes Data Docs.

        Args:
            suites: names of suites; none: all.
            watcher: is told of the stages.
        """
        warm_up()
        check, others = partial(check_all, settings=self.settings), {"match_runs": partial(all_runs, settings=self.settings)}
        return validate(self.spark, self.settings, check, RULES, suites=suites, at=self.snapshot, others=others, watcher=watcher)

    def violations(self, *, ingest: str | None = None, document: str | None = None, examples: int = 5) -> list[Broken]:
        """List what was refused, warned of or noted, by rule, as `lakehouse violations`.

        Args:
            ingest: `last`, or the id of an ingest: what it was the first to find; None: findings of each document's latest load.
            document: of this document only: its URI, or the end of it.
            examples: findings told of each rule.
        """
        return list_violations(self.spark, self.settings, ingest=ingest, document=document, at=self.snapshot, examples=examples)

    def match(self, rows: DataFrame, *, scope: Scope | None = None, request: MatchRequest | None = None) -> DataFrame:
        """Match landed events with the definitions, as `lakehouse match`.

        Args:
            rows: events as they landed, such as Kafka's columns with `headers`, or CloudEvents.
            scope: whose messages are candidates (`lakehouse.match.definition.catalog.Scope`); None: all.
            request: how they are matched (`lakehouse.match.Request`); None: as the command does without options.

        Returns:
            One row an event: `status`, `best`, `matches`, `variables`, `reasons`, `deviations`, `unchecked`, `payload_status`.

        Raises:
            SettingsError: the columns are of no landing that is known.
        """
        return match(self.spark, self.settings, rows, scope, request, self.snapshot)

    def render(
        self, values: DataFrame, *xids: str, group: str | None = None, over: str | None = None, style: RenderStyle | None = None
    ) -> DataFrame:
        """Make messages of their definitions, one for each row of values, as `lakehouse render --values TABLE`.

        Args:
            values: a column for each placeholder or attribute that has values; `data` holds the payload.
            *xids: XIDs of messages, or ids that are unique; none: all of the group.
            group: XID of a message group; None: of all.
            over: protocols as `--as` takes them; None: what each definition or its endpoints say.
            style: mode, examples, time (`lakehouse.render.Style`); None: as the command does without options.

        Returns:
            One row a message: registryid, xid, protocol, mode, line (what `match` reads), payload_status; or `error`, why there
            is none.

        Raises:
            SettingsError: a column is called like nothing that is asked for, or an id is of several messages.
            MessageNotFound: there is no such message.
        """
        asked = families_of(over, "captured")
        registry = RegistryId(self.settings.registry) or None
        with open_model(self.settings) as model:
            selected = model.answer(
                lambda view: read_selected(view, xids, registry, None if group is None else Xid(group)), self.snapshot
            )
        return render_table(values, selected, style, asked)


class Catalog(CatalogState):
    """A catalog in a warehouse: its newest state, its history, and what changes it.

    Args:
        warehouse: folder or URI of the warehouse; None: what the settings say (`./warehouse` where they say nothing).
        spark: a session that is there, such as a notebook's, with Delta Lake; the catalog works in one of its own beside it,
            so none of its settings is changed. None: a session is made, as the command makes it.
        conf: settings file, as with `--conf`.
        **settings: single settings, as in `conf/lakehouse.toml`.

    Raises:
        SettingsError: a setting is unknown or has a wrong value.
        JavaNotFound: a session is to be made, and Spark finds no Java 17 or 21.
        LakehouseError: the session that is there has no Delta Lake.
    """

    def __init__(
        self, warehouse: str | None = None, spark: SparkSession | None = None, *, conf: str | None = None, **settings: Any
    ) -> None:
        found = read_settings(conf, **({"warehouse": warehouse} if warehouse else {}), **settings)
        self._is_ours = spark is None
        super().__init__(open_session(found) if spark is None else open_beside(spark, found), found)

    def at(self, snapshot: int | str) -> Catalog:
        """Give the same catalog as of a snapshot: `sql`, `show`, `export`, `validate` and `violations` read that state.

        Args:
            snapshot: its number, label, date, time, or `head`.
        """
        past = object.__new__(Catalog)
        past.__dict__ |= self.__dict__ | {"snapshot": str(snapshot)}
        return past

    def ingest(
        self,
        *sources: str,
        registry_from: str | None = None,
        prune: bool = False,
        force: bool = False,
        strict: bool = False,
        dry_run: bool = False,
        label: str | None = None,
        dialect: str | None = None,
        watcher: Watcher | None = None,
    ) -> Summary:
        """Load documents, as `lakehouse ingest`.

        Args:
            *sources: files, folders, globs, URIs.
            registry_from: 'document' or 'folder': name each document's registry after its path.
            prune: delete what its last document dropped.
            force: read unchanged documents again, take stale entities, prune more than half.
            strict: refuse a document whole when it has an error.
            dry_run: tell what would change, and change nothing.
            label: name of the snapshot.
            dialect: read all documents as of this dialect.
            watcher: is told of the stages.

        Returns:
            What was loaded and refused; `refused` tells whether anything was (exit code 3 of the command).

        Raises:
            SourceNotFound: a source names nothing.
            LabelTaken: the label names a snapshot already.
            CommitLost: other writers won the race more often than `commit_attempts`.
        """
        self._refuse_the_past("ingest")
        if label is not None:
            check_label(label)
        request = Request(Policy(force, prune, self.settings.on_conflict), strict, dry_run, label, dialect)
        return run_ingest(self.spark, self.settings, list(sources), registry_from=registry_from, request=request, watcher=watcher)

    def pull(
        self,
        url: str,
        *groups: str,
        into: str | None = None,
        authority: str | None = None,
        force: bool = False,
        strict: bool = False,
        watcher: Watcher | None = None,
    ) -> Summary | None:
        """Copy what another catalog holds, as `lakehouse replicate pull`. Needs the extra `replicate`.

        Args:
            url: of an xRegistry server, or of `/messagecatalog` of a catalog of the CNCF draft.
            *groups: only these message groups, or XIDs of anything.
            into: registry to load into.
            authority: that messages without one get.
            force: fetch everything again, delete more than half.
            strict: refuse a document whole when it has an error.
            watcher: is told of the stages.

        Returns:
            What was loaded and refused; None: nothing changed at the source.

        Raises:
            ReplicationError: the source cannot be had whole; nothing was changed.
            PruneRefused: more than half would be deleted.
        """
        from lakehouse.replicate.address import read_address  # noqa: PLC0415
        from lakehouse.replicate.pull import Pull, pull_once, read_scope  # noqa: PLC0415

        self._refuse_the_past("pull")
        settings = self.settings if into is None else self.settings.model_copy(update={"registry": into})
        asked = Pull(read_address(url, "SOURCE"), read_scope(groups), authority=authority, force=force, strict=strict)
        return pull_once(self.spark, settings, asked, watcher)

    def snapshots(self) -> list[Snapshot]:
        """Give all snapshots, oldest first, as `lakehouse snapshots`."""
        attach_tables(self.spark, self.settings, ["changes"])
        return read_snapshots(self.spark)

    def label(self, snapshot: int | str, name: str, *, why: str | None = None, move: bool = False) -> int:
        """Name a snapshot, as `lakehouse label`.

        Returns:
            The snapshot's number.

        Raises:
            LabelTaken: it names another snapshot, and `move` is not set.
            SnapshotNotFound: there is no such snapshot.
        """
        check_label(name)
        return label_snapshot(self.spark, self.settings, str(snapshot), name, why=why, move=move)

    def diff(self, before: int | str, after: int | str) -> list[Difference]:
        """Tell what changed between two snapshots, and whom it breaks, as `lakehouse diff`.

        Raises:
            SnapshotNotFound: there is no such snapshot.
        """
        attach_tables(self.spark, self.settings, ["changes"])
        sides = [resolve_snapshot(self.spark, str(side)) for side in (before, after)]
        return read_differences(diff_snapshots(self.spark, self.settings, *sides))

    def close(self) -> None:
        """End the session if the catalog made it; a session that was given goes on."""
        if self._is_ours:
            self.spark.stop()

    def __enter__(self) -> Catalog:
        """Give the catalog; at the end of the block it is closed."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the catalog."""
        self.close()

    def _refuse_the_past(self, what: str) -> None:
        if self.snapshot is not None:
            raise ValueError(f"{what} changes the catalog as it is now: call it on the catalog itself, not on `at(...)`.")
