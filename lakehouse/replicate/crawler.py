"""Reads a server: xRegistry 1.0-rc2 and rc4 as one document or, where that is too large, by groups and pages; the draft by walks.

Each request names what is stored already (`If-None-Match`). Parts remain in the folder of the state with their marks, so a walk
that was cut short goes on where it was; one during which the source changed begins again. All answers of a walk are of one state
of the source: a server of this product returns its snapshot in each, of others the registry is read again at the end.

Of the CNCF draft `/messagecatalog` is walked, a document for each group (CAT-188): the draft has one request for each version and
no marks of what changed, so what is the same as before is known by its digest.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from lakehouse.errors import ReplicationError, SettingsError
from lakehouse.replicate.client import Client, RequestRefused, SourceResponse, TooLarge, is_json
from lakehouse.replicate.sourcedocuments import (
    COLLECTIONS,
    MEMBERS,
    DocumentWriter,
    Json,
    Screen,
    bare_group,
    bare_resource,
    check_count,
    digest_of,
    write_document,
    write_members,
)
from lakehouse.replicate.state import PeerState
from lakehouse.store.durable import replace_synced
from lakehouse.text.jsontext import as_read, members, object_of, values_of, with_member, without
from lakehouse.text.names import Xid
from lakehouse.text.xid import xid_of, xid_of_group, xid_of_version

_WITH_EVERYTHING = "doc&inline=*"
MISSING = (404, 405, 400, 406, 501)  # statuses of a server without such a path
_PAGE = 500  # members that are asked for at once
_IN_PAGES = 2000  # members of a group above which it is asked for page by page
_WALKS = 4  # of a source that keeps changing; the last `Walk` looks at a snapshot of its past, where there is one
_AT_ONCE = 8  # definitions of the draft that are fetched in parallel
_BATCH = 256  # definitions that are held in memory
logger = logging.getLogger(__name__)


class SourceChanged(Exception):
    """The source changed while it was read."""


class Reader:
    """Asks one xRegistry server.

    Attributes:
        base: its URL.
        at: prefix of a snapshot of its past; empty: now.
        snapshot: that it answered from last; None: it names none.
        nests: it puts entities into others (`?doc&inline`).
        has_export: it has `/export`.
        has_pages: it cuts collections into pages.
    """

    def __init__(self, client: Client) -> None:
        self.client = client
        self.base = client.address.url
        self.at = ""
        self.snapshot: str | None = None
        self.nests = self.has_export = False
        self.has_pages = True
        self._seen: set[str] = set()

    def begin(self) -> None:
        """Begin a walk."""
        self._seen.clear()

    def look_round(self) -> None:
        """Find out what the server can do; one that does not say is asked for nothing special."""
        try:
            offered = self.client.json(self.client.address.url_of("capabilities"))
        except RequestRefused as refused:
            if refused.status not in MISSING:
                raise
            return
        if not isinstance(offered, dict):
            return
        flags = {flag.lstrip("?") for flag in offered.get("flags") or () if isinstance(flag, str)}
        self.nests = {"doc", "inline"} <= flags
        available, apis = offered.get("available"), offered.get("apis")
        self.has_export = (isinstance(available, dict) and "export" in available) or (
            isinstance(apis, list) and "/export" in apis
        )
        self.has_pages = offered.get("pagination") is True

    def resource(self, xid: Xid) -> Json:
        """Return a message or schema with its meta object and its Versions, of a server that puts nothing into another."""
        if self.nests:
            return self.value(self.get(self.url(xid + ("$details" if "/schemas/" in xid else ""), _WITH_EVERYTHING)))
        details = "$details" if "/schemas/" in xid else ""
        meta = self.value(self.get(self.url(f"{xid}/meta")))
        ids = ("messageid", "schemaid")
        own = [(key, value) for key, value in members(meta) if key in ids]
        if meta.get("xref") is not None:  # the rest is that of what it stands for
            alias = (*ids, "xref", "epoch", "createdat", "modifiedat")
            return object_of([*own, ("meta", object_of((name, value) for name, value in members(meta) if name in alias))])
        # What the server's own clients may change is its affair; a default that is not sticky is shown where nobody wrote so.
        meta = object_of(
            (name, value)
            for name, value in members(meta)
            if name != "readonly" and (name, value) != ("defaultversionsticky", False)
        )
        versions = []
        for page in self.collection(f"{xid}/versions"):
            for key, version in members(page):
                shown = self.value(self.get(self.url(f"{xid}/versions/{key}{details}"))) if details else version
                document = self._document(xid_of_version(xid, key), shown) if details else {}
                versions.append((key, object_of([*members(shown), *members(document)]) if document else shown))
        return object_of([*own, ("meta", meta), ("versions", object_of(versions))])

    def _document(self, xid: Xid, version: Json) -> Json:
        """Return the document of a Version of a schema unless it is elsewhere: as JSON, as text, or else as base64."""
        if any(name in version for name in ("schema", "schemabase64", "schemaurl")):
            return {}
        answer = self.noted(self.client.get(self.url(xid), is_json=False))
        if not answer.body:
            return {}
        try:
            text = answer.body.decode()
        except UnicodeDecodeError:
            return {"schemabase64": base64.b64encode(answer.body).decode()}
        return {"schema": self.client.value(answer) if is_json(answer.headers.get("content-type", "")) else text}

    def listed(self, collection: str) -> Iterator[tuple[str, Json]]:
        """Return the groups of a collection: id and attributes."""
        for page in self.collection(f"/{collection}"):
            yield from members(page)

    def collection(self, path: str, query: str = "") -> Iterator[Json]:
        """Return a collection page by page, as `Link` leads."""
        limit = f"limit={_PAGE}" if self.has_pages else ""
        url: str | None = self.url(path, "&".join(parameter for parameter in (query, limit) if parameter))
        visited: set[str] = set()
        while url is not None:
            if url in visited:
                raise ReplicationError(url, "its pages lead in a circle.")
            visited.add(url)
            answer = self.get(url)
            yield self.value(answer)
            url = answer.next

    def root(self) -> Json:
        """Return the registry itself."""
        root = self.value(self.get(self.url("")))
        if not isinstance(root.get("specversion"), str):
            raise ReplicationError(self.base, "it is not an xRegistry server: there is no `specversion`.")
        return root

    def check_same(self, root: Json) -> None:
        """Check that all responses were of one state of the source.

        Raises:
            SourceChanged: they were not.
        """
        if self.snapshot is not None:
            return
        now = self.root()
        if any(now.get(name) != value for name, value in root.items()):
            raise SourceChanged

    def get(self, url: str, etag: str | None = None) -> SourceResponse:
        """Fetch a resource of the source.

        Raises:
            SourceChanged: the answer is of another snapshot than those before.
        """
        return self.noted(self.client.get(url, etag))

    def noted(self, answer: SourceResponse) -> SourceResponse:
        """Record the snapshot of a response.

        Raises:
            SourceChanged: it is another than before.
        """
        if answer.snapshot is not None:
            self._seen.add(answer.snapshot)
            self.snapshot = answer.snapshot
            if len(self._seen) > 1:
                raise SourceChanged
        return answer

    def value(self, answer: SourceResponse) -> Json:
        """Return the JSON object of an answer."""
        value = self.client.value(answer)
        if not isinstance(value, dict):
            raise ReplicationError(answer.url, "its answer is not a JSON object.")
        return value

    def url(self, path: str, query: str = "") -> str:
        """Return the URL of a path below the base."""
        address = self.client.address
        if path.startswith("?"):
            return f"{self.base}{self.at}{path}"
        below = address.url_of(path)
        if self.at:
            below = address.origin + "/" + self.at + below.removeprefix(address.origin + "/")
        return below + (f"?{query}" if query else "")


class Unit(NamedTuple):
    """A document that was fetched.

    Attributes:
        uri: by which it is known.
        digest: its sha256.
        file: where it is; None: it is as it was when the catalog took it.
    """

    uri: str
    digest: str
    file: Path | None


class Walk:
    """Reads one xRegistry server.

    Args:
        client: asks it.
        state: what is known of it.
        screen: what is taken.
        report: is called with how far it is: a path, and how many groups were read of how many.
    """

    def __init__(self, client: Client, state: PeerState, screen: Screen, report: Callable[[str, int, int], None]) -> None:
        self.reader = Reader(client)
        self.state = state
        self.screen = screen
        self.report = report

    def fetch(self, scope: tuple[Xid, ...]) -> list[Unit]:
        """Fetch what the source holds.

        Args:
            scope: XIDs of groups, endpoints and messages; none: all.

        Raises:
            ReplicationError: it cannot be had whole.
        """
        self.reader.look_round()
        for attempt in range(_WALKS):
            self.reader.begin()
            try:
                return self._scoped(scope) if scope else [self._all()]
            except SourceChanged:
                logger.info("%s changed while it was read; again", self.reader.base)
                if attempt == _WALKS - 2 and self.reader.snapshot is not None:
                    self.reader.at = f"at/{self.reader.snapshot}/"
        raise ReplicationError(
            self.reader.base, f"it changed each of the {_WALKS} times that it was read; try again when it is quieter."
        )

    def _all(self) -> Unit:
        if self.reader.has_export or self.reader.nests:
            try:
                return self._whole()
            except (RequestRefused, TooLarge) as error:
                if isinstance(error, RequestRefused) and error.status not in MISSING:
                    raise
                logger.info("%s does not come in one piece (%s); group by group", self.reader.base, error)
        return self._by_groups()

    def _whole(self) -> Unit:
        """Fetch everything at once."""
        url = self.reader.url("export" if self.reader.has_export else "?" + _WITH_EVERYTHING)
        name, document = "/export", self.state.part("/export")
        mark = self.state.marks.get(name, {})
        fetched = document.with_suffix(".answer")
        try:
            answer = self.reader.noted(self.reader.client.download(url, fetched, _mark(self.state, mark, document, url)))
            if answer.status == 304:
                return Unit(self.reader.base, mark["digest"], document if document.is_file() else None)
            write_document(fetched, document, self.screen, self.reader.base, self.reader.client.limits.depth)
        finally:
            fetched.unlink(missing_ok=True)
        digest = digest_of(document)
        self.state.marks[name] = {"etag": answer.etag, "url": url, "digest": digest}
        self.state.keep_only({name})
        self.state.save()
        return Unit(self.reader.base, digest, document)

    def _by_groups(self) -> Unit:
        """Fetch the registry, then each group; unchanged ones stay as they were fetched before."""
        root = self.reader.root()
        names: set[str] = set()
        groups: dict[str, list[str]] = {}
        for collection in COLLECTIONS:
            listed = list(self.reader.listed(collection)) if f"{collection}url" in root else []
            if root.get(f"{collection}count") not in (None, len(listed), len(dict(listed))):
                raise SourceChanged
            groups[collection] = [groupid for groupid, _ in listed]
            for groupid, group in listed:
                self.report(f"/{collection}/{groupid}", len(names), sum(map(len, groups.values())))
                self._group(xid_of(collection, groupid), group)
                names.add(f"/{collection}/{groupid}")
        self.reader.check_same(root)
        self.state.keep_only(names)
        self.state.save()
        target = self.state.folder / "document.json"
        with target.open("wb") as stream:
            writer = DocumentWriter(stream)
            for collection, ids in groups.items():
                for groupid in ids:
                    name = f"/{collection}/{groupid}"
                    if not self.state.marks[name].get("own"):
                        writer.file(collection, groupid, self.state.part(name))
            writer.finish(root)
        return Unit(self.reader.base, digest_of(target), target)

    def _scoped(self, scope: tuple[Xid, ...]) -> list[Unit]:
        """Fetch some groups, endpoints or messages, a document for each; one that the source lacks was deleted."""
        root = self.reader.root()
        units = []
        for number, xid in enumerate(scope):
            self.report(xid, number, len(scope))
            _, collection, groupid, *member = xid.split("/")
            group_xid = xid_of(collection, groupid)
            try:
                group = self.reader.value(self.reader.get(self.reader.url(group_xid)))
                if member:
                    resource = bare_resource(self.reader.resource(xid))
                    text = with_member(bare_group(group), member[0], {member[1]: resource})
                    screened = self.screen.group(text)
                    content = None if screened is None else as_read(screened)
                else:
                    self._group(group_xid, group)
                    is_own = self.state.marks[group_xid].get("own")
                    content = None if is_own else self.state.part(group_xid).read_bytes()
            except RequestRefused as refused:
                if refused.status != 404:
                    raise
                continue
            if content is None:
                continue
            target = self.state.folder / f"{self.state.part(xid).stem}.document.json"
            with target.open("wb") as stream:
                writer = DocumentWriter(stream)
                writer.group(collection, groupid, content)
                writer.finish(root)
            units.append(Unit(self.reader.client.address.url_of(xid), digest_of(target), target))
        self.reader.check_same(root)
        self.state.keep_only({xid_of_group(xid) for xid in scope})
        self.state.save()
        return units

    def _group(self, xid: Xid, listed: Json) -> None:
        """Fetch a group with its members into its part, unless it is there as it is at the source."""
        collection = xid.split("/")[1]
        count = listed.get(f"{MEMBERS[collection]}count")
        previous = self.state.marks.get(xid, {})
        part = self.state.part(xid)
        is_whole = self.reader.nests and not (self.reader.has_pages and isinstance(count, int) and count > _IN_PAGES)
        if is_whole:
            url = self.reader.url(xid, _WITH_EVERYTHING)
            try:
                answer = self.reader.get(url, _mark(self.state, previous, part, url))
            except (RequestRefused, TooLarge) as error:
                if isinstance(error, RequestRefused) and error.status not in (400, 406):
                    raise
                is_whole = False
            else:
                if answer.status == 304:
                    return
                self._keep_whole(xid, url, answer)
                return
        life = [listed.get(name) for name in ("epoch", "modifiedat", "createdat")]
        mark = {"snapshot": self.reader.snapshot, "life": life}
        if (
            self.reader.snapshot is not None
            and previous.get("snapshot") == self.reader.snapshot
            and previous.get("life") == life
            and part.is_file()
        ):
            return  # fetched by a walk of the same snapshot that was cut short
        own = without(bare_group(listed), (MEMBERS[collection],))
        self._keep(xid, own, _paged(self.reader, xid), mark, count if isinstance(count, int) else None)

    def _keep_whole(self, xid: Xid, url: str, answer: SourceResponse) -> None:
        """Write the part of a group that came in one answer."""
        group = self.reader.value(answer)
        _, collection, groupid = xid.split("/")
        name = MEMBERS[collection]
        check_count(url, collection, groupid, group)
        collections = [collection or {} for collection in values_of(group, name)] or [{}]
        if not all(isinstance(collection, dict) for collection in collections):
            raise ReplicationError(url, f"`{name}` of its answer is not a map.")
        twins = [(name, _taken(self.screen, name, collection)) for collection in collections[:-1]]  # of a key that occurs twice
        own = object_of([*members(without(bare_group(group), (name,))), *twins])
        self._keep(xid, own, collections[-1:], {"etag": answer.etag, "url": url})

    def _keep(self, xid: Xid, own: Json, pages: Iterable[Json], mark: Json, count: int | None = None) -> None:
        """Write a group's part, and its mark once it is whole."""
        name = MEMBERS[xid.split("/")[1]]
        got, every, part = 0, 0, self.state.part(xid)

        def screened() -> Iterator[Json]:
            nonlocal got, every
            for page in pages:
                got += len(page)
                every += sum(1 for _ in members(page))
                yield _taken(self.screen, name, page)

        aside = part.with_suffix(".writing")
        with aside.open("wb") as stream:
            taken = write_members(stream, own, name, screened())
        if count not in (None, got, every):
            raise SourceChanged
        replace_synced(aside, part)
        self.state.marks[xid] = mark | {"own": bool(got) and not taken}
        self.state.save()


def _taken(screen: Screen, name: str, page: Json) -> Json:
    """Return messages or schemas of an answer as they are taken."""
    bare = object_of(
        (key, bare_resource(resource) if isinstance(resource, dict) else resource) for key, resource in members(page)
    )
    return screen.messages(bare) if name == "messages" and not screen.is_open else bare


def _paged(reader: Reader, xid: Xid) -> Iterator[Json]:
    """Yield the members of a group page by page."""
    name = MEMBERS[xid.split("/")[1]]
    if reader.nests:
        yield from reader.collection(f"{xid}/{name}", _WITH_EVERYTHING)
        return
    for page in reader.collection(f"{xid}/{name}"):
        yield object_of((key, reader.resource(Xid(f"{xid}/{name}/{key}"))) for key, _ in members(page))


def _mark(state: PeerState, mark: Json, file: Path, url: str) -> str | None:
    """Return the mark for a conditional request where what it names is here, or in the catalog."""
    is_here = file.is_file() or mark.get("digest") in state.loaded.values()
    etag = mark.get("etag")
    return etag if is_here and mark.get("url") == url and isinstance(etag, str) else None


class DraftWalk:
    """Reads one catalog of the draft.

    Args:
        client: asks it.
        state: what is known of it.
        screen: what is taken; a definition without an authority gets that of the source (CAT-068).
        report: is called with how far it is: a path, and how many groups were read of how many.
    """

    def __init__(self, client: Client, state: PeerState, screen: Screen, report: Callable[[str, int, int], None]) -> None:
        self.client = client
        self.state = state
        self.screen = screen
        self.report = report
        self.base = client.address.url_of("messagecatalog")
        self._snapshots: set[str] = set()

    @property
    def scope(self) -> str:
        """Return the beginning of the URIs of all documents."""
        return self.base + "/"

    def fetch(self, scope: tuple[Xid, ...]) -> list[Unit]:
        """Fetch what the source holds.

        Args:
            scope: XIDs of groups and definitions, `/messagegroups/<id>[/messages/<id>]` (CAT-189); none: all.

        Raises:
            ReplicationError: it cannot be had whole.
            SettingsError: the scope names what the draft does not know.
        """
        if other := next((xid for xid in scope if not xid.startswith("/messagegroups/")), None):
            raise SettingsError(f"--group {other}: a catalog of the CNCF draft holds message groups and nothing else.")
        for _ in range(_WALKS):
            self._snapshots.clear()
            units = self._units(scope)
            if units is not None and len(self._snapshots) < 2:
                return units
        raise ReplicationError(
            self.base, f"it changed each of the {_WALKS} times that it was read; try again when it is quieter."
        )

    def _units(self, scope: tuple[Xid, ...]) -> list[Unit] | None:
        """Walk once; None: the groups changed on the way."""
        ids = self._array(self._get(self.base))
        parts = [(xid.split("/")[2], xid.split("/")[4:]) for xid in scope] if scope else [(groupid, []) for groupid in ids]
        whole = {groupid for groupid, only in parts if not only}
        wanted = [(groupid, only) for groupid, only in parts if not only or groupid not in whole]
        units = []
        for number, (groupid, only) in enumerate(wanted):
            if groupid not in ids:
                continue
            self.report(f"/messagecatalog/{groupid}", number, len(wanted))
            unit = self._group(groupid, only)
            if unit is not None:
                units.append(unit)
        return None if not scope and self._array(self._get(self.base)) != ids else units

    def _group(self, groupid: str, only: list[str]) -> Unit | None:
        """Write the document of a group; None: it went while it was read, or all of it is ours."""
        url = f"{self.base}/{_quoted(groupid)}"
        group = self._object(self._get(url))
        listed = self._array(self._get(f"{url}/messagedefinitions"))
        ids = [definition_id for definition_id in listed if not only or definition_id in only]
        part = self.state.part(url + "".join(f"/{definition_id}" for definition_id in only))
        aside = part.with_suffix(".writing")

        with ThreadPoolExecutor(_AT_ONCE, "lakehouse-replicate") as threads, aside.open("wb") as stream:

            def pages() -> Any:
                for start in range(0, len(ids), _BATCH):
                    batch = ids[start : start + _BATCH]
                    definitions = threads.map(lambda definition_id: self._definition(url, definition_id), batch)
                    taken = (
                        (definition_id, self.screen.definition(it)) for definition_id, it in zip(batch, definitions, strict=True)
                    )
                    yield {definition_id: it for definition_id, it in taken if it is not None}

            count = write_members(stream, group, "messagedefinitions", pages())
        if ids and not count:
            aside.unlink()
            return None
        replace_synced(aside, part)
        return Unit(
            f"{self.scope}{_quoted(groupid)}" + "".join(f"?{_quoted(definition_id)}" for definition_id in only),
            digest_of(part),
            part,
        )

    def _definition(self, group_url: str, definition_id: str) -> Json:
        """Return a definition with all of its versions (CAT-164, CAT-166, CAT-167)."""
        url = f"{group_url}/messagedefinitions/{_quoted(definition_id)}"
        numbers = self._array(self._get(f"{url}/versions"))
        versions = {str(number): self._object(self._get(f"{url}/versions/{number}")) for number in numbers}
        if not versions:
            raise ReplicationError(url, "it has no version (CAT-034).")
        latest = versions[max(versions, key=int)] if all(versionid.isdigit() for versionid in versions) else {}
        own = [(name, value) for name, value in members(latest) if name in ("format", "authority")]
        bare = {number: without(version, ("authority",)) for number, version in versions.items()}
        return object_of([("id", definition_id), *own, ("versions", bare)])

    def _get(self, url: str) -> SourceResponse:
        answer = self.client.get(url)
        if answer.snapshot is not None:
            self._snapshots.add(answer.snapshot)
        return answer

    def _array(self, answer: SourceResponse) -> list[Any]:
        value = self.client.value(answer)
        if not isinstance(value, list) or any(
            not isinstance(element, str | int) or isinstance(element, bool) for element in value
        ):
            raise ReplicationError(answer.url, "its answer is not an array of ids. Is this a catalog of the CNCF draft?")
        return value

    def _object(self, answer: SourceResponse) -> Json:
        value = self.client.value(answer)
        if not isinstance(value, dict):
            raise ReplicationError(answer.url, "its answer is not a JSON object.")
        return value


def is_draft_catalog(client: Client) -> bool:
    """Return whether a source is a catalog of the draft, and no xRegistry server.

    Raises:
        ReplicationError: it does not answer.
    """
    if client.address.is_draft:
        return True
    reason = "no `specversion` in its answer"
    try:
        root = client.json(client.address.url)
        if isinstance(root, dict) and "specversion" in root:
            return False
    except RequestRefused as refused:
        if refused.status != 404:
            raise
        reason = str(refused)
    try:
        return isinstance(client.json(client.address.url_of("messagecatalog")), list)
    except RequestRefused as refused:
        what = "neither an xRegistry server nor a catalog of the CNCF draft (/messagecatalog) is here"
        raise ReplicationError(client.address.url, f"{what}: {reason}") from refused


def _quoted(segment: Any) -> str:
    return quote(str(segment), safe="@~!$&'()*+,;=-._:")
