"""Errors as the two dialects say them: RFC 9457 in the shape of xRegistry.

1.0-rc4 has `type`, `title`, `subject` and `args`; 1.0-rc2 has `type`, `instance` and `title`, and fewer names.
"""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import NamedTuple

import orjson

RC2, RC4 = "1.0-rc2", "1.0-rc4"
_CORE = "https://github.com/xregistry/spec/blob/main/core/spec.md#"
_HTTP = "https://github.com/xregistry/spec/blob/main/core/http.md#"
_ARGUMENT = re.compile(r"<([a-z_]+)>")


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
    "api_not_found": Kind(404, "The specified API is not supported: <subject>.", "api_not_found", of_http=True),
    "bad_details": Kind(400, 'Use of "$details" in this context is not allowed: <subject>.', "bad_details"),
    "bad_filter": Kind(400, 'An error was found in "filter" value (<value>): <error_detail>.', "invalid_data"),
    "bad_flag": Kind(400, "The specified flag (<flag>) is not allowed in this context: <subject>.", "bad_flag"),
    "bad_inline": Kind(400, 'An error was found in "inline" value (<value>): <error_detail>.', "invalid_data"),
    "bad_request": Kind(400, "<error_detail>.", "bad_request"),
    "bad_sort": Kind(400, 'An error was found in "sort" value (<value>): <error_detail>.', "invalid_data"),
    "cannot_doc_xref": Kind(
        400,
        'Retrieving the document view of a Version for "<subject>" is not allowed because it uses "xref".',
        "cannot_doc_xref",
    ),
    "data_retrieval_error": Kind(
        500, "The server was unable to retrieve all of the requested data.", "data_retrieval_error"
    ),
    "inline_noninlineable": Kind(
        400, "Attempting to inline a non-inlineable attribute (<name>) on: <subject>.", "invalid_data"
    ),
    "malformed_id": Kind(400, "The specified ID value (<id>) is malformed: <error_detail>.", "malformed_id"),
    "not_found": Kind(404, "The targeted entity (<subject>) cannot be found.", "not_found"),
    "server_error": Kind(500, "An unexpected error occurred, please try again later.", "server_error"),
    "sort_noncollection": Kind(
        400, "Can't sort on a non-collection result set. Query path: <subject>.", "invalid_data"
    ),
    "too_large": Kind(
        406, "The size of the response is too large to return in a single response.", "too_large"
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

    @property
    def title(self) -> str:
        """Give the title with its arguments."""
        if not self.name:
            return f"{HTTPStatus(self.status).phrase}."
        known = self.args_of_title | {"subject": self.subject}
        return _ARGUMENT.sub(lambda found: known.get(found[1], found[0]), KINDS[self.name].title)

    def as_json(self, dialect: str, base: str) -> bytes:
        """Write it for a client.

        Args:
            dialect: RC2 or RC4.
            base: URL of the registry, below which the path of `instance` stands.
        """
        title = self.title.replace("..", ".")
        if dialect == RC4:
            told = {
                "type": self._type(RC4),
                "title": title,
                "detail": self.detail,
                "subject": self.subject or None,
                "args": self.args_of_title or None,
            }
        else:
            told = {"type": self._type(RC2), "instance": base + self.subject, "title": title, "detail": self.detail}
        return orjson.dumps({name: value for name, value in told.items() if value is not None}, option=orjson.OPT_INDENT_2)

    def _type(self, dialect: str) -> str:
        if not self.name:
            return "about:blank"
        kind = KINDS[self.name]
        if dialect == RC2:
            return _CORE + kind.name_in_rc2
        return (_HTTP if kind.of_http else _CORE) + self.name
