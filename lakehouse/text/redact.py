"""Secrets are taken out of a parsed document before anything of it is written (END-111: no credentials in a registry).

Whatever its format and dialect, the value that was parsed is walked through. Placeholders such as `{token}` are no secrets. What
was taken out is reported as an error with its pointer, never with its value. What was never parsed is `blanking`'s.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum, auto
from typing import Any

import jiter

from lakehouse.text.blanking import REDACTED
from lakehouse.text.jsontext import pointer_of
from lakehouse.text.problems import CREDENTIAL, Problem
from lakehouse.text.values import decoded_base64

_FLAGS = re.IGNORECASE | re.ASCII  # what is equal in upper case only by Unicode is not seen in the text
_PASSWORDS = r".*(?:password|passwd|passphrase|secret|api[-_]?key|access[-_]?key|private[-_]?key)"
# Headers and properties that carry credentials, in endpoints and messages.
_HEADER_NAMES = (
    "authorization|proxy-authorization|cookie|set-cookie|(?:x-)?api[-_]?key|(?:x-)?(?:auth|access|csrf|security)[-_]?token|"
    "x-amz-security-token|x-functions-key|ocp-apim-subscription-key|aeg-sas-key|aeg-sas-token"
)
_AUTHORIZATION = re.compile("authorization", _FLAGS)
_HEADER = re.compile(f"(?:{_HEADER_NAMES}|{_PASSWORDS})", _FLAGS)
_BELOW_AUTHORIZATION = re.compile(
    rf"(?:{_HEADER_NAMES}|{_PASSWORDS}|.*credentials?|.*sharedaccesskey|token|access[-_]?token|key|value)", _FLAGS
)
_OPTIONS = {"protocoloptions", "protocolmetadata", "envelopeoptions", "envelopemetadata"}  # and those of other dialects:
_OPTIONS |= {"options", "config", "headers", "metadata", "definition"}
_SCHEMAS = {"dataschema", "schema"}
_COLLECTIONS = {"messagegroups", "definitionGroups", "schemagroups", "schemaGroups", "messagedefinitions"}
_COLLECTIONS |= {"messages", "definitions", "schemas", "versions"}

_USERINFO = re.compile(r"(://[^/@\s:]*:)([^/\s\"]+)(@)")
# In prose a token is recognised by its length and a digit.
_BEARER = re.compile(r"(\A\s*bearer\s+)(?=\S*\d)[^\s{}<>]+\s*\Z|((?<!\w)bearer\s+)(?=\S*\d)(?!\S*://)[^\s{}<>]{16,}", _FLAGS)
_BASIC = re.compile(r"((?<!\w)basic\s+)([a-z0-9+/]{4,}={0,2})(?![\w+/=])", _FLAGS)
_SIGNATURE = re.compile(r"((?<!\w)sharedaccesssignature\s[^\s]*\bsig=)([^&\s{}]+)", _FLAGS)
_PRIVATE_KEY = re.compile(r"(-----BEGIN [A-Z ]*PRIVATE KEY-----)(.+?)(?=-----END|\Z)", re.DOTALL)
_PLACEHOLDER = re.compile(r"\{[^{}]*\}")
_SCHEME = re.compile(r"\s*(?:basic|bearer|digest|negotiate|apikey|sharedaccesssignature)?\s*", _FLAGS)

# A JSON text without any of these has no name of a secret, unless it writes ASCII as escapes.
# Patterns that begin with plain letters are looked for many times faster than others.
_NAME_MARKS = [re.compile(mark) for mark in (b"authorization", b"cookie", b"token", b"passw(?:or)?d", b"passphrase", b"secret")]
_KEY_OWNERS = (b"api", b"access", b"private", b"functions", b"subscription", b"sas")
_KEYS_TEXT = re.compile(
    b"key(?:%s)" % b"|".join(b"(?<=%s%skey)" % (owner, dash) for owner in _KEY_OWNERS for dash in (b"", b"-", b"_"))
)
_USERINFO_TEXT = re.compile(rb":(?:\\?/){2}[^/@\s:]*:[^/\s]+@")
_ESCAPED_ASCII = b"\\u00"


class _ValuePlace(Enum):
    """The place of a value, which decides what is searched for."""

    ELSEWHERE = auto()  # secrets that are recognised by their form: passwords in URIs, `Bearer …`
    SCHEMA = auto()  # the same, all the way down
    COLLECTION = auto()  # the same; its keys are ids
    ENDPOINTS = auto()
    ENDPOINT = auto()  # and names of headers and of secrets
    OPTIONS = auto()  # the same, of a group or message
    ENDPOINT_AUTHORIZATION = auto()  # and all that a credential may be called
    OPTIONS_AUTHORIZATION = auto()


_ABOVE_ENTITIES = {_ValuePlace.COLLECTION: _ValuePlace.ELSEWHERE, _ValuePlace.ENDPOINTS: _ValuePlace.ENDPOINT}
_TO_THE_BOTTOM = {_ValuePlace.SCHEMA, _ValuePlace.ENDPOINT_AUTHORIZATION, _ValuePlace.OPTIONS_AUTHORIZATION}
_NAMES = {
    _ValuePlace.ENDPOINT: _HEADER,
    _ValuePlace.OPTIONS: _HEADER,
    _ValuePlace.ENDPOINT_AUTHORIZATION: _BELOW_AUTHORIZATION,
    _ValuePlace.OPTIONS_AUTHORIZATION: _BELOW_AUTHORIZATION,
}


def redact(document: Any, text: bytes | None = None) -> list[Problem]:
    """Replace the secrets of a parsed document, in place.

    It looks for credentials in what authorises at an endpoint, in headers and options of endpoints, groups and messages, and
    for secrets that are recognised anywhere: passwords inside URIs, `Bearer …`, private keys.

    Args:
        document: the parsed document, of any shape.
        text: the JSON text that it was parsed from: patterns that cannot occur in it are skipped. None: all is looked at.

    Returns:
        One finding for each value that was replaced; the entity is quarantined.
    """
    lower = None if text is None or _ESCAPED_ASCII in text else text.lower()
    walk = _Walk(_may_name_secrets(lower), [replace for is_there, replace in _RECOGNIZERS if lower is None or is_there(lower)])
    if isinstance(document, dict | list) and (walk.named or walk.recognizers):
        walk.members(document, _ValuePlace.ELSEWHERE)
    return walk.problems


def _may_name_secrets(lower: bytes | None) -> bool:
    return lower is None or any(mark.search(lower) for mark in (*_NAME_MARKS, _KEYS_TEXT))


class _Walk:
    """The way through a value: the keys that lead to where it is, and what was found.

    Attributes:
        named: look for names of secrets.
        recognizers: what replaces secrets that are recognised in a text.
    """

    def __init__(self, named: bool, recognizers: list[Callable[[str], str]]) -> None:
        self.named = named
        self.recognizers = recognizers
        self.path: list[str | int] = []
        self.problems: list[Problem] = []

    def members(self, parent: Any, place: _ValuePlace) -> None:
        """Check the members of an object or array."""
        is_object = isinstance(parent, dict)
        names = _NAMES.get(place) if self.named and is_object else None
        if names is not None and isinstance(parent.get("name"), str) and names.fullmatch(parent["name"]):
            self._replace(parent, "value", _is_credential)
        # A value may be replaced on the way: that changes no key.
        for key, member in parent.items() if is_object else enumerate(parent):
            if names is not None and names.fullmatch(str(key)) and self._replaces_named(parent, str(key), member, place):
                continue
            if isinstance(member, dict | list):
                self.path.append(key)
                self.members(member, self._below(key, place))
                self.path.pop()
            elif isinstance(member, str):
                clean = member
                for replace in self.recognizers:
                    clean = replace(clean)
                if clean != member:
                    parent[key] = clean
                    self._report(key)

    def _below(self, key: str | int, place: _ValuePlace) -> _ValuePlace:
        """Return the place of the members of the value of a key."""
        if place in _ABOVE_ENTITIES:
            return _ABOVE_ENTITIES[place]
        if isinstance(key, int) or place in _TO_THE_BOTTOM:
            return place
        if key in _SCHEMAS:
            return _ValuePlace.SCHEMA
        if place is _ValuePlace.ELSEWHERE or (place is _ValuePlace.ENDPOINT and key in ("messages", "definitions", "labels")):
            if key == "endpoints" and len(self.path) == 1:
                return _ValuePlace.ENDPOINTS
            if key in _COLLECTIONS or key in _OPTIONS:
                return _ValuePlace.COLLECTION if key in _COLLECTIONS else _ValuePlace.OPTIONS
            return _ValuePlace.OPTIONS_AUTHORIZATION if _AUTHORIZATION.fullmatch(key) else _ValuePlace.ELSEWHERE
        if _AUTHORIZATION.fullmatch(key):
            return _ValuePlace.ENDPOINT_AUTHORIZATION if place is _ValuePlace.ENDPOINT else _ValuePlace.OPTIONS_AUTHORIZATION
        return place

    def _replaces_named(self, parent: dict[str, Any], key: str, member: Any, place: _ValuePlace) -> bool:
        """Replace a member whose name is a secret's, or its `value`; True when nothing of it is left."""
        is_authorization = _AUTHORIZATION.fullmatch(key) is not None
        if place is _ValuePlace.ENDPOINT_AUTHORIZATION or (place is _ValuePlace.ENDPOINT and is_authorization):
            # 1.0-rc4 has a list of objects; what is secret in them is looked for below.
            is_declared = isinstance(member, dict) or (
                isinstance(member, list) and all(isinstance(item, dict) for item in member)
            )
            return not (is_authorization and is_declared) and self._replace(parent, key, _is_no_placeholder)
        if isinstance(member, dict | list):
            self.path.append(key)
            for inner in ["value"] if isinstance(member, dict) else range(len(member)):
                self._replace(member, inner, _is_credential)
            self.path.pop()
            return False
        return self._replace(parent, key, _is_credential)

    def _replace(self, parent: Any, key: str | int, is_secret: Callable[[Any], bool]) -> bool:
        value = parent.get(key) if isinstance(parent, dict) else parent[key]
        if value == REDACTED or not is_secret(value):
            return False
        parent[key] = REDACTED
        self._report(key)
        return True

    def _report(self, key: str | int) -> None:
        message = "a secret was replaced before storing"
        pointer = pointer_of(*map(str, self.path), str(key))
        self.problems.append(Problem(pointer, CREDENTIAL, "error", message, "Keep credentials out of registry documents."))


def _is_no_placeholder(value: Any) -> bool:
    """Return whether the value of a secret's key is a secret: not empty, a flag or a placeholder."""
    if value is None or value == "" or isinstance(value, bool):
        return False
    return not (isinstance(value, str) and _PLACEHOLDER.fullmatch(value))


def _is_credential(value: Any) -> bool:
    """Return whether a header's value is a credential: a number, or a text that is more than a scheme and has no placeholder."""
    if isinstance(value, str):
        return not _PLACEHOLDER.search(value) and not _SCHEME.fullmatch(value)
    return isinstance(value, int | float | jiter.LosslessFloat) and not isinstance(value, bool)


def _without_password(text: str) -> str:
    def replaced(match: re.Match[str]) -> str:
        before, password, after = match.groups()
        return before + (REDACTED if _is_no_placeholder(password) else password) + after

    return _USERINFO.sub(replaced, text) if "@" in text else text


def _without_bearer(text: str) -> str:
    return _BEARER.sub(lambda result: (result[1] or result[2]) + REDACTED, text)


def _without_basic(text: str) -> str:
    return _BASIC.sub(lambda result: result[1] + (REDACTED if _names_user(result[2]) else result[2]), text)


def _without_signature(text: str) -> str:
    return _SIGNATURE.sub(rf"\1{REDACTED}", text)


def _without_private_key(text: str) -> str:
    return _PRIVATE_KEY.sub(rf"\1{REDACTED}", text)


# What replaces secrets that are recognised by their form, and what a JSON text (in lower case) has when there are any.
_RECOGNIZERS: list[tuple[Callable[[bytes], Any], Callable[[str], str]]] = [
    (lambda lower: b"@" in lower and _USERINFO_TEXT.search(lower), _without_password),
    (re.compile(rb"bearer").search, _without_bearer),
    (re.compile(rb"basic").search, _without_basic),
    (re.compile(rb"sharedaccesssignature").search, _without_signature),
    (re.compile(rb"private key").search, _without_private_key),
]


def _names_user(text: str) -> bool:
    """Return whether a text is user and password of Basic authentication; ordinary words are not."""
    decoded = decoded_base64(text)
    if decoded is None:
        return False
    return b":" in decoded and decoded.isascii() and decoded.decode("ascii").isprintable()
