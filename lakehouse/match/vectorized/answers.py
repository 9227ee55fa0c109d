"""Which definitions ask the same, and what each distinct text of a column answers to it.

Definitions that ask the same but for the type of their events share one `Candidates.likeness`, so that rows of all these types
are matched together. Texts are compared by the functions of the row loop. Where there are many distinct ones, Arrow's kernels
first take those that hold at a glance; all others are compared one by one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property, lru_cache
from itertools import count
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.match.definition.compiled import TYPE, DeclaredAttribute, Definition
from lakehouse.match.definition.templates import Template
from lakehouse.match.evaluation import MATCHED, Evaluation, best_of, compare, deviates_in_form, is_more_specific, status_of
from lakehouse.match.event.canonical import Event
from lakehouse.match.matcher import LONGEST_VALUE
from lakehouse.match.vectorized.columns import Captures, Columns, Rows, TextColumn
from lakehouse.text.names import Pointer

_MOST_NUMBERS = 20_000
_MANY = 256  # distinct texts, from which on kernels are quicker than a loop
_OFTEN = 3  # groups that ask the same, from which on the whole column is looked at
_MOST_PATHS = 64  # answers of whole columns
# All fixed, and run by RE2. A timestamp that is one at a glance; what is not of this form is looked at by itself.
_PLAIN_TIME = (
    r"\A\d{4}-(0[1-9]|1[0-2])-(0[1-9]|1\d|2[0-8])T([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)\z"
)
_PLAIN_URI = r"\A[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=]+\z"
_PLAIN_STRING = r"\A[^\x00-\x1f\x7f-\x{9f}\x{fffe}\x{ffff}]+\z"
_WHOLE = (("", ""),)  # the segments of a template that is one placeholder
_URI_KINDS = ("uritemplate", "urireference", "uri")


class Choice(NamedTuple):
    """What rows are of: the definitions that match, sorted; the best of them; and which candidate the first of these is."""

    matches: list[Definition]
    best: list[Definition]
    shown: int


class Candidates:
    """The definitions that rows of one type may be of.

    Args:
        definitions: those that are for the protocol of the rows, or for any.
        numbers: for each what it asks; the same number asks the same.
        has_protocol: whether the landing says the protocol.

    Attributes:
        definitions: in the order of what they ask, so that their order is the same where they ask alike.
        likeness: what they ask.
    """

    def __init__(self, definitions: Sequence[Definition], numbers: Sequence[int], *, has_protocol: bool) -> None:
        pairs = sorted(zip(numbers, definitions, strict=True), key=lambda pair: (pair[0], pair[1].key))
        self.definitions = [definition for _, definition in pairs]
        self.likeness = tuple(number for number, _ in pairs)
        self._has_protocol = has_protocol
        self._choices: dict[int, Choice | None] = {}

    def __len__(self) -> int:
        return len(self.definitions)

    def choice(self, bits: int) -> Choice | None:
        """Choose among the definitions that match, each a bit; None: the row loop must look at it."""
        if bits not in self._choices:
            self._choices[bits] = self._choose(bits)
        return self._choices[bits]

    def _choose(self, bits: int) -> Choice | None:
        matches = [definition for bit, definition in enumerate(self.definitions) if bits >> bit & 1]
        missed = [definition for bit, definition in enumerate(self.definitions) if not bits >> bit & 1 and definition.family]
        matches.sort(key=lambda definition: definition.key)
        best = [
            outcome.definition
            for outcome in best_of([Evaluation(definition) for definition in matches], has_protocol=self._has_protocol)
        ]
        if not best or status_of(best) != MATCHED:
            return None
        if self._has_protocol and any(is_more_specific(definition, two) for definition in missed for two in best):
            return None
        return Choice(matches, best, next(bit for bit, definition in enumerate(self.definitions) if definition is best[0]))


class Likeness:
    """Numbers what definitions ask, and keeps the candidates of a type."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[object, ...], int] = {}
        self._next = count()
        self._number_of = lru_cache(_MOST_NUMBERS)(self._number)
        self.candidates = lru_cache(_MOST_NUMBERS)(self._candidates)

    def _candidates(self, definitions: tuple[Definition, ...], family: str | None) -> Candidates:
        """Return the candidates of rows of a type: definitions that the index gave, the protocol of the rows."""
        wanted = [
            definition
            for definition in definitions
            if not (definition.is_bare or definition.version_age or definition.incomplete)
            and (family is None or definition.family in (None, family))
        ]
        return Candidates(wanted, [self._number_of(definition) for definition in wanted], has_protocol=family is not None)

    def _number(self, definition: Definition) -> int:
        question = (
            definition.family,
            definition.version,
            tuple(
                (attribute.question, attribute.required, attribute.decides)
                for attribute in definition.attributes
                if not is_index_key(attribute)
            ),
        )
        if len(self._numbers) > _MOST_NUMBERS:  # what comes again gets another number: it cannot be combined once more
            self._numbers.clear()
        return self._numbers.setdefault(question, next(self._next))


@lru_cache(_MOST_NUMBERS)
def is_index_key(attribute: DeclaredAttribute) -> bool:
    """Return whether an attribute is the type under which the index finds its definition: it holds of all rows of that type."""
    if attribute.pointer != TYPE or attribute.template is not None or not isinstance(attribute.value, str):
        return False
    return compare(attribute, attribute.value, Event(), []) is None and not deviates_in_form(attribute, attribute.value, Event())


class FastPath(NamedTuple):
    """What of some texts holds without a doubt and has nothing odd, and what the placeholders hold."""

    holds: Rows
    captures: list[Captures]

    def take(self, numbers: Rows) -> FastPath:
        """Return the part of some of the texts."""
        return FastPath(self.holds[numbers], [capture.take(numbers) for capture in self.captures])


class ColumnAnswer(NamedTuple):
    """What the texts of some rows answer.

    Attributes:
        holds: which rows hold what is asked; absent ones do not.
        is_odd: which of them have something more to report, so that the row loop must look at them.
        captures: what each placeholder of the template holds, row by row.
    """

    holds: Rows
    is_odd: Rows
    captures: tuple[Captures, ...]


class FastPathCache:
    """What of whole columns holds at a glance, for what several small groups of rows ask alike."""

    def __init__(self) -> None:
        self._questions: Counter[tuple[object, ...]] = Counter()
        self._paths: dict[tuple[object, ...], FastPath | None] = {}

    def find(self, attribute: DeclaredAttribute, texts: TextColumn) -> FastPath | None:
        """Return for each text whether it holds at a glance, and what the placeholders hold.

        Returns:
            None: it was asked once only, or kernels cannot say.
        """
        key = (id(texts), attribute.question)
        self._questions[key] += 1
        if self._questions[key] == _OFTEN and len(texts.words) >= _MANY and len(self._paths) < _MOST_PATHS:
            self._paths[key] = _at_a_glance(attribute, texts.words)
        return self._paths.get(key)


class RowGroup:
    """Rows of a batch that have the same candidates.

    Args:
        columns: the batch.
        rows: their numbers in it.
        glances: of the batch.
    """

    def __init__(self, columns: Columns, rows: Rows, glances: FastPathCache) -> None:
        self.columns, self.rows, self._glances = columns, rows, glances
        self._parts: dict[int, _RowTexts] = {}
        self._answers: dict[tuple[object, ...], ColumnAnswer] = {}

    def is_absent(self, texts: TextColumn) -> Rows:
        """Return which rows have no text."""
        return self._part(texts).is_absent

    def is_odd(self, texts: TextColumn) -> Rows | None:
        """Return which rows have a value that is no text; None: no row has."""
        return None if texts.odd is None else texts.odd[self.rows]

    def answer(self, attribute: DeclaredAttribute, texts: TextColumn, probe: Event) -> ColumnAnswer:
        """Compare the texts of the rows with what an attribute asks."""
        key = (id(texts), attribute.question)
        if key not in self._answers:
            part = self._part(texts)
            holds, is_odd, captures = part.ask(attribute, probe, self._glances)
            inverse = part.inverse
            self._answers[key] = ColumnAnswer(
                holds[inverse], is_odd[inverse], tuple(capture.take(inverse) for capture in captures)
            )
        return self._answers[key]

    def _part(self, texts: TextColumn) -> _RowTexts:
        if id(texts) not in self._parts:
            self._parts[id(texts)] = _RowTexts(texts, texts.codes[self.rows])
        return self._parts[id(texts)]


class _RowTexts:
    """The texts of some rows: `unique`, numbers of those that there are; `inverse`, for each row which of them it has."""

    def __init__(self, texts: TextColumn, codes: Rows) -> None:
        self.texts = texts
        size = len(texts.words) + 1
        if size <= 4 * len(codes):
            is_there = np.zeros(size, bool)
            is_there[codes] = True
            self.unique: Rows = np.nonzero(is_there)[0]
            number = np.empty(size, np.int64)
            number[self.unique] = np.arange(len(self.unique))
            self.inverse: Rows = number[codes]
        else:
            self.unique, self.inverse = np.unique(codes, return_inverse=True)
        self.is_none_absent = bool(len(self.unique)) and int(self.unique[-1]) < len(texts.words)

    @cached_property
    def is_absent(self) -> Rows:
        """Return which rows have no text."""
        result: Rows = (self.unique == len(self.texts.words))[self.inverse]
        return result

    def ask(self, attribute: DeclaredAttribute, probe: Event, glances: FastPathCache) -> tuple[Rows, Rows, list[Captures]]:
        """Compare each text: which hold, which are odd, and what the placeholders hold."""
        count = len(self.unique)
        left = np.ones(count, bool) if self.is_none_absent else self.unique != len(self.texts.words)
        is_odd = np.zeros(count, bool)
        sure = self._sure(attribute, left, glances)
        holds = np.zeros(count, bool) if sure is None else sure.holds & left
        left &= ~holds
        if not left.any():
            return holds, is_odd, [] if sure is None else sure.captures
        results: list[list[str]] = [[] for _ in (attribute.template.names if attribute.template else ())]
        at = np.full(count, -1)
        for number in np.nonzero(left)[0].tolist():
            text = self.texts.distinct[self.unique[number]]
            captured: list[tuple[str, Pointer, str]] = []
            if compare(attribute, text, probe, captured) is None:
                holds[number] = True
                is_odd[number] = deviates_in_form(attribute, text, probe) or any(
                    len(piece) > LONGEST_VALUE for *_, piece in captured
                )
                if results:
                    at[number] = len(results[0])
                for into, capture in zip(results, captured, strict=False):
                    into.append(capture[2])
        looped = [Captures(pa.array(pieces, pa.string()), at) for pieces in results]
        return holds, is_odd, looped if sure is None else [_joined(*pair) for pair in zip(sure.captures, looped, strict=True)]

    def _sure(self, attribute: DeclaredAttribute, left: Rows, glances: FastPathCache) -> FastPath | None:
        """Return what holds at a glance: of these texts where they are many, else of the column where others ask that too."""
        if left.sum() < _MANY:
            fast = glances.find(attribute, self.texts)
            return None if fast is None else fast.take(np.where(left, self.unique, -1))
        words = self.texts.words
        at = self.unique[left]
        sure = _at_a_glance(attribute, words if len(at) == len(words) else words.take(pa.array(at)))
        if sure is None or left.all():
            return sure
        return sure.take(np.cumsum(left) - 1)  # of what has no text, which does not count, that of another


def _joined(sure: Captures, looped: Captures) -> Captures:
    """Return one column of the texts that were found in two ways."""
    if not len(looped.values):
        return sure
    values = pa.concat_arrays([sure.values, looped.values])
    return Captures(values, np.where(looped.at < 0, sure.at, looped.at + len(sure.values)))


def _at_a_glance(attribute: DeclaredAttribute, texts: pa.Array) -> FastPath | None:
    """Return the texts that hold without a doubt and have nothing odd, and what their placeholders hold.

    Returns:
        None: kernels cannot decide it.
    """
    form = _form_of(attribute)
    if form is None:
        return None
    sure = _bools(pc.not_equal(texts, ""))
    if form:
        sure &= _bools(pc.match_substring_regex(texts, form))
    template = attribute.template
    if template is None:
        return FastPath(sure, [])
    sure &= _bools(pc.less_equal(pc.utf8_length(texts), LONGEST_VALUE))
    if template.segments == _WHOLE and not template.separator:
        return FastPath(sure, [Captures(texts, np.where(sure, np.arange(len(texts)), -1))])
    result = _split(template, texts)
    if result is None:
        return None
    sure &= result.holds
    return FastPath(sure, [Captures(capture.values, np.where(sure, capture.at, -1)) for capture in result.captures])


def _form_of(attribute: DeclaredAttribute) -> str | None:
    """Return the expression of texts that are of the type and form of an attribute; empty: all are; None: there is none."""
    kind, template = attribute.kind, attribute.template
    if attribute.has_value and template is None:
        return None
    if kind is None:
        if attribute.section != "envelope":
            return ""
        inferred = attribute.inferred_kind
        return _PLAIN_URI if inferred in _URI_KINDS else _PLAIN_TIME if inferred == "timestamp" else ""
    if kind in ("timestamp", "datetime"):
        return _PLAIN_TIME
    if kind == "string":
        return _PLAIN_STRING
    is_checked = kind == "uri" and template is None and not (attribute.section == "envelope" and attribute.key == "source")
    return _PLAIN_URI if kind in _URI_KINDS and not is_checked else None


def _split(template: Template, texts: pa.Array) -> FastPath | None:
    """Match a template whose placeholders fill their segments: which texts fit, and what the holes of these hold."""
    if (
        template.flaw
        or not template.separator
        or any(not isinstance(segment, str) and segment != ("", "") for segment in template.segments)
    ):
        return None
    parts = pc.split_pattern(texts, template.separator)
    pieces, starts = parts.values, np.array(parts.offsets)[:-1]
    width = len(template.segments)
    fits = _bools(pc.equal(pc.list_value_length(parts), width))
    rows = np.nonzero(fits)[0]
    captures, whole = [], np.ones(len(rows), bool)
    for at, segment in enumerate(template.segments):
        numbers = starts[rows] + at
        piece = pieces.take(pa.array(numbers))
        whole &= _bools(pc.equal(piece, segment) if isinstance(segment, str) else pc.not_equal(piece, ""))
        if not isinstance(segment, str):
            places = np.full(len(texts), -1)
            places[rows] = numbers
            captures.append(Captures(pieces, places))
    fits[rows] = whole
    return FastPath(fits, captures)


def _bools(values: pa.Array) -> Rows:
    result: Rows = np.array(values.to_numpy(zero_copy_only=False), bool)
    return result
