"""A request that writes: what it asks for, and which parts of it are to be ignored."""

from __future__ import annotations

from typing import Any, NamedTuple

from lakehouse.serve.describe.configuration import IGNORABLE
from lakehouse.serve.problems import RC2, ProblemFound, raise_problems
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


class Writing(NamedTuple):
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
        """Give the path: the XID of what is asked for."""
        return xid_of(*self.parts)

    def flag(self, name: str) -> str | None:
        """Give the value of a flag; None: it is not there."""
        return next((value for given, value in self.parameters if given == name), None)


def ignored_by(writing: Writing) -> frozenset[str]:
    """Tell what of a request is to be ignored: `?ignore` of 1.0-rc4, `?noepoch` and its like of 1.0-rc2.

    Raises:
        ProblemFound: it names what cannot be ignored.
    """
    found: set[str] = set()
    for name, value in writing.parameters:
        if writing.dialect == RC2 and name in _IN_RC2:
            found.add(_IN_RC2[name])
        elif writing.dialect != RC2 and name == "ignore":
            for one in value.split(","):
                if one in ("", "*"):
                    found.update(IGNORABLE)
                elif one in IGNORABLE:
                    found.add(one)
                else:
                    told = f"what can be ignored is {', '.join(IGNORABLE)}"
                    raise ProblemFound("bad_ignore", writing.path, value=one[:80], error_detail=told)
    return frozenset(found)


def read_body(writing: Writing, max_depth: int) -> Json:
    """Read the JSON object of a request.

    Raises:
        ProblemFound: there is none, it is no object, a key stands twice with different values, or it holds a credential.
    """
    if not writing.body:
        raise ProblemFound("missing_body", writing.path)
    try:
        value, problems = read_json(writing.body, max_depth)
    except NotJson as error:
        raise ProblemFound("parsing_data", writing.path, error_detail=str(error).rstrip(".")) from error
    check_text(value, problems, writing.path)
    if not isinstance(value, dict):
        raise ProblemFound("parsing_data", writing.path, error_detail="the body is not a JSON object")
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
            f"{one.rule_id}: {one.hint}",
            error_detail=f"{one.message.rstrip('.')} (at {one.pointer or '/'})",
        )
        for one in [*problems, *redact(value)]
        if one.severity == "error"
    )


def object_of(value: Any, subject: str) -> Json:
    """Give a member that must be an object.

    Raises:
        ProblemFound: it is none.
    """
    if not isinstance(value, dict):
        raise ProblemFound("bad_request", subject, error_detail=f"{subject} is not a JSON object")
    return value
