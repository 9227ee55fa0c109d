"""How far `ddl/views/base_paths.sql` follows bases: seven rounds are written out there, each of which sees twice as far, for 128.

Spark analyses and plans each of them, which takes longer than what a small change looks at.
"""

from __future__ import annotations

import re

_MOST = 128
_DEPTH = re.compile(rf"\b{_MOST} AS max_depth\b")
_ROUND = re.compile(r"^answers_(\d+) AS \(\n.*?^paths_\1 AS \(\n.*?^\),\n\n", re.MULTILINE | re.DOTALL)
_LAST = re.compile(rf"(\bpaths_|\bsize\(path\) = ){_MOST}\b")


def with_depth(statement: str, most: int) -> str:
    """Follow bases no further than a number of them, from 1 to 128, in the text of a view."""
    return _DEPTH.sub(f"{most} AS max_depth", statement)


def with_rounds(statement: str, based: int) -> str:
    """Leave out, of the text of a view, the rounds that see no more.

    Args:
        statement: of `base_paths`, or of a view that holds it.
        based: how many Versions have a base, at most. A path that is longer comes to one of them twice, so it leads into a
            cycle, and more rounds would tell the same.
    """
    seen = 2 ** based.bit_length()
    if seen >= _MOST:
        return statement
    fewer = _ROUND.sub(lambda found: "" if int(found[1]) > seen else found[0], statement)
    return _LAST.sub(rf"\g<1>{seen}", fewer)
