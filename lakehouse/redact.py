"""Secrets are taken out of a document before anything of it is written (END-111: no credentials in a registry).

Placeholders such as `{token}` are no secrets. What was taken out is told as an error with its pointer, never with its value.
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
_USERINFO_TEXT = re.compile(rb"(:(?:\\?/){2}[^/@\s:\"]*:)([^/\s\"]+)(@)")
# Headers and properties that carry credentials, in endpoints and messages.
_HEADER_NAMES = (
    "authorization|proxy-authorization|cookie|set-cookie|(?:x-)?api[-_]?key|(?:x-)?(?:auth|access|csrf|security)[-_]?token|"
    "x-amz-security-token|x-functions-key|ocp-apim-subscription-key|aeg-sas-key|aeg-sas-token"
)
_HEADER = re.compile(_HEADER_NAMES, re.IGNORECASE)
_HEADER_TEXT = re.compile(rb'"(?:' + _HEADER_NAMES.encode() + rb')"', re.IGNORECASE)
_HEADER_PAIR_TEXT = re.compile(
    rb'("(?:(?:' + _HEADER_NAMES.encode() + rb')"|name"\s*:\s*"(?:' + _HEADER_NAMES.encode() + rb')"\s*,\s*"value")'
    rb'\s*:\s*")((?:[^"\\]|\\.)*)',
    re.IGNORECASE,
)
_PLACEHOLDER = re.compile(r"\{[^{}]*\}")
_SCHEME = re.compile(r"\s*(?:basic|bearer|digest|negotiate|apikey|sharedaccesssignature)?\s*", re.IGNORECASE)
_HOLDERS = ("messagegroups", "definitionGroups", "endpoints")
_OPTIONS = ("protocoloptions", "protocolmetadata", "options", "config", "headers", "metadata", "definition")
_SECRET_TEXT = re.compile(
    rb'("[^"]*(?:password|passwd|secret|api[-_]?key|access[-_]?key|private[-_]?key|token)"\s*:\s*")((?:[^"\\]|\\.)*)',
    re.IGNORECASE,
)


def redact(document: Any, text: bytes | None = None) -> list[Problem]:
    """Replace the secrets of a parsed document, in place.

    It looks for secret-like keys of an endpoint's `authorization` map, credentials in headers of endpoints and messages, and
    passwords inside URIs anywhere.

    Args:
        document: the parsed document.
        text: the text that it was parsed from; where that holds nothing like a secret, the messages are not walked through.

    Returns:
        One finding for each value that was replaced; it takes the entity out.
    """
    found: list[Problem] = []
    if not isinstance(document, dict):
        return found
    is_suspect = text is None or b"\\u00" in text
    endpoints = document.get("endpoints")
    for key, endpoint in endpoints.items() if isinstance(endpoints, dict) else ():
        if isinstance(endpoint, dict):
            own = {name: member for name, member in endpoint.items() if name not in ("messages", "definitions")}
            _redact(own, pointer_of("endpoints", key), False, found)
            _redact_headers(own, pointer_of("endpoints", key), found)
            endpoint.update(own)
    if is_suspect or (text is not None and _HEADER_TEXT.search(text)):
        for collection in _HOLDERS:
            _redact_messages(document.get(collection), pointer_of(collection), found)
    if is_suspect or (text is not None and _USERINFO_TEXT.search(text)):
        others = {name: member for name, member in document.items() if name != "endpoints"}
        _redact_addresses(others, "", found)
        document.update(others)
        for key, endpoint in endpoints.items() if isinstance(endpoints, dict) else ():
            if isinstance(endpoint, dict):
                _redact_addresses(endpoint, pointer_of("endpoints", key), found)
    return found


def redact_text(text: bytes) -> bytes:
    """Replace the values of secret-like keys in text that could not be parsed."""
    clean = _SECRET_TEXT.sub(rb"\1" + REDACTED.encode(), text)
    clean = _HEADER_PAIR_TEXT.sub(rb"\1" + REDACTED.encode(), clean)
    return _USERINFO_TEXT.sub(rb"\1" + REDACTED.encode() + rb"\3", clean)


def _redact_messages(holders: Any, pointer: str, found: list[Problem]) -> None:
    """Look at the headers of all messages of a collection of groups or endpoints, and of their Versions."""
    for key, holder in holders.items() if isinstance(holders, dict) else ():
        for name in ("messages", "definitions") if isinstance(holder, dict) else ():
            members = holder.get(name)
            for messageid, message in members.items() if isinstance(members, dict) else ():
                here = pointer + pointer_of(key, name, messageid)
                _redact_headers(message, here, found)
                versions = message.get("versions") if isinstance(message, dict) else None
                for versionid, version in versions.items() if isinstance(versions, dict) else ():
                    _redact_headers(version, here + pointer_of("versions", versionid), found)


def _redact_headers(entity: Any, pointer: str, found: list[Problem]) -> None:
    for name in _OPTIONS if isinstance(entity, dict) else ():
        if isinstance(entity.get(name), dict | list):
            _redact_pairs(entity[name], pointer + pointer_of(name), found)


def _redact_pairs(value: Any, pointer: str, found: list[Problem]) -> None:
    """Replace credentials: `{name: …, value: …}`, `name: value` and `name: {value: …}`, where the name is such a header's."""
    if isinstance(value, dict) and isinstance(value.get("name"), str) and _HEADER.fullmatch(value["name"]):
        _replace(value, "value", pointer, found)
    for key, member in list(value.items() if isinstance(value, dict) else enumerate(value)):
        here = pointer + pointer_of(str(key))
        if isinstance(key, str) and _HEADER.fullmatch(key):
            if isinstance(member, dict):
                _replace(member, "value", here, found)
            else:
                _replace(value, key, pointer, found)
        if isinstance(member, dict | list):
            _redact_pairs(member, here, found)


def _replace(holder: dict[str, Any], key: str, pointer: str, found: list[Problem]) -> None:
    value = holder.get(key)
    if isinstance(value, str) and value != REDACTED and not _PLACEHOLDER.search(value) and not _SCHEME.fullmatch(value):
        holder[key] = REDACTED
        found.append(_told(pointer + pointer_of(key)))


def _redact_addresses(value: Any, pointer: str, found: list[Problem]) -> None:
    for key, member in list(value.items() if isinstance(value, dict) else enumerate(value)):
        here = pointer + pointer_of(str(key))
        if isinstance(member, dict | list):
            _redact_addresses(member, here, found)
        elif isinstance(member, str) and "@" in member:
            clean = _USERINFO.sub(_without_password, member)
            if clean != member:
                value[key] = clean
                found.append(_told(here))


def _told(pointer: str) -> Problem:
    told = "a secret was replaced before storing"
    return Problem(pointer, CREDENTIAL, "error", told, "Keep credentials out of registry documents.")


def _redact(value: Any, pointer: str, in_authorization: bool, found: list[Problem]) -> None:
    members = value.items() if isinstance(value, dict) else enumerate(value)
    for key, member in list(members):
        here = pointer + pointer_of(str(key))
        clean = member
        is_map = isinstance(member, dict)
        is_secret = in_authorization and isinstance(key, str) and bool(_SECRET_KEY.match(key)) and not _is_harmless(member)
        if is_secret or (key == "authorization" and not is_map and not _is_harmless(member)):
            clean = REDACTED
        elif isinstance(member, dict | list):
            _redact(member, here, in_authorization or key == "authorization", found)
        elif isinstance(member, str):
            clean = _USERINFO.sub(_without_password, member)
        if clean is not member and clean != member:
            value[key] = clean
            found.append(_told(here))


def _is_harmless(value: Any) -> bool:
    """Tell what is no secret under any key: nothing, a flag, a placeholder."""
    return (
        value is None
        or value == ""
        or isinstance(value, bool)
        or (isinstance(value, str) and re.fullmatch(r"\{[^{}]*\}", value) is not None)
    )


def _without_password(match: re.Match[str]) -> str:
    before, password, after = match.groups()
    return before + (password if _is_harmless(password) else REDACTED) + after
