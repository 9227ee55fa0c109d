"""Values into a definition: what it requires, what was given (--set, files), and what the specifications infer.

A placeholder has one value, which is written as it is (MSG-228, MSG-230); a value of the definition is written (MSG-224); what is
required and has no value has to be given; the timestamp 0000-01-01… is now (MSG-231, WIP-037).
"""

from __future__ import annotations

import base64
import csv
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import orjson

from lakehouse.dialects.tables import PROTOCOLS
from lakehouse.errors import SettingsError, SourceNotFound
from lakehouse.match.definition.compiled import ENVELOPE, PROTOCOL, DeclaredAttribute
from lakehouse.match.definition.valuetypes import MARKER, as_text, is_of_type, is_value
from lakehouse.render.protocolbinding import ProtocolBinding
from lakehouse.render.unrenderable import (
    CORE_TYPES,
    FLAGS,
    RANGES,
    MissingValues,
    Need,
    Refusal,
    RenderRefused,
    refusals_of_event,
)
from lakehouse.text.jsontext import in_order, read_exactly
from lakehouse.text.names import Pointer

_TIMES = ("timestamp", "datetime")
# Nobody can send a message without these.
_ADDRESSES = {family: protocol.address for family, protocol in PROTOCOLS.items() if protocol.needs_address}
# What may be given although the definition does not declare it.
_OPTIONS = {family: tuple(protocol.undeclared.split()) for family, protocol in PROTOCOLS.items()}
OPTION_TYPES = dict.fromkeys(RANGES, "integer") | dict.fromkeys(FLAGS, "boolean")
PAYLOAD = "data"  # the column that holds a payload
_FILES = (".csv", ".json", ".jsonl", ".ndjson", ".parquet")
_TYPES = {".json": "application/json", ".txt": "text/plain", ".xml": "application/xml", ".csv": "text/csv"}


@dataclass(frozen=True)
class RenderInput:
    """What somebody gave for one message.

    Attributes:
        values: name → value: of placeholders; of attributes by name (`subject`, `headers/region`) or by JSON Pointer
            (`/envelopemetadata/subject`). A name that a placeholder and an attribute share is the placeholder's.
        payload: bytes, as they are sent; None: none.
        payload_type: content type that the payload has where the definition says none.
    """

    values: Mapping[str, Any] = field(default_factory=dict)
    payload: bytes | None = None
    payload_type: str | None = None


@dataclass
class ResolvedDefinition:
    """A definition with its values in.

    Attributes:
        ce: CloudEvents attributes by name; empty: it is no CloudEvent.
        options: protocol options, named as in `DeclaredAttribute.key`.
        further: values of options after the first, of names that a list of headers, user properties or a query repeats
            (MSG-282, MSG-359, MSG-379).
        variables: what the placeholders hold.
    """

    ce: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    further: list[tuple[str, Any]] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)


def fill(binding: ProtocolBinding, render_input: RenderInput, now: str, new_id: str) -> ResolvedDefinition:
    """Return a definition with values for its placeholders.

    Args:
        binding: the definition as a protocol carries it.
        render_input: what was given.
        now: RFC 3339 timestamp that stands for the current time.
        new_id: CloudEvents `id`, where none is given or declared.

    Raises:
        MissingValues: with all values that are missing.
        RenderRefused: a value does not fit where it goes, or CloudEvents forbids it.
    """
    needs = needs_of(binding, render_input)
    if needs:
        raise MissingValues(binding.definition.xid, needs)
    filled = ResolvedDefinition(variables={name: as_text(render_input.values[name]) for name in binding.placeholders})
    refusals: list[Refusal] = []
    for attribute in binding.definition.attributes:
        try:
            value = _value(binding, attribute, render_input, filled.variables, now)
        except ValueError as error:
            refusals.append(Refusal(attribute.pointer, str(error)))
            continue
        if value is None or attribute.section == "message":
            continue
        if attribute.section == "envelope":  # CloudEvents has no numbers but integers: others are texts
            filled.ce[attribute.key] = as_text(value) if attribute.kind == "number" else value
        elif attribute.key in filled.options:
            filled.further.append((attribute.key, value))
        else:
            filled.options[attribute.key] = value
    if refusals:
        raise RenderRefused(binding.definition.xid, refusals)
    for pointer, value in _undeclared(binding, render_input):
        section, _, key = pointer[1:].partition("/")
        (filled.ce if section == "envelopemetadata" else filled.options)[key] = value
    if binding.definition.is_cloudevent:
        filled.ce = {"specversion": "1.0", "id": new_id} | _inferred(binding, now) | filled.ce
        # Ids are often integers in tables.
        filled.ce |= {name: as_text(value) for name in CORE_TYPES if type(value := filled.ce.get(name)) is int}
    refusals = refusals_of_event(filled.ce)
    if refusals:
        raise RenderRefused(binding.definition.xid, refusals)
    return filled


def needs_of(binding: ProtocolBinding, render_input: RenderInput) -> list[Need]:
    """Return what is missing: placeholders, attributes that must be there, and the address."""
    holes = binding.placeholders
    needs = [
        Need(name, attribute.pointer, attribute.kind, attribute.template.text if attribute.template else None)
        for name, attribute in holes.items()
        if render_input.values.get(name) is None
    ]
    declared: dict[Pointer, DeclaredAttribute] = {}
    for attribute in binding.definition.attributes:
        if attribute.has_value or attribute.pointer not in declared:  # a header that repeats may have a value once
            declared[attribute.pointer] = attribute
    wanted = [
        attribute
        for attribute in declared.values()
        if attribute.required and not attribute.has_value and attribute.section != "message"
    ]
    address = Pointer(PROTOCOL + _ADDRESSES[binding.family]) if binding.family in _ADDRESSES else None
    if address and not (address in declared and (declared[address].has_value or declared[address].required)):
        wanted.append(declared.get(address) or DeclaredAttribute(address, address.removeprefix(PROTOCOL), "protocol"))
    for attribute in wanted:
        is_made = attribute.pointer == f"{ENVELOPE}id" or _default(binding, attribute, "") is not None
        if not is_made and value_for(binding, attribute, render_input) is None:
            needs.append(
                Need(
                    attribute.pointer if _is_shared(binding, attribute, holes) else attribute.key,
                    attribute.pointer,
                    kind_of(attribute),
                )
            )
    return needs


def value_for(binding: ProtocolBinding, attribute: DeclaredAttribute, render_input: RenderInput) -> Any:
    """Find what was given for an attribute: by its pointer, or by its name, unless that means something else."""
    result = render_input.values.get(attribute.pointer)
    if result is not None or _is_shared(binding, attribute, binding.placeholders):
        return result
    return render_input.values.get(attribute.key)


def _is_shared(binding: ProtocolBinding, attribute: DeclaredAttribute, holes: Mapping[str, Any]) -> bool:
    """Return whether the name of an attribute is that of a placeholder, or of the envelope while it is of the protocol."""
    if attribute.key in holes:
        return True
    if attribute.section != "protocol" or not binding.definition.is_cloudevent:
        return False
    return attribute.key in CORE_TYPES or any(
        other.pointer == ENVELOPE + attribute.key for other in binding.definition.attributes
    )


def kind_of(attribute: DeclaredAttribute) -> str | None:
    """Return the type of an attribute: the one that the protocol gives an option, declared, inferred, or of the specification."""
    if _has_fixed_type(attribute):
        return OPTION_TYPES[attribute.key]
    if attribute.kind or attribute.inferred_kind:
        return attribute.kind or attribute.inferred_kind
    return CORE_TYPES.get(attribute.key) if attribute.section == "envelope" else None


def _has_fixed_type(attribute: DeclaredAttribute) -> bool:
    return attribute.section == "protocol" and attribute.key in OPTION_TYPES


def typed(value: Any, kind: str | None) -> Any:
    """Return a value in its JSON type, where it is a text of the type that JSON has no other text for."""
    if not isinstance(value, str) or not is_of_type(value, kind or "string"):
        return value
    if kind == "integer":
        whole = int(value)
        return whole if str(whole) == value and whole.bit_length() < 64 else value
    if kind == "boolean":
        return value == "true"
    if kind == "number":
        number = float(value)
        return int(number) if number.is_integer() and abs(number) < 2**53 else number
    return value


def check_names(bindings: Sequence[ProtocolBinding], names: Iterable[str]) -> None:
    """Check that each name that is given a value is declared for one of the bindings.

    Raises:
        SettingsError: one is not; with those that are.
    """
    declared_names = {name for binding in bindings for name in names_of(binding)}
    strange = [
        name for name in names if name not in declared_names and not any(_is_extension(binding, name) for binding in bindings)
    ]
    if strange:
        settable = ", ".join(sorted(name for name in declared_names if not name.startswith("/"))) or "nothing"
        raise SettingsError(
            f"{', '.join(strange)}: no placeholder and no attribute has this name. These have values: {settable}. Any other "
            "attribute of CloudEvents is given as /envelopemetadata/NAME, any other protocol option as /protocoloptions/NAME."
        )


def names_of(binding: ProtocolBinding) -> set[str]:
    """Return all names that values may have."""
    declared = [attribute for attribute in binding.definition.attributes if attribute.section != "message"]
    names = {
        *binding.placeholders,
        *(attribute.pointer for attribute in declared),
        *(attribute.key for attribute in declared),
    }
    if binding.definition.is_cloudevent:
        names |= {*CORE_TYPES, *(ENVELOPE + name for name in CORE_TYPES)}
    options = _OPTIONS.get(binding.family, ())
    return names | {*options, *(PROTOCOL + name for name in options)}


def _is_extension(binding: ProtocolBinding, name: str) -> bool:
    return (name.startswith(ENVELOPE) and binding.definition.is_cloudevent) or (
        name.startswith(PROTOCOL) and binding.protocol is not None
    )


def _value(
    binding: ProtocolBinding, attribute: DeclaredAttribute, render_input: RenderInput, variables: dict[str, str], now: str
) -> Any:
    """Return the value of an attribute; None: it is left out.

    Raises:
        ValueError: what was given does not fit.
    """
    own = value_for(binding, attribute, render_input)
    if not attribute.has_value:
        return _default(binding, attribute, now) if own is None else typed(own, kind_of(attribute))
    if attribute.template is not None:
        value: Any = typed(attribute.template.fill(variables), kind_of(attribute))
    elif is_marker(attribute):
        return now if own is None else own
    else:
        value = typed(attribute.value, kind_of(attribute)) if _has_fixed_type(attribute) else attribute.value
    if own is not None and not is_value(own, value, attribute.kind):
        raise ValueError(f"is declared as {as_text(attribute.value)!r}, and {as_text(own)!r} was given")
    return value


def is_marker(attribute: DeclaredAttribute) -> bool:
    """Return whether the declared value means the current time."""
    text = attribute.value
    return isinstance(text, str) and attribute.kind in (*_TIMES, None) and MARKER.match(text) is not None


def _default(binding: ProtocolBinding, attribute: DeclaredAttribute, now: str) -> Any:
    """Return what an attribute without a value holds: what is inferred for it, or nothing."""
    if attribute.section == "envelope":
        if attribute.key == "time":
            return now
        if attribute.key == "dataschema" and attribute.required:
            return binding.inferred.get(f"{ENVELOPE}dataschema/value")
        if attribute.key == "datacontenttype":
            return None  # follows from the payload
        if attribute.key == "specversion":
            return "1.0"
    return None


def _inferred(binding: ProtocolBinding, now: str) -> dict[str, Any]:
    """Return what CloudEvents has undeclared: `time` (MSG-256), and a `dataschema` that all can resolve (MSG-259)."""
    results: dict[str, Any] = {"time": now}
    uri = binding.inferred.get(f"{ENVELOPE}dataschema/value") or binding.definition.dataschemauri
    if isinstance(uri, str) and is_of_type(uri, "uri"):
        results["dataschema"] = uri
    return results


def _undeclared(binding: ProtocolBinding, render_input: RenderInput) -> Iterator[tuple[Pointer, Any]]:
    """Return what was given for attributes that the definition does not declare, by pointer."""
    declared = {attribute.pointer for attribute in binding.definition.attributes}
    holes = binding.placeholders
    for name, value in render_input.values.items():
        if name in holes or value is None:
            continue
        for pointer in _own_pointers(binding, name):
            if pointer not in declared:
                key = pointer.split("/", 2)[2]
                in_envelope = pointer.startswith(ENVELOPE)
                yield pointer, typed(value, CORE_TYPES.get(key) if in_envelope else OPTION_TYPES.get(key))


def _own_pointers(binding: ProtocolBinding, name: str) -> list[Pointer]:
    """Return where a name goes: a pointer is itself, where the binding has such a section."""
    if name.startswith("/"):
        return [Pointer(name)] if _is_extension(binding, name) else []
    return _pointers(binding, name)


def _pointers(binding: ProtocolBinding, name: str) -> list[Pointer]:
    """Return where a name goes that no declaration has: into the envelope, else into the protocol options."""
    if any(attribute.key == name for attribute in binding.definition.attributes):
        return []
    if binding.definition.is_cloudevent and name in CORE_TYPES:
        return [Pointer(ENVELOPE + name)]
    return [Pointer(PROTOCOL + name)] if name in _OPTIONS.get(binding.family, ()) else []


def values_of(pairs: Sequence[str]) -> dict[str, str]:
    """Read NAME=VALUE pairs.

    Raises:
        SettingsError: one has no `=`, or a name is given twice.
    """
    results: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise SettingsError(f"--set {pair}: a value is given as NAME=VALUE.")
        if name in results:
            raise SettingsError(f"--set {name}: the name is given twice.")
        results[name] = value
    return results


def is_file(written: str) -> bool:
    """Return whether `--values` names a file; else it is a table."""
    return written == "-" or Path(written).suffix.lower() in _FILES or Path(written).is_file()


def read_payload(written: str) -> tuple[bytes, str | None]:
    """Read a payload from a file, or from standard input; and return the content type of its name.

    Raises:
        SourceNotFound: it cannot be read.
    """
    if written == "-":
        return sys.stdin.buffer.read(), None
    try:
        return Path(written).read_bytes(), _TYPES.get(Path(written).suffix.lower())
    except OSError as error:
        raise SourceNotFound(written, f"cannot be read ({error.strerror}).") from error


def read_values(written: str) -> Iterator[dict[str, Any]]:
    """Read a file of values: JSON lines, CSV with a header, or Parquet; a cell that is empty or null is not given.

    Raises:
        SourceNotFound: it cannot be read.
        SettingsError: a line is no JSON object.
    """
    try:
        if Path(written).suffix.lower() == ".parquet":
            yield from _parquet(written)
        elif Path(written).suffix.lower() == ".csv":
            with Path(written).open(encoding="utf-8-sig", newline="") as file:
                for row in csv.DictReader(file):
                    yield {name: value for name, value in row.items() if name and value not in (None, "")}
        elif written == "-":
            yield from _lines(written, sys.stdin.buffer)
        else:
            with Path(written).open("rb") as lines:
                yield from _lines(written, lines)
    except (OSError, UnicodeDecodeError) as error:
        raise SourceNotFound(written, f"cannot be read ({getattr(error, 'strerror', None) or error}).") from error


def input_of(row: Mapping[str, Any], common: RenderInput) -> RenderInput:
    """Return what a row gives, over what is common to all: its column `data` is the payload."""
    values = {name: _plain(value) for name, value in row.items() if name != PAYLOAD and value is not None}
    payload = row.get(PAYLOAD)
    if payload is None:
        return RenderInput({**common.values, **values}, common.payload, common.payload_type)
    if isinstance(payload, bytes | bytearray):
        return RenderInput({**common.values, **values}, bytes(payload), common.payload_type)
    body = payload.encode() if isinstance(payload, str) else _json(payload)
    return RenderInput({**common.values, **values}, body, None if isinstance(payload, str) else "application/json")


def _json(value: Any) -> bytes:
    try:
        return orjson.dumps(value, default=_plain)
    except orjson.JSONEncodeError:  # integers of more than 64 bits, which JSON lines hold and no table does
        return in_order(value)


def _plain(value: Any) -> Any:
    """Return a value of a table as JSON has it: times by RFC 3339, decimals as they are written, bytes in base64."""
    if isinstance(value, datetime):
        moment = value if value.tzinfo else value.replace(tzinfo=timezone.utc)
        return moment.isoformat().replace("+00:00", "Z")
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode()
    return str(value) if isinstance(value, Decimal) else value


def _lines(written: str, lines: Any) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            value = read_exactly(line)
        except orjson.JSONDecodeError as error:
            raise SettingsError(
                f"--values {written}: line {number} is no JSON ({error}). A JSON object a line is needed."
            ) from error
        if not isinstance(value, dict):
            raise SettingsError(f"--values {written}: line {number} is no JSON object of names and values.")
        yield value


def _parquet(written: str) -> Iterator[dict[str, Any]]:
    import pyarrow.parquet as pq

    with pq.ParquetFile(written) as file:
        for batch in file.iter_batches(1_000):
            yield from batch.to_pylist()
