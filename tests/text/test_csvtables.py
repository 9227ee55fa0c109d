"""Tables of a package as typed rows."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from lakehouse.text import csvtables
from lakehouse.text.csvtables import read_rows


class Bird(NamedTuple):
    id: str
    colour: str


@pytest.fixture
def birds(tmp_path, monkeypatch):
    """Write the table `birds` of a package."""

    def write(text: str) -> None:
        (tmp_path / "data").mkdir(exist_ok=True)
        (tmp_path / "data" / "birds.csv").write_text(text)
        csvtables.read_table.cache_clear()
        csvtables.read_rows.cache_clear()

    monkeypatch.setattr(csvtables, "files", lambda _: tmp_path)
    yield write
    csvtables.read_table.cache_clear()
    csvtables.read_rows.cache_clear()


def test_a_row_has_the_columns_as_fields(birds):
    birds('id,colour\nrobin,"red, brown"\nwren,\n')
    assert read_rows("aviary", "birds", Bird) == [Bird("robin", "red, brown"), Bird("wren", "")]


@pytest.mark.parametrize(
    "text", ["id,color\nrobin,red\n", "id,colour,age\nrobin,red,2\n", "id,colour\nrobin\n", "id,colour\nrobin,red,2\n"]
)
def test_a_table_of_another_shape_is_reported(birds, text):
    birds(text)
    with pytest.raises(ValueError, match=r"aviary: data/birds\.csv, row 2: the cells are not those of id, colour"):
        read_rows("aviary", "birds", Bird)
