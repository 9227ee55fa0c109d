"""Which Version of a message or schema is the default one, and how the text of a Version says so (decision 7).

Whoever may name it differs: in a document `defaultversionid`, `versionid` of the message, and `isdefault` of one Version; in a
request a client that chose one that stays (`defaultversionsticky`). Where none is named it is the newest. Of several documents
that hold Versions of one message the published message decides; `log.ownership.defaults` writes that into their texts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from lakehouse.text.jsontext import canonical, decoded, read_canonical
from lakehouse.text.names import JsonText


class Chosen(NamedTuple):
    """The default Version: its id (None: there is no Version), and ids that were named before it and are no Versions."""

    versionid: str | None
    unknown: tuple[str, ...] = ()


def choose_default(named: Iterable[str | None], versionids: Collection[str], newest: str | None) -> Chosen:
    """Choose the default Version: the first that is named and exists, else the newest.

    Args:
        named: ids by which it is named, what counts most first; None: nobody says so.
        versionids: of the Versions.
        newest: id of the newest one.
    """
    unknown: list[str] = []
    for versionid in named:
        if versionid in versionids:
            return Chosen(versionid, tuple(unknown))
        if versionid is not None:
            unknown.append(versionid)
    return Chosen(newest, tuple(unknown))


def with_isdefault(body: JsonText, isdefault: bool) -> JsonText:
    """Return the normal form of a Version, which holds `isdefault`, with another one; as a column: `log.ownership.defaults`."""
    member, other = ('"isdefault":true', '"isdefault":false') if isdefault else ('"isdefault":false', '"isdefault":true')
    before, after = body.count(other), body.count(member)
    if not before:
        return body
    if before == 1 and not after:  # so it is the Version's own, and not one inside of it
        return JsonText(body.replace(other, member))
    known = read_canonical(body)
    return body if known["isdefault"] is isdefault else decoded(canonical(known | {"isdefault": isdefault}))
