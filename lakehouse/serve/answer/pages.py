"""Requests of the xRegistry API are answered: from the path and the query to status, headers and body.

Runs in a worker thread, for one snapshot. What a client is sent besides (ETag, compression, CORS) is `lakehouse.serve.app`'s.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import orjson

from lakehouse.errors import SnapshotNotFound
from lakehouse.readmodel import View
from lakehouse.serve.answer.asking import PRINTABLE, Answer, Asked, Part, Request, header_value, page_of, read_page
from lakehouse.serve.answer.catalog import Catalog, Deadline, Kept
from lakehouse.serve.answer.configuration import capabilities, capabilities_offered, model, modelsource
from lakehouse.serve.answer.documents import document_answer, version_url
from lakehouse.serve.answer.entities import Group, Resource, make_registry, unmarked
from lakehouse.serve.answer.flags import read_flags, read_parameters
from lakehouse.serve.answer.live import Head, Live
from lakehouse.serve.answer.nested import Answers
from lakehouse.serve.options import Options
from lakehouse.serve.problems import RC2, RC4, ProblemFound
from lakehouse.serve.requests import MEMBERS, Target, mount_of
from lakehouse.serve.ui import UI, ui_answer
from lakehouse.settings import Settings
from lakehouse.site import Site


class EmptyCatalog(Catalog):
    """A registry without anything in it: the warehouse holds no catalog yet."""

    def __init__(self, registryid: str, dialect: str, kept: Kept, deadline: Deadline) -> None:
        self.registryid, self.dialect, self.kept, self.deadline = registryid, dialect, kept, deadline

    def registry(self) -> dict[str, Any]:
        """Give attributes that every registry has."""
        return make_registry(self.registryid, None, (0, 0), self.dialect)

    def group(self, xid: str) -> None:
        """Find nothing."""

    def resource(self, xid: str) -> None:
        """Find nothing."""

    def groups(self, collection: str) -> list[Group]:
        """Find nothing."""
        return []

    def ids_of_groups(self, collection: str) -> list[str]:
        """Find nothing."""
        return []


class Pages:
    """Answers requests; shared by the threads of a process.

    Attributes:
        others: what else stands at the root of a registry: first part of the path → what answers.
    """

    def __init__(self, live: Live, settings: Settings, options: Options, others: dict[str, Part]) -> None:
        self.source = settings.events_source
        self.max_chain_depth = settings.max_chain_depth
        self.live = live
        self.options = options
        self.others = others
        self.kept = Kept()
        self.site = Site(live.model, settings.max_chain_depth)
        self.specifications = (RC4, RC2) if options.specification == RC4 else (RC2,)

    def answer(self, asked: Asked) -> Answer:
        """Answer a request.

        Raises:
            ProblemFound: with an error.
        """
        head = self.live.head
        if head is None:
            raise ProblemFound("", status=503, detail="The catalog is being loaded.", headers={"Retry-After": "2"})
        if asked.target.parts[:1] == (UI,):
            return ui_answer(self.site, asked, head)
        deadline = Deadline(self.options.request_seconds)
        parameters = read_parameters(asked.query)
        dialect = self.dialect_of(parameters)
        registryid = self.registry_of(asked, head)
        number, key = self._snapshot(asked, parameters, head)
        if not isinstance(number, int):
            return number
        path = asked.target.path
        flags = read_flags(parameters, self._parts(asked.target), path)

        def part(catalog: Catalog, view: View | None) -> Answer:
            made = Request(
                asked, asked.target.parts, flags, dialect, catalog, view, self.options, head, self.source, self.max_chain_depth
            )
            return self._answered(made)

        if not number:
            return part(EmptyCatalog(registryid, dialect, self.kept, deadline), None)

        def ask(view: View) -> Answer:
            catalog = Catalog(view, key, registryid, dialect, self.kept, deadline)
            if asked.target.at is not None and registryid != self.live.root and not catalog.exists():
                raise ProblemFound("not_found", mount_of(registryid), f"Snapshot {number} holds no such registry.")
            return part(catalog, view)

        try:
            found = self.live.model.answer(ask, number)
        except SnapshotNotFound as error:  # the log lost its tail since the head was looked up
            raise ProblemFound("not_found", f"/at/{number}", detail=str(error)) from error
        found.snapshot = number
        return found

    def warm(self, head: Head) -> None:
        """Load what the first page, filter or export would wait for: of the registry that `/` is, unless that is large."""
        if head.number:
            self.site.warm()
        registryid = self.live.root
        if not head.number or registryid is None:
            return

        def load(view: View) -> None:
            deadline = Deadline(self.options.request_seconds)
            catalog = Catalog(view, head.digest, registryid, self.options.specification, self.kept, deadline)
            if view.count() <= self.kept.most:
                for collection in MEMBERS:
                    for group in catalog.groups(collection):
                        catalog.resources(group)

        try:
            self.live.model.answer(load, head.number)
        except (SnapshotNotFound, ProblemFound):  # it is loaded when it is asked for
            return

    def dialect_of(self, parameters: list[tuple[str, str]]) -> str:
        """Give the dialect that a request asks for.

        Raises:
            ProblemFound: it is not served here.
        """
        wanted = next((value for name, value in parameters if name == "specversion"), None)
        if wanted is None:
            return self.options.specification
        found = next((one for one in self.specifications if one == wanted.lower()), None)
        if found is None:
            raise ProblemFound("unsupported_specversion", "/", specversion=wanted[:80], list=", ".join(self.specifications))
        return found

    def registry_of(self, asked: Asked, head: Head) -> str:
        """Find the registry that is meant.

        Raises:
            ProblemFound: there is none; it names those that are there.
        """
        named = asked.target.registry
        if named is not None:
            if asked.target.at is None and named not in head.registries and named != self.live.root:
                raise ProblemFound("not_found", mount_of(named))
            return named
        if self.live.root is None:
            mounts = ", ".join(f"{asked.origin}{mount_of(one)}/" for one in head.registries[:100])
            raise ProblemFound(
                "not_found", asked.target.path, f"The catalog holds several registries, and none is the default: {mounts}"
            )
        return self.live.root

    def _snapshot(self, asked: Asked, parameters: list[tuple[str, str]], head: Head) -> tuple[int | Answer, str]:
        """Find the snapshot that is meant: its number and what tells it from others; or a redirection to the number."""
        at = asked.target.at
        if at is not None:
            if self.live.is_empty or not head.number:
                raise ProblemFound("not_found", f"/at/{at}", "The catalog has no snapshot yet.")
            try:
                number, digest = self.live.model.answer(lambda view: _resolved(view, at))
            except SnapshotNotFound as error:
                raise ProblemFound("not_found", f"/at/{at}", str(error)) from error
            if at != str(number):
                return self._redirection(asked, number), digest
            return number, digest
        page = next((value for name, value in parameters if name == "page"), None)
        if page is not None and head.number:
            number, started, _ = read_page(page, asked.target.path)
            try:
                found, digest = self.live.model.answer(lambda view: _resolved(view, str(number)))
            except SnapshotNotFound as error:
                raise ProblemFound("bad_request", asked.target.path, error_detail="The page is of a lost snapshot") from error
            if not digest.startswith(started):
                raise ProblemFound("bad_request", asked.target.path, error_detail="The page is of a lost snapshot")
            return found, digest
        return head.number, head.digest

    def _redirection(self, asked: Asked, number: int) -> Answer:
        rest = asked.raw_path.split("/", 3)[3:]
        query = f"?{asked.query.decode('ascii', 'replace')}" if asked.query else ""
        location = f"{asked.origin}/at/{number}{''.join('/' + one for one in rest)}{query}"
        return Answer(307, {"Location": quote(location, safe=PRINTABLE + "%"), "Cache-Control": "no-cache"})

    def _parts(self, target: Target) -> tuple[str, ...]:
        """Give the path for flags: `/export` and its like are of the root."""
        known = target.parts and target.parts[0] in MEMBERS
        return target.parts if known and self._is_known(target.parts) else ()

    @staticmethod
    def _is_known(parts: tuple[str, ...]) -> bool:
        """Tell whether the API has such a path."""
        if len(parts) > 2 and parts[2] != MEMBERS[parts[0]]:
            return False
        return len(parts) <= 4 or (parts[4] == "versions" and len(parts) <= 6) or (parts[4] == "meta" and len(parts) == 5)

    def _answered(self, request: Request) -> Answer:
        parts, path = request.parts, request.asked.target.path
        first = parts[0] if parts else ""
        if first in MEMBERS and self._is_known(parts):
            if any("/" in part for part in parts):
                raise ProblemFound("not_found", path)
            return entity_answer(request)
        if request.asked.target.details:
            raise ProblemFound("bad_details", path)
        if first in self.others:
            return self.others[first](request)
        if len(parts) > 1 or first not in _ROOT:
            raise ProblemFound("api_not_found", path)
        return _ROOT[first](request, self.specifications)


def entity_answer(request: Request) -> Answer:
    """Answer what stands below `/<GROUPS>`."""
    parts, path = request.parts, request.asked.target.path
    if request.asked.target.details and len(parts) not in (4, 6):
        raise ProblemFound("bad_details", path)
    answers, answer = _answers(request, ()), Answer()
    if len(parts) == 1:
        return _json(request, answers.groups(parts[0], lambda found: page_of(request, answer, found)), answer)
    group_xid = f"/{parts[0]}/{parts[1]}"
    group = request.catalog.group(group_xid)
    if group is None:
        raise ProblemFound("not_found", group_xid)
    if len(parts) == 2:
        return _json(request, answers.group(group), answer)
    if len(parts) == 3:
        return _json(request, answers.resources(group, lambda found: page_of(request, answer, found)), answer)
    resource_xid = "/" + "/".join(parts[:4])
    resource = request.catalog.resource(resource_xid)
    if resource is None:
        raise ProblemFound("not_found", resource_xid)
    return _resource_answer(request, resource, answers)


def _resource_answer(request: Request, resource: Resource, answers: Answers) -> Answer:
    parts, flags, answer = request.parts, request.flags, Answer()
    part = parts[4] if len(parts) > 4 else ""
    if flags.doc and resource.xref and part == "versions":
        raise ProblemFound("cannot_doc_xref", resource.xid)
    if part == "meta":
        return _json(request, answers.meta(resource), answer)
    if part and len(parts) == 5:
        return _json(request, answers.versions(resource, lambda found: page_of(request, answer, found)), answer)
    versionid = parts[5] if part else None
    if versionid is not None and versionid not in resource.versions:
        raise ProblemFound("not_found", request.asked.target.path)
    if parts[2] == "schemas" and not request.asked.target.details and not flags.doc:
        answers.resource(resource) if versionid is None else answers.version(resource, versionid)  # what filters say of it
        return document_answer(request, resource, versionid)
    if versionid is not None:
        return _json(request, answers.version(resource, versionid), answer)
    if resource.default is not None and not flags.doc:
        answer.headers["Content-Location"] = header_value(version_url(request, resource, resource.default))
    return _json(request, answers.resource(resource), answer)


def _answers(request: Request, specifications: tuple[str, ...]) -> Answers:
    dialect = request.dialect
    configuration = {
        "capabilities": lambda: _compact(capabilities(dialect, specifications)),
        "model": lambda: _compact(model(dialect)),
        "modelsource": lambda: _compact(modelsource(dialect)),
    }
    return Answers(request.catalog, request.flags, configuration, request.options.max_response_bytes)


def _registry_answer(request: Request, specifications: tuple[str, ...]) -> Answer:
    return _json(request, _answers(request, specifications).registry(), Answer())


def _export(request: Request, specifications: tuple[str, ...]) -> Answer:
    """Answer `/export`: the document view of everything, with what the dialect adds."""
    added = ("capabilities", "modelsource") if request.dialect == RC4 else ("model", "capabilities")
    request.flags.doc = True
    request.flags.inline = {"*": {}} | {name: {} for name in added}
    return _json(request, _answers(request, specifications).registry(), Answer(), "/")


def _capabilities(request: Request, specifications: tuple[str, ...]) -> Answer:
    is_offered = request.dialect == RC2 and any(name == "offered" for name, _ in request.flags.given)
    told = capabilities_offered if is_offered else capabilities
    return Answer(body=told(request.dialect, specifications))


_ROOT: dict[str, Callable[[Request, tuple[str, ...]], Answer]] = {
    "": _registry_answer,
    "export": _export,
    "capabilities": _capabilities,
    "capabilitiesoffered": lambda request, known: Answer(body=capabilities_offered(request.dialect, known)),
    "model": lambda request, _: Answer(body=model(request.dialect)),
    "modelsource": lambda request, _: Answer(body=modelsource(request.dialect)),
}


def _json(request: Request, text: bytes, answer: Answer, path: str | None = None) -> Answer:
    answer.body = unmarked(text, request.asked.base, path or request.asked.target.path)
    if len(answer.body) > request.options.max_response_bytes:
        raise ProblemFound("too_large", detail="Ask for a collection, page by page with ?limit.")
    return answer


def _compact(text: bytes) -> bytes:
    return orjson.dumps(orjson.loads(text))


def _resolved(view: View, text: str) -> tuple[int, str]:
    number = view.resolve(text)
    return number, str(view.commit_of(number)["digest"])
