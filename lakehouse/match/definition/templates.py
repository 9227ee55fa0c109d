"""Values with placeholders, such as `orders/{region}/{id}`: what they match, what they capture, what they write.

A template is compiled once into a segment program: the text is split at the separator, literals are compared, the rest is what
the placeholders hold. Nothing backtracks and no regular expression is made of a template, so the time is linear in the text
(MSG-090, MSG-091, MSG-229; resolutions 10 and 11).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Rule = Literal["auto", "segment", "any"]
RULES: tuple[Rule, ...] = ("auto", "segment", "any")
_PLACEHOLDER = re.compile(r"\{([A-Za-z0-9_]+)\}")  # fixed and linear: finds placeholders, and is never made of a template
_Segment = str | tuple[str, ...]


@dataclass(frozen=True)
class Template:
    """A compiled value with placeholders.

    Attributes:
        text: as declared.
        names: the placeholder of each hole, in order; a name may occur twice.
        shape: the text with the names removed: two templates of one shape match the same texts.
        separator: what a hole does not take; empty: a hole takes any text.
        segments: for each segment its literal, or the literals around its holes (one more than holes).
        flaw: why it can never match; empty when it can.
    """

    text: str
    names: tuple[str, ...]
    shape: str
    separator: str
    segments: tuple[_Segment, ...]
    flaw: str = ""

    def match(self, text: str) -> tuple[str, ...] | None:
        """Return what each hole holds; None: the text does not match. A hole takes as much as it can, from the left."""
        if self.flaw:
            return None
        if self.segments == (("", ""),):
            hole = text if text and not (self.separator and self.separator in text) else None
            return None if hole is None else (hole,)
        parts = text.split(self.separator) if self.separator else [text]
        if len(parts) != len(self.segments):
            return None
        captured: list[str] = []
        for part, segment in zip(parts, self.segments, strict=True):
            if isinstance(segment, str):
                if part != segment:
                    return None
            elif not _fill(part, segment, captured):
                return None
        return tuple(captured)

    def explain(self, text: str) -> str:
        """Return why a text does not match, where more can be said than that it does not; else an empty text."""
        if self.flaw:
            return self.flaw
        if not self.separator:
            return ""
        parts, wanted = text.split(self.separator), len(self.segments)
        holes = [segment for segment in self.segments if not isinstance(segment, str)]
        if len(parts) > wanted and len(holes) == 1:
            at = self.segments.index(holes[0])
            after = wanted - at - 1
            middle = self.separator.join(parts[at : len(parts) - after])
            lined_up = [*parts[:at], middle, *parts[len(parts) - after :]]
            if all(not isinstance(want, str) or part == want for part, want in zip(lined_up, self.segments, strict=True)):
                return f"{{{self.names[0]}}} would have to hold {self.separator}"
        if len(parts) != wanted:
            return f"{len(parts)} segments, declared {wanted}"
        return ""

    def fill(self, values: dict[str, str]) -> str:
        """Write the values into the holes as they are (resolution 11: raw insertion).

        Raises:
            KeyError: a placeholder has no value.
            ValueError: the text would not match back to the same values, such as one that holds the separator.
        """
        pieces, names = [], iter(self.names)
        for segment in self.segments:
            if isinstance(segment, str):
                pieces.append(segment)
            else:
                pieces.append(segment[0] + "".join(values[next(names)] + literal for literal in segment[1:]))
        text = self.separator.join(pieces)
        if self.match(text) != tuple(values[name] for name in self.names):
            raise ValueError(f"{self.text!r} with {values!r} gives {text!r}, which does not match back: {self.explain(text)}")
        return text


def has_placeholder(text: str) -> bool:
    """Return whether a text holds a placeholder: `{name}` of letters, digits and underscores (RFC 6570, level 1)."""
    return "{" in text and _PLACEHOLDER.search(text) is not None


def compile_template(text: str, separator: str = "/", rule: Rule = "auto") -> Template:
    """Compile a value with placeholders.

    Args:
        text: the value as declared.
        separator: `/`, or `.` in subjects of NATS.
        rule: `auto`: a lone placeholder takes any text that is not empty, others no separator; `segment`: never a separator;
            `any`: separators too.
    """
    names = tuple(_PLACEHOLDER.findall(text))
    literals = _PLACEHOLDER.split(text)[::2]
    alone = len(names) == 1 and literals == ["", ""]
    taken = "" if rule == "any" or (rule == "auto" and alone) else separator
    shape = "{}".join(literals)
    flaw = "placeholders are adjacent, so the end of the first is unknown" if "" in literals[1:-1] else ""
    segments: list[_Segment] = []
    for piece in shape.split(taken) if taken else [shape]:
        parts = tuple(piece.split("{}"))
        segments.append(piece if len(parts) == 1 else parts)
    if sum(len(segment) - 1 for segment in segments if not isinstance(segment, str)) != len(names):
        return _with_literal_braces(text, names, literals, taken, flaw)
    return Template(text, names, shape, taken, tuple(segments), flaw)


def _with_literal_braces(text: str, names: tuple[str, ...], literals: list[str], separator: str, flaw: str) -> Template:
    """Compile a template whose literals hold `{}`, which the shape cannot distinguish from a hole."""
    segments: list[list[str]] = [[""]]
    for number, literal in enumerate(literals):
        if number:
            segments[-1].append("")
        first, *further = literal.split(separator) if separator else [literal]
        segments[-1][-1] += first
        segments += [[piece] for piece in further]
    made = tuple(segment[0] if len(segment) == 1 else tuple(segment) for segment in segments)
    return Template(text, names, "{\x00}".join(literals), separator, made, flaw)


def _fill(part: str, literals: tuple[str, ...], captured: list[str]) -> bool:
    """Find what the holes of one segment hold: literals are sought from the right, so that earlier holes take the most."""
    first, last = literals[0], literals[-1]
    if not (part.startswith(first) and part.endswith(last)):
        return False
    start, end = len(first), len(part) - len(last)
    results: list[str] = []
    for literal in literals[-2:0:-1]:
        at = part.rfind(literal, start + 1, end - 1)
        if at < 0:
            return False
        results.append(part[at + len(literal) : end])
        end = at
    if end <= start:
        return False
    results.append(part[start:end])
    captured.extend(reversed(results))
    return True
