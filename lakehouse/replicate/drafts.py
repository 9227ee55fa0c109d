"""A catalog of the CNCF draft is read: `/messagecatalog` is walked, a document for each group (CAT-188).

The draft has one request for each version and knows no marks of what changed; what is the same as before is seen by its digest.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import quote

from lakehouse.errors import ReplicationError, SettingsError
from lakehouse.replicate.client import Client, RequestRefused, SourceResponse
from lakehouse.replicate.crawler import Unit
from lakehouse.replicate.sourcedocuments import Json, Screen, digest_of, write_members
from lakehouse.replicate.state import PeerState
from lakehouse.store.durable import replace_synced
from lakehouse.text.jsontext import members, object_of, without
from lakehouse.text.names import Xid

_AT_ONCE = 8
_WALKS = 4
_BATCH = 256  # definitions that are held in memory


class DraftWalk:
    """Reads one catalog of the draft.

    Args:
        client: asks it.
        state: what is known of it.
        screen: what is taken; a definition without an authority gets that of the source (CAT-068).
        report: is called with how far it is: a path, and how many groups were read of how many.
    """

    def __init__(self, client: Client, state: PeerState, screen: Screen, report: Callable[[str, int, int], None]) -> None:
        self.client = client
        self.state = state
        self.screen = screen
        self.report = report
        self.base = client.address.of("messagecatalog")
        self._snapshots: set[str] = set()

    @property
    def scope(self) -> str:
        """Return the beginning of the URIs of all documents."""
        return self.base + "/"

    def fetch(self, scope: tuple[Xid, ...]) -> list[Unit]:
        """Fetch what the source holds.

        Args:
            scope: XIDs of groups and definitions, `/messagegroups/<id>[/messages/<id>]` (CAT-189); none: all.

        Raises:
            ReplicationError: it cannot be had whole.
            SettingsError: the scope names what the draft does not know.
        """
        if other := next((xid for xid in scope if not xid.startswith("/messagegroups/")), None):
            raise SettingsError(f"--group {other}: a catalog of the CNCF draft holds message groups and nothing else.")
        for _ in range(_WALKS):
            self._snapshots.clear()
            units = self._units(scope)
            if units is not None and len(self._snapshots) < 2:
                return units
        raise ReplicationError(
            self.base, f"it changed each of the {_WALKS} times that it was read; try again when it is quieter."
        )

    def _units(self, scope: tuple[Xid, ...]) -> list[Unit] | None:
        """Walk once; None: the groups changed on the way."""
        ids = self._array(self._get(self.base))
        wanted = {xid.split("/")[2]: xid.split("/")[4:] for xid in scope} if scope else {groupid: [] for groupid in ids}
        units = []
        for number, (groupid, only) in enumerate(wanted.items()):
            if groupid not in ids:
                continue
            self.report(f"/messagecatalog/{groupid}", number, len(wanted))
            unit = self._group(groupid, only)
            if unit is not None:
                units.append(unit)
        return None if not scope and self._array(self._get(self.base)) != ids else units

    def _group(self, groupid: str, only: list[str]) -> Unit | None:
        """Write the document of a group; None: it went while it was read, or all of it is ours."""
        url = f"{self.base}/{_quoted(groupid)}"
        group = self._object(self._get(url))
        listed = self._array(self._get(f"{url}/messagedefinitions"))
        ids = [definition_id for definition_id in listed if not only or definition_id in only]
        part = self.state.part(url + "".join(f"/{definition_id}" for definition_id in only))
        aside = part.with_suffix(".writing")

        with ThreadPoolExecutor(_AT_ONCE, "lakehouse-replicate") as threads, aside.open("wb") as stream:

            def pages() -> Any:
                for start in range(0, len(ids), _BATCH):
                    batch = ids[start : start + _BATCH]
                    definitions = threads.map(lambda definition_id: self._definition(url, definition_id), batch)
                    taken = (
                        (definition_id, self.screen.definition(it)) for definition_id, it in zip(batch, definitions, strict=True)
                    )
                    yield {definition_id: it for definition_id, it in taken if it is not None}

            count = write_members(stream, group, "messagedefinitions", pages())
        if ids and not count:
            aside.unlink()
            return None
        replace_synced(aside, part)
        return Unit(
            f"{self.scope}{_quoted(groupid)}" + "".join(f"?{_quoted(definition_id)}" for definition_id in only),
            digest_of(part),
            part,
        )

    def _definition(self, group_url: str, definition_id: str) -> Json:
        """Return a definition with all of its versions (CAT-164, CAT-166, CAT-167)."""
        url = f"{group_url}/messagedefinitions/{_quoted(definition_id)}"
        numbers = self._array(self._get(f"{url}/versions"))
        versions = {str(number): self._object(self._get(f"{url}/versions/{number}")) for number in numbers}
        if not versions:
            raise ReplicationError(url, "it has no version (CAT-034).")
        latest = versions[max(versions, key=int)] if all(versionid.isdigit() for versionid in versions) else {}
        own = [(name, value) for name, value in members(latest) if name in ("format", "authority")]
        bare = {number: without(version, ("authority",)) for number, version in versions.items()}
        return object_of([("id", definition_id), *own, ("versions", bare)])

    def _get(self, url: str) -> SourceResponse:
        answer = self.client.get(url)
        if answer.snapshot is not None:
            self._snapshots.add(answer.snapshot)
        return answer

    def _array(self, answer: SourceResponse) -> list[Any]:
        value = self.client.value(answer)
        if not isinstance(value, list) or any(
            not isinstance(element, str | int) or isinstance(element, bool) for element in value
        ):
            raise ReplicationError(answer.url, "its answer is not an array of ids. Is this a catalog of the CNCF draft?")
        return value

    def _object(self, answer: SourceResponse) -> Json:
        value = self.client.value(answer)
        if not isinstance(value, dict):
            raise ReplicationError(answer.url, "its answer is not a JSON object.")
        return value


def is_draft_catalog(client: Client) -> bool:
    """Return whether a source is a catalog of the draft, and no xRegistry server.

    Raises:
        ReplicationError: it does not answer.
    """
    if client.address.is_draft:
        return True
    reason = "no `specversion` in its answer"
    try:
        root = client.json(client.address.url)
        if isinstance(root, dict) and "specversion" in root:
            return False
    except RequestRefused as refused:
        if refused.status != 404:
            raise
        reason = str(refused)
    try:
        return isinstance(client.json(client.address.of("messagecatalog")), list)
    except RequestRefused as refused:
        what = "neither an xRegistry server nor a catalog of the CNCF draft (/messagecatalog) is here"
        raise ReplicationError(client.address.url, f"{what}: {reason}") from refused


def _quoted(segment: Any) -> str:
    return quote(str(segment), safe="@~!$&'()*+,;=-._:")
