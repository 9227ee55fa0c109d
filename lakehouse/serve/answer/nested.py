"""The text of an answer: an entity or a collection, with what is inlined, filtered, sorted and paged; documents of schemas.

Everything becomes JSON text as soon as it is known, in parts, so that a large answer is held once, and the text of a Resource is
made once for all clients. The document of a schema is downloaded with its metadata in `xRegistry-` headers, or is a member of its
metadata.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from typing import Any
from urllib.parse import quote

import orjson

from lakehouse.serve.answer.entityviews import ABSOLUTE, GroupView, ResourceView, SnapshotCatalog, keyed, relative
from lakehouse.serve.answer.exchange import PRINTABLE, ApiAnswer, ReadRequest, header_value
from lakehouse.serve.answer.queryparameters import (
    AdmittedEntity,
    Filters,
    Flags,
    Inline,
    MemberSelection,
    as_text,
    filters_below,
    id_of,
)
from lakehouse.serve.apierrors import RC4, ProblemFound
from lakehouse.serve.origins import as_attachment
from lakehouse.serve.targets import DETAILS, MEMBERS, quote_path
from lakehouse.text.jsontext import in_order
from lakehouse.text.xid import last_id, xid_of_version

_MOST_HEADER_BYTES = 6 << 10  # of all `xRegistry-` headers; with the others they stay below the 8 KiB of many proxies and servers
_MOST_HEADERS = 64  # Python's client takes 100 in all
_MOST_NAMED, _LONGEST_NAME = 10, 60  # of attributes that are left out
_LONGEST_MEDIA_TYPE = 256
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_SCHEMES_OF_THE_WEB = ("http:", "https:")
_TOKEN = re.compile(r"[A-Za-z0-9!#$&'*+.^_`|~-]+")
_ALL: Inline = {"*": {}}


def document_answer(request: ReadRequest, resource: ResourceView, versionid: str | None) -> ApiAnswer:
    """Answer with the document of a schema, its metadata in headers."""
    default = versionid or resource.default
    attributes = resource.attributes if versionid is None else resource.versions[versionid]
    answer = ApiAnswer(headers=_fitting(_headers(attributes, request)))
    if default is not None and versionid is None:
        answer.headers["Content-Location"] = header_value(version_url(request, resource, default))
    answer.headers["Content-Disposition"] = as_attachment(last_id(resource.xid))
    document = resource.documents.get(default or "")
    if document is not None:
        answer.body, answer.media_type = document.as_bytes(), _media_type(document.media_type)
        return answer
    elsewhere = attributes.get("schemaurl")
    contenttype = attributes.get("contenttype")
    answer.media_type = _media_type(contenttype) if isinstance(contenttype, str) else ""
    if isinstance(elsewhere, str) and elsewhere:
        answer.status, answer.headers["Location"] = 303, _location(elsewhere, request)
    return answer


def document_member(resource: ResourceView, versionid: str | None, flags: Flags, dialect: str) -> dict[str, Any]:
    """Return the document of a Version of a schema as a member of its metadata, where it is inlined; else nothing."""
    document = resource.documents.get(versionid or "")
    if document is not None:
        name, value = document.member(binary=flags.binary)
        return {name: value}
    is_elsewhere = versionid is None or resource.versions[versionid].get("schemaurl") is not None
    if is_elsewhere or flags.doc or dialect != RC4 or "schemaid" not in resource.ids:
        return {}
    return {"schemabase64": ""}


def _headers(attributes: dict[str, Any], request: ReadRequest) -> dict[str, str]:
    headers: dict[str, str] = {}
    for name, value in attributes.items():
        if name == "labels" and isinstance(value, dict):
            joint = "." if request.dialect == RC4 else "-"
            headers |= {
                f"xRegistry-labels{joint}{key}": header_value(label) for key, label in value.items() if _TOKEN.fullmatch(key)
            }
        elif name != "contenttype" and _TOKEN.fullmatch(name) and not isinstance(value, (dict, list)) and value is not None:
            text = as_text(value).replace(ABSOLUTE, request.api_request.base)
            headers[f"xRegistry-{name}"] = header_value(text.removesuffix(DETAILS) if name == "self" else text)
    return headers


def _fitting(headers: dict[str, str]) -> dict[str, str]:
    """Return headers without the longest ones, if all together exceed what clients and proxies accept; `$details` has them.

    Labels are there all or none: some of them would look like all, to who writes them back.
    """
    parts: dict[str, list[str]] = {}
    for name in headers:
        parts.setdefault("xRegistry-labels" if name.startswith("xRegistry-labels") else name, []).append(name)
    sizes = {part: sum(len(name) + len(headers[name]) + 4 for name in names) for part, names in parts.items()}
    fitting: set[str] = set()
    count = size = 0
    for part in sorted(parts, key=sizes.__getitem__):
        count, size = count + len(parts[part]), size + sizes[part]
        if count > _MOST_HEADERS or size > _MOST_HEADER_BYTES:
            break
        fitting.add(part)
    result = {name: headers[name] for part, names in parts.items() if part in fitting for name in names}
    omitted = [part.removeprefix("xRegistry-") for part in parts if part not in fitting]
    if omitted:
        more = [f"and {len(omitted) - _MOST_NAMED} more"] if len(omitted) > _MOST_NAMED else []
        result["Lakehouse-Omitted"] = ", ".join([*(name[:_LONGEST_NAME] for name in omitted[:_MOST_NAMED]), *more])
    return result


def _media_type(text: str) -> str:
    """Return a media type as a header; one without measure, which no client takes, is that of bytes."""
    value = header_value(text, keep=" ")
    return value if len(value) <= _LONGEST_MEDIA_TYPE else "application/octet-stream"


def _location(elsewhere: str, request: ReadRequest) -> str:
    """Return where a client is led: a reference or an URL of the web, and nothing that a browser would run or open itself.

    Raises:
        ProblemFound: it is not led there.
    """
    location = quote(elsewhere, safe=PRINTABLE + "%")
    scheme = _SCHEME.match(location)
    if (scheme is None or scheme[0].lower() in _SCHEMES_OF_THE_WEB) and len(location) <= _MOST_HEADER_BYTES:
        return location
    reason = "no http or https URL" if len(location) <= _MOST_HEADER_BYTES else "too long for a header"
    detail = f"Its document is elsewhere, and `schemaurl` is {reason}, so nobody is led there. Read it at $details."
    raise ProblemFound("not_found", request.api_request.target.path, detail)


def version_url(request: ReadRequest, resource: ResourceView, versionid: str) -> str:
    """Return the URL of a Version, of its document where it has one."""
    return f"{request.api_request.base}{quote_path(resource.xid)}/versions/{quote_path(versionid)}"


class Answers:
    """Puts answers together for one request."""

    def __init__(
        self, catalog: SnapshotCatalog, flags: Flags, base: str, configuration: dict[str, Callable[[], bytes]], most_bytes: int
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
        self.selection = MemberSelection(catalog, flags, base)

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
            api_request = None if filters is None else filters_below(filters, collection)
            parts += self._collection_of_groups(collection, api_request, _sub(self.flags.inline, collection))
        return _object(parts)

    def groups(self, collection: str, choose: Callable[[list[AdmittedEntity]], list[AdmittedEntity]]) -> bytes:
        """Answer with a collection of Groups; `choose` sorts and cuts out the page."""
        results = choose(self.selection.groups(collection, self.selection.filters))
        return self._map((group.entity.id, self._group(group, self.flags.inline)) for group in results)

    def group(self, group: GroupView) -> bytes:
        """Answer with a Group."""
        filters = self.selection.own(group, group.xid)
        return self._group(AdmittedEntity(group, filters), self.flags.inline, is_top=True)

    def resources(self, group: GroupView, choose: Callable[[list[Any]], list[Any]]) -> bytes:
        """Answer with the members of a Group; `choose` sorts and cuts out the page."""
        api_request = self.selection.filters
        if api_request is None and self.flags.sort is None:
            chosen = self.catalog.resources(group, choose(self.catalog.entries(group.xid)))
            results = [AdmittedEntity(resource, None) for resource in chosen]
        else:
            results = choose(self.selection.resources(group, api_request))
        return self._map((id_of(result.entity), self.resource_text(result, self.flags.inline)) for result in results)

    def resource(self, resource: ResourceView) -> bytes:
        """Answer with a Resource as metadata."""
        filters = self.selection.own(resource, resource.xid)
        members = None if filters is None else self.selection.versions(resource, filters_below(filters, "versions"))
        return self.resource_text(AdmittedEntity(resource, filters, members), self.flags.inline)

    def meta(self, resource: ResourceView) -> bytes:
        """Answer with the meta entity of a Resource."""
        self.selection.own(resource.meta, resource.xid + "/meta")
        return in_order(self._meta(resource, ()))

    def versions(self, resource: ResourceView, choose: Callable[[list[AdmittedEntity]], list[AdmittedEntity]]) -> bytes:
        """Answer with the Versions of a Resource; `choose` sorts and cuts out the page."""
        results = choose(self.selection.versions(resource, self.selection.filters))
        inlined = _sub(self.flags.inline, "schema") is not None
        return self._map((version.entity["versionid"], self._version(resource, version.entity, inlined)) for version in results)

    def version(self, resource: ResourceView, versionid: str) -> bytes:
        """Answer with a Version as metadata."""
        version = resource.versions[versionid]
        self.selection.own(version, version["xid"])
        return self._version(resource, version, _sub(self.flags.inline, "schema") is not None)

    # Text

    def _collection_of_groups(self, collection: str, filters: Filters, inline: Inline | None) -> list[bytes]:
        is_filtered = filters is not None
        results = self.selection.groups(collection, filters) if is_filtered or inline is not None else None
        count = len(self.catalog.ids_of_groups(collection)) if results is None else len(results)
        url = self._url(f"/{collection}", inline is not None)
        if (is_filtered or self.flags.filters) and not self._is_within(inline is not None):
            url = self.selection.url_of(url, filters, f"{collection[:-1]}id", is_empty=not count)
        texts = None if inline is None else ((group.entity.id, self._group(group, inline)) for group in results or [])
        return self._collection(collection, url, count, texts, is_bare=self.flags.collections)

    def _group(self, result: AdmittedEntity, inline: Inline, *, is_top: bool = False) -> bytes:
        group: GroupView = result.entity
        is_bare = is_top and self.flags.collections
        attributes = group.attributes
        if self.flags.doc:
            attributes = attributes | {"self": relative(group.xid)}
        parts = [] if is_bare else [in_order(attributes)[1:-1]]
        inner = _sub(inline, group.members)
        api_request = None if result.filters is None else filters_below(result.filters, group.members)
        members = result.members
        if members is None and (inner is not None or api_request is not None):
            members = self.selection.resources(group, api_request)
        count = len(self.catalog.entries(group.xid)) if members is None else len(members)
        url = self._url(f"{group.xid}/{group.members}", inner is not None)
        if api_request is not None and not self._is_within(inner is not None):
            url = self.selection.url_of(url, api_request, f"{group.members[:-1]}id", is_empty=not count)
        texts = None if inner is None else ((id_of(member.entity), self.resource_text(member, inner)) for member in members or [])
        return _object(parts + self._collection(group.members, url, count, texts, is_bare=is_bare))

    def resource_text(self, result: AdmittedEntity, inline: Inline) -> bytes:
        """Write a Resource; what no filter cuts down is written once for all requests."""
        resource: ResourceView = result.entity
        inlined = {name: _sub(inline, name) for name in ("meta", "versions", "schema")}
        inner = inlined["versions"]
        has_schema = inner is not None and _sub(inner, "schema") is not None
        shape = (self.flags.doc, self.flags.binary, *(texts is not None for texts in inlined.values()), has_schema)
        if result.filters is not None:
            return self._resource(result, *shape[2:])
        text = resource.texts.get(shape)
        if text is None:
            text = resource.texts[shape] = self._resource(result, *shape[2:])
        return text

    def _resource(self, result: AdmittedEntity, meta: bool, versions: bool, schema: bool, versions_schema: bool) -> bytes:
        resource: ResourceView = result.entity
        members = result.members
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
            included = [member.entity["versionid"] for member in members] if versions else []
            parts.append(keyed("meta") + in_order(self._meta(resource, included)))
        if "versionsurl" in resource.attributes and not (is_doc and resource.xref):
            url = self._url(resource.xid + "/versions", versions)
            if result.filters is not None and not self._is_within(versions):
                url = self.selection.url_of(url, filters_below(result.filters, "versions"), "versionid", is_empty=not members)
            written = (
                (member.entity["versionid"], self._version(resource, member.entity, versions_schema)) for member in members
            )
            parts += self._collection("versions", url, len(members), written if versions else None)
        return _object(parts)

    def _meta(self, resource: ResourceView, included: Collection[str]) -> dict[str, Any]:
        """Return the meta entity; `included` are the Versions that are in the answer."""
        if not self.flags.doc:
            return resource.meta
        meta = resource.meta_in_document | {"self": relative(resource.xid + "/meta")}
        default = meta.get("defaultversionid")
        if default is not None and default in included:
            meta["defaultversionurl"] = relative(xid_of_version(resource.xid, default))
        return meta

    def _version(self, resource: ResourceView, version: dict[str, Any], has_schema: bool) -> bytes:
        shown = version
        if self.flags.doc:
            shown = shown | {"self": relative(version["xid"])}
        if has_schema:
            shown = shown | document_member(resource, version["versionid"], self.flags, self.catalog.dialect)
        return in_order(shown)

    def _url(self, path: str, is_included: bool) -> str:
        """Return the URL of a collection or entity; in the document view a reference, when it is in the answer."""
        return relative(path) if self._is_within(is_included) else ABSOLUTE + quote_path(path)

    def _is_within(self, is_included: bool) -> bool:
        """Return whether the URL of what is in the answer is a reference into it: in the document view."""
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
    """Return what is inlined below a member; None: it is not inlined itself."""
    if "*" in inline:
        return _ALL
    return inline.get(name)


def _counted(collection: str, count: int) -> bytes:
    return b'"%scount":%d' % (collection.encode(), count)


def _object(parts: list[bytes]) -> bytes:
    return b"{" + b",".join(part for part in parts if part) + b"}"
