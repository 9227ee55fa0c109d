"""What an export is asked for, held against what the catalog holds: which registry, one file or a folder, which entities."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from lakehouse.errors import NothingToExport
from lakehouse.text.documentnames import is_document
from lakehouse.text.names import RegistryId, Xid

_MAX_TOLD = 20


class Chosen(NamedTuple):
    """The registry to export, None: all of them; and whether the target is a folder."""

    registryid: RegistryId | None
    to_folder: bool


def choose_registry(
    known: Iterable[RegistryId], asked: RegistryId | None, out: str, *, to_folder: bool, is_selected: bool
) -> Chosen:
    """Choose what is exported. Several registries need a folder: a target that is not named like a document becomes one.

    Args:
        known: registries of the catalog.
        asked: the one that was named.
        out: the target.
        to_folder: the target was named as a folder.
        is_selected: only some entities are exported, which are those of one registry.

    Raises:
        NothingToExport: there is none, or not one when one is needed.
    """
    there = sorted(known)
    told = ", ".join(there[:_MAX_TOLD]) + (" ..." if len(there) > _MAX_TOLD else "")
    if not there:
        raise NothingToExport("the catalog is empty. Load documents with `lakehouse ingest SOURCE`.")
    if asked is not None:
        if asked not in there:
            raise NothingToExport(f"there is nothing in a registry {asked!r}. The catalog holds {told}.")
        return Chosen(asked, to_folder)
    if len(there) == 1:
        return Chosen(there[0], to_folder)
    if is_selected or (not to_folder and is_document(out)):
        raise NothingToExport(
            f"the catalog holds several registries ({told}). Choose one with --registry, or name a folder for a file of each."
        )
    return Chosen(None, True)


def refuse_unknown(missing: Sequence[Xid]) -> None:
    """Refuse a selection of what the registry does not hold.

    Raises:
        NothingToExport: something is missing.
    """
    if missing:
        raise NothingToExport(
            f"there is no group, endpoint, message or schema {', '.join(missing)} in the registry. "
            "Write XIDs as /messagegroups/<id>/messages/<id>."
        )
