"""The site as files: every page of a snapshot written below a folder, and on the next run only those that changed.

`site.json` in the folder lists the pages with their digests, and what they were made of: nothing is made where that is the same,
and of messages and schemas only those pages that may differ (`site/refresh.py`). Files that it does not list are somebody else's:
they stay, and a folder that holds any and no `site.json` is refused.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import orjson

from lakehouse.errors import SettingsError
from lakehouse.readmodel import ReadModel, View
from lakehouse.settings import Settings
from lakehouse.site.overview import Key, Overview, overview_of
from lakehouse.site.pagecontext import PageContext, PageStyle
from lakehouse.site.pages.contents import all_paths, beside, find_page, paths_of_member
from lakehouse.site.refresh import State, members_to_make, owner_of, owning_path, pages_to_keep, state_of

MANIFEST = "site.json"
_FORMAT = 2
_WORTH_SHARING = 400  # members, from which on several processes are worth their start
_AT_ONCE = 50
Definitions = Mapping[Key, dict[str, Any]]
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Written:
    """What came of a run: pages in all, written again, deleted, left as they were; the snapshot that they show."""

    pages: int
    written: int
    deleted: int
    unchanged: int
    snapshot_id: int

    def as_json(self) -> dict[str, int]:
        """Return the contract of `lakehouse site --json`."""
        return dict(vars(self))


def write_site(
    model: ReadModel,
    out: str,
    *,
    at: str | None = None,
    base_url: str = "",
    progress: Progress | None = None,
    processes: int = 1,
) -> Written:
    """Write the site.

    Args:
        model: the read model, up to date.
        out: folder; made when it is not there.
        at: snapshot that is shown, as in `View.resolve`; None: the newest.
        base_url: URL under which the site will be served; links are relative all the same.
        progress: is called with how many entities are done, and of how many.
        processes: how many make pages; a program that wants several protects its main module, as `multiprocessing` explains.

    Raises:
        SettingsError: the folder holds other files, or cannot be written.
        SnapshotNotFound: there is no such snapshot.
    """
    folder = Path(out)
    digests, before = _read_manifest(folder)
    style = PageStyle(base_url=base_url, max_chain_depth=model.settings.max_chain_depth)
    if at is None:
        model.traffic.refresh()
    with model.at(at) as view:
        if at is not None:
            style.at = view.snapshot_id
        overview = overview_of(view, model.settings.owner_names)
        page_context = PageContext(model, view, overview, style)
        writer = Writer(folder, digests)
        try:
            now = state_of(page_context)
            is_whole = all((folder / path).exists() for path in digests)
            if is_whole and now == before:
                return Written(len(digests), 0, 0, len(digests), view.snapshot_id)
            members = [(key[0], xid) for key, xids in sorted(overview.members.items()) for xid in xids]
            wanted = members_to_make(page_context, before, now) if is_whole and before else None
            if wanted is not None:
                writer.keep({owning_path(key) for key in members if key not in wanted})
                writer.keep_pages(pages_to_keep(page_context, before, now, wanted))
                members = [key for key in members if key in wanted]
            for path in all_paths(page_context):
                if path not in writer.digests:
                    writer.write(page_context, path)
            _write_members(writer, page_context, model.settings, members, progress or (lambda done, total: None), processes)
        except OSError as error:
            raise SettingsError(f"{error.filename or folder}: cannot be written ({error.strerror}).") from error
        deleted = writer.finish(now)
    return Written(len(writer.digests), writer.written, deleted, len(writer.digests) - writer.written, view.snapshot_id)


class Writer:
    """Writes pages below a folder, those that are new or other than the manifest says."""

    def __init__(self, folder: Path, digests: dict[str, str]) -> None:
        self.folder = folder
        self.previous = digests
        self.digests: dict[str, str] = {}
        self.written = 0

    def keep(self, owners: set[str]) -> None:
        """Keep the pages of messages and schemas as they are.

        Args:
            owners: as `owner_of` returns them.
        """
        self.digests |= {path: digest for path, digest in self.previous.items() if owner_of(path) in owners}

    def keep_pages(self, paths: set[str]) -> None:
        """Keep pages, and their Markdown, as they are, where the earlier run wrote them."""
        every = (one for path in paths for one in (path, f"{path.removesuffix('html')}md"))
        self.digests |= {path: self.previous[path] for path in every if path in self.previous}

    def write(self, page_context: PageContext, path: str) -> None:
        """Make a page, and write it and its Markdown when they are other ones than before."""
        page = find_page(page_context, path)
        if page is not None:
            self._write(path, page.body)
            markdown = beside(page)
            if markdown is not None and markdown.path not in self.digests:  # of a page without a choice, that of its first one
                self._write(markdown.path, markdown.body)

    def _write(self, path: str, body: bytes) -> None:
        digest = hashlib.blake2b(body, digest_size=12).hexdigest()
        target = self.folder / path
        if self.previous.get(path) != digest or not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            new = target.with_name(target.name[:200] + ".~new")
            new.write_bytes(body)
            os.replace(new, target)
            self.written += 1
        self.digests[path] = digest

    def finish(self, state: State) -> int:
        """Delete the pages that are no more, and write the manifest; return how many pages were deleted.

        Args:
            state: what the pages were made of.
        """
        gone = sorted(self.previous.keys() - self.digests.keys())
        for path in gone:
            target = self.folder / path
            target.unlink(missing_ok=True)
            for parent in target.parents:
                if parent == self.folder or not parent.is_dir() or any(parent.iterdir()):
                    break
                parent.rmdir()
        details = {
            "format": _FORMAT,
            "snapshot_id": state["snapshot_id"],
            "state": state,
            "pages": dict(sorted(self.digests.items())),
        }
        beside = self.folder / f"{MANIFEST}.~new"
        beside.write_bytes(orjson.dumps(details, option=orjson.OPT_INDENT_2))
        os.replace(beside, self.folder / MANIFEST)
        return len(gone)


def _read_manifest(folder: Path) -> tuple[dict[str, str], State]:
    """Return the pages of the run before with their digests, and what they were made of; of a new folder, none.

    Raises:
        SettingsError: the folder holds what this command did not write.
    """
    try:
        if not folder.exists() or not any(folder.iterdir()):
            folder.mkdir(parents=True, exist_ok=True)
            return {}, {}
        details = orjson.loads((folder / MANIFEST).read_bytes())
        pages: dict[str, str] = details["pages"]
    except FileNotFoundError as error:
        raise SettingsError(
            f"{folder}: holds files, and no {MANIFEST} of an earlier run. Name another folder, or empty this one."
        ) from error
    except (OSError, orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise SettingsError(f"{folder}/{MANIFEST}: cannot be read ({error}). Name another folder, or empty this one.") from error
    if any(path.startswith("/") or ".." in path.split("/") for path in pages):
        raise SettingsError(f"{folder}/{MANIFEST}: names files outside of the folder. Name another folder, or empty this one.")
    return pages, details["state"] if details.get("format") == _FORMAT else {}


def _write_members(
    writer: Writer, page_context: PageContext, settings: Settings, members: list[Key], progress: Progress, processes: int
) -> None:
    """Write the pages of messages and schemas: in several processes where there are many."""
    total, done = len(members), 0
    if total < _WORTH_SHARING or processes < 2:
        for key in members:
            for path in paths_of_member(page_context, *key):
                writer.write(page_context, path)
            done += 1
            progress(done, total)
        return
    parts = [members[start : start + _AT_ONCE] for start in range(0, total, _AT_ONCE)]
    begin = partial(
        _begin, settings, page_context.view.snapshot_id, page_context.overview, page_context.style, writer.folder, writer.previous
    )
    with ProcessPoolExecutor(processes, get_context("spawn"), begin) as pool:
        for part, (row, written) in zip(parts, pool.map(_write_part, parts), strict=True):
            writer.digests |= row
            writer.written += written
            done += len(part)
            progress(done, total)


_MINE: dict[str, Any] = {}  # of a process of the pool


def _begin(
    settings: Settings,
    snapshot_id: int,
    overview: Overview,
    style: PageStyle,
    folder: Path,
    digests: dict[str, str],
) -> None:
    model = ReadModel(settings)
    opened = model.at(snapshot_id)
    view: View = opened.__enter__()  # open as long as the process lives
    _MINE.update(
        model=model, opened=opened, page_context=PageContext(model, view, overview, style), folder=folder, digests=digests
    )


def _write_part(members: list[Key]) -> tuple[dict[str, str], int]:
    writer = Writer(_MINE["folder"], _MINE["digests"])
    for key in members:
        for path in paths_of_member(_MINE["page_context"], *key):
            writer.write(_MINE["page_context"], path)
    return writer.digests, writer.written
