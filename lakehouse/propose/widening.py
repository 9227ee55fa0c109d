"""The smallest widening of a JSON Schema that takes payloads which break it, decided by their counts alone, as a new Version.

A keyword changes only where the counts show that a value broke it: a member becomes optional, a type, value or member is added, a
limit moves to what was seen, a pattern or format goes. What counts cannot show, such as `not`, stays and is reported. The Version
says whom it breaks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import orjson

from lakehouse.compatibility import Judgement, judge
from lakehouse.compatibility.jsonshapes import OPAQUE, JsonDocument
from lakehouse.dialects.schemadocuments import family_of_format
from lakehouse.match.payload.schemas import Resolved, SchemaVersion, Versions
from lakehouse.match.payload.validators import Unsupported, Validator, make_validator
from lakehouse.propose.decided import Observed, Thresholds, names_below
from lakehouse.propose.pathcounts import DATA, ITEM, MEMBER, PathCounts, child, looks_like_id
from lakehouse.propose.payloadschema import Schema, SchemaDecision
from lakehouse.propose.textformats import FORMATS
from lakehouse.text.jsontext import canonical_text
from lakehouse.text.names import JsonText, RegistryId, Xid
from lakehouse.text.xid import last_id

# What counts of each path alone do not decide.
_NOT_DECIDED = frozenset(names[0] for names in OPAQUE) | {"uniqueItems", "prefixItems", "additionalItems", "patternProperties"}
_LENGTHS = {
    "string": ("minLength", "maxLength"), "array": ("minItems", "maxItems"), "object": ("minProperties", "maxProperties"),
}  # fmt: skip
_COMPOSED = ("object", "array")
_NUMBERS = ("integer", "number")
# Keywords that one value decides, and the types that they are about.
_OF_VALUES = {
    "const": (*_NUMBERS, "string", "boolean", "null"), "enum": (*_NUMBERS, "string", "boolean", "null"),
    "pattern": ("string",), "format": ("string",), "multipleOf": _NUMBERS,
}  # fmt: skip

Types = Mapping[str, PathCounts]
PROPOSED = {"proposed": "true"}  # labels of what is proposed
Json = dict[str, Any]


@dataclass
class WidenedSchema:
    """A schema that takes the payloads that were counted.

    Attributes:
        schema: the same value as before where nothing had to change.
        undecided: paths and keywords that may be broken, which counts do not show, sorted.
    """

    schema: Any
    undecided: list[str] = field(default_factory=list)


def widen_schema(
    schema: JsonText, format: str, observed: Iterable[Observed], thresholds: Thresholds, place: str = ""
) -> WidenedSchema:
    """Widen a JSON Schema by payloads that break it.

    Args:
        schema: the document.
        format: as `format` of its Version names it.
        observed: counts of the payloads, of each kind.
        thresholds: how much evidence decides what is added.
        place: JSON Pointer to the schema within the document that payloads are of.

    Raises:
        Malformed: it is no JSON Schema.
    """
    document = JsonDocument(orjson.loads(schema), format)
    undecided: set[str] = set()
    for observation in observed:
        widening = _Widening(document, format, observation, thresholds)
        target, types = document.follow(f"#{place}"), observation.types(DATA)
        if types.pop("binary", None) is not None:
            undecided.add(f"{DATA} payloads that are not JSON")
        if isinstance(target, dict):
            widening.at(target, DATA, types)
        else:
            undecided.add(f"{DATA} {place or 'boolean schema'}")
        undecided |= widening.undecided
    return WidenedSchema(document.root, sorted(undecided))


class _Widening:
    """A schema and the counts of one kind; nodes of the schema are changed in place."""

    def __init__(self, document: JsonDocument, format: str, observed: Observed, thresholds: Thresholds) -> None:
        self.document, self.format, self.observed = document, format, observed
        self.members = observed.members
        self.decision = SchemaDecision(observed, replace(thresholds, outlier_share=0.0))
        self.undecided: set[str] = set()
        self._visited: set[tuple[int, str, frozenset[str]]] = set()  # a schema may refer to itself

    def at(self, node: Any, path: str, types: Types) -> Any:
        """Return the node widened by the values at a path of some types."""
        if node is False and types:
            return self.decision.at(path)
        key = (id(node), path, frozenset(types))
        if not isinstance(node, dict) or not types or key in self._visited:
            return node
        self._visited.add(key)
        if "$ref" in node:
            target = self.document.follow(node["$ref"])
            if isinstance(target, dict):
                self.at(target, path, types)
            else:
                self._leave(path, "$ref")
            if self.document.is_old:  # other keywords have no meaning next to a reference
                return node
        for keyword in sorted(_NOT_DECIDED & node.keys()):
            self._leave(path, keyword)
        self._types(node, path, types)
        self._values(node, path, types)
        self._lengths(node, types)
        self._range(node, path, types)
        if "object" in types:
            self._object(node, path)
        if "array" in types and "items" in node:
            self._items(node, path)
        for branch in node.get("allOf", ()):
            self.at(branch, path, types)
        for keyword in ("anyOf", "oneOf"):
            if keyword in node:
                self._alternatives(node[keyword], keyword, path, types)
        return node

    def _leave(self, path: str, keyword: str) -> None:
        self.undecided.add(f"{path} {keyword}")

    def _types(self, node: Schema, path: str, types: Types) -> None:
        """Add the types that were seen and are not declared."""
        if "type" not in node:
            return
        names = [node["type"]] if isinstance(node["type"], str) else list(node["type"])
        for kind, counts in types.items():
            if _is_among(kind, names):
                continue
            if kind == "number" and "integer" in names:
                values = _distinct(kind, counts)
                if values is not None and all(value.is_integer() for value in values):
                    continue  # 5.0 is an integer
                names[names.index("integer")] = "number"
            else:
                names.append(kind)
                added = self.decision.of_type(path, kind) if kind in _COMPOSED else {}
                node |= {keyword: value for keyword, value in added.items() if keyword not in node}
        node["type"] = names[0] if len(names) == 1 and isinstance(node["type"], str) else names

    def _values(self, node: Schema, path: str, types: Types) -> None:
        """Widen what each value decides by itself: constants, enumerations, patterns, formats, multiples."""
        for keyword in [keyword for keyword in _OF_VALUES if keyword in node]:
            seen = {kind: counts for kind, counts in types.items() if kind in _OF_VALUES[keyword]}
            distinct = {kind: _distinct(kind, counts) for kind, counts in seen.items()}
            broken = self._broken(keyword, node[keyword], [value for values in distinct.values() for value in values or ()])
            hidden = [counts for kind, counts in seen.items() if distinct[kind] is None]
            if keyword in ("const", "enum"):
                self._enumeration(node, keyword, path, broken, hidden)
                if not types.keys() <= seen.keys():
                    self._leave(path, keyword)
            elif broken or (keyword == "format" and self._has_other_format(node[keyword], hidden)):
                del node[keyword]
            elif hidden and not (keyword == "format" and node[keyword] in FORMATS):
                self._leave(path, keyword)

    def _enumeration(self, node: Schema, keyword: str, path: str, broken: list[Any], hidden: list[PathCounts]) -> None:
        """Add values to an enumeration; where there were more than could be kept, there is none."""
        allowed = [node[keyword]] if keyword == "const" else node[keyword]
        if sum(counts.distinct for counts in hidden) > len(allowed):
            del node[keyword]
        elif hidden:
            self._leave(path, keyword)
        elif broken:
            del node[keyword]
            node["enum"] = [*allowed, *broken]

    def _broken(self, keyword: str, value: Any, values: list[Any]) -> list[Any]:
        """Return the values that break a keyword, sorted."""
        validator = self._validator({keyword: value})
        return sorted((candidate for candidate in values if validator is None or validator.errors(candidate)), key=orjson.dumps)

    def _has_other_format(self, name: Any, hidden: list[PathCounts]) -> bool:
        """Return whether a text whose value was not kept has another format, of those that the draft checks."""
        is_missing = name in FORMATS and any(
            path_counts.formats is not None and name not in path_counts.formats for path_counts in hidden
        )
        return is_missing and bool(self._broken("format", name, ["\0"]))

    def _validator(self, schema: Schema) -> Validator | None:
        root = self.document.root
        named = {"$schema": root["$schema"]} if isinstance(root, dict) and "$schema" in root else {}
        text = JsonText(orjson.dumps(named | schema).decode())
        try:
            return make_validator(Resolved(Xid(""), self.format, text), _nothing)
        except Unsupported:  # a pattern that the library does not read: no value is valid
            return None

    def _lengths(self, node: Schema, types: Types) -> None:
        for kind, (least, most) in _LENGTHS.items():
            counts = types.get(kind)
            if counts is not None and counts.shortest is not None and counts.longest is not None:
                if node.get(least, 0) > counts.shortest:
                    node[least] = counts.shortest
                if most in node and node[most] < counts.longest:
                    node[most] = counts.longest

    def _range(self, node: Schema, path: str, types: Types) -> None:
        numbers = [types[kind] for kind in _NUMBERS if kind in types]
        for limit, exclusive, sign in (("minimum", "exclusiveMinimum", 1), ("maximum", "exclusiveMaximum", -1)):
            if not numbers or not {limit, exclusive} & node.keys():
                continue
            seen = [counts.least if sign == 1 else counts.greatest for counts in numbers]
            visible = [value for value in seen if value is not None]
            if len(visible) < len(seen):  # values are hidden
                self._leave(path, limit if limit in node else exclusive)
                continue
            _widen_limit(node, limit, exclusive, sign, min(visible) if sign == 1 else max(visible))

    def _object(self, node: Schema, path: str) -> None:
        names, keys = names_below(self.observed, path, self.members), f"{path}/{MEMBER}"
        properties = node.get("properties", {})
        has_keys = bool(self.observed.types(keys))
        required = list(self._still_required(node.get("required", ()), path, has_keys))
        if isinstance(node.get("required"), list) and required != node["required"]:
            node["required"] = required
            if not required:
                del node["required"]
        additional = node.get("additionalProperties", True)
        for name in names:
            place = child(path, name)
            if name in properties:
                properties[name] = self.at(properties[name], place, self.observed.types(place))
            elif "patternProperties" not in node and additional is False:
                node.setdefault("properties", {})[name] = self.decision.at(place)
            elif "patternProperties" not in node:
                self.at(additional, place, self.observed.types(place))
        if has_keys and "patternProperties" not in node:
            if any(map(looks_like_id, properties)):
                self._leave(path, "properties")
            if additional is not True:
                node["additionalProperties"] = self.at(additional, keys, self.observed.types(keys))

    def _still_required(self, names: Iterable[str], path: str, has_keys: bool) -> Iterator[str]:
        """Yield the names that all objects had; keys of maps are counted together, so it is not known which there were."""
        for name in names:
            seen = self.observed.presence(child(path, name))
            is_counted = not has_keys and not looks_like_id(name)
            if seen.events < seen.parents and not is_counted:
                self._leave(path, "required")
            if seen.events == seen.parents or not is_counted:
                yield name

    def _items(self, node: Schema, path: str) -> None:
        place = f"{path}/{ITEM}"
        if isinstance(node["items"], list):
            self._leave(path, "items")
        else:
            node["items"] = self.at(node["items"], place, self.observed.types(place))

    def _alternatives(self, branches: list[Any], keyword: str, path: str, types: Types) -> None:
        """Widen the one branch that takes a type, or add one; which of several a value was meant for is not known."""
        for kind, counts in types.items():
            fitting = [at for at, branch in enumerate(branches) if self._takes(branch, kind)]
            if not fitting and kind == "number":
                fitting = [at for at, branch in enumerate(branches) if self._takes(branch, "integer")]
            if not fitting:
                branches.append(self.decision.of_type(path, kind))
            elif len(fitting) == 1:
                branches[fitting[0]] = self.at(branches[fitting[0]], path, {kind: counts})
            else:
                self._leave(path, keyword)

    def _takes(self, branch: Any, kind: str) -> bool:
        followed: list[Any] = []
        while isinstance(branch, dict) and "$ref" in branch and not any(branch is earlier for earlier in followed):
            followed.append(branch)
            branch = self.document.follow(branch["$ref"])
        names = branch.get("type") if isinstance(branch, dict) else None
        return branch is not False and (names is None or _is_among(kind, [names] if isinstance(names, str) else names))


def _is_among(kind: str, names: Iterable[str]) -> bool:
    return kind in names or (kind == "integer" and "number" in names)


def _distinct(kind: str, counts: PathCounts) -> list[Any] | None:
    """Return the distinct values of a scalar; None: they were not kept."""
    if kind == "null":
        return [None]
    if counts.values is None:
        return None
    return list(counts.values) if kind == "string" else [float(text) if kind == "number" else orjson.loads(text)
                                                         for text in counts.values]  # fmt: skip


def _widen_limit(node: Schema, limit: str, exclusive: str, sign: int, seen: float) -> None:
    """Move a limit to the value that was seen; `sign` is 1 of a least value, -1 of a greatest."""
    value = int(seen) if seen.is_integer() and abs(seen) < 2**63 else seen  # no longer integer is written
    bound, open_bound = node.get(limit), node.get(exclusive)
    if isinstance(open_bound, bool):  # draft 4: it belongs to the limit
        if open_bound and bound is not None and sign * value <= sign * bound:
            del node[exclusive]
    elif open_bound is not None and sign * value <= sign * open_bound:
        del node[exclusive]
        node.setdefault(limit, value)
    if bound is not None and sign * value < sign * bound:
        node[limit] = value


def _nothing(uri: str) -> Any:
    raise LookupError(uri)


class BrokenSchema(NamedTuple):
    """A schema that payloads break: its registry, its XID, and the JSON Pointer to what they are of; empty: all of it."""

    registryid: RegistryId
    schema_xid: Xid
    place: str = ""

    @classmethod
    def of(cls, resolved: Resolved) -> BrokenSchema | None:
        """Return the schema of a definition; None: the definition holds it itself."""
        place = resolved.fragment or ""
        place = f"/{place}" if place and not place.startswith("/") else place
        return None if resolved.schema_xid is None else cls(resolved.registryid, resolved.schema_xid, place)

    @classmethod
    def read(cls, text: str) -> BrokenSchema:
        """Read what `written` wrote."""
        schema, _, place = text.partition("#")
        registryid, slash, xid = schema.partition("/")
        return cls(RegistryId(registryid), Xid(slash + xid), place)

    @property
    def written(self) -> str:
        """Return it as a text, such as `default/schemagroups/shop/schemas/Order#/definitions/Line`."""
        return f"{self.registryid}{self.schema_xid}" + (f"#{self.place}" if self.place else "")


@dataclass(frozen=True)
class WidenedVersion:
    """What is proposed for a schema that payloads break.

    Attributes:
        broken: its default Version.
        versionid: of the new one.
        widened: the new schema, and what counts did not decide.
        observed: counts of the payloads, of each kind.
    """

    broken: SchemaVersion
    versionid: str
    widened: WidenedSchema
    observed: list[Observed] = field(default_factory=list)

    @property
    def group(self) -> str:
        """Return the id of the schema's group."""
        return self.broken.schema_xid.split("/")[2]

    @property
    def schemaid(self) -> str:
        """Return the id of the schema."""
        return last_id(self.broken.schema_xid)

    @property
    def events(self) -> int:
        """Return how many events broke the schema."""
        return sum(observation.events("") for observation in self.observed)

    @property
    def is_changed(self) -> bool:
        """Return whether a new Version is proposed; else counts did not show what to change."""
        return canonical_text(self.widened.schema) != canonical_text(orjson.loads(self.broken.text or "null"))

    @property
    def judgement(self) -> Judgement:
        """Return the differences to the Version before, and whom they break."""
        return judge(orjson.loads(self.broken.text or "null"), self.widened.schema, self.broken.format or "")

    def as_json(self) -> Json:
        """Return the contract of `lakehouse propose --json`."""
        judgement = self.judgement
        return {
            "registryid": self.broken.registryid, "comparedwith": self.broken.xid,
            "versionid": self.versionid if self.is_changed else None, "events": self.events,
            "breaks": judgement.breaks.as_json(), "differences": [difference.as_json() for difference in judgement.differences],
            "undecided": self.widened.undecided,
        }  # fmt: skip

    def as_schema(self) -> Json:
        """Return the schema with the Version before and the new one, as a document holds it."""
        before = {"versionid": last_id(self.broken.xid), "schema": orjson.loads(self.broken.text or "null")}
        labels = PROPOSED | {"observed.events": str(self.events)}
        after = {"versionid": self.versionid, "ancestor": before["versionid"], "labels": labels, "schema": self.widened.schema}
        common = {"schemaid": self.schemaid, "format": self.broken.format}
        versions = {version["versionid"]: common | version for version in ([before, after] if self.is_changed else [before])}
        return common | {"versions": versions}


def widen_versions(observed: Iterable[Observed], versions: Versions, thresholds: Thresholds) -> list[WidenedVersion]:
    """Widen the schemas that payloads break, each in its default Version; one that takes them already is left out.

    Args:
        observed: counts of kinds whose payloads break a schema.
        versions: of the catalog's schemas.
        thresholds: how much evidence decides what is added.
    """
    places: defaultdict[tuple[RegistryId, Xid], defaultdict[str, list[Observed]]] = defaultdict(lambda: defaultdict(list))
    for observation in observed:
        registryid, schema_xid, place = BrokenSchema.read(observation.breaks)
        places[registryid, schema_xid][place].append(observation)
    result = []
    for key, by_place in sorted(places.items()):
        broken = versions.default(key)
        if broken is None or broken.text is None:  # it is gone, or no text
            continue
        names = {last_id(version.xid) for version in versions.of_schema(key)}
        widened = _widened(broken, by_place, thresholds)
        kinds = [kind for of in by_place.values() for kind in of]
        version = WidenedVersion(broken, _next(last_id(broken.xid), names), widened, kinds)
        if version.is_changed or widened.undecided:
            result.append(version)
    return result


def _widened(broken: SchemaVersion, by_place: dict[str, list[Observed]], thresholds: Thresholds) -> WidenedSchema:
    """Widen a Version at each place that payloads are of."""
    schema, format = orjson.loads(broken.text or "null"), broken.format or ""
    if family_of_format(format, schema) != "jsonschema":
        return WidenedSchema(schema, [f"schemas of format {format or 'unknown'} are not widened"])
    undecided: set[str] = set()
    for place, observed in sorted(by_place.items()):
        widened = widen_schema(JsonText(orjson.dumps(schema).decode()), format, observed, thresholds, place)
        schema = widened.schema
        undecided |= set(widened.undecided)
    return WidenedSchema(schema, sorted(undecided))


def _next(versionid: str, names: set[str]) -> str:
    """Return the id of the next Version: the next number, or the id with a suffix."""
    if versionid.isdecimal():
        return str(1 + max(int(name) for name in names if name.isdecimal()))
    widened = f"{versionid}-widened"
    while widened in names:
        widened += "-widened"
    return widened
