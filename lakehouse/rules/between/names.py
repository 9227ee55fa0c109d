"""Names of protocols and envelopes compared by Spark, as `domain.protocols` compares them; a test holds both equal."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F

from lakehouse.dialects.tables import shorthands
from lakehouse.domain.protocols import WITHOUT_VERSION


def family(protocol: str | Column) -> Column:
    """Return the family of a protocol: as `tables.family_of`."""
    name = F.upper(F.trim(F.split_part(protocol, F.lit("/"), F.lit(1))))
    return F.when(~name.isin("", "NONE"), name)


def protocol_key(protocol: str) -> Column:
    """Return the text by which protocols are compared: as `protocols.protocol_key`."""
    name = family(protocol)
    first = F.length(F.split_part(protocol, F.lit("/"), F.lit(1)))
    written = F.trim(F.substring(F.col(protocol), first + 2, F.length(protocol)))
    usual = reduce(lambda found, one: found.when(name == one[0], one[1]), shorthands().items(), F.when(written != "", written))
    version = F.regexp_replace(F.coalesce(usual, F.lit("")), r"\.0\z", "")
    return F.when(name.isin(sorted(WITHOUT_VERSION)), name).when(name.isNotNull(), F.concat(name, F.lit("/"), version))


def is_as_precise(envelope: str, of_endpoint: str) -> Column:
    """Return whether a message's envelope is the endpoint's or a more precise one: as `protocols.is_as_precise`."""
    given, expected = F.lower(envelope), F.lower(of_endpoint)
    refines = reduce(Column.__or__, [F.startswith(given, F.concat(expected, F.lit(mark))) for mark in "/.-"])
    return F.coalesce((given == expected) | refines, F.lit(True))
