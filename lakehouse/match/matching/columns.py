"""The quick way: a batch of CloudEvents, matched column by column.

Rows whose definitions ask alike, of whatever types they are, are taken together. Each distinct value of an attribute is compared
once, by the same functions as in the row loop, and the verdicts are spread over the rows. Rows that match without anything to
tell come out here; all others (no match, deviations, a more specific definition that is missed, other shapes) are left to the row
loop. Tests hold the two equal.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from lakehouse.match.definition.definitions import Attribute, Definition
from lakehouse.match.event.landed import Event
from lakehouse.match.matching.columnanswers import Answer, Glances, Group
from lakehouse.match.matching.columnresults import Found, result_batch
from lakehouse.match.matching.columntexts import Held, Rows
from lakehouse.match.matching.evaluation import hides_envelope_type, is_told, is_version
from lakehouse.match.matching.landedcolumns import FEWEST_ROWS, Columns, columns_of
from lakehouse.match.matching.likeness import Candidates, is_settled
from lakehouse.match.matching.matcher import Matcher

_MOST_CANDIDATES = 60
_FEWEST_OF_A_TYPE = 4  # fewer are as quick in the row loop


class Verdict(NamedTuple):
    """What came of a definition and rows: which match, which the row loop must look at, and what the placeholders hold."""

    matches: Rows
    odd: Rows
    variables: dict[str, Held]
    unchecked: list[str]


def match_columns(matcher: Matcher, batch: pa.RecordBatch) -> tuple[list[pa.RecordBatch], pa.RecordBatch]:
    """Match what of a batch can be matched column by column.

    Args:
        matcher: the definitions, and how.
        batch: the columns of `LANDED`.

    Returns:
        Results, and the rows that are left to the row loop.
    """
    asked = matcher.request
    if asked.tolerance.level != "default" or asked.tolerance.native or 0 < asked.payload_share < 1:
        return [], batch
    results, done = [], np.zeros(batch.num_rows, bool)
    with _not_collecting():
        for columns in columns_of(batch):
            glances = Glances()
            groups = ((Group(columns, rows, glances), members, which) for rows, members, which in _groups(matcher, columns))
            found = [one for group, members, which in groups for one in _match_group(group, members, which)]
            if found:
                results.append(result_batch(matcher, columns, found))
                for one in found:
                    done[columns.numbers[one.rows]] = True
    if not done.any():
        return results, batch
    return results, batch.slice(batch.num_rows) if done.all() else batch.filter(pa.array(~done))


@contextmanager
def _not_collecting() -> Iterator[None]:
    """Keep Python from searching for cycles: thousands of JSON values are open here, none in a cycle; each search walks them."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _groups(matcher: Matcher, columns: Columns) -> Iterator[tuple[Rows, list[Candidates], Rows]]:
    """Take rows together whose candidates ask alike: the rows, the candidates of their types, and which of these each row has."""
    alike: dict[tuple[object, ...], tuple[list[Rows], list[Candidates]]] = {}
    for rows, candidates in _types(matcher, columns):
        parts, members = alike.setdefault(candidates.likeness, ([], []))
        parts.append(rows)
        members.append(candidates)
    for parts, members in alike.values():
        rows = np.concatenate(parts)
        if len(rows) >= FEWEST_ROWS:
            yield rows, members, np.repeat(np.arange(len(parts)), [len(part) for part in parts])


def _types(matcher: Matcher, columns: Columns) -> Iterator[tuple[Rows, Candidates]]:
    """Take rows of one type (and topic or subject, where that tells definitions) together, with their candidates."""
    binding, kinds = columns.binding, columns.attribute("type")
    told = columns.option(binding.telling)
    at = np.nonzero(columns.is_ready)[0]
    codes = kinds.codes[at].astype(np.int64)
    has_addresses = bool(binding.family) and matcher.index.tells_addresses(binding.family or "")
    if has_addresses:
        codes = codes * (len(told.words) + 1) + told.codes[at]
    order = np.argsort(codes.astype(np.uint16) if codes.max(initial=0) < 2**16 else codes, kind="stable")
    ends = np.nonzero(np.diff(codes[order]))[0] + 1
    for part in np.split(order, ends):
        if len(part) >= _FEWEST_OF_A_TYPE:
            rows = at[part]
            event = columns.event()
            event.ce["type"] = kinds.told[kinds.codes[rows[0]]]
            address = told.told[told.codes[rows[0]]] if has_addresses else None
            if address is not None:
                event.options[binding.telling] = address
            found = matcher.candidates(event)
            if len(found) <= _MOST_CANDIDATES:
                yield rows, found


def _match_group(group: Group, members: list[Candidates], which: Rows) -> Iterator[Found]:
    """Match rows whose candidates ask alike; rows with anything to tell are left out."""
    rows = group.rows
    verdicts = [_evaluate(one, group) for one in members[0].definitions]
    pattern, odd = np.zeros(len(rows), np.int64), np.zeros(len(rows), bool)
    for bit, verdict in enumerate(verdicts):
        pattern |= verdict.matches.astype(np.int64) << bit
        odd |= verdict.odd
    for bits in np.unique(pattern[~odd]).tolist():
        here = np.nonzero((pattern == bits) & ~odd)[0]
        choices = [one.choice(bits) for one in members]
        shown = np.array([-1 if one is None else one.shown for one in choices])[which[here]]
        for slot in np.unique(shown).tolist():
            if slot >= 0:
                chosen = here if (shown == slot).all() else here[shown == slot]
                verdict = verdicts[slot]
                variables = {name: held.of(chosen) for name, held in verdict.variables.items()}
                yield Found(rows[chosen], choices, which[chosen], variables, verdict.unchecked)


def _evaluate(definition: Definition, group: Group) -> Verdict:
    """Check all that a definition asks of rows."""
    columns, count = group.columns, len(group.rows)
    probe = columns.event()
    matches, odd = np.ones(count, bool), np.zeros(count, bool)
    held: dict[str, list[Held]] = {}
    unchecked = ["/protocol"] if definition.family and not columns.binding.family else []
    if definition.family == "MQTT" and not is_version(columns.binding.version, definition.version):
        odd |= True  # another version deviates
    for attribute in definition.attributes:
        if is_settled(attribute):
            continue
        if attribute.section == "message" and hides_envelope_type(attribute, probe):
            unchecked.append(attribute.pointer)
            continue
        answer, absent = _ask(attribute, group, probe)
        if absent.any() and not is_told(attribute, probe):
            unchecked.append(attribute.pointer)
            odd |= not absent.all()  # told of some rows and of others not
        elif attribute.required or attribute.has_value:
            matches &= ~(absent & attribute.decides)
            odd |= absent & (not attribute.decides)
        if absent.all():
            continue
        if attribute.decides:
            matches &= answer.holds | absent
        else:
            odd |= ~(answer.holds | absent)
        odd |= answer.is_odd & ~absent
        for name, texts in zip(attribute.template.names if attribute.template else (), answer.held, strict=False):
            held.setdefault(name, []).append(texts)
    variables = {name: uses[0] for name, uses in held.items()}
    for name, uses in held.items():
        for other in uses[1:]:  # texts that differ are the row loop's
            odd |= matches & variables[name].differs(other)
    return Verdict(matches, odd & matches, variables, unchecked)


def _ask(attribute: Attribute, group: Group, probe: Event) -> tuple[Answer, Rows]:
    """Give what rows answer, and which of them have no value; what the row loop must look at is odd."""
    columns = group.columns
    if attribute.section == "message":  # one of the content types must hold
        answers = [group.answer(attribute, texts, probe) for texts in columns.content_types()]
        holds, odd = (np.logical_or.reduce([answer[part] for answer in answers]) for part in (0, 1))
        return Answer(holds, odd, ()), np.logical_and.reduce([group.is_absent(one) for one in columns.content_types()])
    texts = columns.attribute(attribute.key) if attribute.section == "envelope" else columns.option(attribute.key)
    absent, odd = group.is_absent(texts), group.is_odd(texts)
    if attribute.key == "key_base64":
        return Answer(~absent, ~absent, ()), absent
    answer = group.answer(attribute, texts, probe)
    if odd is None:
        return answer, absent
    return answer._replace(holds=answer.holds | odd, is_odd=answer.is_odd | odd), absent & ~odd
