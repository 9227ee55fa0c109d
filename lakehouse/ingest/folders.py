"""What a local folder holds that Spark would pass over without a word, read again and again, or fail at."""

from __future__ import annotations

import errno
import os
import re
import stat
from dataclasses import dataclass, field
from typing import NamedTuple

from lakehouse.errors import SourceNotFound
from lakehouse.store.localpaths import local_path
from lakehouse.text.documentnames import is_document

HIDDEN_NAME = "Hadoop hides names that start with _ or ."
_NOWHERE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)


NOT_THERE = "no such file or folder. Name a file, a folder, a glob, or a URI that Spark reads."
NO_MATCH = "the glob matches nothing."
LEADS_OUT = "a link that leads out of the SOURCE, to what its author may not read otherwise. Name it as a SOURCE to read it."
GLOB = re.compile(r"[*?\[{]")


class Hidden(NamedTuple):
    """A file that is not read, and why."""

    path: str
    reason: str


@dataclass
class Inside:
    """The documents in a folder and below it, by what can be done with them.

    Attributes:
        files: URIs of documents.
        empty: URIs of empty files, which Spark does not list.
        unreadable: URIs and sizes of files that may not be read, at which Spark would end.
        hidden: what is not read.
        closed: URIs of folders and files of which nobody knows whether they hold or are documents: they cannot be looked at.
        is_tree: no link leads out of the folder, or back to one around it, which Spark would follow until the path is too long.
    """

    files: list[str] = field(default_factory=list)
    empty: list[str] = field(default_factory=list)
    unreadable: list[tuple[str, int]] = field(default_factory=list)
    hidden: list[Hidden] = field(default_factory=list)
    closed: list[str] = field(default_factory=list)
    is_tree: bool = True


def check_source(source: str) -> None:
    """Check without Spark that a local file or folder is there; of a glob the folder before its first wildcard.

    Raises:
        SourceNotFound: it is not.
    """
    path = local_path(source)
    if path is None or os.path.lexists(path):
        return
    fixed = GLOB.split(str(path), maxsplit=1)[0]
    if fixed == str(path):
        raise SourceNotFound(source, NOT_THERE)
    if not os.path.isdir(os.path.dirname(fixed)):
        raise SourceNotFound(source, NO_MATCH)


def is_hidden(name: str) -> bool:
    """Return whether Spark hides a file or folder of this name."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


def is_readable(uri: str) -> bool:
    """Return whether a local file may be read; True for others, which only opening can show."""
    return not uri.startswith("file:") or os.access(_local(uri), os.R_OK)


def is_gone(uri: str) -> bool:
    """Return whether a local file was deleted; False for others, which only opening can show."""
    return uri.startswith("file:") and not os.path.lexists(_local(uri))


def leads_out(uri: str, root: str) -> bool:
    """Return whether a local file or folder is a link, or below one, that leads out of a folder; both are URIs."""
    if not (uri.startswith("file:") and root.startswith("file:")):
        return False
    return not _is_within(os.path.realpath(_local(uri)), os.path.realpath(_local(root)))


def look_into(folder: str) -> Inside:
    """Return what a search of a local folder does not read, with the reasons.

    Args:
        folder: its URI; the result is empty for one that is not local.
    """
    inside = Inside()
    if folder.startswith("file:"):
        path = _local(folder)
        _look(path, inside, [os.path.realpath(path)], hidden=False)
    return inside


def _local(uri: str) -> str:
    return re.sub(r"\Afile:/+", "/", uri)


def _look(folder: str, inside: Inside, around: list[str], *, hidden: bool) -> None:
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as error:
        inside.hidden.append(Hidden(_printable(folder), f"the folder cannot be read: {error.strerror}"))
        inside.closed.append(f"file:{folder}")
        return
    for entry in entries:
        is_link = entry.is_symlink()
        if is_link and os.path.exists(entry.path) and not _is_within(os.path.realpath(entry.path), around[0]):
            if os.path.isdir(entry.path) or is_document(entry.name):
                inside.is_tree = False
                inside.closed.append(f"file:{entry.path}")
                inside.hidden.append(Hidden(_printable(entry.path), LEADS_OUT))
        elif os.path.isdir(entry.path) if is_link else entry.is_dir(follow_symlinks=False):
            real = os.path.realpath(entry.path) if is_link else f"{around[-1]}/{entry.name}"
            if real in around:
                inside.is_tree = False
                inside.hidden.append(Hidden(_printable(entry.path), "a link to a folder around it"))
            else:
                _look(entry.path, inside, [*around, real], hidden=hidden or is_hidden(entry.name))
        elif is_document(entry.name):
            _sort_in(entry, inside, hidden=hidden or is_hidden(entry.name))


def _sort_in(entry: os.DirEntry[str], inside: Inside, *, hidden: bool) -> None:
    """Record a file with the name of a document: read, or why not."""
    path, uri = _printable(entry.path), f"file:{entry.path}"
    try:
        status = entry.stat()
    except OSError as error:
        is_nowhere = error.errno in _NOWHERE
        reason = "a link that leads nowhere" if is_nowhere else f"it cannot be looked at: {error.strerror}"
        inside.hidden.append(Hidden(path, reason))
        if not is_nowhere:
            inside.closed.append(uri)
        return
    if hidden:
        inside.hidden.append(Hidden(path, HIDDEN_NAME))
    elif not stat.S_ISREG(status.st_mode):
        inside.hidden.append(Hidden(path, "no file, but a pipe, socket or device"))
    elif path != entry.path:
        inside.hidden.append(Hidden(path, "its name is not UTF-8, and Java finds no such file"))
    elif not status.st_size:
        inside.empty.append(uri)
    elif not is_readable(uri):
        inside.unreadable.append((uri, status.st_size))
    else:
        inside.files.append(uri)


def _is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _printable(path: str) -> str:
    """Return a path as printable text, even if its bytes are not UTF-8."""
    return os.fsencode(path).decode(errors="replace")
