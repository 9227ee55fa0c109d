"""What a schema may cost: how often a validator may look at one place of a payload, before it is used.

A schema may refer to its parts in several ways, and those to theirs, so that a short one means millions; where it refers to
itself in several ways, each level of a payload doubles the work. Libraries have no limit for that, nor for how often a payload
makes them
look: the cost of each place is multiplied with the number of places.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urljoin

from lakehouse.compatibility.jsonshapes import DATA, NAMED
from lakehouse.text.jsontext import canonical

_HERE = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "type", "$extends")  # of the same value
_NAMED_HERE = ("dependentSchemas", "dependencies")
_NAMED_BELOW = ("properties", "choices")
_OF_MEMBERS = ("contains", "propertyNames")
_TWICE = ("unevaluatedProperties", "unevaluatedItems")  # what the same value is checked with is gone through once more
_REST = ("additionalProperties", "unevaluatedProperties", "items", "additionalItems", "unevaluatedItems", "values")
_LISTS = ("items", "prefixItems")  # where each is for one place
_MAPS = NAMED | {"choices"}  # of JSON Structure, too
_DATA = DATA | {"example"}
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef", "$root")
_ANY = ""  # member: any of them
_MOST_LOOKS = 1_000_000  # at one place
_FEW_LOOKS = 200  # at one place: with so few, time grows with the payload alone
_MOST_WORK = 5_000_000  # looks at all places of a payload
_MOST_ERROR_BYTES = 200_000_000  # bytes of errors, each of which may quote the schema
_QUICK = 20  # comparisons with texts or numbers that take the time of one look
_MOST_PARTS = 200_000

Edge = tuple[str | None, int]  # the member that a part is for (None: the same value), and which part it is


@dataclass(frozen=True)
class Effort:
    """What a schema may cost.

    Attributes:
        looks: how often the validator may look at one place of a payload, where the schema does not call itself.
        branches: in how many ways it calls itself for one value; 1: each level is looked at once.
        size: how long the schema is, as JSON text.
    """

    looks: int
    branches: int
    size: int = 0

    @property
    def is_plain(self) -> bool:
        """Return whether checking takes time in proportion to the payload alone."""
        return self.branches <= 1 and self.looks <= _FEW_LOOKS

    def is_high(self, value: Any, *, slowness: int = 1) -> bool:
        """Return whether a JSON value may make it costly.

        Args:
            value: the payload.
            slowness: how many looks of a quick library one look of this one takes.
        """
        if self.looks > _MOST_LOOKS:
            return True
        places = places_of(value)
        if places * max(self.looks * slowness / _MOST_WORK, self.size / _MOST_ERROR_BYTES) > 1:
            return True
        levels, most = depth_of(value) if self.branches > 1 else 0, _MOST_LOOKS // self.looks
        return self.branches > 1 and (levels > 20 or self.branches**levels > most)


def depth_of(value: Any) -> int:
    """Return how deep a JSON value is nested; a text or number is 0."""
    levels, here = 0, [value]
    while here := [nested for nested in here if isinstance(nested, dict | list) and nested]:
        levels += 1
        here = [part for nested in here for part in (nested.values() if isinstance(nested, dict) else nested)]
    return levels


def places_of(value: Any) -> int:
    """Count a JSON value and all that is in it."""
    count, left = 0, [value]
    while left:
        part = left.pop()
        count += 1
        if isinstance(part, dict):
            left += part.values()
        elif isinstance(part, list):
            left += part
    return count


def effort_of(schema: Any, find: Callable[[str], Any] | None = None) -> Effort:
    """Estimate what a JSON Schema or a JSON Structure document may cost.

    Args:
        schema: the document.
        find: gives others by their `$id`; raises LookupError when there is none. Without it, what it does not know counts double.
    """
    graph = _Graph(schema, find)
    size = len(canonical(schema))
    if graph.is_unknown:
        return Effort(_MOST_LOOKS + 1, 2, size)
    order, group = _groups(graph.edges)
    looks = [1 + comparisons for comparisons in graph.comparisons]
    branches = 2 if graph.has_unread_documents else 1
    for part in order:  # what a part calls comes before it
        outside = Counter[str | None]()
        inside = Counter[str | None]()
        for member, target in graph.edges[part]:
            if group[target] == group[part]:
                inside[member] += 1
            else:
                outside[member] += looks[target]
        looks[part] = min(looks[part] + _overlapping(outside), 10 * _MOST_LOOKS)
        branches = max(branches, _overlapping(inside))
    return Effort(max(looks, default=1), branches, size)


def _overlapping(counts: Counter[str | None]) -> int:
    """Add what is for the same value, and the most that is for one of its members."""
    named = max((count for member, count in counts.items() if member not in (None, _ANY)), default=0)
    return counts[None] + counts[_ANY] + named


class _Graph:
    """The parts of a schema, and which of them each calls.

    Attributes:
        has_unread_documents: a reference leads to another document, and nobody looks for those.
        is_unknown: a part has its own `$id`, below which references mean something else, so nobody knows what the schema costs.
    """

    def __init__(self, schema: Any, find: Callable[[str], Any] | None) -> None:
        self.edges: list[list[Edge]] = []
        self.comparisons: list[int] = []  # of a value with what each part lists
        self.has_unread_documents = self.is_unknown = False
        self._find = find
        self._numbers: dict[int, int] = {}
        self._anchors: dict[int, dict[str, Any]] = {}  # of each document
        left = [(schema, schema)]
        self._number(schema)
        while left:
            part, root = left.pop()
            for member, called, where in self._called(part, root):
                if id(called) not in self._numbers:
                    left.append((called, where))
                self.edges[self._numbers[id(part)]].append((member, self._number(called)))

    def _number(self, part: Any) -> int:
        if id(part) not in self._numbers:
            if len(self.edges) >= _MOST_PARTS:
                raise ValueError(f"the schema has more than {_MOST_PARTS} parts")
            self._numbers[id(part)] = len(self.edges)
            self.edges.append([])
            self.comparisons.append(_comparisons(part))
        return self._numbers[id(part)]

    def _called(self, part: Any, root: Any) -> Iterator[tuple[str | None, dict[str, Any], Any]]:
        """Return the parts that a part calls, for which member, and the document that they are in."""
        if not isinstance(part, dict):
            return
        results = self._called_once(part, root)
        if any(keyword in part for keyword in _TWICE):
            once = list(results)
            results = iter([*once, *(call for call in once if call[0] is None)])
        yield from results

    def _called_once(self, part: dict[str, Any], root: Any) -> Iterator[tuple[str | None, dict[str, Any], Any]]:
        for keyword, value in part.items():
            if keyword in _REFERENCES and isinstance(value, str):
                target, where = self._target(value, root)
                if isinstance(target, dict):
                    yield None, target, where
            else:
                yield from ((member, subschema, root) for member, subschema in _parts_of(keyword, value))

    def _target(self, reference: str, root: Any) -> tuple[Any, Any]:
        """Return what a reference is of, and the document that this is in."""
        if reference in (anchors := self._anchors_of(root)):
            return anchors[reference], root
        uri, _, place = reference.partition("#")
        own = str(root.get("$id") or root.get("id") or "") if isinstance(root, dict) else ""
        if uri and urljoin(own, uri) != own.partition("#")[0]:
            root = self._other(urljoin(own, uri))
        if not place or root is None:
            return root, root
        if not place.startswith("/"):
            return self._anchors_of(root).get(f"#{place}"), root
        results = root
        for token in unquote(place).split("/")[1:]:
            name = token.replace("~1", "/").replace("~0", "~")
            if isinstance(results, list) and name.isdecimal() and int(name) < len(results):
                results = results[int(name)]
            elif isinstance(results, dict) and name in results:
                results = results[name]
            else:
                return None, root
        return results, root

    def _anchors_of(self, root: Any) -> dict[str, Any]:
        if id(root) not in self._anchors:
            self._anchors[id(root)] = dict(_anchors(root))
            self.is_unknown |= any(
                not name.startswith("#") and part is not root for name, part in self._anchors[id(root)].items()
            )
        return self._anchors[id(root)]

    def _other(self, uri: str) -> Any:
        if self._find is None:
            self.has_unread_documents = True
            return None
        try:
            return self._find(uri)
        except LookupError:  # the library reports it
            return None


def _parts_of(keyword: str, value: Any) -> Iterator[tuple[str | None, dict[str, Any]]]:
    """Return the parts that are under a keyword, and the member that each is for."""
    if keyword in _HERE:
        yield from ((None, subschema) for subschema in _dicts(value))
    elif keyword in _NAMED_HERE and isinstance(value, dict):
        yield from ((None, subschema) for subschema in value.values() if isinstance(subschema, dict))
    elif keyword in _NAMED_BELOW and isinstance(value, dict):
        yield from ((f"/{name}", subschema) for name, subschema in value.items() if isinstance(subschema, dict))
    elif keyword == "patternProperties" and isinstance(value, dict):
        yield from ((_ANY, subschema) for subschema in value.values() if isinstance(subschema, dict))
    elif keyword in _LISTS and isinstance(value, list):
        yield from ((f"\0{at}", subschema) for at, subschema in enumerate(value) if isinstance(subschema, dict))
    elif keyword in _REST or keyword in _OF_MEMBERS:
        yield from ((_ANY if keyword in _OF_MEMBERS else "\0", subschema) for subschema in _dicts(value))


def _comparisons(part: Any) -> int:
    """Count in looks what a value is compared with: what `enum` and `const` list, and the names that `required` does."""
    if not isinstance(part, dict):
        return 0
    lists = [part.get("enum"), part.get("required"), [part["const"]] if "const" in part else None]
    listed = [allowed for values in lists if isinstance(values, list) for allowed in values]
    deep = sum(places_of(allowed) for allowed in listed if isinstance(allowed, dict | list))
    return deep + len(listed) // _QUICK


def _dicts(value: Any) -> Iterator[dict[str, Any]]:
    yield from (subschema for subschema in (value if isinstance(value, list) else [value]) if isinstance(subschema, dict))


def _anchors(schema: Any) -> Iterator[tuple[str, Any]]:
    """Return the parts that have their own names."""
    left = [(schema, False)]
    while left:
        part, is_map = left.pop()
        if isinstance(part, dict) and not is_map:
            for keyword in ("$anchor", "$dynamicAnchor"):
                if isinstance(part.get(keyword), str):
                    yield f"#{part[keyword]}", part
            for keyword in ("$id", "id"):
                if isinstance(part.get(keyword), str):
                    yield part[keyword], part
        if isinstance(part, dict):
            left += [(value, not is_map and name in _MAPS) for name, value in part.items() if is_map or name not in _DATA]
        elif isinstance(part, list):
            left += [(member, False) for member in part]


def _groups(edges: list[list[Edge]]) -> tuple[list[int], list[int]]:
    """Find what calls itself (Tarjan's strongly connected components).

    Returns:
        The parts, each behind what it calls and is not in its group; and the group of each.
    """
    order: list[int] = []
    group = [-1] * len(edges)
    seen, low = [-1] * len(edges), [0] * len(edges)
    waiting: list[int] = []
    count = 0
    for start in range(len(edges)):
        if seen[start] >= 0:
            continue
        path = [(start, iter(edges[start]))]
        seen[start] = low[start] = count
        count += 1
        waiting.append(start)
        while path:
            part, calls = path[-1]
            for _, called in calls:
                if seen[called] < 0:
                    seen[called] = low[called] = count
                    count += 1
                    waiting.append(called)
                    path.append((called, iter(edges[called])))
                    break
                if group[called] < 0:
                    low[part] = min(low[part], seen[called])
            else:
                path.pop()
                if path:
                    low[path[-1][0]] = min(low[path[-1][0]], low[part])
                if low[part] == seen[part]:
                    while group[part] < 0:
                        order.append(waiting.pop())
                        group[order[-1]] = part
    return order, group
