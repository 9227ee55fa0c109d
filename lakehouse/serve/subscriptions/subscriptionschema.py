"""What a subscription requests: read from JSON, checked, and applied to events (CAT-193 to CAT-195).

Both forms are read: that of the draft (`filter.prefix.subject`, protocol `HTTPS`), and that of the CloudEvents Subscriptions API
(`filters`, an array of which each must match, protocol `HTTP`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from lakehouse.text.names import RegistryId

Json = dict[str, Any]

_MOST_FILTERS = 100
_DEEPEST = 8
_DIALECTS: dict[str, Callable[[str, str], bool]] = {
    "exact": str.__eq__,
    "prefix": str.startswith,
    "suffix": str.endswith,
}
_PRINTABLE = re.compile(r"[\x21-\x7e]{1,2000}")
_TOKEN = re.compile(r"[\x21-\x7e]{1,8000}")
_MEMBERS = {
    "id",
    "source",
    "types",
    "filter",
    "filters",
    "sink",
    "sinkcredential",
    "protocol",
    "protocolsettings",
    "config",
    "status",
}
MODES = ("binary", "structured")
PROTOCOLS = ("HTTP", "HTTPS")
MEDIA_TYPES = ("application/cloudevents-subscription+json", "application/json")


class NotValid(Exception):
    """A subscription that cannot be; the message says what is wrong and how to repair it."""


class Subscription(NamedTuple):
    """What is asked for.

    Attributes:
        registryid: registry whose events are wanted.
        sink: URL that they are sent to.
        mode: binary or structured, as CloudEvents over HTTP has them.
        token: of `sinkcredential`; nothing shows it.
        members: what a client is shown, as it was written.
    """

    registryid: RegistryId
    sink: str
    mode: str
    token: str | None
    members: Json

    def wants(self, event: Json) -> bool:
        """Return whether an event is one of those that are wanted."""
        types = self.members.get("types")
        return (not types or event.get("type") in types) and all(_matches(one, event) for one in _filters(self.members))


def read_subscription(value: Any, base: str, root: RegistryId | None) -> Subscription:
    """Read a subscription.

    Args:
        value: JSON value of the request.
        base: URL of the server.
        root: registry that `/` is.

    Raises:
        NotValid: it cannot be served.
    """
    if not isinstance(value, dict):
        raise NotValid("A subscription is a JSON object.")
    unknown = sorted(value.keys() - _MEMBERS)
    if unknown:
        raise NotValid(f"Unknown members: {', '.join(unknown)[:200]}. Leave them out.")
    protocol = value.get("protocol", "HTTP")
    if protocol not in PROTOCOLS:
        raise NotValid("`protocol` is HTTP or HTTPS: others are not served here.")
    sink = value.get("sink")
    if not isinstance(sink, str) or not _PRINTABLE.fullmatch(sink):
        raise NotValid("`sink` is the URL that events are sent to.")
    try:
        parts = urlsplit(sink)
        has_port = parts.port is None or parts.port > 0
    except ValueError:
        has_port = False
    if not has_port or parts.scheme not in ("http", "https") or not parts.hostname or parts.fragment:
        raise NotValid("`sink` is an absolute URL of http or https.")
    if parts.username is not None:
        raise NotValid("`sink` holds a user; give what lets us in as `sinkcredential`.")
    if protocol == "HTTPS" and parts.scheme != "https":
        raise NotValid("`protocol` is HTTPS, so `sink` is a URL of https.")
    _check_filters(value)
    members = {name: one for name, one in value.items() if name not in ("id", "status", "sinkcredential")}
    return Subscription(_registry(value.get("source"), base, root), sink, _mode(value), _token(value), members)


def _registry(source: Any, base: str, root: RegistryId | None) -> RegistryId:
    """Return the registry that a subscription is for; its `source` is the root of a catalog (CAT-193)."""
    wanted = base if source is None else source
    if isinstance(wanted, str) and wanted.rstrip("/") == base.rstrip("/"):
        if root is None:
            raise NotValid(f"`source` has to name a registry, as {base}/reg-ID: there are several here.")
        return root
    rest = wanted.rstrip("/").removeprefix(base.rstrip("/")) if isinstance(wanted, str) else ""
    if rest.startswith("/reg-") and "/" not in rest[1:]:
        return RegistryId(unquote(rest.removeprefix("/reg-")))
    raise NotValid(f"`source` is the root of the catalog: {base} (CAT-193); `filter` says which part of it is meant.")


def _mode(value: Json) -> str:
    config = value.get("config", {})
    if not isinstance(config, dict) or config.keys() - {"contentmode"}:
        raise NotValid("`config` holds `contentmode` and nothing else.")
    mode = config.get("contentmode", "binary")
    if mode not in MODES:
        raise NotValid("`config.contentmode` is binary or structured.")
    settings = value.get("protocolsettings", {})
    if not isinstance(settings, dict) or settings.keys() - {"method"} or settings.get("method", "POST") != "POST":
        raise NotValid('`protocolsettings` holds "method": "POST" and nothing else; what lets us in is `sinkcredential`.')
    return str(mode)


def _token(value: Json) -> str | None:
    credential = value.get("sinkcredential")
    if credential is None:
        return None
    kinds = {"credentialtype": "ACCESSTOKEN", "accesstokentype": "bearer"}
    is_one = isinstance(credential, dict) and all(
        str(credential.get(name, known)).lower() == known.lower() for name, known in kinds.items()
    )
    token = credential.get("accesstoken") if is_one else None
    if not isinstance(token, str) or not _TOKEN.fullmatch(token):
        raise NotValid("`sinkcredential` is of the `credentialtype` ACCESSTOKEN, with `accesstoken`; its type is bearer.")
    return token


def _filters(members: Json) -> list[Json]:
    """Return the filters in the form of CloudEvents: each must match."""
    old = members.get("filter")
    return [*members.get("filters", []), *([old] if old is not None else [])]


def _check_filters(value: Json) -> None:
    types = value.get("types")
    if types is not None and (not isinstance(types, list) or not all(isinstance(one, str) and one for one in types)):
        raise NotValid("`types` is an array of strings.")
    if "filters" in value and not isinstance(value["filters"], list):
        raise NotValid("`filters` is an array; the draft's `filter` is an object.")
    if "filter" in value and not isinstance(value["filter"], dict):
        raise NotValid('`filter` is an object, such as {"prefix": {"subject": "/messagecatalog/5"}}.')
    found = _filters(value)
    if len(found) > _MOST_FILTERS:
        raise NotValid(f"More than {_MOST_FILTERS} filters.")
    for one in found:
        _check_filter(one, 0)


def _check_filter(one: Any, depth: int) -> None:
    if not isinstance(one, dict) or not one or depth > _DEEPEST:
        raise NotValid("A filter is an object with exact, prefix, suffix, all, any or not.")
    for dialect, wanted in one.items():
        if dialect in _DIALECTS:
            if not isinstance(wanted, dict) or not wanted or not all(isinstance(text, str) and text for text in wanted.values()):
                raise NotValid(f'`{dialect}` is an object: attribute → text, such as {{"subject": "/messagecatalog/5"}}.')
        elif dialect in ("all", "any"):
            if not isinstance(wanted, list) or not wanted or len(wanted) > _MOST_FILTERS:
                raise NotValid(f"`{dialect}` is an array of filters.")
            for inner in wanted:
                _check_filter(inner, depth + 1)
        elif dialect == "not":
            _check_filter(wanted, depth + 1)
        else:
            raise NotValid(f"A filter `{dialect[:40]}` is not served here: exact, prefix, suffix, all, any and not are.")


def _matches(one: Json, event: Json) -> bool:
    for dialect, wanted in one.items():
        if dialect in _DIALECTS:
            test = _DIALECTS[dialect]
            if not all(name in event and test(str(event[name]), text) for name, text in wanted.items()):
                return False
        elif dialect == "not":
            if _matches(wanted, event):
                return False
        elif not (all if dialect == "all" else any)(_matches(inner, event) for inner in wanted):
            return False
    return True
