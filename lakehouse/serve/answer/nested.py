"""Answers are put together: an entity or a collection, with what is inlined, filtered, sorted and paged.

Everything becomes JSON text as soon as it is known, in parts, so that a large answer is held once, and the text of a Resource is
made once for all who ask.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

import orjson

from lakehouse.serve.answer.catalog import Catalog
from lakehouse.serve.answer.documents import document_member
from lakehouse.serve.answer.entities import ABSOLUTE, Group, Resource, keyed, relative
from lakehouse.serve.answer.filters import below
from lakehouse.serve.answer.flags import Flags, Inline
from lakehouse.serve.answer.found import Filters, Found, Selection, id_of
from lakehouse.serve.problems import ProblemFound
from lakehouse.serve.requests import MEMBERS, quoted
from lakehouse.text.jsontext import in_order
from lakehouse.text.xid import xid_of_version

_ALL: Inline = {"*": {}}


class Answers:
    """Puts answers together for one request."""

    def __init__(
        self, catalog: Catalog, flags: Flags, base: str, configuration: dict[str, Callable[[], bytes]], most_bytes: int
    ) -> None:
        """Prepare.

        Args:
            catalog: the registry at the snapshot.
            flags: of the request.
            base: URL of the registry.
            configuration: `capabilities`, `model`, `modelsource` as text.
            most_bytes: of the answer.
        """
        self.catalog = catalog
        self.flags = flags
        self.configuration = configuration
        self.most_bytes = most_bytes
        self.bytes = 0
        self.selection = Selection(catalog, flags, base)

    # What is asked for

    def registry(self) -> bytes:
        """Answer with the registry."""
        attributes = self.catalog.registry()
        filters = self.selection.own_of_registry(attributes)
        if self.flags.doc:
            attributes = attributes | {"self": relative("/")[:-1]}
        parts = [] if self.flags.collections else [in_order(attributes)[1:-1]]
        for name, text in self.configuration.items():
            if name in self.flags.inline and not self.flags.collections:
                parts.append(keyed(name) + text())
        for collection in sorted(MEMBERS):
            asked = None if filters is None else below(filters, collection)
            parts += self._collection_of_groups(collection, asked, _sub(self.flags.inline, collection))
        return _object(parts)

    def groups(self, collection: str, choose: Callable[[list[Found]], list[Found]]) -> bytes:
        """Answer with a collection of Groups; `choose` sorts and cuts out the page."""
        found = choose(self.selection.groups(collection, self.selection.filters))
        return self._map((one.entity.id, self._group(one, self.flags.inline)) for one in found)

    def group(self, group: Group) -> bytes:
        """Answer with a Group."""
        filters = self.selection.own(group, group.xid)
        return self._group(Found(group, filters), self.flags.inline, is_top=True)

    def resources(self, group: Group, choose: Callable[[list[Any]], list[Any]]) -> bytes:
        """Answer with the members of a Group; `choose` sorts and cuts out the page."""
        asked = self.selection.filters
        if asked is None and self.flags.sort is None:
            chosen = self.catalog.resources(group, choose(self.catalog.entries(group.xid)))
            found = [Found(one, None) for one in chosen]
        else:
            found = choose(self.selection.resources(group, asked))
        return self._map((id_of(one.entity), self.resource_text(one, self.flags.inline)) for one in found)

    def resource(self, resource: Resource) -> bytes:
        """Answer with a Resource as metadata."""
        filters = self.selection.own(resource, resource.xid)
        members = None if filters is None else self.selection.versions(resource, below(filters, "versions"))
        return self.resource_text(Found(resource, filters, members), self.flags.inline)

    def meta(self, resource: Resource) -> bytes:
        """Answer with the meta entity of a Resource."""
        self.selection.own(resource.meta, resource.xid + "/meta")
        return in_order(self._meta(resource, ()))

    def versions(self, resource: Resource, choose: Callable[[list[Found]], list[Found]]) -> bytes:
        """Answer with the Versions of a Resource; `choose` sorts and cuts out the page."""
        found = choose(self.selection.versions(resource, self.selection.filters))
        inlined = _sub(self.flags.inline, "schema") is not None
        return self._map((one.entity["versionid"], self._version(resource, one.entity, inlined)) for one in found)

    def version(self, resource: Resource, versionid: str) -> bytes:
        """Answer with a Version as metadata."""
        version = resource.versions[versionid]
        self.selection.own(version, version["xid"])
        return self._version(resource, version, _sub(self.flags.inline, "schema") is not None)

    # Text

    def _collection_of_groups(self, collection: str, filters: Filters, inline: Inline | None) -> list[bytes]:
        is_asked = filters is not None
        found = self.selection.groups(collection, filters) if is_asked or inline is not None else None
        count = len(self.catalog.ids_of_groups(collection)) if found is None else len(found)
        url = self._url(f"/{collection}", inline is not None)
        if (is_asked or self.flags.filters) and not self._is_within(inline is not None):
            url = self.selection.url_of(url, filters, f"{collection[:-1]}id", is_empty=not count)
        texts = None if inline is None else ((one.entity.id, self._group(one, inline)) for one in found or [])
        return self._collection(collection, url, count, texts, is_bare=self.flags.collections)

    def _group(self, found: Found, inline: Inline, *, is_top: bool = False) -> bytes:
        group: Group = found.entity
        is_bare = is_top and self.flags.collections
        attributes = group.attributes
        if self.flags.doc:
            attributes = attributes | {"self": relative(group.xid)}
        parts = [] if is_bare else [in_order(attributes)[1:-1]]
        inner = _sub(inline, group.members)
        asked = None if found.filters is None else below(found.filters, group.members)
        members = found.members
        if members is None and (inner is not None or asked is not None):
            members = self.selection.resources(group, asked)
        count = len(self.catalog.entries(group.xid)) if members is None else len(members)
        url = self._url(f"{group.xid}/{group.members}", inner is not None)
        if asked is not None and not self._is_within(inner is not None):
            url = self.selection.url_of(url, asked, f"{group.members[:-1]}id", is_empty=not count)
        texts = None if inner is None else ((id_of(one.entity), self.resource_text(one, inner)) for one in members or [])
        return _object(parts + self._collection(group.members, url, count, texts, is_bare=is_bare))

    def resource_text(self, found: Found, inline: Inline) -> bytes:
        """Write a Resource; what no filter cuts down is written once for all requests."""
        resource: Resource = found.entity
        inlined = {name: _sub(inline, name) for name in ("meta", "versions", "schema")}
        inner = inlined["versions"]
        has_schema = inner is not None and _sub(inner, "schema") is not None
        shape = (self.flags.doc, self.flags.binary, *(one is not None for one in inlined.values()), has_schema)
        if found.filters is not None:
            return self._resource(found, *shape[2:])
        text = resource.texts.get(shape)
        if text is None:
            text = resource.texts[shape] = self._resource(found, *shape[2:])
        return text

    def _resource(self, found: Found, meta: bool, versions: bool, schema: bool, versions_schema: bool) -> bytes:
        resource: Resource = found.entity
        members = found.members
        if members is None:
            members = self.selection.versions(resource, None)
        is_doc = self.flags.doc
        if is_doc:
            attributes = resource.ids | {"self": relative(resource.xid), "metaurl": self._url(resource.xid + "/meta", meta)}
        else:
            attributes = {name: value for name, value in resource.attributes.items() if not name.startswith("versions")}
            if schema:
                attributes |= document_member(resource, resource.default, self.flags, self.catalog.dialect)
        parts = [in_order(attributes)[1:-1]]
        if meta:
            included = [one.entity["versionid"] for one in members] if versions else []
            parts.append(keyed("meta") + in_order(self._meta(resource, included)))
        if "versionsurl" in resource.attributes and not (is_doc and resource.xref):
            url = self._url(resource.xid + "/versions", versions)
            if found.filters is not None and not self._is_within(versions):
                url = self.selection.url_of(url, below(found.filters, "versions"), "versionid", is_empty=not members)
            written = ((one.entity["versionid"], self._version(resource, one.entity, versions_schema)) for one in members)
            parts += self._collection("versions", url, len(members), written if versions else None)
        return _object(parts)

    def _meta(self, resource: Resource, included: Collection[str]) -> dict[str, Any]:
        """Give the meta entity; `included` are the Versions that are in the answer."""
        if not self.flags.doc:
            return resource.meta
        meta = resource.meta_in_document | {"self": relative(resource.xid + "/meta")}
        default = meta.get("defaultversionid")
        if default is not None and default in included:
            meta["defaultversionurl"] = relative(xid_of_version(resource.xid, default))
        return meta

    def _version(self, resource: Resource, version: dict[str, Any], has_schema: bool) -> bytes:
        shown = version
        if self.flags.doc:
            shown = shown | {"self": relative(version["xid"])}
        if has_schema:
            shown = shown | document_member(resource, version["versionid"], self.flags, self.catalog.dialect)
        return in_order(shown)

    def _url(self, path: str, is_included: bool) -> str:
        """Give the URL of a collection or entity; in the document view a reference, when it is in the answer."""
        return relative(path) if self._is_within(is_included) else ABSOLUTE + quoted(path)

    def _is_within(self, is_included: bool) -> bool:
        """Tell whether the URL of what is in the answer is a reference into it: in the document view."""
        return self.flags.doc and is_included

    def _collection(
        self, name: str, url: str, count: int, texts: Iterable[tuple[str, bytes]] | None, *, is_bare: bool = False
    ) -> list[bytes]:
        """Write a collection as what holds it has it: URL and count, unless it is bare, and the members that are inlined."""
        parts = [] if is_bare else [keyed(f"{name}url") + orjson.dumps(url), _counted(name, count)]
        if texts is not None:
            parts.append(keyed(name) + self._map(texts))
        return parts

    def _map(self, members: Iterable[tuple[str, bytes]]) -> bytes:
        parts = []
        for name, text in members:
            self.catalog.deadline.tick()
            part = keyed(name) + text
            self.bytes += len(part)
            if self.bytes > self.most_bytes:
                raise ProblemFound("too_large", detail="Ask for a collection, page by page with ?limit.")
            parts.append(part)
        self.bytes -= sum(map(len, parts))  # they are part of what holds them, and counted there
        return _object(parts)


def _sub(inline: Inline, name: str) -> Inline | None:
    """Give what is inlined below a member; None: it is not inlined itself."""
    if "*" in inline:
        return _ALL
    return inline.get(name)


def _counted(collection: str, count: int) -> bytes:
    return b'"%scount":%d' % (collection.encode(), count)


def _object(parts: list[bytes]) -> bytes:
    return b"{" + b",".join(part for part in parts if part) + b"}"
