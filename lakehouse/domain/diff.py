"""Differences between two states of definitions: what is compared, and what each difference means to whom.

What is compared of an entity are its flat attributes: JSON Pointer to JSON text. Those of a message are its effective definition
and what the specifications infer, so that an edit of a base is seen in every message that extends it, and saying a default is no
difference. `data/compatibility_rules.csv` says what a difference means; `ddl/views/compatibility_rules.sql` is written from it.
`ddl/views/comparable_definitions.sql` and `ddl/diffs/snapshot_diff.sql` say the same in SQL, but for what is within a schema,
which SQL calls `unknown`: tests compare them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple

import orjson

from lakehouse.compatibility import Answer, SchemaDifference, judge
from lakehouse.domain.bases import FlatAttributes
from lakehouse.domain.references import schema_places
from lakehouse.text.csvtables import read_rows
from lakehouse.text.jsontext import as_column_text, canonical_text, pointer_of, read_canonical, read_exactly
from lakehouse.text.names import ROOT, JsonText, Pointer, RegistryId, Xid
from lakehouse.text.xid import xid_of_version

CLASSES = ("breaking", "unknown", "compatible", "cosmetic")  # the gravest first
COMPARABLE_KINDS = ("message", "group", "endpoint", "schema", "schemaversion")
Key = tuple[RegistryId, str, Xid]  # registryid, kind, xid
Definitions = dict[Key, FlatAttributes]
FindFlatAttributes = Callable[[Key], FlatAttributes | None]  # of an entity of a state; None: it is not there
# Where the format of a document is said, by the rule of its change and its place.
_FORMATS = {
    ("schema-document", Pointer("/schema")): Pointer("/format"),
    ("inline-schema", Pointer("/dataschema")): Pointer("/dataschemaformat"),
}
OF_OTHER_SCHEMA = ("other-schema", "default-schema")
_CLASS_OF = {Answer.NO: "compatible", Answer.UNKNOWN: "unknown", Answer.YES: "breaking"}
_MOST_DETAILS = 5  # differences within a schema
_TEXTS = ("name", "description", "documentation")
_DECLARATION = re.compile(r"^/(envelopemetadata|protocoloptions)/.+/(type|value|required|description|specurl)$")


class CompatibilityRule(NamedTuple):
    """A row of `compatibility_rules.csv`, whose columns the view `compatibility_rules` explains."""

    ordinal: str
    rule: str
    kind: str
    change: str
    place: str
    pointer: str
    value: str
    for_producers: str
    for_consumers: str
    meaning: str


@dataclass(frozen=True)
class Difference:
    """A row of the view `snapshot_diff`; `within`: what differs in a schema, the gravest first, which the view does not know."""

    registryid: RegistryId
    kind: str
    xid: Xid
    change: str
    pointer: Pointer
    before: str | None
    after: str | None
    class_: str
    for_producers: str
    for_consumers: str
    rule: str
    meaning: str
    within: tuple[SchemaDifference, ...] = field(default=(), repr=False, compare=False)

    @property
    def is_about_schema(self) -> bool:
        """Return whether it is about the document of a schema, so that `meaning` says what is in it."""
        return self.rule in OF_OTHER_SCHEMA or (self.rule, self.pointer) in _FORMATS

    def as_row(self) -> dict[str, str | None]:
        """Return the columns of the view."""
        return {name.rstrip("_"): value for name, value in asdict(replace(self, within=())).items() if name != "within"}

    def as_json(self) -> dict[str, str | None]:
        """Return an item of `lakehouse diff --json`; `told` is the name before 0.2 of `meaning`."""
        return self.as_row() | {"told": self.meaning}


def compatibility_rules() -> list[CompatibilityRule]:
    """Return the rules, in order: the first that fits holds."""
    return read_rows("lakehouse.domain", "compatibility_rules", CompatibilityRule)


def differences(before: Definitions, after: Definitions) -> list[Difference]:
    """Compare definitions, in order."""
    results = (
        difference for key in before.keys() | after.keys() for difference in differences_of(key, before.get(key), after.get(key))
    )
    return in_order(with_other_schema(difference, before.get, after.get) for difference in results)


def in_order(results: Iterable[Difference]) -> list[Difference]:
    """Sort differences: the gravest first, then by registry, XID and pointer."""
    return sorted(results, key=lambda row: (CLASSES.index(row.class_), row.registryid, row.xid, row.pointer))


def differences_of(key: Key, before: FlatAttributes | None, after: FlatAttributes | None) -> Iterator[Difference]:
    """Compare two states of an entity.

    Args:
        key: of the entity.
        before: its flat attributes; None: it was not there.
        after: its flat attributes; None: it is not there any more.
    """
    if before is None or after is None:
        if before is not after:
            yield _ruled(key, "added" if before is None else "removed", "", ROOT, None, None)
        return
    for pointer in before.keys() | after.keys():
        was, now = before.get(pointer), after.get(pointer)
        if was != now:
            change = "added" if was is None else "removed" if now is None else "changed"
            result = _ruled(key, change, _place(pointer, before, after), pointer, was, now)
            format_ = _FORMATS.get((result.rule, pointer))
            if format_ is None or was is None or now is None:
                yield result
            else:
                yield _judged(result, (was, before.get(format_)), (now, after.get(format_)))


def with_other_schema(difference: Difference, before: FindFlatAttributes, after: FindFlatAttributes) -> Difference:
    """Judge a message or schema that leads to another schema or Version by what is in both; others are returned as they are.

    Args:
        difference: the difference.
        before: finds entities of the state before.
        after: finds those of the state after.
    """
    if difference.rule not in OF_OTHER_SCHEMA or difference.before is None or difference.after is None:
        return difference
    sides = [_schema_at(difference, value, find) for value, find in ((difference.before, before), (difference.after, after))]
    return difference if sides[0] is None or sides[1] is None else _judged(difference, sides[0], sides[1])


def schemas_named(difference: Difference) -> set[Xid]:
    """Return the schemas that `with_other_schema` looks at, with their Versions."""
    return {
        schema for value in (difference.before, difference.after) if value is not None for schema, _ in _places(difference, value)
    }


def _places(difference: Difference, value: str) -> list[tuple[Xid, Xid | None]]:
    """Return where a reference, as JSON text, may lead: schemas, and Versions of them; None: the default one."""
    reference = orjson.loads(value)
    if not isinstance(reference, str):
        return []
    if difference.kind == "schema":
        return [(difference.xid, xid_of_version(difference.xid, reference))]
    return [(place.schema, place.version) for place in schema_places(reference) if place.type_name is None]


def _schema_at(difference: Difference, value: str, find: FindFlatAttributes) -> tuple[str, str | None] | None:
    """Return the document that a reference leads to, and its format, both as JSON text; None: none is found."""
    for schema, version in _places(difference, value):
        default = (find((difference.registryid, "schema", schema)) or {}).get(Pointer("/defaultversionid"))
        shown = version or (xid_of_version(schema, orjson.loads(default)) if default else None)
        attributes = find((difference.registryid, "schemaversion", shown)) if shown is not None else None
        if attributes is not None and Pointer("/schema") in attributes:
            return attributes[Pointer("/schema")], attributes.get(Pointer("/format"))
    return None


def flat_attributes_of_message(
    inferred: dict[Pointer, JsonText], attributes: dict[Pointer, JsonText], deprecated: Any
) -> FlatAttributes:
    """Return the flat attributes by which a message is compared.

    Args:
        inferred: what the specifications infer of its definition.
        attributes: its effective definition.
        deprecated: of the message itself, since no Version has it.
    """
    return _without_nothing(_text_attribute("deprecated", deprecated) | inferred | attributes)


def flat_attributes_of_entity(kind: str, body: JsonText) -> FlatAttributes:
    """Return the flat attributes by which a group, endpoint, schema or Version of a schema is compared.

    Args:
        kind: of the entity.
        body: its normal form.
    """
    attributes = read_canonical(body)
    texts, dated = _json_attributes(attributes, *_TEXTS), _text_attribute("deprecated", attributes.get("deprecated"))
    labels = _text_attribute("labels", attributes.get("labels"))
    if kind == "group":
        return _without_nothing(texts | labels | dated | _json_attributes(attributes, "envelope", "protocol"))
    if kind == "endpoint":
        named = _json_attributes(attributes, "channel", "envelope", "protocol")
        return _without_nothing(texts | labels | dated | named | _attributes_of_endpoint(attributes))
    if kind == "schema":
        return _without_nothing(dated | _json_attributes(attributes, "defaultversionid", "compatibility"))
    schema: dict[Pointer, str | None] = (
        {pointer_of("schema"): canonical_text(attributes["schema"])} if "schema" in attributes else {}
    )
    return _without_nothing(texts | labels | _json_attributes(attributes, "format", "schemauri", "contenttype") | schema)


def _attributes_of_endpoint(endpoint: dict[str, Any]) -> dict[Pointer, str | None]:
    """Return the flat attributes that only endpoints have: each role, message group and option is one."""
    options = endpoint.get("protocoloptions") or {}
    return (
        _text_attribute("envelopeoptions", endpoint.get("envelopeoptions"))
        | {pointer_of("usage", role): "true" for role in endpoint.get("usage") or []}
        | {pointer_of("messagegroups", xid): "true" for xid in endpoint.get("messagegroups") or []}
        | {pointer_of("protocoloptions", name): as_column_text(value) for name, value in options.items()}
    )


def _place(pointer: Pointer, before: FlatAttributes, after: FlatAttributes) -> str:
    """Return whether the declaration that an attribute is a part of stays, came or went; empty: it is no part of one."""
    if not _DECLARATION.search(pointer):
        return ""
    parent = pointer[: pointer.rfind("/") + 1]
    if not any(other.startswith(parent) for other in before):
        return "new"
    return "declaration" if any(other.startswith(parent) for other in after) else "gone"


def _ruled(key: Key, change: str, place: str, pointer: Pointer, was: str | None, now: str | None) -> Difference:
    value = now if now is not None else was or ""
    rule = next(
        rule
        for rule in compatibility_rules()
        if rule.kind in ("", key[1])
        and rule.change in ("", change)
        and rule.place in ("", place)
        and re.search(rule.pointer, pointer)
        and re.search(rule.value, value)
    )
    effects = (rule.for_producers, rule.for_consumers)
    class_ = next(name for name in CLASSES if name in effects)
    return Difference(*key, change, pointer, was, now, class_, *effects, rule.rule, rule.meaning)


def _judged(difference: Difference, was: tuple[str, str | None], now: tuple[str, str | None]) -> Difference:
    """Return the difference of a schema's document with what is in it: which fields differ, whom that breaks, and why.

    Args:
        difference: the difference.
        was: the document before and its format, as JSON text.
        now: those after.
    """
    if was[1] != now[1]:
        return difference
    judgement = judge(read_exactly(was[0].encode()), read_exactly(now[0].encode()), orjson.loads(now[1]) if now[1] else "")
    if not judgement.differences:
        text = "The document is written differently, and means the same"
        return replace(difference, class_="cosmetic", for_producers="cosmetic", for_consumers="cosmetic", meaning=text)
    readers, writers = (_CLASS_OF[answer] for answer in judgement.breaks)
    reasons = judgement.reasons()
    lesser = [each for each in judgement.differences if each not in reasons]
    details = [each.sentence for each in reasons] + [each.summary for each in lesser]
    more = f" ({len(details) - _MOST_DETAILS} more)" if len(details) > _MOST_DETAILS else ""
    class_ = next(name for name in CLASSES if name in (readers, writers))
    meaning = " ".join(details[:_MOST_DETAILS]) + more
    return replace(
        difference, class_=class_, for_producers=writers, for_consumers=readers, meaning=meaning, within=(*reasons, *lesser)
    )


def _text_attribute(name: str, value: Any) -> dict[Pointer, str | None]:
    return {pointer_of(name): as_column_text(value)}


def _json_attributes(attributes: dict[str, Any], *names: str) -> dict[Pointer, str | None]:
    return {pointer_of(name): None if attributes.get(name) is None else canonical_text(attributes[name]) for name in names}


def _without_nothing(attributes: dict[Pointer, str | None]) -> FlatAttributes:
    return {pointer: JsonText(value) for pointer, value in attributes.items() if value is not None and value != "{}"}
