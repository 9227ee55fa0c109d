"""The view `base_paths`: the bases of each Version that has one, nearest first.

`make docs` writes `ddl/views/base_paths.sql` with all rounds. Spark analyses and plans each of them, which takes longer than what
a small change looks at: its queries have fewer.
"""

from __future__ import annotations

from string import Template

MOST_BASES = 128  # the most that the setting max_chain_depth may be

_HEAD = """\
-- base_paths: Base paths: the bases of each Version that has one, nearest first.
-- Grain: one row per Version that has a basemessage.  Reads: base_links.  Read by: definition_chains.
-- Pointer doubling instead of recursion: with each round every Version sees twice as far, so seven rounds see 128 bases,
-- whatever the number of messages. In a round each Version that sees as far as it can so far asks the last base that it sees
-- for what that base sees. A path that comes to a Version twice leads into a cycle.
-- The setting max_chain_depth takes the place of 128 (store/views.py).
CREATE OR REPLACE VIEW base_paths (
  registryid COMMENT 'Registry that the Version belongs to',
  version_xid COMMENT 'XID of the Version',
  path COMMENT 'XIDs of the Versions that it extends, nearest first; the last may be missing; in a cycle each once',
  is_open COMMENT 'true: the last Version of path may have a base too, which was not followed (setting max_chain_depth)',
  is_cycle COMMENT 'true: following the bases leads into a cycle; path then holds its members'
)
COMMENT 'The bases of each Version that has one, nearest first.'
AS
"""
_FIRST = """\
WITH paths_1 AS (
  SELECT registryid, version_xid, array_compact(array(base_version_xid)) AS path
  FROM base_links
),
"""
_ROUND = Template("""
answers_$sees AS (
  SELECT registryid, version_xid, path, asks, any_value(CASE WHEN asks = 0 THEN path END, TRUE) OVER (PARTITION BY registryid, key) AS further
  FROM paths_$seen
  LATERAL VIEW posexplode(CASE WHEN size(path) = $seen THEN array(version_xid, path[$last]) ELSE array(version_xid) END) AS asks, key
),

paths_$sees AS (
  SELECT registryid, version_xid, CASE WHEN asks = 1 AND further IS NOT NULL THEN concat(path, further) ELSE path END AS path
  FROM answers_$sees
  WHERE asks = 1 OR size(path) < $seen
),
""")  # noqa: E501
_END = Template("""
cycles AS (
  SELECT
    registryid,
    version_xid,
    path,
    size(array_distinct(path)) < size(path) OR array_contains(path, version_xid) AS is_cycle,
    $max_depth AS max_depth
  FROM paths_$seen
)

SELECT
  registryid,
  version_xid,
  CASE WHEN is_cycle THEN array_distinct(path) ELSE slice(path, 1, max_depth) END AS path,
  NOT is_cycle AND (size(path) = $seen OR size(path) > max_depth) AS is_open,
  is_cycle
FROM cycles;
""")


def sees(based: int) -> int:
    """Return how far paths have to be seen: a power of two, at most `MOST_BASES`.

    Args:
        based: how many Versions have a base, at most. A path that is longer comes to one of them twice, so it leads into a
            cycle, and more rounds would find the same.
    """
    return min(1 << based.bit_length(), MOST_BASES)


def base_paths(max_depth: int = MOST_BASES, seen: int = MOST_BASES) -> str:
    """Write the statement that creates the view.

    Args:
        max_depth: bases are followed no further, from 1 to `MOST_BASES`.
        seen: how far the rounds see, as from `sees`.
    """
    numbers = [2**number for number in range(seen.bit_length() - 1)]
    rounds = (_ROUND.substitute(sees=2 * number, seen=number, last=number - 1) for number in numbers)
    return f"{_HEAD}{_FIRST}{''.join(rounds)}{_END.substitute(max_depth=max_depth, seen=seen)}"
