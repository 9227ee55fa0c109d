"""What is known of a source: a folder for each, in the warehouse, so that it goes where the catalog goes.

A mark such as an ETag says that the source is as it was when *this* catalog took it: with another catalog, or one that was
restored, it would keep changes away. So the state names the snapshot that took it, and is worth nothing in a catalog without it.
A warehouse that is not on this machine's disks has its state in the user's cache folder, under its URI.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from platformdirs import user_cache_path

from lakehouse.errors import ReplicationError
from lakehouse.readmodel import open_model
from lakehouse.readmodel.file.place import is_remote, location_of
from lakehouse.settings import Settings
from lakehouse.store.durable import replace_synced
from lakehouse.text.names import Xid

_FOLDER = "_replicas"
_VERSION = 1


class PeerState:
    """What is known of a source.

    Attributes:
        folder: holds the parts that were fetched, and what this class writes.
        marks: mark of what was fetched: its name → ETag, digest, and what else is known of it.
        loaded: URI of each document that the catalog has taken → its sha256.
        refused: URIs of those of which the ingest refused something.
        commit: snapshot and digest of the catalog's head after that.
        subscription: id of the subscription that is kept at the source; None: there is none.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.marks: dict[str, dict[str, Any]] = {}
        self.loaded: dict[str, str] = {}
        self.refused: list[str] = []
        self.commit: tuple[int, str] | None = None
        self.subscription: str | None = None
        self._file = folder / "state.json"
        self._read()

    def _read(self) -> None:
        try:
            state = json.loads(self._file.read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):  # without it everything is fetched again
            return
        if isinstance(state, dict) and state.get("version") == _VERSION:
            self.marks, self.loaded = state["marks"], state["loaded"]
            self.commit = tuple(state["commit"]) if state["commit"] else None
            self.subscription, self.refused = state.get("subscription"), state.get("refused", [])

    def save(self) -> None:
        """Write what is known, in one step."""
        state = {"version": _VERSION, "marks": self.marks, "loaded": self.loaded, "commit": self.commit}
        state |= {"subscription": self.subscription, "refused": self.refused}
        aside = self._file.with_suffix(".next")
        with aside.open("w", encoding="utf-8") as stream:
            json.dump(state, stream)
        replace_synced(aside, self._file)

    def forget(self) -> None:
        """Delete the state, except which documents there were."""
        self.marks, self.commit = {}, None

    def keep_only(self, names: set[str]) -> None:
        """Delete parts and marks of what is not at the source any more."""
        self.marks = {name: mark for name, mark in self.marks.items() if name in names}
        part_names = {part_name(name) for name in names}
        for file in self.folder.glob("*.part.json"):
            if file.name not in part_names:
                file.unlink()

    def part(self, name: str) -> Path:
        """Return the file of a part."""
        return self.folder / part_name(name)


def part_name(name: str) -> str:
    """Return the name of the file of a part."""
    return hashlib.sha256(name.encode()).hexdigest()[:24] + ".part.json"


@contextmanager
def open_state(settings: Settings, url: str, scope: tuple[Xid, ...], more: str = "") -> Iterator[PeerState]:
    """Open what is known of a source; one process at a time.

    Args:
        settings: the warehouse, and the registry that is loaded into.
        url: of the source.
        scope: XIDs that are pulled; none: all.
        more: what else makes another state of it.

    Raises:
        ReplicationError: another process replicates the same.
    """
    location = location_of(settings.warehouse)
    key = hashlib.sha256(json.dumps([url, settings.registry, sorted(scope), more]).encode()).hexdigest()[:16]
    if is_remote(location):
        above = user_cache_path("xregistry-lakehouse") / _FOLDER / hashlib.sha256(location.encode()).hexdigest()[:24]
    else:
        above = Path(location) / _FOLDER
    folder = above / key
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (folder / "lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ReplicationError(url, "another process replicates it into this warehouse now; wait for it.") from error
        yield PeerState(folder)


def is_in_catalog(settings: Settings, commit: tuple[int, str]) -> bool:
    """Return whether the catalog still has the snapshot that a state was written after. Without Spark."""
    with open_model(settings) as model, model.at() as view:
        return view.head >= commit[0] and str(view.commit_of(commit[0])["digest"]) == commit[1]


def at_hand(settings: Settings, file: Path) -> str:
    """Return a file of a state where the executors can read it: below the warehouse."""
    location = location_of(settings.warehouse)
    if not is_remote(location):
        return str(file)
    from pyarrow import fs  # noqa: PLC0415

    store, path = fs.FileSystem.from_uri(re.sub(r"\As3[an]:", "s3:", location))
    target = f"{path}/_replicas/{file.parent.name}-{file.name}"
    fs.copy_files(str(file), target, source_filesystem=fs.LocalFileSystem(), destination_filesystem=store)
    return f"{location}/_replicas/{file.parent.name}-{file.name}"
