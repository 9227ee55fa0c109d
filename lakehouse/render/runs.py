"""One run of `lakehouse render`: each definition, on each way, with each row of values becomes a message; what fails is told."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lakehouse.errors import LakehouseError, SettingsError
from lakehouse.match.payload.schemas import Schemas
from lakehouse.render.batches import batched
from lakehouse.render.catalog import Selected
from lakehouse.render.clients import CLIENTS
from lakehouse.render.faults import MissingValues, Need, RenderRefused
from lakehouse.render.filling import Given, check_names
from lakehouse.render.given import PAYLOAD, given_of
from lakehouse.render.rendered import Rendered
from lakehouse.render.rendering import Renderer, Style
from lakehouse.render.ways import ALL, CLOUDEVENTS, FAMILIES, Way, ways_of
from lakehouse.text.names import RegistryId, Xid

FORMATS = ("json", "captured", *CLIENTS)
_MOST_TOLD = 1_000
PROTOCOLS = ("cloudevents", *(name.lower() for name in FAMILIES), "all")


@dataclass(frozen=True)
class Failure:
    """A message that was not rendered: of which definition, over which protocol, of which row of values, and why."""

    registryid: RegistryId
    xid: Xid
    over: str
    row: int | None
    error: LakehouseError

    def as_json(self) -> dict[str, Any]:
        """Give it as one JSON value."""
        told: dict[str, Any] = {"registryid": self.registryid, "xid": self.xid, "as": self.over.lower() or None, "row": self.row}
        if isinstance(self.error, MissingValues):
            told["missing"] = [need._asdict() for need in self.error.needs]
        elif isinstance(self.error, RenderRefused):
            told["refused"] = [one._asdict() for one in self.error.refusals]
        return told | {"error": str(self.error)}


@dataclass
class Run:
    """Renders what was selected.

    Args:
        selected: definitions, endpoints and schemas.
        style: how.
        asked: families, `CLOUDEVENTS` or `ALL`; nothing: what each definition or its endpoints say.
        form: how messages are written: one of `FORMATS`.

    Attributes:
        failures: what was not rendered, filled while messages are taken; the first thousand.
        failed: how many were not.
    """

    selected: Selected
    style: Style = field(default_factory=Style)
    asked: tuple[str, ...] = ()
    form: str = "json"
    failures: list[Failure] = field(default_factory=list)
    failed: int = 0

    @property
    def is_single(self) -> bool:
        """Tell that one definition is rendered, so that its error is the run's."""
        return len(self.selected.messages) == 1

    def messages(self, common: Given, rows: Iterable[Mapping[str, Any]] | None = None) -> Iterator[Rendered]:
        """Render.

        Args:
            common: what is given for all.
            rows: values of one message each; None: one message, of what is common.

        Raises:
            SettingsError: a value was given that nothing asks for.
            MissingValues: of a single definition without rows; with what is missing on all ways.
            RenderRefused: of a single definition on a single way, without rows.
        """
        renderer = Renderer(Schemas(self.selected.schemas), self.style)
        ways = [way for row in self.selected.messages for way in self._ways(row)]
        if rows is None:
            check_names(ways, common.values) if ways else None
            if self.is_single:
                yield from self._of_one(renderer, ways, common)
            else:
                for way in ways:
                    yield from self._attempt(renderer, way, common, None)
            return
        checked: set[str] = set()
        for number, row in enumerate(rows):
            names = {*row, *common.values} - checked - {PAYLOAD}
            if names and ways:
                check_names(ways, sorted(names))
                checked |= names
            for way in ways:
                yield from self._attempt(renderer, way, given_of(row, common), number)

    def _ways(self, row: Mapping[str, Any]) -> list[Way]:
        try:
            return ways_of(row, self.selected.endpoints, self.asked)
        except RenderRefused as error:
            if self.is_single:
                raise
            self._fail(Failure(row["registryid"], row["xid"], ", ".join(self.asked), None, error))
            return []

    def _of_one(self, renderer: Renderer, ways: list[Way], given: Given) -> Iterator[Rendered]:
        found = [message for way in ways for message in self._attempt(renderer, way, given, None)]
        if self.failures:
            needs: dict[Need, None] = {}
            for failure in self.failures:
                needs |= dict.fromkeys(failure.error.needs if isinstance(failure.error, MissingValues) else ())
            if needs:
                by_name = {need.name: need for need in reversed(needs)}
                raise MissingValues(self.failures[0].xid, list(by_name.values())[::-1])
            if not found:
                raise self.failures[0].error
        yield from found

    def _attempt(self, renderer: Renderer, way: Way, given: Given, number: int | None) -> Iterator[Rendered]:
        try:
            yield renderer.render(way, given, number or 0)
        except (MissingValues, RenderRefused) as error:
            definition = way.definition
            self._fail(Failure(definition.registryid, definition.xid, way.family, number, error))

    def _fail(self, failure: Failure) -> None:
        self.failed += 1
        if len(self.failures) < _MOST_TOLD:
            self.failures.append(failure)

    def lines(self, messages: Iterable[Rendered], *, batch: bool = False) -> Iterator[bytes]:
        """Write messages, each as a line; what cannot be written so is a failure, too."""
        for message in batched(messages) if batch else messages:
            if self.form in CLIENTS:
                try:
                    yield CLIENTS[self.form][1](message).encode()
                except RenderRefused as error:
                    if self.is_single:
                        raise
                    self._fail(Failure(message.registryid, message.xid, message.family or "", None, error))
            else:
                yield message.line() if self.form == "captured" else message.as_json()


def families_of(written: str | None, form: str, *, batch: bool = False) -> tuple[str, ...]:
    """Read `--as`: names with commas; a client says its protocol, a batch is of CloudEvents in JSON or over HTTP.

    Raises:
        SettingsError: a name is not known, or does not go with the format or the batch.
    """
    names = [name.strip().upper() for name in (written or "").split(",") if name.strip()]
    for name in names:
        if name not in (ALL, CLOUDEVENTS, *FAMILIES):
            raise SettingsError(f"--as {name.lower()}: one or several of {', '.join(PROTOCOLS)}.")
    if form in CLIENTS:
        own = CLIENTS[form][0]
        if names and names != [own]:
            raise SettingsError(f"--format {form} writes messages of {own}: it does not go with --as {written}.")
        return (own,)
    if batch:
        if any(name not in (CLOUDEVENTS, "HTTP") for name in names):
            raise SettingsError(f"--batch is for --as cloudevents and http, and not for {written}.")
        return tuple(names) or (CLOUDEVENTS,)
    return tuple(names)


def told_of(failures: Sequence[Failure]) -> list[str]:
    """Tell what was left out, and why."""
    told = []
    for failure in failures:
        row = "" if failure.row is None else f"row {failure.row}"
        where = ", ".join(part for part in (f"registry {failure.registryid}", failure.over.lower(), row) if part)
        told.append(f"left out ({where}): {failure.error}")
    return told
