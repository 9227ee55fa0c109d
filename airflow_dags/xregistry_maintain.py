"""Daily: make small files large and sorted by the keys, and delete what no version within the retention needs.

No row changes, so it may run while the catalog is loaded and read.
"""

from __future__ import annotations

from airflow.sdk import Param
from xregistry_jobs import CATALOGS

PARAMS = {
    "dry_run": Param(False, type="boolean", description="Report what would be done, and do nothing."),
    "full": Param(False, type="boolean", description="Sort all files again, also sorted ones."),
}

for catalog in CATALOGS:
    with catalog.dag("maintain", schedule="30 3 * * *", hours=6, minutes=5, doc_md=__doc__, params=PARAMS):
        catalog.submit("maintain")
