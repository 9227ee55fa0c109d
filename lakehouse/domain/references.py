"""How a reference spells the entity that it leads to: the one reader of references outside of SQL.

A reference is an XID or, behind `#`, a JSON Pointer in the form of a URI fragment, with its escapes (`~0`, `~1`, `%40`). Behind a
second `#`, or as `:Type` at its end, it may name a type or a place in a schema. The view `entity_references` reads them alike.
"""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import unquote

from lakehouse.text.names import Xid

_HASH = re.compile(r"\A[ \t\n\x0b\f\r]*#")
_TO_FRAGMENT = re.compile(r"\A[ \t\n\x0b\f\r]*#?[^#]*#")
_OLD_GROUPS = re.compile(r"\A/schemaGroups/")
_HAS_SUFFIX = re.compile(r"\A/[^/]+/[^/]+/[^/]+/.*:")
_SUFFIX = re.compile(r":[^:]*\Z")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_ORIGIN = re.compile(r"\A[A-Za-z][A-Za-z0-9+.-]*://[^/]*")
_SCHEMA = re.compile(r"\A(?P<schema>/schemagroups/[^/]+/schemas/[^/]+)(?P<version>/versions/[^/]+)?(?P<rest>/.*)?\Z")


class Spelled(NamedTuple):
    """What a reference spells.

    Attributes:
        whole: the XID; None: it leads to another host.
        without_suffix: the same without `:Type`, which is looked for second; None: there is no suffix.
        type_name: what follows a second `#`; None: there is none.
    """

    whole: Xid | None
    without_suffix: Xid | None = None
    type_name: str | None = None

    @property
    def suffix(self) -> str | None:
        """Return the type that `:Type` names."""
        return self.whole[len(self.without_suffix) + 1 :] if self.whole and self.without_suffix else None


class SchemaPlace(NamedTuple):
    """Where a reference to a schema may lead: its XID, that of a Version (None: the default), the type or place within it."""

    schema: Xid
    version: Xid | None
    type_name: str | None
    place: str | None


def spelled(reference: str, *, names_type: bool = False) -> Spelled:
    """Read a reference.

    Args:
        reference: as it is written.
        names_type: it may end with `:Type`, as `dataschemauri` may.
    """
    path, fragment = _split(reference)
    if not path.startswith("/"):
        return Spelled(None, None, fragment)
    whole = _unescaped(path) if reference.lstrip(" ").startswith("#") else path
    is_suffixed = names_type and _HAS_SUFFIX.match(whole) is not None
    whole = _OLD_GROUPS.sub("/schemagroups/", whole)
    return Spelled(Xid(whole), Xid(_SUFFIX.sub("", whole)) if is_suffixed else None, fragment)


def schema_places(reference: str) -> list[SchemaPlace]:
    """Return where a reference to a schema may lead within its registry, what is looked for first before the rest."""
    read = spelled(reference, names_type=True)
    raw = _SCHEMA.match(_OLD_GROUPS.sub("/schemagroups/", _split(reference)[0]))
    results = []
    for xid, type_name in ((read.whole, None), (read.without_suffix, read.suffix)):
        parts = _SCHEMA.match(xid) if xid else None
        if parts is not None:
            rest = (
                raw["rest"] if raw and parts["rest"] and not type_name else parts["rest"]
            )  # its own escapes are those of a pointer
            version = Xid(parts["schema"] + parts["version"]) if parts["version"] else None
            results.append(SchemaPlace(Xid(parts["schema"]), version, type_name, read.type_name or rest or None))
    return results


def schema_reference(uri: str | None, xid: str | None) -> str | None:
    """Return the reference that names the schema of a payload; None: nothing names one.

    It is `dataschemauri`, which may name a type in the schema; where that leads to another host it is `dataschemaxid`, which may
    name a Version (MSG-182).
    """
    return uri if xid is None or (uri is not None and schema_places(uri)) else xid


def leads_within(reference: str) -> bool:
    """Return whether a `dataschemauri` leads into its own document or to a schema group of its registry."""
    whole = spelled(reference).whole
    return whole is not None and (reference.lstrip(" ").startswith("#") or whole.startswith("/schemagroups/"))


def is_self_url(reference: str, xid: Xid) -> bool:
    """Return whether a reference is the `self` URL of an entity or of something in it; of another host's the path counts."""
    path = spelled(reference).whole or unquote(_ORIGIN.sub("", reference))
    return re.search(re.escape(xid) + r"(?:[/?#:].*)?\Z", path) is not None


def _split(reference: str) -> tuple[str, str | None]:
    """Split a reference at its second `#`: the path, and what follows."""
    path, hash_sign, _ = _HASH.sub("", reference, count=1).partition("#")
    return path, _TO_FRAGMENT.sub("", reference, count=1) if hash_sign else None


def _unescaped(path: str) -> str:
    decoded = path if _BAD_ESCAPE.search(path) else unquote(path, errors="replace")
    return decoded.replace("~1", "/").replace("~0", "~")
