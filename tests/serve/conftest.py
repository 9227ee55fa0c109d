"""A catalog to serve and a server of it, for the tests of a module."""

from __future__ import annotations

import pytest

from serve.served import serving, write_catalog


@pytest.fixture(scope="module")
def catalog(tmp_path_factory):
    return write_catalog(tmp_path_factory.mktemp("warehouse") / "w")


@pytest.fixture(scope="module")
def served(catalog, tmp_path_factory):
    with serving(catalog.folder, tmp_path_factory.mktemp("model")) as found:
        yield found
