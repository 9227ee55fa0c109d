"""Three catalogs in a chain, over real sockets: each is a copy of the one before, and the last holds what the first does."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any
from urllib.parse import quote

import pytest
from serve.served import serving
from serve.test_roundtrip import SHOP

from replicate.sources import Catalog, fetch, settings_of
from replicate.test_fetch import DRAFT


def chain(tmp_path: Any, stack: ExitStack, document: Any, path: str = "") -> list[Any]:
    """Serve a catalog, a copy of it, and a copy of the copy; the rows of a fetch are loaded without Spark."""
    served: list[Any] = []
    for number in range(3):
        catalog = Catalog(tmp_path / str(number) / "warehouse")
        if served:
            held = fetch(settings_of(tmp_path / str(number)), served[-1].url + path)
            catalog.load_rows(held.read())
        else:
            catalog.load(document)
        served.append(stack.enter_context(serving(catalog.folder, tmp_path / str(number) / "model")))
    return served


def test_a_copy_of_a_copy_is_equal(tmp_path):
    """CAT-183: a hub in the middle; ids, Versions, epochs, dates and authorities are those of the first."""
    with ExitStack() as stack:
        first, *copies = chain(tmp_path, stack, SHOP)
        exported = [one.ask("/?doc&inline=*").body.replace(one.url.encode(), b"") for one in (first, *copies)]
    assert exported[1] == exported[0]
    assert exported[2] == exported[0]


def test_a_version_is_found_by_its_uri_in_every_copy(tmp_path):
    """CAT-045, CAT-051, CAT-174: the URI of a Version is of its authority, whichever catalog is asked."""
    with ExitStack() as stack:
        first, *copies = chain(tmp_path, stack, DRAFT, "/messagecatalog")
        for catalog in copies:
            for authority, name in (("https://producer.example", "shop.placed"), (first.url, "shop.paid")):
                uri = f"{authority}/orders/messagedefinitions/{name}/versions/1"
                found = catalog.get(f"/messagedefinition?uri={quote(uri, safe='')}")
                assert (found["id"], found["version"], found["authority"]) == (name, 1, authority)


@pytest.mark.slow
@pytest.mark.parametrize("path", ["", "/messagecatalog"])
def test_a_copy_that_is_copied_again_did_not_change(tmp_path, path, monkeypatch):
    """No event storm: what is equal makes no document that differs, so no snapshot."""
    monkeypatch.setattr("lakehouse.replicate.pull.is_in_catalog", lambda settings, commit: True)
    with ExitStack() as stack:
        *_, last = chain(tmp_path, stack, DRAFT, path)
        settings = settings_of(tmp_path / "again")
        assert fetch(settings, last.url + path, loaded=True).fetched.is_changed
        assert not fetch(settings, last.url + path).fetched.is_changed
