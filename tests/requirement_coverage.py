"""Lists the requirements on dialects that no test names: `python tests/requirement_coverage.py`. A test keeps the list empty.

All WIP rows (0.5-wip), and the CAT rows (CNCF catalog draft) that ask for an ingest, an expectation, an export, a flattening,
replication or the HTTP API. The table of requirements is `docs/requirements.csv`, or is next to the checkout.
"""

from __future__ import annotations

import csv
import re
from pathlib import Path

TESTS = Path(__file__).parent
_PLACES = (TESTS.parent / "docs" / "requirements.csv", TESTS.parents[1] / "shared" / "requirements.csv")
_CHECKS = ("ingest", "expectation", "export", "flatten", "replication", "api")
_IDS = re.compile(r"\b(WIP|CAT)-(\d{3})(?: to (?:\1-)?(\d{3}))?")

# Rows that a test of this part cannot execute, and why.
EXPLAINED = {
    "CAT-013": "document_uris of every row is the provenance: tests of ingest",
    "CAT-187": "names may differ, and are those of the source here: a version is found by its URI in any case (CAT-174)",
    "CAT-190": "names may differ, and are those of the source here; another registry keeps them apart (--into)",
    "WIP-012": "a computed attribute: tests of the table drop each of them",
    "WIP-022": "the default of a type is applied where types are checked, and not stored",
    "WIP-025": "the case of an envelope is kept as written; comparing it is a rule of all dialects",
    "WIP-030": "chains of bases are resolved on the normal form, whatever the dialect",
    "WIP-036": "a rule of all dialects: the value of `required` is true or false",
    "WIP-038": "matching of messages is not a part of this store yet",
    "WIP-040": "inferred from the normal form, whatever the dialect",
    "WIP-047": "a key that stands twice in an object is refused in every dialect (JSON-002)",
    "WIP-062": "wording only",
    "WIP-064": "says that the old samples need repair",
}


def requirements() -> list[dict[str, str]]:
    """Return the rows that are asked for; none when the table is not there."""
    path = next((place for place in _PLACES if place.is_file()), None)
    if path is None:
        return []
    every = list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))
    return [
        row for row in every
        if row["id"].startswith("WIP-") or (row["id"].startswith("CAT-") and row["check"].startswith(_CHECKS))
    ]  # fmt: skip


def named() -> set[str]:
    """Return the ids that tests name, ranges written out."""
    found: set[str] = set()
    for path in TESTS.rglob("test_*.py"):
        for prefix, first, last in _IDS.findall(path.read_text(encoding="utf-8")):
            found |= {f"{prefix}-{number:03}" for number in range(int(first), int(last or first) + 1)}
    return found


def missing() -> list[dict[str, str]]:
    """Return the rows that no test names and nothing explains."""
    known = named() | EXPLAINED.keys()
    return [row for row in requirements() if row["id"] not in known]


if __name__ == "__main__":
    for one in missing():
        print(one["id"], one["level"], one["requirement"], "|", one["check"], "|", one["bad_input_example"])
    print(f"{len(missing())} of {len(requirements())} without a test; {len(EXPLAINED)} explained")
