"""Documents become stage rows: the one place where rows are made in Python, on the executors, column by column.

Grain of the stage: one row per entity, per finding, and per document (its facts). Messages never leave as Python objects.
A document above `stream_bytes` is opened by the executor and read part by part, twice. Nothing of a document is given out
before it was read to its end, so whatever fails on the way costs that document alone: it is rejected.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from functools import partial
from itertools import chain
from typing import Any, BinaryIO, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame

from lakehouse.dialects.detection import COLLECTIONS, DRAFT, dialect_of, is_draft, marks_of, not_a_registry, told_dialect
from lakehouse.dialects.protocols import FindMessage, Messages
from lakehouse.dialects.tables import NORMAL, table
from lakehouse.ingest.parse.batches import NotWritable, StageBatches
from lakehouse.ingest.parse.document import read_document, wrong_collection
from lakehouse.ingest.parse.draft import read_draft
from lakehouse.ingest.parse.limits import Limits, Rejected, fault_of, read_up_to
from lakehouse.ingest.parse.readings import Reading, Whole
from lakehouse.settings import Settings
from lakehouse.store.schema import STAGE
from lakehouse.text.blanking import blank_bytes, blank_text
from lakehouse.text.jsontext import NotJson, pointer_of
from lakehouse.text.problems import LIMIT, NO_DOCUMENT, NOT_JSON, STRICT, Finding, Problem
from lakehouse.text.redact import redact
from lakehouse.text.streams import NotReadable, TooLong, open_document, read_chunk, split_groups
from lakehouse.text.xid import id_problem
from lakehouse.text.yamltext import is_yaml, read_text

DEFAULT_REGISTRY = "default"
_RAW_OF_DOCUMENT = 4096
_ERRORS_TOLD = 20
_PART_BYTES = 4 << 20
_SMALLEST_ENTITY = len('"a":{},')


def parse_documents(documents: DataFrame, settings: Settings, *, strict: bool = False, dialect: str | None = None) -> DataFrame:
    """Parse documents.

    Args:
        documents: one row per document, as from `documents.with_unchanged`.
        settings: its limits.
        strict: a document with any error is rejected.
        dialect: read all documents as of this dialect; None detects each one's.

    Returns:
        The stage, columns `model.STAGE`. An unchanged document gives a document row only, with the status `unchanged`.
    """
    limits = Limits(
        settings.max_document_bytes,
        settings.max_unpacked_bytes,
        settings.max_json_depth,
        settings.max_entities,
        settings.stream_bytes,
        strict,
        dialect,
    )
    return documents.select(*Source._fields).mapInArrow(parser(limits), STAGE)


def parser(limits: Limits) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Give the function that an executor runs: batches of documents in, batches of the stage out."""

    def parse(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        read: list[_Parse] = []
        together = StageBatches()
        for batch in batches:
            for index in range(batch.num_rows):
                source = Source(*(column[index].as_py() for column in batch.columns))
                document = _Parse(source, limits)
                document.run()
                read.append(document)
                together.extend(document.stage)
                if together.is_full or together.spools:
                    yield from _give_out(read, together)
                    read, together = [], StageBatches()
        yield from _give_out(read, together)

    return parse


def _give_out(read: list[_Parse], together: StageBatches) -> Iterator[pa.RecordBatch]:
    """Give the rows of documents; one whose rows cannot be written is rejected, and the others are given."""
    try:
        yield from together.batches()
    except NotWritable:
        for document in read:
            yield from document.batches()


class Source(NamedTuple):
    """A document as it reaches the executor; columns as from `documents.with_unchanged`."""

    document_uri: str
    size: int
    sha256: str | None
    registry: str | None
    unchanged: bool
    again: bool
    content: bytes | None
    last_sha256: str | None
    last_clean: bool
    named: bool
    last_registry: str | None = None


class _Parse:
    """One document on its way into the stage, and its rows."""

    def __init__(self, source: Source, limits: Limits) -> None:
        self.stage = StageBatches()
        self.source = source
        self.limits = limits
        self.uri = source.document_uri
        # Until the document says its registry it is where it was: what is wrong with it is told there.
        self.registry = source.registry or source.last_registry or DEFAULT_REGISTRY
        self.again = source.again
        self.facts: dict[str, Any] = {"sha256": source.sha256, "size": source.size, "own_registry": source.registry is None}
        self.findings: set[str] = set()  # ids
        self.seen = b""  # the beginning of the text, to be told when the document is refused whole

    def run(self) -> None:
        """Read the document into rows; one that cannot be read is rejected, whatever the cause."""
        if self.source.unchanged:
            self._add_facts({"status": "unchanged"})
        else:
            try:
                self._read()
            except NotJson as error:
                rule = LIMIT if "max_json_depth" in str(error) else NOT_JSON
                self._reject(Rejected(rule, blank_text(str(error)), "Mend the document; nothing of it was loaded."))
            except NotReadable as error:
                self._reject(Rejected(NOT_JSON, blank_text(str(error)), "Pack or upload the document again."))
            except TooLong:
                told = f"unpacks to more than max_unpacked_bytes ({self.limits.unpacked})"
                self._reject(Rejected(LIMIT, told, "Split it, or raise the limit."))
            except Rejected as rejected:
                self._reject(rejected)
            except Exception as error:
                self._reject(fault_of(error))
        self.source = self.source._replace(content=None)  # it may have to wait for others

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Give the rows; when they cannot be written, those of a rejected document."""
        try:
            yield from self.stage.batches()
        except NotWritable as error:
            self._reject(fault_of(error.cause))
            yield from self.stage.batches()

    def _read(self) -> None:
        source, limits = self.source, self.limits
        if source.size > limits.bytes:
            told = f"{source.size} bytes, more than max_document_bytes ({limits.bytes})"
            raise Rejected(LIMIT, told, "Split it, or raise the limit.")
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
        return open_document(self.uri, self.source.content, self.limits.unpacked)

    def _is_unchanged(self) -> bool:
        """Hash a document that Spark did not read, and compare it with its last load."""
        digest = hashlib.sha256()
        with closing(open_document(self.uri, None, self.limits.bytes, packed=True)) as stream:
            while chunk := read_chunk(stream):
                digest.update(chunk)
        self.facts["sha256"] = digest.hexdigest()
        is_same = self.facts["sha256"] == self.source.last_sha256
        self.again = is_same and not self.source.last_clean
        return is_same and self.source.last_clean

    def _add_whole(self, text: bytes) -> None:
        document, problems = read_text(text, self.uri, self.limits.depth)
        forced = self.limits.dialect in _READERS and isinstance(document, dict | list)
        if not forced and (reason := not_a_registry(document)):
            self._pass_over(reason)
            return
        problems += redact(document, None if is_yaml(self.uri) else text)
        if not forced and not is_draft(document):
            _check_collections(document)
        dialect, reading = read_as(document, problems, self.uri, self.limits.dialect)
        self._name_registry(reading.registryid)
        _refuse_whole([reading], self.limits)
        specversion = document.get("specversion") if isinstance(document, dict) else None
        self._add_reading(reading, draft=dialect == DRAFT)
        self._add_loaded(reading, dialect, specversion)

    def _add_parts(self) -> None:
        """Read a large document part by part: once to see that all of it can be read, once to make its rows."""
        root, problems, cut = self._check_parts()
        # No groups in maps (an array of groups, say), or a dialect that has none.
        if not cut or self.limits.dialect in _READERS:
            with closing(self._open()) as stream:
                self._add_whole(read_up_to(stream, self.limits.unpacked))
            return
        if reason := not_a_registry(root):
            self._pass_over(reason)
            return
        problems += redact(root)
        _check_collections(root)
        messages = Messages(lambda: chain([root], self._values()))
        read = partial(self._readings, root, problems, messages.find)
        # One dialect for all parts: what only one of them tells holds for the others too.
        dialect = self.limits.dialect or told_dialect(root) or _dialect_of_parts(root, self._values(), read(NORMAL))
        own = next(read(dialect))
        self._name_registry(own.registryid)
        if self.limits.strict or self.source.size // _SMALLEST_ENTITY > self.limits.entities:
            _refuse_whole(read(dialect), self.limits)
        total = Reading(registryid=own.registryid, root=own.root)
        for reading in read(dialect):
            self._add_reading(reading)
            total.add_counts(reading)
            self.stage.spill_when_full()
        self._add_loaded(total, dialect, root.get("specversion"))

    def _check_parts(self) -> tuple[Any, list[Problem], bool]:
        """Read all parts strictly; give the root without the groups that were cut out, and whether there were any."""
        cut = False
        with closing(self._open()) as stream:
            for part in split_groups(stream, min(_PART_BYTES, self.limits.stream), COLLECTIONS):
                value, problems = read_text(part.text, "", self.limits.depth)
                cut = cut or part.collection is not None
        return value, problems, cut

    def _readings(self, root: dict[str, Any], problems: list[Problem], find: FindMessage, dialect: str) -> Iterator[Reading]:
        """Read the root, then the groups in the order of the document: those that were cut out, and those that stayed with it.

        Args:
            root: what was left when groups were cut out; redacted.
            problems: what was found in its text.
            find: finds a message of the document.
            dialect: of the document.
        """
        whole = Whole(find)
        left = [key for key in root if key in COLLECTIONS and isinstance(root[key], dict) and root[key]]
        inside = {key: [one for one in problems if one.pointer.startswith(pointer_of(key) + "/")] for key in left}
        others = [one for one in problems if not any(one in found for found in inside.values())]
        yield read_document({key: {} if key in left else root[key] for key in root}, others, dialect, whole=whole)
        order = list(root)
        for collection, text in self._parts():
            while left and order.index(left[0]) < order.index(collection):
                key = left.pop(0)
                yield _read_groups({key: root[key]}, inside[key], dialect, whole)
            value, found = read_text(text, "", self.limits.depth)
            yield _read_groups(value, found + redact(value, text), dialect, whole)
        for key in left:
            yield _read_groups({key: root[key]}, inside[key], dialect, whole)

    def _values(self) -> Iterator[Any]:
        """Give the parts that are cut out of the root as JSON values."""
        return (read_text(text, "", self.limits.depth)[0] for _, text in self._parts())

    def _parts(self) -> Iterator[tuple[str, bytes]]:
        """Give the collections and texts of the parts that are cut out of the root."""
        with closing(self._open()) as stream:
            for collection, text in split_groups(stream, min(_PART_BYTES, self.limits.stream), COLLECTIONS):
                if collection is not None:
                    yield collection, text

    def _name_registry(self, registryid: str | None) -> None:
        self.registry = self.source.registry or registryid or DEFAULT_REGISTRY
        if self.source.registry is None and (wrong := id_problem(self.registry)):
            raise Rejected("MSG-002", f"registryid: {wrong}", "Mend it, or choose a registry with --registry.")

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
            told = f"it is named as a document, and is none: {reason}"
            raise Rejected(NO_DOCUMENT, told, "Name a registry document, or its folder.")
        self._add_facts({"status": "skipped", "reason": reason})

    def _reject(self, why: Rejected) -> None:
        """Refuse the document whole: nothing of it stays but one finding and its facts."""
        self.stage.clear()
        finding = Finding("", "", "", why.rule_id, "error", "quarantined", why.message, why.hint, self._raw())
        ids = [self.stage.add_finding(self.uri, self.registry, finding)]
        self._add_facts({"status": "rejected", "reason": why.message, "findings": ids})

    def _raw(self) -> str | None:
        """Give the beginning of the text without secrets; nothing of what is packed, which hides them."""
        seen = self.seen or (b"" if self.uri.endswith(".gz") else (self.source.content or b"")[:_RAW_OF_DOCUMENT])
        return blank_bytes(seen) if seen else None


def _check_collections(document: Any) -> None:
    """Reject a document whose collection of groups or endpoints is not a map: which of its entities are meant is not told."""
    wrong = wrong_collection(document)
    if wrong is not None:
        raise Rejected(wrong.rule_id, wrong.message, wrong.hint)


# Dialects that do not name things as xRegistry does have a reader of their own.
_READERS = {DRAFT: read_draft}


def read_as(document: Any, problems: list[Problem], uri: str, dialect: str | None, *, rules: bool = True) -> tuple[str, Reading]:
    """Read a document in its dialect.

    Args:
        document: the value of its text, for which `not_a_registry` gave None.
        problems: what was found in the text.
        uri: of the document.
        dialect: as which it is to be read; None: as the one that it tells, or that its spellings tell.
        rules: apply the rules about one entity too.

    Returns:
        The dialect, and what came out.
    """
    told = dialect or told_dialect(document)
    if told in _READERS:
        return told, _READERS[told](document, problems, uri, rules=rules)
    reading = read_document(document, problems, told or "", rules=rules)
    if told is None:
        told = dialect_of(document, reading.spellings)
        if any(row["dialect"] == told for name in ("dialect_types", "dialect_rules") for row in table(name)):
            reading = read_document(document, problems, told, rules=rules)  # again, now that its own rules are known
    return told, reading


def _read_groups(document: dict[str, Any], problems: list[Problem], dialect: str, whole: Whole) -> Reading:
    """Read groups of a large document, whose root is read by itself."""
    reading = read_document(document, problems, dialect, whole=whole)
    reading.rows = [row for row in reading.rows if row.kind != "registry"]
    del reading.entities["registries"]
    reading.spellings = Counter({name: n for name, n in reading.spellings.items() if not name.startswith("registry: ")})
    return reading


def _dialect_of_parts(root: dict[str, Any], values: Iterable[Any], readings: Iterable[Reading]) -> str:
    """Name the dialect of a large document whose root does not tell it: by the spellings and names in all of its parts."""
    spellings = Counter[str]()
    for reading in readings:
        spellings.update(reading.spellings)
    return dialect_of(root, spellings, {mark for value in values for mark in marks_of(value)})


def _refuse_whole(readings: Iterable[Reading], limits: Limits) -> None:
    """Refuse a document with too many entities, or under `strict` one with an error."""
    count = 0
    errors: list[Finding] = []
    for reading in readings:
        count += reading.entities.total() + reading.quarantined.total()
        errors += [finding for finding in reading.findings if finding.severity == "error"]
    if count > limits.entities:
        raise Rejected(LIMIT, f"{count} entities, more than max_entities ({limits.entities})", "Split it, or raise the limit.")
    if limits.strict and errors:
        told = "; ".join(f"{finding.pointer}: {finding.rule_id}: {finding.message}" for finding in errors[:_ERRORS_TOLD])
        raise Rejected(STRICT, f"{len(errors)} errors under --strict: {told}", "Mend them, or load the rest without --strict.")
