"""One round of pulling: what the source holds is fetched whole, and loaded by one ingest, or nothing is done (CAT-177, CAT-188).

The documents are known by the URLs that they have at the source, so the catalog says of each entity from where it was copied
(CAT-176). What vanished at the source is deleted here, and only when everything else of it was fetched.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from lakehouse.errors import SettingsError
from lakehouse.failpoints import crash_point
from lakehouse.replicate.client import CatalogAddress, Client, RequestLimits
from lakehouse.replicate.crawler import DraftWalk, Unit, Walk, is_draft_catalog
from lakehouse.replicate.sourcedocuments import Screen
from lakehouse.replicate.state import PeerState, at_hand, is_in_catalog, open_state
from lakehouse.settings import Settings
from lakehouse.text.names import Xid

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.ingest.summary import Summary
    from lakehouse.progress import Watcher


Progress = Callable[[str, int, int], None]
_XID = re.compile(r"/(messagegroups|endpoints|schemagroups)/[^/\s]+(/(messages|schemas)/[^/\s]+)?")
_ID = re.compile(r"[^/\s]+")


@dataclass(frozen=True)
class Pull:
    """What is pulled, and how.

    Attributes:
        source: address of the other catalog.
        scope: XIDs of groups, endpoints, messages and schemas; none: all (CAT-189).
        protocol: `xregistry` or `messagecatalog` (the CNCF draft); `auto`: what answers.
        authority: that messages without one get; None: of the draft's definitions the source's base URL (CAT-068), else none.
        force: fetch everything again, and delete also more than half.
        strict: refuse a document whole when it has an error.
        limits: what the source may ask of us.
    """

    source: CatalogAddress
    scope: tuple[Xid, ...] = ()
    protocol: Literal["auto", "xregistry", "messagecatalog"] = "auto"
    authority: str | None = None
    force: bool = False
    strict: bool = False
    limits: RequestLimits = field(default_factory=RequestLimits)


class Fetched(NamedTuple):
    """What a round fetched.

    Attributes:
        units: the documents of the source.
        changed: those that the catalog has not taken as they are.
        vanished: URIs of those that the source does not have any more.
        scope: regular expression (Java) for the URIs of all documents that this round is about.
        snapshot: of the source, where it says that.
        requests, received: what it took; bytes are unpacked ones.
        refused: URIs of documents that did not change, and of which the catalog refused something when it took them.
    """

    units: list[Unit]
    changed: list[Unit]
    vanished: list[str]
    scope: str
    snapshot: str | None
    requests: int
    received: int
    refused: list[str]

    @property
    def is_changed(self) -> bool:
        """Return whether there is something to load or to delete."""
        return bool(self.changed or self.vanished)

    def as_json(self) -> dict[str, Any]:
        """Return what was fetched as a JSON value."""
        counts = {"documents": len(self.units), "changed": len(self.changed), "vanished": len(self.vanished)}
        counts |= {"requests": self.requests, "bytes": self.received, "refused": len(self.refused)}
        return counts | {"snapshot": self.snapshot}


def read_scope(groups: tuple[str, ...]) -> tuple[Xid, ...]:
    """Read what `--group` says: ids of message groups, or XIDs.

    Raises:
        SettingsError: one is neither.
    """
    scope = []
    for group in groups:
        xid = group if group.startswith("/") else f"/messagegroups/{group}" if _ID.fullmatch(group) else ""
        if not _XID.fullmatch(xid):
            raise SettingsError(
                f"--group {group}: name the id of a message group, or an XID like /endpoints/ID or /messagegroups/ID/messages/ID."
            )
        scope.append(Xid(xid))
    return tuple(dict.fromkeys(scope))


class Puller:
    """Pulls from one source, round after round.

    Args:
        settings: the warehouse, the registry that is loaded into, limits.
        options: what is pulled.
        state: as from `open_state`.
        report: is called with how far a round is: a path, and how many groups were read of how many.
    """

    def __init__(
        self, settings: Settings, options: Pull, state: PeerState, report: Progress = lambda path, done, of: None
    ) -> None:
        self.settings = settings
        self.options = options
        self.state = state
        self.report = report
        limits = replace(options.limits, bytes=settings.max_document_bytes, depth=settings.max_json_depth)
        self.client = Client(options.source, limits)
        self._is_draft: bool | None = {"xregistry": False, "messagecatalog": True}.get(options.protocol)

    def fetch(self) -> Fetched:
        """Fetch what the source holds now; the catalog is not touched. Without Spark.

        Raises:
            ReplicationError: it cannot be had whole.
        """
        if self.options.force or (self.state.commit is not None and not is_in_catalog(self.settings, self.state.commit)):
            self.state.forget()
        self.client.requests = self.client.received = 0
        if self._is_draft is None:
            self._is_draft = is_draft_catalog(self.client)
        snapshot = None
        if self._is_draft:
            filled = self.options.authority or self.options.source.url.rstrip("/")
            draft = DraftWalk(self.client, self.state, Screen(self.settings.authority, filled), self.report)
            units = draft.fetch(self.options.scope)
            pattern = rf"{quoted_pattern(draft.scope)}[^/?]+"
        else:
            walk = Walk(self.client, self.state, Screen(self.settings.authority, self.options.authority), self.report)
            units = walk.fetch(self.options.scope)
            snapshot, pattern = walk.reader.snapshot, quoted_pattern(self.options.source.url)
        loaded = self.state.loaded if self.state.commit else {}
        changed = [unit for unit in units if loaded.get(unit.uri) != unit.digest]
        vanished = sorted(set(self.state.loaded) - {unit.uri for unit in units})
        if len(changed) < len(units) or self.options.scope:  # the others are not there to be seen by the ingest
            pattern = "|".join(quoted_pattern(uri) for uri in [*(unit.uri for unit in changed), *vanished])
        scope = rf"\A(?:{pattern})\z"
        same = {unit.uri for unit in units} - {unit.uri for unit in changed}
        refused = sorted(same.intersection(self.state.refused))
        return Fetched(units, changed, vanished, scope, snapshot, self.client.requests, self.client.received, refused)

    def load(self, spark: SparkSession, fetched: Fetched, watcher: Watcher | None = None) -> Summary:
        """Load what was fetched: one snapshot, in which everything is as at the source.

        Raises:
            PruneRefused: more than half would be deleted.
            LakehouseError: what an ingest raises.
        """
        from lakehouse.domain.ownership import Policy  # noqa: PLC0415
        from lakehouse.ingest.pipeline import IngestRequest, Located, ingest  # noqa: PLC0415  Spark is wanted from here on
        from lakehouse.log.baseline import find_refused  # noqa: PLC0415
        from lakehouse.log.commits import read_head  # noqa: PLC0415

        files = {unit.uri: at_hand(self.settings, unit.file) for unit in fetched.changed if unit.file is not None}
        # A fetch that is forced may delete more than half; what is stale stays stale.
        policy = Policy(self.options.force, prune=True, on_conflict=self.settings.on_conflict)
        request = IngestRequest(policy, strict=self.options.strict, command="replicate pull")
        located = Located(files, fetched.scope)
        summary = ingest(spark, self.settings, list(files.values()), request=request, watcher=watcher, located=located)
        crash_point("after_load")
        head = read_head(spark)
        self.state.loaded = {unit.uri: unit.digest for unit in fetched.units}
        self.state.refused = [*fetched.refused, *(find_refused(spark, list(files)) if summary.refused else [])]
        self.state.commit = (head.snapshot_id, head.digest)
        self.state.save()
        for unit in fetched.units:
            if unit.file is not None:
                unit.file.unlink(missing_ok=True)
        return summary

    def close(self) -> None:
        """Close the connections."""
        self.client.close()


def pull_once(spark: SparkSession, settings: Settings, options: Pull, watcher: Watcher | None = None) -> Summary | None:
    """Run one round.

    Returns:
        What was loaded; None: the source is as it was when the catalog took it.

    Raises:
        ReplicationError: the source cannot be had whole; nothing was changed.
        LakehouseError: what an ingest raises.
    """
    with open_state(settings, options.source.url, options.scope, options.protocol) as state:
        puller = Puller(settings, options, state)
        try:
            fetched = puller.fetch()
            return puller.load(spark, fetched, watcher) if fetched.is_changed else None
        finally:
            puller.close()


def quoted_pattern(text: str) -> str:
    """Quote a text for a regular expression of Java."""
    return re.sub(r"([^A-Za-z0-9])", r"\\\1", text)
