"""A catalog as a Python object: what the command gives a shell, for notebooks, jobs and other programs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial, wraps
from typing import Any, ParamSpec, TypeVar

from pyspark.sql import DataFrame, SparkSession

from lakehouse.dialects.tables import NORMAL
from lakehouse.domain.diff import Difference
from lakehouse.domain.events import FEEDS
from lakehouse.domain.ownership import Policy
from lakehouse.errors import LakehouseError, WarehouseError
from lakehouse.expectations.suiteruns import warm_up
from lakehouse.expectations.validation import Validation, validate
from lakehouse.export.run import Exported, ExportRequest
from lakehouse.export.run import export as run_export
from lakehouse.export.writers import WriteStyle
from lakehouse.ingest.pipeline import IngestRequest
from lakehouse.ingest.pipeline import ingest as run_ingest
from lakehouse.ingest.summary import Summary
from lakehouse.log.snapshotfacts import HEAD, Snapshot, check_label
from lakehouse.log.snapshots import label_snapshot, read_snapshots, resolve_snapshot
from lakehouse.match.catalogrules import check_all
from lakehouse.match.conformance import all_runs
from lakehouse.match.definition.scope import Scope
from lakehouse.match.distributed import match
from lakehouse.match.matcher import MatchRequest
from lakehouse.operations.backups import Manifest
from lakehouse.operations.backups import backup as make_backup
from lakehouse.operations.doctor import Diagnosis, diagnose
from lakehouse.operations.maintenance import Maintained
from lakehouse.operations.maintenance import maintain as run_maintenance
from lakehouse.progress import Watcher
from lakehouse.propose.decided import Thresholds
from lakehouse.propose.proposalruns import ProposeOptions, ProposeSummary, run_propose, write_proposals
from lakehouse.query.audit import Blame, Change, flat_attributes, read_history
from lakehouse.query.audit import blame as blame_of
from lakehouse.query.differences import diff_snapshots, read_differences
from lakehouse.query.records import Records, for_python
from lakehouse.query.sql import run_query
from lakehouse.readmodel.detail import Shown, ShownDocument, ShownEntity
from lakehouse.readmodel.detail import show as show_entities
from lakehouse.readmodel.file.words import KINDS
from lakehouse.readmodel.model import ReadModel, open_model
from lakehouse.readmodel.queries import change_events, snapshot_differences
from lakehouse.readmodel.snapshotview import View
from lakehouse.readmodel.violationlist import RuleFindings, find_violations, violations_by_rule, with_reasons
from lakehouse.readmodel.wordsearch import Hit
from lakehouse.readmodel.wordsearch import search as search_for
from lakehouse.registries.registrysource import (
    RegistryOptions,
    fetch_registry,
    is_registry,
    load_registry,
    read_registry_source,
)
from lakehouse.registries.subjectdocuments import Messages
from lakehouse.render.onspark import render_table
from lakehouse.render.rendering import RenderStyle
from lakehouse.render.renderruns import families_of
from lakehouse.render.selected import read_selected
from lakehouse.rules.declared import RULES
from lakehouse.settings import Settings, read_settings
from lakehouse.site import Written, write_site
from lakehouse.store.deltatables import attach_tables
from lakehouse.store.internals.jvm import is_connect, require_classic
from lakehouse.store.localpaths import local_path, names_folder
from lakehouse.store.session import open_beside, open_session
from lakehouse.text.jsontext import as_written
from lakehouse.text.names import RegistryId, Xid

P = ParamSpec("P")
T = TypeVar("T")
_SHOWN = ("registryid", "xid", "pointer", "value", "origin", "declared_by")


def as_method(method: Callable[P, T]) -> Callable[P, T]:
    """Wrap a method so that its errors name methods and arguments instead of commands and options."""

    @wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        catalog: Any = args[0]
        try:
            with catalog._opened.same_schema():
                return method(*args, **kwargs)
        except LakehouseError as error:
            error.args = (for_python(str(error), Catalog),)
            raise

    return call


class CatalogHandle:
    """What all states of a catalog share: the read model, and a Spark session as soon as a method needs one."""

    def __init__(self, settings: Settings, spark: SparkSession | None) -> None:
        self.settings = settings
        self._is_ours = spark is None
        self._spark = None if spark is None else open_beside(spark, settings)
        self._model: ReadModel | None = None

    @property
    def spark(self) -> SparkSession:
        """Return the session; start one if there is none yet."""
        if self._spark is None:
            self._spark = open_session(self.settings)
        return self._spark

    def classic(self, what: str) -> SparkSession:
        """Return the session for what Spark Connect cannot do.

        Raises:
            SettingsError: the session is one of Spark Connect.
        """
        require_classic(self.spark, what)
        return self.spark

    @contextmanager
    def same_schema(self) -> Iterator[None]:
        """Leave a session of Spark Connect, which is the caller's own, in the schema that it is in."""
        spark = self._spark
        if spark is None or not is_connect(spark):
            yield
            return
        before = spark.catalog.currentDatabase()
        try:
            yield
        finally:
            spark.catalog.setCurrentDatabase(before)

    @property
    def is_elsewhere(self) -> bool:
        """Return whether only Spark may read the warehouse: it is on no local disk, or Spark runs and may reach other disks."""
        return self._spark is not None or local_path(self.settings.warehouse) is None

    def model(self) -> ReadModel:
        """Return the read model, up to date."""
        if self._model is None:
            self._model = open_model(self.settings)
        else:
            self._model.refresh()
        return self._model

    def close(self) -> None:
        """Close the read model, and the session if it was started here."""
        if self._model is not None:
            self._model.close()
            self._model = None
        if self._is_ours and self._spark is not None:
            self._spark.stop()
            self._spark = None


class CatalogReads:
    """What a state of a catalog answers without Spark.

    Attributes:
        settings: the settings in force.
        snapshot: number of the snapshot that reads are as of; None: the newest.
    """

    def __init__(self, opened: CatalogHandle, snapshot: str | None = None) -> None:
        self._opened = opened
        self.settings = opened.settings
        self.snapshot = snapshot

    @property
    def _registryid(self) -> RegistryId | None:
        return RegistryId(self.settings.registry) or None

    def _ask(self, question: Callable[[View], T]) -> T:
        return self._opened.model().answer(question, self.snapshot)

    @as_method
    def show(self, xid: str) -> Records[Shown | ShownEntity | ShownDocument]:
        """Show an entity or a document, in each registry that has it, as `lakehouse show`.

        Args:
            xid: XID of a message, group, endpoint, schema or Version; an id that only one entity has; the URI of a document,
                or its end after a `/`.

        Returns:
            `Shown` for a message, `ShownEntity` for another entity, `ShownDocument`; as a table one row an attribute.

        Raises:
            MessageNotFound, XidNotFound: no registry has it.
            AmbiguousId: the id is that of several entities.
            DefinitionNotYet: the message has no effective definition yet (setting `refresh_effective`).
        """
        depth = self.settings.max_chain_depth

        def ask(view: View) -> list[Shown | ShownEntity | ShownDocument]:
            with with_reasons(view, self._registryid):
                return show_entities(view, xid, self._registryid, depth)

        return Records(self._ask(ask), _SHOWN, _attributes_of)

    @as_method
    def search(self, text: str, *, kinds: Iterable[str] = KINDS, limit: int = 20) -> Records[Hit]:
        """Find entities that hold all words of a text, best first, as `lakehouse search`; always in the newest snapshot.

        Args:
            text: words of ids, names, types, addresses, labels, descriptions or attributes.
            kinds: of message, group, endpoint, schema, document.
            limit: how many at most.
        """
        self._refuse_the_past("search")
        result = self._ask(lambda view: search_for(view, text, tuple(kinds), registryid=self._registryid, limit=limit))
        return Records(result, ("kind", "xid", "registryid", "name", "where"))

    @as_method
    def log(self, xid: str, *, below: bool = False) -> Records[Change]:
        """Return all changes of an entity, oldest first, as `lakehouse log`.

        Args:
            xid: XID of the entity, or an id that only one entity has.
            below: with every entity below it, not only its Versions.

        Raises:
            EntityNotFound: the catalog never held it.
        """
        result = self._ask(lambda view: read_history(view, xid, self._registryid, below=below))
        return Records(result, ("snapshot_id", "committed_at", "committed_by", "command", "op", "kind", "xid", "patch"))

    @as_method
    def blame(self, xid: str) -> Records[Blame]:
        """Return for each attribute of an entity the snapshot and document that set it, as `lakehouse blame`.

        Raises:
            EntityNotFound: the catalog never held it.
        """
        result = self._ask(lambda view: blame_of(read_history(view, xid, self._registryid)))
        return Records(result, ("xid", "pointer", "value", "snapshot_id", "committed_at", "committed_by", "document_uris"))

    @as_method
    def changes(
        self, *, since: int | str = 0, until: int | str | None = None, feeds: Iterable[str] = FEEDS
    ) -> Records[dict[str, Any]]:
        """Return what changed as CloudEvents, oldest first, as `lakehouse changes`.

        Args:
            since: the last snapshot that the reader knows; 0: none.
            until: the last snapshot to report; None: that of `at`, or the newest.
            feeds: of core, messagecatalog.

        Raises:
            SnapshotNotFound: there is no such snapshot.
        """

        def ask(view: View) -> list[dict[str, Any]]:
            first = 0 if str(since) == "0" else view.resolve(str(since))
            last = view.resolve(str(until or self.snapshot or HEAD))
            source = self.settings.events_source
            events = change_events(view, source, first, last, tuple(feeds), registryid=self._registryid)
            return [json.loads(event) for _, event in events]

        return Records(self._opened.model().answer(ask), ("time", "type", "source", "subject", "id"))

    @as_method
    def violations(self, *, ingest: str | None = None, document: str | None = None, examples: int = 5) -> Records[RuleFindings]:
        """List rejected entities, warnings and notes by rule, as `lakehouse violations`.

        Args:
            ingest: `last`, or the id of an ingest: findings that it was the first to find; None: those of each document's latest
                load.
            document: of this document only: its URI, or the end of it.
            examples: how many findings of a rule are returned.

        Raises:
            DocumentNotFound: the catalog knows no such document.
        """
        result = self._ask(lambda view: find_violations(view, registryid=self._registryid, ingest=ingest, document=document))
        return Records(violations_by_rule(result, examples), ("rule_id", "severity", "findings", "text"))

    def _refuse_the_past(self, what: str) -> None:
        if self.snapshot is not None:
            raise ValueError(f"{what} works on the catalog as it is now: call it on the catalog itself, not on `at(...)`.")


def _attributes_of(shown: Shown | ShownEntity | ShownDocument) -> list[dict[str, Any]]:
    """Return a row for each attribute, its value as JSON text."""
    if isinstance(shown, Shown):
        of_message = {"registryid": shown.message["registryid"], "xid": shown.message["xid"]}
        return [of_message | row for row in shown.attributes]
    if isinstance(shown, ShownDocument):
        of_document = {"registryid": shown.registryid, "xid": shown.document_uri}
        facts = {name: value for name, value in shown.as_json().items() if name not in ("registryid", "document_uri")}
        return [of_document | {"pointer": pointer, "value": as_written(value)} for pointer, value in flat_attributes(facts)]
    entity = shown.entity
    of_entity = {"registryid": entity.registryid, "xid": entity.xid}
    return [of_entity | {"pointer": pointer, "value": as_written(value)} for pointer, value in flat_attributes(entity.attributes)]


class CatalogState(CatalogReads):
    """A state of a catalog: what it answers without Spark, and what Spark computes of it."""

    @property
    def spark(self) -> SparkSession:
        """Return the Spark session of the catalog; the first use starts it if none was given."""
        return self._opened.spark

    @as_method
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

    @as_method
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
        perspective: str = "client",
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
            perspective: of AsyncAPI: `client` (who uses the endpoints) or `server` (who offers them).

        Raises:
            LakehouseError: the catalog holds several registries and none is named, `out` cannot be written, or something
                would be lost and `lossy` is not set.
        """
        style = WriteStyle(base_url, source, split, dialect or NORMAL, perspective=perspective)
        place = (out, self._registryid, split or names_folder(out), style)
        request = ExportRequest(*place, at=self.snapshot, select=tuple(map(Xid, select)), flat=flat, lossy=lossy, replace=replace)
        return run_export(self.spark, self.settings, request)

    @as_method
    def site(self, out: str, *, base_url: str = "", processes: int = 1) -> Written:
        """Write the catalog as pages, as `lakehouse site`.

        Args:
            out: folder; pages of an earlier run are replaced.
            base_url: URL under which the pages will be served; links are relative anyway.
            processes: how many processes write pages; with several, a program protects its main module (`if __name__ == ...`).
        """
        return write_site(self._opened.model(), out, at=self.snapshot, base_url=base_url, processes=processes)

    @as_method
    def validate(self, *, suites: Iterable[str] = (), watcher: Watcher | None = None) -> Validation:
        """Run all rules and suites of expectations over the catalog, as `lakehouse validate`; writes Data Docs.

        Args:
            suites: names of suites; none: all.
            watcher: receives the stages.
        """
        warm_up()
        check, extra_tables = (
            partial(check_all, settings=self.settings),
            {"match_runs": partial(all_runs, settings=self.settings)},
        )
        spark = self._opened.classic("validate")
        return validate(
            spark, self.settings, check, RULES, suites=suites, at=self.snapshot, extra_tables=extra_tables, watcher=watcher
        )

    @as_method
    def match(self, rows: DataFrame, *, scope: Scope | None = None, request: MatchRequest | None = None) -> DataFrame:
        """Match landed events with the definitions, as `lakehouse match`.

        Args:
            rows: events as they landed, such as Kafka's columns with `headers`, or CloudEvents.
            scope: whose messages are candidates (`lakehouse.match.definition.scope.Scope`); None: all.
            request: how they are matched (`lakehouse.match.MatchRequest`); None: as the command does without options.

        Returns:
            One row an event: `status`, `best`, `matches`, `variables`, `reasons`, `deviations`, `unchecked`, `payload_status`.

        Raises:
            SettingsError: the columns are of no landing that is known.
        """
        return match(self.spark, self.settings, rows, scope, request, self.snapshot)

    @as_method
    def render(
        self, values: DataFrame, *xids: str, group: str | None = None, over: str | None = None, style: RenderStyle | None = None
    ) -> DataFrame:
        """Make messages of their definitions, one for each row of values, as `lakehouse render --values TABLE`.

        Args:
            values: a column for each placeholder or attribute that has values; `data` holds the payload.
            *xids: XIDs of messages, or ids that are unique; none: all of the group.
            group: XID of a message group; None: of all.
            over: protocols as `--as` takes them; None: what each definition or its endpoints say.
            style: mode, examples, time (`lakehouse.render.RenderStyle`); None: as the command does without options.

        Returns:
            One row a message: registryid, xid, protocol, mode, line (what `match` reads), payload_status; or `error`, why there
            is none.

        Raises:
            SettingsError: a column is called like nothing that is asked for, or an id is of several messages.
            MessageNotFound: there is no such message.
        """
        families = families_of(over, "captured")
        chosen = None if group is None else Xid(group)
        selected = self._ask(lambda view: read_selected(view, xids, self._registryid, chosen))
        return render_table(values, selected, style, families)


class CatalogUpkeep(CatalogState):
    """What keeps a warehouse in order; all of it starts Spark."""

    @as_method
    def doctor(self, *, deep: bool = False) -> Records[Diagnosis]:
        """Check whether the warehouse is sound, as `lakehouse doctor`; starts Spark.

        Args:
            deep: compare all columns and verify the checksums of all pages.
        """
        results = diagnose(self._opened.classic("doctor"), self.settings, deep=deep)
        return Records(results, ("state", "check", "table", "found", "fix"))

    @as_method
    def maintain(self, *, dry_run: bool = False, full: bool = False) -> Maintained:
        """Compact and sort files, and delete those that no retained version needs, as `lakehouse maintain`; starts Spark.

        Args:
            dry_run: return what would be done, and do nothing.
            full: sort all files again, also those that are sorted already.
        """
        self._refuse_the_past("maintain")
        return run_maintenance(self._opened.classic("maintain"), self.settings, dry_run=dry_run, full=full)

    @as_method
    def backup(self, folder: str) -> Manifest:
        """Copy what came since the last backup into a folder and verify it, as `lakehouse backup`; starts Spark.

        Raises:
            BackupError: the folder holds the backup of another catalog, or the copy is not what was read.
        """
        self._refuse_the_past("backup")
        return make_backup(self._opened.classic("backup"), self.settings, folder)

    @as_method
    def propose(self, out: str, *sources: str, thresholds: Thresholds | None = None, keeps_values: bool = True) -> ProposeSummary:
        """Propose definitions for events that match none, as `lakehouse propose`; starts Spark.

        Args:
            out: folder for a document and a page of evidence for each group.
            *sources: files, folders or tables of events, as `lakehouse match` reads them.
            thresholds: how much evidence decides (`lakehouse.propose.decided.Thresholds`); None: as the command does.
            keeps_values: values of events may be stored and written.

        Raises:
            SourceNotFound: a source is not there.
            SettingsError: the columns of a source are of no landing that is known.
        """
        self._refuse_the_past("propose")
        options = ProposeOptions(sources, registry=self._registryid, keeps_values=keeps_values)
        options = options if thresholds is None else replace(options, thresholds=thresholds)
        summary = run_propose(self._opened.classic("propose"), self.settings, options)
        write_proposals(summary, out, options.thresholds)
        return summary


class Catalog(CatalogUpkeep):
    """A catalog in a warehouse: its newest state, its history, and what changes it.

    Args:
        warehouse: folder or URI of the warehouse; None: what the settings say (`./warehouse` where they say nothing).
        spark: a running session with Delta Lake, such as a notebook's; the catalog works in a new session of the same Spark, so
            your settings do not change. With Spark Connect it reads in the session itself, and refuses to write. None: the first
            method that needs Spark starts it, as the command does.
        conf: settings file, as with `--conf`.
        **settings: single settings, as in `conf/lakehouse.toml`.

    Raises:
        SettingsError: a setting is unknown or has a wrong value.
        LakehouseError: the session has no Delta Lake.
    """

    def __init__(
        self, warehouse: str | None = None, spark: SparkSession | None = None, *, conf: str | None = None, **settings: Any
    ) -> None:
        result = read_settings(conf, **({"warehouse": warehouse} if warehouse else {}), **settings)
        super().__init__(CatalogHandle(result, spark))

    def __repr__(self) -> str:
        """Return the warehouse, and the snapshot where it is a past one."""
        return f"Catalog({self.settings.warehouse!r})" + ("" if self.snapshot is None else f".at({self.snapshot})")

    @as_method
    def at(self, snapshot: int | str) -> Catalog:
        """Return the same catalog as of a snapshot: every method that reads reads that state.

        Args:
            snapshot: its number, label, date, time, or `head`.

        Raises:
            SnapshotNotFound: there is no such snapshot.
        """
        past = object.__new__(Catalog)
        past.__dict__ |= self.__dict__ | {"snapshot": str(self._resolve(str(snapshot)))}
        return past

    def _resolve(self, snapshot: str) -> int:
        def by_spark() -> int:
            attach_tables(self.spark, self.settings, ["changes"])
            return resolve_snapshot(self.spark, snapshot)

        return self._quick_or(by_spark, lambda model: model.answer(lambda view: view.resolve(snapshot)))

    def _quick_or(self, by_spark: Callable[[], T], quick: Callable[[ReadModel], T]) -> T:
        """Query the read model, or Spark if the warehouse is on storage that only Spark reads."""
        try:
            return quick(self._opened.model())
        except (WarehouseError, OSError):
            if not self._opened.is_elsewhere:
                raise
            return by_spark()

    @as_method
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
        deleted: bool = False,
        messages: Messages | None = None,
        watcher: Watcher | None = None,
    ) -> Summary:
        """Load documents, as `lakehouse ingest`.

        Args:
            *sources: files, folders, globs, URIs; or one schema registry.
            registry_from: 'document' or 'folder': name each document's registry after its path.
            prune: delete what its last document dropped.
            force: read unchanged documents again, take stale entities, prune more than half.
            strict: reject a whole document when it has an error.
            dry_run: return what would change, and change nothing.
            label: name of the snapshot.
            dialect: read all documents as of this dialect.
            deleted: of a schema registry, load also what is soft-deleted.
            messages: of a schema registry, make messages for subjects that are named after a 'topic' or a 'record'.
            watcher: receives the stages.

        Returns:
            What was loaded and refused; `refused` is True if anything was (exit code 3 of the command).

        Raises:
            SourceNotFound: a source names nothing.
            LabelTaken: the label names a snapshot already.
            CommitLost: other writers won the race more often than `commit_attempts`.
        """
        self._refuse_the_past("ingest")
        if label is not None:
            check_label(label)
        spark = self._opened.classic("ingest")
        request = IngestRequest(Policy(force, prune, self.settings.on_conflict), strict, dry_run, label, dialect)
        if any(is_registry(source) for source in sources):
            source = read_registry_source(*sources)
            options = RegistryOptions(deleted, messages)
            content = fetch_registry(source, self.settings, options, spark=spark if source.is_table else None)
            return load_registry(spark, self.settings, source, content, options=options, request=request, watcher=watcher)
        return run_ingest(spark, self.settings, list(sources), registry_from=registry_from, request=request, watcher=watcher)

    @as_method
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
            strict: reject a whole document when it has an error.
            watcher: receives the stages.

        Returns:
            What was loaded and refused; None: nothing changed at the source.

        Raises:
            ReplicationError: the source cannot be had whole; nothing was changed.
            PruneRefused: more than half would be deleted.
        """
        from lakehouse.replicate.client import read_address  # noqa: PLC0415
        from lakehouse.replicate.pull import Pull, pull_once, read_scope  # noqa: PLC0415

        self._refuse_the_past("pull")
        settings = self.settings if into is None else self.settings.model_copy(update={"registry": into})
        request = Pull(read_address(url, "SOURCE"), read_scope(groups), authority=authority, force=force, strict=strict)
        return pull_once(self._opened.classic("pull"), settings, request, watcher)

    @as_method
    def snapshots(self) -> Records[Snapshot]:
        """List all snapshots, oldest first, as `lakehouse snapshots`."""

        def by_spark() -> list[Snapshot]:
            attach_tables(self.spark, self.settings, ["changes"])
            return read_snapshots(self.spark)

        result = self._quick_or(by_spark, lambda model: model.answer(lambda view: view.snapshots()))
        columns = ("snapshot_id", "committed_at", "committed_by", "command", "inserted", "updated", "deleted", "labels")
        return Records(result, columns)

    @as_method
    def label(self, snapshot: int | str, name: str, *, why: str | None = None, move: bool = False) -> int:
        """Label a snapshot, as `lakehouse label`.

        Returns:
            The snapshot's number.

        Raises:
            LabelTaken: it names another snapshot, and `move` is not set.
            SnapshotNotFound: there is no such snapshot.
        """
        check_label(name)
        return label_snapshot(self._opened.classic("label"), self.settings, str(snapshot), name, why=why, move=move)

    @as_method
    def diff(self, before: int | str, after: int | str) -> Records[Difference]:
        """Return what changed between two snapshots, and whom it breaks, as `lakehouse diff`.

        Raises:
            SnapshotNotFound: there is no such snapshot.
            RegistryNotFound: the registry of this catalog never held anything.
        """
        sides = [self._resolve(str(side)) for side in (before, after)]
        registryid = self._registryid

        def by_spark() -> list[Difference]:
            attach_tables(self.spark, self.settings, ["changes"])
            rows = diff_snapshots(self.spark, self.settings, *sides)
            return read_differences(rows if registryid is None else rows.filter(rows["registryid"] == registryid))

        result = self._quick_or(by_spark, lambda model: snapshot_differences(model, *sides, registryid=registryid))
        return Records(result, ("class", "kind", "xid", "change", "pointer", "before", "after", "rule"))

    def close(self) -> None:
        """Close the read model, and end the session if the catalog started it; a session that was given goes on."""
        self._opened.close()

    def __enter__(self) -> Catalog:
        """Return the catalog, which is closed at the end of the block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the catalog."""
        self.close()
