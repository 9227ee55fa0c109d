"""Sources: what is listed, what is skipped, how registries are named after paths."""

from __future__ import annotations

import gzip
import json
import re
from types import SimpleNamespace

import pytest

from lakehouse.errors import SourceNotFound
from lakehouse.ingest.pipeline import _registry
from lakehouse.ingest.sources import COLON, Sources, find_sources, read_documents, registry_from_path
from lakehouse.settings import read_settings

DOCUMENT = {"messagegroups": {"g": {}}}


def names(catalog, *sources):
    found = find_sources(catalog.spark, [str(source) for source in sources])
    uris = [
        row["document_uri"]
        for row in read_documents(catalog.spark, found, catalog.settings.stream_bytes).select("document_uri").collect()
    ]
    return sorted(uri.split("/documents/")[1] for uri in uris)


def test_a_folder_gives_all_json_cereg_and_yaml_below_it_and_gz_of_them(catalog):
    for name in ("a.json", "sub/b.xreg.json", "sub/deep/c.cereg", "d.json.gz", "e.cereg.gz", "notes.txt", "f.yaml", "g.yml.gz"):
        catalog.write(name, b"{}")
    found = ["a.json", "d.json.gz", "e.cereg.gz", "f.yaml", "g.yml.gz", "sub/b.xreg.json", "sub/deep/c.cereg"]
    assert names(catalog, catalog.documents) == found


def test_a_file_is_read_whatever_its_name(catalog):
    assert names(catalog, catalog.write("catalog.txt", b"{}")) == ["catalog.txt"]


def test_a_glob_gives_what_it_matches(catalog):
    for name in ("a.json", "b.json", "c.txt"):
        catalog.write(name, b"{}")
    assert names(catalog, catalog.documents / "*.json") == ["a.json", "b.json"]


def test_a_document_named_by_several_sources_is_read_once(catalog):
    path = catalog.write("sub/a.json", b"{}")
    assert names(catalog, catalog.documents, catalog.documents / "sub", path) == ["sub/a.json"]


def test_a_file_that_is_taken_away_meanwhile_is_not_there(catalog):
    for name in "abc":
        catalog.write(f"{name}.json", b"{}")
    listed = find_sources(catalog.spark, [str(catalog.documents / f"{name}.json") for name in "abc"])
    (catalog.documents / "a.json").unlink()
    read = read_documents(catalog.spark, listed, 1 << 20)
    searched = read_documents(catalog.spark, find_sources(catalog.spark, [str(catalog.documents)]), 1 << 20)
    (catalog.documents / "b.json").unlink()
    for frame in (read, searched):
        assert [row["document_uri"].rsplit("/", 1)[1] for row in frame.select("document_uri", "sha256").collect()] == ["c.json"]


def test_what_is_named_below_a_hidden_folder_is_read_beside_the_folder_around_it(catalog):
    catalog.write("a.json", b"{}")
    draft, _ = catalog.write("_drafts/b.json", b"{}"), catalog.write("_drafts/c.json", b"{}")
    assert names(catalog, catalog.documents, draft) == ["_drafts/b.json", "a.json"]
    assert names(catalog, catalog.documents, catalog.documents / "_drafts") == ["_drafts/b.json", "_drafts/c.json", "a.json"]
    reported = find_sources(catalog.spark, [str(catalog.documents), str(draft)]).hidden
    assert [one.path.rsplit("/", 1)[1] for one in reported] == ["c.json"]


@pytest.mark.parametrize("name", ["with blank.json", "br[ac]ket.json", "st{a}r.json", "ünïcode.json", "per%20cent.json"])
def test_odd_names_are_names(catalog, name):
    path = catalog.write(name, b"{}")
    assert names(catalog, path) == [name]
    assert names(catalog, catalog.documents) == [name]


def test_a_source_that_names_nothing_is_an_error_that_says_which(catalog):
    with pytest.raises(SourceNotFound, match="nothing-here"):
        find_sources(catalog.spark, [str(catalog.documents / "nothing-here")])
    with pytest.raises(SourceNotFound, match="matches nothing"):
        find_sources(catalog.spark, [str(catalog.documents / "*.nothing")])


def test_a_file_with_a_colon_in_its_name_is_reported_and_keeps_no_other_from_being_read(catalog):
    catalog.write("a.json", b"{}"), catalog.write("te:am/b.json", b"{}")
    odd = catalog.write("colon:v1.json", b"{}")
    assert names(catalog, catalog.documents) == ["a.json", "te:am/b.json"]
    found = find_sources(catalog.spark, [str(catalog.documents)])
    assert found.hidden == [(str(odd), COLON)]
    assert re.search(found.scopes[0].replace(r"\z", r"\Z"), f"file:{odd}") is None  # so `--prune` deletes nothing of it
    for source in (odd, catalog.documents / "*.json"):
        with pytest.raises(SourceNotFound, match=r"colon in its name.* Rename it"):
            find_sources(catalog.spark, [str(source)])


def test_hidden_files_are_reported(catalog):
    for name in ("a.json", "_b.json", ".c.json", "_sub/d.json"):
        catalog.write(name, DOCUMENT)
    summary = catalog.ingest()
    assert summary.documents["read"] == 1
    assert [path.rsplit("/documents/", 1)[1] for path, _ in summary.hidden] == [".c.json", "_b.json", "_sub/d.json"]


@pytest.mark.parametrize(
    ("mode", "uri", "registry"),
    [
        ("document", "file:/s/feeds/pegel.xreg.json", "feeds/pegel"),
        ("document", "file:/s/Microsoft.Storage.xreg.json.gz", "Microsoft.Storage"),
        ("document", "file:/s/contoso-crm.cereg", "contoso-crm"),
        ("folder", "file:/s/team/a/x.json", "team/a"),
        ("folder", "file:/s/x.json", "default"),
        ("document", "file:/s/inner/x.json", "x"),
        ("document", "file:/s/inner2.xreg.json", "inner2"),
        ("folder", "file:/s/inner2/x.json", "inner2"),
    ],
)
def test_registries_are_named_after_paths(spark, mode, uri, registry):
    roots = ["file:/s/inner", "file:/s"]
    frame = spark.createDataFrame([(uri,)], "document_uri string")
    assert frame.select(registry_from_path(mode, roots)).collect()[0][0] == registry


@pytest.mark.parametrize(("registry_from", "registry"), [("folder", "team"), (None, "set")])
def test_registry_from_counts_more_than_a_registry_of_the_environment(spark, monkeypatch, registry_from, registry):
    monkeypatch.setenv("LAKEHOUSE_REGISTRY", "set")
    called = SimpleNamespace(settings=read_settings(), registry_from=registry_from)
    frame = spark.createDataFrame([("file:/s/team/x.json",)], ["document_uri"])
    assert frame.select(_registry(called, Sources([], [], ["file:/s"], []))).collect()[0][0] == registry


def test_a_gz_document_is_unpacked(catalog):
    catalog.write("a.json.gz", gzip.compress(json.dumps(DOCUMENT).encode()))
    assert catalog.ingest().entities["groups"]["inserted"] == 1


def test_a_gz_that_grows_beyond_the_limit_or_is_none_is_rejected_and_the_rest_loads(catalog):
    catalog.write("bomb.json.gz", gzip.compress(b" " * 5_000_000))
    catalog.write("no.json.gz", b"not gzip")
    catalog.write("cut.json.gz", gzip.compress(json.dumps(DOCUMENT).encode() * 50)[:40])
    catalog.write("good.json", DOCUMENT)
    summary = catalog.ingest(settings=catalog.settings.model_copy(update={"max_unpacked_bytes": 1_000_000}))
    assert (summary.documents["rejected"], summary.entities["groups"]["inserted"]) == (3, 1)
    assert sorted(catalog.rows("SELECT rule_id FROM violations")) == ["JSON-001", "JSON-001", "JSON-004"]


@pytest.mark.parametrize(
    ("glob", "covered", "others"),
    [
        ("/d/*.json", ["/d/a.json", "/d/gone.json"], ["/d/e/a.json", "/d/a.json.gz", "/other/a.json"]),
        ("/d/[a-c]?.{json,txt}", ["/d/a1.json", "/d/cx.txt"], ["/d/d1.json", "/d/a.json"]),
        ("/d/[!a]*", ["/d/b.txt", "/d/folder/x.json", "/d/folder/deep/y.yaml.gz"], ["/d/a.json", "/d/folder/x.txt"]),
        ("/d+(1)/*", ["/d+(1)/x.json"], ["/dd1/x.json"]),
    ],
)
def test_a_glob_covers_what_it_matches_and_what_the_folders_that_it_matches_list(catalog, glob, covered, others):
    root = catalog.documents
    for path in covered:
        catalog.write(path.lstrip("/"), b"{}")
    (scope,) = find_sources(catalog.spark, [f"{root}{glob}"]).scopes
    frame = catalog.spark.createDataFrame([(f"file:{root}{path}",) for path in [*covered, *others]], "uri string")
    assert sorted(row["uri"] for row in frame.filter(frame["uri"].rlike(scope)).collect()) == sorted(
        f"file:{root}{path}" for path in covered
    )
