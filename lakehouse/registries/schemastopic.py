"""The topic in which a schema registry writes what it holds (`_schemas`), read as a log: plain Python without I/O.

Its keys name what a record is about, its values are as in the API. The last record of a key counts; one without a value deletes.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import orjson

from lakehouse.registries.subjectdocuments import GLOBAL, RegistryContent, SubjectVersion, version_of
from lakehouse.text.jsontext import NotJson, read_json, text_at

_MOST_DEPTH = 32  # of keys and values: schemas are texts in them


class UnreadableRecord(ValueError):
    """A record is none of such a topic."""


class TopicRecord(NamedTuple):
    """A record; offset: None where the landing does not hold it."""

    key: bytes
    value: bytes | None
    offset: int | None = None


_BUT_VALUE = frozenset({"key", "topic", "partition", "offset", "timestamp", "timestampType", "headers"})  # as Spark names them


def record_of_line(line: bytes) -> TopicRecord:
    """Read a line: a JSON object with `key` and `value` or `payload`, or key and value with a tab between them.

    The second is what `kafka-console-consumer --property print.key=true` writes. Spark leaves out columns that are null: an
    object whose key has a `keytype` needs no value.

    Raises:
        UnreadableRecord: it is neither.
    """
    key, tab, value = line.strip().partition(b"\t")
    if tab:
        return TopicRecord(key, None if value == b"null" else value)
    try:
        columns = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise UnreadableRecord(f"it is not JSON ({error})") from error
    if not isinstance(columns, dict):
        raise UnreadableRecord("it is no JSON object")
    if columns.keys() <= _BUT_VALUE and _has_keytype(_bytes(columns.get("key"))):
        columns["value"] = None
    return record_of_columns(columns)


def record_of_columns(columns: Mapping[str, Any]) -> TopicRecord:
    """Read a row with `key`, `value` or `payload`, and perhaps `offset`: bytes, JSON texts, those in base64, or JSON objects.

    Raises:
        UnreadableRecord: columns are missing.
    """
    name = next((name for name in ("value", "payload") if name in columns), None)
    key = _bytes(columns.get("key"))
    if name is None or key is None:
        raise UnreadableRecord(f"it has no `key` and `value` (but {', '.join(sorted(columns)[:8]) or 'nothing'})")
    offset = columns.get("offset")
    return TopicRecord(key, _bytes(columns[name]), offset if isinstance(offset, int) else None)


def replay(records: Iterable[TopicRecord]) -> RegistryContent:
    """Return what a registry holds after the records of its topic.

    Args:
        records: in any order if all have an offset, else in that of the topic.

    Raises:
        UnreadableRecord: one cannot be read; the message gives its number, from 1, or its offset.
    """
    state = _State()
    ordered = list(records)
    if all(record.offset is not None for record in ordered):
        ordered.sort(key=lambda record: record.offset or 0)
    for number, record in enumerate(ordered, 1):
        state.apply(record, f"record {number}" if record.offset is None else f"offset {record.offset}")
    return RegistryContent(list(state.versions.values()), state.levels, state.modes)


def _bytes(value: Any) -> bytes | None:
    """Return the bytes of a key or value; Spark writes them in JSON as base64."""
    if value is None or isinstance(value, bytes | bytearray):
        return None if value is None else bytes(value)
    text = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else orjson.dumps(value)
    if text[:1] in (b"{", b""):
        return text or None
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        return text


def _has_keytype(key: bytes | None) -> bool:
    try:
        return key is not None and "keytype" in _object_of(key, "key")
    except (ValueError, NotJson):
        return False


class _State:
    """What a registry holds after some records."""

    def __init__(self) -> None:
        self.versions: dict[tuple[str, int], SubjectVersion] = {}
        self.levels: dict[str, str] = {}
        self.modes: dict[str, str] = {}

    def apply(self, record: TopicRecord, place: str) -> None:
        """Apply a record.

        Raises:
            UnreadableRecord: it cannot be read.
        """
        try:
            self._apply(_object_of(record.key, "key"), _object_of(record.value, "value") if record.value else None)
        except (ValueError, NotJson) as error:
            raise UnreadableRecord(f"{place}: {error}") from error

    def _apply(self, key: dict[str, Any], value: dict[str, Any] | None) -> None:
        kind, subject = text_at(key, "keytype"), text_at(key, "subject")
        if kind is None:
            raise ValueError("its key has no `keytype`: is this the topic `_schemas` of a schema registry?")
        if kind == "SCHEMA":
            self._schema(key, value)
        elif kind == "CONFIG":
            _set(self.levels, subject, value, "compatibilityLevel")
        elif kind == "MODE":
            _set(self.modes, subject, value, "mode")
        elif kind in ("DELETE_SUBJECT", "CLEAR_SUBJECT") and value is not None and subject is not None:
            self._delete(subject, value, for_good=kind == "CLEAR_SUBJECT")
        # NOOP and CONTEXT hold no content

    def _schema(self, key: dict[str, Any], value: dict[str, Any] | None) -> None:
        subject, version = key.get("subject"), key.get("version")
        if not isinstance(subject, str) or not isinstance(version, int):
            raise ValueError("its key names no subject and version")
        if value is None:
            self.versions.pop((subject, version), None)
        else:
            self.versions[subject, version] = version_of({**value, "subject": subject, "version": version})

    def _delete(self, subject: str, value: dict[str, Any], *, for_good: bool) -> None:
        last = value.get("version")
        for key, version in [*self.versions.items()]:
            if key[0] != subject:
                continue
            if for_good and version.is_deleted:
                del self.versions[key]
            elif not for_good and (not isinstance(last, int) or key[1] <= last):
                self.versions[key] = version._replace(is_deleted=True)


def _object_of(text: bytes, what: str) -> dict[str, Any]:
    value = read_json(text, _MOST_DEPTH)[0]
    if not isinstance(value, dict):
        raise ValueError(f"its {what} is no JSON object")
    return value


def _set(settings: dict[str, str], subject: str | None, value: dict[str, Any] | None, name: str) -> None:
    text = text_at(value, name) if value is not None else None
    if text is None:
        settings.pop(subject or GLOBAL, None)
    else:
        settings[subject or GLOBAL] = text
