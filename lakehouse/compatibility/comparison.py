"""Two schemas of one format, compared both ways.

Schemas come as the catalog holds them: JSON values, or texts.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from lakehouse.compatibility.avroschemas import AvroComparison, read_avro
from lakehouse.compatibility.jsonschemas import JsonComparison
from lakehouse.compatibility.jsonshapes import JsonDocument
from lakehouse.compatibility.jsonstructures import StructureComparison, read_structure
from lakehouse.compatibility.limits import (
    INVALID,
    MOST_DIFFERENCES,
    MOST_STEPS,
    MOST_TEXT,
    StepBudget,
    TooMuchWork,
    Unreadable,
    text_of,
)
from lakehouse.compatibility.protoschemas import ProtoComparison, ProtoFile
from lakehouse.compatibility.schemadifferences import DirectionResult, Judgement, SchemaDifference, incomparable, join_directions
from lakehouse.compatibility.xmlschemas import XmlComparison, XmlDocument
from lakehouse.dialects.schemadocuments import family_of_format
from lakehouse.text.jsontext import read_exactly

_MOST_CACHED = 4_096  # judgements
BothDirections = tuple[list[DirectionResult], list[DirectionResult]]


def compare(before: Any, after: Any, format: str, *, most: int = MOST_STEPS) -> list[SchemaDifference]:
    """Compare two schemas.

    Args:
        before: the old one, as a JSON value or as text.
        after: the new one.
        format: of both, as `format` of a Version names it, such as `Avro/1.11`; empty: by what the schemas look like.
        most: steps that it may take.

    Returns:
        The differences, by place; a single one of kind `undecided` where the schemas cannot be compared.
    """
    family = family_of_format(format, after)
    compare_both = _COMPARISONS.get(family)
    if compare_both is None:
        return [] if before == after else list(incomparable(f"schemas of format {format or 'unknown'} are not compared"))
    try:
        backward, forward = compare_both(before, after, format, most)
        if len(backward) + len(forward) > 2 * MOST_DIFFERENCES:
            raise TooMuchWork(f"there are more than {MOST_DIFFERENCES} differences")
        return list(join_directions(backward, forward))
    except (TooMuchWork, Unreadable) as error:
        return list(incomparable(str(error)))
    except RecursionError:
        return list(incomparable("the schemas are too deep"))
    except INVALID as error:
        return list(incomparable(f"a schema is not valid: {type(error).__name__}: {error}"[:200]))


def judge(before: Any, after: Any, format: str) -> Judgement:
    """Compare two schemas, once for each pair: judgements are kept by the texts."""
    texts = [text_of(schema) for schema in (before, after)]
    if max(map(len, texts)) > MOST_TEXT:
        return Judgement(incomparable(f"a schema is longer than {MOST_TEXT} letters"))
    return _judged(texts[0], texts[1], isinstance(before, str), isinstance(after, str), format)


@lru_cache(_MOST_CACHED)
def _judged(before: str, after: str, is_text_before: bool, is_text_after: bool, format: str) -> Judgement:
    sides = ((before, is_text_before), (after, is_text_after))
    pair = [text if is_text else read_exactly(text.encode()) for text, is_text in sides]
    return Judgement(tuple(compare(pair[0], pair[1], format)))


def _avro(before: Any, after: Any, format: str, most: int) -> BothDirections:
    old, new = read_avro(before), read_avro(after)
    return (
        list(AvroComparison(is_backward=True, steps=StepBudget(most)).compare(old, new)),
        list(AvroComparison(is_backward=False, steps=StepBudget(most)).compare(new, old)),
    )


def _json(before: Any, after: Any, format: str, most: int) -> BothDirections:
    old, new = JsonDocument(before, format), JsonDocument(after, format)
    return (
        JsonComparison(old, new, is_backward=True, steps=StepBudget(most)).compare(),
        JsonComparison(new, old, is_backward=False, steps=StepBudget(most)).compare(),
    )


def _proto(before: Any, after: Any, format: str, most: int) -> BothDirections:
    if not isinstance(before, str) or not isinstance(after, str):
        raise Unreadable("a Protobuf schema that is not text is not read")
    old, new = ProtoFile(before), ProtoFile(after)
    return (
        list(ProtoComparison(old, new, is_backward=True, steps=StepBudget(most)).compare()),
        list(ProtoComparison(new, old, is_backward=False, steps=StepBudget(most)).compare()),
    )


def _xml(before: Any, after: Any, format: str, most: int) -> BothDirections:
    old, new = XmlDocument(before), XmlDocument(after)
    return (
        list(XmlComparison(old, new, is_backward=True, steps=StepBudget(most)).compare()),
        list(XmlComparison(new, old, is_backward=False, steps=StepBudget(most)).compare()),
    )


def _structure(before: Any, after: Any, format: str, most: int) -> BothDirections:
    old, new = read_structure(before), read_structure(after)
    return (
        list(StructureComparison(old, new, is_backward=True, steps=StepBudget(most)).compare()),
        list(StructureComparison(new, old, is_backward=False, steps=StepBudget(most)).compare()),
    )


_COMPARISONS: dict[str, Callable[[Any, Any, str, int], BothDirections]] = {
    "avro": _avro,
    "jsonschema": _json,
    "protobuf": _proto,
    "xsd": _xml,
    "jsonstructure": _structure,
}
