"""One run of `lakehouse render`: each definition, over each protocol, with each row of values becomes a message.

Messages are written as JSON, as lines that `match` reads, or for a client that sends them (`lakehouse.render.clients`).
`examples_of` makes the examples of `lakehouse show`: one over each protocol, made for each call and stored nowhere; `commands_of`
the lines that would send one to each endpoint.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson

from lakehouse.errors import LakehouseError, SettingsError
from lakehouse.match.definition.compiled import definition_of
from lakehouse.match.payload.schemas import Schemas
from lakehouse.readmodel.snapshotview import View
from lakehouse.render.clients import CLIENTS
from lakehouse.render.filling import PAYLOAD, RenderInput, check_names, input_of
from lakehouse.render.protocolbinding import ALL, CLOUDEVENTS, FAMILIES, Endpoint, ProtocolBinding, bindings_of
from lakehouse.render.rendering import Rendered, Renderer, RenderStyle, batched
from lakehouse.render.selected import Selected, selected_at
from lakehouse.render.unrenderable import MissingValues, Need, RenderRefused
from lakehouse.text.names import RegistryId, Xid

_MOST_FAILURES = 1_000
PROTOCOLS = ("cloudevents", *(name.lower() for name in FAMILIES), "all")
_SEED = 0
FORMATS = ("json", "captured", *CLIENTS)


class Sample(NamedTuple):
    """A message that was made up.

    Attributes:
        registryid, xid: its definition.
        over: the protocol in lower case, or `cloudevents`; None: the definition goes over none.
        message: the message; None: it could not be made.
        error: why not.
    """

    registryid: RegistryId
    xid: Xid
    over: str | None
    message: Rendered | None = None
    error: str = ""


class Command(NamedTuple):
    """What would send a message: a line for a shell, or a script of Python where no line can.

    Attributes:
        client: one of `CLIENTS`.
        endpoint: XID of the endpoint that it sends to; None: to this machine.
        text: the line or script; empty: there is none.
        error: why there is none.
    """

    client: str
    endpoint: str | None
    text: str = ""
    error: str = ""


@dataclass(frozen=True)
class Failure:
    """A message that was not rendered: of which definition, over which protocol, of which row of values, and why."""

    registryid: RegistryId
    xid: Xid
    over: str
    row: int | None
    error: LakehouseError

    def as_json(self) -> dict[str, Any]:
        """Return it as one JSON value."""
        fields: dict[str, Any] = {
            "registryid": self.registryid,
            "xid": self.xid,
            "as": self.over.lower() or None,
            "row": self.row,
        }
        if isinstance(self.error, MissingValues):
            fields["missing"] = [need._asdict() for need in self.error.needs]
        elif isinstance(self.error, RenderRefused):
            fields["refused"] = [refusal._asdict() for refusal in self.error.refusals]
        return fields | {"error": str(self.error)}


@dataclass
class RenderRun:
    """Renders what was selected.

    Args:
        selected: definitions, endpoints and schemas.
        style: how.
        requested: families, `CLOUDEVENTS` or `ALL`; nothing: what each definition or its endpoints say.
        form: how messages are written: one of `FORMATS`.

    Attributes:
        failures: what was not rendered, filled while messages are taken; the first thousand.
        failed: how many were not.
    """

    selected: Selected
    style: RenderStyle = field(default_factory=RenderStyle)
    requested: tuple[str, ...] = ()
    form: str = "json"
    failures: list[Failure] = field(default_factory=list)
    failed: int = 0

    @property
    def is_single(self) -> bool:
        """Return whether one definition is rendered, so that its error is the run's."""
        return len(self.selected.messages) == 1

    def messages(self, common: RenderInput, rows: Iterable[Mapping[str, Any]] | None = None) -> Iterator[Rendered]:
        """Render.

        Args:
            common: what is given for all.
            rows: values of one message each; None: one message, of what is common.

        Raises:
            SettingsError: a value was given that nothing asks for.
            MissingValues: of a single definition without rows; with what is missing in all bindings.
            RenderRefused: of a single definition in a single binding, without rows.
        """
        renderer = Renderer(Schemas(self.selected.schemas), self.style)
        bindings = [binding for row in self.selected.messages for binding in self._bindings(row)]
        if rows is None:
            check_names(bindings, common.values) if bindings else None
            if self.is_single:
                yield from self._of_input(renderer, bindings, common)
            else:
                for binding in bindings:
                    yield from self._attempt(renderer, binding, common, None)
            return
        checked: set[str] = set()
        for number, row in enumerate(rows):
            names = {*row, *common.values} - checked - {PAYLOAD}
            if names and bindings:
                check_names(bindings, sorted(names))
                checked |= names
            for binding in bindings:
                yield from self._attempt(renderer, binding, input_of(row, common), number)

    def _bindings(self, row: Mapping[str, Any]) -> list[ProtocolBinding]:
        try:
            return bindings_of(row, self.selected.endpoints, self.requested)
        except RenderRefused as error:
            if self.is_single:
                raise
            self._fail(Failure(row["registryid"], row["xid"], ", ".join(self.requested), None, error))
            return []

    def _of_input(self, renderer: Renderer, bindings: list[ProtocolBinding], render_input: RenderInput) -> Iterator[Rendered]:
        results = [message for binding in bindings for message in self._attempt(renderer, binding, render_input, None)]
        if self.failures:
            needs: dict[Need, None] = {}
            for failure in self.failures:
                needs |= dict.fromkeys(failure.error.needs if isinstance(failure.error, MissingValues) else ())
            if needs:
                by_name = {need.name: need for need in reversed(needs)}
                raise MissingValues(self.failures[0].xid, list(by_name.values())[::-1])
            if not results:
                raise self.failures[0].error
        yield from results

    def _attempt(
        self, renderer: Renderer, binding: ProtocolBinding, render_input: RenderInput, number: int | None
    ) -> Iterator[Rendered]:
        try:
            yield renderer.render(binding, render_input, number or 0)
        except (MissingValues, RenderRefused) as error:
            definition = binding.definition
            self._fail(Failure(definition.registryid, definition.xid, binding.family, number, error))

    def _fail(self, failure: Failure) -> None:
        self.failed += 1
        if len(self.failures) < _MOST_FAILURES:
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
        if not set(names) <= set(own):
            raise SettingsError(f"--format {form} writes messages of {', '.join(own)}: it does not go with --as {written}.")
        return tuple(names) or (own if len(own) == 1 else ())
    if batch:
        if any(name not in (CLOUDEVENTS, "HTTP") for name in names):
            raise SettingsError(f"--batch is for --as cloudevents and http, and not for {written}.")
        return tuple(names) or (CLOUDEVENTS,)
    return tuple(names)


def lines_of_failures(failures: Sequence[Failure]) -> list[str]:
    """Return what was left out, and why."""
    lines = []
    for failure in failures:
        row = "" if failure.row is None else f"row {failure.row}"
        where = ", ".join(part for part in (f"registry {failure.registryid}", failure.over.lower(), row) if part)
        lines.append(f"left out ({where}): {failure.error}")
    return lines


def samples_of(selected: Selected, renderer: Renderer) -> list[Sample]:
    """Make up a message of each definition over each protocol that it goes over.

    Args:
        selected: the definitions, with endpoints and schemas.
        renderer: of `renderer_of`.
    """
    samples: list[Sample] = []
    for row in selected.messages:
        try:
            bindings = bindings_of(row, selected.endpoints, (ALL,))
        except RenderRefused as error:
            samples.append(Sample(row["registryid"], row["xid"], None, error=str(error)))
            continue
        samples += [_sample(renderer, binding) for binding in bindings]
    return samples


def _sample(renderer: Renderer, binding: ProtocolBinding) -> Sample:
    over = CLOUDEVENTS.lower() if binding.protocol is None else binding.family.lower()
    registryid, xid = binding.definition.registryid, binding.definition.xid
    try:
        return Sample(registryid, xid, over, renderer.render(binding))
    except RenderRefused as error:
        return Sample(registryid, xid, over, error=str(error))


def examples_of(samples: Iterable[Sample]) -> list[dict[str, Any]]:
    """Return samples as JSON values: `registryid`, `xid`, `as`, and `example`, as `render` writes it, or `error`."""
    examples: list[dict[str, Any]] = []
    for sample in samples:
        made = {"error": sample.error} if sample.message is None else {"example": orjson.loads(sample.message.as_json())}
        examples.append({"registryid": sample.registryid, "xid": sample.xid, "as": sample.over, **made})
    return examples


def payload_of_samples(samples: Iterable[Sample], selected: Selected, renderer: Renderer) -> Any:
    """Return the payload of the samples of one definition as a JSON value, where Avro or Protobuf encodes it; else None.

    It is the same in all of them.
    """
    message = next((sample.message for sample in samples if sample.message is not None), None)
    return None if message is None else renderer.readable(definition_of(selected.messages[0]), message)


def commands_of(samples: Sequence[Sample], selected: Selected, renderer: Renderer) -> list[Command]:
    """Return the lines that would send samples: to each endpoint that carries the definition, else to this machine.

    Endpoints that nothing is sent to (their `usage` lacks `producer`) count where there is no other.

    Args:
        samples: of `samples_of`: one for each protocol, to one of its endpoints.
        selected: what they were made from.
        renderer: likewise.
    """
    used = {sample.message.endpoint for sample in samples if sample.message is not None}
    if not used:
        return []
    refused_samples = [
        _sample(renderer, binding)
        for row in selected.messages
        for endpoint in sending(row, selected.endpoints)
        if endpoint.xid not in used
        for binding in bindings_of(row, [endpoint])
        if binding.endpoint is not None
    ]
    messages = [sample.message for sample in (*samples, *refused_samples) if sample.message is not None]
    sent = [message for message in messages if message.endpoint is not None] or messages
    return [command for message in sent for command in _commands(message)]


def sending(row: Mapping[str, Any], endpoints: Iterable[Endpoint]) -> list[Endpoint]:
    """Return the endpoints that carry a definition and that producers send to."""
    carrying = [endpoint for endpoint in endpoints if endpoint.carries(row["registryid"], row["group_xid"])]
    return [endpoint for endpoint in carrying if not endpoint.usage or "producer" in endpoint.usage]


def _commands(message: Rendered) -> list[Command]:
    """Return what the first client writes that can send a message; else why each cannot."""
    refused = []
    for client, (families, write) in CLIENTS.items():
        if message.family in families:
            try:
                return [Command(client, message.endpoint, write(message))]
            except RenderRefused as error:
                reasons = "; ".join(refusal.reason for refusal in error.refusals)
                refused.append(Command(client, message.endpoint, error=reasons))
    return refused


def renderer_of(selected: Selected, now: str | None = None) -> Renderer:
    """Make what renders examples; now: RFC 3339 timestamp that stands for the current time, None: the clock's."""
    return Renderer(Schemas(selected.schemas), RenderStyle(example=True, seed=_SEED, now=now))


def examples_in(view: View, registryid: RegistryId, xid: Xid) -> list[dict[str, Any]]:
    """Make up examples of a message of a snapshot, at its time; where they cannot be had, one entry says why."""
    try:
        definition = view.definition(registryid, xid)
        if definition is None:
            return []
        selected = selected_at(view, definition)
        now = view.committed_at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        return examples_of(samples_of(selected, renderer_of(selected, now)))
    except LakehouseError as error:
        return [{"registryid": registryid, "xid": xid, "as": None, "error": str(error)}]
