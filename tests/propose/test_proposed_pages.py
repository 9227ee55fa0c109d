"""Pages set proposals apart, and show the evidence; the demo's dump is what its commands propose from."""

from __future__ import annotations

import pytest
from sitecatalogs import Catalog, opened

from lakehouse.site import Site
from propose.demo_dump import DUMPS, FOLDER, dump
from propose.test_proposals import documents_of, kafka, proposed


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("proposed")
    catalog = Catalog(folder / "warehouse")
    (document,) = documents_of(proposed(map(kafka, range(40)))).values()
    catalog.ingest({"file:/shop.json": ("proposed", document)})
    return Site(opened(catalog.folder, folder / "readmodel"), 128)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("messagegroups/shop.orders/shop.orders.OrderPlaced", "proposed: 40 events, 2026-03-01 to 2026-03-02"),
        ("messagegroups/shop.orders", "proposed: 40 events, 2026-03-01 to 2026-03-02"),
        ("schemagroups/shop.orders/shop.orders.OrderPlaced", "proposed"),
        ("schemagroups/shop.orders", "proposed"),
        ("messagegroups/shop.orders/shop.orders.OrderPlaced", "In 65.00% of 40."),
    ],
)
def test_pages_mark_what_is_proposed_and_say_how_often_it_was_there(site, path, text):
    assert text in site.page(f"reg-proposed/{path}.html", {}, "").page.body.decode()


def test_the_dumps_of_the_demo_are_current():
    hint = "run `PYTHONPATH=tests python -m propose.demo_dump`"
    assert {name: (FOLDER / name).read_text(encoding="utf-8") for name in DUMPS} == {
        name: dump(numbers) for name, numbers in DUMPS.items()
    }, hint
