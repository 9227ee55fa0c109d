"""Daily: make small files large and sorted by the keys, and delete what no version within the retention needs.

No row changes, so it may run while the catalog is loaded and read.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from airflow.sdk import DAG, Param
from xregistry_jobs import SHARED, submit

PARAMS = {
    "dry_run": Param(False, type="boolean", description="Report what would be done, and do nothing."),
    "full": Param(False, type="boolean", description="Sort all files again, also sorted ones."),
}

with DAG(
    "xregistry_maintain",
    schedule="30 3 * * *",
    start_date=datetime(2026, 1, 1, tzinfo=timezone.utc),
    doc_md=__doc__,
    params=PARAMS,
    default_args={"retries": 2, "retry_delay": timedelta(minutes=5), "execution_timeout": timedelta(hours=6)},
    **SHARED,
) as dag:
    submit("maintain")
