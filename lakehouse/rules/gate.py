"""The gate: rules between entities are applied to a stage, and what breaks them is taken out before anything is planned.

The rules about one entity were applied while it was parsed (`rules.entity`). An error takes the staged entity out, with what
cannot live without it; what is published stays.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import partial, reduce
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.dialects.tables import DIALECTS, has_rule
from lakehouse.domain.relations import ABOUT_CHANGE
from lakehouse.rules.declared import RULES
from lakehouse.rules.findings import FINDING_COLUMNS, dependents, no_findings, without_doubles
from lakehouse.rules.relational.candidaterows import candidate
from lakehouse.rules.relational.compatible import check_promises
from lakehouse.rules.relational.inherited import check_flattened, flattened_candidate
from lakehouse.rules.relational.joins import check_entities
from lakehouse.rules.relational.pairs import judged
from lakehouse.settings import Settings
from lakehouse.store.keys import KEY
from lakehouse.store.materialize import count_if, is_empty, is_known_empty, materialize
from lakehouse.store.schema import DOCUMENT_BODY, FINDING
from lakehouse.store.xids import message_of
from lakehouse.text.problems import STRICT, violation_id_column

_MOST_ERRORS = 20


class Checked(NamedTuple):
    """What came out of checking a stage.

    stage: without what was refused; findings: of the rules between entities; rejected: how many documents were refused whole;
    is_settled: nothing was refused, so that nothing has to be looked at again.
    """

    stage: DataFrame
    findings: DataFrame
    rejected: int
    is_settled: bool


def check_stage(
    spark: SparkSession,
    settings: Settings,
    stage: DataFrame,
    used: Iterable[str],
    reconciled: DataFrame | None = None,
    *,
    dialects: Collection[str] = DIALECTS,
    strict: bool = False,
    existing_documents: DataFrame | None = None,
    differing: int | None = None,
) -> Checked:
    """Check what would be published: only what would be written again can be rejected; findings of the rest are reported.

    Args:
        spark: the session.
        settings: how far chains of bases are followed.
        stage: columns `schema.STAGE`.
        used: names of the entity tables that hold something.
        reconciled: as from `plan.compare`; None: all that is staged would be published as it is.
        dialects: those of the documents; few have rules about change.
        strict: a document with an error is refused whole.
        existing_documents: as for `candidate`.
        differing: as of `plan.Comparison`; None: they were not counted.

    Returns:
        `findings` has the columns row, document_uri, registryid, kind, xid, finding, as in `schema.STAGE`: all of them when
        nothing was refused, else those about what was refused. The rest may look otherwise once that is out.
    """
    used = set(used)
    if reconciled is None and is_empty(_looked_at(stage, is_published=bool(used))):
        return Checked(stage, no_findings(spark), 0, True)
    # Checkpoints, not caches: what follows is planned over rows, and not over all that they were made from.
    # A union of a dozen frames has a dozen times their partitions, each of which costs every later step a task.
    cores = spark.sparkContext.defaultParallelism
    compare = any(has_rule(dialect, rule) for dialect in dialects for rule in ABOUT_CHANGE)
    what = candidate(spark, stage, used, reconciled, compare=compare, existing_documents=existing_documents, differing=differing)
    what = what._replace(entities=materialize(what.entities.coalesce(cores)))
    flattened = check_flattened(spark, settings, what, used)
    merged = partial(flattened_candidate, spark, settings, what, used)
    pairs = check_entities(what.entities, settings.duplicate_messageids, merged).unionByName(flattened)
    pairs = pairs.unionByName(check_promises(spark, what, used))
    result = materialize(without_doubles(materialize(judged(pairs.coalesce(cores)))))
    if not count_if(result, {"refused": F.col("finding.action") == "quarantined"})["refused"]:
        return Checked(stage, result, 0, True)
    return reject_documents(stage, result, existing_documents) if strict else _take_out(stage, result)


def _looked_at(stage: DataFrame, *, is_published: bool) -> DataFrame:
    """Return the rows to check if anything is published: entities, and documents that were read.

    A rejected one has no entities, and what it said before remains valid: that is checked, whatever else was read.
    """
    is_read = ~F.get_json_object("facts", "$.status").isin("unchanged", "skipped")
    return stage.filter((F.col("row") == "entity") | (F.lit(is_published) & (F.col("row") == "document") & is_read))


def without_refused(stage: DataFrame, spark: SparkSession) -> Checked:
    """Take out what a document gives a row and an error for: no row with an error that refuses it goes further.

    A group that is in both spellings of its collection is read as two, of which one is refused: the document contradicts
    itself, so neither is loaded.
    """
    keys = ["document_uri", *KEY]
    refused = stage.filter((F.col("row") == "finding") & (F.col("finding.action") == "quarantined") & F.col("xid").isNotNull())
    if is_known_empty(refused):
        return Checked(stage, no_findings(spark), 0, True)
    both = stage.filter(F.col("row") == "entity").join(refused.select(*keys).distinct(), on=keys, how="left_semi")
    result = materialize(refused.join(both.select(*keys), on=keys, how="left_semi").select(*FINDING_COLUMNS))
    if is_empty(result):
        return Checked(stage, no_findings(spark), 0, True)
    taken = _take_out(stage, result)
    # The findings themselves are in the stage.
    return taken._replace(
        findings=taken.findings.join(result.select(*keys).distinct(), on=keys, how="left_anti").select(*FINDING_COLUMNS)
    )


def _take_out(stage: DataFrame, rows: DataFrame) -> Checked:
    """Take what was refused out of the stage, and what cannot live without it: each with its own finding."""
    entities = stage.filter(F.col("row") == "entity")
    keys = ["document_uri", *KEY]
    refused = rows.filter(F.col("finding.action") == "quarantined").select(*keys).distinct()
    # A message or schema shows nothing without its default Version: the one that its own document names, whichever is published.
    defaults = entities.filter(F.col("isdefault") & F.col("kind").isin("version", "schemaversion")).select(*keys)
    shows = F.when(F.col("kind") == "version", "message").otherwise("schema").alias("kind")
    bare = refused.join(defaults, on=keys, how="left_semi").select(
        "document_uri", "registryid", shows, message_of("xid").alias("xid"), F.col("xid").alias("cause")
    )
    seeds = refused.select("document_uri", "registryid", "xid").unionByName(bare.select("document_uri", "registryid", "xid"))
    above = F.transform(
        F.filter(F.sequence(F.lit(2), F.size(F.split("xid", "/")) - 3, F.lit(2)), lambda n: n >= 2),
        lambda n: F.array_join(F.slice(F.split("xid", "/"), 1, n + 1), "/"),
    )
    deep = entities.filter(F.size(F.split("xid", "/")) > 4).select(*keys, F.explode(above).alias("cause"))
    seeds = seeds.distinct().withColumnRenamed("xid", "cause")
    below = deep.join(seeds, on=["document_uri", "registryid", "cause"], how="inner")
    hanging = bare.unionByName(below.select(*bare.columns)).groupBy(*keys).agg(F.min("cause").alias("cause"))
    hanging = hanging.join(refused, on=keys, how="left_anti").join(entities.select(*keys), on=keys, how="left_semi")
    every = rows.unionByName(without_doubles(dependents(hanging)))
    texts = entities.select(*keys, F.coalesce("raw", "body").alias("_raw"))
    raw = F.when(F.col("finding.action") == "quarantined", F.col("_raw"))
    every = (
        every.join(texts, on=keys, how="left")
        .withColumn("finding", F.col("finding").withField("raw", raw))
        .select(*FINDING_COLUMNS)
    )
    every = materialize(every)
    out = materialize(every.filter(F.col("finding.action") == "quarantined").select(*keys).distinct())
    remaining = entities.join(F.broadcast(out), on=keys, how="left_anti").select(*stage.columns)
    about = every.join(F.broadcast(out), on=keys, how="left_semi").select(*FINDING_COLUMNS)
    return Checked(remaining.unionByName(stage.filter(F.col("row") != "entity")), about, 0, False)


def reject_documents(stage: DataFrame, rows: DataFrame, existing_documents: DataFrame | None) -> Checked:
    """Refuse each document with an error whole: one finding, which lists the errors.

    One that was loaded stays in its registry with all that is published of it, whichever it names now.

    Args:
        stage: columns `schema.STAGE`.
        rows: findings, columns `FINDING_COLUMNS`.
        existing_documents: as from `baseline.current_documents`; None: nothing is.
    """
    errors = rows.filter(F.col("finding.action") == "quarantined")
    error_text = F.concat("finding.pointer", F.lit(": "), "finding.rule_id", F.lit(": "), "finding.message")
    by_document = errors.groupBy("document_uri", "registryid").agg(
        F.count("*").alias("n"), F.slice(F.array_sort(F.collect_list(error_text)), 1, _MOST_ERRORS).alias("details")
    )
    reason = F.concat(F.col("n").cast("string"), F.lit(" errors under --strict: "), F.array_join("details", "; "))
    stays = F.col("registryid") if existing_documents is None else F.coalesce("_before", "registryid")
    by_document = (
        by_document
        if existing_documents is None
        else by_document.join(_where_loaded(stage, existing_documents), on="document_uri", how="left")
    )
    rejected = materialize(by_document.select("document_uri", "registryid", stays.alias("stays"), reason.alias("reason")))
    rule = RULES[STRICT]
    no_xid = pointer = F.lit("")
    action = F.lit("quarantined")
    values = {
        "violation_id": violation_id_column("stays", "document_uri", F.lit(STRICT), no_xid, pointer, "reason", action),
        "pointer": pointer,
        "rule_id": F.lit(STRICT),
        "severity": F.lit("error"),
        "action": action,
        "message": F.col("reason"),
        "hint": F.lit(rule.hint),
        "raw": F.lit(None).cast("string"),
    }
    details = rejected.select(
        F.lit("finding").alias("row"),
        "document_uri",
        F.col("stays").alias("registryid"),
        F.lit("").alias("kind"),
        F.lit(None).cast("string").alias("xid"),
        F.struct(*(values[field.name].alias(field.name) for field in FINDING)).alias("finding"),
    )
    keys = ["document_uri", "registryid"]
    remaining = stage.filter(F.col("row") == "entity").join(F.broadcast(rejected.select(*keys)), on=keys, how="left_anti")
    rest = stage.filter(F.col("row") != "entity").join(F.broadcast(rejected), on=keys, how="left")
    facts = F.from_json("facts", DOCUMENT_BODY)
    cleared = reduce(
        lambda facts, name: facts.withField(name, F.lit(None).cast(DOCUMENT_BODY[name].dataType)),
        ("entities", "quarantined", "spellings", "root", "findings"),
        facts.withField("status", F.lit("rejected")).withField("reason", F.col("reason")),
    )
    is_rejected = (F.col("row") == "document") & F.col("reason").isNotNull()
    rest = rest.filter((F.col("row") != "finding") | F.col("reason").isNull())
    rejected_values = {"facts": F.to_json(cleared), "registryid": F.col("stays")}
    rest = rest.withColumns({name: F.when(is_rejected, value).otherwise(F.col(name)) for name, value in rejected_values.items()})
    return Checked(remaining.select(*stage.columns).unionByName(rest.select(*stage.columns)), details, rejected.count(), False)


def _where_loaded(stage: DataFrame, existing_documents: DataFrame) -> DataFrame:
    """Return the registry into which documents that name theirs were loaded last: document_uri, _before."""
    own = F.get_json_object("facts", "$.own_registry") == "true"
    say = stage.filter((F.col("row") == "document") & own).select("document_uri")
    last = (
        existing_documents.filter("facts.own_registry")
        .groupBy(F.col("xid").alias("document_uri"))
        .agg(F.max_by("registryid", "snapshot_id").alias("_before"))
    )
    return last.join(F.broadcast(say), on="document_uri", how="left_semi")
