"""Cases of a loaded catalog: rules, flattening, its refresh, exports, lookups; each with its floor.

What each case gives is counted: a benchmark of a wrong result is worth nothing.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import click
from delta.tables import DeltaTable
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from lakehouse.domain.neighbours import RuleLimits
from lakehouse.export.run import ExportRequest, export
from lakehouse.ingest.parse.parse import limits_of, parse_documents
from lakehouse.ingest.pipeline import ingest
from lakehouse.ingest.sources import find_sources, read_documents
from lakehouse.ingest.stagerows import PlannedState
from lakehouse.ingest.unchanged import with_unchanged
from lakehouse.log.baseline import current_documents
from lakehouse.log.commits import read_head
from lakehouse.log.projections import roll_forward
from lakehouse.log.snapshots import open_relations
from lakehouse.match.catalogrules import check_all
from lakehouse.query.sql import run_query
from lakehouse.readmodel import ReadModel
from lakehouse.readmodel.lookups import Lookups
from lakehouse.rules.gate import check_stage
from lakehouse.settings import Settings
from lakehouse.store.deltatables import is_small
from lakehouse.store.schema import STAGE
from lakehouse.store.session import without_codegen
from tests.bench.export import write_raw
from tests.bench.generator import Shape
from tests.bench.pairs import Case, to_nowhere

RULES, RULES_BETWEEN = "all rules, whole catalog", "rules between entities, ingest"
FLATTEN, FLAT, REFRESH = "computed_messages", "flat_messages", "refresh after one base changed"
EXPORT, EXPORT_OLD = "export all", "export at the first snapshot"
LOOKUP, SEARCH = "5 messages by xid, one by one", "search by attribute value"
_STAGED = "parse and write the stage"
FLOORS: dict[str, tuple[str, float | None]] = {
    RULES_BETWEEN: (_STAGED, 0.7),
    RULES: (_STAGED, 0.5),
    FLATTEN: ("scan of versions", 6.0),
    FLAT: ("scan of effective_messages", 1.2),
    REFRESH: ("computed_messages into a fresh Delta table", None),
    EXPORT: ("raw, written by Spark as text", 1.5),
    EXPORT_OLD: ("export of the head", 2.0),
    LOOKUP: ("SELECT by key of a clustered Delta table", 1.3),
    SEARCH: ("full scan of effective_messages", 1.2),
}
LOOKUPS = 5
_TOPIC = "attributes['/protocoloptions/topic/value']"


class CatalogBench:
    """Measures the cases on a catalog that is loaded; the session has no other."""

    def __init__(self, spark: SparkSession, settings: Settings, work: Path, shape: Shape, files: list[Path]) -> None:
        self.spark = spark
        self.settings = settings
        self.work = work
        self.shape = shape
        self.fresh = 0
        self.cases = {what: Case(what, floor, goal) for what, (floor, goal) in FLOORS.items()}
        self.files = files
        open_relations(
            spark,
            self.settings,
            ["computed_messages", "flat_messages", "documents"],
            ["changes", "messages", "effective_messages"],
        )
        self.base, self.dependants = self._most_extended()
        self.keys = self._rows("SELECT xid FROM effective_messages ORDER BY xxhash64(xid) LIMIT 5")
        self.topic = self._rows(f"SELECT {_TOPIC} AS topic FROM effective_messages WHERE {_TOPIC} IS NOT NULL LIMIT 1")[0][
            "topic"
        ]
        self.plain = self._clustered_copy()

    def repeat(self) -> None:
        """Measure each case once."""
        self.cases[RULES_BETWEEN].measure(self._rules_between, self._write_stage)
        self.cases[RULES].measure(self._rules, self._write_stage)
        for what, floor in ((FLATTEN, "versions"), (FLAT, "effective_messages")):
            self.cases[what].measure(partial(to_nowhere, self._table(what)), partial(to_nowhere, self._table(floor)))
        self._edit_base()
        self.cases[REFRESH].measure(self._refresh, self._recompute)
        self._check_refreshed()
        self.cases[EXPORT].measure(self._export, self._write_raw)
        self.cases[EXPORT_OLD].measure(lambda: self._export("1"), self._export)
        self.cases[LOOKUP].measure(self._look_up, self._select)
        found = f"SELECT * FROM effective_messages WHERE {_TOPIC} = '{self.topic}'"
        search = lambda: to_nowhere(run_query(self.spark, self.settings, found).frame)  # noqa: E731
        self.cases[SEARCH].measure(search, lambda: to_nowhere(self._table("effective_messages")))

    def check(self) -> None:
        """Count what the cases read, once, outside of what is measured."""
        for name in ("computed_messages", "flat_messages", "effective_messages", "versions"):
            _expect(f"rows of {name}", self._table(name).count(), self.shape.messages)
        _expect("findings", check_all(self.spark, read_head(self.spark).snapshot_id, self.settings).count(), 0)
        searched = f"SELECT count_if({_TOPIC} = '{self.topic}') AS n FROM effective_messages"
        if not self._rows(searched)[0]["n"]:
            raise click.ClickException("the search finds nothing")

    def _table(self, name: str) -> DataFrame:
        return self.spark.table(f"xregistry.{name}")

    def _rows(self, query: str) -> list[Row]:
        return run_query(self.spark, self.settings, query).frame.collect()

    def _fresh_path(self) -> str:
        self.fresh += 1
        return str(self.work / f"written-{self.fresh}")

    def _stage(self) -> DataFrame:
        """Parse all documents, as an ingest into an empty catalog does."""
        documents = read_documents(self.spark, find_sources(self.spark, [str(self.files[0].parent)]), self.settings.stream_bytes)
        known = current_documents(self._table("changes")).filter(F.lit(False))
        return parse_documents(with_unchanged(documents, known, F.lit(self.settings.registry)), limits_of(self.settings))

    def _write_stage(self) -> None:
        self._stage().write.parquet(str(self.work / "stage"), mode="overwrite")

    def _rules_between(self) -> None:
        """Apply the rules between entities to all messages, as an ingest of so many does: by look-ups, or by joins."""
        if is_small(self.spark, self.settings):
            _expect("findings", self._findings_by_lookups(), 0)
            return
        if not (self.work / "stage").is_dir():
            self._write_stage()
        stage = self.spark.read.schema(STAGE).parquet(str(self.work / "stage"))
        checked = check_stage(self.spark, self.settings, stage, (), dialects={"1.0-rc4"})
        to_nowhere(checked.findings)
        _expect("documents refused", checked.rejected, 0)

    def _findings_by_lookups(self) -> int:
        limits = RuleLimits(self.settings.max_chain_depth, self.settings.duplicate_messageids)
        with ReadModel(self.settings) as model:
            model.refresh()
            with model.at(read_head(self.spark).snapshot_id) as view:
                lookups = Lookups(view, len(self.files) + self.shape.messages * 10)
                return len(PlannedState.published(lookups).findings(limits, list(lookups.all_keys())))

    def _rules(self) -> None:
        """Apply all rules, as `lakehouse validate` does."""
        to_nowhere(check_all(self.spark, read_head(self.spark).snapshot_id, self.settings))

    def _most_extended(self) -> tuple[str, int]:
        """Return the message that most others depend on, and with how many messages it has to be computed again."""
        sought = "SELECT xid, explode(depends_on) AS base FROM effective_messages"
        counted = f"SELECT base, count_if(xid <> base) AS n FROM ({sought}) GROUP BY base ORDER BY n DESC, base LIMIT 1"
        found = self._rows(counted)[0]
        return found["base"], found["n"] + 1

    def _edit_base(self) -> None:
        """Change one message that others extend, and load it; `effective_messages` is left behind."""
        _, _, groupid, _, messageid = self.base.split("/")
        for file in self.files:
            text = file.read_bytes()
            if f'"{messageid}":'.encode() not in text:
                continue
            document = json.loads(text)
            document["messagegroups"][groupid]["messages"][messageid]["description"] += " again"
            file.write_text(json.dumps(document, separators=(",", ":")), encoding="utf-8")
            behind = self.settings.model_copy(update={"refresh_effective": False, "check_relations": False})
            summary = ingest(self.spark, behind, [str(file)])
            found = (summary.entities["versions"]["updated"], sum(summary.violations.values()))
            _expect("Versions updated, findings", found, (1, 0))

    def _refresh(self) -> None:
        with without_codegen(self.spark, is_small(self.spark, self.settings)):
            behind = roll_forward(self.spark, read_head(self.spark), settings=self.settings)
        _expect("tables that lagged behind", behind, ["effective_messages"])

    def _recompute(self) -> None:
        self._table("computed_messages").write.format("delta").save(self._fresh_path())

    def _check_refreshed(self) -> None:
        newest = self._rows("SELECT count(*) AS n FROM effective_messages GROUP BY snapshot_id ORDER BY snapshot_id DESC LIMIT 1")
        _expect("messages computed again", newest[0]["n"], self.dependants)

    def _export(self, at: str | None = None) -> None:
        out = self.work / "export.json"
        exported = export(self.spark, self.settings, ExportRequest(str(out), at=at))
        _expect("messages exported", exported.members["messages"], self.shape.messages)
        out.unlink()

    def _write_raw(self) -> None:
        out = Path(self._fresh_path())
        write_raw(self.spark, out)
        shutil.rmtree(out)

    def _clustered_copy(self) -> str:
        """Write the messages into a plain Delta table, clustered by its key like ours."""
        path = self._fresh_path()
        rows = self._table("effective_messages")
        DeltaTable.create(self.spark).location(path).addColumns(rows.schema).clusterBy("registryid", "xid").execute()
        rows.write.format("delta").mode("append").save(path)
        return path

    def _look_up(self) -> None:
        self._find(lambda where: run_query(self.spark, self.settings, f"SELECT * FROM effective_messages WHERE {where}").frame)

    def _select(self) -> None:
        self._find(lambda where: self.spark.sql(f"SELECT * FROM delta.`{self.plain}` WHERE {where}"))

    def _find(self, read: Callable[[str], DataFrame]) -> None:
        found: Iterable[Row] = (
            row
            for key in self.keys
            for row in read(f"registryid = '{self.settings.registry}' AND xid = '{key['xid']}'").collect()
        )
        _expect("messages found", [row["xid"] for row in found], [key["xid"] for key in self.keys])


def _expect(what: str, found: object, expected: object) -> None:
    if found != expected:
        raise click.ClickException(f"{what}: {found} instead of {expected}")
