"""Proposals measured on messages of real senders: half of the types lose their definitions, and are proposed from messages.

Of each such type one half of its messages is observed, the other half is matched with what is proposed, as are the messages of
all other types. What is proposed is compared with what was published: attributes, values and templates, types, required members.

    PYTHONPATH=tests python -m propose.heldout
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson
from match.catalogs import SAMPLES, load

from lakehouse.match import Index, Matcher, MatchRequest, Payloads, Schemas, SchemaVersion, compile_template
from lakehouse.match.event.canonical import CapturedEvent, Event, events_of
from lakehouse.match.event.captured import landed_of_text
from lakehouse.propose.decided import Observed, Thresholds
from lakehouse.propose.kinds import EventCounter
from lakehouse.propose.proposals import as_bytes, groups_of, propose_kinds

EVENTS = SAMPLES / "events" / "captured.jsonl"
# So few messages of a type cannot show what 1,000 on two days would: each member of all of them is required here.
FEW = Thresholds(required_events=2, required_days=0)
_TEXTS = {"string", "date", "datetime", "time", "duration", "uuid", "uri", "binary", "jsonpointer", "bytes", "enum", "fixed"}
_INTEGERS = {"integer", "int8", "int16", "int32", "uint8", "uint16", "uint32", "int"}
_EITHER = {"int64", "uint64", "int128", "uint128", "decimal", "long"}  # as text in JSON Structure, as numbers elsewhere
_NUMBERS = {"number", "float", "double", "float8", "float32", "float64"}
_PLAIN = {"boolean": {"boolean"}, "null": {"null"}, "array": {"array"}, "set": {"array"}, "tuple": {"array"}, "any": {"any"},
          "object": {"object"}, "map": {"object"}, "record": {"object"}, "choice": {"object"}}  # fmt: skip


class Sent(NamedTuple):
    """A message of a sender."""

    document: str
    kind: str
    landed: CapturedEvent
    event: Event


@dataclass
class Score:
    """How many were right, of those that are proposed, and of those that were published."""

    right: int = 0
    proposed: int = 0
    published: int = 0

    def add(self, proposed: set[Any], published: set[Any], right: Callable[[Any], bool] | None = None) -> None:
        self.right += len(proposed & published) if right is None else sum(map(right, proposed))
        self.proposed += len(proposed)
        self.published += len(published)

    @property
    def precision(self) -> float:
        return self.right / self.proposed if self.proposed else 1.0

    @property
    def recall(self) -> float:
        return self.right / self.published if self.published else 1.0


@dataclass
class HeldOut:
    """What came of it.

    Attributes:
        scores: by sender, and what is compared.
        tested: messages of proposed types that were not observed.
        matched: of these, those that match a proposal of their type.
        foreign: messages of other types.
        confused: of these, those that match a proposal.
        missed: why messages did not match.
    """

    scores: dict[str, dict[str, Score]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(Score)))
    tested: int = 0
    matched: int = 0
    foreign: int = 0
    confused: int = 0
    missed: Counter[str] = field(default_factory=Counter)


def messages() -> list[Sent]:
    """Return the messages of real senders, with the CloudEvents type of each."""
    found = []
    for line in EVENTS.read_bytes().splitlines():
        (landed,) = landed_of_text(line)
        (event,) = events_of(landed)
        found.append(Sent(orjson.loads(line)["document"], str(event.ce["type"]), landed, event))
    return found


def measure(sent: list[Sent], odd: bool, thresholds: Thresholds = FEW) -> HeldOut:
    """Take the definitions of every second type away, propose them, and compare.

    Args:
        sent: the messages.
        odd: which half of the types.
        thresholds: how much evidence decides.
    """
    types = sorted({(one.document, one.kind) for one in sent})[int(odd) :: 2]
    proposed_types = {kind for _, kind in types}
    seen: Counter[str] = Counter()
    counter, tested = EventCounter(), []
    for one in sent:
        if one.kind in proposed_types:
            seen[one.kind] += 1
            if (seen[one.kind] - 1) // 2 % 2:  # a message and its other mode stay together
                tested.append(one)
            else:
                counter.add([(one.event, "2026-01-01")])
    kinds = [Observed.of(kind, days) for kind, days in counter.by_kind.items()]
    proposed = load(
        {f"proposed {group}": as_bytes(one.document) for group, one in groups_of(propose_kinds(kinds, thresholds)).items()}
    )
    result = HeldOut(tested=len(tested))
    matcher = Matcher(Index.of(proposed[0]), Payloads(Schemas(proposed[1])), MatchRequest(payload_share=0))
    for one in tested:
        (row,) = matcher.rows(one.landed)
        if row["matches"]:
            result.matched += 1
        else:
            result.missed[f"{one.kind} over {one.event.family}: {row['why']}"] += 1
    foreign = [one for one in sent if one.kind not in proposed_types]
    result.foreign = len(foreign)
    result.confused = sum(bool(row["matches"]) for one in foreign for row in matcher.rows(one.landed))
    for document, kind in types:
        published = load({document: (SAMPLES / "feeds" / document).read_bytes()})
        _compare(result.scores[document], _declared(*proposed, kind), _declared(*published, kind))
    return result


class Declared(NamedTuple):
    """What is declared for a type: names of attributes, values as templates without names, types and required members by path."""

    attributes: set[str]
    values: dict[str, str]
    types: dict[str, frozenset[str]]
    required: set[str]


def _compare(scores: dict[str, Score], proposed: Declared, published: Declared) -> None:
    scores["attributes"].add(proposed.attributes, published.attributes)
    both = proposed.values.keys() & published.values.keys()  # what else was captured, such as the topic, is the endpoints'
    scores["values"].right += sum(proposed.values[path] == published.values[path] for path in both)
    scores["values"].proposed += len(both)
    scores["values"].published += len(published.values)
    members = proposed.types.keys() & published.types.keys()
    scores["types"].right += sum(proposed.types[path] - {"null"} <= published.types[path] for path in members)
    scores["types"].proposed += len(members)
    scores["types"].published += len(published.types)
    scores["members"].add(set(proposed.types), set(published.types))
    scores["required"].add(proposed.required, published.required)


def _declared(rows: list[dict[str, Any]], schemas: list[SchemaVersion], kind: str) -> Declared:
    """Return what all definitions of a type declare."""
    of_kind = [row for row in rows if row["attributes"].get("/envelopemetadata/type/value") == json.dumps(kind)]
    attributes, values = set(), {}
    types: dict[str, frozenset[str]] = {}
    required: set[str] = set()
    for row in of_kind:
        family = (row["protocol"] or "").partition("/")[0]
        for pointer, text in row["attributes"].items():
            parts = pointer.split("/")
            if parts[1] == "envelopemetadata":
                attributes.add(parts[2])
            name = pointer.removesuffix("/value")
            if parts[1] in ("envelopemetadata", "protocoloptions") and parts[-1] not in ("type", "required", "description"):
                values[name if parts[1] == "envelopemetadata" else f"{family}{name}"] = _shape(json.loads(text))
        schema = next((one for one in schemas if one.schema_xid == row["schema_xid"] and one.text), None)
        if schema is not None:
            _walk(json.loads(schema.text or ""), json.loads(schema.text or ""), "", types, required)
    return Declared(attributes - {"type", "specversion", "id", "time"}, values, types, required)


def _shape(value: Any) -> str:
    return compile_template(value).shape if isinstance(value, str) else json.dumps(value)


def _walk(node: Any, root: Any, at: str, types: dict[str, frozenset[str]], required: set[str]) -> None:
    """Read JSON Schema, JSON Structure or Avro: the JSON types at each path, and the members that are required."""
    if at.count("/") > 8:
        return
    for one in _alternatives(node, root):
        kind = one if isinstance(one, str) else one.get("type", "any")
        types[at] = types.get(at, frozenset()) | _json_types(kind)
        if isinstance(one, str):
            continue
        fields = {member["name"]: member["type"] for member in one.get("fields", [])} | one.get("properties", {})
        avro = {member["name"] for member in one.get("fields", []) if "null" not in member["type"]}
        for name, member in fields.items():
            _walk(member, root, f"{at}/{name}", types, required)
        required |= {f"{at}/{name}" for name in {*one.get("required", []), *avro}}
        if "items" in one:
            _walk(one["items"], root, f"{at}/*", types, required)


def _alternatives(node: Any, root: Any) -> Iterator[Any]:
    """Yield what a node may be, with references followed; types of JSON in a list stay together."""
    while isinstance(node, dict) and (isinstance(node.get("type"), dict) or "$ref" in node or "$root" in node):
        target = node.get("$root") or node.get("$ref") or node["type"].get("$ref")
        if target is None:
            node = node["type"]
            continue
        node = root
        for token in target.removeprefix("#/").split("/"):
            node = node[token]
    several = node if isinstance(node, list) else node.get("anyOf") if isinstance(node, dict) else None
    if several is None and isinstance(node, dict) and isinstance(node.get("type"), list):
        several = [one if isinstance(one, dict) else {**node, "type": one} for one in node["type"]]
    if several is None:
        yield node
    for one in several or ():
        yield from _alternatives(one, root)


def _json_types(kind: str) -> frozenset[str]:
    if kind in _TEXTS:
        return frozenset({"string"})
    if kind in _INTEGERS:
        return frozenset({"integer"})
    if kind in _EITHER:
        return frozenset({"integer", "number", "string"})
    return frozenset({"number", "integer"} if kind in _NUMBERS else _PLAIN.get(kind, {"object"}))


def totals(results: Iterable[HeldOut]) -> dict[str, dict[str, Score]]:
    """Add up scores, by sender and over all."""
    total: dict[str, dict[str, Score]] = defaultdict(lambda: defaultdict(Score))
    for result in results:
        for document, scores in result.scores.items():
            for name, score in scores.items():
                for sender in (document, "all"):
                    one = total[sender][name]
                    one.right += score.right
                    one.proposed += score.proposed
                    one.published += score.published
    return total


def as_table(results: Iterable[HeldOut]) -> str:
    """Write precision and recall in percent, by sender."""
    names = ("attributes", "values", "members", "types", "required")
    lines = ["sender".ljust(36) + "".join(name.rjust(14) for name in names)]
    for sender, scores in sorted(totals(results).items(), key=lambda one: (one[0] == "all", one[0])):
        cells = (f"{100 * scores[name].precision:.0f}/{100 * scores[name].recall:.0f}" for name in names)
        lines.append(sender.ljust(36) + "".join(cell.rjust(14) for cell in cells))
    return "\n".join(lines)


if __name__ == "__main__":
    halves = [measure(messages(), odd) for odd in (False, True)]
    print(as_table(halves))
    for half in halves:
        print(f"matched {half.matched} of {half.tested}, other types {half.confused} of {half.foreign}")
        for why, times in half.missed.most_common():
            print(f"  {times} {why}")
