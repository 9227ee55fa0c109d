"""Rounds of pulling from end to end: fetched over a real socket, loaded by an ingest, and compared with the source."""

from __future__ import annotations

import copy
import json
import shutil
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from serve.served import serving
from serve.test_roundtrip import SHOP

from lakehouse.errors import PruneRefused
from lakehouse.readmodel import open_model
from lakehouse.replicate.client import read_address
from lakehouse.replicate.pull import Fetched, Pull, Puller, read_scope
from lakehouse.replicate.state import open_state
from replicate.sources import QUICK, Catalog
from replicate.test_fetch import DRAFT


class Copy:
    """The catalog that copies."""

    def __init__(self, catalog: Any, **more: Any) -> None:
        self.catalog = catalog
        self.settings = catalog.settings.model_copy(update=more)

    def pull(self, url: str, *groups: str, **asked: Any) -> tuple[Fetched, Any]:
        """Run a round as a new process would."""
        pull = Pull(read_address(url, "SOURCE", {}), read_scope(groups), limits=QUICK, **asked)
        with open_state(self.settings, pull.source.url, pull.scope, pull.protocol) as state:
            puller = Puller(self.settings, pull, state)
            try:
                fetched = puller.fetch()
                return fetched, puller.load(self.catalog.spark, fetched) if fetched.is_changed else None
            finally:
                puller.close()

    def commands(self) -> set[str]:
        """Return what the snapshots report of who committed them."""
        with open_model(self.settings) as model, model.at() as view:
            return {one.facts["command"] for one in view.snapshots()}

    def holds(self, registryid: str = "shop") -> dict[str, tuple[Any, ...]]:
        """Return content hash, epoch and documents of each entity, by XID."""
        with open_model(self.settings) as model, model.at() as view:
            rows = view.db.execute(
                f"SELECT xid, content_hash, epoch, document_uris FROM log WHERE registryid = ? AND {view.in_snapshot()}"
                " AND kind NOT IN ('document', 'label', 'snapshot')",
                (registryid,),
            ).fetchall()
        return {row[0]: (row[1], row[2], json.loads(row[3])) for row in rows}


@contextmanager
def source(tmp_path: Path, document: Any):
    catalog = Catalog(tmp_path / "source")
    catalog.load(document)
    with serving(catalog.folder, tmp_path / "served") as served:
        yield catalog, served


def change(catalog: Catalog, served: Any, document: Any) -> None:
    number = catalog.load(document)
    until = time.monotonic() + 20
    while served.get("/ready")["snapshot"] != number:
        assert time.monotonic() < until
        time.sleep(0.05)


@pytest.mark.slow
def test_a_copy_follows_its_source(catalog, tmp_path):
    """CAT-176, CAT-188: the same entities, of the source's own URL; what changed, what vanished; nothing twice."""
    copied = Copy(catalog, stream_bytes=4096)  # so that the executors open the document in its place
    with source(tmp_path, SHOP) as (first, served):
        fetched, summary = copied.pull(served.url)
        assert (summary.snapshot_id, summary.refused) == (1, False)
        assert copied.commands() == {"replicate pull"}
        held = copied.holds()
        assert {xid: row[0] for xid, row in held.items()} == {xid: row.content_hash for xid, row in first.held.items()}
        assert {uri for row in held.values() for uri in row[2]} == {served.url + "/"}
        assert held["/messagegroups/orders/messages/placed/versions/1"][1] == 7
        assert not [file for file in Path(copied.settings.warehouse, "_replicas").rglob("*") if file.stat().st_size > 5000]

        assert copied.pull(served.url)[1] is None  # no request for the document, no ingest

        after = copy.deepcopy(SHOP)
        del after["messagegroups"]["empty"]
        del after["messagegroups"]["orders"]["messages"]["x:y@z~1"]
        after["messagegroups"]["orders"]["messages"]["placed"] |= {"description": "new", "epoch": 8}
        change(first, served, after)
        _, summary = copied.pull(served.url)
        assert summary.entities["groups"]["deleted"] == summary.entities["messages"]["deleted"] == 1
        assert {xid: row[0] for xid, row in copied.holds().items()} == {xid: row.content_hash for xid, row in first.held.items()}

        shutil.rmtree(Path(copied.settings.warehouse, "_replicas"))
        fetched, summary = copied.pull(served.url)
        assert fetched.is_changed  # nothing was known of the source
        assert summary.snapshot_id is None  # and the catalog knew the document

        change(first, served, {"specversion": "1.0-rc2", "registryid": "shop"})
        with pytest.raises(PruneRefused):
            copied.pull(served.url)
        assert len(copied.holds()) > 20
        copied.pull(served.url, force=True)
        assert set(copied.holds()) == {"/"}


@pytest.mark.slow
def test_groups_of_the_draft_come_and_go_and_ours_stay_ours(catalog, tmp_path):
    """CAT-068, CAT-182: what has no authority gets the source's; what is ours is not taken over by an old copy of it."""
    document = copy.deepcopy(DRAFT)
    document["messagegroups"]["more"] = copy.deepcopy(DRAFT["messagegroups"]["orders"])
    document["messagegroups"]["more"]["messages"] = {
        "shop.late": {"envelope": "CloudEvents/1.0", "envelopemetadata": {"type": {"value": "shop.late"}}}
    }
    copied = Copy(catalog, authority="https://producer.example", registry="shop")
    with source(tmp_path, document) as (first, served):
        copied.pull(f"{served.url}/messagecatalog")
        held = set(copied.holds())
        assert "/messagegroups/orders/messages/shop.paid/versions/1" in held
        assert "/messagegroups/more/messages/shop.late" in held
        assert not any("shop.placed" in xid for xid in held)
        with open_model(copied.settings) as model, model.at() as view:
            paid = view.entity("shop", "/messagegroups/orders/messages/shop.paid")
        assert paid.attributes["authority"] == served.url
        change(first, served, DRAFT)
        fetched, summary = copied.pull(f"{served.url}/messagecatalog")
    assert fetched.vanished == [f"{served.url}/messagecatalog/more"]
    assert summary.entities["messages"]["deleted"] == 1
    assert set(copied.holds()) == {xid for xid in held if "/more" not in xid}
