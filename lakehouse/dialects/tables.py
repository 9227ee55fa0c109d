"""The tables of the dialects, compiled: which attributes an entity has, and how else each is spelled.

A row of `dialects.csv` is an attribute of the normal form (1.0-rc2): of which entity, in which place, for which protocol
(family), its name, its type, the rule that asks for the type, and how else it is spelled, a column for each dialect and one
for what is seen elsewhere. A spelling is relative to its place; one that starts with `/` starts at the entity. `*` stands for
all members of a place, so `options/*` moves the members of `options` into it.

Types: `computed` is dropped (an export computes it); `any` and `plain` are taken as they are; `text`, `url` and `labels` are
words for people, left out when they are of another type, where an error of any other takes its entity out; a `declaration` is
an object with `value`, `type`, `required` …, and a bare value becomes one; `attribute` is a declaration that must be written
as one; `declarations` is a map of them; `namedvalues` a map of them that may be written as a list of named items; `headers`
the list.

Other tables: `protocols.csv` (a protocol a row), `option_defaults.csv` (of endpoints; the default is JSON),
`dialect_values.csv` (values that are written otherwise), `dialect_types.csv` (types in one dialect only), `dialect_rules.csv`
(what one dialect alone asks for while it is read), `dialect_checks.csv` (rules about the normal form that some dialects alone
have, or have in a milder form), `dialect_lacks.csv` and `dialect_writes.csv` (what a dialect does not know when it is written,
and how it writes values), `detection.csv` (how a dialect is recognized), `draft/data/cncf_catalog.csv` (the draft).
Decisions 11 to 19 of docs/decisions.md.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any, NamedTuple

from lakehouse.text.csvtables import read_rows, read_table
from lakehouse.text.names import Pointer


class Protocol(NamedTuple):
    """A row of `protocols.csv`.

    Attributes:
        family: name of the protocol in upper case.
        versions: its versions, each behind a space.
        shorthand: the version that is meant without one; empty: none.
        schemes: schemes of addresses of endpoints; `other_schemes`: `any` when others are no fault.
        port: `required` in addresses, or empty.
        path: what the path of an address names, or empty.
        address: the option of a message that holds its address; `needs_address`: `required` when no message is without.
        content_type: the option of a message that holds the type of its payload.
        ce_attributes: how options that are CloudEvents attributes begin, each behind a space; the first is written.
        ce_encoding: `percent` when their values are percent-encoded.
        landed: options and sections that every message has, so that one that lands without them was not captured whole.
        undeclared: options that may be given for a message although its definition does not declare them.
        endpoint_options: options of endpoints that messages have too; behind a colon the path there, if it is another; behind a
            bar the option of a message that takes its place.
        rule: what asks for the schemes.
        guessed: rank among the protocols that a message without one may have by its options; empty: it must name the protocol.
        exclusive: options that take each other's place: `one|other|rule`, the rule that both together violate.
        dotted: options whose segments are separated by `.` instead of `/`.
    """

    family: str
    versions: str
    shorthand: str
    schemes: str
    other_schemes: str
    port: str
    path: str
    address: str
    needs_address: str
    content_type: str
    ce_attributes: str
    ce_encoding: str
    landed: str
    undeclared: str
    endpoint_options: str
    rule: str
    guessed: str
    exclusive: str
    dotted: str


PROTOCOLS: dict[str, Protocol] = {row.family: row for row in read_rows("lakehouse.dialects", "protocols", Protocol)}
FAMILIES: tuple[str, ...] = tuple(sorted(PROTOCOLS))
# Those that options alone may mean: a new protocol does not change how existing documents are read.
GUESSED: tuple[str, ...] = tuple(
    sorted((name for name in FAMILIES if PROTOCOLS[name].guessed), key=lambda name: PROTOCOLS[name].guessed)
)
DIALECTS = ("1.0-rc1", "1.0-rc2", "1.0-rc4", "0.5-wip", "cereg", "cncf-catalog", "asyncapi-2", "asyncapi-3")
NORMAL = "1.0-rc2"  # the normal form
WRITABLE = ("1.0-rc1", NORMAL, "1.0-rc4", "0.5-wip", "cncf-catalog")
# Written from all that is exported at once, and not group by group; only the first is loaded again (`export/otherformats.py`).
DBT = "dbt"  # of the tables themselves
WHOLE_DIALECTS = ("asyncapi-3", "backstage", "odcs", DBT)
_FORMS = ("entity", "place", "protocol", "name", "type", "rule")


class Attribute(NamedTuple):
    """A row of the table without its spellings."""

    name: str
    type: str
    rule: str


class Loss(NamedTuple):
    """What a dialect cannot express: a pointer into the normal form, the rule, and a text for people."""

    pointer: Pointer
    rule_id: str
    message: str


def table(name: str = "dialects") -> list[dict[str, str]]:
    """Return a table of this package, `data/dialects.csv` or another one: a dict for each row."""
    return read_table("lakehouse.dialects", name)


@cache
def spelled_values() -> dict[tuple[str, str], str]:
    """Return what a value of a declaration's member is in normal form, where it is written otherwise."""
    return {(row["member"], row["written"]): row["normal"] for row in table("dialect_values")}


@cache
def dialect_rules(dialect: str, entity: str) -> list[dict[str, str]]:
    """Return what a dialect alone asks of an entity."""
    return [row for row in table("dialect_rules") if (row["dialect"], row["entity"]) == (dialect, entity)]


@cache
def _checks() -> dict[tuple[str, str], str]:
    return {(row["dialect"], row["rule"]): row["severity"] for row in table("dialect_checks")}


def has_rule(dialect: str, rule: str) -> bool:
    """Return whether a dialect has a rule that not all of them have."""
    return (dialect, rule) in _checks()


@cache
def has_more_rules(dialect: str) -> bool:
    """Return whether a dialect has rules that not all of them have."""
    return any(name == dialect for name, _ in _checks())


def dialects_with_rule(rule: str) -> list[str]:
    """Return the dialects that have a rule that not all of them have, or have it in a milder form."""
    return [dialect for dialect, other in _checks() if other == rule]


def severity_in(dialect: str, rule: str) -> str | None:
    """Return the severity of a rule in a dialect where it is another than the rule's own."""
    return _checks().get((dialect, rule)) or None


def spelled_in(dialect: str, entity: str, *path: str) -> Pointer:
    """Return the JSON Pointer of an attribute of an entity, below it, in the spelling of a dialect."""
    place, pointer = "", ""
    for name in path:
        rows = [row for row in table() if (row["entity"], row["place"]) == (entity, place) and row["name"] in (name, "*")]
        cells = [(row["name"] == "*", row[dialect].split()[0].replace("*", name)) for row in rows if row.get(dialect)]
        spelled = min(cells)[1] if cells else name
        pointer = spelled if spelled.startswith("/") else f"{pointer}/{spelled}"
        place = f"{place}/{name}".lstrip("/")
    return Pointer(pointer)


@cache
def shorthands() -> dict[str, str]:
    """Return the version that a protocol stands for when it is written without one, by family (END-088, END-090, END-092)."""
    return {family: row.shorthand for family, row in PROTOCOLS.items() if row.shorthand}


def protocol_version(protocol: str) -> str | None:
    """Return the version of a protocol: as written, else the one that the shorthand stands for."""
    name, _, version = protocol.partition("/")
    return version.strip() or shorthands().get(name.strip().upper())


def family_of(protocol: Any) -> str | None:
    """Return the family of a protocol: the part before `/`, in upper case (requirements.md 22)."""
    return _family_of(protocol) if isinstance(protocol, str) else None


@lru_cache(maxsize=1000)
def _family_of(protocol: str) -> str | None:
    if protocol.strip().lower() == "none":
        return None
    return protocol.split("/", 1)[0].strip().upper() or None


class SharedOption(NamedTuple):
    """An option of an endpoint that its messages may declare too.

    Attributes:
        name: in the endpoint's options.
        pointer: of the value that a message declares.
        instead: of what a message may declare in its place; None: nothing.
    """

    name: str
    pointer: Pointer
    instead: Pointer | None


@cache
def shared_options(family: str | None) -> tuple[SharedOption, ...]:
    """Return the options of a protocol's endpoints that its messages may declare too; where they do, theirs is in effect."""
    protocol = PROTOCOLS.get(family or "")
    result = []
    for word in protocol.endpoint_options.split() if protocol else ():
        written, _, instead = word.partition("|")
        name, _, path = written.partition(":")
        pointers = [Pointer(f"/protocoloptions/{part}/value") for part in (path or name, instead) if part]
        result.append(SharedOption(name, pointers[0], pointers[1] if instead else None))
    return tuple(result)


@cache
def message_options(family: str, *types: str) -> tuple[str, ...]:
    """Return the names that `protocoloptions` of a message may have by a protocol, of these types if any are given."""
    own = (row for row in table() if (row["entity"], row["place"], row["protocol"]) == ("message", "protocoloptions", family))
    return tuple(row["name"] for row in own if row["name"] != "*" and (not types or row["type"] in types))


def listed_options(family: str) -> tuple[str, ...]:
    """Return the names of a message's options by a protocol that are lists of named values, such as headers."""
    return message_options(family, "headers", "namedvalues")


@cache
def exclusive_options(family: str | None) -> tuple[tuple[str, str, str], ...]:
    """Return the pairs of options of a protocol that take each other's place, with the rule that both together violate."""
    pairs = (words.split("|") for words in PROTOCOLS[family].exclusive.split()) if family in PROTOCOLS else ()
    return tuple((option, other, rule) for option, other, rule in pairs)


def separator_of(family: str | None, option: str) -> str:
    """Return what separates the segments of an option, such as an address; a placeholder does not take it (resolution 11)."""
    return "." if family in PROTOCOLS and option in PROTOCOLS[family].dotted.split() else "/"


def address_separator(family: str | None) -> str:
    """Return what separates the segments of a protocol's addresses."""
    return separator_of(family, PROTOCOLS[family].address) if family in PROTOCOLS else "/"


def family_of_options(options: Any) -> str | None:
    """Return the family of message options whose message names no protocol: the only one of `GUESSED` that has all names."""
    if not isinstance(options, dict) or not options:
        return None
    fits = [family for family in GUESSED if options.keys() <= places_of("message", family)["protocoloptions"].targets.keys()]
    return fits[0] if len(fits) == 1 else None


class Place(NamedTuple):
    """A place of an entity.

    Attributes:
        targets: by spelling the attribute that is meant.
        unwraps: objects whose members belong to the place.
        everything: the attribute that all other members are; None: they are taken as they are.
    """

    targets: dict[str, Attribute]
    unwraps: tuple[str, ...]
    everything: Attribute | None


@cache
def places_of(entity: str, family: str | None, dialect: str = "") -> dict[str, Place]:
    """Compile the rows of an entity that hold for a family; a dialect may give an attribute another type."""
    places: dict[str, Place] = {}
    for row in table():
        if row["entity"] != entity or row["protocol"] not in ("", family):
            continue
        place = places.setdefault(row["place"], Place({}, (), None))
        attribute = Attribute(row["name"], row["type"], row["rule"])
        spelled = spellings_of(row)
        unwraps = tuple(word[:-2] for word in spelled if word.endswith("/*") and not word.startswith("/"))
        if row["name"] == "*":
            places[row["place"]] = place._replace(
                unwraps=(*place.unwraps, *(word for word in unwraps if word not in place.unwraps)),
                everything=attribute if row["type"] != "plain" else place.everything,
            )
            continue
        for word in (row["name"], *spelled):
            if not word.startswith("/"):
                place.targets.setdefault(word, attribute)
    for row in table("dialect_types"):
        if (row["dialect"], row["entity"], row["protocol"]) == (dialect, entity, family):
            places[row["place"]].targets[row["name"]] = Attribute(row["name"], row["type"], row["rule"])
    return places


class Move(NamedTuple):
    """Where a member belongs that is spelled at the top of an entity: `rest` is its path below the first key."""

    rest: str
    place: str
    attribute: Attribute


@cache
def moves_of(entity: str) -> dict[str, list[Move]]:
    """Return the spellings that start at the entity, by their first key; named members come before `*`."""
    moves: dict[str, list[Move]] = {}
    for row in table():
        spelled = {word for word in spellings_of(row) if word.startswith("/")}
        if row["entity"] == entity:
            for word in sorted(spelled, reverse=True):
                key, _, rest = word[1:].partition("/")
                moves.setdefault(key, []).append(Move(rest, row["place"], Attribute(row["name"], row["type"], row["rule"])))
    for targets in moves.values():
        targets.sort(key=lambda move: move.rest == "*")
    return moves


def spellings_of(row: dict[str, str]) -> list[str]:
    """Return how else an attribute is spelled, in any dialect."""
    return [word for column, cell in row.items() if column not in _FORMS for word in cell.split()]
