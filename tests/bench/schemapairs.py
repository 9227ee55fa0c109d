"""Time to judge a pair of schemas, compared with parsing them: `python -m tests.bench.schemapairs [--fields 50]`; no Java.

The goal is 100 µs a pair of 50 fields in the median, for new pairs; a pair that was judged before is looked up.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Any

import click
import orjson
from rich.console import Console
from rich.table import Table

from lakehouse.compatibility import judge
from lakehouse.compatibility.avroschemas import AvroComparison, read_avro
from lakehouse.compatibility.jsonschemas import JsonComparison
from lakehouse.compatibility.jsonshapes import JsonDocument
from lakehouse.compatibility.limits import StepBudget
from lakehouse.compatibility.protoschemas import ProtoComparison, ProtoFile

REPEAT = 300
Compare = Callable[[], object]


def json_pair(fields: int) -> tuple[Any, Any]:
    """Make two objects: one more member, one more required, a third of another type."""
    members = {
        f"field{at}": {"type": ["string", "null"] if at % 3 else "integer", "description": "of a field"} for at in range(fields)
    }
    before = {"type": "object", "properties": members, "required": ["field0"]}
    changed = members | {"field3": {"type": "number"}, "more": {"type": "string"}}
    return before, {"type": "object", "properties": changed, "required": ["field0", "field1"]}


def avro_pair(fields: int) -> tuple[Any, Any]:
    """Make two records: one more field, and one of another type."""
    held = [{"name": f"f{at}", "type": ["null", "string"] if at % 3 else "int"} for at in range(fields)]
    changed = [{"name": "f0", "type": "long"}, *held[1:], {"name": "more", "type": "string"}]
    record = {"type": "record", "name": "R"}
    return record | {"fields": held}, record | {"fields": changed}


def proto_pair(fields: int) -> tuple[str, str]:
    """Make two messages: one more field, and one of another type."""
    lines = [f"{'string' if at % 3 else 'int32'} field_{at} = {at};" for at in range(1, fields + 1)]
    changed = [*lines[:-1], f"bytes field_{fields} = {fields};", f"bool more = {fields + 1};"]
    before, after = (f'syntax = "proto3"; message M {{ {" ".join(one)} }}' for one in (lines, changed))
    return before, after


def both_ways(format_: str, before: Any, after: Any) -> tuple[Compare, Compare]:
    """Return what compares both ways, and what reads both schemas before."""
    read: Callable[[Any], Any] = {"Avro": read_avro, "Protobuf": ProtoFile}.get(format_, JsonDocument)
    old, new = read(before), read(after)

    def compare() -> object:
        if format_ == "Avro":
            one, other = (
                AvroComparison(is_backward=True, steps=StepBudget()),
                AvroComparison(is_backward=False, steps=StepBudget()),
            )
            return list(one.compare(old, new)), list(other.compare(new, old))
        if format_ == "Protobuf":
            forward = ProtoComparison(new, old, is_backward=False, steps=StepBudget())
            return list(ProtoComparison(old, new, is_backward=True, steps=StepBudget()).compare()), list(forward.compare())
        old.shapes.clear()
        new.shapes.clear()
        forward = JsonComparison(new, old, is_backward=False, steps=StepBudget())
        return JsonComparison(old, new, is_backward=True, steps=StepBudget()).compare(), forward.compare()

    return compare, lambda: (read(before), read(after))


def microseconds(work: Compare) -> float:
    """Return the median of many runs."""
    spent = []
    for _ in range(REPEAT):
        begun = time.perf_counter()
        work()
        spent.append(time.perf_counter() - begun)
    return median(spent) * 1e6


@click.command()
@click.option("--fields", default=50, show_default=True)
def main(fields: int) -> None:
    """Measure and print a table."""
    table = Table(
        "format", "compare", "read both", "orjson.loads of both", "judged before", title=f"µs a pair of {fields} fields"
    )
    for format_, made in (("Avro", avro_pair(fields)), ("JsonSchema", json_pair(fields)), ("Protobuf", proto_pair(fields))):
        before, after = (orjson.loads(orjson.dumps(one)) for one in made)  # so that they share no parts
        compare, read = both_ways(format_, before, after)
        texts = [orjson.dumps(one) for one in (before, after)]
        assert judge(before, after, format_).differences
        figures = [
            compare,
            read,
            lambda texts=texts: [orjson.loads(one) for one in texts],
            lambda before=before, after=after, format_=format_: judge(before, after, format_),
        ]
        table.add_row(format_, *(f"{microseconds(one):.1f}" for one in figures))
    Console().print(table)


if __name__ == "__main__":
    main()
