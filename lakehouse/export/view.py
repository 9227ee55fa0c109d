"""An entity's rows become its JSON in the document view of 1.0-rc2: the normal form with what a registry computes.

Runs on the executors; pure. A message shows the attributes of its default Version, `meta` and `versions` (MSG-070). URLs are
references into the document (`#/messagegroups/g`), or absolute ones below a base. Declarations of protocols other than AMQP
that hold nothing but a value are written as that value (requirements.md 15). `docs/export.md` shows what differs from a source.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache, lru_cache
from typing import Any, NamedTuple

import orjson

from lakehouse.dialects.tables import FAMILIES, NORMAL, family_of, table
from lakehouse.text.jsontext import in_order, read_canonical
from lakehouse.text.names import REGISTRY, JsonText, Pointer, RegistryId, Xid
from lakehouse.text.timestamps import microseconds, rfc3339
from lakehouse.text.xid import last_id, xid_of

MEMBERS = {"messagegroups": "messages", "endpoints": "messages", "schemagroups": "schemas"}
COLLECTIONS = tuple(sorted(MEMBERS))
_NOT_SHOWN = ("isdefault", "deprecated")  # of the default Version at the message, whose own `deprecated` is in `meta`
_DATES = ("createdat", "modifiedat")


class Stored(NamedTuple):
    """A row of the log: dates in microseconds since 1970; raw may be left out where nothing of it is needed."""

    registryid: RegistryId
    kind: str
    xid: Xid
    epoch: int | None
    createdat: int | None
    modifiedat: int | None
    body: JsonText
    raw: JsonText | None
    flat_attributes: list[tuple[Pointer, JsonText]] | None = None  # of a flattened definition, which stands for `body`
    is_of_documents: bool = False  # so that no client changes it


class Urls(NamedTuple):
    """How entities are addressed: below `base`, or in the document."""

    base: str | None = None

    def url_of(self, *tokens: str) -> str:
        """Return the URL of an entity or collection."""
        return self.below(xid_of(*tokens)) if tokens else self.base or "#"

    def below(self, xid: Xid) -> str:
        """Return the URL of an XID."""
        if self.base is not None:
            return self.base.rstrip("/") + xid
        return "#" + (xid.replace("~", "~0") if "~" in xid else xid)  # of what a JSON Pointer escapes, ids may hold `~` only


def registry_view(registryid: RegistryId, row: Stored | None, lived: tuple[int, int], urls: Urls) -> dict[str, Any]:
    """Return a registry's own attributes.

    Args:
        registryid: the registry.
        row: its row; None when its documents' own attributes were refused.
        lived: the first createdat and the last modifiedat of its entities, for a registry without a row.
        urls: how entities are addressed.
    """
    row = row or Stored(registryid, "registry", REGISTRY, 1, *lived, JsonText("{}"), None)
    attributes = _attributes(row.body)
    head = {"specversion": attributes.pop("specversion", NORMAL), "registryid": registryid, "self": urls.url_of(), "xid": "/"}
    return head | _life(row, (row,)) | attributes


def group_view(xid: Xid, row: Stored | None, urls: Urls) -> dict[str, Any]:
    """Return the own attributes of a group or endpoint; only its ids if it has no row, because only its members remain."""
    collection, groupid = xid[1:].split("/")
    ids = {f"{collection[:-1]}id": groupid, "self": urls.url_of(collection, groupid), "xid": xid}
    return ids if row is None else ids | _life(row, (row,)) | _attributes(row.body)


def resource_view(
    xid: Xid, row: Stored | None, versions: list[Stored], group_protocol: str | None, urls: Urls, *, bare: bool = True
) -> dict[str, Any]:
    """Return a message or schema with its meta object and its Versions.

    Args:
        xid: of the message or schema.
        row: its row; None when it was pruned and its Versions were not.
        versions: rows of its Versions, in the order in which they are written.
        group_protocol: protocol of the group.
        urls: how entities are addressed.
        bare: write declarations that hold nothing but a value as that value.
    """
    tokens = xid[1:].split("/")
    singular = tokens[2][:-1]
    ids = {f"{singular}id": tokens[3]}
    own = {} if row is None else _attributes(row.body)
    if versions and versions[0].flat_attributes is not None:  # flattened: it has one definition, whatever it stands for
        own = {name: value for name, value in own.items() if name != "xref"} | {"defaultversionid": last_id(versions[0].xid)}
    texts = (*versions, row) if row else versions
    here = urls.below(xid)
    meta: dict[str, Any] = ids | {"self": here + "/meta", "xid": xid + "/meta"}
    if row is not None:
        meta |= _life(row, texts) | own
    metaurl = {"metaurl": here + "/meta"}
    if own.get("xref") is not None and not versions:
        return ids | {"self": here, "xid": xid} | metaurl | {"meta": meta}
    written = {last_id(version.xid): _version(version, row) for version in versions}
    if singular == "message" and bare:
        _collapse(written.values(), group_protocol)
    default = own.get("defaultversionid")
    view: dict[str, Any] = ids | ({} if default is None else {"versionid": default}) | {"self": here, "xid": xid}
    if default in written:
        shown = written[default]
        view |= shown
        for name in _NOT_SHOWN:
            if name in shown:
                del view[name]
        if None in shown.values():
            view = {name: value for name, value in view.items() if value is not None}
        meta["defaultversionurl"] = f"{here}/versions/{default}"
    addressed = {}
    for versionid, attributes in written.items():
        at = f"/versions/{versionid}"
        addressed[versionid] = ids | {"versionid": versionid, "self": here + at, "xid": xid + at} | attributes
    view["metaurl"] = here + "/meta"
    view |= {"meta": meta, "versionsurl": here + "/versions", "versions": addressed, "versionscount": len(versions)}
    return view


def source_of_group(row: Stored | None) -> bytes:
    """Return the own attributes of a registry, group or endpoint as written."""
    return b"{}" if row is None else _raw(row).encode()


def source_of_resource(row: Stored | None, versions: list[Stored]) -> bytes:
    """Return a message or schema as written; without `versions` it is the same object as its only Version."""
    if row is not None and not versions:
        return _raw(row).encode()
    if len(versions) == 1 and (row is None or row.raw is None) and _declared_version(versions[0]) == last_id(versions[0].xid):
        return _raw(versions[0]).encode()
    inner = b",".join(orjson.dumps(last_id(version.xid)) + b":" + _raw(version).encode() for version in versions)
    return with_member(b"{}" if row is None else _raw(row).encode(), "versions", b"{" + inner + b"}")


def with_member(text: bytes, key: str, value: bytes) -> bytes:
    """Append a member to the text of an object."""
    comma = b"" if text == b"{}" else b","
    return text[:-1] + comma + orjson.dumps(key) + b":" + value + b"}"


def as_bytes(view: dict[str, Any]) -> bytes:
    """Write a view; its keys keep their order."""
    return in_order(view)


def nested(flat_attributes: Iterable[tuple[Pointer, JsonText]]) -> dict[str, Any]:
    """Turn flat attributes (JSON Pointer, JSON text) back into the object that they came from."""
    root: dict[str, Any] = {}
    for pointer, text in sorted(flat_attributes):
        *parents, last = (token.replace("~1", "/").replace("~0", "~") for token in pointer[1:].split("/"))
        place = root
        for token in parents:
            place = place.setdefault(token, {})
        place[last] = read_canonical(text)
    return root


def _attributes(body: JsonText) -> dict[str, Any]:
    """Return the attributes of a body, with the unknown ones last."""
    attributes: dict[str, Any] = read_canonical(body)
    unknown: dict[str, Any] = attributes.pop("extensions", {})
    return attributes | unknown


def _version(row: Stored, resource: Stored | None) -> dict[str, Any]:
    if row.flat_attributes is None:
        attributes = _attributes(row.body)
    else:
        attributes = {"ancestor": last_id(row.xid), "isdefault": True} | nested(row.flat_attributes)
    return _life(row, (row,) if resource is None else (row, resource)) | attributes


def _life(row: Stored, written_in: Iterable[Stored]) -> dict[str, Any]:
    """Return epoch and dates; a date as it was written, unless that was without a time zone (decision 10)."""
    life: dict[str, Any] = {} if row.epoch is None else {"epoch": row.epoch}
    written_in = [row_with_raw for row_with_raw in written_in if row_with_raw.raw is not None]
    for name, moment in zip(_DATES, (row.createdat, row.modifiedat), strict=True):
        if moment is not None:
            life[name] = _spelled(name, moment, written_in) if written_in else _text(moment)
    return life


def _spelled(name: str, moment: int, written_in: Iterable[Stored]) -> str:
    for row in written_in:
        if row.raw is not None and f'{name}"' in row.raw:
            written = orjson.loads(row.raw)
            meta = written.get("meta")
            for members in (written, meta if isinstance(meta, dict) else {}):
                text = members.get(name)
                if isinstance(text, str) and _means(text) == (moment, True):
                    return text
    return _text(moment)


@lru_cache(maxsize=10_000)
def _means(text: str) -> tuple[int, bool] | None:
    try:
        return microseconds(text)
    except ValueError:
        return None


@lru_cache(maxsize=10_000)
def _text(moment: int) -> str:
    return rfc3339(moment)


def _collapse(versions: Iterable[dict[str, Any]], group_protocol: str | None) -> None:
    """Write declarations in `protocoloptions` that hold a value only as that value, where they are read back as what they are.

    That is: under its own protocol, or the group's when no Version of the message names one.
    """
    every = list(versions)
    inherited = family_of(group_protocol) if not any("protocol" in version for version in every) else None
    for version in every:
        options = version.get("protocoloptions")
        family = family_of(version.get("protocol")) or inherited
        if isinstance(options, dict) and family in FAMILIES and family != "AMQP":
            types = _option_types(family)
            version["protocoloptions"] = {name: _collapsed(types.get(name), option) for name, option in options.items()}


@cache
def _option_types(family: str) -> dict[str, str]:
    rows = (row for row in table() if (row["entity"], row["place"], row["protocol"]) == ("message", "protocoloptions", family))
    return {row["name"]: row["type"] for row in rows}


def _collapsed(kind: str | None, option: Any) -> Any:
    if kind == "declaration":
        return _bare(option)
    if kind == "namedvalues" and isinstance(option, dict):
        bare = {name: _bare(declaration) for name, declaration in option.items()}
        # Headers named `type` and `properties` would be read as a JSON Schema (decision 13).
        looks_like_a_schema = bare.get("type") == "object" and isinstance(bare.get("properties"), dict)
        return option if looks_like_a_schema else bare
    return option


def _bare(declaration: Any) -> Any:
    if isinstance(declaration, dict) and declaration.keys() == {"value"}:
        value = declaration["value"]
        return declaration if value is None or isinstance(value, dict) else value
    return declaration


def _raw(row: Stored) -> JsonText:
    return row.body if row.raw is None else row.raw


def _declared_version(row: Stored) -> str:
    written = orjson.loads(_raw(row))
    meta = written.get("meta") if isinstance(written.get("meta"), dict) else {}
    declared = (written.get("versionid"), meta.get("defaultversionid"), written.get("defaultversionid"), "1")
    return next(versionid for versionid in declared if isinstance(versionid, str))
