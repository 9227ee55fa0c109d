"""The rules between entities, asked of what one request writes: those of `rules/between`, of which an error refuses.

There they are joins over what an ingest would publish, here look-ups around some rows; a test holds both equal. Warnings refuse
nothing, and are told by `lakehouse validate`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from lakehouse.domain.bases import Leaves, bases_of, chain_of, has_below, merged
from lakehouse.domain.leaves import leaves_of_body
from lakehouse.domain.protocols import is_as_precise, is_other_protocol
from lakehouse.domain.references import leads_within
from lakehouse.rules.declared import RULES
from lakehouse.serve.problems import ProblemFound, raise_problems
from lakehouse.serve.write.working import Change, Row, Working, holder_of
from lakehouse.settings import Settings
from lakehouse.text.jsontext import read_canonical
from lakehouse.text.names import Pointer, RegistryId, Xid
from lakehouse.text.xid import split_version, xid_of_group, xid_of_version

Body = dict[str, Any]
_VARIANTS = {
    "group": "MSG-020", "endpoint": "END-033", "message": "MSG-037", "version": "MSG-038", "schema": "MSG-037"
}  # fmt: skip


class Broken(NamedTuple):
    """A rule that an entity breaks: the attribute that breaks it ("": all of the entity), and what is wrong."""

    xid: Xid
    rule_id: str
    attribute: str
    message: str


def check_between(working: Working, registryid: RegistryId, changes: Iterable[Change], settings: Settings) -> None:
    """Check what was written by the rules between entities.

    Args:
        working: the catalog with what was written.
        registryid: of what was written.
        changes: what was written.
        settings: `check_relations`, `max_chain_depth` and `duplicate_messageids`, as for an ingest.

    Raises:
        ProblemFound: some are broken.
    """
    raise_problems(
        ProblemFound(
            "invalid_attribute",
            broken.xid,
            f"{broken.rule_id}: {RULES[broken.rule_id].hint}",
            name=broken.attribute or broken.xid.rsplit("/", 1)[-1],
            error_detail=broken.message,
        )
        for broken in find_broken(working, registryid, changes, settings)
    )


def find_broken(working: Working, registryid: RegistryId, changes: Iterable[Change], settings: Settings) -> Iterator[Broken]:
    """Find what rows that were written break; arguments as for `check_between`."""
    if not settings.check_relations:
        return
    around = _Around(working, registryid, settings)
    for change in changes:
        row, before = change.after, change.before
        if row is None or (before is not None and before.content_hash == row.content_hash):
            continue
        if before is None and row.kind in _VARIANTS:
            other = working.child_like(registryid, row.xid)
            if other is not None:
                yield Broken(row.xid, _VARIANTS[row.kind], "", f"its id differs from that of {other} in letter case only")
        if row.kind in _RULES:
            yield from _RULES[row.kind](around, row)


class _Around:
    """What stands around an entity."""

    def __init__(self, working: Working, registryid: RegistryId, settings: Settings) -> None:
        self.working = working
        self.registryid = registryid
        self.settings = settings

    def body(self, xid: Xid) -> Body | None:
        row = self.working.row(self.registryid, xid)
        return None if row is None else read_canonical(row.body)

    def leaves(self, version: Xid) -> Leaves:
        row = self.working.row(self.registryid, version)
        return {} if row is None else dict(leaves_of_body(row.body))

    def is_there(self, xid: Xid) -> bool:
        return self.working.row(self.registryid, xid) is not None

    def messages(self, holder: Xid) -> list[Xid]:
        """List the messages of a group or an endpoint that show a definition: of their own, or another's (`xref`)."""
        return [one.xid for one in self.working.children(self.registryid, holder) if one.kind == "message" and self.shows(one)]

    def shows(self, message: Row) -> bool:
        xref = read_canonical(message.body).get("xref")
        return self.default_version(message.xid if xref is None else Xid(xref)) is not None

    def default_version(self, xid: Xid) -> tuple[Xid, Body] | None:
        """Find the default Version of a message: its XID and body."""
        message = self.body(xid)
        if message is None or message.get("xref") is not None:
            return None
        found = xid_of_version(xid, message.get("defaultversionid"))
        body = self.body(found)
        return None if body is None else (found, body)


def _check_version(around: _Around, row: Row) -> Iterator[Broken]:
    """MSG-134, 156, 157, END-074, 096 of what holds it; MSG-049, 146, 183 of what it names; MSG-156 to 181 of its chain."""
    body = read_canonical(row.body)
    message_xid = holder_of(row.xid)
    isdefault = body.get("isdefault") is True
    if isdefault:
        yield from _check_holder(around, row.xid, message_xid, body, is_borrowed=False)
    ancestor = body.get("ancestor")
    if ancestor is not None and not around.is_there(xid_of_version(message_xid, ancestor)):
        yield Broken(row.xid, "MSG-049", "ancestor", f"`ancestor`: `{message_xid}/versions/{ancestor}` does not exist")
    schema = body.get("dataschemaxid")
    if isinstance(schema, str) and schema.startswith("/"):
        target = split_version(schema)[0]
        if not around.is_there(target) and around.is_there(xid_of_group(target)):
            yield Broken(row.xid, "MSG-183", "dataschemaxid", f"`dataschemaxid`: `{target}` does not exist")
    if isinstance(body.get("basemessage"), str):
        yield from _check_chain(around, row.xid, message_xid, body, isdefault=isdefault)


def _check_message(around: _Around, row: Row) -> Iterator[Broken]:
    """An alias has the envelope and the protocol of its group (MSG-134, 157; END-074, 096)."""
    xref = read_canonical(row.body).get("xref")
    target = around.default_version(Xid(xref)) if isinstance(xref, str) else None
    if target is not None:
        yield from _check_holder(around, row.xid, row.xid, target[1], is_borrowed=True)


def _check_holder(around: _Around, xid: Xid, message_xid: Xid, body: Body, *, is_borrowed: bool) -> Iterator[Broken]:
    holder = around.body(holder_of(message_xid))
    if holder is None:
        return
    envelope, protocol = body.get("envelope"), body.get("protocol")
    asked, wanted = holder.get("envelope"), holder.get("protocol")
    in_group = message_xid.startswith("/messagegroups/")
    is_other = is_other_protocol(protocol, wanted)
    told = "`{0}` is {1}, and that of what holds it is {2}"
    if in_group:
        if envelope is not None and asked is not None and envelope.lower() != asked.lower():
            yield Broken(xid, "MSG-157", "envelope", told.format("envelope", envelope, asked))
        if envelope is None and asked is not None and (is_borrowed or body.get("basemessage") is None):
            yield Broken(xid, "MSG-156", "envelope", f"`envelope` is missing, and that of the group is {asked}")
        if is_other:
            yield Broken(xid, "MSG-134", "protocol", told.format("protocol", protocol, wanted))
    else:
        if not is_as_precise(envelope, asked):
            yield Broken(xid, "END-074", "envelope", told.format("envelope", envelope, asked))
        if is_other:
            yield Broken(xid, "END-096", "protocol", told.format("protocol", protocol, wanted))


def _check_chain(around: _Around, xid: Xid, message_xid: Xid, body: Body, *, isdefault: bool) -> Iterator[Broken]:
    """A chain of bases does not come back to itself (MSG-146); what a message shows has with its bases what it needs."""
    if xid in bases_of(xid, around.body):
        yield Broken(xid, "MSG-146", "basemessage", f"`basemessage` leads over {body['basemessage']} back to this message")
        return
    chain = chain_of(xid, around.body, around.settings.max_chain_depth) if isdefault else None
    if chain is not None and chain.status == "resolved":  # where a base may come later nothing is judged
        leaves = merged(around.leaves(version) for version in chain.versions)
        yield from _check_flattened(around, xid, message_xid, body, leaves)


def _check_flattened(around: _Around, xid: Xid, message_xid: Xid, body: Body, leaves: Leaves) -> Iterator[Broken]:
    """A definition has, with its bases, what it needs (MSG-156, 161, 166, 175, 181)."""
    leaf = leaves.get

    holder = around.body(holder_of(message_xid)) if message_xid.startswith("/messagegroups/") else None
    asked = None if holder is None else holder.get("envelope")
    has_schema = body.get("dataschemauri") is not None or body.get("dataschema") is not None
    lacks = body.get("envelope") is not None and body.get("envelopemetadata") is None
    lacks |= body.get("protocol") is not None and body.get("protocoloptions") is None
    lacks |= has_schema and body.get("dataschemaformat") is None
    if not lacks and not (body.get("envelope") is None and asked is not None):
        return
    envelope, protocol = leaf(Pointer("/envelope")), leaf(Pointer("/protocol"))
    if envelope is None and asked is not None:
        yield Broken(xid, "MSG-156", "envelope", f"`envelope` is missing, and that of the group is {asked}")
    for rule_id, name, section, value in (
        ("MSG-161", "envelope", "envelopemetadata", envelope),
        ("MSG-166", "protocol", "protocoloptions", protocol),
    ):
        if value is not None and not has_below(leaves, "/" + section):
            told = f"`{name}` is {value}, and neither here nor in its bases there is `{section}`"
            yield Broken(xid, rule_id, section, told)
    if leaf(Pointer("/dataschemaformat")) is None:
        without = "is given without `dataschemaformat`, here and in its bases"
        uri = leaf(Pointer("/dataschemauri"))
        if leaf(Pointer("/dataschema")) is not None:
            yield Broken(xid, "MSG-175", "dataschemaformat", f"`dataschema` {without}")
        if uri is not None and not leads_within(read_canonical(uri)):
            yield Broken(xid, "MSG-181", "dataschemaformat", f"`dataschemauri` {uri} {without}")


def _check_endpoint(around: _Around, row: Row) -> Iterator[Broken]:
    """A will message exists, and is a CloudEvent or one of MQTT (END-173, 174); no messageid comes twice (END-130, 132)."""
    body = read_canonical(row.body)
    if around.settings.duplicate_messageids == "error":
        yield from _check_messageids(around, row.xid, body)
    options = body.get("protocoloptions")
    will = options.get("willmessage") if isinstance(options, dict) else None
    if not isinstance(will, str) or not will.startswith("/"):
        return
    target = split_version(will)[0]
    if not around.is_there(target):
        yield Broken(row.xid, "END-173", "protocoloptions.willmessage", f"`willmessage`: `{target}` does not exist")
        return
    found = around.default_version(target)
    if found is not None:
        envelope, protocol = found[1].get("envelope") or "", found[1].get("protocol") or ""
        if not envelope.lower().startswith("cloudevents") and not protocol.upper().startswith("MQTT"):
            told = f"`willmessage` leads to {target}, which is neither a CloudEvents nor an MQTT message"
            yield Broken(row.xid, "END-174", "protocoloptions.willmessage", told)


def _check_messageids(around: _Around, xid: Xid, body: Body) -> Iterator[Broken]:
    """Over what an endpoint holds and the groups that it names no messageid comes twice."""
    named = body.get("messagegroups")
    if not isinstance(named, list):
        return
    holders: dict[str, Xid] = {}
    for holder in dict.fromkeys([*named, xid]):
        for message in around.messages(holder):
            messageid = message.rsplit("/", 1)[1]
            if holders.setdefault(messageid, message) != message:
                yield Broken(xid, "END-130", "messagegroups", f"it carries several messages with the id {messageid}")
                return


_RULES: dict[str, Callable[[_Around, Row], Iterator[Broken]]] = {
    "version": _check_version,
    "message": _check_message,
    "endpoint": _check_endpoint,
}
