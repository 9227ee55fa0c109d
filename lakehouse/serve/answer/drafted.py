"""Rows of message groups and messages written as the CNCF draft says them: what its API shows, and so what it can delete."""

from __future__ import annotations

from typing import Any

from lakehouse.dialects.draft.writer import DraftGroup
from lakehouse.export.view import Stored, Urls, group_view, resource_view
from lakehouse.text.names import Xid
from lakehouse.text.xid import last_id, xid_of

Definition = dict[str, Any]


def drafted_group(group: Stored | None, groupid: str) -> DraftGroup:
    """Return a message group on its way into the draft; None: it has no row, because only its messages remain."""
    return DraftGroup(group_view(xid_of("messagegroups", groupid), group, Urls()), groupid)


def drafted_definition(drafted: DraftGroup, xid: Xid, message: Stored, versions: list[Stored]) -> Definition | None:
    """Write a definition with its `versions`, by number; None: the draft cannot say it.

    Args:
        drafted: its group.
        xid: of its message.
        message: row of the message.
        versions: rows of its Versions.
    """
    return drafted.definition(last_id(xid), resource_view(xid, message, versions, None, Urls(), bare=False))
