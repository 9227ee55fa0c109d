"""Documents of the CNCF catalog draft and of AsyncAPI become rows: converted first, and read as registry documents then."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from lakehouse.asyncapi.following import OpenFile, Overgrown, no_file
from lakehouse.asyncapi.inward import OTHER_FILES
from lakehouse.asyncapi.inward import convert as convert_asyncapi
from lakehouse.dialects.detection import DRAFT, asyncapi_of
from lakehouse.dialects.draft.conversions import translated
from lakehouse.dialects.draft.reader import Converted, convert
from lakehouse.ingest.parse.document import Rejected, read_document
from lakehouse.ingest.parse.readings import Reading
from lakehouse.text.jsontext import as_written
from lakehouse.text.names import NO_XID, ROOT, Pointer, Xid
from lakehouse.text.problems import LIMIT, Finding, Problem
from lakehouse.text.values import is_whole

WITH_FILES = "asyncapi: $ref → another file"  # counted as a spelling, for the facts of documents of several files


def read_draft(value: Any, problems: list[Problem], uri: str, *, rules: bool = True) -> Reading:
    """Read a document of the draft into rows, as `document.read_document` does with one of a registry.

    Args:
        value: the document, for which `is_draft` is true.
        problems: what reading the text found.
        uri: of the document: its path may name the group of a lone definition.
        rules: apply the rules about one entity too.
    """
    return _read(convert(value, uri), problems, DRAFT, rules=rules)


def read_asyncapi(value: Any, problems: list[Problem], uri: str, *, rules: bool = True, open_file: OpenFile = no_file) -> Reading:
    """Read an AsyncAPI document into rows.

    Args:
        value: the document, for which `asyncapi_of` gives a dialect.
        problems: what reading the text found.
        uri: of the document.
        rules: apply the rules about one entity too.
        open_file: gives the value of a file next to the document.

    Raises:
        Rejected: it grows beyond all limits by what its `$ref`s refer to.
    """
    try:
        converted = convert_asyncapi(value if isinstance(value, dict) else {}, open_file, uri)
    except Overgrown as error:
        raise Rejected(LIMIT, str(error), "Split it, or refer to less.") from error
    of_files = [problem for _, problem in converted.reported if problem.severity == "error"]
    converted.reported = [(xid, problem) for xid, problem in converted.reported if problem.severity != "error"]
    reading = _read(converted, problems + of_files, asyncapi_of(value) or "asyncapi-3", rules=rules)
    reading.findings = [finding._replace(pointer=_deepest(finding.pointer, value)) for finding in reading.findings]
    if any(problem.rule_id == OTHER_FILES for _, problem in converted.reported):
        reading.spellings[WITH_FILES] += 1
    return reading


def _deepest(pointer: Pointer, document: Any) -> Pointer:
    """Return the longest beginning of a pointer that exists in a document: several members may have become one."""
    result, value = ROOT, document
    for token in pointer.split("/")[1:]:
        key = token.replace("~1", "/").replace("~0", "~")
        if isinstance(value, list) and is_whole(key) and int(key) < len(value):
            value = value[int(key)]
        elif isinstance(value, dict) and key in value:
            value = value[key]
        else:
            break
        result = Pointer(f"{result}/{token}")
    return result


def _read(converted: Converted, problems: list[Problem], dialect: str, *, rules: bool) -> Reading:
    text_errors, converted_problems = _inside(problems, converted)
    reading = read_document(converted.document, converted.errors + text_errors, dialect, rules=rules)
    reading.findings = [_as_written(finding, converted) for finding in reading.findings]
    reading.findings.extend(_reported("", NO_XID, problem) for problem in converted_problems)
    for xid, problem in converted.reported:
        pointer = translated(problem.pointer, converted.pointers)
        kind = {0: "", 2: "group", 4: "message", 6: "version"}[xid.count("/")]
        reading.findings.append(_reported(kind, xid, problem._replace(pointer=pointer)))
    reading.rows = [
        row._replace(raw=as_written(converted.written[row.xid]) if row.xid in converted.written else None) for row in reading.rows
    ]
    reading.rows = [row for row in reading.rows if row.kind != "registry"]  # the draft knows no attributes of a catalog
    reading.entities.pop("registries", None)
    reading.root = "{}"
    return reading


def _inside(problems: list[Problem], converted: Converted) -> tuple[list[Problem], list[Problem]]:
    """Part problems of the text: errors, at their pointers in the converted document, and the rest."""
    errors, rest = [], []
    normals: dict[Pointer, dict[str, Pointer]] = {}  # by the pointer as written, and by entity; of several of one the longest
    for normal, at in converted.pointers.items() if any(problem.severity == "error" for problem in problems) else ():
        by_entity, entity = normals.setdefault(at, {}), "/".join(normal.split("/")[:5])
        by_entity[entity] = max(by_entity.get(entity, ROOT), normal, key=len)
    places: dict[Pointer, list[Pointer]] = {}
    for problem in problems:
        enclosing = next((pointer for pointer in _upwards(problem.pointer) if pointer in normals), None)
        if problem.severity == "error" and enclosing is not None:
            if enclosing not in places:
                places[enclosing] = _innermost(normals[enclosing].values())
            errors += [
                problem._replace(pointer=Pointer(f"{normal}{problem.pointer[len(enclosing) :]}")) for normal in places[enclosing]
            ]
            del places[enclosing][1:]  # one error quarantines an entity; all are reported of the first
        else:
            rest.append(problem._replace(severity="warning") if problem.severity == "error" else problem)
    return errors, rest


def _innermost(pointers: Iterable[Pointer]) -> list[Pointer]:
    """Return the pointers that are above none of the others, the longest first."""
    outer = {parent for pointer in pointers for parent in _upwards(Pointer(pointer.rpartition("/")[0]))}
    return sorted((pointer for pointer in pointers if pointer not in outer), key=len, reverse=True)


def _upwards(pointer: Pointer) -> Iterator[Pointer]:
    """Yield a pointer, then those of its parents."""
    while pointer:
        yield pointer
        pointer = Pointer(pointer.rpartition("/")[0])
    yield ROOT


def _reported(kind: str, xid: Xid, problem: Problem) -> Finding:
    pointer, rule_id, severity, message, hint, raw, _ = problem
    return Finding(kind, xid, pointer, rule_id, severity, "kept", message, hint, raw)


def _as_written(finding: Finding, converted: Converted) -> Finding:
    raw = finding.raw
    if raw is not None and finding.xid in converted.written:
        raw = as_written(converted.written[finding.xid])
    return finding._replace(pointer=translated(finding.pointer, converted.pointers), raw=raw)
