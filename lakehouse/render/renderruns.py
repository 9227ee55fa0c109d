"""One run of `lakehouse render`: each definition, over each protocol, with each row of values becomes a message.

Messages are written as JSON, as lines that `match` reads, or as lines for a shell: `curl`, `kcat`, `mosquitto_pub`. These are
written, and never run; every value is quoted for a POSIX shell, and a payload that is not text is decoded from base64 there.
`examples_of` makes the examples of `lakehouse show`: one over each protocol, made for each call and stored nowhere; `commands_of`
the lines that would send one to each endpoint.
"""

from __future__ import annotations

import base64
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

import orjson

from lakehouse.errors import LakehouseError, SettingsError
from lakehouse.match.definition.valuetypes import as_text
from lakehouse.match.payload.schemas import Schemas
from lakehouse.readmodel.snapshotview import View
from lakehouse.render.filling import PAYLOAD, RenderInput, check_names, input_of
from lakehouse.render.protocolbinding import ALL, CLOUDEVENTS, FAMILIES, Endpoint, ProtocolBinding, bindings_of
from lakehouse.render.rendering import Rendered, Renderer, RenderStyle, batched
from lakehouse.render.selected import Selected, selected_at
from lakehouse.render.unrenderable import MissingValues, Need, Refusal, RenderRefused
from lakehouse.text.jsontext import pointer_of
from lakehouse.text.names import RegistryId, Xid

_MQTT_PROPERTIES = {"content_type": "content-type", "message_expiry_interval": "message-expiry-interval",
                    "payload_format": "payload-format-indicator", "response_topic": "response-topic",
                    "correlation_data": "correlation-data"}  # fmt: skip
_DELIMITERS = (0x1E, 0x1F, 0x1D, 0x1C, 0x02, 0x03)
_MOST_FAILURES = 1_000
PROTOCOLS = ("cloudevents", *(name.lower() for name in FAMILIES), "all")
_SEED = 0


def curl(message: Rendered) -> str:
    """Return the line of `curl` that would send a request.

    Raises:
        RenderRefused: it is a response.
    """
    captured = message.captured
    if "status" in captured:
        raise _refused(message, "/protocoloptions/status", "is a response: there is nothing to send")
    parts = urlsplit(message.uri or "")
    base = f"{parts.scheme}://{parts.netloc}" if parts.scheme in ("http", "https") and parts.netloc else "http://localhost:8080"
    query = urlencode([(parameter["name"], parameter["value"]) for parameter in captured.get("query", ())])
    words = ["curl", "-X", captured["method"], base + captured["path"] + (f"?{query}" if query else "")]
    words += ["--path-as-is"] if "/." in captured["path"] else []
    for header in captured["headers"]:
        words += ["-H", f"{header['name']}: {header['value']}" if header["value"] else f"{header['name']};"]
    if message.body is None:
        return shlex.join(words)
    if not any(header["name"].lower() == "content-type" for header in captured["headers"]):
        words += ["-H", "content-type:"]  # curl would say that it is a form
    text = _text(message.body)
    return shlex.join([*words, "--data-raw", text]) if text is not None else _piped(message.body, [*words, "--data-binary", "@-"])


def kcat(message: Rendered) -> str:
    """Return the line of `kcat` that would produce a record.

    Raises:
        RenderRefused: the key is no text, or the name of a header holds `=`.
    """
    captured = message.captured
    words = ["kcat", "-P", "-b", _broker(message, "9092")]
    security = _scheme(message)
    words += ["-X", f"security.protocol={security}"] if security in ("ssl", "sasl_ssl", "sasl_plaintext") else []
    words += ["-t", captured["topic"]]
    if "key" in captured:
        words += ["-k", as_text(captured["key"])]
    elif "key_base64" in captured:
        key = _text(base64.b64decode(as_text(captured["key_base64"])))
        if key is None:
            raise _refused(message, "/protocoloptions/key_base64", "kcat takes a key that is text")
        words += ["-k", key]
    words += ["-p", as_text(captured["partition"])] if "partition" in captured else []
    words += [] if message.acks is None else ["-X", f"acks={message.acks}"]
    for header in captured["headers"]:
        if "=" in header["name"]:
            raise _refused(message, pointer_of("protocoloptions", "headers", header["name"]), "kcat takes no name that holds =")
        words += ["-H", f"{header['name']}={header['value']}"]
    if not message.body:
        return f"echo | {shlex.join([*words, '-Z'] if message.body is None else words)}"
    if b"\n" in message.body:
        free = next((code for code in _DELIMITERS if code not in message.body), None)
        if free is None:
            raise _refused(message, "payload", "holds every character that could end a message of kcat")
        words += ["-D", f"\\x{free:02x}"]
    return _piped(message.body, words)


def mosquitto_pub(message: Rendered) -> str:
    """Return the line of `mosquitto_pub` that would publish a message.

    Raises:
        RenderRefused: the endpoint is a WebSocket, which the client does not speak in all its versions.
    """
    captured, scheme = message.captured, _scheme(message)
    if scheme in ("ws", "wss"):
        raise _refused(message, "endpoint", f"its address {message.uri} is a WebSocket, and mosquitto_pub goes over TCP")
    is_secure = scheme in ("mqtts", "ssl", "tls")
    host, _, port = _broker(message, "8883" if is_secure else "1883").rpartition(":")
    is_5 = (message.protocol or "").endswith("/5.0")
    words = ["mosquitto_pub", "-V", "5" if is_5 else "311", "-h", host, "-p", port]
    words += ["--tls-use-os-certs"] if is_secure else []
    words += ["-t", captured["topic_name"]]
    words += ["-q", as_text(captured["qos"])] + (["-r"] if captured["retain"] in (True, "true") else [])
    for name, own in _MQTT_PROPERTIES.items():
        if name in captured:
            words += ["-D", "publish", own, as_text(captured[name])]
    for user_property in captured.get("user_properties", ()):
        words += ["-D", "publish", "user-property", user_property["name"], user_property["value"]]
    if not message.body:
        return shlex.join([*words, "-n"])
    text = _text(message.body)
    return shlex.join([*words, "-m", text]) if text is not None else _piped(message.body, [*words, "-s"])


CLIENTS: dict[str, tuple[str, Callable[[Rendered], str]]] = {
    "curl": ("HTTP", curl),
    "kcat": ("KAFKA", kcat),
    "mosquitto_pub": ("MQTT", mosquitto_pub),
}


def _broker(message: Rendered, port: str) -> str:
    """Return host and port of the endpoint, else of this machine."""
    parts = urlsplit("//" + (message.uri or "").rpartition("://")[2])
    try:
        return f"{parts.hostname or 'localhost'}:{parts.port or port}"
    except ValueError:  # a port that is none
        return f"{parts.hostname or 'localhost'}:{port}"


def _scheme(message: Rendered) -> str:
    """Return the scheme of the endpoint's address; Kafka's have `_`, so they are no URI to the library."""
    before, result, _ = (message.uri or "").partition("://")
    return before.lower() if result else ""


def _text(body: bytes) -> str | None:
    """Return a body as an argument of a command, if it is one: UTF-8 without NUL."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text


def _piped(body: bytes, words: list[str]) -> str:
    text = _text(body)
    first = f"printf %s {shlex.quote(text)}" if text is not None else f"echo {base64.b64encode(body).decode()} | base64 -d"
    return f"{first} | {shlex.join(words)}"


def _refused(message: Rendered, pointer: str, reason: str) -> RenderRefused:
    return RenderRefused(message.xid, [Refusal(pointer, reason)])


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
    """A line for a shell that would send a message.

    Attributes:
        client: one of `CLIENTS`.
        endpoint: XID of the endpoint that it sends to; None: to this machine.
        text: the line; empty: there is none.
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
        if names and names != [own]:
            raise SettingsError(f"--format {form} writes messages of {own}: it does not go with --as {written}.")
        return (own,)
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
        for endpoint in _sending(row, selected.endpoints)
        if endpoint.xid not in used
        for binding in bindings_of(row, [endpoint])
        if binding.endpoint is not None
    ]
    messages = [sample.message for sample in (*samples, *refused_samples) if sample.message is not None]
    sent = [message for message in messages if message.endpoint is not None] or messages
    return [
        _command(client, line, message)
        for message in sent
        for client, (family, line) in CLIENTS.items()
        if family == message.family
    ]


def _sending(row: Mapping[str, Any], endpoints: Iterable[Endpoint]) -> list[Endpoint]:
    carrying = [endpoint for endpoint in endpoints if endpoint.carries(row["registryid"], row["group_xid"])]
    return [endpoint for endpoint in carrying if not endpoint.usage or "producer" in endpoint.usage]


def _command(client: str, line: Callable[[Rendered], str], message: Rendered) -> Command:
    try:
        return Command(client, message.endpoint, line(message))
    except RenderRefused as error:
        return Command(client, message.endpoint, error=str(error))


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
