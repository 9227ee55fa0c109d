"""The catalog becomes registry documents: rows of the log → lines on the executors → parts → files.

Read from `changes` alone, whose texts are exact, in one shuffle: each group's rows come together, sorted, and only the last of
each entity counts; one message at a time is in memory. A line holds a group's own attributes, or one message or schema with its
Versions. The lines of a part end with a trailer that shows which bytes belong to which registry and collection: the driver joins
parts by copying bytes, and holds no entity but the roots.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from itertools import chain, groupby
from typing import Any

import orjson
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from lakehouse.asyncapi.outward import OF_VERSIONS
from lakehouse.dialects.tables import DBT, DIALECTS, NORMAL, WHOLE_DIALECTS, Loss
from lakehouse.dialects.writing import layout_of, loss_of_entity, to_dialect
from lakehouse.errors import LossyExport
from lakehouse.export.otherformats import FORMATS, write_sources
from lakehouse.export.selection import ExportChoice, Selection, choose_registry, current_rows, select_units
from lakehouse.export.target import Target, TargetFile
from lakehouse.export.view import COLLECTIONS, MEMBERS, Stored, Urls, as_bytes, registry_view, source_of_group
from lakehouse.export.writers import GroupWriter, Losses, WriteStyle, group_writer, losses_as_text, stored_row, whole_registry
from lakehouse.log.snapshots import open_relations, resolve_snapshot
from lakehouse.settings import Settings
from lakehouse.store.deltatables import attach_tables, table_name
from lakehouse.store.internals.plans import cores
from lakehouse.store.schema import TABLE_OF_KIND
from lakehouse.store.views import with_read
from lakehouse.store.xids import group_of, id_in, message_of, version_xid
from lakehouse.text.names import REGISTRY, ROOT, RegistryId, Xid
from lakehouse.text.xid import xid_of, xid_of_resource
from lakehouse.text.yamltext import as_yaml

LINES = "line string"
TRAILER_DIGITS = 12
_BATCH_BYTES = 4 << 20
_ROWS_PER_TASK = 50_000
_FEWEST_ROWS_PER_TASK = 10_000
_WRITERS = 8  # files that are written at once
_UNSAFE = re.compile(r"[^A-Za-z0-9_.\-/]")


@dataclass
class ByteRun:
    """Consecutive bytes of a part that belong together: groups of one collection, or one group.

    Attributes:
        groupid: the group's id when each is alone, else empty.
        offset: where they begin.
        length: how many bytes, without the last newline.
        groups: how many groups.
        members: how many messages or schemas.
        created: the first createdat of what is in it, in microseconds since 1970.
        modified: the last modifiedat.
    """

    registryid: RegistryId
    collection: str
    groupid: str
    offset: int
    length: int = 0
    groups: int = 0
    members: int = 0
    created: int = 2**62
    modified: int = -(2**62)

    def live(self, row: Stored) -> None:
        """Take the dates of a row into account."""
        self.created = min(self.created, self.created if row.createdat is None else row.createdat)
        self.modified = max(self.modified, self.modified if row.modifiedat is None else row.modifiedat)


@dataclass
class Trailer:
    """What is in a part: its runs in order, the root rows of registries that sort into it.

    Attributes:
        lost: what could not be said (`Losses.by_rule`).
        partly: registries of which whole groups were left out, so that nothing else of them need be here.
    """

    runs: list[ByteRun] = field(default_factory=list)
    roots: list[Stored] = field(default_factory=list)
    lost: dict[str, dict[str, Any]] = field(default_factory=dict)
    partly: list[RegistryId] = field(default_factory=list)

    def text(self) -> bytes:
        """Write it as the last line of a part, whose last digits show its length."""
        line = json.dumps(vars(self) | {"runs": [asdict(run) for run in self.runs]}).encode()
        return line + f"{len(line):0{TRAILER_DIGITS}}".encode()

    @staticmethod
    def parse(line: bytes) -> Trailer:
        """Read what `text` wrote, without the digits."""
        details = json.loads(line)
        runs, roots = [ByteRun(**run) for run in details.pop("runs")], [Stored(*root) for root in details.pop("roots")]
        return Trailer(runs, roots, **details)


def path_of(xid: Xid) -> tuple[str, ...]:
    """Return the key by which rows are sorted: groups before their members."""
    return tuple(xid.split("/"))


def writer(style: WriteStyle) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function for `mapInArrow`; it reads columns of `Stored` by registry and path, each registry's groups whole."""

    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = (Stored(*row) for batch in batches for row in zip(*(column.to_pylist() for column in batch.columns), strict=True))
        lines: list[bytes] = []
        size = 0
        for line in write_lines(rows, style):
            lines.append(line)
            size += len(line)
            if size >= _BATCH_BYTES:
                yield _batch(lines)
                lines, size = [], 0
        if lines:
            yield _batch(lines)

    return write


def write_lines(rows: Iterable[Stored], style: WriteStyle) -> Iterator[bytes]:
    """Write rows as lines, the trailer last."""
    trailer = Trailer()
    losses = Losses(style.examples)
    collections = layout_of(style.dialect).collections
    run: ByteRun | None = None
    last_line: bytes | None = None  # the last line: a comma follows if there is another group
    offset = 0
    for (registryid, collection, groupid), members in groupby(rows, key=_group_key):
        if not collection:
            trailer.roots.extend(members)
            continue
        xid = xid_of(collection, groupid)
        if collection not in collections:
            _lose_group(registryid, xid, members, style, losses)
            if trailer.partly[-1:] != [registryid]:
                trailer.partly.append(registryid)
            continue
        if run and last_line and not style.by_group and (run.registryid, run.collection) == (registryid, collection):
            last_line += b","
        else:
            offset += 0 if last_line is None else len(last_line) + 1
            if run and last_line:
                run.length = offset - run.offset - 1
                yield last_line
            last_line = None
            run = ByteRun(registryid, collection, groupid if style.by_group else "", offset)
            trailer.runs.append(run)
        for line in _group_lines(xid, members, style, run, losses):
            if last_line is not None:
                yield last_line
                offset += len(last_line) + 1
            last_line = line
    if run and last_line:
        run.length = offset + len(last_line) - run.offset
        yield last_line
    trailer.lost = losses.by_rule
    yield trailer.text()


def _group_lines(xid: Xid, rows: Iterator[Stored], style: WriteStyle, run: ByteRun, losses: Losses) -> Iterator[bytes]:
    """Write a group: its own attributes, each member, and what closes it."""
    first = next(rows)
    own = first if first.xid == xid else None
    group: GroupWriter = group_writer(style)(run.registryid, xid, own, style, losses)
    run.groups += 1
    run.live(first)
    rest = rows if own else chain([first], rows)
    line = b""
    count = 0
    for member_xid, stored in groupby(rest, key=lambda row: xid_of_resource(row.xid)):
        written = list(stored)
        for row in written:
            run.live(row)
        is_own = written[0].xid == member_xid
        text = group.member(member_xid, written[0] if is_own else None, written[1:] if is_own else written)
        if text is not None:
            yield line + b"," if count else group.head()
            line = text
            count += 1
    run.members += count
    if count:
        yield line
        yield group.tail(count)
    else:
        yield group.head() + group.tail(count)


def _lose_group(registryid: RegistryId, xid: Xid, rows: Iterator[Stored], style: WriteStyle, losses: Losses) -> None:
    """Record as a loss a group that a dialect does not have, without its members."""
    loss = loss_of_entity(style.dialect, xid.split("/")[1])
    for lost in dict.fromkeys(xid_of_resource(row.xid) for row in rows):
        losses.add(registryid, lost, [loss])


def _group_key(row: Stored) -> tuple[RegistryId, str, str]:
    tokens = row.xid.split("/", 3)
    return row.registryid, tokens[1], tokens[2] if len(tokens) > 2 else ""


def _batch(lines: list[bytes]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(lines, pa.binary()).cast(pa.string())], names=["line"])


@dataclass(frozen=True)
class ExportRequest:
    """What to export, and how.

    Attributes:
        out: file or folder, a path or a URI.
        registry: the registry; None: all of them, which is one file only when there is one registry.
        to_folder: `out` is a folder with a file for each registry, or with `WriteStyle.by_group` for each group; where several
            registries need one, a name that is not that of a document is a folder, too.
        style: how entities are written.
        at: the catalog as of this snapshot: number, label, date, time or head; None: as it is.
        select: groups, endpoints, messages or schemas, which are exported with what they hold and refer to; none: all.
        flat: effective definitions of messages, without `basemessage`.
        lossy: write what the dialect can say, when it cannot say everything.
        replace: a folder may hold an earlier export, which gives way whole.
    """

    out: str
    registry: RegistryId | None = None
    to_folder: bool = False
    style: WriteStyle = field(default_factory=WriteStyle)
    at: str | None = None
    select: tuple[Xid, ...] = ()
    flat: bool = False
    lossy: bool = False
    replace: bool = False


@dataclass
class Exported:
    """What was written; `as_json` is the contract of `lakehouse export --json`.

    Attributes:
        groups, members: how many entities there are, by collection; of dbt's sources how many tables and views.
    """

    out: str
    files: int = 0
    size: int = 0
    registries: list[RegistryId] = field(default_factory=list)
    groups: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COLLECTIONS, 0))
    members: dict[str, int] = field(default_factory=lambda: {"messages": 0, "schemas": 0})
    added: dict[str, int] = field(default_factory=dict)
    added_first: list[str] = field(default_factory=list)
    dialect: str = NORMAL
    losses: Losses = field(default_factory=Losses)

    def as_json(self) -> dict[str, Any]:
        """Return the summary as one JSON value."""
        return {
            "out": self.out,
            "files": self.files,
            "bytes": self.size,
            "registries": self.registries,
            "entities": self.groups | self.members,
            **({"added": self.added, "added_first": self.added_first} if self.added_first else {}),
            **({"dialect": self.dialect} if self.dialect != NORMAL else {}),
            **({"lost": self.losses.count, "losses": self.losses.as_json()} if self.losses.count else {}),
        }


def export(spark: SparkSession, settings: Settings, request: ExportRequest) -> Exported:
    """Write the catalog as registry documents.

    Raises:
        WarehouseError: the warehouse holds no catalog.
        NothingToExport: the catalog, the registry or the entity is not there; or there are several registries, and one is needed.
        SnapshotNotFound: `at` names no snapshot.
        TargetError: the target cannot be written.
        LossyExport: the dialect cannot say everything, and `lossy` is not set.
    """
    if request.style.dialect == DBT:
        return _write_sources(spark, request)
    attach_tables(spark, settings, ["changes"])
    snapshot_id = None if request.at is None else resolve_snapshot(spark, request.at)
    log = read_log(spark, snapshot_id)
    chosen, count = _find_registry(log, request)
    registryid = chosen.registryid
    if registryid is not None:
        log = log.filter(F.col("registryid") == registryid)
    is_whole = request.style.dialect in WHOLE_DIALECTS
    suffix = FORMATS[request.style.dialect].suffix if is_whole else ".json"
    with Target(spark, request.out, is_folder=chosen.to_folder, replace=request.replace, suffix=suffix) as target:
        selection = select_units(log, list(request.select)) if request.select else Selection(log)
        is_flat = request.flat or is_whole
        rows = with_flat_versions(selection.log, _flat_messages(spark, settings, snapshot_id)) if is_flat else selection.log
        if is_whole:
            exported = _write_whole(target, rows, selection.log, request)
        else:
            _write_parts(rows, cores(spark), count, request.style, target)
            exported = _join(target, _Parts(target, request.style.examples), request)
        exported.added, exported.added_first = selection.added, selection.added_first
        target.publish()
    return exported


def read_log(spark: SparkSession, snapshot_id: int | None = None) -> DataFrame:
    """Read the rows of all entities up to a snapshot."""
    log = spark.table(table_name("changes")).filter(F.col("kind").isin(*TABLE_OF_KIND))
    return log if snapshot_id is None else log.filter(F.col("snapshot_id") <= snapshot_id)


def sorted_rows(log: DataFrame, partitions: int, *, with_raw: bool) -> DataFrame:
    """Return the last row of each entity, with each group's rows together, in the order in which they are written.

    Args:
        log: rows of `changes`.
        partitions: how many tasks share them; they hold the groups in order.
        with_raw: keep all of `raw`, and not only where it shows how a date was written.

    Returns:
        Columns of `Stored`, flat_attributes where the log has them; dates in microseconds.
    """
    keyed = log.withColumns({"group_xid": group_of("xid"), "path": F.translate("xid", "/", "\u0001")})
    dated = F.col("raw").contains('createdat"') | F.col("raw").contains('modifiedat"')
    columns = {
        "createdat": F.unix_micros("createdat"),
        "modifiedat": F.unix_micros("modifiedat"),
        "raw": F.col("raw") if with_raw else F.when(dated, F.col("raw")),
    }
    wanted = [name for name in Stored._fields if name in log.columns]
    slim = keyed.withColumns(columns).select(*wanted, "op", "snapshot_id", "group_xid", "path")
    order = ["registryid", "group_xid", "path"]
    newest_first = Window.partitionBy(*order).orderBy(F.desc("snapshot_id"))
    return (
        slim.repartitionByRange(partitions, "registryid", "group_xid")
        .withColumn("nth", F.row_number().over(newest_first))
        .filter((F.col("nth") == 1) & (F.col("op") != "delete"))
        .sortWithinPartitions(*order)
        .select(*wanted)
    )


def with_flat_versions(log: DataFrame, flat: DataFrame) -> DataFrame:
    """Replace the Versions of each message by its effective definition.

    Args:
        log: rows of `changes`.
        flat: one row per message; registryid, xid, version_xid, attributes.

    Returns:
        `log` with `flat_attributes`, which are NULL but for messages' Versions; of these there is one for each message.
    """
    columns = [name for name in log.columns if name not in ("registryid", "kind", "xid")]
    definitions = flat.select("registryid", F.col("xid").alias("message_xid"), F.col("version_xid").alias("xid"), "attributes")
    versions = current_rows(log.filter(F.col("kind") == "version")).drop("attributes")
    versionid = id_in("xid")
    effective = versions.join(definitions, on=["registryid", "xid"], how="inner").select(
        "registryid",
        "kind",
        version_xid("message_xid", versionid).alias("xid"),
        *columns,
        F.col("attributes").alias("flat_attributes"),
    )
    return log.filter(F.col("kind") != "version").unionByName(effective, allowMissingColumns=True)


def _flat_messages(spark: SparkSession, settings: Settings, snapshot_id: int | None) -> DataFrame:
    at = None if snapshot_id is None else str(snapshot_id)
    return spark.table(f"{open_relations(spark, settings, with_read(['flat_messages']), at=at)}.flat_messages")


def _find_registry(log: DataFrame, request: ExportRequest) -> tuple[ExportChoice, int]:
    """Choose the registry to export, of those that hold an entity; and count how many rows of the log that is.

    Raises:
        NothingToExport: there is none, or not one when one is needed.
    """
    # An entity is inserted, perhaps deleted, and inserted again.
    left = F.count_if(F.col("op") == "insert") - F.count_if(F.col("op") == "delete")
    counted = log.groupBy("registryid").agg(F.count("*").alias("rows"), left.alias("entities")).collect()
    counts: dict[RegistryId, int] = {row["registryid"]: int(row["rows"]) for row in counted if row["entities"]}
    chosen = choose_registry(counts, request.registry, request.out, to_folder=request.to_folder, is_selected=bool(request.select))
    return chosen, counts[chosen.registryid] if chosen.registryid is not None else sum(counts.values())


def _write_parts(rows: DataFrame, parallel: int | None, count: int, style: WriteStyle, target: Target) -> None:
    """Write the lines of all rows, in parts.

    Args:
        rows: of the log.
        parallel: cores that write; None: this process writes all in one part.
        count: how many rows there are.
        style: how entities are written.
        target: takes the parts.
    """
    if parallel is None:
        batches = sorted_rows(rows, 1, with_raw=style.source).toArrow().to_batches()
        target.write_part(line for batch in writer(style)(batches) for line in batch.column(0).to_pylist())
        return
    partitions = max(1, count // _ROWS_PER_TASK, min(parallel, count // _FEWEST_ROWS_PER_TASK))  # unless there is little to do
    ordered = sorted_rows(rows, partitions, with_raw=style.source)
    ordered.mapInArrow(writer(style), LINES).write.mode("append").text(target.scratch)


def _write_whole(target: Target, rows: DataFrame, log: DataFrame, request: ExportRequest) -> Exported:
    """Write each registry as one value, which the driver holds.

    Raises:
        LossyExport: the dialect cannot say everything, and `lossy` is not set.
    """
    names = rows.columns
    results = [stored_row(row, names) for row in sorted_rows(rows, 1, with_raw=False).collect()]
    registries = {
        registryid: list(rows_of_registry) for registryid, rows_of_registry in groupby(results, key=lambda row: row.registryid)
    }
    exported = Exported(request.out, registries=sorted(registries), dialect=request.style.dialect)
    losses = exported.losses = Losses(request.style.examples)
    several = current_rows(log.filter(F.col("kind") == "version")).groupBy("registryid", message_of("xid").alias("xid")).count()
    is_loadable = request.style.dialect in DIALECTS
    for row in several.filter("count > 1").orderBy("registryid", "xid").collect() if is_loadable else ():
        lost = Loss(ROOT, OF_VERSIONS, f"{row['count'] - 1} of its Versions: one effective definition is written")
        losses.add(row["registryid"], row["xid"], [lost])
    form = FORMATS[request.style.dialect]
    texts: dict[str, bytes] = {}
    for registryid, rows_of_registry in registries.items():
        written = form.write(whole_registry(registryid, rows_of_registry), request.style)
        for xid, loss in written.losses:
            losses.add(registryid, xid, [loss])
        for name, text in written.files.items():
            folder = f"{registryid}/" if len(registries) > 1 else ""
            texts[_file_name(f"{folder}{name}" if name else registryid, form.suffix)] = text
    if losses.count and not request.lossy:
        raise LossyExport(request.style.dialect, losses.count, losses_as_text(losses.as_json()))
    _write_texts(target, texts, exported)
    for kind, xid in ((row.kind, row.xid) for row in results):
        if kind in ("group", "endpoint"):
            exported.groups[xid.split("/")[1]] += 1
        elif kind in ("message", "schema"):
            exported.members[f"{kind}s"] += 1
    return exported


def _write_sources(spark: SparkSession, request: ExportRequest) -> Exported:
    """Write the tables and views of the catalog as sources of dbt."""
    sources, counts = write_sources(spark)
    exported = Exported(request.out, dialect=DBT, groups={}, members=counts)
    with Target(spark, request.out, is_folder=request.to_folder, replace=request.replace, suffix=".yaml") as target:
        _write_texts(target, {_file_name("sources", ".yaml"): as_yaml(sources)}, exported)
        target.publish()
    return exported


def _write_texts(target: Target, texts: dict[str, bytes], exported: Exported) -> None:
    """Write texts by their names in a folder; to one file all, one after the other."""
    files = texts if target.is_folder else {"": b"---\n".join(texts.values())}
    for name, text in files.items():
        with target.file(name) as file:
            file.write(text)
    exported.files, exported.size = len(files), sum(map(len, files.values()))


class _Parts:
    """What is in the parts: by registry its runs with the part of each, in order, its root row; and what was lost."""

    def __init__(self, target: Target, examples: int) -> None:
        self.runs: dict[RegistryId, list[tuple[str, ByteRun]]] = {}
        self.roots: dict[RegistryId, Stored] = {}
        counted = Losses(examples)
        partly: set[RegistryId] = set()
        for part in target.parts():
            trailer = Trailer.parse(target.last_line(part, TRAILER_DIGITS))
            for run in trailer.runs:
                self.runs.setdefault(run.registryid, []).append((part, run))
            self.roots |= {root.registryid: root for root in trailer.roots}
            counted.merge(trailer.lost)
            partly.update(trailer.partly)
        self.lost = counted.by_rule
        self.registries = sorted({*self.runs, *self.roots, *partly})


def _join(target: Target, parts: _Parts, request: ExportRequest) -> Exported:
    """Write the files of a target out of the parts."""
    exported = Exported(request.out, registries=parts.registries, dialect=request.style.dialect)
    losses = exported.losses = Losses(request.style.examples)
    heads = {registryid: _head(registryid, parts, request.style, losses) for registryid in parts.registries}
    losses.merge(parts.lost)
    if losses.count and not request.lossy:
        raise LossyExport(request.style.dialect, losses.count, losses_as_text(losses.as_json()))
    named = [
        (head, *file_parts)
        for registryid, head in heads.items()
        for file_parts in _files(registryid, parts.runs.get(registryid, []), request.style, several=len(heads) > 1)
    ]

    def write(file_parts: tuple[bytes, str, list[tuple[str, ByteRun]]]) -> int:
        head, name, runs = file_parts
        with target.file(name) as file:
            _write_document(file, head, runs, request.style)
        return file.size

    with ThreadPoolExecutor(_WRITERS) as pool:
        sizes = list(pool.map(write, named))
    exported.files, exported.size = len(sizes), sum(sizes)
    for _, run in chain.from_iterable(parts.runs.values()):
        exported.groups[run.collection] += run.groups
        exported.members[MEMBERS[run.collection]] += run.members
    return exported


def _head(registryid: RegistryId, parts: _Parts, style: WriteStyle, losses: Losses) -> bytes:
    """Write a registry's own attributes, and record which of them cannot be expressed."""
    root = parts.roots.get(registryid)
    if style.source:
        return source_of_group(root)
    runs = [run for _, run in parts.runs.get(registryid, [])]
    lived = (min((run.created for run in runs), default=0), max((run.modified for run in runs), default=0))
    view = registry_view(registryid, root, lived, Urls(style.base_url))
    if style.dialect == NORMAL:
        return as_bytes(view)
    written, lost = to_dialect(view, style.dialect)
    losses.add(registryid, REGISTRY, lost)
    return as_bytes(written)


def _files(
    registryid: RegistryId, runs: list[tuple[str, ByteRun]], style: WriteStyle, *, several: bool
) -> Iterable[tuple[str, list[tuple[str, ByteRun]]]]:
    """Yield the files of a registry, one or several: name and contents."""
    if not style.by_group or not runs:
        return [(_file_name(registryid), runs)]
    folder = f"{registryid}/" if several else ""
    return [(_file_name(f"{folder}{run.collection}/{run.groupid}"), [(part, run)]) for part, run in runs]


def _file_name(path: str, suffix: str = ".json") -> str:
    """Make a file's name that every filesystem takes; no two ids make the same."""
    safe = _UNSAFE.sub(lambda result: "".join(f"%{byte:02X}" for byte in result[0].encode()), path)
    return re.sub(r"(\A|/)(?=[._])", lambda result: result[0] + "%", safe) + suffix


def _write_document(file: TargetFile, head: bytes, runs: list[tuple[str, ByteRun]], style: WriteStyle) -> None:
    """Write one document: the root's own attributes, and each collection with its URL and count; or an array of groups."""
    if layout_of(style.dialect).is_array:
        _write_array(file, runs, style)
        return
    separator = b"" if head == b"{}" else b","
    file.write(head[:-1])
    for collection in COLLECTIONS:
        own = [(part, run) for part, run in runs if run.collection == collection]
        if style.source and not own:
            continue
        url = (
            b"" if style.source else b'"%surl":%s,' % (collection.encode(), orjson.dumps(Urls(style.base_url).url_of(collection)))
        )
        file.write(separator + b'\n%s"%s":{' % (url, collection.encode()))
        for index, (part, run) in enumerate(own):
            file.write(b",\n" if index else b"\n")
            file.copy(part, run.offset, run.length)
        count = b"" if style.source else b',"%scount":%d' % (collection.encode(), sum(run.groups for _, run in own))
        file.write((b"\n}" if own else b"}") + count)
        separator = b","
    file.write(b"}\n")


def _write_array(file: TargetFile, runs: list[tuple[str, ByteRun]], style: WriteStyle) -> None:
    """Write an array of groups; a group that has its own file is there alone."""
    is_alone = style.by_group and len(runs) == 1
    file.write(b"" if is_alone else b"[")
    for index, (part, run) in enumerate(runs):
        file.write(b",\n" if index else b"\n" if not is_alone else b"")
        file.copy(part, run.offset, run.length)
    file.write(b"\n" if is_alone else b"\n]\n" if runs else b"]\n")
