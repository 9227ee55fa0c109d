"""Answers are put together: an entity or a collection, with what is inlined, filtered, sorted and paged.

Everything becomes JSON text as soon as it is known, in parts, so that a large answer is held once, and the text of a Resource is
made once for all who ask.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

import orjson

from lakehouse.serve.answer.catalog import Catalog
from lakehouse.serve.answer.entities import ABSOLUTE, Group, Resource, keyed, relative
from lakehouse.serve.answer.filters import Filter, admitted, as_query, below, values_at
from lakehouse.serve.answer.flags import Flags, Inline
from lakehouse.serve.problems import RC4, ProblemFound
from lakehouse.serve.requests import MEMBERS, quoted
from lakehouse.text.jsontext import in_order

Filters = list[Filter] | None  # None: everything is admitted
_ALL: Inline = {"*": {}}


class Found(NamedTuple):
    """An entity that filters admit, what they ask of what it holds, and which of that is admitted (None: not asked yet)."""

    entity: Any
    filters: Filters
    members: list[Found] | None = None


class Answers:
    """Puts answers together for one request."""

    def __init__(self, catalog: Catalog, flags: Flags, configuration: dict[str, Callable[[], bytes]], most_bytes: int) -> None:
        """Prepare.

        Args:
            catalog: the registry at the snapshot.
            flags: of the request.
            configuration: `capabilities`, `model`, `modelsource` as text.
            most_bytes: of the answer.
        """
        self.catalog = catalog
        self.flags = flags
        self.configuration = configuration
        self.most_bytes = most_bytes
        self.bytes = 0
        self.is_rc4 = catalog.dialect == RC4

    # What is asked for

    def registry(self) -> bytes:
        """Answer with the registry."""
        attributes = self.catalog.registry()
        filters = self._own(attributes, "/")
        if self.flags.doc:
            attributes = attributes | {"self": relative("/")[:-1]}
        parts = [] if self.flags.collections else [in_order(attributes)[1:-1]]
        for name, text in self.configuration.items():
            if name in self.flags.inline:
                parts.append(keyed(name) + text())
        for collection in sorted(MEMBERS):
            asked = None if filters is None else below(filters, collection)
            parts += self._collection_of_groups(collection, asked, _sub(self.flags.inline, collection))
        return _object(parts)

    def groups(self, collection: str, choose: Callable[[list[Found]], list[Found]]) -> bytes:
        """Answer with a collection of Groups; `choose` sorts and cuts out the page."""
        found = choose(self._found_groups(collection, self._asked()))
        return self._map((one.entity.id, self._group(one, self.flags.inline)) for one in found)

    def group(self, group: Group) -> bytes:
        """Answer with a Group."""
        filters = self._own(group.attributes, group.xid)
        return self._group(Found(group, filters), self.flags.inline, is_top=True)

    def resources(self, group: Group, choose: Callable[[list[Any]], list[Any]]) -> bytes:
        """Answer with the members of a Group; `choose` sorts and cuts out the page."""
        asked = self._asked()
        if asked is None and self.flags.sort is None:
            chosen = self.catalog.resources(group, choose(self.catalog.entries(group.xid)))
            found = [Found(one, None) for one in chosen]
        else:
            found = choose(self._found_resources(group, asked))
        return self._map((_id(one.entity), self.resource_text(one, self.flags.inline)) for one in found)

    def resource(self, resource: Resource) -> bytes:
        """Answer with a Resource as metadata."""
        filters = self._own(resource.shown, resource.xid)
        members = None if filters is None else self._found_versions(resource, below(filters, "versions"))
        return self.resource_text(Found(resource, filters, members), self.flags.inline)

    def meta(self, resource: Resource) -> bytes:
        """Answer with the meta entity of a Resource."""
        self._own(resource.meta, resource.xid + "/meta")
        return in_order(self._meta(resource, has_versions=False))

    def versions(self, resource: Resource, choose: Callable[[list[Found]], list[Found]]) -> bytes:
        """Answer with the Versions of a Resource; `choose` sorts and cuts out the page."""
        found = choose(self._found_versions(resource, self._asked()))
        inlined = _sub(self.flags.inline, "schema") is not None
        return self._map((one.entity["versionid"], self._version(resource, one.entity, inlined)) for one in found)

    def version(self, resource: Resource, versionid: str) -> bytes:
        """Answer with a Version as metadata."""
        version = resource.versions[versionid]
        self._own(version, version["xid"])
        return self._version(resource, version, _sub(self.flags.inline, "schema") is not None)

    # Filters

    def _asked(self) -> Filters:
        if self.flags.excludes_all:
            return []
        return self.flags.filters or None

    def _own(self, attributes: dict[str, Any], xid: str) -> Filters:
        """Ask the entity of the request itself.

        Raises:
            ProblemFound: the filters do not admit it.
        """
        is_admitted, left = _ask(attributes, self._asked())
        if not is_admitted:
            raise ProblemFound("not_found", xid)
        return left

    def _found_groups(self, collection: str, filters: Filters) -> list[Found]:
        if filters == []:
            return []
        found = []
        for group in self.catalog.groups(collection):
            self.catalog.deadline.tick()
            is_admitted, left = _ask(group.attributes, filters)
            members = None
            if is_admitted and left is not None:
                members = self._found_resources(group, below(left, group.members))
                is_admitted = bool(members)
            if is_admitted:
                found.append(Found(group, left, members))
        return found

    def _found_resources(self, group: Group, filters: Filters) -> list[Found]:
        if filters == []:
            return []
        found = []
        for resource in self.catalog.resources(group):
            self.catalog.deadline.tick()
            is_admitted, left = _ask(resource.shown, filters)
            versions = None
            if is_admitted and left is not None:
                versions = self._found_versions(resource, below(left, "versions"))
                is_admitted = bool(versions)
            if is_admitted:
                found.append(Found(resource, left, versions))
        return found

    def _found_versions(self, resource: Resource, filters: Filters) -> list[Found]:
        if filters == []:
            return []
        return [Found(version, None) for version in resource.versions.values() if _ask(version, filters)[0]]

    def _with_filter(self, url: str, filters: Filters, key: str, *, is_empty: bool) -> str:
        """Give the URL of a collection with what filters ask of it."""
        if filters is None and not is_empty:
            return url
        if is_empty:
            if filters is None and not self.flags.filters:
                return url
            asked = ["excludeall" if self.is_rc4 else f"{key}=null"]
        else:
            asked = as_query(filters or [])
        return url + "?" + "&".join("filter=" + quote(one, safe="=,.*:/") for one in asked)

    # Text

    def _collection_of_groups(self, collection: str, filters: Filters, inline: Inline | None) -> list[bytes]:
        is_asked = filters is not None
        found = self._found_groups(collection, filters) if is_asked or inline is not None else None
        count = len(self.catalog.ids_of_groups(collection)) if found is None else len(found)
        url = self._url(f"/{collection}", inline is not None)
        if is_asked or self.flags.filters:
            url = self._with_filter(url, filters, f"{collection[:-1]}id", is_empty=not count)
        parts = [] if self.flags.collections else [keyed(f"{collection}url") + orjson.dumps(url), _counted(collection, count)]
        if inline is not None:
            texts = self._map((one.entity.id, self._group(one, inline)) for one in found or [])
            parts.append(keyed(collection) + texts)
        return parts

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
            members = self._found_resources(group, asked)
        count = len(self.catalog.entries(group.xid)) if members is None else len(members)
        url = self._url(f"{group.xid}/{group.members}", inner is not None)
        if asked is not None:
            url = self._with_filter(url, asked, f"{group.members[:-1]}id", is_empty=not count)
        if not is_bare:
            parts += [keyed(f"{group.members}url") + orjson.dumps(url), _counted(group.members, count)]
        if inner is not None:
            texts = self._map((_id(one.entity), self.resource_text(one, inner)) for one in members or [])
            parts.append(keyed(group.members) + texts)
        return _object(parts)

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
            members = self._found_versions(resource, None)
        is_doc = self.flags.doc
        if is_doc:
            attributes = resource.ids | {"self": relative(resource.xid), "metaurl": self._url(resource.xid + "/meta", meta)}
        else:
            attributes = {name: value for name, value in resource.attributes.items() if not name.startswith("versions")}
            if schema:
                attributes |= self._document(resource, resource.default)
        parts = [in_order(attributes)[1:-1]]
        if meta:
            parts.append(keyed("meta") + in_order(self._meta(resource, has_versions=versions)))
        if "versionsurl" in resource.attributes and not (is_doc and resource.xref):
            url = self._url(resource.xid + "/versions", versions)
            if found.filters is not None:
                url = self._with_filter(url, below(found.filters, "versions"), "versionid", is_empty=not members)
            parts += [keyed("versionsurl") + orjson.dumps(url), _counted("versions", len(members))]
            if versions:
                texts = self._map(
                    (one.entity["versionid"], self._version(resource, one.entity, versions_schema)) for one in members
                )
                parts.append(keyed("versions") + texts)
        return _object(parts)

    def _meta(self, resource: Resource, *, has_versions: bool) -> dict[str, Any]:
        if not self.flags.doc:
            return resource.meta
        meta = resource.meta_in_document | {"self": relative(resource.xid + "/meta")}
        default = meta.get("defaultversionid")
        if "defaultversionurl" in meta and default is not None:
            meta["defaultversionurl"] = self._url(f"{resource.xid}/versions/{default}", has_versions)
        return meta

    def _version(self, resource: Resource, version: dict[str, Any], has_schema: bool) -> bytes:
        shown = version
        if self.flags.doc:
            shown = shown | {"self": relative(version["xid"])}
        if has_schema:
            shown = shown | self._document(resource, version["versionid"])
        return in_order(shown)

    def _document(self, resource: Resource, versionid: str | None) -> dict[str, Any]:
        """Give the document of a schema as a member of its metadata."""
        document = resource.documents.get(versionid or "")
        if document is not None:
            name, value = document.member(binary=self.flags.binary)
            return {name: value}
        is_elsewhere = versionid is None or resource.versions[versionid].get("schemaurl") is not None
        if is_elsewhere or self.flags.doc or not self.is_rc4 or "schemaid" not in resource.ids:
            return {}
        return {"schemabase64": ""}

    def _url(self, xid: str, is_included: bool) -> str:
        """Give the URL of a collection or entity; in the document view a reference, when it is in the answer."""
        return relative(xid) if self.flags.doc and is_included else ABSOLUTE + quoted(xid)

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


def sorted_by(found: Sequence[Found], sort: tuple[str, bool], steps: tuple[Any, ...]) -> list[Found]:
    """Sort entities by an attribute, those without it first, then by id; all the other way round where `sort` says so."""

    def key(one: Found) -> tuple[Any, ...]:
        attributes = _attributes(one.entity)
        values = [value for value in values_at(attributes, steps) if not isinstance(value, (dict, list))]
        return (_rank(values[0]) if values else (0, 0), _id(one.entity))

    return sorted(found, key=key, reverse=sort[1])


def _rank(value: Any) -> tuple[int, Any]:
    if isinstance(value, bool):
        return 1, value
    if isinstance(value, str):
        return 3, value.casefold()
    return 2, float(value)


def _ask(entity: dict[str, Any], filters: Filters) -> tuple[bool, Filters]:
    """Ask an entity: is it admitted, and what is asked of what it holds (None: nothing more)."""
    if filters is None:
        return True, None
    left = admitted(entity, filters)
    if any(not one for one in left):
        return True, None
    return bool(left), left


def _attributes(entity: Any) -> dict[str, Any]:
    if isinstance(entity, Resource):
        return entity.shown
    attributes: dict[str, Any] = entity.attributes if isinstance(entity, Group) else entity
    return attributes


def _id(entity: Any) -> str:
    if isinstance(entity, dict):
        return str(entity["versionid"])
    xid: str = entity.xid
    return xid.rsplit("/", 1)[1]


def _sub(inline: Inline, name: str) -> Inline | None:
    """Give what is inlined below a member; None: it is not inlined itself."""
    if "*" in inline:
        return _ALL
    return inline.get(name)


def _counted(collection: str, count: int) -> bytes:
    return b'"%scount":%d' % (collection.encode(), count)


def _object(parts: list[bytes]) -> bytes:
    return b"{" + b",".join(part for part in parts if part) + b"}"
