"""Payloads against the schema that the catalog resolves: framing removed, decoded with the Version that wrote them, validated.

What cannot be checked says why: no schema, not resolved, a format that is not supported, or a library that is not installed
(`pip install xregistry-lakehouse[match]`). Validators are made in the process that uses them, as they do not travel. A payload on
which a library may hang, or end its process, is checked in another process with a limit of time and memory.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import pickle
import resource
import select
import signal
import time
from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from subprocess import TimeoutExpired
from typing import Any, NamedTuple, TypeVar

from lakehouse.dialects.schemadocuments import family_of_format
from lakehouse.extras import not_installed
from lakehouse.match.definition.compiled import Definition
from lakehouse.match.definition.valuetypes import as_text
from lakehouse.match.event.canonical import ELSEWHERE, MOST_UNPACKED, PLACES, SCHEMA_ID, Event, unpacked
from lakehouse.match.event.framing import Framing, framings_of
from lakehouse.match.payload.schemas import Resolved, Schemas, WriterSchema
from lakehouse.match.payload.validators import (
    CONTAINER,
    Error,
    Undecodable,
    Unresolved,
    Unsupported,
    Validator,
    is_json,
    is_made_at_once,
    make_validator,
)
from lakehouse.text.names import Xid
from lakehouse.text.values import media_type

_MORE_BYTES = 2**30  # that the process may take in addition to what it has from this one
_CHUNK = 2**16

Made = TypeVar("Made")
VALID, VALID_OLDER, INVALID, UNDECODABLE, NONE = "valid", "valid_older", "invalid", "undecodable", "none"
NO_SCHEMA, UNRESOLVED, UNSUPPORTED, NOT_CHECKED = "no_schema", "schema_unresolved", "unsupported_format", "not_checked"
_MOST_ERRORS = 5
_MOST_CACHED = 5_000
_SECONDS = 3.0  # for a payload that may make its schema costly
_SECONDS_TO_MAKE = 10.0  # for what validates a schema
_MOST_WRITERS = 25  # Versions that are tried for a payload that names none
_MOST_HUNG = 3  # payloads of a schema, after which no other is tried


class NoAnswer(Exception):
    """The process ended without an answer, or took too long."""


def run_in_fork(work: Callable[[], Made], seconds: float) -> Made:
    """Run work in a fork of this process.

    Args:
        work: gives what can be pickled.
        seconds: how long it may take.

    Raises:
        NoAnswer: it took longer, or the process ended: of memory, or a fault of a library.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        _answer(work, reading, writing, seconds)
    os.close(writing)
    try:
        text = _read(reading, time.monotonic() + seconds)
    finally:
        os.close(reading)
        with contextlib.suppress(ProcessLookupError):  # it may have ended
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    if text is None:
        raise NoAnswer(f"it took more than {seconds:g} s")
    if not text:
        raise NoAnswer("the library ended its process")
    made: Made = pickle.loads(text)  # noqa: S301  what this process wrote itself
    return made


def _answer(work: Callable[[], Made], reading: int, writing: int, seconds: float) -> None:
    """Run the work and write its result, in the fork, which always ends here."""
    try:
        os.close(reading)
        faulthandler.disable()
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # libraries that fail for good say so at length
        resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1, int(seconds) + 1))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with contextlib.suppress(OSError, ValueError):  # a system without /proc, or a limit that is lower already
            with open("/proc/self/statm", encoding="ascii") as file:
                most = int(file.read().split()[0]) * resource.getpagesize() + _MORE_BYTES
            resource.setrlimit(resource.RLIMIT_AS, (most, most))
        text = pickle.dumps(work())
        while text:
            text = text[os.write(writing, text) :]
    finally:
        os._exit(0)


def _read(reading: int, deadline: float) -> bytes | None:
    """Read to the end; None: the time is over."""
    parts: list[bytes] = []
    while True:
        ready, _, _ = select.select([reading], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            return None
        part = os.read(reading, _CHUNK)
        if not part:
            return b"".join(parts)
        parts.append(part)


class PayloadError(NamedTuple):
    """Where a payload breaks its schema: JSON Pointer, keyword of the schema (or `decode`), what is wrong."""

    pointer: str
    keyword: str
    message: str


class PayloadVerdict(NamedTuple):
    """What came of a payload.

    Attributes:
        status: `valid`, `valid_older` ….
        errors: at most five.
        remarks: such as `double_encoded`.
        written_with: XID of the Version of the schema that it was written with; None: it is not known.
    """

    status: str
    errors: tuple[PayloadError, ...] = ()
    remarks: tuple[str, ...] = ()
    written_with: Xid | None = None


class EncodedPayload(NamedTuple):
    """A payload as it came: bytes, or where these are None a JSON value; and its content type."""

    body: bytes | None
    data: Any
    content_type: str | None


class MadeValidator(NamedTuple):
    """What validates a schema, remarks about it, and the schema."""

    validator: Validator
    remarks: tuple[str, ...]
    resolved: Resolved


class Payloads:
    """Validates payloads.

    Args:
        schemas: the schemas of the snapshot.
        max_unpacked_bytes: most bytes that come from a compressed payload.
    """

    def __init__(self, schemas: Schemas, max_unpacked_bytes: int = MOST_UNPACKED) -> None:
        self.schemas = schemas
        self._limit = max_unpacked_bytes
        self._validators = lru_cache(_MOST_CACHED)(self._validator)
        self._hung: Counter[Validator] = Counter()
        self._seconds_to_make = _SECONDS_TO_MAKE
        self._made = lru_cache(_MOST_CACHED)(self._make)  # definitions of one schema share what validates
        self._writers = lru_cache(_MOST_CACHED)(schemas.writers)

    def check(self, definition: Definition, event: Event) -> PayloadVerdict:
        """Validate the payload of an event against the schema of a definition."""
        if (not event.has_data and not event.body) or (event.has_data and event.data is None and not event.body):
            return self._check_empty(definition, event)
        made = self._validators(definition)
        if isinstance(made, PayloadVerdict):
            return made
        family, content_type = family_of_format(made.resolved.format, None), event.data_content_type()
        header = event.options.get(SCHEMA_ID)
        header = None if header is None else as_text(header)
        try:
            body = self._unpacked(event)
            framings = [] if body is None else list(framings_of(body, header, content_type, family, self._limit))
        except ValueError as error:
            return _undecodable(str(error), made.remarks)
        encoded = EncodedPayload(body, event.data if event.has_data else None, content_type)
        writers = self._writers(made.resolved) if framings else []
        for framing in framings:
            named = next((writer for writer in writers if writer.labels.get(framing.label) == framing.id), None)
            if named is not None:
                return self._by_named(made, named, framing, encoded)
        return self._by_any(made, framings, encoded)

    def _by_named(self, made: MadeValidator, named: WriterSchema, framing: Framing, encoded: EncodedPayload) -> PayloadVerdict:
        """Judge a payload that names the Version that it was written with."""
        remarks = (framing.name,) if framing.name else ()
        if framing.problem:
            return _undecodable(framing.problem, (*remarks, *made.remarks), named.resolved.xid)
        writer = self._made(named.resolved)
        if isinstance(writer, PayloadVerdict):
            return writer._replace(remarks=(*writer.remarks, *remarks), written_with=named.resolved.xid)
        verdict = self._checked(made, writer, named.is_older, encoded._replace(body=framing.payload))
        return verdict._replace(remarks=(*remarks, *verdict.remarks), written_with=named.resolved.xid)

    def _by_any(self, made: MadeValidator, framings: list[Framing], encoded: EncodedPayload) -> PayloadVerdict:
        """Judge a payload by the first Version that it is wholly of: that of the definition, then the newest."""
        readings: list[tuple[bytes | None, tuple[str, ...]]] = [
            (framing.payload, (framing.name,) if framing.name else ()) for framing in framings if not framing.problem
        ]
        readings.append((encoded.body, ()))
        own: PayloadVerdict | None = None
        for payload, remarks in readings:
            verdict = self._checked(made, made, False, encoded._replace(body=payload))
            verdict = verdict._replace(remarks=(*remarks, *verdict.remarks))
            if verdict.status == VALID:
                return verdict._replace(written_with=None if CONTAINER in verdict.remarks else _version_of(made.resolved))
            if own is None or own.status == UNDECODABLE:
                own = verdict
        assert own is not None
        problem = next((framing.problem for framing in framings if framing.problem), "")
        if problem and own.status == UNDECODABLE:  # likelier than that the bytes are of no framing, and of no schema
            own = _undecodable(problem, own.remarks)
        if own.status not in (INVALID, UNDECODABLE):
            return own
        other_writers = [writer for writer in self._writers(made.resolved) if writer.resolved.xid != made.resolved.xid]
        for other in other_writers[:_MOST_WRITERS]:
            writer = self._made(other.resolved)
            if isinstance(writer, PayloadVerdict):
                continue
            for payload, remarks in readings:
                verdict = self._checked(made, writer, other.is_older, encoded._replace(body=payload))
                if verdict.written_with is not None:
                    return verdict._replace(remarks=(*remarks, *verdict.remarks))
        left = len(other_writers) - _MOST_WRITERS
        return own._replace(remarks=(*own.remarks, f"{left} older Versions of the schema were not tried")) if left > 0 else own

    def _checked(
        self,
        made: MadeValidator,
        writer: MadeValidator,
        is_older: bool,
        encoded: EncodedPayload,
    ) -> PayloadVerdict:
        """Validate: in its own process what may take long, or more than the library can take.

        Args:
            made: what validates the schema of the definition.
            writer: what validates that which the payload was written with.
            is_older: the writer's Version is older.
            encoded: the payload.
        """
        validator, remarks, _ = made

        def check() -> PayloadVerdict:
            return _verdict(made, writer, is_older, encoded)

        if not (validator.may_hang(encoded.body, encoded.data) or writer.validator.may_hang(encoded.body, encoded.data)):
            try:
                return check()
            except MemoryError:
                return PayloadVerdict(UNSUPPORTED, (), (*remarks, "the library ran out of memory"))
        if self._hung[validator] >= _MOST_HUNG:
            return PayloadVerdict(UNSUPPORTED, (), (*remarks, "others of this schema took too long"))
        try:
            return run_in_fork(check, _SECONDS)
        except NoAnswer as error:
            self._hung[validator] += 1
            return PayloadVerdict(UNSUPPORTED, (), (*remarks, str(error)))

    def readable(self, definition: Definition, read: Callable[[], Event]) -> Any:
        """Return a payload that Avro or Protobuf encodes as a JSON value; None: it is JSON or text, or cannot be read."""
        validator = getattr(self._validators(definition), "validator", None)
        as_json = getattr(validator, "as_json", None)
        if validator is None or as_json is None:
            return None
        event = read()  # only now: most schemas are of JSON
        is_text = event.has_data or is_json(media_type(event.data_content_type() or "")[0])
        if is_text or not event.body or validator.may_hang(event.body, None):
            return None
        try:
            return as_json(validator.decode(event.body, None, event.data_content_type()).value)
        except Undecodable:
            return None

    def valid(self, definition: Definition) -> PayloadVerdict:
        """Return what comes of a payload of which `quick` says that it is valid."""
        resolved = self.schemas.resolve(definition)
        return PayloadVerdict(VALID, written_with=None if isinstance(resolved, str) else _version_of(resolved))

    def quick(self, definition: Definition) -> Callable[[Any], bool] | None:
        """Return a quick check that a JSON value is valid, where the schema is JSON Schema without remarks; else None."""
        made = self._validators(definition)
        if isinstance(made, PayloadVerdict) or made.remarks:
            return None
        return getattr(made.validator, "is_valid", None)

    def is_valid(self, definition: Definition, event: Event) -> bool | None:
        """Return whether a payload is that of a definition; None: it is unknown."""
        return {VALID: True, VALID_OLDER: True, INVALID: False, UNDECODABLE: False}.get(self.check(definition, event).status)

    def _check_empty(self, definition: Definition, event: Event) -> PayloadVerdict:
        """Judge what has no payload: a tombstone, an empty retained message, or `data` that is null."""
        if event.has_data:  # null in a structured event: nullable data, or none
            made = self._validators(definition)
            if (
                not isinstance(made, PayloadVerdict)
                and self._checked(made, made, False, EncodedPayload(None, None, None)).status == VALID
            ):
                return self.valid(definition)
        return PayloadVerdict(NONE)

    def _validator(self, definition: Definition) -> MadeValidator | PayloadVerdict:
        resolved = self.schemas.resolve(definition)
        if isinstance(resolved, str):
            remarks = (f"{definition.schema_reference}: not in the catalog",) if resolved == UNRESOLVED else ()
            return PayloadVerdict(resolved, (), remarks)
        return self._made(resolved)

    def _make(self, resolved: Resolved) -> MadeValidator | PayloadVerdict:
        find = self.schemas.finder(resolved.registryid)
        try:
            flaw = try_to_make(resolved, find, self._seconds_to_make)
        except NoAnswer as error:
            self._seconds_to_make = _SECONDS  # others may be as costly
            flaw = PayloadVerdict(UNSUPPORTED, (), (f"{resolved.xid}: the schema cannot be read: {error}",))
        return _guarded(lambda: make_validator(resolved, find), resolved) if flaw is None else flaw

    def _unpacked(self, event: Event) -> bytes | None:
        """Undo the content encoding, up to the limit; that of a structured event was its envelope's.

        Raises:
            ValueError: it cannot be undone.
        """
        encoding = event.options.get(PLACES.get(event.family or "", ELSEWHERE))
        if encoding is None or event.body is None or event.mode == "structured":
            return event.body
        return unpacked(event.body, as_text(encoding), self._limit)


def _verdict(
    made: MadeValidator,
    writer: MadeValidator,
    is_older: bool,
    encoded: EncodedPayload,
) -> PayloadVerdict:
    """Decode and validate as what it was written with; then, where that is another schema, as the definition's reads it.

    Returns:
        What came of it; with `written_with` where the payload is wholly of another schema, `writer`.

    Raises:
        MemoryError: the caller reports it: of another process, that it ended.
    """
    remarks, is_other, written_with = made.remarks, writer.resolved.xid != made.resolved.xid, None
    try:
        decoded = writer.validator.decode(*encoded)
        errors = writer.validator.errors(decoded.value)
        if is_other and not errors:
            written_with = writer.resolved.xid
            errors = _errors_as_read(made.validator, writer.validator, encoded)
    except Undecodable as error:
        return _undecodable(str(error), remarks)
    except Unsupported as error:
        return PayloadVerdict(UNSUPPORTED, (), (*remarks, str(error)[:300]))
    except RecursionError:
        return _undecodable("nested too deeply", remarks)
    except MemoryError:
        raise
    except Exception as error:  # a library met what it was not made for: reported with this row, and no other row is lost
        return PayloadVerdict(UNSUPPORTED, (), (*remarks, f"the library failed: {type(error).__name__}: {error}"[:300]))
    remarks += decoded.remarks
    if not errors:
        return PayloadVerdict(VALID_OLDER if is_older else VALID, (), remarks, written_with)
    details = tuple(PayloadError(pointer, keyword, message[:300]) for pointer, keyword, message in errors[:_MOST_ERRORS])
    return PayloadVerdict(INVALID, details, remarks, written_with)


def _undecodable(problem: str, remarks: tuple[str, ...], written_with: Xid | None = None) -> PayloadVerdict:
    return PayloadVerdict(UNDECODABLE, (PayloadError("", "decode", problem[:300]),), remarks, written_with)


def _version_of(resolved: Resolved) -> Xid | None:
    """Return the Version of a schema; None: it is in the definition itself."""
    return None if resolved.schema_xid is None else resolved.xid


def _errors_as_read(reader: Validator, writer: Validator, encoded: EncodedPayload) -> list[Error]:
    """Return what breaks a schema in a payload of another one: by the format's resolution of schemas, where it has one."""
    resolve = getattr(reader, "errors_as_read", None)
    if resolve is not None:
        resolved: list[Error] = resolve(writer, *encoded)
        return resolved
    return reader.errors(reader.decode(*encoded).value)


def try_to_make(resolved: Resolved, find: Callable[[str], Any], seconds: float | None = None) -> PayloadVerdict | None:
    """Make what validates a schema in its own process, where that may take long; it can be made here then.

    Args:
        resolved: the schema.
        find: as `make_validator` takes it.
        seconds: how long it may take; None: the usual limit.

    Returns:
        Why none can be made; None: one can.

    Raises:
        NoAnswer: it took too long, or all memory.
    """
    if is_made_at_once(resolved):
        return None

    def make() -> PayloadVerdict | None:
        made = _guarded(lambda: make_validator(resolved, find), resolved)
        return made if isinstance(made, PayloadVerdict) else None

    return run_in_fork(make, _SECONDS_TO_MAKE if seconds is None else seconds)


def _guarded(make: Callable[[], Validator], resolved: Resolved) -> MadeValidator | PayloadVerdict:
    """Make a validator, or say why there is none: a hostile schema costs its own rows only."""
    try:
        validator = make()
    except Unresolved as error:
        return PayloadVerdict(UNRESOLVED, (), (f"{resolved.xid}: {error}"[:300],))
    except Unsupported as error:
        return PayloadVerdict(UNSUPPORTED, (), (f"{resolved.xid}: {error}"[:300],))
    except ModuleNotFoundError as error:
        return PayloadVerdict(NOT_CHECKED, (), (not_installed(error),))
    except (ValueError, TypeError, KeyError, RecursionError, OverflowError, TimeoutExpired) as error:
        return PayloadVerdict(UNSUPPORTED, (), (f"{resolved.xid}: {type(error).__name__}: {error}"[:300],))
    return MadeValidator(validator, validator.remarks, resolved)
