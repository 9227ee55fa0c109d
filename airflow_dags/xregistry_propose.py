"""Each day: count the events that no definition describes, and write proposals for review.

`events` of the variable `lakehouse`, or of the run, says where events land, and `proposals` where the documents go. A task may be
tried again: each micro-batch is counted once.
"""

from __future__ import annotations

from airflow.sdk import Param
from xregistry_jobs import CATALOGS

PARAMS = {
    "events": Param(
        None, type=["null", "string"], description="Delta table or folder that events land in; empty: `events` of the variable."
    ),
    "out": Param(None, type=["null", "string"], description="Folder for the documents; empty: `proposals` of the variable."),
    "no_values": Param(False, type="boolean", description="Neither store nor write values of events."),
    "registry": Param(None, type=["null", "string"], description="Only messages of this registry count as defined; empty: all."),
}

for catalog in CATALOGS:
    with catalog.dag("propose", schedule="@daily", hours=6, doc_md=__doc__, params=PARAMS):
        catalog.submit("propose")
