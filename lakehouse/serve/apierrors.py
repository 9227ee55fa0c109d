"""The HTTP errors: RFC 9457 in the shape of xRegistry, by dialect; below `/ccompat/v7` those of the Confluent Schema Registry."""

from __future__ import annotations

import re
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any, NamedTuple

import orjson

RC2, RC4 = "1.0-rc2", "1.0-rc4"
_CORE = "https://github.com/xregistry/spec/blob/main/core/spec.md#"
_HTTP = "https://github.com/xregistry/spec/blob/main/core/http.md#"
_ARGUMENT = re.compile(r"<([a-z_]+)>")
_MOST_DETAILS = 20
REGISTRY_TYPE = "application/vnd.schemaregistry.v1+json"


class Kind(NamedTuple):
    """A kind of error: HTTP status, title of 1.0-rc4 with its arguments in `<...>`, and its name in 1.0-rc2."""

    status: int
    title: str
    name_in_rc2: str
    of_http: bool = False


KINDS = {
    "action_not_supported": Kind(
        405, "The specified action (<action>) is not supported for: <subject>.", "method_not_allowed"
    ),
    "ancestor_circular_reference": Kind(
        400, 'For "<subject>", the request would create a circular list of ancestors: <list>.', "invalid_data"
    ),
    "api_not_found": Kind(404, "The specified API is not supported: <subject>.", "api_not_found", of_http=True),
    "bad_defaultversionid": Kind(
        400,
        'For "<subject>", an error was found in the "defaultversionid" value specified (<value>): <error_detail>.',
        "invalid_data",
    ),
    "bad_details": Kind(400, 'Use of "$details" in this context is not allowed: <subject>.', "bad_details"),
    "bad_filter": Kind(400, 'An error was found in "filter" value (<value>): <error_detail>.', "invalid_data"),
    "bad_flag": Kind(400, "The specified flag (<flag>) is not allowed in this context: <subject>.", "bad_flag"),
    "bad_ignore": Kind(400, 'An error was found in "ignore" value (<value>): <error_detail>.', "bad_flag"),
    "bad_inline": Kind(400, 'An error was found in "inline" value (<value>): <error_detail>.', "invalid_data"),
    "bad_request": Kind(400, "<error_detail>.", "bad_request"),
    "bad_sort": Kind(400, 'An error was found in "sort" value (<value>): <error_detail>.', "invalid_data"),
    "cannot_doc_xref": Kind(
        400,
        'Retrieving the document view of a Version for "<subject>" is not allowed because it uses "xref".',
        "cannot_doc_xref",
    ),
    "compatibility_violation": Kind(
        400,
        'The request would cause one or more Versions of "<subject>" to violate its compatibility rule (<compat>).',
        "invalid_data",
    ),
    "data_retrieval_error": Kind(
        500, "The server was unable to retrieve all of the requested data.", "data_retrieval_error"
    ),
    "defaultversionid_request": Kind(
        400,
        'Processing "<subject>", the "defaultversionid" attribute is not allowed to be "request" since a Version was not '
        "processed.",
        "bad_flag",
    ),
    "details_required": Kind(
        405, "$details suffix is needed when using PATCH for the entity: <subject>.", "details_required", of_http=True
    ),
    "extra_xref_attribute": Kind(
        400,
        'Attribute "<name>" is not allowed to be present since the "<singular>" (<subject>) uses "xref".',
        "extra_xref_attributes",
    ),
    "extra_xregistry_header": Kind(
        400,
        'xRegistry HTTP header "<name>" is not allowed on this request: <error_detail>.',
        "extra_xregistry_headers",
        of_http=True,
    ),
    "format_violation": Kind(
        400, 'The request would cause Version "<subject>" to be non-compliant with its "format" (<format>).', "invalid_data"
    ),
    "groups_only": Kind(
        400,
        'Attribute "<name>" is invalid. Only Group types are allowed to be specified on this request: <subject>.',
        "groups_only",
    ),
    "header_error": Kind(400, 'There was an error in the HTTP header "<name>": <error_detail>.', "header_error", of_http=True),
    "inline_noninlineable": Kind(
        400, "Attempting to inline a non-inlineable attribute (<name>) on: <subject>.", "invalid_data"
    ),
    "invalid_attribute": Kind(400, 'The attribute "<name>" for "<subject>" is not valid: <error_detail>.', "invalid_data"),
    "malformed_id": Kind(400, "The specified ID value (<id>) is malformed: <error_detail>.", "malformed_id"),
    "malformed_xref": Kind(
        400, 'For "<subject>", the specified xref value (<xref>) is malformed: <error_detail>.', "invalid_data"
    ),
    "mismatched_epoch": Kind(
        400,
        'The specified epoch value (<bad_epoch>) for "<subject>" does not match its current value (<epoch>).',
        "mismatched_epoch",
    ),
    "mismatched_id": Kind(
        400, 'The specified "<singular>id" value (<invalid_id>) for "<subject>" needs to be "<expected_id>".', "mismatched_id"
    ),
    "misplaced_epoch": Kind(
        400, 'The specified "epoch" value for "<subject>" needs to be within a "meta" entity.', "misplaced_epoch"
    ),
    "missing_body": Kind(400, "The request is missing an HTTP body: <subject>.", "missing_body", of_http=True),
    "missing_versions": Kind(
        400, 'At least one Version needs to be included in the request to process "<subject>".', "missing_versions", of_http=True
    ),
    "not_found": Kind(404, "The targeted entity (<subject>) cannot be found.", "not_found"),
    "one_resource": Kind(400, 'Only one attribute from "<list>" can be present at a time for: <subject>.', "one_resource"),
    "parsing_data": Kind(400, 'There was an error parsing "<subject>": <error_detail>.', "parsing_data"),
    "readonly": Kind(400, "Updating a read-only entity (<subject>) is not allowed.", "readonly"),
    "required_attribute_missing": Kind(
        400, 'One or more mandatory attributes for "<subject>" are missing: <list>.', "required_attribute_missing"
    ),
    "resources_only": Kind(
        400,
        'Attribute "<name>" is invalid. Only Resource types are allowed to be specified on this request: <subject>.',
        "resources_only",
    ),
    "server_busy": Kind(
        503, 'Due to excessive requests, the server could not complete "<subject>", please try again later.', "server_error"
    ),
    "server_error": Kind(500, "An unexpected error occurred, please try again later.", "server_error"),
    "sort_noncollection": Kind(
        400, "Can't sort on a non-collection result set. Query path: <subject>.", "invalid_data"
    ),
    "too_large": Kind(
        406, "The size of the response is too large to return in a single response.", "too_large"
    ),
    "too_many_versions": Kind(
        400,
        'For "<subject>", when the "setdefaultversionid" flag is set to "request", only one Version is allowed to be specified '
        "in the request message.",
        "too_many_versions",
    ),
    "unknown_attribute": Kind(400, 'An unknown attribute (<name>) was specified for "<subject>".', "unknown_attribute"),
    "unknown_id": Kind(
        400, 'While processing "<subject>", the "<singular>" with a "<singular>id" value of "<id>" cannot be found.', "unknown_id"
    ),
    "unsupported_specversion": Kind(
        400,
        'The specified "specversion" value (<specversion>) is not supported. Supported versions: <list>.',
        "unsupported_specversion",
    ),
}  # fmt: skip


class ProblemFound(Exception):
    """A request that is answered with an error.

    Attributes:
        name: one of KINDS; or "" for what xRegistry has no name for, which has `status` and `title`.
        subject: the path or XID that it is about.
        args: arguments of the title.
        detail: how to go on.
        status: HTTP status.
        headers: more headers of the answer.
    """

    def __init__(
        self,
        name: str,
        /,
        subject: str = "",
        detail: str | None = None,
        *,
        status: int | None = None,
        headers: dict[str, str] | None = None,
        **args: str,
    ) -> None:
        super().__init__(name, subject, args)
        self.name = name
        self.subject = subject
        self.args_of_title = args
        self.detail = detail
        self.status = status or KINDS[name].status
        self.headers = headers or {}

    def as_record(self) -> dict[str, Any]:
        """Return it as JSON, for another process; `ProblemFound.of_record` makes it again."""
        named = {"name": self.name, "subject": self.subject, "detail": self.detail, "status": self.status}
        return named | {"headers": self.headers, "args": self.args_of_title}

    @classmethod
    def of_record(cls, record: dict[str, Any]) -> ProblemFound:
        """Make it of what `as_record` gave."""
        return cls(
            record["name"],
            record["subject"],
            record["detail"],
            status=record["status"],
            headers=record["headers"],
            **record["args"],
        )

    @property
    def title(self) -> str:
        """Return the title with its arguments."""
        if not self.name:
            return f"{HTTPStatus(self.status).phrase}."
        arguments = self.args_of_title | {"subject": self.subject}
        return _ARGUMENT.sub(lambda result: arguments.get(result[1], result[0]), KINDS[self.name].title)

    def as_json(self, dialect: str, base: str) -> bytes:
        """Write it for a client.

        Args:
            dialect: RC2 or RC4.
            base: URL of the registry, below which the path of `instance` is.
        """
        title = self.title.replace("..", ".")
        if dialect == RC4:
            members = {
                "type": self._type(RC4),
                "title": title,
                "detail": self.detail,
                "subject": self.subject or None,
                "args": self.args_of_title or None,
            }
        else:
            members = {"type": self._type(RC2), "instance": base + self.subject, "title": title, "detail": self.detail}
        return orjson.dumps({name: value for name, value in members.items() if value is not None}, option=orjson.OPT_INDENT_2)

    def _type(self, dialect: str) -> str:
        if not self.name:
            return "about:blank"
        kind = KINDS[self.name]
        if dialect == RC2:
            return _CORE + kind.name_in_rc2
        return (_HTTP if kind.of_http else _CORE) + self.name


def raise_problems(results: Iterable[ProblemFound]) -> None:
    """Refuse a request for all that is wrong with it.

    RFC 9457 has one type and title for an answer: those of the first problem, whose detail names the others.

    Raises:
        ProblemFound: something is.
    """
    problems = list(results)
    if not problems:
        return
    first, *more_problems = problems
    if more_problems:
        details = [
            f"{problem.title.removesuffix('.')}. {problem.detail or ''}".rstrip() for problem in more_problems[:_MOST_DETAILS]
        ]
        more = [f"and {len(more_problems) - _MOST_DETAILS} more"] if len(more_problems) > _MOST_DETAILS else []
        first.detail = "\n".join([first.detail or first.title, f"{len(more_problems)} more:", *details, *more])
    raise first


class RegistryError(ProblemFound):
    """A request that is answered with an error of that API.

    Attributes:
        code: such as 40401; the status is its first three digits.
        allowed: the methods of the path, for a request with another one, whose status is 405.
    """

    def __init__(self, code: int, message: str, allowed: str | None = None) -> None:
        status, headers = (int(str(code)[:3]), None) if allowed is None else (405, {"Allow": allowed})
        super().__init__("", detail=message, status=status, headers=headers)
        self.code = code


def subject_not_found(subject: str) -> RegistryError:
    """Return the error of a subject that there is not."""
    return RegistryError(40401, f"Subject '{subject}' not found.")


def version_not_found(version: str) -> RegistryError:
    """Return the error of a version that a subject has not."""
    return RegistryError(40402, f"Version {version} not found.")


def schema_not_found(message: str) -> RegistryError:
    """Return the error of an id, GUID or schema that there is not."""
    return RegistryError(40403, message)


def invalid_schema(message: str) -> RegistryError:
    """Return the error of a schema that is none."""
    return RegistryError(42201, f"Invalid schema: {message}")


def read_only(subject: str, allowed: str | None = None) -> RegistryError:
    """Return the error of a request that writes, with the methods of its path where it has another one."""
    what = f"Subject '{subject}'" if subject else "The registry"
    text = f"{what} is in read-only mode: this is a catalog. Register the schema where the catalog is loaded from, and ingest it."
    return RegistryError(42205, text, allowed)


def error_body(problem: ProblemFound) -> bytes:
    """Write a problem; one that every path may have has its status as the code."""
    code = problem.code if isinstance(problem, RegistryError) else problem.status
    message = " ".join(text for text in (problem.title if problem.name else "", problem.detail or "") if text)
    return orjson.dumps({"error_code": code, "message": message or problem.title})
