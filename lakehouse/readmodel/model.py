"""The read model of a warehouse: opened, brought up to date, and read one snapshot at a time, by any number of processes."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from json import JSONDecodeError
from pathlib import Path
from typing import TypeVar

from lakehouse.errors import WarehouseError
from lakehouse.failpoints import crash_point
from lakehouse.readmodel.file.build import CannotFollow, Facts, Progress, build, follow
from lakehouse.readmodel.file.delta import READ, TableVersion, Warehouse
from lakehouse.readmodel.file.place import ModelFiles, location_of
from lakehouse.readmodel.file.sqliteschema import FORMAT, ReadConnection, connect
from lakehouse.readmodel.snapshotview import View
from lakehouse.readmodel.traffic import Traffic
from lakehouse.settings import Settings

T = TypeVar("T")
_MOST_TRIES = 5


def open_model(settings: Settings, *, progress: Progress | None = None) -> ReadModel:
    """Open the read model of a warehouse, built or brought up to date first where that is needed.

    Args:
        settings: the warehouse, `readmodel_dir`, and Spark's settings for S3.
        progress: is called while a file is built with how many rows are done, and of how many (None: not known).

    Raises:
        WarehouseError: the warehouse holds no catalog, or cannot be read.
        WarehouseTooNew: a newer version of the product wrote it.
    """
    model = ReadModel(settings, progress=progress)
    model.refresh()
    return model


class ReadModel:
    """A read model. Threads may share it; each `at` reads on its own connection."""

    def __init__(self, settings: Settings, *, progress: Progress | None = None) -> None:
        self.settings = settings
        self.location = location_of(settings.warehouse)
        self.warehouse = Warehouse(self.location, settings)
        self.place = ModelFiles(self.location, settings.readmodel_dir)
        self.progress = progress
        self.traffic = Traffic(Warehouse(self.location, settings), self.place)
        self._file: Path | None = None
        self._free: list[ReadConnection] = []
        self._guard = threading.Lock()

    def __enter__(self) -> ReadModel:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        with self._guard:
            for db in self._free:
                db.close()
            self._free.clear()
            self._file = None

    def refresh(self) -> bool:
        """Check whether the warehouse has changed, and bring the file up to date.

        A look at a local warehouse costs some `stat` calls; nothing is read when nothing changed.

        Returns:
            Whether anything was new.

        Raises:
            WarehouseError: the warehouse holds no catalog, or cannot be read.
        """
        problem: Exception | None = None
        for attempt in range(_MOST_TRIES):
            try:
                if self._is_current():
                    return attempt > 0
                self._bring()
            except (sqlite3.DatabaseError, JSONDecodeError) as error:
                problem = error
                self._discard()
        raise self._unusable() from problem

    def refresh_if(self, *, build: bool) -> bool:
        """Update the file, as `refresh`, unless it would have to be built and that is not wanted.

        Returns:
            Whether it is up to date.
        """
        if build or self.place.current() is not None:
            self.refresh()
            return True
        return False

    @contextmanager
    def at(self, snapshot: str | int | None = None) -> Iterator[View]:
        """Read one snapshot: what is read within the `with` is of that one, whatever others commit meanwhile.

        Nothing is refreshed here. A damaged file raises sqlite3.DatabaseError; `answer` repairs it.

        Args:
            snapshot: its number, label, date, time or `head`; None: the newest that the file knows.

        Raises:
            SnapshotNotFound: it names none.
        """
        file, db = self._take()
        is_sound = False
        try:
            db.execute("BEGIN")
            try:
                yield View(db, self.settings.max_chain_depth, snapshot)
            finally:
                db.end()
            is_sound = True
        except sqlite3.DatabaseError:
            raise
        except BaseException:
            is_sound = True
            raise
        finally:
            self._give_back(file, db, is_sound)

    def answer(self, ask: Callable[[View], T], snapshot: str | int | None = None) -> T:
        """Answer a question from one snapshot; a damaged file is built again, and the question repeated.

        Args:
            ask: what is asked; it must read all that it needs before it returns.
            snapshot: as in `at`.
        """
        problem: Exception | None = None
        for _ in range(_MOST_TRIES):
            try:
                with self.at(snapshot) as view:
                    return ask(view)
            except (sqlite3.DatabaseError, JSONDecodeError) as error:  # a page, or a text in it, that is no more what was written
                problem = error
                self._discard()
                self.refresh()
        raise self._unusable() from problem

    def _unusable(self) -> WarehouseError:
        return WarehouseError(f"{self.place.folder}: the read model cannot be kept there. Make room, or set readmodel_dir.")

    def _is_current(self) -> bool:
        if self.place.current() != self._file or self._file is None:
            self.close()
            self._file = self.place.current()
        if self._file is None:
            return False
        file, db = self._take()
        is_sound = False
        try:
            facts = Facts(db)
            versions = facts.table_versions()
            is_ours = facts["format"] == FORMAT and facts["location"] == self.location and set(versions) == set(READ)
            is_sound = True
        finally:
            self._give_back(file, db, is_sound)
        return is_ours and all(self._is_unchanged(name, versions[name]) for name in READ)

    def _is_unchanged(self, name: str, earlier: TableVersion) -> bool:
        if not self.warehouse.is_remote and earlier.signature:
            return self.warehouse.is_unchanged(name, earlier)
        table = self.warehouse.open(name)
        return (str(table.metadata().id), table.version()) == (earlier.id, earlier.version)

    def _bring(self) -> None:
        """Build or follow, unless another process has done it while this one waited."""
        with self.place.lock():
            if self._is_current():
                return
            try:
                self._follow()
            except (CannotFollow, sqlite3.DatabaseError, ValueError, KeyError, TypeError):
                self._build()
            self.place.sweep()

    def _follow(self) -> None:
        file = self.place.current()
        if file is None:
            raise CannotFollow
        db = connect(file, write=True)
        try:
            follow(db, self.warehouse)
        finally:
            db.close()

    def _build(self) -> None:
        for _ in range(_MOST_TRIES):
            file = self.place.fresh()
            try:
                build(self.warehouse, file, self.progress)
            except CannotFollow:  # a commit came in between, and the files did not fit together
                file.unlink(missing_ok=True)
                continue
            except BaseException:
                file.unlink(missing_ok=True)
                raise
            crash_point("readmodel_built")
            self.place.publish(file)
            return
        raise WarehouseError(
            f"{self.location}: its tables contradict their own statistics. `lakehouse doctor` reports what is wrong."
        )

    def _discard(self) -> None:
        file = self._file
        self.close()
        if file is not None:
            self.place.discard(file)

    def _take(self) -> tuple[Path, ReadConnection]:
        """Return a connection, and the file that it reads."""
        with self._guard:
            if self._file is None:
                self._file = self.place.current()
            if self._file is None:
                raise sqlite3.OperationalError("there is no file")
            if self._free:
                return self._file, self._free.pop()
            file = self._file
        return file, connect(file)

    def _give_back(self, file: Path, db: ReadConnection, is_sound: bool) -> None:
        with self._guard:
            if is_sound and self._file == file:
                self._free.append(db)
                return
        with contextlib.suppress(sqlite3.Error):
            db.close()
