"""Columns of XIDs and URIs: what an XID lies in, where a reference leads."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F


def no_uris() -> Column:
    """Return an empty array of strings."""
    return F.array().cast("array<string>")


def message_of(xid: str | Column) -> Column:
    """Return the XID of the message or schema that an entity's XID lies in: its own, or that of which it is a Version."""
    return F.substring_index(xid, "/", 5)


def group_of(xid: str | Column) -> Column:
    """Return the XID of the group that an entity is in, or is, as `xid_of_group` does."""
    return F.substring_index(xid, "/", 3)


def id_in(xid: str | Column) -> Column:
    """Return the id of an entity, as `last_id` does."""
    return F.substring_index(xid, "/", -1)


def version_xid(message_xid: str | Column, versionid: str | Column) -> Column:
    """Return the XID of a Version, as `xid_of_version` does; of no versionid NULL."""
    return F.concat(message_xid, F.lit("/versions/"), versionid)


def without_version(xid: Column | str) -> Column:
    """Return the XID of what a Version belongs to, as `split_version`; another XID is returned as it is."""
    return F.regexp_replace(xid, r"\A((?:/[^/]*){4})/versions/[^/]*\z", "$1")


def is_fragment(reference: Column | str) -> Column:
    """Return whether a reference leads into its own document."""
    return F.ltrim(reference).startswith("#")


def spelled_xid(reference: Column | str) -> Column:
    """Return the XID that a reference spells, as `domain.references.spelled` does; NULL: it leads to another host."""
    path = F.split_part(F.regexp_replace(reference, r"\A\s*#", ""), F.lit("#"), F.lit(1))
    decoded = F.coalesce(F.try_url_decode(F.replace(path, F.lit("+"), F.lit("%2B"))), path)
    unescaped = F.replace(F.replace(decoded, F.lit("~1"), F.lit("/")), F.lit("~0"), F.lit("~"))
    whole = F.when(is_fragment(reference), unescaped).otherwise(path)
    return F.when(path.startswith("/"), F.regexp_replace(whole, r"\A/schemaGroups/", "/schemagroups/"))


def named_entities(spelled: Column) -> Column:
    """Return what the XID that a `dataschemauri` spells may mean, an array of XIDs: a schema, or a Version of one.

    An id may hold colons, so the whole is looked for first, and then what is before the last one: behind it is a type. Both
    are cut off behind the schema, or the Version, that they lead into. NULL: no XID is spelled.
    """
    plain = F.when(spelled.rlike(r"\A/[^/]+/[^/]+/[^/]+/.*:"), F.regexp_replace(spelled, r":[^:]*\z", ""))
    named = F.array_distinct(F.array_compact(F.array(_cut_off(spelled), _cut_off(plain))))
    return F.when(spelled.isNotNull(), named)


def _cut_off(spelled: Column) -> Column:
    tokens = F.split(spelled, "/")
    count = F.when(F.get(tokens, F.lit(5)) == "versions", 7).otherwise(5)
    return F.array_join(F.slice(tokens, 1, F.least(count, F.size(tokens))), "/")
