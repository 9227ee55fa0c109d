"""Parse of documents on one core, without Spark: `python -m tests.bench.parse [--messages 10000] [--repeat 3] [FILE ...]`.

Documents become batches of the stage by the function that a Spark task runs, in this process. Each shape is one document:

    json     of the benchmarks' generator
    yaml     the same as YAML (a tenth of the messages)
    wip      the same as 0.5-wip spells it: most names and declarations have to be rewritten
    draft    the same as the CNCF draft

FILE names documents to measure instead. `--profile` reports where the time of each goes, by function. `--dump FILE` writes all
rows of the stage as JSON, so that two checkouts can be compared: run it in both and compare the files.
"""

from __future__ import annotations

import cProfile
import gc
import gzip
import hashlib
import io
import json
import pstats
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

import click
import orjson
import pyarrow as pa
import yaml

from lakehouse.dialects.writing import to_dialect
from lakehouse.ingest.parse.document import ParseLimits
from lakehouse.ingest.parse.parse import DOCUMENTS, Source, parser
from tests.bench.generator import Shape, make_documents

_STREAM = 64 << 20
_DEPTH = 64


def limits_of(*, stream: int = _STREAM, strict: bool = False, dialect: str | None = None) -> ParseLimits:
    """Return the limits of a run: wide, but for those that are named."""
    return ParseLimits(4 << 30, 4 << 30, _DEPTH, 50_000_000, stream, strict, dialect)


def source_of(uri: str, text: bytes) -> pa.RecordBatch:
    """Return a document as a task gets it."""
    digest = hashlib.sha256(text).hexdigest()
    source = Source(uri, len(text), digest, None, False, False, text, None, False, False)
    return pa.RecordBatch.from_pylist([source._asdict()], schema=DOCUMENTS)


def parse(uri: str, text: bytes, limits: ParseLimits) -> list[pa.RecordBatch]:
    """Parse one document."""
    return list(parser(limits)([source_of(uri, text)]))


def make_shape(name: str, messages: int, seed: int = 1) -> tuple[str, bytes]:
    """Make the document of a shape: its URI and its text."""
    count = max(messages // 10, 1) if name == "yaml" else messages
    document: Any = next(make_documents(Shape(count, seed=seed)))
    if name == "yaml":
        return "file:/bench.yaml", yaml.dump(document, sort_keys=False, Dumper=yaml.CSafeDumper).encode()
    if name in ("wip", "draft"):
        document, _ = to_dialect(document, {"wip": "0.5-wip", "draft": "cncf-catalog"}[name])
    return "file:/bench.json", json.dumps(document, separators=(",", ":")).encode()


def dump(uri: str, text: bytes, into: TextIO) -> None:
    """Write the rows of a document in each way that it can be read: whole, streamed, packed, strictly."""
    ways: dict[str, tuple[str, bytes, ParseLimits]] = {
        "whole": (uri, text, limits_of()),
        "streamed": (uri, text, limits_of(stream=500)),
        "packed": (f"{uri}.gz", gzip.compress(text, mtime=0), limits_of()),
        "strict": (uri, text, limits_of(strict=True)),
    }
    for way, (name, stored, limits) in ways.items():
        for batch in parse(name, stored, limits):
            for row in batch.to_pylist():
                into.write(json.dumps([uri, way, row], default=str, ensure_ascii=False) + "\n")


def measure(texts: list[tuple[str, bytes]], limits: ParseLimits) -> list[float]:
    """Return CPU seconds of the parse of each document."""
    found = []
    for uri, text in texts:
        gc.collect()
        begun = time.process_time()
        parse(uri, text, limits)
        found.append(time.process_time() - begun)
    return found


def _documents(
    files: tuple[Path, ...], shapes: tuple[str, ...], messages: int, count: int
) -> Iterator[tuple[str, list[tuple[str, bytes]]]]:
    """Return documents of each shape: no two are equal, since a reader may remember what it met."""
    for file in files:
        yield file.name, [(f"file:/{file.name}", file.read_bytes())] * count
    for name in () if files else shapes:
        yield name, [make_shape(name, messages, seed) for seed in range(1, count + 1)]


def _profile(uri: str, text: bytes, lines: int) -> str:
    profile = cProfile.Profile()
    profile.runcall(parse, uri, text, limits_of())
    reported = io.StringIO()
    pstats.Stats(profile, stream=reported).sort_stats("tottime").print_stats(lines)
    return reported.getvalue()


@click.command()
@click.argument("files", nargs=-1, type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--messages", default=10_000, show_default=True)
@click.option("--shape", "shapes", multiple=True, default=("json", "yaml", "wip", "draft"), show_default=True)
@click.option("--repeat", default=3, show_default=True)
@click.option("--stream-bytes", default=_STREAM, show_default=True, help="Size above which a document is read part by part.")
@click.option("--profile", "profiled", is_flag=True, help="List the functions that take most time.")
@click.option("--lines", default=45, show_default=True, help="Functions of the profile.")
@click.option("--dump", "into", type=click.File("w"), help="Write the rows instead of measuring.")
def main(
    files: tuple[Path, ...],
    messages: int,
    shapes: tuple[str, ...],
    repeat: int,
    stream_bytes: int,
    profiled: bool,
    lines: int,
    into: TextIO | None,
) -> None:
    """Measure the parse of documents, or write the rows that it returns."""
    for name, texts in _documents(files, shapes, messages, 1 if into else repeat + 1):
        (uri, text), *others = texts
        if into is not None:
            dump(uri, text, into)
            continue
        batches = parse(uri, text, limits_of())
        rows = [row for batch in batches for row in zip(batch["row"].to_pylist(), batch["kind"].to_pylist(), strict=True)]
        seconds = measure(others, limits_of(stream=stream_bytes))
        versions = rows.count(("entity", "version"))
        reported = {
            "shape": name,
            "bytes": len(text),
            "versions": versions,
            "rows": len(rows),
            "cpu_seconds": [round(one, 3) for one in seconds],
            "us_a_version": round(min(seconds) / max(versions, 1) * 1e6, 1),
        }
        click.echo(orjson.dumps(reported).decode())
        if profiled:
            click.echo(_profile(uri, text, lines))


if __name__ == "__main__":
    main()
