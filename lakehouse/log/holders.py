"""What holds others counts what came into it and what went: its epoch grows, and its date is the snapshot's (decision 8).

So it is over HTTP (`serve.write.effects`), and so the events of both say. Once for each snapshot: what is written is counted
anyway. Work follows the change: nothing is read where nothing came or went, and of what holds it only its own rows.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakehouse.log.baseline import Baseline, of_snapshots
from lakehouse.log.compare import Comparison
from lakehouse.log.ownership.isdefault import as_compared
from lakehouse.log.ownership.owners import with_declared
from lakehouse.store.keys import KEY, OVER_HTTP, VERSION_KIND
from lakehouse.store.materialize import count, is_empty, is_known_empty, materialize
from lakehouse.store.schema import TABLE_OF_KIND

_FEW_HOLDERS = 1000  # that are named in a query


def with_grown(ground: Baseline, comparison: Comparison) -> DataFrame:
    """Count the epochs of what holds something that came or went.

    Args:
        ground: what the stage was compared with.
        comparison: as from `compare`, once the rules between entities hold.

    Returns:
        Its rows; what holds something that came or went, and is published and not written, has op update, an epoch counted on
        and the date of the snapshot, but for what its document declares. Its text is that of its first owner, where that was
        read, else the stored one.
    """
    compared = comparison.rows
    if not comparison.moved:
        return compared
    came_or_went = _has_op("insert", "delete") & F.col("kind").isin(list(comparison.moved))
    holders = (
        compared.filter(came_or_went).select("registryid", _kind_of_holder().alias("kind"), _holder().alias("xid")).distinct()
    )
    of_kinds = ["registry", "group", "endpoint", *(kind for kind, version in VERSION_KIND.items() if version in comparison.moved)]
    written = compared.filter(_has_op("insert", "update", "delete") & F.col("kind").isin(of_kinds)).select(*KEY)
    holders = materialize(holders.join(written, on=KEY, how="left_anti"))
    if is_empty(holders):
        return compared
    known = compared.join(holders, on=KEY, how="left_semi")
    known = materialize(known.withColumns({"was_compared": F.lit(True), "has_text": _has_text()}))
    if count(known) < count(holders):
        known = materialize(known.unionByName(_unsaid(ground, holders, known), allowMissingColumns=True))
    grown = _counted(ground, known)
    rest = compared.join(grown.select(*KEY), on=KEY, how="left_anti")
    return materialize(rest.unionByName(grown.select(*compared.columns)), eager=False)


def _has_op(*ops: str) -> Column:
    return F.coalesce(F.col("op").isin(*ops), F.lit(False))


def _holder() -> Column:
    xid = F.regexp_replace("xid", r"/[^/]+/[^/]+\z", "")
    return F.when(xid == "", "/").otherwise(xid)


def _kind_of_holder() -> Column:
    kind = F.col("kind")
    resource = F.when(F.col("xid").startswith("/endpoints/"), "endpoint").otherwise("group")
    of_version = [F.when(kind == version, F.lit(of)) for of, version in VERSION_KIND.items()]
    return F.coalesce(*of_version, F.when(kind.isin("group", "endpoint"), "registry"), resource)


def _has_text() -> Column:
    """Return whether the document whose text is published was read with the same text."""
    lead = F.get("document_uris", F.lit(0))
    says = F.exists("agreed", lambda claim: claim["document_uri"] == lead)
    return F.col("refused").isNull() & F.coalesce(says, F.lit(False))


def _unsaid(ground: Baseline, holders: DataFrame, known: DataFrame) -> DataFrame:
    """Return the published parents that no document was read for, as rows of a comparison, without text."""
    left = materialize(holders.join(known.select(*KEY), on=KEY, how="left_anti"))
    state = ground.state.filter(F.col("kind").isin([kind for kind in TABLE_OF_KIND if kind not in VERSION_KIND.values()]))
    named = left.select("registryid", "xid").limit(_FEW_HOLDERS + 1).collect()
    if len(named) <= _FEW_HOLDERS:  # by their names, Delta skips files
        state = state.filter(F.col("registryid").isin(sorted({one["registryid"] for one in named})))
        state = state.filter(F.col("xid").isin(sorted({one["xid"] for one in named})))
    return as_compared(state.join(left, on=KEY, how="left_semi")).withColumn("has_text", F.lit(False))


def _counted(ground: Baseline, holders: DataFrame) -> DataFrame:
    """Count epochs on; what a document declares stays as it is declared (decision 8), and what came over HTTP declares nothing.

    Args:
        ground: what the stage was compared with.
        holders: rows of a comparison with was_compared and has_text; kept.
    """
    is_over_http = F.array_contains("document_uris", OVER_HTTP)
    stored = holders.filter(~F.col("has_text") & ~is_over_http)
    looked_up = None if is_known_empty(stored) else _declared(ground, stored)
    has = {name: F.col("has_text") & F.col(f"declared_{name}").isNotNull() for name in ("epoch", "modifiedat")}
    if looked_up is not None:
        holders = holders.join(looked_up, on=KEY, how="left")
        has = {name: one | F.coalesce(F.col(f"has_{name}"), F.lit(False)) for name, one in has.items()}
    grows = ~(F.col("declares_epoch") & F.col("declares_modifiedat"))
    counted = holders.withColumns({f"declares_{name}": one for name, one in has.items()}).withColumn("grows", grows)
    counted = counted.filter(F.col("was_compared") | F.col("grows")).withColumns(
        {
            "op": F.when(F.col("grows"), "update").otherwise(F.col("op")),
            "epoch": F.col("epoch") + F.when(F.col("declares_epoch"), 0).otherwise(1),
            "modifiedat": F.when(F.col("declares_modifiedat"), F.col("modifiedat")).otherwise(F.lit(ground.committed_at)),
            "document_uri": F.when(F.col("grows") & F.col("has_text"), F.get("document_uris", F.lit(0))),
            "flipped": F.lit(False),
        }
    )
    return materialize(counted)


def _declared(ground: Baseline, stored: DataFrame) -> DataFrame:
    """Return what documents declared of parents, by the stored texts: KEY, has_epoch, has_modifiedat.

    The text of a message may be that of its default Version.
    """
    version_kind = F.create_map(*(F.lit(part) for pair in VERSION_KIND.items() for part in pair))
    defaults = stored.filter(F.col("kind").isin(*VERSION_KIND)).select(
        "registryid",
        version_kind[F.col("kind")].alias("kind"),
        F.concat("xid", F.lit("/versions/"), F.col("stored_defaultversionid")).alias("xid"),
    )
    parts = stored.select("stored_in")
    if not is_known_empty(defaults):
        of_defaults = ground.state.join(defaults, on=KEY, how="left_semi")
        parts = parts.unionByName(of_defaults.select(F.col("snapshot_id").alias("stored_in")))
    told = with_declared(stored.select(*KEY, "stored_modifiedat"), ground.log, of_snapshots(ground.log, parts))
    return materialize(told.select(*KEY, "has_epoch", "has_modifiedat"))
