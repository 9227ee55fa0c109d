"""The short form of `make soak`: processes that are killed, and two that write at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from soak.__main__ import check_two_writers, crash, ingest, state, two_writers, write_documents

from lakehouse.cli.console import REFUSED


@pytest.mark.slow
def test_after_kill_9_and_a_rerun_all_is_as_if_undisturbed(catalog, tmp_path):
    write_documents(tmp_path / "plain")
    as_shipped = catalog.settings.model_copy(update={"refresh_effective": True, "check_relations": True})
    catalog.ingest(tmp_path / "plain" / "documents", settings=as_shipped)
    expected = state(catalog.spark, Path(catalog.settings.warehouse).parent)
    folders = {point: tmp_path / point for point in ("after_commit", "after_project_messages")}

    def kill_and_rerun(point: str) -> int:
        crash(folders[point], point=point)
        return ingest(folders[point]).wait()

    with ThreadPoolExecutor() as pool:
        assert list(pool.map(kill_and_rerun, folders)) == [REFUSED, REFUSED]
    for folder in folders.values():
        assert state(catalog.spark, folder) == expected


@pytest.mark.slow
def test_two_writers_lose_and_double_nothing(spark, tmp_path):
    reported = two_writers(tmp_path, 5)
    check_two_writers(spark, tmp_path, reported, 5)
