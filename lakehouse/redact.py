"""Secrets are taken out of a document before anything of it is written (END-111: no credentials in a registry).

Placeholders such as `{token}` are no secrets. What was taken out is told as a warning with its pointer, never with its value.
"""

from __future__ import annotations

import re
from typing import Any

from lakehouse.findings import CREDENTIAL, Problem
from lakehouse.jsontext import pointer_of

REDACTED = "REDACTED"
_SECRET_KEY = re.compile(
    r"\A(?:.*[-_.]?(?:password|passwd|passphrase|secret|apikey|api[-_]key|accesskey|access[-_]key|sharedaccesskey|privatekey|"
    r"private[-_]key|credential|credentials)|token|access[-_]?token|key|value)\Z",
    re.IGNORECASE,
)
_USERINFO = re.compile(r"(://[^/@\s:]*:)([^/\s\"]+)(@)")
_USERINFO_TEXT = re.compile(rb"(://[^/@\s:\"]*:)([^/\s\"]+)(@)")
_SECRET_TEXT = re.compile(
    rb'("[^"]*(?:password|passwd|secret|api[-_]?key|access[-_]?key|private[-_]?key|token)"\s*:\s*")((?:[^"\\]|\\.)*)',
    re.IGNORECASE,
)


def redact(document: Any) -> list[Problem]:
    """Replace the secrets of a parsed document's endpoints, in place.

    It looks at the endpoints: secret-like keys of an `authorization` map, and passwords inside addresses.

    Returns:
        One finding for each value that was replaced.
    """
    found: list[Problem] = []
    endpoints = document.get("endpoints") if isinstance(document, dict) else None
    for key, endpoint in endpoints.items() if isinstance(endpoints, dict) else ():
        if isinstance(endpoint, dict):
            own = {name: member for name, member in endpoint.items() if name not in ("messages", "definitions")}
            _redact(own, pointer_of("endpoints", key), False, found)
            endpoint.update(own)
    return found


def redact_text(text: bytes) -> bytes:
    """Replace the values of secret-like keys in text that could not be parsed."""
    clean = _SECRET_TEXT.sub(rb"\1" + REDACTED.encode(), text)
    return _USERINFO_TEXT.sub(rb"\1" + REDACTED.encode() + rb"\3", clean)


def _redact(value: Any, pointer: str, in_authorization: bool, found: list[Problem]) -> None:
    members = value.items() if isinstance(value, dict) else enumerate(value)
    for key, member in list(members):
        here = pointer + pointer_of(str(key))
        clean = member
        is_map = isinstance(member, dict)
        is_secret = in_authorization and isinstance(key, str) and bool(_SECRET_KEY.match(key)) and not _is_harmless(member)
        if is_secret or (key == "authorization" and member is not None and not is_map):
            clean = REDACTED
        elif isinstance(member, dict | list):
            _redact(member, here, in_authorization or key == "authorization", found)
        elif isinstance(member, str):
            clean = _USERINFO.sub(_without_password, member)
        if clean is not member and clean != member:
            value[key] = clean
            told = "a secret was replaced before storing"
            found.append(Problem(here, CREDENTIAL, "warning", told, "Keep credentials out of registry documents."))


def _is_harmless(value: Any) -> bool:
    """Tell what is no secret under any key: nothing, a flag, a placeholder."""
    return value in ("", None, True, False) or (isinstance(value, str) and re.fullmatch(r"\{[^{}]*\}", value) is not None)


def _without_password(match: re.Match[str]) -> str:
    before, password, after = match.groups()
    return before + (password if _is_harmless(password) else REDACTED) + after
