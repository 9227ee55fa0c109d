"""Which Version of a Resource is the default one: the newest, unless a client chose one that stays (`defaultversionsticky`)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from lakehouse.domain.defaults import choose_default
from lakehouse.serve.problems import ProblemFound
from lakehouse.serve.write.asked import Json
from lakehouse.text.names import Xid


@dataclass
class Default:
    """The default Version of a Resource.

    Attributes:
        versionid: its id; None: there is none, or the newest will be it.
        sticky: it was chosen, and stays when newer ones come.
    """

    versionid: str | None = None
    sticky: bool = False

    def choose(self, given: Json, here: str, *, patch: bool) -> None:
        """Take what a body says of it (spec.md, `defaultversionid` and `defaultversionsticky` attributes).

        An id without stickiness says nothing: the newest Version is the default one then, which `settle` finds.

        Args:
            given: attributes of the meta entity.
            here: its XID.
            patch: what is not given stays.

        Raises:
            ProblemFound: a value is of the wrong type.
        """
        has_id, has_sticky = "defaultversionid" in given, "defaultversionsticky" in given
        if patch and not has_id and not has_sticky:
            return
        wanted, sticky = given.get("defaultversionid"), given.get("defaultversionsticky")
        if sticky is not None and not isinstance(sticky, bool):
            raise _wrong_type("defaultversionsticky", here, "it is not true or false")
        if wanted is not None and not isinstance(wanted, str):
            raise _wrong_type("defaultversionid", here, "it is not a string")
        if patch and has_id and not has_sticky:
            sticky = wanted is not None
        if patch and not has_id and self.sticky:
            wanted = self.versionid
        self.sticky = bool(sticky)
        self.versionid = wanted if self.sticky else None

    def settle(self, xid: Xid, versions: Collection[str], removed: Collection[str], newest: str | None) -> None:
        """Find it once all Versions are written.

        Args:
            xid: of the Resource.
            versions: ids of its Versions.
            removed: ids of those that the request deleted.
            newest: id of the newest.

        Raises:
            ProblemFound: the one that was chosen is not there.
        """
        chosen = choose_default([self.versionid if self.sticky else None], versions, newest)
        for versionid in chosen.unknown:
            if versionid not in removed:
                raise ProblemFound("unknown_id", xid, singular="version", id=versionid)
            self.sticky = False
        self.versionid = chosen.versionid


def _wrong_type(name: str, subject: str, told: str) -> ProblemFound:
    return ProblemFound("invalid_attribute", subject, name=name, error_detail=told)
