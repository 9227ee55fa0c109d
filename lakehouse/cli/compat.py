"""The command `lakehouse compat`: does a new schema or message break those who read or write with the old one, and why."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from lakehouse.cli.console import BREAKING, Context, at_option, read_model, with_globals
from lakehouse.cli.helping import command, complete_xid
from lakehouse.cli.printing import printable

if TYPE_CHECKING:
    from lakehouse.compatibility import Judgement
    from lakehouse.readmodel.snapshotview import View

_FORMATS = {".avsc": "Avro", ".proto": "Protobuf", ".xsd": "XSD"}
_WORDS = {"no": "are not broken", "yes": "are broken", "unknown": "may be broken: it cannot be decided"}


class _Side(NamedTuple):
    """A schema or a Version of a message: its name, format and document of a schema, flat attributes of a message."""

    name: str
    format: str
    document: Any
    flat_attributes: Any = None


@command(
    "lakehouse compat order-v1.avsc order-v2.avsc",
    "lakehouse compat /schemagroups/shop/schemas/order/versions/1 2 --json",
)
@click.argument("before", metavar="A", shell_complete=complete_xid)
@click.argument("after", metavar="B", shell_complete=complete_xid)
@click.option("--format", "format_", metavar="FORMAT", help="Format of the schemas, such as Avro or JsonSchema/draft-07.")
@click.option("--strict", is_flag=True, help="Consumers reject members they do not know, and producers may send such members.")
@at_option
@with_globals
@click.pass_obj
def compat(context: Context, before: str, after: str, format_: str | None, strict: bool, at: str | None) -> int:
    """Check whether a new schema or message breaks who uses it.

    A and B are files, XIDs of schemas or messages (their default Version) or of Versions; B may be the id of another Version.
    Exit code 4 if readers or writers that stay with A break.
    """
    from lakehouse.compatibility import Answer, judge
    from lakehouse.dialects.schemadocuments import family_of_format
    from lakehouse.domain.versionchanges import judge_definitions

    old, new = _sides(context, before, after, at)
    if (old.flat_attributes is None) != (new.flat_attributes is None):
        raise click.UsageError("A and B must both be schemas, or both messages.")
    if old.flat_attributes is not None:
        judgement = judge_definitions(old.flat_attributes, new.flat_attributes or {})
    else:
        named = format_ or new.format or old.format
        if family_of_format(named, new.document) == "unknown":
            raise click.UsageError(f"The format of {new.name} is not known. Name it, such as --format JsonSchema.")
        judgement = judge(old.document, new.document, named)
    breaks = judgement.strictly if strict else judgement.breaks
    if context.as_json:
        details = {"before": old.name, "after": new.name, "breaks": breaks.as_json(), "strictly": judgement.strictly.as_json()}
        click.echo(
            json.dumps(
                details | {"differences": [difference.as_json() for difference in judgement.differences]}, ensure_ascii=False
            )
        )
    else:
        _print(judgement, strict=strict)
    return BREAKING if breaks.worst == Answer.YES else 0


def _print(judgement: Judgement, *, strict: bool) -> None:
    breaks = judgement.strictly if strict else judgement.breaks
    for difference in judgement.differences:
        click.echo(printable(f"{(difference.strictly if strict else difference.breaks).worst_word:<10} {difference.sentence}"))
    if not judgement.differences:
        click.echo("No difference that matters.")
    click.echo(f"Readers that stay with A {_WORDS[breaks.readers.word]}.")
    click.echo(f"Writers that stay with A {_WORDS[breaks.writers.word]}.")
    if not strict and judgement.strictly != breaks:
        click.echo("By the strict reading (--strict) more breaks.")


def _sides(context: Context, before: str, after: str, at: str | None) -> tuple[_Side, _Side]:
    """Read both schemas: files first, else the catalog."""
    files = [Path(name) if Path(name).is_file() else None for name in (before, after)]
    if files[0] is not None and files[1] is not None:
        return _of_file(files[0]), _of_file(files[1])
    with read_model(context) as (model, _):

        def ask(view: View) -> tuple[_Side, _Side]:
            registry = context.registry
            old = _of_file(files[0]) if files[0] is not None else _of_catalog(view, before, registry)
            if files[1] is not None:
                return old, _of_file(files[1])
            is_version = "/" not in after and "/versions/" in old.name
            wanted = f"{old.name.rpartition('/')[0]}/{after}" if is_version else after
            return old, _of_catalog(view, wanted, registry)

        result: tuple[_Side, _Side] = model.answer(ask, at)
        return result


def _of_file(path: Path) -> _Side:
    from lakehouse.dialects.schemadocuments import document_of

    try:
        document = document_of(path.read_bytes(), None)
    except OSError as error:
        raise click.UsageError(f"{path} cannot be read: {error.strerror}") from error
    if document is None:
        raise click.UsageError(f"{path} is no text")
    return _Side(str(path), _FORMATS.get(path.suffix.lower(), ""), document)


def _of_catalog(view: View, text: str, registryid: Any) -> _Side:
    """Return the schema or the Version of a message that a text names; attributes of its bases do not count.

    Raises:
        XidNotFound: the catalog has no such schema or message.
        UsageError: it is neither, or has no document that is text.
    """
    from lakehouse.domain.flatattributes import flat_attributes_of_body
    from lakehouse.errors import XidNotFound
    from lakehouse.readmodel.detail import full_xid
    from lakehouse.text.names import Xid

    xid = Xid(full_xid(view, text, registryid))
    result = view.entities(xid, registryid)
    if result and result[0].kind in ("schema", "message"):
        xid = Xid(f"{xid}/versions/{json.loads(result[0].body).get('defaultversionid')}")
        result = view.entities(xid, registryid)
    if not result:
        raise XidNotFound(xid)
    if result[0].kind == "version":
        return _Side(xid, "", None, dict(flat_attributes_of_body(result[0].body)))
    if result[0].kind != "schemaversion":
        raise click.UsageError(f"{xid} is no schema and no message")
    attributes = json.loads(result[0].body)
    if "schema" not in attributes:
        raise click.UsageError(f"{xid} has no document in the catalog that is text")
    return _Side(xid, str(attributes.get("format") or ""), attributes["schema"])
