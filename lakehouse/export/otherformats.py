"""Formats that are written from a whole registry, and not group by group: AsyncAPI, Backstage, data contracts; and dbt's sources.

Only AsyncAPI can be loaded again, so only there something can be lost. The others describe the catalog to other tools.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import orjson

from lakehouse.asyncapi.outward import Perspective, write_asyncapi
from lakehouse.dialects.tables import Loss
from lakehouse.export.backstage import write_backstage
from lakehouse.export.odcs import write_contracts
from lakehouse.export.writers import WriteStyle
from lakehouse.text.names import Xid
from lakehouse.text.yamltext import as_yaml


class TextFiles(NamedTuple):
    """What a registry becomes.

    Attributes:
        files: texts by their names in a folder, without suffix; empty: the registry's id. In one file they follow each other.
        losses: what could not be said, with the XID of the entity.
    """

    files: dict[str, bytes]
    losses: list[tuple[Xid, Loss]]


class Format(NamedTuple):
    """A format: how a registry in normal form is written, and what names of files end with."""

    write: Callable[[dict[str, Any], WriteStyle], TextFiles]
    suffix: str


def _asyncapi(registry: dict[str, Any], style: WriteStyle) -> TextFiles:
    written = write_asyncapi(registry, _perspective(style))
    return TextFiles({"": orjson.dumps(written.document, option=orjson.OPT_INDENT_2) + b"\n"}, written.losses)


def _backstage(registry: dict[str, Any], style: WriteStyle) -> TextFiles:
    return TextFiles({"": as_yaml(*write_backstage(registry, _perspective(style)))}, [])


def _odcs(registry: dict[str, Any], style: WriteStyle) -> TextFiles:
    contracts = write_contracts(registry)
    return TextFiles({xid.replace("/messages/", "/").lstrip("/"): as_yaml(one) for xid, one in contracts.items()}, [])


def _perspective(style: WriteStyle) -> Perspective:
    return "server" if style.perspective == "server" else "client"


FORMATS = {
    "asyncapi-3": Format(_asyncapi, ".json"),
    "backstage": Format(_backstage, ".yaml"),
    "odcs": Format(_odcs, ".yaml"),
}
