"""Columns of XIDs and URIs: what an XID lies in, where a reference leads."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F


def no_uris() -> Column:
    """Give an empty array of strings."""
    return F.array().cast("array<string>")


def message_of(xid: str | Column) -> Column:
    """Give the XID of the message or schema that an entity's XID lies in: its own, or that of which it is a Version."""
    return F.substring_index(xid, "/", 5)


def without_version(reference: Column | str) -> Column:
    """Give the XID that a reference leads to, without the Version that it may name."""
    return F.regexp_replace(reference, r"/versions/[^/]*\z", "")
