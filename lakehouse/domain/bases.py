"""Which Version a `basemessage` means, where a chain of bases ends, and what a definition inherits (requirements.md 3, 21 to 23).

A base is `/messagegroups/g/messages/m`, which means its default Version, or `…/versions/v`; an alias (`xref`) has the Versions of
the message that it stands for. Entities are found by a function: XID in, attributes out. The views `base_links`, `base_paths`,
`definition_chains` and `merged_versions` decide the same for whole tables; tests compare both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from lakehouse.dialects.tables import GUESSED, exclusive_options, family_of
from lakehouse.domain.protocols import has_other_options, is_other_envelope, nearer_envelope
from lakehouse.text.jsontext import read_canonical
from lakehouse.text.names import JsonText, Pointer, Xid
from lakehouse.text.xid import is_message, split_version, xid_of_version

Attributes = Mapping[str, Any]  # of an entity in normal form
FindAttributes = Callable[[Xid], Attributes | None]
FlatAttributes = Mapping[Pointer, JsonText]

SCHEMA = (Pointer("/dataschema"), Pointer("/dataschemauri"), Pointer("/dataschemaxid"))  # one slot: who sets one inherits none
_OF_ENVELOPE = ("/envelopemetadata", "/envelopeoptions")
_OF_PROTOCOL = "/protocoloptions"
_MOST_POINTERS = 10_000  # that were split, since most definitions have the same


class Chain(NamedTuple):
    """A definition and the bases that were found, nearest first.

    Attributes:
        versions: XIDs of the Versions, the own one first.
        status: none: no base; resolved; dangling: a base is not there; cycle; external: a base on another host; too_deep.
    """

    versions: tuple[Xid, ...]
    status: str


def definition_of(resource: Xid, find: FindAttributes) -> tuple[Xid, Attributes] | None:
    """Return the message or schema whose Versions one shows, with its attributes: itself, or what its `xref` names.

    None: there is none, or an alias leads to an alias or to no entity of its kind.
    """
    attributes = find(resource)
    alias = None if attributes is None else attributes.get("xref")
    if attributes is None or alias is None:
        return None if attributes is None else (resource, attributes)
    target = find(Xid(alias)) if alias.split("/")[3:4] == resource.split("/")[3:4] else None
    return None if target is None or target.get("xref") is not None else (Xid(alias), target)


def shown_version(message: Xid, find: FindAttributes) -> Xid | None:
    """Return the default Version that a message shows, its own or that of what it stands for."""
    result = definition_of(message, find)
    return None if result is None else xid_of_version(result[0], result[1].get("defaultversionid"))


def base_of(basemessage: Any, find: FindAttributes) -> Xid | None:
    """Return the Version that a `basemessage` means, which may be missing; None: no message of the catalog is named."""
    if not isinstance(basemessage, str) or not basemessage.startswith("/"):
        return None
    message, versionid = split_version(basemessage)
    result = definition_of(message, find) if is_message(message) else None
    if result is None:
        return None
    versionid = result[1].get("defaultversionid") if versionid is None else versionid
    return None if versionid is None else xid_of_version(result[0], versionid)


def bases_of(version: Xid, find: FindAttributes) -> Iterator[Xid]:
    """Yield the Versions that a chain leads over, nearest first; it ends behind one that is missing or comes again."""
    at: Xid | None = version
    seen: set[Xid] = set()
    while at is not None and at not in seen:
        seen.add(at)
        attributes = find(at)
        at = None if attributes is None else base_of(attributes.get("basemessage"), find)
        if at is not None:
            yield at


def chain_of(version: Xid, find: FindAttributes, max_depth: int) -> Chain:
    """Return a Version's chain of bases.

    Args:
        version: which is there.
        find: gives attributes by XID.
        max_depth: how many bases are followed.
    """
    results = [version]
    for base in bases_of(version, find):
        if base in results:
            return Chain(tuple(results), "cycle")
        if find(base) is None:
            return Chain(tuple(results), "dangling")
        if len(results) > max_depth:
            return Chain(tuple(results), "too_deep")
        results.append(base)
    last = (find(results[-1]) or {}).get("basemessage")
    if last is None:
        return Chain(tuple(results), "resolved" if len(results) > 1 else "none")
    return Chain(tuple(results), "dangling" if str(last).startswith("/") else "external")


def merged(definitions: Iterable[FlatAttributes]) -> dict[Pointer, JsonText]:
    """Return the merged definitions: each attribute by the first that has it, with all that it inherits."""
    inherited: dict[Pointer, JsonText] = {}
    envelope: str | None = None
    for own in reversed(list(definitions)):
        inherited = _laid_over(inherited, own, envelope)
        envelope = nearer_envelope(envelope, text_at(own, "/envelope"))
    if "{}" not in inherited.values():
        return inherited
    above = _places_above(inherited)
    return {at: value for at, value in inherited.items() if value != "{}" or at not in above}


def text_at(attributes: FlatAttributes, pointer: str) -> str | None:
    """Return a flat attribute that is a text; None: there is none."""
    value = attributes.get(Pointer(pointer))
    return str(read_canonical(value)) if value is not None and value.startswith('"') else None


def is_given(attributes: Iterable[str], pointer: str) -> bool:
    """Return whether there is a flat attribute at a place, such as an empty map, or below it."""
    return any(at == pointer or at.startswith(f"{pointer}/") for at in attributes)


def _laid_over(base: FlatAttributes, own: FlatAttributes, envelope: str | None) -> dict[Pointer, JsonText]:
    """Return a definition overlaid on what its bases have.

    A flat attribute survives unless the nearer one has one there, or above that is not {}, or below while it is not {} itself.
    """
    if not base:
        return dict(own)
    hidden = _hidden_sections(base, own, envelope)
    above = _places_above(own)

    def survives(at: Pointer, value: JsonText) -> bool:
        if at in own or at in hidden or (value != "{}" and at in above):
            return False
        parents = _parents(at)
        return not any(parent in hidden or own.get(parent, "{}") != "{}" for parent in parents)

    return {at: value for at, value in base.items() if survives(at, value)} | dict(own)


def _hidden_sections(base: FlatAttributes, own: FlatAttributes, envelope: str | None) -> set[str]:
    """Return the places of which nothing is inherited: of another envelope or protocol, and slots that are set."""
    hidden: set[str] = set()
    if is_other_envelope(envelope, text_at(own, "/envelope")):
        hidden.update(_OF_ENVELOPE)
    protocols = text_at(base, "/protocol"), text_at(own, "/protocol")
    if has_other_options(*protocols):
        hidden.add(_OF_PROTOCOL)
    if any(name in own for name in SCHEMA):
        hidden.update(SCHEMA)
    family = family_of(protocols[1]) or family_of(protocols[0])
    set_here = {at.split("/")[2] for at, value in own.items() if at.startswith(f"{_OF_PROTOCOL}/") and value != "{}"}
    for option_name, excluded_name, _ in (pair for name in ([family] if family else GUESSED) for pair in exclusive_options(name)):
        hidden.update(
            f"{_OF_PROTOCOL}/{hides}"
            for option, hides in ((option_name, excluded_name), (excluded_name, option_name))
            if option in set_here
        )
    return hidden


def _places_above(attributes: Iterable[str]) -> set[str]:
    return {parent for at in attributes for parent in _parents(at)}


@lru_cache(_MOST_POINTERS)
def _parents(pointer: str) -> tuple[Pointer, ...]:
    tokens = pointer.split("/")
    return tuple(Pointer("/".join(tokens[:end])) for end in range(2, len(tokens)))
