"""Versions of definitions of the CNCF catalog draft get their numbers, which only the catalog can know (2.2, 2.2.5).

A definition that changed becomes a new Version, numbered one above the highest that ever was; a Version that exists never
changes, and the latest is the default. The Version that a document holds is found again by the number that the document gives
it, if any, and by its content: what the document said last is what it is compared with. So the same document again changes
nothing, also when the catalog has numbered a Version otherwise than the document does.

Runs between the stage and the plan, on the rows of such documents only: rows of the stage in, rows of the stage out.
"""

from __future__ import annotations

from functools import reduce
from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from lakehouse.log.owners import with_isdefault, with_member
from lakehouse.store.materialize import materialize
from lakehouse.store.schema import STAGE
from lakehouse.store.xids import no_uris, version_xid
from lakehouse.text.problems import violation_id_column

_MESSAGE = ["registryid", "message_xid"]
_FORMAT_CHANGED = "the format of the group has changed, and a format is immutable"
_FALLEN = "it cannot be loaded: what holds it was refused"
_AUTHORITY_CHANGED = "the authority of the definition has changed, and an authority is immutable"


class Numbered(NamedTuple):
    """A stage with numbers, columns `schema.STAGE`, and the findings in it that the facts of documents do not count."""

    stage: DataFrame
    refused: DataFrame


def with_numbers(stage: DataFrame, log: DataFrame, *, prune: bool = False) -> Numbered:
    """Number the Versions of definitions of the draft.

    Args:
        stage: columns `schema.STAGE`.
        log: rows of `changes` up to the head.
        prune: what its last document dropped will be deleted, and is not the latest any more.

    Returns:
        The stage. Of a definition of the draft it holds the new Versions under their numbers, those that the catalog holds
        already as they are there, and the others of which `isdefault` changes, under the documents that own them.
    """
    is_draft = F.coalesce("draft", F.lit(False))
    # Each step is kept as rows: a plan that grows over all of them would take longer to look at than to run.
    staged = materialize(stage.filter(is_draft))
    stored = materialize(read_stored(log, staged))
    refused = materialize(find_immutable(staged, stored))
    staged = _without(staged, refused)
    versions = materialize(number_versions(staged, stored))
    latest = materialize(find_latest(versions, stored, staged, prune=prune))
    parts = [
        refused,
        declared_groups(staged, stage, stored),
        message_rows(staged, stored, latest),
        new_rows(versions, stored, latest),
        stored_rows(versions, stored, latest),
    ]
    numbered = reduce(lambda left, right: left.unionByName(right, allowMissingColumns=True), parts)
    numbered = numbered.withColumns(_about_default()).select(*STAGE.names)
    return Numbered(stage.filter(~is_draft).select(*STAGE.names).unionByName(materialize(numbered)), refused)


def read_stored(log: DataFrame, staged: DataFrame) -> DataFrame:
    """Read from the log what the catalog holds of the staged definitions and their groups.

    Returns:
        The newest row of each group, message and Version: registryid, message_xid (NULL of a group), kind, xid, op,
        content_hash, epoch, createdat, modifiedat, document_uris, body, raw, attributes; of a Version also number, declared
        (the number that its document gives it) and print (of its definition).
    """
    groups = staged.filter(F.col("kind") == "group").select("registryid", F.col("xid").alias("_group")).distinct()
    concerned = F.regexp_extract("xid", r"\A/messagegroups/[^/]+", 0)
    rows = log.filter(F.col("kind").isin("group", "message", "version")).withColumn("_group", concerned)
    rows = rows.join(F.broadcast(groups), on=["registryid", "_group"], how="left_semi")
    newest = Window.partitionBy("registryid", "xid").orderBy(F.desc("snapshot_id"))
    rows = rows.withColumn("_nth", F.row_number().over(newest)).filter(F.col("_nth") == 1)
    return _with_identity(rows.drop("_nth", "_group", "snapshot_id"))


def number_versions(staged: DataFrame, stored: DataFrame) -> DataFrame:
    """Find for each staged Version the one that the catalog holds already, or its number.

    Args:
        staged: rows of the stage, kind version among them.
        stored: as from `read_stored`.

    Returns:
        The staged Versions with message_xid, declared, print, `is_stored` (the catalog holds it) and `number`.
    """
    versions = stored.filter(F.col("kind") == "version")
    version = F.struct("number", "declared", "print", "document_uris", (F.col("op") != "delete").alias("live"))
    by_message = versions.groupBy(*_MESSAGE).agg(F.collect_list(version).alias("versions"))
    every = _with_identity(staged.filter(F.col("kind") == "version")).join(by_message, on=_MESSAGE, how="left")
    none = F.array().cast(dict(by_message.dtypes)["versions"])
    every = every.withColumn("versions", F.coalesce("versions", none))
    uri, declared = F.col("document_uri"), F.col("declared")
    same = F.filter("versions", lambda v: v["live"] & v["declared"].eqNullSafe(declared) & v["number"].isNotNull())
    own = F.filter("same", lambda v: F.array_contains(v["document_uris"], uri))
    pool = F.when(F.size("own") > 0, F.col("own")).otherwise(F.col("same"))
    last = F.array_max(F.transform(pool, lambda v: F.struct(v["number"].alias("number"), v["print"].alias("print"))))
    every = every.withColumn("same", same).withColumn("own", own).withColumn("last", last)
    taken = F.exists("versions", lambda v: v["number"] == F.col("wanted"))
    every = every.withColumns(
        {
            "is_stored": F.coalesce(F.col("last.print") == F.col("print"), F.lit(False)),
            "wanted": F.when(declared.rlike(r"\A[1-9][0-9]{0,17}\z"), declared.cast("bigint")),
        }
    )
    granted_number = F.when(~F.col("is_stored") & F.col("wanted").isNotNull() & ~taken, F.col("wanted"))
    highest = F.array_max(F.transform("versions", lambda v: v["number"]))
    of_message = Window.partitionBy(*_MESSAGE)
    every = every.withColumn("granted_number", granted_number)
    none_yet = F.lit(0).cast("bigint")
    base = F.greatest(F.coalesce(highest, none_yet), F.coalesce(F.max("granted_number").over(of_message), none_yet))
    every = every.withColumn("base", base)
    is_new = ~F.col("is_stored") & F.col("granted_number").isNull()
    before = Window.partitionBy(*_MESSAGE, "document_uri").orderBy("staged_number").rowsBetween(Window.unboundedPreceding, 0)
    every = every.withColumn("nth", F.count_if(is_new).over(before))
    number = F.when(F.col("is_stored"), F.col("last.number")).otherwise(
        F.coalesce("granted_number", F.col("base") + F.col("nth"))
    )
    every = every.withColumn("number", number)
    return every.drop("versions", "same", "own", "last", "wanted", "granted_number", "base", "nth")


def find_latest(versions: DataFrame, stored: DataFrame, staged: DataFrame, *, prune: bool) -> DataFrame:
    """Return for each staged definition the numbers of its Versions after the change.

    Returns:
        registryid, message_xid, numbers (sorted), latest.
    """
    live = stored.filter((F.col("kind") == "version") & (F.col("op") != "delete") & F.col("number").isNotNull())
    if prune:  # owned by none but documents that are staged now and hold it no more
        holding = holders_of_versions(versions, stored)
        readers = staged.groupBy(F.col("registryid")).agg(F.collect_set("document_uri").alias("readers"))
        live = live.join(holding, on=["registryid", "xid"], how="left").join(F.broadcast(readers), on="registryid", how="left")
        elsewhere = F.size(F.array_except("document_uris", F.coalesce("readers", no_uris()))) > 0
        live = live.filter(elsewhere | F.col("holders").isNotNull())
    every = live.select(*_MESSAGE, "number").unionByName(versions.select(*_MESSAGE, "number"))
    numbers = F.array_sort(F.collect_set("number"))
    concerned = versions.select(*_MESSAGE).distinct()
    by_message = every.join(concerned, on=_MESSAGE, how="left_semi").groupBy(*_MESSAGE).agg(numbers.alias("numbers"))
    return by_message.withColumn("latest", F.array_max("numbers"))


def holders_of_versions(versions: DataFrame, stored: DataFrame) -> DataFrame:
    """Return the stored Versions that staged documents hold: those that they repeat, and those that they supersede.

    Returns:
        registryid, xid, holders (the documents).
    """
    again = versions.filter("is_stored").select(
        "registryid", version_xid("message_xid", F.col("number").cast("string")).alias("xid"), "document_uri"
    )
    says = versions.select(
        *_MESSAGE, F.col("document_uri").alias("_uri"), F.coalesce("declared", F.lit("")).alias("_declared")
    ).distinct()
    old = stored.filter((F.col("kind") == "version") & (F.col("op") != "delete"))
    old = old.withColumn("_declared", F.coalesce("declared", F.lit("")))
    superseded = old.join(says, on=[*_MESSAGE, "_declared"]).filter(F.array_contains("document_uris", F.col("_uri")))
    both = again.unionByName(superseded.select("registryid", "xid", F.col("_uri").alias("document_uri"))).distinct()
    return both.groupBy("registryid", "xid").agg(F.collect_set("document_uri").alias("holders"))


def new_rows(versions: DataFrame, stored: DataFrame, latest: DataFrame) -> DataFrame:
    """Return the rows of new Versions, with their numbers in XID, ancestor, isdefault and version_uri."""
    fresh = versions.filter(~F.col("is_stored")).join(latest, on=_MESSAGE)
    number = F.col("number").cast("string")
    earlier = F.array_max(F.filter("numbers", lambda n: n < F.col("number"))).cast("string")
    ancestor = F.concat(F.lit('{"ancestor":"'), F.coalesce(earlier, number), F.lit('"'))
    body = F.regexp_replace(F.col("body"), F.lit(r'\A\{"ancestor":"[^"]*"'), ancestor)
    uri = F.concat(F.lit("/versions/"), number, F.lit('"}'))
    numbered = F.when(
        F.get_json_object("body", "$.version_uri").isNotNull(), F.regexp_replace(body, F.lit(r'/versions/[^/"]*"\}\z'), uri)
    ).otherwise(body)
    return (
        fresh.withColumn("body", numbered)
        .withColumn("body", with_isdefault(F.col("body"), F.col("number") == F.col("latest")))
        .withColumn("content_hash", F.sha2("body", 256))
        .withColumn("xid", version_xid("message_xid", number))
        .select(*(name for name in STAGE.names))
    )


def stored_rows(versions: DataFrame, stored: DataFrame, latest: DataFrame) -> DataFrame:
    """Return the rows of existing Versions as they are stored, except `isdefault`."""
    live = stored.filter((F.col("kind") == "version") & (F.col("op") != "delete")).join(latest, on=_MESSAGE)
    is_default = F.coalesce(F.col("number") == F.col("latest"), F.lit(False))
    live = live.withColumn("flips", (F.get_json_object("body", "$.isdefault") == "true") != is_default)
    holding = holders_of_versions(versions, stored)
    live = live.join(holding, on=["registryid", "xid"], how="left")
    owners = F.array_union(F.coalesce("holders", no_uris()), F.when(F.col("flips"), F.col("document_uris")).otherwise(no_uris()))
    body = F.when(F.col("flips"), with_isdefault(F.col("body"), is_default)).otherwise(F.col("body"))
    return (
        live.withColumn("document_uri", F.explode(owners))
        .withColumn("body", body)
        .withColumn("content_hash", F.sha2("body", 256))
        .select(
            F.lit("entity").alias("row"), F.lit(False).alias("again"),
            *("document_uri", "registryid", "kind", "xid", "content_hash", "epoch", "createdat", "modifiedat"),
            *("body", "raw", "attributes"),
        )
    )  # fmt: skip


def message_rows(staged: DataFrame, stored: DataFrame, latest: DataFrame) -> DataFrame:
    """Return the rows of the definitions: of all documents that hold a Version of one, with the latest as default."""
    stored_messages = stored.filter((F.col("kind") == "message") & (F.col("op") != "delete")).select(
        *_MESSAGE, F.col("document_uris").alias("owners"), F.col("body").alias("stored_body")
    )
    rows = staged.filter(F.col("kind") == "message").withColumn("message_xid", F.col("xid"))
    rows = rows.join(stored_messages, on=_MESSAGE, how="left").join(latest, on=_MESSAGE)
    says_none = F.get_json_object("body", "$.authority").isNull() & F.get_json_object("stored_body", "$.authority").isNotNull()
    rows = rows.withColumn("body", F.when(says_none, F.col("stored_body")).otherwise(F.col("body")))
    before = F.concat(F.lit('"defaultversionid":"'), F.get_json_object("body", "$.defaultversionid"), F.lit('"'))
    after = F.concat(F.lit('"defaultversionid":"'), F.col("latest").cast("string"), F.lit('"'))
    rows = rows.withColumn("body", with_member(F.col("body"), before, after)).withColumn("content_hash", F.sha2("body", 256))
    first = Window.partitionBy(*_MESSAGE).orderBy("document_uri")
    of_all = Window.partitionBy(*_MESSAGE)
    rows = rows.withColumn("_nth", F.row_number().over(first)).withColumn("_staged", F.collect_set("document_uri").over(of_all))
    absent = F.array_except(F.coalesce("owners", no_uris()), F.col("_staged"))
    more = rows.filter(F.col("_nth") == 1).withColumn("document_uri", F.explode(absent))
    return rows.unionByName(more).select(*STAGE.names)


def declared_groups(staged: DataFrame, stage: DataFrame, stored: DataFrame) -> DataFrame:
    """Return the groups, without those that are only implied by a definition and declared elsewhere."""
    groups = staged.filter(F.col("kind") == "group")
    declared = stage.filter((F.col("kind") == "group") & (F.col("row") == "entity") & (F.col("body") != "{}"))
    stored_groups = stored.filter((F.col("kind") == "group") & (F.col("op") != "delete") & (F.col("body") != "{}"))
    every = declared.select("registryid", "xid").unionByName(stored_groups.select("registryid", "xid")).distinct()
    implied = groups.filter(F.col("body") == "{}").join(every, on=["registryid", "xid"], how="left_anti")
    return groups.filter(F.col("body") != "{}").unionByName(implied.select(*groups.columns))


def find_immutable(staged: DataFrame, stored: DataFrame) -> DataFrame:
    """Refuse a group whose format has changed while it holds definitions, and a definition whose authority has.

    Returns:
        Findings: columns of the stage.
    """
    published = stored.filter(F.col("op") != "delete")
    has_messages = published.filter(F.col("kind") == "message").select(
        "registryid", F.regexp_extract("xid", r"\A/messagegroups/[^/]+", 0).alias("xid")
    ).distinct()  # fmt: skip
    formats = _format_of(F.col("_body"))
    groups = (
        staged.filter((F.col("kind") == "group") & (F.col("body") != "{}"))
        .join(published.select("registryid", "xid", F.col("body").alias("_body")), on=["registryid", "xid"])
        .join(has_messages, on=["registryid", "xid"], how="left_semi")
        .filter((F.col("_body") != "{}") & (formats != _format_of(F.col("body"))))
    )
    stored_authority = F.get_json_object("_body", "$.authority")
    messages = (
        staged.filter(F.col("kind") == "message")
        .join(published.select("registryid", "xid", F.col("body").alias("_body")), on=["registryid", "xid"])
        .filter(stored_authority != F.get_json_object("body", "$.authority"))
    )
    refused = _refusal(groups, "CAT-024", _FORMAT_CHANGED, "Define another group.").unionByName(
        _refusal(messages, "CAT-064", _AUTHORITY_CHANGED, "Define it under another id, or keep the authority.")
    )
    key = ["registryid", "document_uri", "xid"]
    fallen = staged.join(refused.select(*key), on=key, how="left_anti")
    fallen = fallen.join(_fallen(refused), on=_is_below(), how="left_semi")
    return refused.unionByName(_refusal(fallen, "MSG-115", _FALLEN, "Fix the cause, which has its own finding."))


def _with_identity(rows: DataFrame) -> DataFrame:
    """Add to rows of messages and Versions message_xid, and to Versions their number, the declared one, and the print."""
    text = F.regexp_extract("xid", r"/versions/([1-9][0-9]{0,17})\z", 1)
    is_version = F.col("kind") == "version"
    declared = F.get_json_object(F.coalesce("raw", "body"), "$.version")
    flat_attributes = F.array_sort(F.map_entries("attributes"))
    number = "number" if "op" in rows.columns else "staged_number"
    return rows.withColumns(
        {
            "message_xid": F.when(F.col("kind") != "group", F.regexp_replace("xid", r"/versions/[^/]+\z", "")),
            number: F.when(is_version & (text != ""), text.cast("bigint")),
            "declared": F.when(is_version, declared),
            "print": F.when(is_version, F.sha2(F.to_json(flat_attributes), 256)),
        }
    )


def _about_default() -> dict[str, Column]:
    """Return the columns of the stage about the default Version, read from `body`."""
    isdefault = F.when(F.col("kind") == "version", F.get_json_object("body", "$.isdefault") == "true")
    return {
        "isdefault": isdefault,
        "twin_hash": F.when(isdefault.isNotNull(), F.sha2(with_isdefault(F.col("body"), ~isdefault), 256)),
        "defaultversionid": F.when(F.col("kind") == "message", F.get_json_object("body", "$.defaultversionid")),
    }


def _format_of(body: Column) -> Column:
    """Return the format of a group in normal form: its envelope, or the family of its protocol."""
    family = F.split_part(F.coalesce(F.get_json_object(body, "$.protocol"), F.lit("")), F.lit("/"), F.lit(1))
    return F.concat(F.coalesce(F.get_json_object(body, "$.envelope"), F.lit("")), F.lit(" "), family)


def _refusal(rows: DataFrame, rule: str, message: str, hint: str) -> DataFrame:
    pointer, action = F.lit(""), F.lit("quarantined")
    name = violation_id_column("registryid", "document_uri", F.lit(rule), "xid", pointer, F.lit(message), action)
    finding = F.struct(
        name.alias("violation_id"),
        pointer.alias("pointer"),
        F.lit(rule).alias("rule_id"),
        F.lit("error").alias("severity"),
        action.alias("action"),
        F.lit(message).alias("message"),
        F.lit(hint).alias("hint"),
        F.coalesce("raw", "body").alias("raw"),
    )
    return rows.select(F.lit("finding").alias("row"), "document_uri", "registryid", "kind", "xid", finding.alias("finding"))


def _without(staged: DataFrame, refused: DataFrame) -> DataFrame:
    """Take out what was refused, with all that is below it."""
    return staged.join(_fallen(refused), on=_is_below(), how="left_anti")


def _fallen(refused: DataFrame) -> DataFrame:
    return F.broadcast(refused.select(*(F.col(name).alias(f"_{name}") for name in ("registryid", "document_uri", "xid"))))


def _is_below() -> Column:
    """Return whether an entity of a document was rejected there, or is below one that was."""
    return (
        (F.col("registryid") == F.col("_registryid"))
        & (F.col("document_uri") == F.col("_document_uri"))
        & ((F.col("xid") == F.col("_xid")) | F.col("xid").startswith(F.concat("_xid", F.lit("/"))))
    )
