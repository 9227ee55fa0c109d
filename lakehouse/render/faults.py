"""Why a message is not rendered: values that are missing, told all at once, and values that would not match back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from lakehouse.errors import LakehouseError
from lakehouse.text.names import Pointer, Xid


class Need(NamedTuple):
    """A value that somebody has to give.

    Attributes:
        name: as `--set` takes it: of a placeholder, or of an attribute.
        pointer: JSON Pointer of the declaration that asks for it first.
        kind: the declared type, or None.
        template: the declared value, where `name` is a placeholder of it; else None.
    """

    name: str
    pointer: Pointer
    kind: str | None = None
    template: str | None = None


class Refusal(NamedTuple):
    """Why a message would not be what its definition says: JSON Pointer of the declaration, `payload` or `endpoint`; and why."""

    pointer: str
    reason: str


class MissingValues(LakehouseError):
    """A definition asks for values that were not given (exit code 2; MSG-230).

    Attributes:
        xid: of the definition.
        needs: all that is missing.
    """

    exit_code = 2

    def __init__(self, xid: Xid, needs: Sequence[Need]) -> None:
        self.xid, self.needs = xid, tuple(needs)
        told = "\n".join(f"  {need.name}: {_asked(need)}" for need in needs)
        example = " ".join(f"--set {need.name}=…" for need in needs[:3])
        super().__init__(f"{xid}: values are missing.\n{told}\nGive them with {example}, or let --example make them up.")


class RenderRefused(LakehouseError):
    """The values make no message that the definition matches, or a payload that breaks its schema (exit code 3).

    Attributes:
        xid: of the definition.
        refusals: what is wrong, and where it is declared.
    """

    exit_code = 3

    def __init__(self, xid: Xid, refusals: Sequence[Refusal]) -> None:
        self.xid, self.refusals = xid, tuple(refusals)
        super().__init__(f"{xid}: cannot be rendered.\n" + "\n".join(f"  {one.pointer or '/'}: {one.reason}" for one in refusals))


def _asked(need: Need) -> str:
    if need.template is not None:
        return f"placeholder of {need.template!r} ({need.pointer})"
    return f"{need.pointer}" + (f", type {need.kind}" if need.kind else "")
