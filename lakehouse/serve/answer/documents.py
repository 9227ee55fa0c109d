"""The document of a schema: as it is downloaded, with its metadata in `xRegistry-` headers, and as a member of its metadata."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote

from lakehouse.serve.answer.asking import PRINTABLE, Answer, Request, header_value
from lakehouse.serve.answer.entities import ABSOLUTE, Resource
from lakehouse.serve.answer.filters import as_text
from lakehouse.serve.answer.flags import Flags
from lakehouse.serve.problems import RC4
from lakehouse.serve.protection import as_attachment
from lakehouse.serve.requests import DETAILS, quoted

_TOKEN = re.compile(r"[A-Za-z0-9!#$&'*+.^_`|~-]+")


def document_answer(request: Request, resource: Resource, versionid: str | None) -> Answer:
    """Answer with the document of a schema, its metadata in headers."""
    default = versionid or resource.default
    attributes = resource.attributes if versionid is None else resource.versions[versionid]
    answer = Answer(headers=_headers(attributes, request))
    if default is not None and versionid is None:
        answer.headers["Content-Location"] = header_value(version_url(request, resource, default))
    answer.headers["Content-Disposition"] = as_attachment(resource.xid.rsplit("/", 1)[1])
    document = resource.documents.get(default or "")
    if document is not None:
        answer.body, answer.media_type = document.as_bytes(), header_value(document.media_type, keep=" ")
        return answer
    elsewhere = attributes.get("schemaurl")
    contenttype = attributes.get("contenttype")
    answer.media_type = header_value(contenttype, keep=" ") if isinstance(contenttype, str) else ""
    if isinstance(elsewhere, str) and elsewhere:
        answer.status, answer.headers["Location"] = 303, quote(elsewhere, safe=PRINTABLE + "%")
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


def version_url(request: Request, resource: Resource, versionid: str) -> str:
    """Give the URL of a Version, of its document where it has one."""
    return f"{request.asked.base}{quoted(resource.xid)}/versions/{quoted(versionid)}"
