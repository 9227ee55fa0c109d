"""Documents become stage rows: the one place where rows are made in Python, on the executors, column by column.

Grain of the stage: one row per entity, per finding, and per document (its facts). Messages never leave as Python objects.
A document above `stream_bytes` is opened by the executor and read part by part, twice. Nothing of a document is given out
before it was read to its end, so whatever fails on the way costs that document alone: it is rejected.
"""

from __future__ import annotations

import gc
import hashlib
import os
import posixpath
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import chain
from typing import Any, BinaryIO, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame

from lakehouse.asyncapi.following import NoSuchFile, OpenedFile, OpenFile, no_file
from lakehouse.dialects.detection import (
    COLLECTIONS,
    DRAFT,
    declared_dialect,
    dialect_of,
    has_own_rules,
    is_draft,
    marks_of,
    not_a_registry,
)
from lakehouse.dialects.messagefamilies import Messages
from lakehouse.dialects.tables import NORMAL
from lakehouse.ingest.parse.batches import NotWritable, StageBatches
from lakehouse.ingest.parse.document import (
    NONE,
    Files,
    ParseLimits,
    Rejected,
    Tally,
    fault_of,
    read_document,
    read_up_to,
    wrong_collection,
)
from lakehouse.ingest.parse.draft import read_asyncapi, read_draft
from lakehouse.ingest.parse.readings import Reading, Whole
from lakehouse.ingest.sources import leads_out
from lakehouse.settings import Settings
from lakehouse.store.schema import STAGE
from lakehouse.text.blanking import blank_bytes, blank_text
from lakehouse.text.jsontext import NotJson, pointer_of
from lakehouse.text.names import NO_XID, ROOT, RegistryId, Xid
from lakehouse.text.problems import LIMIT, NO_DOCUMENT, NOT_JSON, Finding, Problem
from lakehouse.text.redact import redact
from lakehouse.text.streams import (
    DocumentPart,
    NotReadable,
    Range,
    TooLong,
    open_document,
    read_chunk,
    read_ranges,
    read_start,
    split_groups,
)
from lakehouse.text.xid import id_problem
from lakehouse.text.yamltext import is_yaml, read_text

DEFAULT_REGISTRY = RegistryId("default")
_RAW_OF_DOCUMENT = 4096


def parse_documents(documents: DataFrame, limits: ParseLimits) -> DataFrame:
    """Parse documents.

    Args:
        documents: one row per document, as from `unchanged.with_unchanged`.
        limits: as from `limits_of`.

    Returns:
        The stage, columns `schema.STAGE`. An unchanged document gives a document row only, with the status `unchanged`.
    """
    return documents.select(*Source._fields).mapInArrow(parser(limits), STAGE)


def limits_of(
    settings: Settings, *, strict: bool = False, dialect: str | None = None, located: Files = NONE, roots: Sequence[str] = ()
) -> ParseLimits:
    """Return the limits from the settings and an ingest's arguments.

    Args:
        settings: that name most of them.
        strict: a document with any error is rejected.
        dialect: read all documents as of this dialect; None detects each one's.
        located: as of `sources.Sources`.
        roots: as of `sources.Sources`.
    """
    return ParseLimits(
        settings.max_document_bytes,
        settings.max_unpacked_bytes,
        settings.max_json_depth,
        settings.max_entities,
        settings.stream_bytes,
        strict,
        dialect,
        dict(located),
        tuple(roots),
    )


def parser(limits: ParseLimits) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function that executors run: batches of documents to batches of the stage."""

    def parse(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        read: list[_Parse] = []
        together = StageBatches()
        for batch in batches:
            for index in range(batch.num_rows):
                source = Source(*(column[index].as_py() for column in batch.columns))
                document = _Parse(source, limits)
                with without_collector():
                    document.run()
                read.append(document)
                together.extend(document.stage)
                if together.is_full or together.spools:
                    yield from _give_out(read, together)
                    read, together = [], StageBatches()
        yield from _give_out(read, together)

    return parse


@contextmanager
def without_collector() -> Iterator[None]:
    """Keep Python from looking for cycles: documents make many objects and no cycle, and looking takes a tenth of the time.

    What was made meanwhile goes to the old objects, unseen: else all of it would be looked through at the end.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.freeze()
            gc.unfreeze()
            gc.enable()


def _give_out(read: list[_Parse], together: StageBatches) -> Iterator[pa.RecordBatch]:
    """Yield the rows of documents; one whose rows cannot be written is rejected, without the others."""
    try:
        yield from together.batches()
    except NotWritable:
        for document in read:
            yield from document.batches()


class Source(NamedTuple):
    """A document as it reaches the executor; columns as from `unchanged.with_unchanged`."""

    document_uri: str
    size: int
    sha256: str | None
    registry: RegistryId | None
    unchanged: bool
    again: bool
    content: bytes | None
    last_sha256: str | None
    last_clean: bool
    named: bool
    last_registry: RegistryId | None = None


# The columns of `Source`.
DOCUMENTS = pa.schema(
    [
        ("document_uri", pa.string()),
        ("size", pa.int64()),
        ("sha256", pa.string()),
        ("registry", pa.string()),
        ("unchanged", pa.bool_()),
        ("again", pa.bool_()),
        ("content", pa.binary()),
        ("last_sha256", pa.string()),
        ("last_clean", pa.bool_()),
        ("named", pa.bool_()),
        ("last_registry", pa.string()),
    ]
)


class _Parse:
    """One document on its way into the stage, and its rows."""

    def __init__(self, source: Source, limits: ParseLimits) -> None:
        self.stage = StageBatches()
        self.source = source
        self.limits = limits
        self.uri = source.document_uri
        self.location = limits.located.get(self.uri, self.uri)
        # Until the document says its registry it is where it was: what is wrong with it is reported there.
        self.registry = source.registry or source.last_registry or DEFAULT_REGISTRY
        self.again = source.again
        self.facts: dict[str, Any] = {"sha256": source.sha256, "size": source.size, "own_registry": source.registry is None}
        self.findings: set[str] = set()  # ids
        self.seen = b""  # the beginning of the text, for the finding of a rejected document

    def run(self) -> None:
        """Read the document into rows; one that cannot be read is rejected, whatever the cause."""
        if self.source.unchanged:
            self._add_facts({"status": "unchanged"})
        else:
            try:
                self._read()
            except NotJson as error:
                rule = LIMIT if "max_json_depth" in str(error) else NOT_JSON
                self._reject(Rejected(rule, blank_text(str(error)), error.hint))
            except NotReadable as error:
                self._reject(Rejected(NOT_JSON, blank_text(str(error)), "Pack or upload the document again."))
            except TooLong:
                message = f"unpacks to more than max_unpacked_bytes ({self.limits.unpacked})"
                self._reject(Rejected(LIMIT, message, "Split it, or raise the limit."))
            except Rejected as rejected:
                self._reject(rejected)
            except Exception as error:
                self._reject(fault_of(error))
        self.source = self.source._replace(content=None)  # it may have to wait for others

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows; if they cannot be written, those of a rejected document."""
        try:
            yield from self.stage.batches()
        except NotWritable as error:
            self._reject(fault_of(error.cause))
            yield from self.stage.batches()

    def _read(self) -> None:
        source, limits = self.source, self.limits
        if source.size > limits.bytes:
            message = f"{source.size} bytes, more than max_document_bytes ({limits.bytes})"
            raise Rejected(LIMIT, message, "Split it, or raise the limit.")
        if source.content is None and self._is_unchanged():
            self._add_facts({"status": "unchanged"})
            return
        with closing(self._open()) as stream:
            text = read_up_to(stream, limits.stream + 1)
            self.seen = text[:_RAW_OF_DOCUMENT]
            if len(text) > limits.stream and is_yaml(self.uri):
                text += read_up_to(stream, limits.unpacked)  # YAML cannot be cut
        if not text:
            self._pass_over("the file is empty")
        elif len(text) <= limits.stream or is_yaml(self.uri):
            self._add_whole(text)
        else:
            del text
            self._add_parts()

    def _open(self) -> BinaryIO:
        return open_document(self.location, self.source.content, self.limits.unpacked)

    def _is_unchanged(self) -> bool:
        """Compare a document that Spark did not read with its last load."""
        sha256 = self.source.sha256 or hash_of(self.location, self.limits)
        self.facts["sha256"] = sha256
        is_same = sha256 == self.source.last_sha256
        self.again = is_same and not self.source.last_clean
        return is_same and self.source.last_clean

    def _add_whole(self, text: bytes) -> None:
        document, problems = read_text(text, self.uri, self.limits.depth)
        forced = self.limits.dialect in OWN_READERS and isinstance(document, dict | list)
        if not forced and (reason := not_a_registry(document, self.limits.dialect)):
            self._pass_over(reason)
            return
        problems += redact(document, None if is_yaml(self.uri) else text)
        if not forced and not is_draft(document):
            _check_collections(document)
        dialect, reading = read_as(
            document, problems, self.uri, self.limits.dialect, open_file=FilesBeside(self.location, self.limits)
        )
        self._name_registry(reading.registryid)
        tally = Tally(self.limits)
        tally.add(reading)
        tally.refuse()
        specversion = document.get("specversion") if isinstance(document, dict) else None
        self._add_reading(reading, draft=dialect == DRAFT)
        self._add_loaded(reading, dialect, specversion)

    def _add_parts(self) -> None:
        """Read a large document part by part; whether it counts is known when all of it was read."""
        parts = Parts.cut(self._open, self.limits)
        if not parts.ranges or self.limits.dialect in OWN_READERS:
            with closing(self._open()) as stream:
                self._add_whole(read_up_to(stream, self.limits.unpacked))
            return
        before = self.registry
        try:
            self._add_groups(parts)
        except NotJson:
            self.registry = before  # a text that is no JSON says nothing
            check_parts(self._open, self.limits)  # whose error has the place in the whole
            raise

    def _add_groups(self, parts: Parts) -> None:
        """Add the root and the groups of a document that was cut."""
        try:
            if reason := not_a_registry(parts.root, self.limits.dialect):
                check_parts(self._open, self.limits)
                self._pass_over(reason)
                return
            parts.redact()
            _check_collections(parts.root)
            dialect = self.limits.dialect or parts.dialect()
            own = parts.root_reading(dialect)
            self._name_registry(own.registryid)
        except Rejected:
            check_parts(self._open, self.limits)  # that it is no JSON counts for more
            raise
        total = Reading(registryid=own.registryid, root=own.root)
        tally = Tally(self.limits)
        for reading in parts.readings(dialect):
            tally.add(reading)
            if not tally.is_over:
                self._add_reading(reading)
                total.add_counts(reading)
                self.stage.spill_when_full()
        tally.refuse()
        self._add_loaded(total, dialect, parts.root.get("specversion"))

    def _name_registry(self, registryid: RegistryId | None) -> None:
        self.registry = self.source.registry or registryid or DEFAULT_REGISTRY
        if self.source.registry is None and (wrong := id_problem(self.registry)):
            raise Rejected("MSG-002", f"registryid: {wrong}", "Fix it, or choose a registry with --registry.")

    def _add_reading(self, reading: Reading, *, draft: bool = False) -> None:
        self.stage.add_entities(self.uri, self.registry, reading.rows, again=self.again, draft=draft)
        self.findings |= {self.stage.add_finding(self.uri, self.registry, finding) for finding in reading.findings}

    def _add_loaded(self, reading: Reading, dialect: str, specversion: Any) -> None:
        self._add_facts(
            {
                "status": "loaded",
                "dialect": dialect,
                "specversion": specversion if isinstance(specversion, str) else None,
                "entities": reading.entities,
                "quarantined": reading.quarantined,
                "spellings": reading.spellings,
                "root": reading.root,
                "findings": sorted(self.findings),
            }
        )

    def _add_facts(self, facts: dict[str, Any]) -> None:
        self.stage.add_facts(self.uri, self.registry, self.facts | facts)

    def _pass_over(self, reason: str) -> None:
        """Skip a file that is not a registry document; one that was named is meant to be one."""
        if self.source.named:
            message = f"it is named as a document, and is none: {reason}"
            raise Rejected(NO_DOCUMENT, message, "Name a registry document, or its folder.")
        self._add_facts({"status": "skipped", "reason": reason})

    def _reject(self, why: Rejected) -> None:
        """Refuse the document whole: nothing of it stays but one finding and its facts.

        One that was loaded stays in its registry with all that is published of it, whichever it names now.
        """
        self.stage.clear()
        self.registry = self.source.last_registry or self.registry
        finding = Finding("", NO_XID, ROOT, why.rule_id, "error", "quarantined", why.message, why.hint, self._raw())
        ids = [self.stage.add_finding(self.uri, self.registry, finding)]
        self._add_facts({"status": "rejected", "reason": why.message, "findings": ids})

    def _raw(self) -> str | None:
        """Return the beginning of the text without secrets; None if it is compressed, where secrets cannot be seen."""
        seen = self.seen or (b"" if self.uri.endswith(".gz") else (self.source.content or b"")[:_RAW_OF_DOCUMENT])
        return blank_bytes(seen) if seen else None


def hash_of(location: str, limits: ParseLimits) -> str:
    """Hash a document as it is stored."""
    digest = hashlib.sha256()
    with closing(open_document(location, None, limits.bytes, packed=True)) as stream:
        while chunk := read_chunk(stream):
            digest.update(chunk)
    return digest.hexdigest()


def _check_collections(document: Any) -> None:
    """Reject a document whose collection of groups or endpoints is not a map: nothing shows which entities are meant."""
    wrong = wrong_collection(document)
    if wrong is not None:
        raise Rejected(wrong.rule_id, wrong.message, wrong.hint)


# Dialects that do not name things as xRegistry does have their own reader.
OWN_READERS: dict[str, Callable[..., Reading]] = {
    DRAFT: lambda document, problems, uri, open_file, rules: read_draft(document, problems, uri, rules=rules),
    **dict.fromkeys(
        ("asyncapi-2", "asyncapi-3"),
        lambda document, problems, uri, open_file, rules: read_asyncapi(
            document, problems, uri, rules=rules, open_file=open_file
        ),
    ),
}


def read_as(
    document: Any,
    problems: list[Problem],
    uri: str,
    dialect: str | None,
    *,
    rules: bool = True,
    open_file: OpenFile = no_file,
) -> tuple[str, Reading]:
    """Read a document in its dialect.

    Args:
        document: the value of its text, for which `not_a_registry` gave None.
        problems: what was found in the text.
        uri: of the document.
        dialect: as which it is to be read; None: as the one that it names, or that its spellings determine.
        rules: apply the rules about one entity too.
        open_file: gives the value of a file next to the document.

    Returns:
        The dialect, and what came out.
    """
    details = dialect or declared_dialect(document)
    if details in OWN_READERS:
        return details, OWN_READERS[details](document, problems, uri, open_file, rules)
    reading = read_document(document, problems, details or "", rules=rules)
    if details is None:
        details = dialect_of(document, reading.spellings)
        if has_own_rules(details):
            reading = read_document(document, problems, details, rules=rules)  # again, now that its own rules are known
    return details, reading


PART_BYTES = 4 << 20
_PLACE = re.compile(r" at line ([0-9]+) column ([0-9]+)\Z")


class Parts:
    """The root of a large document, and where its groups are.

    Args:
        open_text: opens the document as a stream of its text.
        limits: `depth` and `stream` of them.
        root_text: the root, without the groups that were cut out.
        ranges: where the groups are that were cut out; none when there are no groups in maps (an array of groups, say).

    Attributes:
        root: the value of its text; with its secrets until `redact`.
        problems: what was found in the text of the root.

    Raises:
        NotJson: the root is not JSON.
    """

    def __init__(self, open_text: Callable[[], BinaryIO], limits: ParseLimits, root_text: bytes, ranges: list[Range]) -> None:
        self._open = open_text
        self._depth = limits.depth
        self.root_text = root_text
        self.ranges = ranges
        self.root, self.problems = read_text(root_text, "", limits.depth)
        self._messages = Messages(lambda: chain([self.root], self._values()))

    @classmethod
    def cut(cls, open_text: Callable[[], BinaryIO], limits: ParseLimits) -> Parts:
        """Find the groups of a document.

        Raises:
            NotJson: the text is not JSON, as far as it was looked at.
        """
        ranges = []
        try:
            with closing(open_text()) as stream:
                for part in split_groups(stream, _part_size(limits), COLLECTIONS):
                    if part.collection is not None:
                        ranges.append(Range(part.collection, part.start, part.end))
            return cls(open_text, limits, part.text, ranges)
        except NotJson:
            check_parts(open_text, limits)  # reports the first error in the order of the text
            raise

    def redact(self) -> None:
        """Replace the secrets of the root."""
        self.problems += redact(self.root)

    def dialect(self) -> str:
        """Return the dialect of all parts; any of them may determine it."""
        details = declared_dialect(self.root)
        if details:
            return details
        total = Reading()
        for reading in self.readings(NORMAL):
            total.add_counts(reading)
        return dialect_of(self.root, total.spellings, total.marks)

    def root_reading(self, dialect: str) -> Reading:
        """Read the root by itself."""
        return next(self.readings(dialect))

    def readings(self, dialect: str, whole: Whole | None = None) -> Iterator[Reading]:
        """Read the root, then the groups in the order of the document: those that were cut out, and those that stayed with it."""
        root = self.root
        whole = whole or Whole(self._messages.find)
        left = [key for key in root if key in COLLECTIONS and isinstance(root[key], dict) and root[key]]
        inside = {
            key: [problem for problem in self.problems if problem.pointer.startswith(pointer_of(key) + "/")] for key in left
        }
        problems = [problem for problem in self.problems if not any(problem in row for row in inside.values())]
        yield read_document({key: {} if key in left else root[key] for key in root}, problems, dialect, whole=whole)
        order = list(root)
        for collection, text in self._texts():
            while left and order.index(left[0]) < order.index(collection):
                key = left.pop(0)
                yield _read_groups({key: root[key]}, inside[key], dialect, whole)
            yield read_part(text, dialect, whole, self._depth)
        for key in left:
            yield _read_groups({key: root[key]}, inside[key], dialect, whole)

    def find_message(self, xid: Xid) -> dict[str, Any] | None:
        """Return the members of a message that determine its protocol; None if there is no such message."""
        return self._messages.find(xid)

    def _values(self) -> Iterable[Any]:
        """Yield the parts that are cut out of the root as JSON values."""
        return (read_text(text, "", self._depth)[0] for _, text in self._texts())

    def _texts(self) -> Iterator[tuple[str, bytes]]:
        """Yield the collections and texts of the parts that are cut out of the root."""
        with closing(self._open()) as stream:
            yield from read_ranges(stream, self.ranges)


def read_part(text: bytes, dialect: str, whole: Whole, depth: int) -> Reading:
    """Read groups that were cut out of a document."""
    value, result = read_text(text, "", depth)
    marks = marks_of(value)
    reading = _read_groups(value, result + redact(value, text), dialect, whole)
    reading.marks = marks
    return reading


def check_parts(open_text: Callable[[], BinaryIO], limits: ParseLimits) -> None:
    """Read all parts of a document strictly.

    Raises:
        NotJson: one of them is not JSON; it has the place in the document.
    """
    with closing(open_text()) as stream:
        for part in split_groups(stream, _part_size(limits), COLLECTIONS):
            _check_part(part, open_text, limits)


def _check_part(part: DocumentPart, open_text: Callable[[], BinaryIO], limits: ParseLimits) -> None:
    try:
        read_text(part.text, "", limits.depth)
    except NotJson as error:
        raise _placed(error, part, open_text) from error


def _placed(error: NotJson, part: DocumentPart, open_text: Callable[[], BinaryIO]) -> NotJson:
    """Return the error of a part with its position in the document; without one in the root, from which parts were cut."""
    match = _PLACE.search(str(error))
    if match is None:
        return error
    details = str(error)[: match.start()]
    if part.collection is None:
        return NotJson(f"{details} outside the groups", error.hint)
    line, column = int(match[1]), int(match[2])
    lines, last_length = 0, 0
    with closing(open_text()) as stream:
        for chunk in read_start(stream, part.start):
            lines += chunk.count(b"\n")
            after = chunk.rfind(b"\n") + 1
            last_length = len(chunk) - after + (0 if after else last_length)
    if line == 1:
        column += last_length - part.text.index(b"{", 1) - 1
    return NotJson(f"{details} at line {lines + line} column {column}", error.hint)


def _part_size(limits: ParseLimits) -> int:
    return min(PART_BYTES, limits.stream)


def _read_groups(document: dict[str, Any], problems: list[Problem], dialect: str, whole: Whole) -> Reading:
    """Read groups of a large document, whose root is read by itself."""
    reading = read_document(document, problems, dialect, whole=whole)
    reading.rows = [row for row in reading.rows if row.kind != "registry"]
    del reading.entities["registries"]
    reading.spellings = Counter({name: n for name, n in reading.spellings.items() if not name.startswith("registry: ")})
    return reading


_TEXTS = (".proto", ".xsd", ".raml")


class FilesBeside:
    """Reads files by their paths relative to a document.

    Args:
        location: URI of the document's file.
        limits: how large a file may be, and the folders out of which none is read.
    """

    def __init__(self, location: str, limits: ParseLimits) -> None:
        self._folder = location.rpartition("/")[0]
        self._limits = limits
        enclosing = [root.rstrip("/") for root in limits.roots if self._is_below(location, root.rstrip("/"))]
        self._root = min(enclosing, key=len) if enclosing else self._folder

    def __call__(self, path: str) -> OpenedFile:
        """Read a file: the value of JSON or YAML, the text of anything else, without its secrets.

        Raises:
            NoSuchFile: it is not there, too large, not readable, or outside.
        """
        scheme, colon, folder = self._folder.partition(":")
        uri = f"{scheme}{colon}{posixpath.normpath(posixpath.join(folder, path))}"
        if not self._is_below(uri, self._root) or leads_out(uri, self._root):
            raise NoSuchFile("the file is not in the SOURCE")
        if scheme == "file" and not os.path.isfile("/" + uri.removeprefix("file:").lstrip("/")):
            raise NoSuchFile("there is no such file")
        try:
            with closing(open_document(uri, None, self._limits.unpacked)) as stream:
                text = read_up_to(stream, self._limits.stream + 1)
        except (NotReadable, TooLong, OSError) as error:
            raise NoSuchFile("the file cannot be read") from error
        if len(text) > self._limits.stream:
            raise NoSuchFile(f"the file is larger than stream_bytes ({self._limits.stream})")
        try:
            value, problems = read_text(text, uri, self._limits.depth)
        except NotJson as error:
            if is_yaml(uri) or not uri.endswith(_TEXTS):
                raise NoSuchFile("the file is neither JSON nor YAML") from error
            texts = [text.decode(errors="replace")]
            problems = [problem._replace(pointer=ROOT) for problem in redact(texts)]
            return OpenedFile(texts[0], problems)
        return OpenedFile(value, problems + redact(value))

    @staticmethod
    def _is_below(uri: str, folder: str) -> bool:
        return uri.startswith(folder + "/")
