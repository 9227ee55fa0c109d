"""Hourly: copy what another catalog holds into this one; what vanished there is deleted here.

`source` of the variable `lakehouse`, or of the run, is its URL, without user and password. Credentials are in the
environment of the worker: `LAKEHOUSE_SOURCE_USER` and `LAKEHOUSE_SOURCE_PASSWORD`, or `LAKEHOUSE_SOURCE_TOKEN`. A
round that was cut short goes on where it was.
"""

from __future__ import annotations

from airflow.sdk import Param
from xregistry_jobs import CATALOGS

PARAMS = {
    "source": Param(
        None,
        type=["null", "string"],
        pattern="^https?://[^@]+$",
        description="URL of the catalog; empty: `source` of the variable.",
    ),
    "into": Param(None, type=["null", "string"], description="Registry to load into; empty: the id that the source has."),
    "group": Param(
        [], type="array", items={"type": "string", "minLength": 1}, description="Only these message groups, or XIDs of anything."
    ),
    "protocol": Param(
        None,
        type=["null", "string"],
        enum=[None, "xregistry", "messagecatalog"],
        description="API of the source; empty: what answers.",
    ),
    "authority": Param(None, type=["null", "string"], description="Authority that messages without one get."),
    "force": Param(False, type="boolean", description="Fetch everything again, and delete more than half if need be."),
    "strict": Param(False, type="boolean", description="Refuse a document whole when it has an error."),
    "fail_when_refused": Param(False, type="boolean", description="Fail when something was refused."),
}

for catalog in CATALOGS:
    with catalog.dag("replicate", schedule="@hourly", hours=2, doc_md=__doc__, params=PARAMS, is_paused_upon_creation=True):
        catalog.submit("replicate") >> catalog.announce()
