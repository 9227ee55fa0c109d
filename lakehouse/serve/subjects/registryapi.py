"""Requests below `/ccompat/v7`, answered as a Confluent Schema Registry answers them that is read only."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Any, NamedTuple

from lakehouse.compatibility import check_format
from lakehouse.domain.subjects import (
    AVRO,
    JSON,
    PROTOBUF,
    context_of,
    format_of_kind,
    is_qualified,
    number_of,
    qualified,
    schema_document,
)
from lakehouse.domain.versionchanges import PROMISES, broken_promise, comparable_version, why_undecided
from lakehouse.extras import not_installed
from lakehouse.serve.answer.exchange import ApiAnswer, ReadRequest
from lakehouse.serve.apierrors import (
    REGISTRY_TYPE,
    ProblemFound,
    RegistryError,
    invalid_schema,
    read_only,
    schema_not_found,
    subject_not_found,
    version_not_found,
)
from lakehouse.serve.subjects.catalogsubjects import (
    CatalogSubject,
    CatalogSubjects,
    CatalogVersion,
    Imports,
    Json,
    descriptor_in,
    descriptor_of,
    is_same_descriptor,
    key_of_schema,
    references_of,
    schema_key,
)
from lakehouse.text.jsontext import NotJson, in_order, object_at, read_json, text_at
from lakehouse.text.names import Xid

KINDS = (JSON, PROTOBUF, AVRO)
_LEVELS = {promise: promise.upper() for promise in PROMISES}
_NO_LEVEL, _MODE = "NONE", "READONLY"
_MOST_VERSIONS = 1000  # in an answer
_MOST_DEPTH = 64  # of a body; the schema is a text in it
_MOST_IMPORTS = 200


class SchemaOfRequest(NamedTuple):
    """A schema in the body of a request: its kind, its text, and what it refers to."""

    kind: str
    text: str
    references: list[Json]


_PAGE = {"offset": 0, "limit": -1}  # and what each is where it is not given


class SubjectRequest:
    """A request, with what it may be asked.

    Args:
        request: the request.
        context: that the path names; None: it names none.
    """

    def __init__(self, request: ReadRequest, context: str | None) -> None:
        self.subjects = CatalogSubjects(request.catalog, request.view)
        self.tick = request.catalog.deadline.tick
        self.context = context
        self.body = request.api_request.body
        self.parameters = request.flags.parameters
        self._values = dict(request.flags.parameters)

    def text(self, *names: str) -> str | None:
        """Return a parameter that has one of some names; None: it is not given."""
        return next((self._values[name] for name in names if name in self._values), None)

    def has(self, *names: str) -> bool:
        """Return whether a parameter is true."""
        return (self.text(*names) or "").lower() == "true"

    def page(self, most: int | None = None) -> slice:
        """Return which results are asked for.

        Raises:
            ProblemFound: a parameter is no number.
        """
        try:
            offset, limit = (int(default if (text := self.text(name)) is None else text) for name, default in _PAGE.items())
        except ValueError as error:
            raise ProblemFound("bad_request", error_detail='"offset" and "limit" are numbers') from error
        offset = max(offset, 0)
        size = most if limit < 0 else limit if most is None else min(limit, most)
        return slice(offset, None if size is None else offset + size)

    def named(self, subject: str) -> str:
        """Return a subject in the context that the path names."""
        return qualified(self.context, subject) if self.context and not is_qualified(subject) else subject

    def subject(self, name: str) -> CatalogSubject:
        """Return a subject.

        Raises:
            RegistryError: there is none, or all its versions are deleted.
        """
        result = self.subjects.find(self.named(name))
        if result is None or not result.living(deleted=self.deleted):
            raise subject_not_found(name)
        return result

    @cached_property
    def deleted(self) -> bool:
        """Return whether what is deleted in its registry is asked for, too."""
        return self.has("deleted") or self.deleted_only

    @property
    def deleted_only(self) -> bool:
        """Return whether only what is deleted in its registry is asked for."""
        return self.has("deletedOnly", "deleted_only")

    def version(self, name: str, version: str) -> CatalogVersion:
        """Return a version of a subject; `latest` is the default Version.

        Raises:
            RegistryError: there is none.
        """
        is_latest = version in ("latest", "-1")
        number = number_of(version)
        if number is None and not is_latest:
            allowed = 'Allowed values are between [1, 2^31-1] and the string "latest"'
            raise RegistryError(42202, f"The specified version '{version}' is not a valid version id. {allowed}.")
        subject = self.subject(name)
        living = subject.living(deleted=self.deleted)
        result = subject.latest if is_latest else next((candidate for candidate in living if candidate.number == number), None)
        if result is None:
            raise version_not_found(version)
        return result

    def versions_of_id(self, text: str) -> list[CatalogVersion]:
        """Return the versions with an id, all of the same schema, those that are in the catalog first.

        An id means a schema in its context. That is the one of the parameter `subject`, else the default one; a subject without
        a context is looked for in all. An id that the catalog gave is the only one of its number.

        Raises:
            RegistryError: there is none, or there are several.
        """
        number = number_of(text)
        versions = [] if number is None else self.subjects.by_id(number)
        subject = self.text("subject")
        subject = self.named(subject or "") if subject is not None or self.context else None
        meant = next((some for some in self._meant(versions, subject) if some), [])
        if not meant:
            contexts = sorted({f":.{context_of(version.subject)[0]}:" for version in versions})
            elsewhere = f" in this context; add ?subject= with one of {', '.join(contexts)}" if contexts else ""
            raise schema_not_found(f"Schema {text} not found{elsewhere}.")
        current = [version for version in meant if version.record.is_current] or meant
        same = [version for version in current if schema_key(version.record) == schema_key(current[0].record)]
        if len(same) < len(current):
            names = ", ".join(f"{version.subject} version {version.number}" for version in current[:5])
            raise schema_not_found(
                f"Schema {text} is not found: the id is that of several schemas; add ?subject= of one: {names}."
            )
        return same

    def _meant(self, versions: list[CatalogVersion], subject: str | None) -> Iterator[list[CatalogVersion]]:
        """Yield the versions that an id may mean, the likeliest first."""
        plain = self.subjects.plain_group
        if subject is not None:
            context, name = context_of(subject)
            yield [version for version in versions if version.subject == subject]
            if not context:
                yield [version for version in versions if context_of(version.subject)[1] == name]
            else:
                yield [version for version in versions if context_of(version.subject)[0] == context]
        if subject is None or not context_of(subject)[0]:
            yield [version for version in versions if self.subjects.groups.get(context_of(version.subject)[0]) == plain]
        yield [version for version in versions if version.record.registry_id is None]

    def listed(self, versions: Iterable[CatalogVersion]) -> list[CatalogVersion]:
        """Return the versions that are in the catalog, of the subject and page that are asked for."""
        subject = self.text("subject")
        name = None if subject is None or context_of(self.named(subject))[1] == "" else context_of(self.named(subject))[1]
        results = [
            version for version in versions
            if version.record.is_current and (self.deleted or not version.record.is_deleted)
            and (name is None or context_of(version.subject)[1] == name)
        ]  # fmt: skip
        return results[self.page()]

    def schema(self) -> SchemaOfRequest:
        """Read the schema in the body.

        Raises:
            RegistryError: there is none, or it breaks the rules of its format.
        """
        try:
            body = read_json(self.body, _MOST_DEPTH)[0]
        except NotJson as error:
            raise RegistryError(42201, f"The body is not JSON: {error}") from error
        value = body if isinstance(body, dict) else {}
        kind, text = (text_at(value, "schemaType") or AVRO).upper(), text_at(value, "schema")
        if kind not in KINDS:
            raise invalid_schema(f"the type {kind[:40]} is none of {', '.join(KINDS)}.")
        if not text:
            raise RegistryError(42201, "Empty schema")
        result = SchemaOfRequest(kind, text, references_of(value, self.context or ""))
        if not (kind == PROTOBUF and descriptor_in(text) is not None):
            try:
                check = check_format(schema_document(kind, text), format_of_kind(kind, text))
            except OverflowError as error:
                raise invalid_schema(str(error)) from error
            if check.is_valid is False:
                raise invalid_schema(check.reason)
        return result

    def imports(self, references: list[Json], results: dict[str, str] | None = None) -> Imports:
        """Return name and text of what a schema refers to, over any number of steps."""
        results = {} if results is None else results
        for reference in references:
            name, subject = str(reference["name"]), self.subjects.find(reference["subject"])
            target = (
                next((v for v in subject.versions if v.number == reference["version"]), None) if subject is not None else None
            )
            if target is not None and name not in results and len(results) < _MOST_IMPORTS:
                results[name] = target.record.text
                self.imports(target.schema().get("references", []), results)
        return tuple(sorted(results.items()))

    def shown(self, schema: Json) -> Json:
        """Return a schema in the format that is asked for: a Protobuf schema may be a descriptor in base64.

        Raises:
            RegistryError: it cannot be.
        """
        if self.text("format") == "serialized" and schema.get("schemaType") == PROTOBUF:
            descriptor = _compiled(schema["schema"], self.imports(schema.get("references", [])))
            return schema | {"schema": base64.b64encode(descriptor.SerializeToString()).decode()}
        return schema

    def same(self, subject: CatalogSubject, wanted_schema: SchemaOfRequest) -> CatalogVersion | None:
        """Return the newest version of a subject that has a schema; None: none has."""
        wanted, key = _by_name(wanted_schema.references), key_of_schema(wanted_schema.kind, wanted_schema.text)
        descriptor = descriptor_in(wanted_schema.text) if wanted_schema.kind == PROTOBUF else None
        for version in reversed(subject.living(deleted=self.deleted)):
            self.tick()
            references = version.schema().get("references", [])
            if version.record.kind != wanted_schema.kind or _by_name(references) != wanted:
                continue
            if key_of_schema(wanted_schema.kind, version.record.text) == key:
                return version
            if descriptor is not None and is_same_descriptor(
                descriptor, _compiled(version.record.text, self.imports(references))
            ):
                return version
        return None


def _compiled(text: str, imports: Imports) -> Any:
    from lakehouse.match.payload.validators import Unsupported

    try:
        return descriptor_of(text, imports)
    except Unsupported as error:
        raise invalid_schema(str(error)) from error


def _by_name(references: list[Json]) -> dict[str, tuple[str, Any]]:
    return {str(reference["name"]): (context_of(reference["subject"])[1], reference["version"]) for reference in references}


def allowed_methods(parts: tuple[str, ...]) -> str:
    """Return the methods of a path below `/ccompat`, as the header `Allow` lists them."""
    _, parts = _without_context(parts[2:])
    answered = {route.method for route in ROUTES if route.values(route.method, parts) is not None}
    return ", ".join([*(["GET", "HEAD"] if "GET" in answered else []), "OPTIONS", *(answered & {"POST"})])


def _without_context(parts: tuple[str, ...]) -> tuple[str | None, tuple[str, ...]]:
    if parts[:1] == ("contexts",) and len(parts) > 1:
        return parts[1].strip(":").removeprefix("."), parts[2:]
    return None, parts


def subjects_answer(request: ReadRequest) -> ApiAnswer:
    """Answer a path below `/ccompat`.

    Raises:
        ProblemFound: with an error; in the form of this API it is written where it is sent.
    """
    parts, method = request.parts[1:], request.api_request.method
    if parts[:1] != ("v7",):
        raise ProblemFound("api_not_found", request.api_request.target.path)
    context, parts = _without_context(parts[1:])
    subject_request = SubjectRequest(request, context)
    for route in ROUTES:
        values = route.values(method, parts)
        if values is not None:
            try:
                body = route.answer(subject_request, *values)
            except ModuleNotFoundError as error:
                raise ProblemFound("", status=501, detail=f"Protobuf: {not_installed(error)}") from error
            answer = ApiAnswer(body=body if isinstance(body, bytes) else in_order(body), media_type=REGISTRY_TYPE)
            if len(answer.body) > request.options.max_response_bytes:
                raise ProblemFound("too_large", detail="Ask for less, page by page with ?offset and ?limit.")
            return answer
    target, allowed = request.api_request.target, allowed_methods(request.parts)
    if method != "GET":
        of_subject = parts[:1] in (("subjects",), ("config",), ("mode",)) and len(parts) > 1
        raise read_only(subject_request.named(parts[1]) if of_subject else "", allowed)
    if "POST" in allowed:
        raise ProblemFound("action_not_supported", target.path, action=method, headers={"Allow": allowed})
    raise ProblemFound("api_not_found", target.path)


def _subjects(request: SubjectRequest) -> list[str]:
    return [name for name, *_ in _selected(request, deleted_only=request.deleted_only)[request.page()]]


def _selected(request: SubjectRequest, *, deleted_only: bool = False) -> list[tuple[str, Xid, int]]:
    """Return the subjects that begin as context and `subjectPrefix` say, as `CatalogSubjects.names` has them."""
    rows = request.subjects.names(deleted=request.deleted, deleted_only=deleted_only)
    is_every = request.context is None and request.text("subjectPrefix") is None
    return rows if is_every else [row for row in rows if _begins(request, row[0])]


def _begins(request: SubjectRequest, name: str) -> bool:
    """Return whether a subject begins as `subjectPrefix` says; `:*:` stands for any context, none for the default one."""
    if request.context is not None and context_of(name)[0] != request.context:
        return False
    prefix = request.text("subjectPrefix")
    if prefix is None or prefix.startswith(":*:"):
        return context_of(name)[1].startswith((prefix or "").removeprefix(":*:"))
    return name.startswith(request.named(prefix)) and (is_qualified(name) <= request.named(prefix).startswith(":."))


def _versions(request: SubjectRequest, name: str) -> list[int]:
    living = request.subject(name).living(deleted=request.deleted)
    return [version.number for version in living if version.record.is_deleted or not request.deleted_only][request.page()]


def _version(request: SubjectRequest, name: str, version: str) -> Json:
    return request.shown(request.version(name, version).as_json())


def _version_text(request: SubjectRequest, name: str, version: str) -> bytes:
    return str(_version(request, name, version)["schema"]).encode()


def _referencedby(request: SubjectRequest, name: str, version: str) -> list[int]:
    return request.subjects.referring_to(request.version(name, version))[request.page()]


def _metadata(request: SubjectRequest, name: str) -> Json:
    """Answer with the newest version that has the properties which are asked for."""
    pairs = zip(
        [value for key, value in request.parameters if key == "key"],
        [value for key, value in request.parameters if key == "value"],
        strict=False,
    )
    wanted = dict(pairs)
    for version in reversed(request.subject(name).living(deleted=request.deleted)):
        shown = version.as_json()
        properties = object_at(object_at(shown, "metadata"), "properties")
        if all(properties.get(key) == value for key, value in wanted.items()):
            return request.shown(shown)
    raise schema_not_found("Schema not found: no version has these properties.")


def _schemas(request: SubjectRequest) -> list[Json]:
    """Answer with a page of all versions."""
    page = request.page(_MOST_VERSIONS)
    skipped, most = page.start, page.stop - page.start
    latest_only, results = request.has("latestOnly"), list[CatalogVersion]()
    for name, xid, versions_count in _selected(request):
        request.tick()
        count = 1 if latest_only else versions_count
        if skipped >= count:
            skipped -= count
            continue
        subject = request.subjects.load(name, xid)
        if subject is not None:
            versions = subject.living(deleted=request.deleted)
            results += ([subject.latest or versions[-1]] if latest_only else versions)[skipped:]
        skipped = 0
        if len(results) >= most:
            break
    return [version.as_json() for version in results[:most]]


def _types(_: SubjectRequest) -> list[str]:
    return list(KINDS)


def _schema_of_id(request: SubjectRequest, number: str) -> Json:
    return request.shown(request.versions_of_id(number)[0].schema())


def _text_of_id(request: SubjectRequest, number: str) -> bytes:
    return str(_schema_of_id(request, number)["schema"]).encode()


def _subjects_of_id(request: SubjectRequest, number: str) -> list[str]:
    return list(dict.fromkeys(version.subject for version in request.listed(request.versions_of_id(number))))


def _versions_of_id(request: SubjectRequest, number: str) -> list[Json]:
    return [{"subject": version.subject, "version": version.number} for version in request.listed(request.versions_of_id(number))]


def _of_guid(request: SubjectRequest, guid: str) -> list[CatalogVersion]:
    versions = request.subjects.by_guid(guid)
    if not versions:
        raise schema_not_found(f"Schema {guid} not found.")
    return versions


def _schema_of_guid(request: SubjectRequest, guid: str) -> Json:
    return request.shown(_of_guid(request, guid)[0].schema())


def _ids_of_guid(request: SubjectRequest, guid: str) -> list[Json]:
    pairs = sorted({(context_of(version.subject)[0], version.id) for version in _of_guid(request, guid)})
    return [{"context": f".{context}", "id": number} for context, number in pairs]


def _contexts(request: SubjectRequest) -> list[str]:
    return sorted({".", *(f".{context}" for context in request.subjects.groups)})[request.page()]


def _level(request: SubjectRequest) -> Json:
    return {"compatibilityLevel": _NO_LEVEL}


def _level_of(request: SubjectRequest, name: str) -> Json:
    subject = request.subjects.find(request.named(name))
    level = None if subject is None else _LEVELS.get(subject.level or "")
    if level is None and not request.has("defaultToGlobal"):
        raise RegistryError(40408, f"Subject '{name}' does not have subject-level compatibility configured.")
    return {"compatibilityLevel": level or _NO_LEVEL}


def _mode(request: SubjectRequest, *subjects: str) -> Json:
    for name in subjects:
        request.subject(name)
    return {"mode": _MODE}


def _lookup(request: SubjectRequest, name: str) -> Json:
    schema, subject = request.schema(), request.subject(name)
    result = request.same(subject, schema)
    if result is None:
        raise schema_not_found("Schema not found: no version of the subject has it.")
    return request.shown(result.as_json())


def _register(request: SubjectRequest, name: str) -> Json:
    """Answer with the version that has the schema already, as a registry does; otherwise it would be a write."""
    schema, subject = request.schema(), request.subjects.find(request.named(name))
    result = None if subject is None else request.same(subject, schema)
    if result is None:
        raise read_only(name)
    return request.shown(result.as_json())


def _compatible(request: SubjectRequest, name: str, version: str | None = None) -> Json:
    """Judge a schema against a version, or those that the level of the subject names."""
    schema = request.schema()
    subject = request.subjects.find(request.named(name))
    living = subject.living() if subject is not None else []
    level = subject.level if subject is not None and subject.level in _LEVELS else None
    if not living and version in (None, "latest", "-1"):
        earlier = []
    elif version is not None:
        earlier = [request.version(name, version)]
    else:
        is_transitive = level is not None and level.endswith("_transitive")
        earlier = list(reversed(living)) if is_transitive else living[-1:]
    messages: list[str] = []
    is_compatible = True
    for candidate in earlier if level is not None else ():
        broken, undecided = _broken(level or "", candidate, schema)
        is_compatible = is_compatible and not broken
        messages += [f"Version {candidate.number}: {text}" for text in (*broken, *undecided)]
    return {"is_compatible": is_compatible} | ({"messages": messages} if request.has("verbose") else {})


def _broken(level: str, version: CatalogVersion, candidate: SchemaOfRequest) -> tuple[list[str], list[str]]:
    """Return how a schema breaks what a version is promised, and why that cannot be decided, which breaks nothing."""
    if candidate.kind != version.record.kind:
        return [f"it is {version.record.kind}, and the schema is {candidate.kind}."], []
    before = comparable_version("schemaversion", version.record.attributes)
    schema = {"format": format_of_kind(candidate.kind, candidate.text), "schema": schema_document(candidate.kind, candidate.text)}
    after = comparable_version("schemaversion", schema)
    broken = broken_promise("schemaversion", level, before, after)
    undecided = None if broken else why_undecided("schemaversion", before, after)
    return broken, [] if undecided is None else [undecided]


class SubjectRoute(NamedTuple):
    """A path below `/ccompat/v7`.

    Attributes:
        method: GET or POST.
        path: as OpenAPI writes it.
        answer: takes the request and the values in the path; returns a JSON value, or a text as bytes.
        summary: for OpenAPI.
        parameters: of the query.
    """

    method: str
    path: str
    answer: Callable[..., Any]
    summary: str
    parameters: tuple[str, ...] = ()

    def values(self, method: str, parts: tuple[str, ...]) -> list[str] | None:
        """Return the values of the path's variables; None: it is another one."""
        pattern = self.path.strip("/").split("/") if self.path != "/" else []
        if method != self.method or len(pattern) != len(parts):
            return None
        if any(
            pattern_part != part for pattern_part, part in zip(pattern, parts, strict=True) if not pattern_part.startswith("{")
        ):
            return None
        return [part for pattern_part, part in zip(pattern, parts, strict=True) if pattern_part.startswith("{")]


_PAGED = ("offset", "limit")
ROUTES = (
    SubjectRoute("GET", "/", lambda _: {}, "Nothing: clients ask whether the registry is there"),
    SubjectRoute("GET", "/subjects", _subjects, "Names of the subjects", ("subjectPrefix", "deleted", "deletedOnly", *_PAGED)),
    SubjectRoute("POST", "/subjects/{subject}", _lookup, "The version of a subject that has a schema", ("deleted", "format")),
    SubjectRoute(
        "GET", "/subjects/{subject}/versions", _versions, "Numbers of a subject's versions", ("deleted", "deletedOnly", *_PAGED)
    ),
    SubjectRoute("POST", "/subjects/{subject}/versions", _register, "The same; a schema that no version has is refused"),
    SubjectRoute(
        "GET",
        "/subjects/{subject}/versions/{version}",
        _version,
        "A version; `latest` is the default Version",
        ("deleted", "format"),
    ),
    SubjectRoute(
        "GET", "/subjects/{subject}/versions/{version}/schema", _version_text, "The schema of a version", ("deleted", "format")
    ),
    SubjectRoute(
        "GET",
        "/subjects/{subject}/versions/{version}/referencedby",
        _referencedby,
        "Ids of what refers to a version",
        ("deleted", *_PAGED),
    ),
    SubjectRoute(
        "GET",
        "/subjects/{subject}/metadata",
        _metadata,
        "The newest version with properties: `key`, `value`",
        ("key", "value", "deleted", "format"),
    ),
    SubjectRoute("GET", "/schemas", _schemas, "All versions, page by page", ("subjectPrefix", "deleted", "latestOnly", *_PAGED)),
    SubjectRoute("GET", "/schemas/types", _types, "Kinds of schemas"),
    SubjectRoute("GET", "/schemas/ids/{id}", _schema_of_id, "The schema with an id", ("subject", "format")),
    SubjectRoute("GET", "/schemas/ids/{id}/schema", _text_of_id, "The same, only the schema", ("subject", "format")),
    SubjectRoute("GET", "/schemas/ids/{id}/subjects", _subjects_of_id, "Subjects that have it", ("subject", "deleted", *_PAGED)),
    SubjectRoute("GET", "/schemas/ids/{id}/versions", _versions_of_id, "Versions that have it", ("subject", "deleted", *_PAGED)),
    SubjectRoute("GET", "/schemas/guids/{guid}", _schema_of_guid, "The schema with a GUID", ("format",)),
    SubjectRoute("GET", "/schemas/guids/{guid}/ids", _ids_of_guid, "Its ids"),
    SubjectRoute("GET", "/contexts", _contexts, "Names of the contexts", _PAGED),
    SubjectRoute("GET", "/config", _level, "The compatibility level of all: none"),
    SubjectRoute("GET", "/config/{subject}", _level_of, "The compatibility level of a subject", ("defaultToGlobal",)),
    SubjectRoute("GET", "/mode", _mode, "The mode: read only"),
    SubjectRoute("GET", "/mode/{subject}", _mode, "The mode of a subject: read only"),
    SubjectRoute(
        "POST", "/compatibility/subjects/{subject}/versions", _compatible, "Whether a schema keeps the level", ("verbose",)
    ),
    SubjectRoute(
        "POST", "/compatibility/subjects/{subject}/versions/{version}", _compatible, "The same, over one version", ("verbose",)
    ),
)
