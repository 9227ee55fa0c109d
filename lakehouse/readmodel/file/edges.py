"""References from entity to entity, as `ddl/views/entity_references.sql` finds them, out of the text of one row of the log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import orjson

from lakehouse.domain.references import spelled
from lakehouse.text.names import JsonText, Pointer, Xid

_OF_VERSION = {name: Pointer(f"/{name}") for name in ("basemessage", "dataschemauri", "dataschemaxid")}
_XREF, _WILL = Pointer("/meta/xref"), Pointer("/protocoloptions/willmessage")


class Edge(NamedTuple):
    """A reference as an entity holds it.

    Attributes:
        relation, pointer, target: as in the view `entity_references`.
        whole: the XID that the target spells; None: it leads to another host.
        without_suffix: the same without `:Type`, which is looked for second; None: there is no suffix.
        type_name: what follows a second `#`; None: there is none.
    """

    relation: str
    pointer: Pointer
    target: str
    whole: Xid | None
    without_suffix: Xid | None
    type_name: str | None


def edges_of(kind: str, body: JsonText) -> Iterator[Edge]:
    """Give the references of an entity.

    Args:
        kind: of the log.
        body: its normal form.
    """
    if kind == "version":
        if any(f'"{name}"' in body for name in _OF_VERSION):
            known = orjson.loads(body)
            for name, pointer in _OF_VERSION.items():
                if isinstance(known.get(name), str):
                    yield _edge(name, pointer, known[name])
    elif kind in ("message", "schema"):
        if '"xref"' in body:
            known = orjson.loads(body)
            if isinstance(known.get("xref"), str):
                yield _edge("xref", _XREF, known["xref"])
    elif kind == "endpoint":
        yield from _edges_of_endpoint(orjson.loads(body))


def version_uri_of(kind: str, body: JsonText) -> str | None:
    """Give the URI that names a Version across catalogs; None: it has none."""
    if kind != "version" or '"version_uri"' not in body:
        return None
    uri = orjson.loads(body).get("version_uri")
    return uri if isinstance(uri, str) else None


def _edges_of_endpoint(known: dict[str, Any]) -> Iterator[Edge]:
    for position, group in enumerate(known.get("messagegroups") or []):
        yield _edge("messagegroups", Pointer(f"/messagegroups/{position}"), group)
    options = known.get("protocoloptions")
    will = options.get("willmessage") if isinstance(options, dict) else None
    if will is not None:
        text = will if isinstance(will, str) else orjson.dumps(will).decode()
        yield _edge("willmessage", _WILL, text)


def _edge(relation: str, pointer: Pointer, target: str) -> Edge:
    return Edge(relation, pointer, target, *spelled(target, names_type=relation == "dataschemauri"))
