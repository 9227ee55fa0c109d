"""After each change of the catalog: match what has landed since, from where the stream of the last run left off.

`events` of the variable `lakehouse`, or of the run, says where events land: a Delta table, or a folder of JSON lines. A task
may be tried again: each micro-batch is written once.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from airflow.sdk import DAG, Param
from xregistry_jobs import ASSETS, SHARED, submit

PARAMS = {
    "events": Param(
        None, type=["null", "string"], description="Delta table or folder that events land in; empty: `events` of the variable."
    ),
    "into": Param("conformance", type="string", minLength=1, description="Schema for event_matches, match_runs and their views."),
    "endpoint": Param(None, type=["null", "string"], description="Only messages that this endpoint carries: its XID."),
    "registry": Param(None, type=["null", "string"], description="Only messages of this registry; empty: all."),
}

with DAG(
    "xregistry_match",
    schedule=[ASSETS["changes"]],
    start_date=datetime(2026, 1, 1, tzinfo=timezone.utc),
    doc_md=__doc__,
    params=PARAMS,
    default_args={"retries": 2, "retry_delay": timedelta(minutes=1), "execution_timeout": timedelta(hours=6)},
    **SHARED,
) as dag:
    submit("match")
