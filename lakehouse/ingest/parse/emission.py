"""Entities that were read become rows, or findings that tell why they are none."""

from __future__ import annotations

from bisect import bisect_left
from typing import Any

from lakehouse.dialects.entityreader import NormalEntity
from lakehouse.dialects.locate import locate
from lakehouse.ingest.parse.readings import TABLE_NAMES, Reading
from lakehouse.ingest.parse.refusals import Refusals
from lakehouse.ingest.parse.rows import make_row, take_life
from lakehouse.ingest.parse.versions import has_error
from lakehouse.rules.declared import RULES
from lakehouse.rules.one.endpoints import NO_LABELS
from lakehouse.rules.one.engine import PRESENCE, check_entity
from lakehouse.rules.one.table import Subject
from lakehouse.store.keys import VERSION_KIND
from lakehouse.text.jsontext import as_written, below, escaped
from lakehouse.text.names import Pointer, Xid
from lakehouse.text.problems import Problem


class Emission:
    """Adds to a reading what becomes of each entity: its row, or its refusal, with what was found in its text and by the rules.

    Args:
        reading: what is added to.
        text_problems: what reading the text found.
        dialect: of the document.
        rules: apply the rules about one entity, beside those of types and ids.
    """

    def __init__(self, reading: Reading, text_problems: list[Problem], dialect: str, *, rules: bool) -> None:
        self.reading = reading
        self.refusals = Refusals(reading)
        self.dialect = dialect
        self.rules = rules
        self.text_problems = text_problems
        # Errors by pointer, so that those below one stand together: an entity asks for its own.
        self._text_errors = sorted((f"{one.pointer}/", n) for n, one in enumerate(text_problems) if one.severity == "error")

    def emit(
        self,
        kind: str,
        xid: Xid,
        here: Pointer,
        written: dict[str, Any],
        read: NormalEntity,
        problems: list[Problem],
        *,
        keep_raw: bool = True,
    ) -> bool:
        """Emit an entity's row, or refuse it when there is an error; True when it was accepted."""
        if read.spellings:
            self.reading.spellings.update(read.spellings)
        life, life_problems = take_life(read.known, below(here, "meta") if kind in VERSION_KIND else here)
        every = [*problems, *read.problems, *life_problems]
        row = None
        if not has_error(every):
            try:
                row = make_row(kind, xid, life, read, written if keep_raw else None)
            except OverflowError as error:
                every.append(Problem(here, "MSG-104", "error", str(error), "Write a number that a double holds, or a string."))
        raw = as_written(written) if row is None else None
        for problem in every:
            self.refusals.tell(kind, xid, problem, "kept" if row else "quarantined", raw if problem.severity == "error" else None)
        if row is None:
            self.refusals.reading.refuse(kind, xid)
            return False
        self.reading.rows.append(row)
        self.reading.entities[TABLE_NAMES[kind]] += 1
        return True

    def broken(self, subject: Subject, read: NormalEntity, *written: tuple[Pointer, dict[str, Any]]) -> list[Problem]:
        """Apply the rules about one entity, and tell where they are broken in the document as written."""
        problems = []
        for path, rule_id, message, severity in check_entity(subject) if self.rules else ():
            if rule_id in PRESENCE and has_error(read.problems):
                continue  # what is missing was refused for its type, which is told
            if rule_id == NO_LABELS and any(problem.kept for problem in read.problems):
                continue
            rule = RULES[rule_id]
            where = locate(subject.entity, path, *written)
            problems.append(Problem(where, rule_id, severity or rule.severity, message, rule.hint))
        return problems

    def text_errors(self, here: Pointer, children: tuple[str, ...] = ()) -> list[Problem]:
        """Give the errors of the text that lie in the entity at `here` and not in an entity of its collections."""
        if not self._text_errors:
            return []
        start = f"{here}/"
        collections = tuple(start + escaped(child) + "/" for child in children)
        inside = []
        for index in range(bisect_left(self._text_errors, (start, 0)), len(self._text_errors)):
            at, number = self._text_errors[index]
            if not at.startswith(start):
                break
            if not (at.startswith(collections) and at not in collections):
                inside.append(number)
        return [self.text_problems[number] for number in sorted(inside)]

    def respelled(self, entity: str, spelled: str, normal: str) -> None:
        """Count a name that was written otherwise."""
        if spelled != normal:
            self.reading.spellings[f"{entity}: {spelled} → {normal}"] += 1
