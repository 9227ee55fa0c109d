"""The rules between entities: what a message, its parent, its base, its schema and its earlier self must be to each other.

Each function is about an entity and one kind of neighbour; it gets the few values that decide and yields the rules that are
broken. Neighbours are found by joins of Spark (`rules.relational`) or by look-ups (`domain.neighbours`). What Spark leaves out of
a case is None. Pointers are those of the normal form, below the entity that shows the attributes.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

from lakehouse.dialects.tables import FAMILIES, SharedOption, shared_options
from lakehouse.domain.bases import Attributes, FlatAttributes, is_given
from lakehouse.domain.protocols import is_as_precise, is_other_protocol
from lakehouse.domain.references import leads_within
from lakehouse.domain.versionchanges import ComparableVersion, broken_promise
from lakehouse.text.jsontext import read_canonical, unquoted
from lakehouse.text.names import Pointer

UNIQUE_TYPE = "CAT-007"
ABOUT_CHANGE = ("CAT-024", "CAT-038", "CAT-064")  # rules that compare with what is published; only some dialects have them
# 002 lets a message override these (END-164, END-166), so another value there contradicts nothing.
OVERRIDDEN = frozenset({"qos", "retain"})
# What rules look at of an effective definition, besides whether there is anything below the two sections.
FLATTENED = ("/envelope", "/protocol", "/dataschema", "/dataschemauri", "/dataschemaformat")
SECTIONS = ("/envelopemetadata", "/protocoloptions")

# Attributes that name another entity: the rule that this is there, and the place.
_REFERENCES = {
    "basemessage": ("MSG-150", "/basemessage"),
    "dataschemaxid": ("MSG-183", "/dataschemaxid"),
    "ancestor": ("MSG-049", "/ancestor"),
    "willmessage": ("END-173", "/protocoloptions/willmessage"),
}
_VARIANTS = {
    "group": "MSG-020", "endpoint": "END-033", "message": "MSG-037", "version": "MSG-038", "schema": "MSG-037"
}  # fmt: skip
VARYING = tuple(_VARIANTS)  # kinds of which no two ids differ in letter case only


class RuleViolation(NamedTuple):
    """A rule that is broken: at which place of the entity, why, and how grave it is where that is not the rule's severity."""

    rule_id: str
    pointer: str
    message: str
    severity: str | None = None


Violations = Iterator[RuleViolation]


# What holds a message


def check_parent(
    *,
    in_group: bool,
    is_based: bool,
    envelope: str | None = None,
    protocol: str | None = None,
    parent_envelope: str | None = None,
    parent_protocol: str | None = None,
) -> Violations:
    """Check that a message has the envelope and protocol of its group or endpoint (MSG-134, 156, 157; END-074, 096).

    Args:
        in_group: a group holds it; else an endpoint.
        is_based: it names a base itself, which may supply the envelope; an alias does not.
        envelope: that it shows.
        protocol: that it shows.
        parent_envelope: of what holds it.
        parent_protocol: of what holds it.
    """
    other_envelope = f"`envelope` is {envelope}, and that of what holds it is {parent_envelope}"
    if not in_group:
        if not is_as_precise(envelope, parent_envelope):
            yield RuleViolation("END-074", "/envelope", other_envelope)
    elif envelope is not None and parent_envelope is not None and envelope.lower() != parent_envelope.lower():
        yield RuleViolation("MSG-157", "/envelope", other_envelope)
    elif envelope is None and parent_envelope is not None and not is_based:
        yield _without_envelope(parent_envelope)
    if is_other_protocol(protocol, parent_protocol):
        message = f"`protocol` is {protocol}, and that of what holds it is {parent_protocol}"
        yield RuleViolation("MSG-134" if in_group else "END-096", "/protocol", message)


def _without_envelope(of_group: str) -> RuleViolation:
    return RuleViolation("MSG-156", "", f"`envelope` is missing, and that of the group is {of_group}")


# What an entity names


def check_absent_target(*, attribute: str, target: str, has_group: bool = True) -> Violations:
    """Check that base, schema and will message exist, and ancestors in the message (MSG-049, 150, 183; END-173).

    Args:
        attribute: that names what is not there.
        target: its XID, without the Version that is named.
        has_group: its group is there; a schema of a group that nothing is known of may be anywhere.
    """
    if has_group or attribute != "dataschemaxid":
        rule_id, pointer = _REFERENCES[attribute]
        yield RuleViolation(rule_id, pointer, f"`{attribute}`: `{target}` does not exist")


def check_will(*, target: str, is_based: bool, envelope: str | None = None, protocol: str | None = None) -> Violations:
    """Check that a will message is a CloudEvent, or one of MQTT (END-174).

    Args:
        target: its XID.
        is_based: it names a base, which may supply what it does not say itself.
        envelope: that it says itself.
        protocol: that it says itself.
    """
    if is_based and None in (envelope, protocol):
        return
    if not (envelope or "").lower().startswith("cloudevents") and not (protocol or "").upper().startswith("MQTT"):
        message = f"`willmessage` leads to {target}, which is neither a CloudEvents nor an MQTT message"
        yield RuleViolation("END-174", "/protocoloptions/willmessage", message)


def check_absent_schema(*, path: str, is_fragment: bool, has_group: bool = False) -> Violations:
    """Check that a `dataschemauri` in its own document, or in a schema group of the registry, leads to a schema (MSG-179).

    Args:
        path: where no schema is.
        is_fragment: it leads into the own document. Another path may lead anywhere on a server, unless its schema group is here.
        has_group: the schema group is here.
    """
    if is_fragment or has_group:
        yield RuleViolation("MSG-179", "/dataschemauri", f"`dataschemauri`: schema `{path}` does not exist")


def check_alias(*, xid: str, xref: str, is_there: bool = False, further: str | None = None) -> Violations:
    """Check that the target of an alias has a definition, and is not an alias itself (MSG-096).

    Args:
        xid: of the alias.
        xref: what it stands for.
        is_there: that is there.
        further: what that stands for.
    """
    severity = None
    if xref == xid:
        message = "`xref` leads to this entity itself, so it has no definition"
    elif further == xid:
        message = f"`xref` leads to {xref}, which is an alias of this one: neither has a definition"
    elif further is not None:
        message = f"`xref` leads to {xref}, which is an alias itself: it shows nothing"
    elif not is_there:  # it may come later, like a base (MSG-150)
        message, severity = f"`xref`: `{xref}` does not exist", "info"
    else:
        return
    yield RuleViolation("MSG-096", "/meta/xref", message, severity)


def check_cycle(*, basemessage: str, by_default: bool = False) -> Violations:
    """Yield the violation of a chain of bases that leads back to the same Version (MSG-146); the caller found the cycle.

    Args:
        basemessage: of a Version that its chain leads back to.
        by_default: the Version existed, and the message made it its default one, which closes the cycle.
    """
    over = f"leads over {basemessage} back to this message"
    if by_default:
        yield RuleViolation("MSG-146", "", f"`basemessage` of its default Version {over}")
    else:
        yield RuleViolation("MSG-146", "/basemessage", f"`basemessage` {over}")


# What a definition has with its bases


def lacks_something(attributes: Attributes) -> bool:
    """Return whether a definition lacks by itself what its attributes need: what others have, no base takes away."""
    has_schema = attributes.get("dataschemauri") is not None or attributes.get("dataschema") is not None
    return (
        (attributes.get("envelope") is not None and attributes.get("envelopemetadata") is None)
        or (attributes.get("protocol") is not None and attributes.get("protocoloptions") is None)
        or (has_schema and attributes.get("dataschemaformat") is None)
    )


def check_flattened(*, attributes: FlatAttributes, parent_envelope: str | None = None) -> Violations:
    """Check that a definition with its bases has what its attributes need (MSG-156, 161, 166, 175, 181).

    Args:
        attributes: of the definition merged with its bases, at least those in `FLATTENED`, and at or below `SECTIONS`.
        parent_envelope: of the group that holds it.
    """
    values: dict[str, Any] = {pointer: attributes.get(Pointer(pointer)) for pointer in FLATTENED}
    if values["/envelope"] is None and parent_envelope is not None:
        yield _without_envelope(parent_envelope)
    for rule_id, name, section in (("MSG-161", "envelope", "envelopemetadata"), ("MSG-166", "protocol", "protocoloptions")):
        value = values[f"/{name}"]
        if value is not None and not is_given(attributes, f"/{section}"):
            message = f"`{name}` is {value}, and neither here nor in its bases there is `{section}`"
            yield RuleViolation(rule_id, f"/{name}", message)
    if values["/dataschemaformat"] is not None:
        return
    without = "is given without `dataschemaformat`, here and in its bases"
    if values["/dataschema"] is not None:
        yield RuleViolation("MSG-175", "/dataschema", f"`dataschema` {without}")
    uri = values["/dataschemauri"]
    if uri is not None:
        severity = "warning" if leads_within(read_canonical(uri)) else None
        yield RuleViolation("MSG-181", "/dataschemauri", f"`dataschemauri` {uri} {without}", severity)


# Siblings and earlier states


def check_variant(*, kind: str, other: str) -> Violations:
    """No two ids under one parent differ in letter case only, over all documents (MSG-020, 037, 038; END-033)."""
    yield RuleViolation(_VARIANTS[kind], "", f"its id differs from that of {other} in letter case only")


def check_versions() -> Violations:
    """Versions of a message have the same metadata (MSG-140)."""
    message = "its Versions differ in envelope or protocol: messages with other metadata are other messages"
    yield RuleViolation("MSG-140", "", message)


def check_same_type(*, ce_type: str, other: str) -> Violations:
    """By 003 a `type` is one message's (CAT-007)."""
    yield RuleViolation(UNIQUE_TYPE, "/envelopemetadata/type", f"`type` {ce_type} is that of {other} too")


def check_change(
    *,
    kind: str,
    is_declared: bool,
    format: str | None = None,
    old_format: str | None = None,
    authority: str | None = None,
    old_authority: str | None = None,
) -> Violations:
    """Check that a change is one that 003 allows: Versions, a group's format, an authority (CAT-024, 038, 064).

    Args:
        kind: group, message or version.
        is_declared: a Version that its document writes itself, and does not only imply.
        format: envelope of a group, or its protocol where it has none.
        old_format: the same before.
        authority: of the entity.
        old_authority: the same before.
    """
    if kind == "version" and is_declared:
        yield RuleViolation("CAT-038", "", "a Version that is published was changed; the published one stays")
    if kind == "group" and format is not None and old_format is not None and format.lower() != old_format.lower():
        yield RuleViolation("CAT-024", "", f"`format` was {old_format} and is {format}")
    if authority is not None and old_authority is not None and authority != old_authority:
        yield RuleViolation("CAT-064", "", f"`authority` was {old_authority} and is {authority}")


def check_promise(
    *,
    kind: str,
    compatibility: str,
    version: ComparableVersion,
    versionid: str,
    earlier: ComparableVersion,
    earlier_id: str,
    is_about_parent: bool = False,
) -> Violations:
    """Check that a Version has the `compatibility` that is promised with an earlier one (COMP-001).

    Args:
        kind: of both, version or schemaversion.
        compatibility: of their message or schema.
        version: the later Version.
        versionid: of it.
        earlier: the earlier Version.
        earlier_id: of it.
        is_about_parent: the finding is about their message or schema, whose `compatibility` is another one now.
    """
    reasons = broken_promise(kind, compatibility, earlier, version)
    if reasons:
        message = (
            f"`compatibility` is {compatibility}, and Version {versionid} breaks with Version {earlier_id}: {' '.join(reasons)}"
        )
        yield RuleViolation("COMP-001", "/schema" if kind == "schemaversion" and not is_about_parent else "", message)


# What an endpoint carries


def check_absent_group(*, group: str) -> Violations:
    """Check that a group that an endpoint names exists (END-125)."""
    yield RuleViolation("END-125", "/messagegroups", f"`messagegroups`: `{group}` does not exist")


def check_listed(*, listed: Iterable[Mapping[str, Any]], envelope: str | None = None, protocol: str | None = None) -> Violations:
    """Check that the messages of an endpoint's groups fit it; else it is a warning (END-074, 096).

    Args:
        listed: kinds of these messages: envelope, protocol, the first message_xid, and how many messages are of that kind.
        envelope: of the endpoint.
        protocol: of the endpoint.
    """
    kinds = list(listed)
    mismatches = (
        ("END-074", "envelope", [row for row in kinds if not is_as_precise(row.get("envelope"), envelope)]),
        ("END-096", "protocol", [row for row in kinds if is_other_protocol(row.get("protocol"), protocol)]),
    )
    for rule_id, what, results in mismatches:
        if results:
            count, first = sum(row["messages"] for row in results), min(row["message_xid"] for row in results)
            yield RuleViolation(rule_id, "/messagegroups", f"{count} messages have another {what}, such as {first}", "warning")


def check_messageids(*, messageid: str, severity: str | None = None) -> Violations:
    """Over what an endpoint holds and the groups that it names no messageid comes twice (END-130, 132).

    Args:
        messageid: that comes twice.
        severity: where it is not the rule's, by a setting.
    """
    yield RuleViolation("END-130", "/messagegroups", f"it carries several messages with the id {messageid}", severity)


@cache
def judged_options() -> dict[str, tuple[SharedOption, ...]]:
    """Return the options that a protocol's endpoints and their messages have to agree in, by protocol."""
    shared = {family: tuple(option for option in shared_options(family) if option.name not in OVERRIDDEN) for family in FAMILIES}
    return {family: options for family, options in shared.items() if options}


@cache
def _names_of_options() -> dict[str, str]:
    return {str(option.pointer): option.name for options in judged_options().values() for option in options}


def check_endpoint_option(*, pointer: str, endpoint_value: str, declared: Iterable[Mapping[str, Any]]) -> Violations:
    """Check that an endpoint's options agree with what the messages that it carries declare (MATCH-004).

    What either writes with placeholders, or as a filter of topics, is not judged: it means many values.

    Args:
        pointer: of the option in a message.
        endpoint_value: by the endpoint, as text.
        declared: kinds of messages: value, JSON text; key_base64, of a key; the first message_xid; messages, how many.
    """
    contradicting = [(row, text) for row in declared if (text := declared_instead(pointer, endpoint_value, row)) is not None]
    if contradicting:
        count, (first, text) = (
            sum(row["messages"] for row, _ in contradicting),
            min((row["message_xid"], text) for row, text in contradicting),
        )
        name = _names_of_options()[pointer]
        message = (
            f"`{name}` is {endpoint_value}, and other values are declared by messages that it carries: "
            f"{count}, such as {first} with {text}"
        )
        yield RuleViolation("MATCH-004", f"/protocoloptions/{name}", message)


def declared_instead(pointer: str, endpoint_value: str, declared: Mapping[str, Any]) -> str | None:
    """Return what a message declares where that contradicts its endpoint (MATCH-004); None: it does not.

    Args:
        pointer: of the option in a message.
        endpoint_value: by the endpoint, as text.
        declared: by the message: value, JSON text; key_base64, of a key.
    """
    message_value, key_text = (None if text is None else unquoted(text) for text in map(declared.get, ("value", "key_base64")))
    key = key_text if pointer == "/protocoloptions/key/value" else None
    if message_value is None and key is not None and key.rstrip("=") != b64encode(endpoint_value.encode()).decode().rstrip("="):
        message_value = f"{key.rstrip('=')} in base64"
    is_filter = pointer == "/protocoloptions/topic_name/value" and ("+" in endpoint_value or "#" in endpoint_value)
    return (
        None
        if message_value is None or message_value == endpoint_value or "{" in endpoint_value or "{" in message_value or is_filter
        else message_value
    )


JUDGES: dict[str, Callable[..., Violations]] = {
    check.__name__: check
    for check in (
        check_parent, check_absent_target, check_will, check_absent_schema, check_alias, check_cycle, check_flattened,
        check_variant, check_versions, check_same_type, check_change, check_promise, check_absent_group, check_listed,
        check_messageids, check_endpoint_option,
    )
}  # fmt: skip
