"""Documents of proposed definitions: for each group of kinds its messages, their schemas, and an endpoint for each protocol.

A CloudEvent becomes a message without protocol, and a variant for each protocol that carried it, which inherits it by
`basemessage`. Other events become messages of their protocol. Labels say that they are proposed, and from how many events.

An attribute whose text was always the same has it as its value. Else its segments are aligned: those that were always the same
are literal, the others are placeholders. A placeholder is named after the member of the payload or the attribute that held the
same text; two have one name only if they always held the same text, since a definition requires that.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain, count
from typing import Any, NamedTuple

import orjson

from lakehouse.dialects.tables import PROTOCOLS, address_separator
from lakehouse.domain.subjects import hashed_id, id_of_name
from lakehouse.match.definition.compiled import ADDRESSES, unescape
from lakehouse.match.definition.templates import compile_template, has_placeholder
from lakehouse.match.definition.valuetypes import is_attribute_name, is_of_type
from lakehouse.propose.decided import Observed, Thresholds, names_below
from lakehouse.propose.discriminators import discriminator_of
from lakehouse.propose.kinds import MODE, PROTOCOL
from lakehouse.propose.pathcounts import (
    CONTENT_TYPE,
    DATA,
    ENVELOPE,
    ITEM,
    OPTIONS,
    SEGMENT,
    PathCounts,
    child,
    looks_like_id,
    name_in,
    segment,
)
from lakehouse.propose.payloadschema import FORMAT, PayloadSchema, payload_schema
from lakehouse.propose.widening import PROPOSED, Json, WidenedVersion
from lakehouse.text.xid import ID

_NO_NAME = re.compile(r"[^A-Za-z0-9_]+")
_NUMBERED = re.compile(r"[-_:]\d+\Z")
_MOST_SEGMENTS = 16
_ALIKE = 0.5  # of the compared events, for a name
SPECVERSION = "1.0-rc2"
CLOUDEVENTS = "CloudEvents/1.0"
_NO_ID = re.compile(r"[^A-Za-z0-9_.~:@-]+")
_MOST_BEFORE_NUMBER = 120  # characters of an id, of which there are at most 128
_BOUND = frozenset({"specversion", "id", "type", "datacontenttype"})  # every CloudEvent has them, or the message says it
_TYPES = {"time": "timestamp", "source": "uritemplate", "dataschema": "uritemplate"}
# Options that differ from message to message, or that connections and clients add.
_INCIDENTAL = re.compile(
    r"\A(?:partition|key_base64|correlation_data|message_expiry_interval|response_topic|footer/.*|delivery-annotations/.*|header/.*"
    r"|message-annotations/x-opt-(?!partition-key\Z).*|properties/(?:message-id|correlation-id|creation-time|absolute-expiry-time|user-id|reply-to)"
    r"|headers/(?:host|user-agent|content-length|date|accept.*|connection|via|forwarded|x-forwarded-.*|traceparent|tracestate"
    r"|x-request-id|content-encoding|transfer-encoding))\Z",
    re.IGNORECASE,
)


class AlignedText(NamedTuple):
    """A text as literals and holes.

    Attributes:
        parts: of each segment its text, and the path of its counts; a hole has no text.
        separator: between them.
    """

    parts: tuple[tuple[str | None, str], ...]
    separator: str

    @property
    def holes(self) -> list[str]:
        """Return the paths of the placeholders."""
        return [path for text, path in self.parts if text is None]


def align_texts(observed: Observed, path: str, separator: str, thresholds: Thresholds) -> AlignedText | None:
    """Align the texts of an attribute; None: it did not hold texts alone, or empty ones, which no placeholder stands for."""
    types = observed.types(path)
    whole = types.get("string")
    if set(types) != {"string"} or whole is None:
        return None
    literal = _literal(whole, thresholds)
    if literal is None and whole.shortest == 0:
        return None
    if literal is not None and separator not in literal:
        return AlignedText(((literal, path),), separator)
    lengths = [length for length in range(2, _MOST_SEGMENTS + 1) if observed.types(segment(path, length, 0))]
    if len(lengths) != 1 or observed.events(segment(path, lengths[0], 0)) != whole.events:
        return AlignedText(((literal, path),), separator)
    places = [segment(path, lengths[0], index) for index in range(lengths[0])]
    parts = [(_literal(observed.counts[place, "string"], thresholds), place) for place in places]
    may_be_empty = any(text is None and observed.counts[place, "string"].shortest == 0 for text, place in parts)
    if may_be_empty:  # which no placeholder is
        return AlignedText(((literal, path),), separator)
    if literal is not None and all(text is not None for text, _ in parts):
        return AlignedText(((literal, path),), separator)
    is_uri = parts[1][0] == "" and (parts[0][0] is None or parts[0][0].endswith(":"))
    if is_uri and not any(text for text, _ in parts[1:]):  # nothing but the scheme is the same
        return AlignedText(((None, path),), separator)
    return AlignedText(tuple(parts), separator)


def _literal(counts: PathCounts, thresholds: Thresholds) -> str | None:
    """Return the text that was always there; None: it varied, or too few events were seen to say that an id does not."""
    if counts.longest == 0:
        return ""
    text = counts.constant
    if text is None or "{" in text or "}" in text:
        return None
    if counts.events >= thresholds.sure_events:
        return text
    is_payload = any(path.startswith(DATA) and times == counts.sampled for path, times in counts.equals.items())
    may_vary = looks_like_id(text) or _NUMBERED.search(text) is not None or (text != "" and is_payload)
    return None if counts.events < thresholds.constant_events or may_vary else text


def write_texts(texts: Mapping[str, AlignedText], observed: Observed, thresholds: Thresholds) -> dict[str, str]:
    """Write the texts of a kind's attributes as values and templates, with names for their placeholders.

    Args:
        texts: by path.
        observed: the kind.
        thresholds: how many events say that a text does not vary.
    """
    texts = _opened(texts, observed, thresholds)
    names: dict[str, str] = {}
    holes = [hole for path in sorted(texts) for hole in texts[path].holes]
    used: set[str] = set()
    for hole in holes:
        same = next((names[other] for other in names if _always_equal(observed, hole, other)), None)
        names[hole] = same or _free(_name(observed, hole), used)
        used.add(names[hole])
    return {
        path: parted.separator.join(f"{{{names[place]}}}" if text is None else text for text, place in parted.parts)
        for path, parted in texts.items()
    }


def _opened(texts: Mapping[str, AlignedText], observed: Observed, thresholds: Thresholds) -> dict[str, AlignedText]:
    """Make holes of texts that were the same in few events, and always equal to one that varies."""
    holes = {hole for parted in texts.values() for hole in parted.holes}
    while True:
        more = {
            place
            for parted in texts.values()
            for text, place in parted.parts
            if text and place not in holes and observed.counts[place, "string"].events < thresholds.sure_events
            and any(_always_equal(observed, place, hole) for hole in holes if hole in observed.counts[place, "string"].equals)
        }  # fmt: skip
        if not more:
            break
        holes |= more
    return {
        path: AlignedText(tuple((None if place in holes else text, place) for text, place in parted.parts), parted.separator)
        for path, parted in texts.items()
    }


def _always_equal(observed: Observed, path: str, other: str) -> bool:
    counts, other_counts = observed.counts[path, "string"], observed.counts[other, "string"]
    events = min(counts.sampled, other_counts.sampled)
    return events > 0 and counts.equals.get(other, 0) == events


def _name(observed: Observed, hole: str) -> str:
    """Return the name of the member or attribute that held the same text, else that of the attribute."""
    counts = observed.counts[hole, "string"]
    alike = [(-times, not path.startswith(DATA), path.count("/"), path) for path, times in counts.equals.items()]
    best = next((path for times, _, _, path in sorted(alike) if -times >= _ALIKE * counts.sampled), None)
    if best is not None and SEGMENT not in best:
        return _plain(name_in(best))
    attribute, _, place = hole.partition(SEGMENT)
    return _plain(name_in(attribute)) + (f"_{int(place.partition('/')[2]) + 1}" if place else "")


def _plain(name: str) -> str:
    return _NO_NAME.sub("_", name.rpartition("/")[2]).strip("_") or "value"


def _free(name: str, used: set[str]) -> str:
    number = 2
    free = name
    while free in used:
        free, number = f"{name}_{number}", number + 1
    return free


@dataclass
class ProposedKind:
    """What is proposed for a kind.

    Attributes:
        observed: its counts.
        group: id of its group.
        messageid: id of its message.
        message: the definition that does not depend on a protocol; None: there is no envelope.
        variants: the definition for each protocol, by family.
        payload: the schema, and what it leaves out.
        texts: values and templates of attributes, by path.
    """

    observed: Observed
    group: str
    messageid: str
    message: Json | None
    variants: dict[str, Json] = field(default_factory=dict)
    payload: PayloadSchema = field(default_factory=lambda: PayloadSchema(None))
    texts: dict[str, str] = field(default_factory=dict)

    @property
    def events(self) -> int:
        """Return how many events of the kind there were."""
        return self.observed.events("")


def propose_kinds(observed: Iterable[Observed], thresholds: Thresholds) -> list[ProposedKind]:
    """Decide what is proposed for each kind, sorted by group and id."""
    observed = list(observed)
    places = _places(observed)
    proposed = [_ProposedParts(observation, thresholds, places[observation.kind]).proposal() for observation in observed]
    return sorted(proposed, key=lambda proposal: (proposal.group, proposal.messageid, proposal.observed.kind))


@dataclass
class ProposedGroup:
    """What is proposed for a group: new kinds of events, and new Versions of schemas that events break."""

    kinds: list[ProposedKind] = field(default_factory=list)
    widened: list[WidenedVersion] = field(default_factory=list)

    def has_schema(self, schemaid: str) -> bool:
        """Return whether it has a schema of an id, in any letter case."""
        ids = [kind.messageid for kind in self.kinds] + [version.schemaid for version in self.widened]
        return schemaid.casefold() in map(str.casefold, ids)

    @property
    def document(self) -> Json:
        """Return the document of the specification."""
        document: Json = _document(self.kinds[0].group, self.kinds) if self.kinds else {"specversion": SPECVERSION}
        schemagroups = document.setdefault("schemagroups", {}) if self.widened else {}
        for version in self.widened:
            of_group = schemagroups.setdefault(version.group, {"schemagroupid": version.group, "schemas": {}})
            of_group["schemas"][version.schemaid] = version.as_schema()
        return document


def groups_of(kinds: Iterable[ProposedKind], widened: Iterable[WidenedVersion] = ()) -> dict[str, ProposedGroup]:
    """Return what is proposed by group, sorted by name; a schema of an id that its group has already is in another group."""
    groups: dict[str, ProposedGroup] = {}
    for kind in kinds:
        groups.setdefault(kind.group, ProposedGroup()).kinds.append(kind)
    for version in widened:
        own = f"{version.broken.registryid}.{version.group}"
        names = chain((version.group, own), (f"{own}-{number}" for number in count(2)))
        name = next(name for name in names if name not in groups or not groups[name].has_schema(version.schemaid))
        groups.setdefault(name, ProposedGroup()).widened.append(version)
    return dict(sorted(groups.items()))


def as_bytes(document: Json) -> bytes:
    """Write a document, the same bytes for the same content."""
    return orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def _document(group: str, kinds: list[ProposedKind]) -> Json:
    messagegroups: dict[str, Json] = {}
    schemas: dict[str, Json] = {}
    modes: defaultdict[str, set[str]] = defaultdict(set)
    for kind in kinds:
        if kind.message is not None:
            base = messagegroups.setdefault(group, {"messagegroupid": group, "envelope": CLOUDEVENTS, "messages": {}})
            base["messages"][kind.messageid] = kind.message
        for family, variant in kind.variants.items():
            within = _id(f"{group}.{family.lower()}")
            of_family = messagegroups.setdefault(
                within, {"messagegroupid": within, "protocol": variant["protocol"], "messages": {}}
            )
            of_family["messages"][kind.messageid] = variant
            modes[within] |= set(kind.observed.counts[MODE, "string"].values or ()) if kind.message is not None else set()
        if kind.payload.schema is not None:
            schema = _with_evidence(kind.payload.schema, kind.observed, DATA)
            version = {"schemaid": kind.messageid, "versionid": "1", "labels": PROPOSED, "format": FORMAT, "schema": schema}
            schemas[kind.messageid] = {"schemaid": kind.messageid, "format": FORMAT, "versions": {"1": version}}
    document: Json = {"specversion": SPECVERSION}
    endpoints = {within: _endpoint(within, of, modes[within]) for within, of in messagegroups.items() if "protocol" in of}
    if endpoints:
        document["endpoints"] = endpoints
    document["messagegroups"] = messagegroups
    if schemas:
        document["schemagroups"] = {group: {"schemagroupid": group, "schemas": schemas}}
    return document


def _with_evidence(schema: Json, observed: Observed, path: str) -> Json:
    """Return a schema whose members say how often they were there."""
    shown = dict(schema)
    if "anyOf" in schema:
        shown["anyOf"] = [_with_evidence(branch, observed, path) for branch in schema["anyOf"]]
    if "items" in schema:
        shown["items"] = _with_evidence(schema["items"], observed, f"{path}/{ITEM}")
    if "properties" in schema:
        places = {name: child(path, name) for name in schema["properties"]}
        shown["properties"] = {
            name: _with_evidence(member, observed, places[name]) | observed.evidence(places[name])
            for name, member in schema["properties"].items()
        }
    return shown


def _endpoint(within: str, group: Json, modes: set[str]) -> Json:
    """Return the endpoint of a group of variants: the options that all its messages have alike."""
    options = [message.get("protocoloptions", {}) for message in group["messages"].values()]
    family = group["protocol"].partition("/")[0]
    address = ADDRESSES.get(family, "")
    of_endpoint = PROTOCOLS[family].endpoint_options.split() if family in PROTOCOLS else []
    shared = {
        name: options[0][name]
        for name in of_endpoint
        if name in (address, "key") and name in options[0] and all(declared.get(name) == options[0][name] for declared in options)
    }
    envelope: Json = {"envelope": CLOUDEVENTS} if modes else {}
    if len(modes) == 1:
        envelope["envelopeoptions"] = {"mode": next(iter(modes))}
    return {
        "endpointid": within, "usage": ["producer"], "labels": PROPOSED, **envelope, "protocol": group["protocol"],
        "protocoloptions": {"deployed": False, **shared}, "messagegroups": [f"/messagegroups/{within}"],
    }  # fmt: skip


class _ProposedParts:
    """The parts of what is proposed for one kind."""

    def __init__(self, observed: Observed, thresholds: Thresholds, place: tuple[str, str]) -> None:
        self.observed, self.thresholds = observed, thresholds
        self.group, self.messageid = place
        self.members = observed.members
        self.families = names_below(observed, OPTIONS, self.members)

    def proposal(self) -> ProposedKind:
        """Return the proposal."""
        has_envelope = bool(self.observed.types(ENVELOPE))
        group, messageid = self.group, self.messageid
        payload = payload_schema(self.observed, self.thresholds)
        texts = write_texts(self._texts(), self.observed, self.thresholds)
        message = None
        if has_envelope:
            envelope = self._envelope(texts, has_schema=payload.schema is not None)
            message = self._message(group, messageid, payload) | envelope
        variants = {}
        for family in self.families:
            options = self._options(family, texts)
            if message is None:
                variants[family] = self._message(group, messageid, payload) | {"protocol": self._protocol(family)} | options
            else:
                base = {"basemessage": f"/messagegroups/{group}/messages/{messageid}", "protocol": self._protocol(family)}
                variants[family] = {"messageid": messageid, "labels": PROPOSED, **base, **options}
        return ProposedKind(self.observed, group, messageid, message, variants, payload, texts)

    def _texts(self) -> dict[str, AlignedText]:
        """Return the attributes that always were there, and held texts alone."""
        places = {path: "/" for path in self.members.get(ENVELOPE, ()) if name_in(path) not in (*_BOUND, "time")}
        for family in self.families:
            for path in self.members.get(child(OPTIONS, family), ()):
                if not _INCIDENTAL.match(name_in(path)):
                    places[path] = address_separator(family)
        aligned_texts = {}
        for path, separator in places.items():
            seen = self.observed.presence(path)
            parted = align_texts(self.observed, path, separator, self.thresholds) if seen.events == seen.parents else None
            if parted is not None:
                aligned_texts[path] = parted
        return aligned_texts

    def _message(self, group: str, messageid: str, payload: PayloadSchema) -> Json:
        days = self.observed.seen_on("")
        labels = PROPOSED | {"observed.events": str(self.observed.events(""))}
        if days:
            labels |= {"observed.from": days[0], "observed.until": days[-1]}
        message: Json = {"messageid": messageid, "labels": labels}
        content = self.observed.counts.get((CONTENT_TYPE, "string"))
        if content is not None and content.constant is not None and content.events == self.observed.events(""):
            message["datacontenttype"] = content.constant
        if payload.schema is not None:
            message["dataschemaformat"] = FORMAT
            message["dataschemauri"] = f"#/schemagroups/{group}/schemas/{messageid}"
        return message

    def _envelope(self, texts: dict[str, str], *, has_schema: bool) -> Json:
        """Return the attributes of a CloudEvent; `dataschema` of a message with a schema would have to name that (MSG-260)."""
        attributes: dict[str, Json] = {"type": {"value": self.observed.kind}}
        for path in self.members.get(ENVELOPE, ()):
            name = name_in(path)
            if name not in _BOUND and is_attribute_name(name) and not (name == "dataschema" and has_schema):
                attributes[name] = self._declared(path, self._type(path, _TYPES.get(name, "string")), texts.get(path))
        return {"envelope": CLOUDEVENTS, "envelopemetadata": attributes}

    def _type(self, path: str, of_texts: str) -> str:
        """Return the type that all values of an attribute have; `any`: no other type has them all."""
        types = {kind: counts for kind, counts in self.observed.types(path).items() if kind != "null"}
        if set(types) <= {"string"}:
            return of_texts
        kind, counts = next(iter(types.items()))
        if of_texts != "string" or len(types) > 1 or kind not in ("boolean", "integer", "number"):
            return "any"
        if kind != "integer" or not path.startswith(ENVELOPE):
            return kind
        bounds = (counts.least, counts.greatest)
        is_small = all(bound is not None and is_of_type(int(bound), kind, small=True) for bound in bounds)
        return kind if is_small else "any"

    def _options(self, family: str, texts: dict[str, str]) -> Json:
        options: Json = {}
        discriminator = discriminator_of(self.observed.kind)
        for path in self.members.get(child(OPTIONS, family), ()):
            name = name_in(path)
            if _INCIDENTAL.match(name):
                continue
            section, slash, inner = name.partition("/")
            if slash:
                declared = self._declared(path, self._type(path, "string"), texts.get(path))
                if discriminator and discriminator.path == child(OPTIONS, name):
                    declared |= {"value": discriminator.value, "required": True}
                if section != "properties" or "value" in declared:
                    options.setdefault(section, {})[unescape(inner)] = declared
            elif path in texts:
                options[name] = texts[path]
            elif (value := self._constant(path)) is not None:
                options[name] = str(value) if name == "status" else value  # which is a text of digits (MSG-288)
            elif name == "status":  # without any value, the message would be a request
                used = {placeholder for text in texts.values() for placeholder in compile_template(text).names}
                options[name] = f"{{{_free('status_code', used)}}}"
        return {"protocoloptions": options} if options else {}

    def _constant(self, path: str) -> Any:
        """Return the number or boolean that an option always was; None: it was not."""
        types = self.observed.types(path)
        seen = self.observed.presence(path)
        if len(types) != 1 or seen.events != seen.parents or seen.events < self.thresholds.constant_events:
            return None
        kind, counts = next(iter(types.items()))
        text = counts.constant
        return orjson.loads(text) if text is not None and kind in ("integer", "boolean") else None

    def _declared(self, path: str, kind: str, text: str | None) -> Json:
        is_template = text is not None and has_placeholder(text)
        declared: Json = {"type": "string" if kind == "uritemplate" and not is_template else kind}
        if text is not None:
            declared["value"] = text
        if self.observed.is_required(path, self.thresholds):
            declared["required"] = True
        return declared | self.observed.evidence(path)

    def _protocol(self, family: str) -> str:
        """Return the protocol with its version, if all events had one."""
        counts = self.observed.counts.get((PROTOCOL, "string"))
        seen = sorted(text for text in (counts.values or () if counts else ()) if text.partition("/")[0] == family)
        usual = PROTOCOLS[family].shorthand if family in PROTOCOLS else ""
        return seen[0] if len(seen) == 1 and (seen[0] != family or not usual) else f"{family}/{usual}" if usual else family


def _places(observed: Iterable[Observed]) -> dict[str, tuple[str, str]]:
    """Return the ids of group and message of each kind; none differs from another in letter case alone (MSG-037)."""
    groups: dict[str, str] = {}
    used: set[tuple[str, str]] = set()
    places = {}
    for observation in sorted(observed, key=lambda observation: observation.kind):
        group, messageid = _place_of(observation.kind, bool(observation.types(ENVELOPE)))
        group = groups.setdefault(group.casefold(), group)
        candidates = chain([messageid], (f"{messageid[:_MOST_BEFORE_NUMBER]}-{number}" for number in count(2)))
        free = next(candidate for candidate in candidates if (group, candidate.casefold()) not in used)
        used.add((group, free.casefold()))
        places[observation.kind] = (group, free)
    return places


def _place_of(kind: str, has_envelope: bool) -> tuple[str, str]:
    """Return the ids of group and message: the group is what the type begins with, or the protocol and its address."""
    if has_envelope:
        prefix = re.split(r"[./][^./]*\Z", kind, maxsplit=1)[0]
        return ("proposed" if prefix in ("", kind) else _id(prefix)), _id(kind)
    family, _, address = kind.partition(" ")
    discriminator = discriminator_of(address)
    address, value = (address, "") if discriminator is None else (discriminator.address, f".{discriminator.value}")
    prefix = re.split(r"[./][^./]*\Z", address.partition("?")[0], maxsplit=1)[0]
    return _id(prefix, family.lower()), _id(address + value, family.lower())


def _id(text: str, instead: str = "") -> str:
    """Return a text as an id; what may not be in one is `_`.

    Args:
        text: not empty, unless there is something instead.
        instead: the id of a text of which nothing else is left; without it all its characters are escaped.
    """
    plain = _NO_ID.sub("_", text.strip("/")).strip("_")
    if not plain:
        return instead or id_of_name(text)
    usual = plain if plain[0].isalnum() else f"_{plain}"
    return usual if ID.match(usual) else hashed_id(usual, text)
