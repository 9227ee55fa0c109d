"""After each change of the catalog: match what has landed since, from where the stream of the last run left off.

`events` of the variable `lakehouse`, or of the run, says where events land: a Delta table, or a folder of JSON lines. A task
may be tried again: each micro-batch is written once.
"""

from __future__ import annotations

from airflow.sdk import Param
from xregistry_jobs import CATALOGS

PARAMS = {
    "events": Param(
        None, type=["null", "string"], description="Delta table or folder that events land in; empty: `events` of the variable."
    ),
    "into": Param("conformance", type="string", minLength=1, description="Schema for event_matches, match_runs and their views."),
    "endpoint": Param(None, type=["null", "string"], description="Only messages that this endpoint carries: its XID."),
    "registry": Param(None, type=["null", "string"], description="Only messages of this registry; empty: all."),
}

for catalog in CATALOGS:
    with catalog.dag("match", schedule=[catalog.assets["changes"]], hours=6, doc_md=__doc__, params=PARAMS):
        catalog.submit("match")
