"""The digests of the log, computed again: whoever lost a row of a snapshot, or edited one by hand, is found here.

Each snapshot's row says how many rows it has, their digest whatever their order, and a digest chained to the snapshot before.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse.log.commits import chained_digest
from lakehouse.log.snapshotfacts import LOGGED
from lakehouse.store.schema import TABLE_OF_KIND

MOST_PROBLEMS = 20


class Link(NamedTuple):
    """A snapshot of the chain: its number and digest; number 0 before the first."""

    snapshot_id: int = 0
    digest: str = ""


def check_chain(rows: DataFrame, before: Link, *, deep: bool = False) -> tuple[Link, list[str]]:
    """Compute the digests of consecutive snapshots again.

    Args:
        rows: columns `schema.CHANGES`: all rows of the snapshots after `before`.
        before: the snapshot before the first.
        deep: hash each body too, which reads all texts.

    Returns:
        The last snapshot, and what is wrong, in words.
    """
    problems: list[str] = []
    results = {row["snapshot_id"]: row.asDict() for row in _by_snapshot(rows, deep=deep).collect()}
    link = before
    if results.pop(None, None) is not None:
        problems.append("there are rows without a snapshot_id")
    for snapshot_id in sorted(results):
        here = results[snapshot_id]
        if snapshot_id != link.snapshot_id + 1:
            problems.append(f"snapshots {link.snapshot_id + 1} to {snapshot_id - 1} are missing")
        if len(here["bodies"]) != 1:
            problems.append(f"snapshot {snapshot_id} has {len(here['bodies'])} snapshot rows instead of 1")
            link = Link(snapshot_id, "")
            continue
        try:
            body = json.loads(here["bodies"][0])
            problems += _problems(snapshot_id, body, here, link)
            link = Link(snapshot_id, body["digest"])
        except (ValueError, KeyError, TypeError):
            problems.append(f"the facts or labels of snapshot {snapshot_id} cannot be read")
            link = Link(snapshot_id, "")
    return link, problems[:MOST_PROBLEMS]


def _problems(snapshot_id: int, body: dict[str, Any], here: dict[str, Any], before: Link) -> list[str]:
    labels = {name: json.loads(text) for name, text in (here["labels"] or {}).items()}
    digest = f"{here['digest'] & (2**64 - 1):016x}"
    details = []
    if here["n"] != body["rows"]:
        details.append(f"snapshot {snapshot_id} has {here['n']} rows instead of {body['rows']}")
    if digest != body["rows_digest"]:
        details.append(f"the rows of snapshot {snapshot_id} are not those that were committed")
    if here["altered"]:
        details.append(f"{here['altered']} bodies of snapshot {snapshot_id} do not have their content_hash")
    if body["digest"] != chained_digest(snapshot_id, body, labels):
        details.append(f"the facts or labels of snapshot {snapshot_id} were changed after the commit")
    if before.digest and body["previous_digest"] != before.digest:
        details.append(f"snapshot {snapshot_id} does not follow the snapshot before it")
    if before.snapshot_id == 0 and snapshot_id == 1 and body["previous_digest"]:
        details.append("the first snapshot follows another one")
    return details


def _by_snapshot(rows: DataFrame, *, deep: bool) -> DataFrame:
    is_entity, is_document = F.col("kind").isin(*TABLE_OF_KIND), F.col("kind") == "document"
    altered = is_entity & (F.sha2("body", 256) != F.col("content_hash")) if deep else F.lit(False)
    each = F.when(is_entity, F.xxhash64(*LOGGED)).when(is_document, F.xxhash64(*LOGGED, "body")).otherwise(F.lit(0))
    labels = F.when(F.col("kind") == "label", F.struct("xid", "body"))
    return rows.groupBy("snapshot_id").agg(
        F.count_if(is_entity | is_document).alias("n"),
        F.bit_xor(each).alias("digest"),
        F.count_if(altered).alias("altered"),
        F.collect_list(F.when(F.col("kind") == "snapshot", F.col("body"))).alias("bodies"),
        F.map_from_entries(F.collect_list(labels)).alias("labels"),
    )
