"""Whenever messages were published: write the effective definitions of messages, a document for each group, for code generators.

By hand it writes whatever the parameters ask for: a past snapshot, some entities, the sources as they were written.
"""

from __future__ import annotations

from airflow.sdk import Param
from xregistry_jobs import CATALOGS

PARAMS = {
    "out": Param(
        None,
        type=["null", "string"],
        description="File or empty folder to write; empty: in `exports` of the variable `lakehouse` `by-group/`, without split "
        "`registries/`, or of one registry or some entities `catalog.json`; what an earlier run wrote there gives way.",
    ),
    "registry": Param(None, type=["null", "string"], description="Only this registry."),
    "at": Param(None, type=["null", "string"], description="A snapshot: its number, label, date or time; empty: the newest."),
    "select": Param(
        [], type="array", items={"type": "string", "pattern": "^/"}, description="XIDs of entities to write, with what they need."
    ),
    "split": Param("group", type=["null", "string"], enum=[None, "group"], description="A document for each group and endpoint."),
    "flat": Param(True, type="boolean", description="Effective definitions of messages, without basemessage."),
    "source": Param(
        False, type="boolean", description="Entities as they were written; goes neither with flat nor with base_url."
    ),
    "base_url": Param(None, type=["null", "string"], description="Absolute URLs below this one."),
}

for catalog in CATALOGS:
    with catalog.dag("export", schedule=[catalog.assets["effective_messages"]], hours=2, doc_md=__doc__, params=PARAMS):
        catalog.submit("export")
