"""Rules about one entity, applied to its normal form: one engine for the table `constraints.csv`, and code for a few others.

Runs on the executors while a document is parsed, where each entity is at hand once, and again over what is published
(`published.check_catalog`). A row of the table is one test of one attribute, option or declared property: of which entity,
for which protocol family or envelope, in which place of it, its name (`*`: each member, empty: the place itself), the rule, the
test and its argument. What a rule says to a person is in `rules.csv`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import get_close_matches
from functools import cache, lru_cache
from typing import Any, NamedTuple

from lakehouse.compatibility import check_format
from lakehouse.dialects.coercions import is_declaration
from lakehouse.dialects.tables import (
    FAMILIES,
    PROTOCOLS,
    exclusive_options,
    family_of,
    family_of_options,
    has_more_rules,
    has_rule,
    moves_of,
    places_of,
    severity_in,
    table,
)
from lakehouse.domain.references import is_self_url, leads_within
from lakehouse.rules.entity.checks import shown
from lakehouse.rules.entity.constraints import CLOUDEVENTS, ENVELOPE_NAMES, EntityViolation, Subject, ValidatedCache, by_table
from lakehouse.store.keys import LIFECYCLE
from lakehouse.text import values
from lakehouse.text.jsontext import canonical_text, read_canonical
from lakehouse.text.names import Xid
from lakehouse.text.problems import MISSPELLED

_ENVELOPE_NAMES = frozenset(ENVELOPE_NAMES)
_RULE_OF_TYPE = {
    "binary": "MSG-210",
    "boolean": "MSG-211",
    "duration": "MSG-212",
    "integer": "MSG-213",
    "int32": "MSG-213",
    "number": "MSG-214",
    "string": "MSG-215",
    "symbol": "MSG-216",
    "asciisymbol": "MSG-216",
    "timestamp": "MSG-217",
    "uri": "MSG-218",
    "urireference": "MSG-219",
    "uritemplate": "MSG-220",
    "ulong": "MSG-305",
    "uuid": "MSG-305",
}
_SEGMENT = re.compile(r"(?:[A-Za-z0-9\-._~!$&'()*+,;=@]|%[0-9A-Fa-f]{2})+")
_TEXT_FORMATS = ("proto", "xsd", "xmlschema", "thrift")
_OLD_MEMBERS = {
    "publish": (
        "CAT-137",
        "topicname qos retain payloadformat expiryinterval responsetopic correlationdata userproperty contenttype",
    ),
    "pub": ("CAT-151", "subject reply-to replyto"),
}
# What declarations broke no rule yet. Besides the declaration the rules look at the envelope's kind, or at the protocol.
_SOUND = ValidatedCache()
PRESENCE = frozenset(("MSG-161", "MSG-166", "MSG-175", "MSG-181", "END-058"))
NO_LABELS = "END-012"

_BAD_ESCAPE = re.compile(r"://[^/]*/.*%(?![0-9A-Fa-f]{2})")

_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.\-_]*)://([^/?#]*)([^?#]*)(.*)", re.DOTALL)

_AUTHORITY = re.compile(r"(?:[^@]*@)?(\[[0-9A-Fa-f:.]+\]|[^:\[\]\s@]+)(?::([0-9]{1,5}))?")

# A placeholder may hold the scheme, too.
_ABSOLUTE_TEMPLATE = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.\-]*:.*)?\{", re.DOTALL)

_MQTT_WILDCARDS = re.compile(r"[+#]")


def check_entity(subject: Subject) -> list[EntityViolation]:
    """Find all rules that an entity breaks by itself."""
    results = by_table(subject.entity, "", subject.attributes)
    if subject.entity == "message":
        if subject.in_endpoint and results:
            results = [violation for violation in results if not _is_allowed_in_endpoint(subject, violation)]
        results += _check_message(subject)
    elif subject.entity == "endpoint":
        results.extend(check_endpoint(subject))
    elif subject.entity in ("messagegroup", "schemagroup"):
        results.extend(_check_group(subject))
    elif subject.entity == "schema":
        results.extend(_check_schema_text(subject))
    results.extend(check_names(subject, is_event=subject.entity == "message" and _is_event(subject)))
    if not results:
        return results
    return [
        violation._replace(severity=severity_in(subject.dialect, violation.rule_id) or violation.severity)
        for violation in results
    ]


# Groups and schemas.


def _check_group(subject: Subject) -> Iterator[EntityViolation]:
    attributes, dialect = subject.attributes, subject.dialect
    if has_rule(dialect, "CAT-021") and not _is_segment(subject.ident):
        yield EntityViolation((), "CAT-021", f"the id {subject.ident!r} is not a segment of a URI without a colon")
    if (
        has_rule(dialect, "CAT-024")
        and subject.entity == "messagegroup"
        and not (attributes.get("envelope") or attributes.get("protocol"))
    ):
        yield EntityViolation((), "CAT-024", "`format` is missing", "warning")  # as in the published documents of this dialect


def _check_schema_text(subject: Subject) -> Iterator[EntityViolation]:
    form, schema = subject.attributes.get("format"), subject.attributes.get("schema")
    is_text = isinstance(form, str) and form.lower().startswith(_TEXT_FORMATS)
    if is_text and isinstance(schema, dict | list):
        severity = None if has_rule(subject.dialect, "CAT-098") else "warning"
        yield EntityViolation(
            ("schema",), "CAT-098", f"a schema of the format {shown(form)} is a string, and this is JSON", severity
        )
    if isinstance(form, str) and schema is not None:
        try:
            document = schema if isinstance(schema, str) else read_canonical(canonical_text(schema))
        except OverflowError:  # MSG-104 refuses it
            return
        check = check_format(document, form)
        if check.is_valid is False:
            yield EntityViolation(("schema",), "COMP-003", f"`schema` is no valid `{form[:80]}`: {check.reason}")


# Messages.


def _is_allowed_in_endpoint(subject: Subject, violation: EntityViolation) -> bool:
    """Return whether a violation is an envelope without a version: messages of an endpoint may leave it out (END-075)."""
    envelope = subject.attributes.get("envelope")
    return violation.rule_id == "MSG-155" and isinstance(envelope, str) and envelope != "" and "/" not in envelope


def _check_message(subject: Subject) -> list[EntityViolation]:
    attributes = subject.attributes
    metadata, options = attributes.get("envelopemetadata"), attributes.get("protocoloptions")
    results: list[EntityViolation] = []
    if isinstance(metadata, dict) and metadata:
        results += _check_metadata(subject, metadata)
    if isinstance(options, dict) and options:
        results += _check_all_options(subject, options)
    results.extend(_check_envelopeoptions_of_event(subject))
    results.extend(_check_schema(attributes))
    results.extend(_check_content_types(attributes, metadata, options))
    if "basemessage" not in attributes:
        results.extend(check_presence(attributes))
    if isinstance(metadata, dict) and _is_event(subject):
        results.extend(_check_identity(subject, metadata))
    if has_more_rules(subject.dialect):
        results.extend(violation for violation in _check_definition(subject) if has_rule(subject.dialect, violation.rule_id))
    if has_rule(subject.dialect, "CAT-061") and not _is_segment(subject.ident):
        results.append(EntityViolation((), "CAT-061", f"the id {subject.ident!r} is not a segment of a URI without a colon"))
    return results


def _check_envelopeoptions_of_event(subject: Subject) -> Iterator[EntityViolation]:
    """Check that attributes of CloudEvents are declared in `envelopemetadata` and not among its options (MSG-082)."""
    options = subject.attributes.get("envelopeoptions")
    for name, option in options.items() if isinstance(options, dict) and _is_event(subject) else ():
        if isinstance(option, dict) and is_declaration(option):
            message = f"`{name}` is {shown(option)}, a declaration, which nothing reads here"
            yield EntityViolation(("envelopeoptions", name), "MSG-082", message)


def _check_metadata(subject: Subject, metadata: dict[str, Any]) -> list[EntityViolation]:
    """Check the declarations of the envelope, but for those that were found sound before."""
    attributes, is_event = subject.attributes, _is_event(subject)
    unvalidated = _SOUND.unvalidated(is_event, metadata)
    if not unvalidated:
        return []
    results = []
    if is_event:
        declared = {name: declaration for name, (declaration, _) in unvalidated.items()}
        results += by_table("message", CLOUDEVENTS, attributes | {"envelopemetadata": declared})
    for name, (declaration, _) in unvalidated.items():
        results.extend(_check_declaration(declaration, ("envelopemetadata", name), name, is_event))
    _SOUND.add(is_event, unvalidated, {violation.path[1] for violation in results})
    return results


def _is_event(subject: Subject) -> bool:
    """Return whether the envelope is CloudEvents, by `envelope` or by the names that it declares."""
    envelope, metadata = subject.attributes.get("envelope") or subject.envelope, subject.attributes.get("envelopemetadata")
    if isinstance(envelope, str):
        return envelope.lower().startswith("cloudevents")
    return isinstance(metadata, dict) and not _ENVELOPE_NAMES.isdisjoint(metadata)


def _check_all_options(subject: Subject, options: dict[str, Any]) -> list[EntityViolation]:
    """Check the options of the protocol, but for those that were found sound before."""
    attributes = subject.attributes
    family = family_of(attributes.get("protocol")) or subject.family or family_of_options(options)
    protocol = attributes.get("protocol") or subject.group_protocol
    context = (family, str(protocol or ""))
    unvalidated = _SOUND.unvalidated(context, options)
    results = []
    if unvalidated:
        rest = {option: member for option, (member, _) in unvalidated.items()}
        if family in FAMILIES:
            results += by_table("message", family, attributes | {"protocoloptions": rest, "protocol": protocol})
        results.extend(_check_options(rest, family if family in FAMILIES else None))
        _SOUND.add(context, unvalidated, {violation.path[1] for violation in results})
    results.extend(_check_exclusive_options(options, family))
    return results


def check_presence(attributes: dict[str, Any]) -> Iterator[EntityViolation]:
    """Check that a definition has what it needs: an empty map is given (MSG-161, MSG-166).

    What a base may supply is checked after flattening (requirements.md 21).
    """
    if attributes.get("envelope") and attributes.get("envelopemetadata") is None:
        yield EntityViolation(
            ("envelope",), "MSG-161", f"`envelope` is {shown(attributes['envelope'])}, and there is no `envelopemetadata`"
        )
    if attributes.get("protocol") and attributes.get("protocoloptions") is None:
        yield EntityViolation(
            ("protocol",), "MSG-166", f"`protocol` is {shown(attributes['protocol'])}, and there are no `protocoloptions`"
        )
    if attributes.get("dataschemaformat") is None:
        if "dataschema" in attributes:
            yield EntityViolation(("dataschema",), "MSG-175", "`dataschema` is given without `dataschemaformat`")
        uri = attributes.get("dataschemauri")
        if uri is not None:
            # A schema of this registry has its own format; published documents lean on that.
            severity = "warning" if isinstance(uri, str) and leads_within(uri) else None
            yield EntityViolation(
                ("dataschemauri",), "MSG-181", f"`dataschemauri` {shown(uri)} is given without `dataschemaformat`", severity
            )


def _check_declaration(declaration: Any, path: tuple[str, ...], name: str, is_event: bool = False) -> Iterator[EntityViolation]:
    """Check a declared property by the rules that hold for all of them (MSG-197 to MSG-227)."""
    if not isinstance(declaration, dict):
        return
    required = declaration.get("required")
    if required is not None and not isinstance(required, bool):
        yield _wrong_type(path, "required", name, required, "MSG-200", "true or false")
    description = declaration.get("description")
    if description is not None and not isinstance(description, str):
        yield _wrong_type(path, "description", name, description, "MSG-197", "a string")
    elif description == "":
        yield EntityViolation((*path, "description"), "MSG-199", f"`description` of `{name}` is empty")
    specurl = declaration.get("specurl")
    if specurl is not None and not values.is_uri_reference(specurl):
        yield EntityViolation((*path, "specurl"), "MSG-203", f"`specurl` of `{name}` is not a URI-reference: {shown(specurl)}")
    yield from check_members(declaration, path)
    kind = declaration.get("type")
    if isinstance(kind, str):
        yield from _check_type(declaration, kind, path, name, is_event)
    elif kind is not None:
        yield _wrong_type(path, "type", name, kind, "MSG-205", "a string")


def _wrong_type(path: tuple[str, ...], member: str, name: str, value: Any, rule_id: str, wanted: str) -> EntityViolation:
    return EntityViolation((*path, member), rule_id, f"`{member}` of `{name}` is {shown(value)} and must be {wanted}")


def _check_type(
    declaration: dict[str, Any], kind: str, path: tuple[str, ...], name: str, is_event: bool
) -> Iterator[EntityViolation]:
    new = values.OLD_TYPES.get(kind)
    if new is not None:
        message = f"`type` of `{name}` is {kind!r}, an older name of `{new}`"
        yield EntityViolation((*path, "type"), "MSG-208", message, "warning")
        kind = new
    elif kind not in values.TYPES or (kind in ("ulong", "uuid") and name != "message-id"):
        yield EntityViolation((*path, "type"), "MSG-208", f"`type` of `{name}` is {kind!r}, which is not a type")
        return
    value = declaration.get("value")
    if value is None:
        return
    if kind == "symbol" and "content" in name:
        kind = "asciisymbol"  # AMQP's own symbols hold the characters of media types (requirements.md 13)
    elif kind == "integer" and is_event:
        kind = "int32"
    if values.fits(kind, value):
        return
    problem = values.template_problem(value) if kind == "uritemplate" and isinstance(value, str) else None
    rule_id, message = problem or (_RULE_OF_TYPE[kind], f"{shown(value)} is not a value of the type `{declaration['type']}`")
    yield EntityViolation((*path, "value"), rule_id, f"`value` of `{name}`: {message}")


@cache
def _kinds(family: str) -> dict[str, str]:
    """Return the kinds of a family's options on messages."""
    return {
        row["name"]: row["type"]
        for row in table()
        if row["entity"] == "message" and row["place"] == "protocoloptions" and row["protocol"] == family
    }


def _check_options(options: dict[str, Any], family: str | None) -> Iterator[EntityViolation]:
    kinds = _kinds(family) if family else {}
    for option, member in options.items():
        kind, path = kinds.get(option), ("protocoloptions", option)
        if kind in ("declarations", "namedvalues") and isinstance(member, dict):
            for name, declaration in member.items():
                yield from _check_declaration(declaration, (*path, name), name)
        elif isinstance(member, list):
            for index, item in enumerate(member):
                if isinstance(item, dict):
                    yield from _check_declaration(item, (*path, str(index)), str(item.get("name", index)))
        elif kind == "declaration":
            yield from _check_declaration(member, path, option)


def _check_exclusive_options(options: dict[str, Any], family: str | None) -> Iterator[EntityViolation]:
    for option, other, rule in exclusive_options(family):
        if option in options and other in options:
            yield EntityViolation(("protocoloptions", other), rule, f"`{option}` and `{other}` are both given")


def _check_schema(attributes: dict[str, Any]) -> Iterator[EntityViolation]:
    uri, xid = attributes.get("dataschemauri"), attributes.get("dataschemaxid")
    form = attributes.get("dataschemaformat")
    if isinstance(form, str) and form.lower().startswith("proto") and isinstance(uri, str) and uri.endswith(".proto"):
        yield EntityViolation(
            ("dataschemauri",), "MSG-179", f"`dataschemauri` {shown(uri)} leads to a whole file of message types"
        )
    if "dataschema" in attributes and uri is not None:
        yield EntityViolation(("dataschemauri",), "MSG-174", "`dataschema` and `dataschemauri` are both given")
    if isinstance(uri, str) and isinstance(xid, str) and xid.startswith("/") and not is_self_url(uri, Xid(xid)):
        yield EntityViolation(
            ("dataschemaxid",), "MSG-185", f"`dataschemaxid` {xid} is not what `dataschemauri` {shown(uri)} leads to"
        )


def _check_definition(subject: Subject) -> Iterator[EntityViolation]:
    """Check what 003 alone has: the body's declarations, and the wrapper `definition`, kept as written."""
    attributes = subject.attributes
    metadata, options = attributes.get("envelopemetadata"), attributes.get("protocoloptions")
    if isinstance(metadata, dict) and ("dataschema" in attributes or "dataschemauri" in attributes):
        for name, rule_id in (("datacontenttype", "CAT-104"), ("dataschema", "CAT-106")):
            if name not in metadata:
                yield EntityViolation(("envelopemetadata",), rule_id, f"there is a schema, and `{name}` is not declared")
    header = options.get("header") if isinstance(options, dict) else None
    for name in header if isinstance(header, dict) else ():
        if name in ("first-acquirer", "delivery-count"):
            yield EntityViolation(("protocoloptions", "header", name), "CAT-114", f"`{name}` is state of a message in transit")
    definition = (subject.extensions or {}).get("definition")
    if not isinstance(definition, dict):
        return
    version, data = definition.get("mqttversion"), definition.get("applicationdata")
    if version not in (None, "3.1.1", "5.0"):
        yield EntityViolation(("definition", "mqttversion"), "CAT-138", f"`mqttversion` is {shown(version)}; allowed: 3.1.1, 5.0")
    encoding = data.get("amqpencoding") if isinstance(data, dict) else None
    if encoding not in (None, "Data", "Value", "Sequence"):
        path = ("definition", "applicationdata", "amqpencoding")
        yield EntityViolation(path, "CAT-133", f"`amqpencoding` is {shown(encoding)}; allowed: Data, Value, Sequence")
    for section, (rule_id, members) in _OLD_MEMBERS.items():
        written = definition.get(section)
        for name in written if isinstance(written, dict) else ():
            if name not in members.split():
                yield EntityViolation(("definition", section, name), rule_id, f"`{name}` is not a member of `{section}`")


def _check_content_types(attributes: dict[str, Any], metadata: Any, options: Any) -> Iterator[EntityViolation]:
    """All content types of a definition agree (MSG-189); that of a structured event is its envelope's (MSG-190)."""
    mode = attributes["envelopeoptions"].get("mode") if isinstance(attributes.get("envelopeoptions"), dict) else None
    own = attributes.get("datacontenttype")
    results: list[tuple[tuple[str, ...], str]] = []
    if isinstance(own, str):
        results.append((("datacontenttype",), own))
        if mode == "structured" and not own.lower().startswith("application/cloudevents"):
            message = f"`datacontenttype` is {shown(own)}; `mode` is structured, so it must be application/cloudevents+…"
            yield EntityViolation(("datacontenttype",), "MSG-190", message)
            return
    if isinstance(metadata, dict) and mode != "structured":
        results.extend(_text_value(metadata.get("datacontenttype"), ("envelopemetadata", "datacontenttype")))
    if isinstance(options, dict):
        results.extend(_text_value(options.get("content_type"), ("protocoloptions", "content_type")))
        section = options.get("properties")
        if isinstance(section, dict):
            results.extend(_text_value(section.get("content-type"), ("protocoloptions", "properties", "content-type")))
        results.extend(_content_types_in_headers(options))
    for path, text in results[1:]:
        if not values.is_same_media_type(text, results[0][1]):
            yield EntityViolation(
                path, "MSG-189", f"the content type is {shown(text)} here and {shown(results[0][1])} in {'/'.join(results[0][0])}"
            )


def _content_types_in_headers(options: dict[str, Any]) -> Iterator[tuple[tuple[str, ...], str]]:
    headers = options.get("headers")
    for index, item in enumerate(headers) if isinstance(headers, list) else ():
        if isinstance(item, dict) and str(item.get("name", "")).lower() == "content-type":
            yield from _text_value(item, ("protocoloptions", "headers", str(index)))


def _text_value(declaration: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    value = declaration.get("value") if isinstance(declaration, dict) else None
    if isinstance(value, str) and value and not values.is_template(value):
        yield path, value


def _check_identity(subject: Subject, metadata: dict[str, Any]) -> Iterator[EntityViolation]:
    """Check that what CloudEvents declares agrees with the message that declares it (MSG-141, MSG-260; CAT-102, CAT-103)."""
    attributes = subject.attributes
    declared = dict(_text_value(metadata.get("type"), ("envelopemetadata", "type"))).get(("envelopemetadata", "type"))
    if declared is not None and subject.ident and declared != subject.ident:
        rule_id = "CAT-103" if has_rule(subject.dialect, "CAT-103") else "MSG-141"
        message = f"the message is called {subject.ident}, and the CloudEvents `type` is {shown(declared)}"
        yield EntityViolation(("envelopemetadata", "type"), rule_id, message)
    if has_rule(subject.dialect, "CAT-102") and declared is None and "basemessage" not in attributes:
        yield EntityViolation(("envelopemetadata",), "CAT-102", "no `type` is declared with a value")
    uri = attributes.get("dataschemauri")
    for path, text in _text_value(metadata.get("dataschema"), ("envelopemetadata", "dataschema")):
        if isinstance(uri, str) and text.strip() != uri.strip():
            yield EntityViolation(
                path, "MSG-260", f"the CloudEvents `dataschema` is {shown(text)}, and `dataschemauri` is {shown(uri)}"
            )


def _is_segment(text: str) -> bool:
    return _SEGMENT.fullmatch(text) is not None


# Endpoints.


_CUTOFF = 0.85  # of the ratio of difflib
_DECLARATION = ("name", "type", "value", "required", "description", "specurl")
_OWN = "own"  # family of protocols that are in no table
# Names that are near a known one, and are common for something else.
_NEAR_MISSES = frozenset(("version", "icon", "documentationtext"))


def check_names(subject: Subject, *, is_event: bool) -> Iterator[EntityViolation]:
    """Find the misspelled names of an entity: of its attributes, its envelope's and its protocol's.

    A name whose known neighbour is set in the same place was chosen for something else.

    Args:
        subject: the entity.
        is_event: its envelope is CloudEvents.
    """
    entity, attributes = subject.entity, subject.attributes
    if subject.extensions:
        yield from _misspelled(subject.extensions, (), (entity, "", ""), attributes)
    metadata, options = attributes.get("envelopemetadata"), attributes.get("protocoloptions")
    if is_event and isinstance(metadata, dict):
        yield from _misspelled(metadata, ("envelopemetadata",), (entity, "envelopemetadata", CLOUDEVENTS), metadata)
    if entity in ("message", "endpoint") and isinstance(options, dict) and options:
        family = family_of(attributes.get("protocol")) or subject.family or family_of_options(options)
        family = family if family in FAMILIES else _OWN if family else ""
        yield from _misspelled(options, ("protocoloptions",), (entity, "protocoloptions", family), options)


def check_members(declaration: dict[str, Any], path: tuple[str, ...]) -> Iterator[EntityViolation]:
    """Find the misspelled members of a declared property."""
    yield from _misspelled(declaration, path, ("", "declaration", ""), declaration)


_Where = tuple[str, str, str]  # entity; place; family, the envelope's or the protocol's


class _AttributeName(NamedTuple):
    """A name that a place knows: its canonical one, whether it is that of a map of entities, whether it is ever suggested."""

    name: str
    is_map: bool = False
    is_meant: bool = True


def _misspelled(
    written: dict[str, Any], path: tuple[str, ...], where: _Where, attributes: dict[str, Any]
) -> Iterator[EntityViolation]:
    names = _names(*where)
    for name, value in written.items():
        near = None if name in names else _near(name, where)
        if near is None or (names[near].is_map and not isinstance(value, dict)):
            continue
        if (
            names[near].name not in attributes or names[near].name in LIFECYCLE
        ):  # a published row has no dates among its attributes
            yield EntityViolation(
                (*path, name), MISSPELLED, f"`{name}` is not an attribute of the specification; did you mean `{near}`?"
            )


@lru_cache(maxsize=5_000)
def _near(name: str, where: _Where) -> str | None:
    meant = [spelling for spelling, target in _names(*where).items() if target.is_meant]
    return next(iter(get_close_matches(name, meant, 1, _CUTOFF)), None)


@cache
def _names(entity: str, place: str, family: str) -> dict[str, _AttributeName]:
    """Return the attributes that may appear in a place, by each spelling."""
    fixed = {"declaration": _DECLARATION, "envelopemetadata": ENVELOPE_NAMES}.get(place)
    if fixed:
        return {name: _AttributeName(name) for name in fixed}
    names = {name: _AttributeName(name, is_meant=False) for name in _NEAR_MISSES}
    for entity_name in ("message", "schema") if entity == "meta" else (entity,):
        for kind in FAMILIES if place == "protocoloptions" and not family else (family or None,):
            places = places_of(entity_name, kind)
            for where in (place, "meta") if entity == "meta" else (place,):
                targets = places[where].targets if where in places else {}
                names |= {name: _AttributeName(target.name, target.type == "entities") for name, target in targets.items()}
        if not place:
            names |= {name: _AttributeName(name, is_meant=False) for name in moves_of(entity_name) if name not in names}
    return names


def check_endpoint(subject: Subject) -> Iterator[EntityViolation]:
    """Check what a table cannot say of an endpoint: END-058, its addresses, its options."""
    attributes = subject.attributes
    if not attributes.get("usage") and "usage" not in attributes:
        yield EntityViolation((), "END-058", "`usage` is missing")
    elif attributes.get("usage") == ["subscriber"] and not attributes.get("labels"):
        yield EntityViolation(("usage",), NO_LABELS, "it is for subscribers, and has no `labels` that name the product behind it")
    options, envelope = attributes.get("protocoloptions"), attributes.get("envelopeoptions")
    family = family_of(attributes.get("protocol"))
    if isinstance(envelope, dict) and family_of(attributes.get("envelope")) in (None, "CLOUDEVENTS"):
        yield from _check_envelopeoptions(envelope, options, family)
    if not isinstance(options, dict):
        return
    if family in FAMILIES:
        yield from by_table("endpoint", family, attributes)
    addresses = options.get("endpoints")
    if addresses is None:
        return
    if not isinstance(addresses, list):
        yield EntityViolation(("protocoloptions", "endpoints"), "END-101", "`endpoints` is not an array of objects")
        return
    for index, address in enumerate(addresses):
        path = ("protocoloptions", "endpoints", str(index))
        if not isinstance(address, dict):
            yield EntityViolation(path, "END-101", f"{shown(address)} is not an object with `uri`")
        else:
            yield from _check_address(address, path, family)


def _check_envelopeoptions(envelope: dict[str, Any], options: Any, family: str | None) -> Iterator[EntityViolation]:
    """Check what CloudEvents says of its options (END-080 to END-083); null is as if it were not there."""
    mode, form = envelope.get("mode"), envelope.get("format")
    if mode not in (None, "binary", "structured"):
        yield EntityViolation(("envelopeoptions", "mode"), "END-080", f"`mode` is {shown(mode)}; allowed: binary, structured")
    if form is None:
        return
    if mode == "binary":
        yield EntityViolation(("envelopeoptions", "format"), "END-082", f"`format` is {shown(form)}, and `mode` is binary")
        return
    for path, text in _content_types_in_headers(options) if isinstance(options, dict) and family == "HTTP" else ():
        if not values.is_same_media_type(text, str(form)):
            yield EntityViolation(path, "END-083", f"the header says {shown(text)}, and `format` is {shown(form)}")


def _check_address(address: dict[str, Any], path: tuple[str, ...], family: str | None) -> Iterator[EntityViolation]:
    """Check a network address: an absolute URI of a scheme that the protocol has (requirements.md 32)."""
    uri = address.get("uri")
    here = (*path, "uri")
    if family == "KAFKA" and isinstance(uri, str) and "://" not in uri:
        yield EntityViolation(here, "END-175", f"{shown(uri)} has no scheme such as SSL://")
        return
    if family == "AMQP" and isinstance(uri, str) and _BAD_ESCAPE.search(uri):
        yield EntityViolation(here, "END-143", f"the path of {shown(uri)} is not a node name")
        return
    if not isinstance(uri, str) or not (values.is_uri(uri) or _ABSOLUTE_TEMPLATE.match(uri)):
        yield EntityViolation(here if "uri" in address else path, "END-103", f"`uri` is not an absolute URI: {shown(uri)}")
        return
    parts = _ADDRESS.fullmatch(uri)
    if family not in PROTOCOLS or any("{" in part for part in uri.split("/", 3)[: 3 if "://" in uri else 1]):
        return  # scheme or host is a placeholder
    protocol = PROTOCOLS[family]
    rule_id, schemes = protocol.rule, protocol.schemes.split()
    authority = _AUTHORITY.fullmatch(parts[2]) if parts else None
    if parts is None or authority is None:
        yield EntityViolation(here, rule_id, f"{shown(uri)} is not an address of the form scheme://host:port")
        return
    scheme, path_part = parts[1].lower(), parts[3]
    if scheme not in schemes:
        severity = "warning" if protocol.other_schemes else None  # they are named as examples, and others are seen
        yield EntityViolation(here, rule_id, f"{shown(uri)} has none of the schemes {', '.join(schemes)}", severity)
    elif family == "MQTT":
        if scheme in ("tcp", "ssl", "wss") and path_part not in ("", "/"):
            yield EntityViolation(here, "END-158", f"{shown(uri)} has a path")
        elif _MQTT_WILDCARDS.search(path_part + parts[4]):
            yield EntityViolation(here, "END-156", f"the path of {shown(uri)} is not a topic name: it has a wildcard")
    if authority[2] is None and family == "NATS" and scheme in schemes:
        yield EntityViolation(here, "END-190", f"{shown(uri)} has no port")
    if authority[2] is None and family == "KAFKA":
        yield EntityViolation(here, "END-175", f"{shown(uri)} has no port", "warning")
