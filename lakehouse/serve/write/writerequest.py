"""A request that writes: what it asks for, which parts of it are ignored, and the texts of documents in its body."""

from __future__ import annotations

from collections.abc import Iterator
from json import JSONDecoder
from typing import Any, NamedTuple

from lakehouse.serve.apierrors import RC2, ProblemFound, raise_problems
from lakehouse.serve.describe import IGNORABLE
from lakehouse.text.jsontext import NotJson, read_json
from lakehouse.text.names import RegistryId, Xid
from lakehouse.text.problems import Problem
from lakehouse.text.redact import redact
from lakehouse.text.xid import xid_of

# The flags of 1.0-rc2 that say one of them each.
_IN_RC2 = {
    "noepoch": "epoch",
    "nodefaultversionid": "defaultversionid",
    "nodefaultversionsticky": "defaultversionsticky",
    "noreadonly": "readonly",
}

Json = dict[str, Any]
# What each level of a body has below it: the members that lead on, `*` for all of them, and the level of these.
_BELOW = {
    0: {"schemagroups": 1},
    1: {"*": 2},
    2: {"schemas": 3},
    3: {"*": 4},
    4: {"versions": 5},
    5: {"*": 6},
    6: {},
}
_BLANKS = " \t\n\r"
_SKIP = JSONDecoder(parse_int=str, parse_float=str, strict=False)


class WriteRequest(NamedTuple):
    """A request that writes.

    Attributes:
        method: PUT, PATCH, POST or DELETE.
        parts: of the path, decoded; those of an XID, or of a path of the CNCF draft.
        details: `$details` stood at its end.
        registryid: of the mount.
        dialect: of body and answer.
        parameters: names and values of the query.
        headers: names in lower case, values decoded.
        body: as it came.
        base: URL of the registry.
        user: who asks; None: nobody had to say.
    """

    method: str
    parts: tuple[str, ...]
    details: bool
    registryid: RegistryId
    dialect: str
    parameters: list[tuple[str, str]]
    headers: dict[str, str]
    body: bytes
    base: str
    user: str | None

    @property
    def path(self) -> Xid:
        """Return the path: the XID of what is asked for."""
        return xid_of(*self.parts)

    def flag(self, name: str) -> str | None:
        """Return the value of a flag; None: it is not there."""
        return next((value for parameter, value in self.parameters if parameter == name), None)


def ignored_by(write_request: WriteRequest) -> frozenset[str]:
    """Return what of a request is to be ignored: `?ignore` of 1.0-rc4, `?noepoch` and its like of 1.0-rc2.

    Raises:
        ProblemFound: it names what cannot be ignored.
    """
    results: set[str] = set()
    for name, value in write_request.parameters:
        if write_request.dialect == RC2 and name in _IN_RC2:
            results.add(_IN_RC2[name])
        elif write_request.dialect != RC2 and name == "ignore":
            for flag in value.split(","):
                if flag in ("", "*"):
                    results.update(IGNORABLE)
                elif flag in IGNORABLE:
                    results.add(flag)
                else:
                    detail = f"what can be ignored is {', '.join(IGNORABLE)}"
                    raise ProblemFound("bad_ignore", write_request.path, value=flag[:80], error_detail=detail)
    return frozenset(results)


def read_body(write_request: WriteRequest, max_depth: int) -> Json:
    """Read the JSON object of a request.

    Raises:
        ProblemFound: there is none, it is no object, a key occurs twice with different values, or it holds a credential.
    """
    if not write_request.body:
        raise ProblemFound("missing_body", write_request.path)
    try:
        value, problems = read_json(write_request.body, max_depth)
    except NotJson as error:
        raise ProblemFound("parsing_data", write_request.path, error_detail=str(error).rstrip(".")) from error
    check_text(value, problems, write_request.path)
    if not isinstance(value, dict):
        raise ProblemFound("parsing_data", write_request.path, error_detail="the body is not a JSON object")
    return value


def check_text(value: Any, problems: list[Problem], path: str) -> None:
    """Make sure that nothing is wrong with a text itself, and that it holds no credential (END-111).

    Raises:
        ProblemFound: something is.
    """
    raise_problems(
        ProblemFound(
            "parsing_data",
            path,
            f"{problem.rule_id}: {problem.hint}",
            error_detail=f"{problem.message.rstrip('.')} (at {problem.pointer or '/'})",
        )
        for problem in [*problems, *redact(value)]
        if problem.severity == "error"
    )


def object_of(value: Any, subject: str) -> Json:
    """Return a member that must be an object.

    Raises:
        ProblemFound: it is none.
    """
    if not isinstance(value, dict):
        raise ProblemFound("bad_request", subject, error_detail=f"{subject} is not a JSON object")
    return value


class JsonWithText(NamedTuple):
    """A JSON object or array with its text, as UTF-8."""

    value: Any
    text: bytes


def with_texts(body: Json, content: bytes, parts: tuple[str, ...]) -> Json:
    """Return the body with the text of each document of a schema that is an object or array.

    Args:
        body: of a request, as read out of the content.
        content: its text.
        parts: of the path that the request is directed at.

    Returns:
        The body, in which such a `schema` is a `JsonWithText`; everything else is as it was.
    """
    if b'"schema"' not in content or parts[:1] not in ((), ("schemagroups",)) or parts[4:] == ("meta",):
        return body
    return _level(body, content.decode("utf-8-sig"), 0, len(parts))


def _level(value: Json, text: str, at: int, level: int) -> Json:
    """Return an object, whose text begins at a position, with the texts."""
    result = dict(value)
    for name, start, end in _members(text, at):
        member = value.get(name)
        below = _BELOW[level].get(name, _BELOW[level].get("*"))
        if below is not None and isinstance(member, dict):
            result[name] = _level(member, text, start, below)
        elif level in (4, 6) and name == "schema" and isinstance(member, (dict, list)):
            result[name] = JsonWithText(member, text[start:end].encode())
    return result


def _members(text: str, at: int) -> Iterator[tuple[str, int, int]]:
    """Return the members of an object of valid JSON: name, begin and end of the value."""
    at = _past_blanks(text, _past_blanks(text, at) + 1)
    while text[at] != "}":
        name, at = _SKIP.raw_decode(text, at)
        start = _past_blanks(text, _past_blanks(text, at) + 1)
        _, end = _SKIP.raw_decode(text, start)
        yield name, start, end
        at = _past_blanks(text, end)
        if text[at] == ",":
            at = _past_blanks(text, at + 1)


def _past_blanks(text: str, at: int) -> int:
    while text[at] in _BLANKS:
        at += 1
    return at
