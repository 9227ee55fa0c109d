"""Laws of the read model: following equals rebuilding, damage is repaired, processes share a file, a dead one does no harm."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from itertools import permutations
from pathlib import Path

import pytest
from deltalake import TableFeatures
from deltas import VERSIONS, Rewound, content, unpack
from shortform import first_of
from warehouses import Written

from lakehouse.domain.diff import differences
from lakehouse.errors import WarehouseError
from lakehouse.readmodel import ReadModel, model, open_model
from lakehouse.readmodel.detail import show
from lakehouse.readmodel.queries import TooManyChanges, definitions_of, snapshot_differences, with_endpoints
from lakehouse.readmodel.violationlist import find_violations
from lakehouse.readmodel.wordsearch import search
from lakehouse.settings import Settings, read_settings

pytestmark = pytest.mark.attack

POINTS = ("readmodel_build", "readmodel_built", "readmodel_follow", "readmodel_followed")
READER = """
import sys
from lakehouse.readmodel import open_model
from lakehouse.settings import read_settings

with open_model(read_settings(warehouse=sys.argv[1], readmodel_dir=sys.argv[2])) as model:
    print(model.answer(lambda view: (view.head, len(view.snapshots()))))
"""


@pytest.fixture(scope="module")
def golden(tmp_path_factory) -> Path:
    return unpack(tmp_path_factory.mktemp("golden"))


@pytest.fixture
def builds(monkeypatch) -> list[Path]:
    """Return a list of the files that this process builds from scratch."""
    made: list[Path] = []
    build = model.build

    def counted(warehouse, file, progress=None):
        made.append(file)
        build(warehouse, file, progress)

    monkeypatch.setattr(model, "build", counted)
    return made


def settings_of(warehouse: Path, folder: Path) -> Settings:
    return read_settings(warehouse=str(warehouse), readmodel_dir=str(folder))


def rebuilt(warehouse: Path, folder: Path) -> dict[str, list[str]]:
    """Build a file in an empty folder, and return what it holds."""
    shutil.rmtree(folder, ignore_errors=True)
    with open_model(settings_of(warehouse, folder)) as built:
        return content(built)


def answers(opened: ReadModel) -> object:
    """Ask for much of the golden warehouse: all that is compared comes from tables and indexes of every kind."""

    def ask(view):
        messages = [one.xid for one in view.below("default", "/") if one.kind == "message"]
        shown = [one.as_json() for xid in messages for one in show(view, xid)]
        others = [one.as_json() for xid in ("/endpoints/e", "/messagegroups/g", "a.json") for one in show(view, xid)]
        return shown, others, find_violations(view), search(view, "three"), [one.facts for one in view.snapshots()]

    return opened.answer(ask)


@pytest.mark.parametrize("seed", first_of(range(6), 2))
def test_what_followed_equals_what_is_built_anew_after_any_history(tmp_path, seed):
    written = Written(tmp_path / "warehouse", seed)
    chance = random.Random(seed)
    written.commit()
    followed = open_model(settings_of(written.folder, tmp_path / "followed"))
    acts = [written.commit, written.project, written.maintain, written.rebuild, written.checkpoint]
    for number in range(25):
        act = chance.choices(acts, [8, 6, 1, 1, 1])[0]
        act()
        if chance.random() < 0.6 or number == 24:
            followed.refresh()
            assert content(followed) == rebuilt(written.folder, tmp_path / "rebuilt"), f"after {act.__name__}"
    followed.close()
    assert written.head > 5


@pytest.mark.parametrize("seed", range(3))
def test_what_is_narrowed_to_the_changes_is_the_whole_difference(tmp_path, seed):
    written = Written(tmp_path / "warehouse", seed)
    chance = random.Random(seed)
    for _ in range(7):
        written.commit(prune=chance.random() < 0.3)
        chance.choice([written.project, written.project, written.rebuild, lambda: None])()
    compared = set()
    with open_model(settings_of(written.folder, tmp_path / "model")) as opened:
        for pair in permutations(range(1, written.head + 1), 2):
            found = differences(*(opened.answer(definitions_of, one) for one in pair))
            whole = opened.answer(lambda view, found=found: [with_endpoints(view, one) for one in found], pair[1])
            assert snapshot_differences(opened, *pair) == whole, pair
            compared.add((pair, bool(whole)))
    assert len(compared) > 10
    assert any(differ for _, differ in compared)


def test_no_more_is_compared_than_asked(tmp_path):
    written = Written(tmp_path / "warehouse", 1)
    while not written.last["messages"]:
        written.commit()
    written.project()
    written.commit()
    written.rebuild()
    with open_model(settings_of(written.folder, tmp_path / "model")) as opened, pytest.raises(TooManyChanges):
        snapshot_differences(opened, written.head - 1, written.head, most=0)


def test_a_plain_history_is_followed_and_never_built_again(tmp_path, builds):
    written = Written(tmp_path / "warehouse", 42)
    written.commit("first")
    written.project()
    with open_model(settings_of(written.folder, tmp_path / "model")) as followed:
        for prune in (False, False, True, False):
            written.commit(prune=prune)
            followed.refresh()
            written.project()
            written.maintain()
            followed.refresh()
        assert len(builds) == 1
        assert content(followed) == rebuilt(written.folder, tmp_path / "rebuilt")


def test_definitions_that_lag_are_reported(tmp_path):
    written = Written(tmp_path / "warehouse", 3)
    while not written.last["messages"]:
        written.commit()
    written.project()
    before = written.head
    with open_model(settings_of(written.folder, tmp_path / "model")) as opened:
        while written.last["messages"] == written.projected:
            written.commit()
        opened.refresh()
        assert opened.answer(lambda view: (view.snapshot_id, view.definitions_snapshot)) == (written.head, before)
        written.project()
        opened.refresh()
        assert opened.answer(lambda view: view.definitions_snapshot) == written.head


def test_a_log_that_lost_its_tail_and_went_on_is_built_anew(tmp_path):
    written = Written(tmp_path / "warehouse", 5)
    for _ in range(4):
        written.commit()
    with open_model(settings_of(written.folder, tmp_path / "model")) as opened:
        digest = written.digest
        written.lose_tail()
        opened.refresh()
        assert opened.answer(lambda view: view.head) == written.head - 1
        written.head -= 1
        written.digest = opened.answer(lambda view: view.commit_of(view.head)["digest"])
        written.commit()
        opened.refresh()
        assert opened.answer(lambda view: view.commit_of(view.head)["digest"]) == written.digest != digest
        assert content(opened) == rebuilt(written.folder, tmp_path / "rebuilt")


def test_another_warehouse_at_the_same_place_is_noticed(tmp_path):
    place = tmp_path / "warehouse"
    one = Written(place, 1)
    one.commit("one")
    with open_model(settings_of(place, tmp_path / "model")) as opened:
        assert opened.answer(lambda view: view.labels()) == {"one": (1, None)}
        shutil.rmtree(place)
        with pytest.raises(WarehouseError, match="holds no catalog"):
            opened.refresh()
        other = Written(place, 1)
        other.commit("other")
        opened.refresh()
        assert opened.answer(lambda view: view.labels()) == {"other": (1, None)}


def test_a_table_that_asks_more_of_its_reader_is_refused(tmp_path):
    written = Written(tmp_path / "warehouse", 9)
    written.commit()
    written.table("changes").alter.add_feature(TableFeatures.DeletionVectors, allow_protocol_versions_increase=True)
    with pytest.raises(WarehouseError, match=r"deletionVectors.*lakehouse sql"):
        open_model(settings_of(written.folder, tmp_path / "model"))


def test_a_warehouse_that_was_copied_back_is_followed(tmp_path, builds):
    written = Written(tmp_path / "warehouse", 9)
    written.commit()
    with open_model(settings_of(written.folder, tmp_path / "model")) as opened:
        shutil.copytree(written.folder, tmp_path / "aside")
        shutil.rmtree(written.folder)
        shutil.copytree(tmp_path / "aside", written.folder)
        written.commit()
        opened.refresh()
        assert opened.answer(lambda view: view.head) == 2
    assert len(builds) == 1


@pytest.mark.parametrize("how", first_of(["flip", "cut", "empty", "zeros", "garbage", "head"], 3))
def test_a_damaged_file_is_built_anew_and_never_an_error(golden, tmp_path, how):
    settings = settings_of(golden, tmp_path / "model")
    with open_model(settings) as sound:
        right = answers(sound)
    chance = random.Random(how)
    for _ in range(12):
        with open_model(settings) as opened:
            file = opened.place.current()
        data = bytearray(file.read_bytes())
        at = chance.randrange(len(data))
        if how == "flip":
            data[at - at % 4096] ^= 1 << chance.randrange(8)  # of a page's header
        elif how == "zeros":
            data[at - at % 4096 : at - at % 4096 + 8192] = bytes(8192)  # whole pages: SQLite has no checksums
        elif how == "garbage":
            data[at : at + 3000] = chance.randbytes(len(data[at : at + 3000]))
        elif how == "cut":
            del data[at:]
        elif how == "head":
            data[:100] = chance.randbytes(100)
        else:
            data.clear()
        file.write_bytes(data)
        with open_model(settings) as opened:
            assert answers(opened) == right
        shutil.rmtree(tmp_path / "model")


def test_a_file_is_damaged_while_it_is_open(golden, tmp_path):
    settings = settings_of(golden, tmp_path / "model")
    with open_model(settings) as opened:
        right = answers(opened)
        file = opened.place.current()
        file.write_bytes(b"no database")
        opened.close()
        assert answers(opened) == right


@pytest.mark.parametrize("pointer", [b"", b"\xff\xfe", b"../../etc/passwd", b"none.sqlite"])
def test_a_pointer_that_leads_nowhere_is_written_anew(golden, tmp_path, pointer):
    settings = settings_of(golden, tmp_path / "model")
    with open_model(settings) as opened:
        right, place = answers(opened), opened.place
    place.pointer.write_bytes(pointer)
    with open_model(settings) as opened:
        assert answers(opened) == right
    place.pointer.unlink()
    with open_model(settings) as opened:
        assert answers(opened) == right


def test_a_file_of_another_format_is_built_anew(golden, tmp_path, monkeypatch):
    settings = settings_of(golden, tmp_path / "model")
    with open_model(settings) as opened:
        first = opened.place.current()
    for module in ("lakehouse.readmodel.file.build", "lakehouse.readmodel.model"):
        monkeypatch.setattr(f"{module}.FORMAT", 99)
    with open_model(settings) as opened:
        assert opened.place.current() != first


def test_files_that_nobody_reads_are_swept(golden, tmp_path):
    rewound = Rewound(golden, tmp_path / "warehouse")
    rewound.snapshot(1)
    settings = settings_of(rewound.warehouse, tmp_path / "model")
    with open_model(settings) as opened:
        left = opened.place.fresh()
    for file, age in ((left, 3600), (opened.place.fresh(), 0)):
        file.write_bytes(b"half")
        os.utime(file, (time.time() - age,) * 2)
    rewound.snapshot(2)
    with open_model(settings):
        assert not left.exists()
        assert sum(file.suffix == ".sqlite" for file in opened.place.folder.iterdir()) == 2


def run_reader(warehouse: Path, folder: Path, **environment: str) -> subprocess.Popen[str]:
    where = {"PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-c", READER, str(warehouse), str(folder)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=os.environ | where | environment)


@pytest.mark.slow
def test_many_processes_build_one_file(golden, tmp_path):
    readers = [run_reader(golden, tmp_path / "model") for _ in range(6)]
    reported = [reader.communicate(timeout=120) for reader in readers]
    assert reported == [("(3, 3)\n", "")] * 6
    assert sum(file.suffix == ".sqlite" for file in (tmp_path / "model").iterdir()) == 1


@pytest.mark.slow
@pytest.mark.parametrize("point", POINTS)
def test_a_builder_that_is_killed_harms_nobody(golden, tmp_path, point):
    rewound = Rewound(golden, tmp_path / "warehouse")
    rewound.snapshot(1)
    settings = settings_of(rewound.warehouse, tmp_path / "model")
    old = None
    if "follow" in point:
        old = open_model(settings)
        rewound.snapshot(2)
    killed = run_reader(rewound.warehouse, tmp_path / "model", LAKEHOUSE_CRASH_AT=point, LAKEHOUSE_CRASH_BY="kill")
    killed.communicate(timeout=120)
    assert killed.returncode == -signal.SIGKILL
    if old is not None:  # who had it open before reads on
        assert old.answer(lambda view: view.head) in (1, 2)
        old.close()
    with open_model(settings) as opened:
        assert content(opened) == rebuilt(rewound.warehouse, tmp_path / "rebuilt")


@pytest.mark.slow
def test_readers_see_whole_snapshots_while_commits_come_and_builders_die(golden, tmp_path):
    rewound = Rewound(golden, tmp_path / "warehouse")
    expected = {}
    for number in VERSIONS:
        whole = Rewound(golden, tmp_path / f"whole-{number}")
        whole.snapshot(number)
        with open_model(settings_of(whole.warehouse, tmp_path / f"model-{number}")) as one:
            expected[number] = answers(one)
    settings = settings_of(rewound.warehouse, tmp_path / "model")
    readers = [ReadModel(settings) for _ in range(2)]
    for before, number in ((1, 1), (1, 2), (2, 3)):
        rewound.snapshot(number)
        for point in POINTS[2:] if number > 1 else POINTS[:2]:  # nobody else has it yet: the builder works, and dies
            killed = run_reader(rewound.warehouse, tmp_path / "model", LAKEHOUSE_CRASH_AT=point, LAKEHOUSE_CRASH_BY="kill")
            killed.communicate(timeout=120)
            assert killed.returncode == -signal.SIGKILL
        beside = run_reader(rewound.warehouse, tmp_path / "model")
        while beside.poll() is None:
            for reader in readers:
                assert answers(reader) in (expected[before], expected[number])
        assert beside.communicate() == (f"({number}, {number})\n", "")
        readers[0].refresh()
        assert answers(readers[0]) == answers(readers[1]) == expected[number]
    for reader in readers:
        reader.close()
