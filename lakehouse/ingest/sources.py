"""Sources: which documents an ingest reads.

A SOURCE is a file, a folder (searched recursively), a glob, or any URI that Spark's Hadoop filesystems read. Spark lists, reads
and hashes them; what a local folder holds that Spark would pass over without a word is reported.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
from dataclasses import dataclass, field
from functools import reduce
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F

from lakehouse.errors import SourceNotFound
from lakehouse.store.internals.hadoop import filesystem_of
from lakehouse.store.internals.plans import empty_files
from lakehouse.store.localpaths import local_path, no_glob
from lakehouse.store.session import absolute_location
from lakehouse.text.documentnames import is_document

NAME_PATTERN = "*.{json,cereg,yaml,yml,json.gz,cereg.gz,yaml.gz,yml.gz}"
# What a search of a folder lists below it, as a regular expression of Java.
_LISTED = r"(?:[^_./][^/]*/)*[^_./][^/]*\.(?:json|cereg|ya?ml)(?:\.gz)?"
_DOCUMENTS = "document_uri string, size long, sha256 string, content binary"
_NOTHING = hashlib.sha256(b"").hexdigest()


@dataclass(frozen=True)
class Sources:
    """The sources of an ingest.

    Attributes:
        folders: folders that are searched recursively.
        files: single files, whatever their names.
        roots: for each source the URI that document paths are relative to, longest first.
        scopes: regular expressions (Java) for the URIs that each source covers: a known document that one of them matches and
            that is not found any more has vanished. A folder covers what a search of it lists, a glob what it matches, a file
            itself; none covers what is in a folder that cannot be read.
        hidden: what is not read, and why (local folders only, and what a glob matches).
        named: files that were named, and not only found in a folder or by a glob.
        empty: empty files as far as they are known: Spark does not list them.
        unreadable: files that may not be read, with their sizes: the parser finds that out, one by one.
        located: documents that are known under another URI than that of their file, as what was fetched from a server is: that
            URI → URI of the file. `files`, `empty` and `named` hold the URIs of the files.
    """

    folders: list[str]
    files: list[str]
    roots: list[str]
    hidden: list[Hidden]
    scopes: list[str] = field(default_factory=list)
    named: list[str] = field(default_factory=list)
    empty: list[str] = field(default_factory=list)
    unreadable: list[tuple[str, int]] = field(default_factory=list)
    located: dict[str, str] = field(default_factory=dict)

    def is_named(self) -> Column:
        """Return a column that is true for documents (column document_uri) that were named."""
        every = {*self.files, *self.empty, *(uri for uri, _ in self.unreadable)}
        if not self.folders and every <= set(self.named):
            return F.lit(True)
        return F.col("document_uri").isin(self.named) if self.named else F.lit(False)


def find_sources(spark: SparkSession, sources: list[str]) -> Sources:
    """Find the documents of the sources.

    Raises:
        SourceNotFound: one of them names nothing.
    """
    folders: set[str] = set()
    files: set[str] = set()
    roots: set[str] = set()
    hidden: list[Hidden] = []
    named: set[str] = set()
    empty: set[str] = set()
    unreadable: dict[str, int] = {}
    closed: set[str] = set()
    scopes: list[str] = []
    for source in sources:
        statuses, scope = _statuses(spark, source)
        scopes.append(scope)
        outside = {entry for entry in statuses if not entry.is_named and leads_out(entry.uri, entry.root)}
        hidden += [Hidden(entry.uri, LEADS_OUT) for entry in statuses if entry in outside]
        for entry in (entry for entry in statuses if entry not in outside):
            roots.add(entry.root)
            if entry.is_folder:
                folders.add(entry.uri)
            elif (reason := _refused_name(entry.uri)) is not None:
                if entry.is_named:
                    raise SourceNotFound(source, f"{reason}. Rename it.")
                hidden.append(Hidden(entry.uri, reason))
            else:
                named |= {entry.uri} if entry.is_named else set()
                if is_readable(entry.uri):
                    (files if entry.size else empty).add(entry.uri)
                else:
                    unreadable[entry.uri] = entry.size
    for folder in sorted(folders):
        if _stands_in(folder, folders - {folder}):
            folders.remove(folder)
            continue
        inside = look_into(folder)
        if folder in inside.closed:
            raise SourceNotFound(folder, inside.hidden[0].reason)
        hidden.extend(inside.hidden)
        empty.update(inside.empty)
        closed.update(inside.closed)
        if inside.unreadable or inside.closed or not inside.is_tree:  # Spark would end there, or go round in circles
            folders.remove(folder)
            files.update(inside.files)
            unreadable.update(inside.unreadable)
    listed = [file for file in sorted(files - set(unreadable)) if not (is_document(file) and _stands_in(file, folders))]
    return Sources(
        sorted(folders),
        listed,
        sorted(roots, key=len, reverse=True),
        [file for file in hidden if not _is_read(file, files, folders)],
        [_without(scope, sorted(closed)) for scope in scopes],
        sorted(named),
        sorted(empty),
        sorted(unreadable.items()),
    )


def read_documents(spark: SparkSession, sources: Sources, stream_bytes: int) -> DataFrame:
    """Read the documents of the sources.

    Args:
        spark: the session.
        sources: as from `find_sources`.
        stream_bytes: size above which the executor that parses a document opens it itself.

    Returns:
        One row per document: document_uri, size (bytes as stored), sha256 (hexadecimal) and content (bytes as stored), both
        NULL for a document above `stream_bytes` or one that may not be read. None of a file that was taken away meanwhile.
    """
    parts = []
    empty = set(sources.empty)
    if sources.folders:
        reader = _reader(spark).option("recursiveFileLookup", "true").option("pathGlobFilter", NAME_PATTERN)
        parts.append(reader.load([no_glob(folder) for folder in sources.folders]))
        if not all(folder.startswith("file:") for folder in sources.folders):
            empty |= set(empty_files(parts[0]))
    if files := [no_glob(file) for file in sources.files if not is_gone(file)]:
        parts.append(_reader(spark).load(files))
    unread: list[tuple[str, int, str | None, bytearray | None]] = [(uri, 0, _NOTHING, bytearray()) for uri in sorted(empty)]
    unread += [(uri, size, None, None) for uri, size in sources.unreadable]
    made = [spark.createDataFrame(unread, _DOCUMENTS)] if unread or not parts else []
    read = reduce(DataFrame.unionByName, [*([_read(parts, stream_bytes)] if parts else []), *made])
    if not sources.located:
        return read
    uri_of = F.create_map(*(F.lit(part) for uri, file in sources.located.items() for part in (file, uri)))
    return read.withColumn("document_uri", F.coalesce(uri_of[F.col("document_uri")], F.col("document_uri")))


def _reader(spark: SparkSession) -> DataFrameReader:
    return spark.read.format("binaryFile").option("ignoreMissingFiles", "true")


def _read(parts: list[DataFrame], stream_bytes: int) -> DataFrame:
    every = reduce(DataFrame.unionByName, parts)
    named = [F.col("path").alias("document_uri"), F.col("length").alias("size")]
    # Two branches: Spark then reads no content of what is filtered out by length.
    small = every.filter(F.col("length") <= stream_bytes).select(*named, F.sha2("content", 256).alias("sha256"), "content")
    none = {"sha256": F.lit(None).cast("string"), "content": F.lit(None).cast("binary")}
    return small.unionByName(every.filter(F.col("length") > stream_bytes).select(*named).withColumns(none))


def registry_from_path(mode: str, roots: list[str]) -> Column:
    """Return a document's registry by its path (decision 2): `document`, the path without suffixes; `folder`, its folder.

    A document that is directly in its SOURCE has no folder below it and goes into `default`.
    """
    uri = F.col("document_uri")
    relative = uri
    for root in reversed(roots):  # the longest root is looked at first, so it is wrapped last
        below = root.rstrip("/") + "/"
        relative = F.when(uri.startswith(below), F.substring(uri, len(below) + 1, 2**31 - 1)).otherwise(relative)
    relative = F.regexp_replace(relative, r"\A/+", "")
    if mode == "document":
        return F.regexp_replace(relative, r"(\.xreg|\.cereg)?(\.json|\.cereg|\.ya?ml)?(\.gz)?\z", "")
    folder = F.regexp_replace(relative, r"/?[^/]*\z", "")
    return F.when(folder == "", F.lit("default")).otherwise(folder)


class _SourceEntry(NamedTuple):
    """A file or folder that a source names itself, or by a glob; `root` is the URI that paths are relative to."""

    uri: str
    is_folder: bool
    size: int
    root: str
    is_named: bool


def _statuses(spark: SparkSession, source: str) -> tuple[list[_SourceEntry], str]:
    """Return the files of a source, and the scope that it covers, as in `Sources.scopes`."""
    local = absolute_location(source) if "://" not in source and not source.startswith("file:") else source
    try:
        files = filesystem_of(spark, local)
        status = files.entry(local)
        if status is not None:
            uri, is_folder = status.uri, status.is_folder
            scope = rf"\A{_quoted(uri.rstrip('/'))}/{_LISTED}\z" if is_folder else rf"\A{_quoted(uri)}\z"
            return [_SourceEntry(uri, is_folder, status.size, uri if is_folder else uri.rsplit("/", 1)[0], True)], scope
        fixed = GLOB.split(local, maxsplit=1)[0]
        if fixed == local:
            raise SourceNotFound(source, NOT_THERE)
        above = fixed.rsplit("/", 1)[0]
        base = files.qualified(above or "/")
        pattern = base.rstrip("/") + local[len(above) :]
        entries = [
            _SourceEntry(status.uri, status.is_folder, status.size, base, False)
            for status in files.matches(local, base, _as_regex(pattern))
        ]
    except SourceNotFound:
        raise
    except Exception as error:
        if _IS_COLON in str(error):
            raise SourceNotFound(source, f"{COLON}, nor matches a glob where one is. Rename it, or name the folder.") from error
        message = str(getattr(error, "java_exception", error)).splitlines()[0]
        raise SourceNotFound(source, f"cannot be read: {message}") from error
    if not entries:
        raise SourceNotFound(source, NO_MATCH)
    return entries, rf"\A{_as_regex(pattern)}(/{_LISTED})?\z"


def _without(scope: str, closed: list[str]) -> str:
    """Return a scope without some files and folders."""
    if not closed:
        return scope
    closed_uris = "|".join(_quoted(uri) for uri in closed)
    return rf"\A(?!(?:{closed_uris})(?:/|\z)){scope.removeprefix(chr(92) + 'A')}"


def _quoted(text: str) -> str:
    """Quote a text for a regular expression of Java."""
    return re.sub(r"([^\w/])", r"\\\1", text, flags=re.ASCII)


def _as_regex(glob: str) -> str:
    """Turn a glob of Hadoop into a regular expression of Java; a wildcard stands for no slash."""
    pieces: list[str] = []
    depth = at = 0
    while at < len(glob):
        mark = glob[at]
        members = re.compile(r"\[([!^]?)((?:\\.|[^\]\\])+)\]").match(glob, at)
        if members:
            listed = re.sub(r"([&\[])", r"\\\1", members[2])
            pieces.append(f"[^{listed}]" if members[1] else f"[{listed}]")
            at = members.end()
            continue
        if mark == "\\" and at + 1 < len(glob):
            at += 1
            pieces.append(_quoted(glob[at]))
        elif mark in "*?":
            pieces.append("[^/]*" if mark == "*" else "[^/]")
        elif mark == "{":
            depth += 1
            pieces.append("(?:")
        elif mark == "}" and depth:
            depth -= 1
            pieces.append(")")
        else:
            pieces.append("|" if mark == "," and depth else _quoted(mark))
        at += 1
    return "".join(pieces)


def _stands_in(path: str, folders: set[str]) -> bool:
    """Return whether a search of one of the folders finds a file or folder: none of the folders between is hidden."""
    above = [folder.rstrip("/") + "/" for folder in folders]
    return any(path.startswith(prefix) and not any(map(is_hidden, path[len(prefix) :].split("/"))) for prefix in above)


def _is_read(hidden: Hidden, files: set[str], folders: set[str]) -> bool:
    """Return whether another source names a file, or a folder above it, that a search skips by its name."""
    uri = f"file:{hidden.path}"
    return hidden.reason == HIDDEN_NAME and (uri in files or _stands_in(uri, folders))


HIDDEN_NAME = "Hadoop hides names that start with _ or a dot"
COLON = "Hadoop reads no file with a colon in its name"
_IS_COLON = "Relative path in absolute URI"  # what Hadoop says of such a name
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


def _refused_name(uri: str) -> str | None:
    """Return why Hadoop does not read a file, by its name; None: it does."""
    name = uri.rsplit("/", 1)[-1]
    if is_hidden(name):
        return HIDDEN_NAME
    return COLON if ":" in name and uri.startswith("file:") else None


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


def _look(folder: str, inside: Inside, parents: list[str], *, hidden: bool) -> None:
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as error:
        inside.hidden.append(Hidden(_printable(folder), f"the folder cannot be read: {error.strerror}"))
        inside.closed.append(f"file:{folder}")
        return
    for entry in entries:
        is_link = entry.is_symlink()
        if is_link and os.path.exists(entry.path) and not _is_within(os.path.realpath(entry.path), parents[0]):
            if os.path.isdir(entry.path) or is_document(entry.name):
                inside.is_tree = False
                inside.closed.append(f"file:{entry.path}")
                inside.hidden.append(Hidden(_printable(entry.path), LEADS_OUT))
        elif os.path.isdir(entry.path) if is_link else entry.is_dir(follow_symlinks=False):
            real = os.path.realpath(entry.path) if is_link else f"{parents[-1]}/{entry.name}"
            if real in parents:
                inside.is_tree = False
                inside.hidden.append(Hidden(_printable(entry.path), "a link to a folder around it"))
            else:
                _look(entry.path, inside, [*parents, real], hidden=hidden or is_hidden(entry.name))
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
    elif _refused_name(uri) is not None:
        inside.hidden.append(Hidden(path, COLON))
        inside.closed.append(uri)
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
