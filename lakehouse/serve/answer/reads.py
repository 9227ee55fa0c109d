"""Answers to reads of the xRegistry API and of `/ui/`: from the path and the query to status, headers and body.

Runs in a worker thread, for one snapshot. What a client is sent in addition (ETag, compression, CORS) is `lakehouse.serve.app`'s.
The pages for people, below `/ui/` and `/at/SNAPSHOT/ui/`, are those of `lakehouse.site`.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from urllib.parse import parse_qsl, unquote

import orjson
from markupsafe import Markup

from lakehouse.errors import SnapshotNotFound
from lakehouse.readmodel import View
from lakehouse.serve.answer.entityviews import Deadline, EmptyCatalog, EntityCache, ResourceView, SnapshotCatalog, unmarked
from lakehouse.serve.answer.exchange import (
    ApiAnswer,
    ApiRequest,
    Part,
    ReadRequest,
    RequestMeaning,
    RequestResolver,
    header_value,
    page_of,
)
from lakehouse.serve.answer.live import ServedHead, SnapshotWatcher
from lakehouse.serve.answer.nested import Answers, document_answer, version_url
from lakehouse.serve.answer.queryparameters import Flags, read_flags
from lakehouse.serve.apierrors import RC2, RC4, ProblemFound
from lakehouse.serve.config import Options
from lakehouse.serve.describe import capabilities, capabilities_offered, model, modelsource
from lakehouse.serve.targets import MEMBERS, RequestTarget, is_catalog_path, mount_of
from lakehouse.settings import Settings
from lakehouse.site import Site
from lakehouse.site.addresses import HOME
from lakehouse.site.served import HEADERS
from lakehouse.site.templating import ASSETS, MEDIA_TYPES, asset, coded
from lakehouse.text.xid import xid_of

UI = "ui"
ENDING = ".html"
_MOST_PARAMETERS = 20
_OF_PAGES = re.compile(rb"/(at/([^/]*/)?)?ui(/|\Z)")
_BARE = Markup("""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">{refresh}
<title>{title} · xRegistry Lakehouse</title><link rel="stylesheet" href="{ui}assets/style.css"></head>
<body><main><h1>{title}</h1><p>{text}</p><p><a href="{ui}">Home page</a></p></main></body></html>
""")
_REFRESH = Markup('<meta http-equiv="refresh" content="2">')
_REST = 20  # of loading ahead, between two times


def is_of_pages(raw_path: bytes) -> bool:
    """Return whether a path is below `/ui` or `/at/SNAPSHOT/ui`, whatever stands for the snapshot."""
    return _OF_PAGES.match(raw_path) is not None


def bare_page(title: str, text: str, origin: str, refresh: bool = False) -> bytes:
    """Return a page that needs no snapshot.

    Args:
        title: its heading.
        text: what it says, with code between backticks.
        origin: URL of the server.
        refresh: it loads itself again until there is another one.
    """
    page = _BARE.format(title=title, text=coded(text), ui=f"{origin}/{UI}/", refresh=_REFRESH if refresh else "")
    return page.encode("utf-8", "replace")


def _asset_answer(name: str) -> ApiAnswer:
    return ApiAnswer(200, dict(HEADERS), asset(name), MEDIA_TYPES[name.rpartition(".")[2]])


def _loading(api_request: ApiRequest) -> ApiAnswer:
    """Answer before there is a catalog: with a page that loads itself again, or what belongs to it.

    Raises:
        ProblemFound: no page is wanted.
    """
    last = api_request.raw_path.rpartition("/")[2]
    if last in ASSETS:
        return _asset_answer(last)
    if "." in last and not last.endswith(ENDING):
        raise ProblemFound("", status=503, detail="The catalog is being loaded.", headers={"Retry-After": "2"})
    text = "The server has just started. This page loads itself again every two seconds until it is there."
    page = bare_page("The catalog is being loaded", text, api_request.origin, refresh=True)
    return ApiAnswer(503, HEADERS | {"Retry-After": "2"}, page, MEDIA_TYPES["html"])


def ui_answer(site: Site, api_request: ApiRequest, head: ServedHead) -> ApiAnswer:
    """Answer with a page; with one that says so where there is no such page or snapshot."""
    path = api_request.raw_path.partition("?")[0]
    below = path[len(api_request.target.prefix) + len(UI) + 1 :]
    if not below.startswith("/"):  # /ui: links of the page begin at /ui/
        return _led_to(api_request, "/")
    if not head.number:
        if below.removeprefix("/assets/") in ASSETS:
            return _asset_answer(below.removeprefix("/assets/"))
        text = "Load documents with `lakehouse ingest path/to/documents`, then load this page again."
        return ApiAnswer(200, dict(HEADERS), bare_page("The catalog is empty", text, api_request.origin), MEDIA_TYPES["html"])
    text = api_request.query.decode("ascii", "replace")
    query = dict(parse_qsl(text, keep_blank_values=True, max_num_fields=_MOST_PARAMETERS, errors="replace"))
    try:
        named = unquote(below[1:])
        shown = site.page(named, query, api_request.origin, api_request.target.at)
        whole = below.rstrip("/") + ENDING  # as the page is named, for who left it out
        lacks_ending = not shown.is_there and not below.endswith(ENDING)
        if lacks_ending and site.page(unquote(whole[1:]), query, api_request.origin, api_request.target.at).is_there:
            return _led_to(api_request, whole)
    except SnapshotNotFound as error:
        page = site.problem(str(error), f"{api_request.origin}/{UI}/")
        return ApiAnswer(404, dict(HEADERS), page.body, page.media_type)
    page = shown.page
    if shown.is_there and page.path != (named or HOME):  # what a form chose has its own address, from which its links lead
        return _led_to(api_request, f"/{page.path}", 303, query="")
    return ApiAnswer(200 if shown.is_there else 404, dict(HEADERS), page.body, page.media_type, shown.snapshot_id)


def _led_to(api_request: ApiRequest, below: str, status: int = 307, query: str | None = None) -> ApiAnswer:
    """Return a redirect to another address below `/ui`; `query`: its parameters, None: those of the request."""
    parameters = api_request.query.decode("ascii", "replace") if query is None else query
    url = f"{api_request.origin}{api_request.target.prefix}/{UI}{below}" + (f"?{parameters}" if parameters else "")
    return ApiAnswer(status, {"Location": url, "Cache-Control": "no-cache"}, media_type="")


class ReadHandler:
    """Answers requests; shared by the threads of a process.

    Attributes:
        extra_parts: what else is at the root of a registry: first part of the path → what answers.
    """

    def __init__(self, live: SnapshotWatcher, settings: Settings, options: Options, extra_parts: dict[str, Part]) -> None:
        self.source = settings.events_source
        self.max_chain_depth = settings.max_chain_depth
        self.live = live
        self.options = options
        self.extra_parts = extra_parts
        self.cache = EntityCache()
        self._not_warmed_before = 0.0
        self.site = Site(live.model, settings.max_chain_depth)
        self.meanings = RequestResolver(live, options)

    def answer(self, api_request: ApiRequest) -> ApiAnswer:
        """Answer a request.

        Raises:
            ProblemFound: with an error.
        """
        head = self.live.head
        if head is None and api_request.target.parts[:1] == (UI,):
            return _loading(api_request)
        if head is None:
            raise ProblemFound("", status=503, detail="The catalog is being loaded.", headers={"Retry-After": "2"})
        Deadline(self.options.request_seconds, api_request.arrived).check()  # it may have waited until nobody waits for it
        if api_request.target.parts[:1] == (UI,):
            return ui_answer(self.site, api_request, head)
        meant = self.meanings.read(api_request, head)
        number, key = self.meanings.snapshot_of(api_request, meant.parameters, head)
        if not isinstance(number, int):
            return number
        return self._answer_at(api_request, head, meant, number, key, self.answered)

    def answer_at(self, api_request: ApiRequest, head: ServedHead, number: int, key: str, answered: Part) -> ApiAnswer:
        """Answer out of a snapshot.

        Args:
            api_request: the request.
            head: the newest snapshot.
            number: of the snapshot.
            key: what distinguishes it from all others that ever had its number.
            answered: makes the answer.

        Raises:
            ProblemFound: with an error.
        """
        return self._answer_at(api_request, head, self.meanings.read(api_request, head), number, key, answered)

    def _answer_at(
        self, api_request: ApiRequest, head: ServedHead, meant: RequestMeaning, number: int, key: str, answered: Part
    ) -> ApiAnswer:
        deadline = Deadline(self.options.request_seconds, api_request.arrived)
        parameters, dialect, registryid = meant
        target = api_request.target
        flags = (
            Flags(parameters=parameters) if target.is_of_subjects else read_flags(parameters, self._parts(target), target.path)
        )

        def part(catalog: SnapshotCatalog, view: View | None) -> ApiAnswer:
            request = ReadRequest(
                api_request=api_request,
                parts=api_request.target.parts,
                flags=flags,
                dialect=dialect,
                catalog=catalog,
                view=view,
                options=self.options,
                head=head,
                source=self.source,
                max_chain_depth=self.max_chain_depth,
            )
            return answered(request)

        if not number:
            return part(EmptyCatalog(registryid, dialect, self.cache, deadline), None)

        def ask(view: View) -> ApiAnswer:
            catalog = SnapshotCatalog(view, key, registryid, dialect, self.cache, deadline)
            if api_request.target.at is not None and registryid != self.live.root and not catalog.exists():
                raise ProblemFound("not_found", mount_of(registryid), f"Snapshot {number} holds no such registry.")
            return part(catalog, view)

        try:
            result = self.live.model.answer(ask, number)
        except SnapshotNotFound as error:  # the log lost its tail since the head was looked up
            raise ProblemFound("not_found", f"/at/{number}", detail=str(error)) from error
        result.snapshot = number
        return result

    def warm(self, head: ServedHead) -> None:
        """Load what the first page, filter or export would wait for: of the registry that `/` is, unless that is large.

        Where snapshots follow one another quickly, it is left to those who ask: loading takes a twentieth of the time at most.
        """
        begun = time.monotonic()
        if begun < self._not_warmed_before:
            return
        try:
            self._warm(head)
        finally:
            ended = time.monotonic()
            self._not_warmed_before = ended + (ended - begun) * _REST

    def _warm(self, head: ServedHead) -> None:
        if head.number:
            self.site.warm()
        registryid = self.live.root
        if not head.number or registryid is None:
            return

        def load(view: View) -> None:
            deadline = Deadline(self.options.request_seconds)
            catalog = SnapshotCatalog(view, head.digest, registryid, self.options.specification, self.cache, deadline)
            if view.count() <= self.cache.most:
                for collection in MEMBERS:
                    for group in catalog.groups(collection):
                        catalog.resources(group)

        try:
            self.live.model.answer(load, head.number)
        except (SnapshotNotFound, ProblemFound):  # it is loaded when it is asked for
            return

    def _parts(self, target: RequestTarget) -> tuple[str, ...]:
        """Return the path for flags: `/export` and its like are of the root."""
        is_member_path = target.parts and target.parts[0] in MEMBERS
        return target.parts if is_member_path and is_catalog_path(target.parts) else ()

    def has_path(self, target: RequestTarget) -> bool:
        """Return whether there is such a path, whatever it names is in the catalog or not."""
        parts = target.parts
        first = parts[0] if parts else ""
        return first == UI or first in self.extra_parts or (len(parts) <= 1 and first in _ROOT) or is_catalog_path(parts)

    def answered(self, request: ReadRequest) -> ApiAnswer:
        """Answer a request for what a registry has.

        Raises:
            ProblemFound: with an error.
        """
        parts, path = request.parts, request.api_request.target.path
        first = parts[0] if parts else ""
        if first in MEMBERS and is_catalog_path(parts):
            if any("/" in part for part in parts):
                raise ProblemFound("not_found", path)
            return entity_answer(request)
        if request.api_request.target.details:
            raise ProblemFound("bad_details", path)
        if first in self.extra_parts:
            return self.extra_parts[first](request)
        if len(parts) > 1 or first not in _ROOT:
            raise ProblemFound("api_not_found", path)
        return _ROOT[first](request, self.meanings.specifications)


def entity_answer(request: ReadRequest) -> ApiAnswer:
    """Answer a path below `/<GROUPS>`."""
    parts, path = request.parts, request.api_request.target.path
    if request.api_request.target.details and len(parts) not in (4, 6):
        raise ProblemFound("bad_details", path)
    answers, answer = entity_answers(request), ApiAnswer()
    if len(parts) == 1:
        return _json(request, answers.groups(parts[0], lambda result: page_of(request, answer, result)), answer)
    group_xid = xid_of(*parts[:2])
    group = request.catalog.group(group_xid)
    if group is None:
        raise ProblemFound("not_found", group_xid)
    if len(parts) == 2:
        return _json(request, answers.group(group), answer)
    if len(parts) == 3:
        return _json(request, answers.resources(group, lambda result: page_of(request, answer, result)), answer)
    resource_xid = xid_of(*parts[:4])
    resource = request.catalog.resource(resource_xid)
    if resource is None:
        raise ProblemFound("not_found", resource_xid)
    return _resource_answer(request, resource, answers)


def _resource_answer(request: ReadRequest, resource: ResourceView, answers: Answers) -> ApiAnswer:
    parts, flags, answer = request.parts, request.flags, ApiAnswer()
    part = parts[4] if len(parts) > 4 else ""
    if flags.doc and resource.xref and part == "versions":
        raise ProblemFound("cannot_doc_xref", resource.xid)
    if part == "meta":
        return _json(request, answers.meta(resource), answer)
    if part and len(parts) == 5:
        return _json(request, answers.versions(resource, lambda result: page_of(request, answer, result)), answer)
    versionid = parts[5] if part else None
    if versionid is not None and versionid not in resource.versions:
        raise ProblemFound("not_found", request.api_request.target.path)
    if parts[2] == "schemas" and not request.api_request.target.details and not flags.doc:
        answers.resource(resource) if versionid is None else answers.version(resource, versionid)  # what filters say of it
        return document_answer(request, resource, versionid)
    if versionid is not None:
        return _json(request, answers.version(resource, versionid), answer)
    if resource.default is not None and not flags.doc:
        answer.headers["Content-Location"] = header_value(version_url(request, resource, resource.default))
    return _json(request, answers.resource(resource), answer)


def entity_answers(request: ReadRequest, specifications: tuple[str, ...] = ()) -> Answers:
    """Return what writes the entities of a request."""
    dialect = request.dialect
    configuration = {
        "capabilities": lambda: _compact(capabilities(dialect, specifications, request.options.writable)),
        "model": lambda: _compact(model(dialect)),
        "modelsource": lambda: _compact(modelsource(dialect)),
    }
    return Answers(request.catalog, request.flags, request.api_request.base, configuration, request.options.max_response_bytes)


def _registry_answer(request: ReadRequest, specifications: tuple[str, ...]) -> ApiAnswer:
    return _json(request, entity_answers(request, specifications).registry(), ApiAnswer())


def _export(request: ReadRequest, specifications: tuple[str, ...]) -> ApiAnswer:
    """Answer `/export`: the document view of everything, with what the dialect adds; of what `?inline` names, if it is given."""
    added = ("capabilities", "modelsource") if request.dialect == RC4 else ("model", "capabilities")
    request.flags.doc = True
    if not any(name == "inline" for name, _ in request.flags.parameters):  # core/http.md, "GET /export"
        request.flags.inline = {"*": {}} | {name: {} for name in added}
    return _json(request, entity_answers(request, specifications).registry(), ApiAnswer(), "/")


def _capabilities(request: ReadRequest, specifications: tuple[str, ...]) -> ApiAnswer:
    is_offered = request.dialect == RC2 and any(name == "offered" for name, _ in request.flags.parameters)
    write = capabilities_offered if is_offered else capabilities
    return ApiAnswer(body=write(request.dialect, specifications, request.options.writable))


_ROOT: dict[str, Callable[[ReadRequest, tuple[str, ...]], ApiAnswer]] = {
    "": _registry_answer,
    "export": _export,
    "capabilities": _capabilities,
    "capabilitiesoffered": lambda request, specifications: ApiAnswer(
        body=capabilities_offered(request.dialect, specifications, request.options.writable)
    ),
    "model": lambda request, _: ApiAnswer(body=model(request.dialect)),
    "modelsource": lambda request, _: ApiAnswer(body=modelsource(request.dialect)),
}


def _json(request: ReadRequest, text: bytes, answer: ApiAnswer, path: str | None = None) -> ApiAnswer:
    answer.body = unmarked(text, request.api_request.base, path or request.api_request.target.path)
    if len(answer.body) > request.options.max_response_bytes:
        raise ProblemFound("too_large", detail="Ask for a collection, page by page with ?limit.")
    return answer


def _compact(text: bytes) -> bytes:
    return orjson.dumps(orjson.loads(text))
