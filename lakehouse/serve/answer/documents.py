"""The document of a schema: as it is downloaded, with its metadata in `xRegistry-` headers, and as a member of its metadata."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote

from lakehouse.serve.answer.asking import PRINTABLE, Answer, Request, header_value
from lakehouse.serve.answer.entities import ABSOLUTE, Resource
from lakehouse.serve.answer.filters import as_text
from lakehouse.serve.answer.flags import Flags
from lakehouse.serve.problems import RC4, ProblemFound
from lakehouse.serve.protection import as_attachment
from lakehouse.serve.requests import DETAILS, quoted
from lakehouse.text.xid import last_id

_MOST_HEADER_BYTES = 6 << 10  # of all `xRegistry-` headers; with the others they stay below the 8 KiB of many proxies and servers
_MOST_HEADERS = 64  # Python's client takes 100 in all
_MOST_NAMED, _LONGEST_NAME = 10, 60  # of attributes that are left out
_LONGEST_MEDIA_TYPE = 256
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_SCHEMES_OF_THE_WEB = ("http:", "https:")
_TOKEN = re.compile(r"[A-Za-z0-9!#$&'*+.^_`|~-]+")


def document_answer(request: Request, resource: Resource, versionid: str | None) -> Answer:
    """Answer with the document of a schema, its metadata in headers."""
    default = versionid or resource.default
    attributes = resource.attributes if versionid is None else resource.versions[versionid]
    answer = Answer(headers=_fitting(_headers(attributes, request)))
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


def document_member(resource: Resource, versionid: str | None, flags: Flags, dialect: str) -> dict[str, Any]:
    """Give the document of a Version of a schema as a member of its metadata, where it is inlined; else nothing."""
    document = resource.documents.get(versionid or "")
    if document is not None:
        name, value = document.member(binary=flags.binary)
        return {name: value}
    is_elsewhere = versionid is None or resource.versions[versionid].get("schemaurl") is not None
    if is_elsewhere or flags.doc or dialect != RC4 or "schemaid" not in resource.ids:
        return {}
    return {"schemabase64": ""}


def _headers(attributes: dict[str, Any], request: Request) -> dict[str, str]:
    headers: dict[str, str] = {}
    for name, value in attributes.items():
        if name == "labels" and isinstance(value, dict):
            joint = "." if request.dialect == RC4 else "-"
            headers |= {f"xRegistry-labels{joint}{key}": header_value(one) for key, one in value.items() if _TOKEN.fullmatch(key)}
        elif name != "contenttype" and _TOKEN.fullmatch(name) and not isinstance(value, (dict, list)) and value is not None:
            text = as_text(value).replace(ABSOLUTE, request.asked.base)
            headers[f"xRegistry-{name}"] = header_value(text.removesuffix(DETAILS) if name == "self" else text)
    return headers


def _fitting(headers: dict[str, str]) -> dict[str, str]:
    """Leave out the longest headers where all together are more than clients and proxies take; `$details` has them.

    Labels are there all or none: some of them would look like all, to who writes them back.
    """
    parts: dict[str, list[str]] = {}
    for name in headers:
        parts.setdefault("xRegistry-labels" if name.startswith("xRegistry-labels") else name, []).append(name)
    sizes = {part: sum(len(name) + len(headers[name]) + 4 for name in names) for part, names in parts.items()}
    kept: set[str] = set()
    count = size = 0
    for part in sorted(parts, key=sizes.__getitem__):
        count, size = count + len(parts[part]), size + sizes[part]
        if count > _MOST_HEADERS or size > _MOST_HEADER_BYTES:
            break
        kept.add(part)
    found = {name: headers[name] for part, names in parts.items() if part in kept for name in names}
    omitted = [part.removeprefix("xRegistry-") for part in parts if part not in kept]
    if omitted:
        more = [f"and {len(omitted) - _MOST_NAMED} more"] if len(omitted) > _MOST_NAMED else []
        found["Lakehouse-Omitted"] = ", ".join([*(name[:_LONGEST_NAME] for name in omitted[:_MOST_NAMED]), *more])
    return found


def _media_type(text: str) -> str:
    """Return a media type as a header; one without measure, which no client takes, is that of bytes."""
    value = header_value(text, keep=" ")
    return value if len(value) <= _LONGEST_MEDIA_TYPE else "application/octet-stream"


def _location(elsewhere: str, request: Request) -> str:
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
    raise ProblemFound("not_found", request.asked.target.path, detail)


def version_url(request: Request, resource: Resource, versionid: str) -> str:
    """Give the URL of a Version, of its document where it has one."""
    return f"{request.asked.base}{quoted(resource.xid)}/versions/{quoted(versionid)}"
