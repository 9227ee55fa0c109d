"""The entities of one snapshot in a dialect, as the API shows them: Groups, and Resources with their meta and their Versions.

They are made of rows of the log by `lakehouse.export.view` and `lakehouse.dialects.writing`, as an export makes them. URLs begin
with ABSOLUTE or RELATIVE, which are placeholders for the base of the registry and for the response as a document until the answer
is written: so what is made once serves every client. The API distinguishes the document of a schema (`Document`), which is not
among its attributes unless it is inlined. Entities are loaded on demand and kept for the next request: a row of the log never
changes, so a Resource outlives the snapshot that it was read for, as long as a list of members holds it; the lists are those of
the newest snapshots that were requested, up to a number of entries.
"""

from __future__ import annotations

import base64
import threading
import time
import uuid
import weakref
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

import orjson

from lakehouse.compatibility import check_format
from lakehouse.dialects.schemadocuments import content_of, document_of, is_shown_as_string
from lakehouse.dialects.tables import NORMAL, family_of
from lakehouse.dialects.versionorder import natural_order
from lakehouse.dialects.writing import to_dialect
from lakehouse.domain.versionchanges import (
    MOST_EARLIER,
    NO_TEXT,
    PROMISES,
    comparable_version,
    pairs_to_compare,
    why_undecided,
)
from lakehouse.export.view import Stored, Urls, group_view, registry_view, resource_view
from lakehouse.readmodel import View
from lakehouse.readmodel.file.sqliteschema import GROUPS
from lakehouse.serve.apierrors import RC4, ProblemFound
from lakehouse.serve.targets import DETAILS, MEMBERS, SINGULAR, quote_path
from lakehouse.store.keys import OVER_HTTP
from lakehouse.text.jsontext import as_written, canonical_text, in_order, read_canonical, read_written
from lakehouse.text.names import REGISTRY, RegistryId, Xid
from lakehouse.text.values import decoded_base64
from lakehouse.text.xid import last_id, xid_of, xid_of_version

# No text of a catalog holds these: they are drawn again in each process.
ABSOLUTE = f"http://{uuid.uuid4().hex}.invalid"
RELATIVE = f"http://{uuid.uuid4().hex}.invalid"
_CONFIGURATION = ("capabilities", "model", "modelsource")
_NO_DATE = "1970-01-01T00:00:00Z"
T = TypeVar("T")
_AT_ONCE = 500  # rows of the log that are fetched with one statement
_MOST_ENTRIES = 60_000  # of lists that are kept
# The text as written is needed where it says how a date was spelled, or the bytes of a document.
_DATED = "CASE WHEN kind = 'schemaversion' OR instr(raw, 'createdat\"') OR instr(raw, 'modifiedat\"') THEN raw END"
_COLUMNS = f"id, registryid, kind, xid, epoch, createdat, modifiedat, body, {_DATED}"
_IS_OF_DOCUMENTS = f"EXISTS (SELECT 1 FROM json_each(document_uris) WHERE value <> '{OVER_HTTP}')"


class Document(NamedTuple):
    """The document of a schema Version.

    Attributes:
        value: of `schema` in normal form, or bytes that are no text.
        contenttype: its media type, as declared.
        content: its bytes as they were written; None: they are those of the value.
    """

    value: Any
    contenttype: str | None
    content: bytes | None = None

    def as_bytes(self) -> bytes:
        """Return it as a client downloads it: as it was written."""
        if self.content is not None:
            return self.content
        if isinstance(self.value, bytes):
            return self.value
        return self.value.encode() if isinstance(self.value, str) else in_order(self.value)

    @property
    def media_type(self) -> str:
        """Return its media type: as declared, else what its value says."""
        if self.contenttype:
            return self.contenttype
        if isinstance(self.value, bytes):
            return "application/octet-stream"
        return "text/plain; charset=utf-8" if isinstance(self.value, str) else "application/json"

    def member(self, *, binary: bool) -> tuple[str, Any]:
        """Return it as it is inlined: `schema`, or `schemabase64`; JSON as it was written, but without its blanks."""
        is_text = isinstance(self.value, str)
        if binary or isinstance(self.value, bytes) or (is_text and not is_shown_as_string(self.contenttype)):
            return "schemabase64", base64.b64encode(self.as_bytes()).decode()
        if self.content is None or not isinstance(self.value, (dict, list)):
            return "schema", self.value
        return "schema", orjson.Fragment(as_written(document_of(self.content, None)))


class GroupView(NamedTuple):
    """A Group of any type.

    Attributes:
        xid: its XID.
        protocol: as stored, which its messages are written under.
        attributes: as shown, URLs marked.
    """

    xid: Xid
    protocol: str | None
    attributes: dict[str, Any]

    @property
    def collection(self) -> str:
        """Return its type: `messagegroups`, `endpoints` or `schemagroups`."""
        return self.xid[1:].split("/", 1)[0]

    @property
    def id(self) -> str:
        """Return its id."""
        return last_id(self.xid)

    @property
    def members(self) -> str:
        """Return the collection that it holds."""
        return MEMBERS[self.collection]


class ResourceView:
    """A message or schema.

    Attributes:
        xid: its XID.
        ids: its id, `self` and `xid`.
        default: id of the default Version; None: it has none, or is an alias of nothing.
        meta: the meta entity.
        meta_in_document: the same in the document view, where an alias does not show what it stands for.
        versions: by id, without documents.
        documents: of Versions of a schema, by id.
        xref: the XID that it stands for.
        shown: what a filter asks: the attributes with `meta`.
        texts: JSON text of what was asked for, by shape.
    """

    __slots__ = (
        "__weakref__", "_contents",
        "attributes", "default", "documents", "ids", "meta", "meta_in_document", "shown", "texts", "versions",
        "xid", "xref",
    )  # fmt: skip

    def __init__(
        self,
        xid: Xid,
        view: dict[str, Any],
        dialect: str,
        alias_of: dict[str, Any] | None = None,
        *,
        is_of_documents: bool = False,
        contents: dict[str, bytes] | None = None,
    ) -> None:
        collection = xid.split("/")[3]
        suffix = DETAILS if collection == "schemas" else ""
        here = ABSOLUTE + quote_path(xid)
        singular = SINGULAR[collection]
        self.xid = xid
        self.texts: dict[tuple[Any, ...], bytes] = {}
        self.ids = {f"{singular}id": last_id(xid), "self": here + suffix, "xid": xid}
        own = alias_of if alias_of is not None else view
        self.xref: str | None = own.get("meta", {}).get("xref")
        self.documents: dict[str, Document] = {}
        self._contents = contents or {}
        self.versions = {
            versionid: self._version(versionid, version, f"{here}/versions/{quote_path(versionid)}{suffix}")
            for versionid, version in sorted(view.get("versions", {}).items(), key=lambda pair: natural_order(pair[0]))
        }
        default = view.get("meta", {}).get("defaultversionid")
        self.default: str | None = default if default in self.versions else next(reversed(self.versions), None)
        for versionid, version in self.versions.items():
            version["isdefault"] = versionid == self.default
        suffix = suffix if dialect == RC4 else ""
        self.meta = _named_meta(({} if own is view else {"xref": self.xref}) | view.get("meta", {}), here, suffix, self.default)
        if self.default is not None:
            self.meta.setdefault("defaultversionsticky", False)
        self.meta_in_document = _named_meta(own.get("meta", {}), here, suffix, self.default if self.xref is None else None)
        if is_of_documents and "readonly" in self.meta:
            self.meta["readonly"] = True
        if dialect == RC4:
            texts = {
                versionid: document.value
                for versionid, document in self.documents.items()
                if not isinstance(document.value, bytes)
            }
            kind = "schemaversion" if collection == "schemas" else "version"
            add_validation(kind, self.meta.get("compatibility"), self.versions, texts)
        self.attributes = self._attributes(here)
        self.shown = self.attributes | {"meta": self.meta}

    def _version(self, versionid: str, version: dict[str, Any], here: str) -> dict[str, Any]:
        shown = dict(version) | {"self": here, "xid": xid_of_version(self.xid, versionid)}
        if "schemauri" in shown:  # how the API has always spelled it: <RESOURCE>url
            shown = {"schemaurl" if name == "schemauri" else name: value for name, value in shown.items()}
        value = shown.pop("schema", None)
        coded = shown.pop("schemabase64", None)
        if value is None and isinstance(coded, str):
            value = decoded_base64(coded)
            value = coded if value is None else value
        if value is not None and "schemaid" in self.ids:
            contenttype = shown.get("contenttype")
            declared = contenttype if isinstance(contenttype, str) else None
            self.documents[versionid] = Document(value, declared, self._contents.get(versionid))
        return with_life(shown)

    def _attributes(self, here: str) -> dict[str, Any]:
        shown: dict[str, Any] = dict(self.ids)
        if self.default is not None:
            own = {name: value for name, value in self.versions[self.default].items() if name != "deprecated"}
            shown = {**own, **self.ids}
        shown["metaurl"] = here + "/meta"
        if self.default is not None or self.xref is None:
            shown["versionsurl"] = here + "/versions"
            shown["versionscount"] = len(self.versions)
        return shown


def make_registry(registryid: RegistryId, row: Stored | None, lived: tuple[int, int], dialect: str) -> dict[str, Any]:
    """Return a registry's own attributes, without collections and configuration."""
    view, _ = to_dialect(registry_view(registryid, row, lived, Urls(ABSOLUTE)), dialect)
    shown = {name: value for name, value in view.items() if name not in _CONFIGURATION}
    return with_life(shown | {"specversion": dialect, "self": ABSOLUTE + "/"})


def make_group(xid: Xid, row: Stored | None, dialect: str) -> GroupView:
    """Make a Group of its row; None: it was deleted, and not all of its members were."""
    stored = group_view(xid, row, Urls(ABSOLUTE))
    view, _ = to_dialect(stored, dialect, SINGULAR[xid[1:].split("/", 1)[0]])
    protocol = stored.get("protocol")
    return GroupView(xid, protocol, with_life(view | {"self": ABSOLUTE + quote_path(xid)}))


def make_resource(
    xid: Xid,
    row: Stored | None,
    versions: list[Stored],
    protocol: str | None,
    dialect: str,
    target: tuple[Stored, list[Stored], str | None] | None = None,
) -> ResourceView:
    """Make a Resource of its rows.

    Args:
        xid: of the message or schema.
        row: its row; None: it was deleted, and not all of its Versions were.
        versions: rows of its Versions.
        protocol: of its group.
        dialect: how it is written.
        target: of an alias: the row, the Versions and the group's protocol of what it stands for; None: there is none.
    """
    view = _written(xid, row, versions, protocol, dialect)
    is_of_documents = any(stored is not None and stored.is_of_documents for stored in (row, *versions))
    if target is None:
        return ResourceView(xid, view, dialect, is_of_documents=is_of_documents, contents=_contents_of(versions))
    aimed, its_versions, its_protocol = target
    moved = [version._replace(xid=xid_of_version(xid, last_id(version.xid))) for version in its_versions]
    shown = _written(xid, aimed, moved, its_protocol, dialect)
    return ResourceView(xid, shown, dialect, view, is_of_documents=is_of_documents, contents=_contents_of(moved))


def with_life(shown: dict[str, Any]) -> dict[str, Any]:
    """Add what every entity of the API has, where a document does not say it."""
    for name, value in (("epoch", 1), ("createdat", _NO_DATE), ("modifiedat", _NO_DATE)):
        shown.setdefault(name, value)
    return shown


def relative(path: str) -> str:
    """Return the marked URL of an XID or another path, as a reference into the response."""
    return RELATIVE + (path.replace("~", "~0") if "~" in path else path)


def unmarked(text: bytes, base: str, path: str) -> bytes:
    """Write marked URLs.

    Args:
        text: JSON text.
        base: URL of the registry, without a slash at its end.
        path: of the request: references into the response are relative to it.
    """
    if RELATIVE.encode() in text:
        here = relative("" if path == "/" else path).encode()
        text = text.replace(here + b'"', b'#/"').replace(here, b"#")
    return text.replace(ABSOLUTE.encode(), base.encode())


def keyed(name: str) -> bytes:
    """Write a key with its colon."""
    return orjson.dumps(name) + b":"


def _written(xid: Xid, row: Stored | None, versions: list[Stored], protocol: str | None, dialect: str) -> dict[str, Any]:
    if dialect == NORMAL:
        return resource_view(xid, row, versions, protocol, Urls(ABSOLUTE))
    view = resource_view(xid, row, versions, None, Urls(ABSOLUTE), bare=False)
    # What the API shows, and its family.
    slim: dict[str, Any] = {name: view[name] for name in view if name in ("protocol", "meta", "versions")}
    written, _ = to_dialect(slim, dialect, SINGULAR[xid.split("/")[3]], family_of(protocol))
    return dict(written)


def _named_meta(meta: dict[str, Any], here: str, suffix: str, default: str | None) -> dict[str, Any]:
    """Return a meta entity with its URL, and the id and URL of a default Version (core/spec.md, "Doc Flag")."""
    shown = dict(meta) | {"self": here + "/meta"}
    if default is not None:
        shown |= {"readonly": shown.get("readonly", False), "defaultversionid": default}
        shown["defaultversionurl"] = f"{here}/versions/{quote_path(default)}{suffix}"
    return shown


def _contents_of(versions: list[Stored]) -> dict[str, bytes]:
    """Return the bytes of the documents of a schema's Versions as they were written, where their normal form may be another."""
    results: dict[str, bytes] = {}
    for row in versions:
        if row.kind == "schemaversion" and row.raw is not None:
            content = content_of(read_written(row.raw))
            if content is not None:
                results[last_id(row.xid)] = content
    return results


class Entry(NamedTuple):
    """A member of a group before it is loaded: its id, its row's number and those of its Versions."""

    id: str
    row: int | None
    versions: tuple[int, ...]


class EntityCache:
    """What is kept between requests, shared by threads: lists by snapshot and place, Resources as long as a list holds them."""

    def __init__(self, most: int = _MOST_ENTRIES) -> None:
        self.most = most
        self._guard = threading.Lock()
        self._lists: OrderedDict[tuple[Any, ...], tuple[int, Any]] = OrderedDict()
        self._size = 0
        self.resources: weakref.WeakValueDictionary[tuple[Any, ...], ResourceView] = weakref.WeakValueDictionary()

    def get_or_make(self, key: tuple[Any, ...], make: Callable[[], T], weight: Callable[[T], int]) -> T:
        """Return what is kept under a key, or make it; what weighs more than a quarter of everything is not kept."""
        with self._guard:
            result = self._lists.get(key)
            if result is not None:
                self._lists.move_to_end(key)
                value: T = result[1]
                return value
        made = make()
        size = weight(made) + 1
        if size <= self.most // 4:
            with self._guard:
                self._size += size - self._lists.pop(key, (0, None))[0]
                self._lists[key] = (size, made)
                while self._size > self.most:
                    self._size -= self._lists.popitem(last=False)[1][0]
        return made


class Deadline:
    """Ends work that takes too long.

    Args:
        seconds: that it may take.
        begun: when they began, by the monotonic clock; None: now.
    """

    def __init__(self, seconds: float, begun: float | None = None) -> None:
        self.until = (time.monotonic() if begun is None else begun) + seconds
        self._ticks = 0

    def tick(self) -> None:
        """Count a step of the work.

        Raises:
            ProblemFound: it takes too long.
        """
        self._ticks += 1
        if self._ticks % 64 == 0:
            self.check()

    def check(self) -> None:
        """Raise an error if the time for the request is over.

        Raises:
            ProblemFound: it takes too long.
        """
        if time.monotonic() > self.until:
            raise ProblemFound("", status=503, detail="The request took too long. Ask for less of it, page by page with ?limit.")


class SnapshotCatalog:
    """A registry at a snapshot, in a dialect."""

    def __init__(
        self, view: View, key: str, registryid: RegistryId, dialect: str, cache: EntityCache, deadline: Deadline
    ) -> None:
        """Look at a registry.

        Args:
            view: the snapshot.
            key: what distinguishes the snapshot from all others that ever had its number.
            registryid: the registry.
            dialect: how entities are written.
            cache: what is kept between requests.
            deadline: until when this may take.
        """
        self.view = view
        self.key = (key, registryid)
        self.registryid = registryid
        self.dialect = dialect
        self.cache = cache
        self.deadline = deadline
        self._holds = view.in_snapshot()

    def exists(self) -> bool:
        """Return whether the registry holds anything at the snapshot."""
        rows = self.view.db.execute(
            f"SELECT 1 FROM log WHERE registryid = ? AND kind NOT IN ('document', 'label', 'snapshot') AND {self._holds} LIMIT 1",
            (self.registryid,),
        )
        return rows.fetchone() is not None

    def registry(self) -> dict[str, Any]:
        """Return the registry's own attributes; an empty registry has been there since 1970."""
        row = self._row(REGISTRY)
        lived = (0, 0) if row is not None else self.view.lived(self.registryid) or (0, 0)
        return make_registry(self.registryid, row, lived, self.dialect)

    def group(self, xid: Xid) -> GroupView | None:
        """Return a Group, or None."""
        row = self._row(xid)
        if row is None and not self.entries(xid):
            return None
        return make_group(xid, row, self.dialect)

    def groups(self, collection: str) -> list[GroupView]:
        """List the Groups of a type, by id."""
        return self.cache.get_or_make((*self.key, self.dialect, collection), lambda: self._groups(collection), len)

    def ids_of_groups(self, collection: str) -> list[str]:
        """List the ids of the Groups of a type: those that are there, and those of which members are."""
        return self.cache.get_or_make((*self.key, "ids", collection), lambda: list(self._ids_of_groups(collection)), len)

    def entries(self, group_xid: Xid) -> list[Entry]:
        """List the members of a Group, by id, without loading them."""
        return self.cache.get_or_make((*self.key, group_xid), lambda: self._entries(group_xid), len)

    def resource(self, xid: Xid) -> ResourceView | None:
        """Return a message or schema, or None."""
        members, _, resource_id = xid.rpartition("/")
        entries = self._entries_below(xid, members + "/")
        entry = next((entry for entry in entries if entry.id == resource_id), None)
        if entry is None:
            return None
        group_row = self._row(Xid(members.rsplit("/", 1)[0]))
        return self._load(members + "/", [entry], _protocol(group_row))[0]

    def resources(self, group: GroupView, entries: list[Entry] | None = None) -> list[ResourceView]:
        """Load members of a Group: those of some entries, or all of them."""
        prefix = f"{group.xid}/{group.members}/"
        if entries is not None:
            return self._load(prefix, entries, group.protocol)
        key = (*self.key, self.dialect, group.xid, "members")
        return self.cache.get_or_make(key, lambda: self._load(prefix, self.entries(group.xid), group.protocol), len)

    def _row(self, xid: Xid) -> Stored | None:
        rows = self.view.db.execute(
            f"SELECT {_COLUMNS} FROM log WHERE registryid = ? AND xid = ? AND {self._holds}", (self.registryid, xid)
        )
        row = rows.fetchone()
        return None if row is None else Stored(*row[1:])

    def _groups(self, collection: str) -> list[GroupView]:
        rows = self.view.db.execute(
            f"SELECT {_COLUMNS} FROM log WHERE {GROUPS} AND registryid = ?1 AND xid > ?2 AND xid < ?3 AND {self._holds}",
            (self.registryid, f"/{collection}/", f"/{collection}0"),
        )
        rows_by_xid = {row[3]: Stored(*row[1:]) for row in rows}
        results = []
        for groupid in self.ids_of_groups(collection):
            self.deadline.tick()
            xid = xid_of(collection, groupid)
            results.append(make_group(xid, rows_by_xid.get(xid), self.dialect))
        return results

    def _ids_of_groups(self, collection: str) -> Iterator[str]:
        """Jump from group to group: over the members of each, however many there are."""
        prefix = f"/{collection}/"
        after, end = prefix, prefix[:-1] + "0"
        results: set[str] = set()
        while True:
            self.deadline.tick()
            row = self.view.db.execute(
                f"SELECT xid FROM log WHERE registryid = ? AND xid >= ? AND xid < ? AND {self._holds} ORDER BY xid LIMIT 1",
                (self.registryid, after, end),
            ).fetchone()
            if row is None:
                break
            groupid = row[0][len(prefix) :].split("/", 1)[0]
            results.add(groupid)
            # A group's own row comes first; ids that begin with this one's may be between it and its members.
            after = row[0] + "\x01" if row[0] == prefix + groupid else f"{prefix}{groupid}0"
        yield from sorted(results)

    def _entries(self, group_xid: Xid) -> list[Entry]:
        prefix = f"{group_xid}/{MEMBERS[group_xid[1:].split('/', 1)[0]]}/"
        return sorted(self._entries_below(prefix[:-1], prefix))

    def _entries_below(self, place: str, prefix: str) -> list[Entry]:
        """List members whose rows have a path as XID, or are below it."""
        rows = self.view.db.execute(
            "SELECT id, xid FROM log WHERE registryid = ?1 AND (xid = ?2 OR (xid > ?3 AND xid < ?4))"
            f" AND kind IN ('message', 'version', 'schema', 'schemaversion') AND {self._holds}",
            (self.registryid, place, place + "/", place + "0"),
        )
        own: dict[str, int | None] = {}
        versions: dict[str, list[int]] = {}
        for number, row_xid in rows:
            self.deadline.tick()
            name, _, version = row_xid[len(prefix) :].partition("/")
            if version:
                own.setdefault(name, None)
                versions.setdefault(name, []).append(number)
            else:
                own[name] = number
        return [Entry(name, row, tuple(sorted(versions.get(name, ())))) for name, row in own.items()]

    def _load(self, prefix: str, entries: list[Entry], protocol: str | None) -> list[ResourceView]:
        results: list[ResourceView] = []
        for start in range(0, len(entries), _AT_ONCE):
            results += self._load_some(prefix, entries[start : start + _AT_ONCE], protocol)
        return results

    def _load_some(self, prefix: str, entries: list[Entry], protocol: str | None) -> list[ResourceView]:
        keys = [(self.registryid, self.dialect, prefix + entry.id, protocol, entry.row, entry.versions) for entry in entries]
        cached = [self.cache.resources.get(key) for key in keys]
        missing = [entry for entry, resource in zip(entries, cached, strict=True) if resource is None]
        rows = self._rows([number for entry in missing for number in (entry.row, *entry.versions) if number is not None])
        results = []
        for entry, key, cached_resource in zip(entries, keys, cached, strict=True):
            self.deadline.tick()
            resource = cached_resource
            if resource is None:
                resource = self._made(Xid(prefix + entry.id), entry, rows, protocol)
                if resource.xref is None:  # what an alias shows changes with what it stands for
                    self.cache.resources[key] = resource
            results.append(resource)
        return results

    def _made(self, xid: Xid, entry: Entry, rows: dict[int, Stored], protocol: str | None) -> ResourceView:
        row = None if entry.row is None else rows[entry.row]
        versions = [rows[number] for number in entry.versions]
        target = None
        if row is not None and not versions and '"xref"' in row.body:
            target = self._target(orjson.loads(row.body).get("xref"), xid)
        return make_resource(xid, row, versions, protocol, self.dialect, target)

    def _target(self, xref: Any, xid: Xid) -> tuple[Stored, list[Stored], str | None] | None:
        """Find what an alias stands for: a Resource of the same type that is no alias itself."""
        if not isinstance(xref, str) or xref.count("/") != 4 or xref.split("/")[3] != xid.split("/")[3]:
            return None
        prefix, _, name = xref.rpartition("/")
        entry = next((entry for entry in self._entries_below(xref, prefix + "/") if entry.id == name), None)
        if entry is None or entry.row is None or not entry.versions:
            return None
        rows = self._rows([entry.row, *entry.versions])
        group = self._row(Xid(prefix.rsplit("/", 1)[0]))
        return rows[entry.row], [rows[number] for number in entry.versions], _protocol(group)

    def _rows(self, numbers: list[int]) -> dict[int, Stored]:
        if not numbers:
            return {}
        rows = self.view.db.execute(
            f"SELECT {_COLUMNS}, NULL, {_IS_OF_DOCUMENTS} FROM log WHERE id IN (SELECT value FROM json_each(?))",
            (orjson.dumps(numbers).decode(),),
        )
        return {row[0]: Stored(*row[1:]) for row in rows}


class EmptyCatalog(SnapshotCatalog):
    """A registry without anything in it: the warehouse holds no catalog yet."""

    def __init__(self, registryid: RegistryId, dialect: str, cache: EntityCache, deadline: Deadline) -> None:
        self.key = ("", registryid)
        self.registryid, self.dialect, self.cache, self.deadline = registryid, dialect, cache, deadline

    def registry(self) -> dict[str, Any]:
        """Return attributes that every registry has."""
        return make_registry(self.registryid, None, (0, 0), self.dialect)

    def group(self, xid: Xid) -> None:
        """Find nothing."""

    def resource(self, xid: Xid) -> None:
        """Find nothing."""

    def groups(self, collection: str) -> list[GroupView]:
        """Find nothing."""
        return []

    def ids_of_groups(self, collection: str) -> list[str]:
        """Find nothing."""
        return []


def _protocol(row: Stored | None) -> str | None:
    """Return the protocol of a group, as it is in what `make_group` makes of its row."""
    if row is None:
        return None
    result = orjson.loads(row.body).get("protocol")
    return result if isinstance(result, str) else None


def add_validation(kind: str, compatibility: Any, versions: Mapping[str, dict[str, Any]], documents: Mapping[str, Any]) -> None:
    """Add the four attributes to Versions in 1.0-rc4.

    Args:
        kind: of the Versions, `version` or `schemaversion`; what a message is does not depend on its format.
        compatibility: of their message or schema; None: nothing is promised.
        versions: by id, without documents.
        documents: of Versions of a schema, by id: JSON values and texts.
    """
    formatted = {versionid: version for versionid, version in versions.items() if isinstance(version.get("format"), str)}
    if not formatted:
        return
    if kind == "schemaversion":
        for versionid, version in formatted.items():
            _add(version, "formatvalidated", _why_unchecked(version["format"], documents.get(versionid)))
    if compatibility is not None:
        reasons = _why_undecided(kind, compatibility, versions, documents)
        for versionid, version in formatted.items():
            _add(version, "compatibilityvalidated", version.get("formatvalidatedreason") or reasons.get(versionid))


def _add(version: dict[str, Any], name: str, reason: str | None) -> None:
    version[name] = reason is None
    if reason is not None:
        version[f"{name}reason"] = reason


def _why_unchecked(format: str, document: Any) -> str | None:
    """Return why a document was not checked, or what is wrong with one that was loaded all the same; None: it is valid."""
    if document is None:
        return NO_TEXT
    check = check_format(document if isinstance(document, str) else read_canonical(canonical_text(document)), format)
    return None if check.is_valid else check.reason


def _why_undecided(
    kind: str, compatibility: Any, versions: Mapping[str, dict[str, Any]], documents: Mapping[str, Any]
) -> dict[str, str]:
    """Return by id why Versions were not compared with those before them; others keep what is promised."""
    if compatibility not in PROMISES:
        return dict.fromkeys(versions, f"the server does not compare Versions by `compatibility` {compatibility}")
    comparable = {
        versionid: comparable_version(kind, version | ({"schema": documents[versionid]} if versionid in documents else {}))
        for versionid, version in versions.items()
    }
    ancestors = {versionid: str(version.get("ancestorid") or versionid) for versionid, version in versions.items()}
    reasons: dict[str, str] = {}
    pairs = pairs_to_compare(ancestors, compatibility)
    for later, earlier in pairs:
        why = why_undecided(kind, comparable[earlier], comparable[later])
        if why is not None:
            reasons.setdefault(later, f"Version {earlier}: {why}")
    for versionid, count in Counter(later for later, _ in pairs).items():
        if count == MOST_EARLIER:
            reasons.setdefault(versionid, f"it is compared with the nearest {MOST_EARLIER} Versions only")
    return reasons
