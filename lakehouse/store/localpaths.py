"""Folders and files that commands name, checked without Spark: those on a local disk, and nothing elsewhere."""

from __future__ import annotations

import os
import re
from pathlib import Path

from lakehouse.errors import TargetError, WarehouseError

STAGES = "_stage"  # folder of a warehouse in which each run has its own folder while it lasts
MATCH_RESULTS = "_match"  # folder of a warehouse with a folder for each schema of `lakehouse match --into`
_SCHEME = re.compile(r"\A[A-Za-z][A-Za-z0-9+.\-]*:")


def local_path(location: str) -> Path | None:
    """Return a path, or a `file:` URI, as an absolute path; None if it is not on a local disk."""
    if location.startswith("file:"):
        return Path(re.sub(r"\Afile:/*", "/", location))
    return None if _SCHEME.match(location) else Path(location).absolute()


def names_folder(location: str) -> bool:
    """Return whether a target is a folder: it ends in `/`, or is one on a local disk."""
    path = local_path(location)
    return location.endswith("/") or (path is not None and path.is_dir())


def no_glob(path: str) -> str:
    """Escape what Spark's readers of files would take for a glob: the path names one file or folder."""
    return re.sub(r"([\[\]{}*?\\])", r"\\\1", path)


def no_catalog(warehouse: str, table: str) -> WarehouseError:
    """Return the error for a warehouse without a catalog, or without a folder, with the command that makes one."""
    path = local_path(warehouse)
    if path is not None and not path.exists():
        return WarehouseError(
            f"{warehouse} holds no catalog: the warehouse folder does not exist. "
            f"`lakehouse --warehouse {warehouse} ingest SOURCE` makes it; or name the folder of a catalog with --warehouse "
            "(LAKEHOUSE_WAREHOUSE)."
        )
    return WarehouseError(f"{warehouse} holds no catalog (no table {table}). Load documents with `lakehouse ingest SOURCE`.")


def holds_table(warehouse: str, table: str) -> bool:
    """Return whether a local warehouse has a table; True for one that is not local."""
    path = local_path(warehouse)
    return path is None or (path / table / "_delta_log").is_dir()


def check_target(location: str, *, to_folder: bool, replace: bool = True, parents: bool = True) -> None:
    """Check that a local file or folder can be written.

    Args:
        location: path or URI; of one that is elsewhere nothing is checked.
        to_folder: a folder is to be written, and not a file.
        replace: the folder may hold something already.
        parents: folders above it are made where they are missing.

    Raises:
        TargetError: it cannot.
    """
    path = local_path(location)
    if path is None:
        return
    if path.exists():
        holds = path.is_dir() and any(path.iterdir())
        refuse_target(location, to_folder=to_folder, is_folder=path.is_dir(), holds_something=holds and not replace)
    above = path.parent
    while parents and not above.exists():
        above = above.parent
    if not (above.is_dir() and os.access(above, os.W_OK | os.X_OK)):
        reason = "no such folder" if not above.exists() else "no files can be made there" if above.is_dir() else "it is a file"
        raise TargetError(location, f"cannot be written ({above}: {reason}).")


def refuse_target(location: str, *, to_folder: bool, is_folder: bool, holds_something: bool) -> None:
    """Refuse a target that is there and is not what is to be written.

    Raises:
        TargetError: it is a folder instead of a file, a file instead of a folder, or a folder that is not empty.
    """
    if is_folder and not to_folder:
        raise TargetError(location, "it is a folder, and one file was asked for. Name a file in it.")
    if to_folder and not is_folder:
        raise TargetError(location, "it is a file, and a folder was asked for. Name a folder.")
    if holds_something:
        raise TargetError(
            location,
            "the folder is not empty, and what is in it might be taken for the export. Name a new one, or if it "
            "holds an earlier export use --replace.",
        )
