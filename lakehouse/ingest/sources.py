"""Sources: which documents an ingest reads, and what is known of them from the last one.

A SOURCE is a file, a folder (searched recursively), a glob, or any URI that Spark's Hadoop filesystems read. Spark lists,
reads and hashes them; only a document that changed, or of which something was refused, goes on to be parsed.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.errors import SourceNotFound
from lakehouse.ingest.folders import Hidden, is_document, is_hidden, is_readable, look_into
from lakehouse.store.frames import can_skip
from lakehouse.store.jvm import java_class
from lakehouse.store.session import absolute_location
from lakehouse.text.problems import OWNER_CHANGED, REGAINED

NAME_PATTERN = "*.{json,cereg,yaml,yml,json.gz,cereg.gz,yaml.gz,yml.gz}"
_FEW_DOCUMENTS = 1000  # that are named to Spark one by one
_GLOB = re.compile(r"[*?\[{]")
# What a search of a folder lists below it, as a regular expression of Java.
_LISTED = r"(?:[^_./][^/]*/)*[^_./][^/]*\.(?:json|cereg|ya?ml)(?:\.gz)?"
# Findings that ask for nothing: what they are about is published as the document says.
TOLD_ONLY = (OWNER_CHANGED, REGAINED)
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
            itself.
        hidden: what is not read, and why (local folders only, and what a glob matches).
        named: files that were named, and not only found in a folder or by a glob.
        empty: empty files as far as they are known: Spark does not list them.
        unreadable: files that may not be read, with their sizes: the parser finds that out, one by one.
    """

    folders: list[str]
    files: list[str]
    roots: list[str]
    hidden: list[Hidden]
    scopes: list[str] = field(default_factory=list)
    named: list[str] = field(default_factory=list)
    empty: list[str] = field(default_factory=list)
    unreadable: list[tuple[str, int]] = field(default_factory=list)

    def is_named(self) -> Column:
        """Tell of each document (column document_uri) whether it was named."""
        every = {*self.files, *self.empty, *(uri for uri, _ in self.unreadable)}
        if not self.folders and every <= set(self.named):
            return F.lit(True)
        return F.col("document_uri").isin(self.named) if self.named else F.lit(False)


def find_sources(spark: SparkSession, sources: list[str]) -> Sources:
    """Look up the sources.

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
    scopes: list[str] = []
    for source in sources:
        statuses, scope = _statuses(spark, source)
        scopes.append(scope)
        for found in statuses:
            roots.add(found.root)
            if found.is_folder:
                folders.add(found.uri)
            elif is_hidden(found.uri.rsplit("/", 1)[-1]):
                reason = "Hadoop hides names that start with _ or ."
                if found.is_named:
                    raise SourceNotFound(source, f"{reason} Rename it.")
                hidden.append(Hidden(found.uri, reason))
            else:
                named |= {found.uri} if found.is_named else set()
                if is_readable(found.uri):
                    (files if found.size else empty).add(found.uri)
                else:
                    unreadable[found.uri] = found.size
    for folder in sorted(folders):
        if _stands_in(folder, folders - {folder}):
            folders.remove(folder)
            continue
        inside = look_into(folder)
        hidden.extend(inside.hidden)
        empty.update(inside.empty)
        if inside.unreadable or not inside.is_tree:  # Spark would end there, or go round in circles
            folders.remove(folder)
            files.update(inside.files)
            unreadable.update(inside.unreadable)
    listed = [file for file in sorted(files - set(unreadable)) if not (is_document(file) and _stands_in(file, folders))]
    return Sources(
        sorted(folders),
        listed,
        sorted(roots, key=len, reverse=True),
        hidden,
        scopes,
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
        NULL for a document above `stream_bytes` or one that may not be read.
    """
    parts = []
    empty = set(sources.empty)
    if sources.folders:
        reader = spark.read.format("binaryFile").option("recursiveFileLookup", "true").option("pathGlobFilter", NAME_PATTERN)
        parts.append(reader.load([_no_glob(folder) for folder in sources.folders]))
        if not all(folder.startswith("file:") for folder in sources.folders):
            empty |= set(empty_files(parts[0]))
    if sources.files:
        parts.append(spark.read.format("binaryFile").load([_no_glob(file) for file in sources.files]))
    unread: list[tuple[str, int, str | None, bytearray | None]] = [(uri, 0, _NOTHING, bytearray()) for uri in sorted(empty)]
    unread += [(uri, size, None, None) for uri, size in sources.unreadable]
    made = [spark.createDataFrame(unread, _DOCUMENTS)] if unread or not parts else []
    return reduce(DataFrame.unionByName, [*([_read(parts, stream_bytes)] if parts else []), *made])


def _read(parts: list[DataFrame], stream_bytes: int) -> DataFrame:
    every = reduce(DataFrame.unionByName, parts)
    named = [F.col("path").alias("document_uri"), F.col("length").alias("size")]
    # Two branches: Spark then reads no content of what is filtered out by length.
    small = every.filter(F.col("length") <= stream_bytes).select(*named, F.sha2("content", 256).alias("sha256"), "content")
    none = {"sha256": F.lit(None).cast("string"), "content": F.lit(None).cast("binary")}
    return small.unionByName(every.filter(F.col("length") > stream_bytes).select(*named).withColumns(none))


def empty_files(listed: DataFrame) -> list[str]:
    """Give the URIs of the empty files among those that Spark listed for a DataFrame of files; it has no rows of them.

    Spark's listing is asked as one text, since asking for each of thousands of files takes seconds.
    """
    plan: Any = listed._jdf.queryExecution().analyzed()
    statuses = plan.collectLeaves().head().relation().location().allFiles().mkString("\n")
    return re.findall(r"FileStatus\{path=(.*?); isDirectory=false; length=0; ", statuses)


def with_unchanged(
    documents: DataFrame,
    known: DataFrame,
    registry: Column | None,
    is_named: Column | None = None,
    *,
    force: bool = False,
    dialect: str | None = None,
) -> DataFrame:
    """Tell which documents need not be parsed: same URI and hash as at the last load, and nothing to be looked at again.

    Args:
        documents: as from `read_documents`.
        known: one row per document and registry, as from `current_documents`.
        registry: registry that the documents go into; None when each document says it itself.
        is_named: tells documents that were named; such a one that was passed over in a folder is looked at again. None: none was.
        force: parse all of them.
        dialect: parse, too, what was read as of another dialect at its last load.

    Returns:
        `documents` with registry, unchanged, again (the same as at the last load, and parsed all the same), content (NULL for
        an unchanged document), last_sha256, last_clean (hash at the last load, and whether a document with that hash need not
        be parsed), for documents whose hash is not known yet, named, and last_registry (where a document that says its
        registry itself was loaded last).
    """
    is_named = F.lit(False) if is_named is None else is_named
    skipped = F.col("facts.status") == "skipped"
    uri, own = F.col("xid").alias("_uri"), F.when(F.col("facts.own_registry"), F.lit(None)).otherwise(F.col("registryid"))
    clean = needs_no_look("facts") & F.lit(not force)
    is_same_dialect = F.lit(True) if dialect is None else F.coalesce(F.col("facts.dialect") == dialect, F.lit(False))
    sha256 = F.when(is_same_dialect, F.col("facts.sha256"))
    load = F.struct("snapshot_id", sha256.alias("sha256"), clean.alias("clean"), skipped.alias("skipped"), "registryid")
    last = known.groupBy(uri, own.alias("_registry")).agg(F.max(load).alias("last"))
    wanted = documents.withColumn("registry", F.lit(None).cast("string") if registry is None else registry)
    same_place = (F.col("document_uri") == F.col("_uri")) & F.col("registry").eqNullSafe(F.col("_registry"))
    same = F.coalesce(F.col("sha256") == F.col("last.sha256"), F.lit(False))
    clean = F.coalesce(F.col("last.clean") & ~(is_named & F.col("last.skipped")), F.lit(False))
    return wanted.join(last, on=same_place, how="left").select(
        "document_uri",
        "size",
        "sha256",
        "registry",
        (same & clean).alias("unchanged"),
        (same & ~clean).alias("again"),
        F.when(~(same & clean), F.col("content")).alias("content"),
        F.col("last.sha256").alias("last_sha256"),
        clean.alias("last_clean"),
        F.when(F.col("registry").isNull(), F.col("last.registryid")).alias("last_registry"),
        is_named.alias("named"),
    )


def needs_no_look(facts: str) -> Column:
    """Tell of a document's facts that nothing was refused at its last load, and that all it says is published."""
    nothing_refused = (F.col(f"{facts}.status") != "rejected") & (F.coalesce(F.size(f"{facts}.quarantined"), F.lit(0)) <= 0)
    waits = F.exists(F.col(f"{facts}.disputes"), lambda one: ~F.coalesce(one["rule_id"], F.lit("")).isin(*TOLD_ONLY))
    return nothing_refused & ~F.coalesce(waits, F.lit(False))


def without_content_of_unchanged(
    spark: SparkSession,
    sources: Sources,
    known: DataFrame,
    registry: Column | None,
    stream_bytes: int,
    *,
    force: bool = False,
    dialect: str | None = None,
) -> tuple[DataFrame, int | None]:
    """Read the documents, and open no unchanged one again once it was hashed.

    Args:
        spark: the session.
        sources: as from `find_sources`.
        known: as from `current_documents`.
        registry: as for `with_unchanged`.
        stream_bytes: as for `read_documents`.
        force: as for `with_unchanged`.
        dialect: as for `with_unchanged`.

    Returns:
        Rows as from `with_unchanged`, and when all documents are unchanged how many they are, else None.
    """
    documents = read_documents(spark, sources, stream_bytes)
    every = with_unchanged(documents, known, registry, sources.is_named(), force=force, dialect=dialect)
    if force or can_skip(known):
        return every, None
    told = every.drop("content").localCheckpoint()
    first = told.filter(~F.col("unchanged")).select("document_uri", "size").limit(_FEW_DOCUMENTS + 1).collect()
    if len(first) > _FEW_DOCUMENTS:
        return every, None
    unchanged = told.filter("unchanged").withColumn("content", F.lit(None).cast("binary"))
    if not first:
        return unchanged, told.count()
    changed = {row["document_uri"]: row["size"] for row in first}
    unreadable = [one for one in sources.unreadable if one[0] in changed]
    files = [uri for uri, size in changed.items() if size and (uri, size) not in unreadable]
    empty = [uri for uri, size in changed.items() if not size]
    few = replace(sources, folders=[], files=files, empty=empty, unreadable=unreadable)
    again = with_unchanged(read_documents(spark, few, stream_bytes), known, registry, few.is_named(), dialect=dialect)
    return unchanged.unionByName(again), None


def registry_from_path(mode: str, roots: list[str]) -> Column:
    """Name a document's registry after its path (decision 2): `document`, the path without suffixes; `folder`, its folder.

    A document that stands directly in its SOURCE has no folder below it and goes into `default`.
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


class _Found(NamedTuple):
    """A file or folder that a source names itself, or by a glob; `root` is the URI that paths are relative to."""

    uri: str
    is_folder: bool
    size: int
    root: str
    is_named: bool


def _statuses(spark: SparkSession, source: str) -> tuple[list[_Found], str]:
    """Look up a source, and what it covers: see `Sources.scopes`."""
    local = absolute_location(source) if "://" not in source and not source.startswith("file:") else source
    jvm: Any = spark._jvm
    assert jvm is not None
    path = java_class(jvm, "org.apache.hadoop.fs.Path")(local)
    try:
        filesystem = path.getFileSystem(spark._jsc.hadoopConfiguration())
        if filesystem.exists(path):
            status = filesystem.getFileStatus(path)
            uri = status.getPath().toString()
            is_folder = status.isDirectory()
            scope = rf"\A{_quoted(uri.rstrip('/'))}/{_LISTED}\z" if is_folder else rf"\A{_quoted(uri)}\z"
            return [_Found(uri, is_folder, status.getLen(), uri if is_folder else uri.rsplit("/", 1)[0], True)], scope
        fixed = _GLOB.split(local, maxsplit=1)[0]
        if fixed == local:
            raise SourceNotFound(source, "no such file or folder. Name a file, a folder, a glob, or a URI that Spark reads.")
        base = filesystem.makeQualified(java_class(jvm, "org.apache.hadoop.fs.Path")(fixed.rsplit("/", 1)[0] or "/")).toString()
        pattern = base.rstrip("/") + local[len(fixed.rsplit("/", 1)[0]) :]
        found = [
            _Found(status.getPath().toString(), status.isDirectory(), status.getLen(), base, False)
            for status in filesystem.globStatus(path) or []
        ]
    except SourceNotFound:
        raise
    except Exception as error:
        told = str(getattr(error, "java_exception", error)).splitlines()[0]
        raise SourceNotFound(source, f"cannot be read: {told}") from error
    if not found:
        raise SourceNotFound(source, "the glob matches nothing.")
    return found, rf"\A{_as_regex(pattern)}(/{_LISTED})?\z"


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
    return any(path.startswith(folder.rstrip("/") + "/") for folder in folders)


def _no_glob(path: str) -> str:
    """Escape what Spark's reader would take for a glob: the path names one file or folder."""
    return re.sub(r"([\[\]{}*?\\])", r"\\\1", path)
