"""Entities in a dialect, as the API shows them: a Group, and a Resource with its meta entity and its Versions.

They are made of rows of the log by `lakehouse.export.view` and `lakehouse.dialects.layouts`, as an export makes them. URLs begin
with ABSOLUTE or RELATIVE, which stand for the base of the registry and for the response as a document until the answer is
written: so what is made once serves every client. What is told apart by the API: the document of a schema (`Document`), which is
not among its attributes unless it is inlined.
"""

from __future__ import annotations

import base64
import uuid
from typing import Any, NamedTuple

import orjson

from lakehouse.dialects.layouts import to_dialect
from lakehouse.dialects.schemabytes import content_of, decoded_base64, document_of, is_shown_as_string
from lakehouse.dialects.tables import NORMAL, family_of
from lakehouse.dialects.versionorder import natural_order
from lakehouse.export.view import Stored, Urls, group_view, registry_view, resource_view
from lakehouse.serve.problems import RC4
from lakehouse.serve.requests import DETAILS, MEMBERS, SINGULAR, quoted
from lakehouse.text.jsontext import as_written, in_order, read_written
from lakehouse.text.names import RegistryId, Xid
from lakehouse.text.xid import last_id, xid_of_version

# No text of a catalog holds these: they are drawn anew in each process.
ABSOLUTE = f"http://{uuid.uuid4().hex}.invalid"
RELATIVE = f"http://{uuid.uuid4().hex}.invalid"
_OF_DOCUMENT = ("schema", "schemabase64")
_CONFIGURATION = ("capabilities", "model", "modelsource")
_NO_DATE = "1970-01-01T00:00:00Z"


class Document(NamedTuple):
    """The document of a schema Version.

    Attributes:
        value: of `schema` in normal form, or bytes that are no text.
        contenttype: its media type, as declared.
        content: its bytes as they were written; None: they are those of the value.
    """

    value: Any
    contenttype: str | None
    content: bytes | None = None

    def as_bytes(self) -> bytes:
        """Give it as a client downloads it: as it was written."""
        if self.content is not None:
            return self.content
        if isinstance(self.value, bytes):
            return self.value
        return self.value.encode() if isinstance(self.value, str) else in_order(self.value)

    @property
    def media_type(self) -> str:
        """Give its media type: as declared, else what its value tells."""
        if self.contenttype:
            return self.contenttype
        if isinstance(self.value, bytes):
            return "application/octet-stream"
        return "text/plain; charset=utf-8" if isinstance(self.value, str) else "application/json"

    def member(self, *, binary: bool) -> tuple[str, Any]:
        """Give it as it is inlined: `schema`, or `schemabase64`; JSON as it was written, but without its blanks."""
        is_text = isinstance(self.value, str)
        if binary or isinstance(self.value, bytes) or (is_text and not is_shown_as_string(self.contenttype)):
            return "schemabase64", base64.b64encode(self.as_bytes()).decode()
        if self.content is None or not isinstance(self.value, (dict, list)):
            return "schema", self.value
        return "schema", orjson.Fragment(as_written(document_of(self.content, None)))


class Group(NamedTuple):
    """A Group of any type.

    Attributes:
        xid: its XID.
        protocol: as stored, which its messages are written under.
        attributes: as shown, URLs marked.
    """

    xid: Xid
    protocol: str | None
    attributes: dict[str, Any]

    @property
    def collection(self) -> str:
        """Give its type: `messagegroups`, `endpoints` or `schemagroups`."""
        return self.xid[1:].split("/", 1)[0]

    @property
    def id(self) -> str:
        """Give its id."""
        return last_id(self.xid)

    @property
    def members(self) -> str:
        """Give the collection that it holds."""
        return MEMBERS[self.collection]


class Resource:
    """A message or schema.

    Attributes:
        xid: its XID.
        ids: its id, `self` and `xid`.
        default: id of the default Version; None: it has none, or is an alias of nothing.
        meta: the meta entity.
        meta_in_document: the same in the document view, where an alias does not show what it stands for.
        versions: by id, without documents.
        documents: of Versions of a schema, by id.
        xref: the XID that it stands for.
        shown: what a filter asks: the attributes with `meta`.
        texts: JSON text of what was asked for, by shape.
    """

    __slots__ = (
        "__weakref__", "_contents",
        "attributes", "default", "documents", "ids", "meta", "meta_in_document", "shown", "texts", "versions",
        "xid", "xref",
    )  # fmt: skip

    def __init__(
        self,
        xid: Xid,
        view: dict[str, Any],
        dialect: str,
        alias_of: dict[str, Any] | None = None,
        *,
        is_held: bool = False,
        contents: dict[str, bytes] | None = None,
    ) -> None:
        collection = xid.split("/")[3]
        suffix = DETAILS if collection == "schemas" else ""
        here = ABSOLUTE + quoted(xid)
        singular = SINGULAR[collection]
        self.xid = xid
        self.texts: dict[tuple[Any, ...], bytes] = {}
        self.ids = {f"{singular}id": last_id(xid), "self": here + suffix, "xid": xid}
        own = alias_of if alias_of is not None else view
        self.xref: str | None = own.get("meta", {}).get("xref")
        self.documents: dict[str, Document] = {}
        self._contents = contents or {}
        self.versions = {
            versionid: self._version(versionid, version, f"{here}/versions/{quoted(versionid)}{suffix}")
            for versionid, version in sorted(view.get("versions", {}).items(), key=lambda one: natural_order(one[0]))
        }
        default = view.get("meta", {}).get("defaultversionid")
        self.default: str | None = default if default in self.versions else next(reversed(self.versions), None)
        for versionid, version in self.versions.items():
            version["isdefault"] = versionid == self.default
        suffix = suffix if dialect == RC4 else ""
        self.meta = _named_meta(({} if own is view else {"xref": self.xref}) | view.get("meta", {}), here, suffix, self.default)
        if self.default is not None:
            self.meta.setdefault("defaultversionsticky", False)
        self.meta_in_document = _named_meta(own.get("meta", {}), here, suffix, self.default if self.xref is None else None)
        if is_held and "readonly" in self.meta:
            self.meta["readonly"] = True
        self.attributes = self._attributes(here)
        self.shown = self.attributes | {"meta": self.meta}

    def _version(self, versionid: str, version: dict[str, Any], here: str) -> dict[str, Any]:
        shown = dict(version) | {"self": here, "xid": xid_of_version(self.xid, versionid)}
        if "schemauri" in shown:  # how the API has always spelled it: <RESOURCE>url
            shown = {"schemaurl" if name == "schemauri" else name: value for name, value in shown.items()}
        value = shown.pop("schema", None)
        coded = shown.pop("schemabase64", None)
        if value is None and isinstance(coded, str):
            value = decoded_base64(coded)
            value = coded if value is None else value
        if value is not None and "schemaid" in self.ids:
            contenttype = shown.get("contenttype")
            declared = contenttype if isinstance(contenttype, str) else None
            self.documents[versionid] = Document(value, declared, self._contents.get(versionid))
        return with_life(shown)

    def _attributes(self, here: str) -> dict[str, Any]:
        shown: dict[str, Any] = dict(self.ids)
        if self.default is not None:
            own = {name: value for name, value in self.versions[self.default].items() if name != "deprecated"}
            shown = {**own, **self.ids}
        shown["metaurl"] = here + "/meta"
        if self.default is not None or self.xref is None:
            shown["versionsurl"] = here + "/versions"
            shown["versionscount"] = len(self.versions)
        return shown


def make_registry(registryid: RegistryId, row: Stored | None, lived: tuple[int, int], dialect: str) -> dict[str, Any]:
    """Give a registry's own attributes, without collections and configuration."""
    view, _ = to_dialect(registry_view(registryid, row, lived, Urls(ABSOLUTE)), dialect)
    shown = {name: value for name, value in view.items() if name not in _CONFIGURATION}
    return with_life(shown | {"specversion": dialect, "self": ABSOLUTE + "/"})


def make_group(xid: Xid, row: Stored | None, dialect: str) -> Group:
    """Make a Group of its row; None: it was deleted, and not all of its members were."""
    stored = group_view(xid, row, Urls(ABSOLUTE))
    view, _ = to_dialect(stored, dialect, SINGULAR[xid[1:].split("/", 1)[0]])
    protocol = stored.get("protocol")
    return Group(xid, protocol, with_life(view | {"self": ABSOLUTE + quoted(xid)}))


def make_resource(
    xid: Xid,
    row: Stored | None,
    versions: list[Stored],
    protocol: str | None,
    dialect: str,
    target: tuple[Stored, list[Stored], str | None] | None = None,
) -> Resource:
    """Make a Resource of its rows.

    Args:
        xid: of the message or schema.
        row: its row; None: it was deleted, and not all of its Versions were.
        versions: rows of its Versions.
        protocol: of its group.
        dialect: how it is written.
        target: of an alias: the row, the Versions and the group's protocol of what it stands for; None: there is none.
    """
    view = _written(xid, row, versions, protocol, dialect)
    is_held = any(one is not None and one.is_held for one in (row, *versions))
    if target is None:
        return Resource(xid, view, dialect, is_held=is_held, contents=_contents_of(versions))
    aimed, its_versions, its_protocol = target
    moved = [version._replace(xid=xid_of_version(xid, last_id(version.xid))) for version in its_versions]
    shown = _written(xid, aimed, moved, its_protocol, dialect)
    return Resource(xid, shown, dialect, view, is_held=is_held, contents=_contents_of(moved))


def with_life(shown: dict[str, Any]) -> dict[str, Any]:
    """Add what every entity of the API has, where a document told nothing of it."""
    for name, value in (("epoch", 1), ("createdat", _NO_DATE), ("modifiedat", _NO_DATE)):
        shown.setdefault(name, value)
    return shown


def relative(path: str) -> str:
    """Give the marked URL of an XID or another path, as a reference into the response."""
    return RELATIVE + (path.replace("~", "~0") if "~" in path else path)


def unmarked(text: bytes, base: str, path: str) -> bytes:
    """Write marked URLs.

    Args:
        text: JSON text.
        base: URL of the registry, without a slash at its end.
        path: of the request: references into the response are relative to it.
    """
    if RELATIVE.encode() in text:
        here = relative("" if path == "/" else path).encode()
        text = text.replace(here + b'"', b'#/"').replace(here, b"#")
    return text.replace(ABSOLUTE.encode(), base.encode())


def keyed(name: str) -> bytes:
    """Write a key with its colon."""
    return orjson.dumps(name) + b":"


def _written(xid: Xid, row: Stored | None, versions: list[Stored], protocol: str | None, dialect: str) -> dict[str, Any]:
    if dialect == NORMAL:
        return resource_view(xid, row, versions, protocol, Urls(ABSOLUTE))
    view = resource_view(xid, row, versions, None, Urls(ABSOLUTE), bare=False)
    slim: dict[str, Any] = {
        name: view[name] for name in view if name in ("protocol", "meta", "versions")
    }  # what the API shows, and its family
    written, _ = to_dialect(slim, dialect, SINGULAR[xid.split("/")[3]], family_of(protocol))
    return dict(written)


def _named_meta(meta: dict[str, Any], here: str, suffix: str, default: str | None) -> dict[str, Any]:
    """Give a meta entity with its URL, and with what each has whose Resource has a default Version (core/spec.md, "Doc Flag")."""
    shown = dict(meta) | {"self": here + "/meta"}
    if default is not None:
        shown |= {"readonly": shown.get("readonly", False), "defaultversionid": default}
        shown["defaultversionurl"] = f"{here}/versions/{quoted(default)}{suffix}"
    return shown


def _contents_of(versions: list[Stored]) -> dict[str, bytes]:
    """Give the bytes of the documents of a schema's Versions as they were written, where their normal form may be another."""
    found: dict[str, bytes] = {}
    for row in versions:
        if row.kind == "schemaversion" and row.raw is not None:
            content = content_of(read_written(row.raw))
            if content is not None:
                found[last_id(row.xid)] = content
    return found
