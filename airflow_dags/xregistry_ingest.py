"""Hourly: load the documents that changed, validate the catalog, write it as one document.

A task may be tried again, and runs may overlap when a worker was killed and its Spark driver lives on: a snapshot is one commit,
documents that are in the catalog already commit nothing, so nothing is published twice.
"""

from __future__ import annotations

from airflow.sdk import Param
from xregistry_jobs import CATALOGS

PARAMS = {
    "sources": Param(
        [],
        type="array",
        items={"type": "string", "minLength": 1},
        title="Sources",
        description="Files, folders, globs or URIs to load. Empty: `documents` of the variable `lakehouse`.",
    ),
    "registry": Param(
        None, type=["null", "string"], description="Registry to load into and to export; empty: what each document says."
    ),
    "registry_from": Param(
        None,
        type=["null", "string"],
        enum=[None, "folder", "document"],
        description="Name each document's registry after its folder, or its path.",
    ),
    "dialect": Param(
        None, type=["null", "string"], description="Read all documents as of this dialect; empty: each one's is detected."
    ),
    "prune": Param(False, type="boolean", description="Delete what its last document dropped."),
    "force": Param(
        False, type="boolean", description="Read unchanged documents again, take stale entities, prune more than half."
    ),
    "strict": Param(False, type="boolean", description="Refuse a document whole when it has an error."),
    "fail_when_refused": Param(
        False, type="boolean", description="Fail when something was refused or an expectation does not hold, and export nothing."
    ),
}

for catalog in CATALOGS:
    with catalog.dag("ingest", schedule="@hourly", hours=2, doc_md=__doc__, params=PARAMS):
        ingest = catalog.submit("ingest")
        ingest >> catalog.announce()
        ingest >> catalog.submit("validate") >> catalog.submit("export")
