"""`$ref`: followed inside a document and into files next to it, never over the network and never out of the SOURCE.

A JSON Schema is made self-contained, and put back: what its `$ref`s refer to outside of it becomes its `definitions`.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple
from urllib.parse import unquote

from lakehouse.asyncapi.headerschemas import HINT
from lakehouse.compatibility.jsonshapes import DATA, NAMED
from lakehouse.text.jsontext import below, escaped, pointer_of, text_at
from lakehouse.text.names import ROOT, Pointer
from lakehouse.text.problems import Problem
from lakehouse.text.values import is_whole

DANGLING = "AAPI-001"
SHAPE = "AAPI-002"
_MOST_STEPS = 50  # of one `$ref` to the next: more are a circle
_MOST_COPIED = 1_000_000  # values of a document that are copied to where `$ref`s are
_DEEPEST = 200
_MOST_MERGED = 3  # levels of what is merged at which `$ref`s are followed: up to the properties of `headers`
_MOST_FOUND = 10  # problems of a text that are reported of one `$ref`
_NOWHERE = object()
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:")


class OpenedFile(NamedTuple):
    """The value of a file (the text, if it is neither JSON nor YAML), and what was found in its text."""

    value: Any
    problems: Sequence[Problem] = ()


OpenFile = Callable[[str], OpenedFile]


class NoSuchFile(Exception):
    """A file that a `$ref` leads to cannot be read; the message says why."""


class Overgrown(Exception):
    """A document grows beyond all limits by what its `$ref`s refer to; the message says how."""


class Spot(NamedTuple):
    """A value of a document.

    Attributes:
        value: as written.
        at: its pointer in the document; of a value in another file that of the `$ref` which leads there.
        file: path of the file that holds it, relative to the document; empty: the document itself.
        inside: its pointer in that file.
    """

    value: Any
    at: Pointer = ROOT
    file: str = ""
    inside: Pointer = ROOT

    @property
    def place(self) -> tuple[str, Pointer]:
        """Return what distinguishes this value from every other."""
        return self.file, self.inside


def no_file(path: str) -> OpenedFile:
    """Refuse every file: the document has none next to it.

    Raises:
        NoSuchFile: always.
    """
    raise NoSuchFile("it is in another file, and there are none next to this document")


class Following:
    """Follows the `$ref`s of a document.

    Args:
        document: its value.
        open_file: reads a file by its path relative to the document; raises `NoSuchFile`.
        uri: of the document, to which references in other files may lead back; empty: it has none.
    """

    def __init__(self, document: Any, open_file: OpenFile = no_file, uri: str = "") -> None:
        self._uri = uri
        self._files = {"": document}
        self._not_read: dict[str, str] = {}  # files that cannot be read, and why
        self._open_file = open_file
        self.root = Spot(document)
        self._found: dict[tuple[str, Pointer], list[Problem]] = {}  # in texts of files, by what they are in
        self._reported: dict[Problem, None] = {}
        self._copied = 0

    @property
    def problems(self) -> list[Problem]:
        """Return what could not be followed, or is of the wrong type; and what was found in texts of other files."""
        return list(self._reported)

    @property
    def files(self) -> list[str]:
        """Return the paths of the other files that it refers to, sorted; of those that cannot be read, too."""
        return sorted(path for path in (*self._files, *self._not_read) if path)

    def follow(self, spot: Spot) -> Spot | None:
        """Return what a value refers to, if it is a `$ref`; None, with a finding, if that leads nowhere."""
        start, steps = spot, 0
        while isinstance(spot.value, dict) and isinstance(spot.value.get("$ref"), str):
            steps += 1
            target = self._target(spot, spot.value["$ref"]) if steps <= _MOST_STEPS else "it leads in a circle"
            if isinstance(target, str):
                self._report_nowhere(start, spot.value["$ref"], target)
                return None
            spot = target
        return spot

    def member(self, spot: Spot | None, *names: str) -> Spot | None:
        """Return a member, followed; None: there is none."""
        for name in names:
            if spot is None or not isinstance(spot.value, dict) or spot.value.get(name) is None:
                return None
            spot = self.follow(self.child(spot, name))
        return spot

    def members(self, spot: Spot | None, *names: str) -> Iterator[tuple[str, Spot]]:
        """Return the members of a map, each followed and an object; what is of another type is reported and left out."""
        map_spot = self.member(spot, *names)
        if map_spot is None:
            return
        if not isinstance(map_spot.value, dict):
            self.wrong(map_spot, names[-1] if names else "it", "an object")
            return
        for name in map_spot.value:
            member = self.follow(self.child(map_spot, name))
            if member is not None and isinstance(member.value, dict):
                yield name, member
            elif member is not None:
                self.wrong(member, name, "an object")

    def items(self, spot: Spot | None, name: str) -> Iterator[Spot]:
        """Return the items of an array, each followed."""
        array_spot = self.member(spot, name)
        if array_spot is None:
            return
        if not isinstance(array_spot.value, list):
            self.wrong(array_spot, name, "an array")
            return
        for index in range(len(array_spot.value)):
            item = self.follow(self.child(array_spot, str(index)))
            if item is not None:
                yield item

    def child(self, spot: Spot, name: str) -> Spot:
        """Return a member of an object, or an item of an array, as it is written."""
        value = spot.value[int(name)] if isinstance(spot.value, list) else spot.value[name]
        at = below(spot.at, name) if not spot.file else spot.at
        return Spot(value, at, spot.file, below(spot.inside, name))

    def plain(self, spot: Spot) -> Any:
        """Return a value with every `$ref` in it replaced by what it refers to; one that leads in a circle is left out.

        Raises:
            Overgrown: that would be too much.
        """
        value = self._plain(spot, frozenset(), is_copy=False)
        return None if value is _NOWHERE else value

    def _plain(self, spot: Spot, above: frozenset[tuple[str, Pointer]], *, is_copy: bool) -> Any:
        result = self.follow(spot)
        if result is None:
            return _NOWHERE
        if result.place in above:
            self._report_nowhere(spot, text_at(spot.value, "$ref") or f"#{spot.inside}", "it leads in a circle")
            return _NOWHERE
        is_copy = is_copy or result is not spot
        self._copied += is_copy
        if self._copied > _MOST_COPIED:
            raise Overgrown(f"`$ref`s lead to more than {_MOST_COPIED} values, each counted as often as one leads to it")
        if not isinstance(result.value, dict | list):
            return result.value
        if len(above) >= _DEEPEST:
            raise Overgrown(f"with what its `$ref`s refer to it is nested deeper than {_DEEPEST} levels")
        above |= {result.place}
        names = result.value if isinstance(result.value, dict) else map(str, range(len(result.value)))
        members = {name: self._plain(self.child(result, name), above, is_copy=is_copy) for name in names}
        members = {name: member for name, member in members.items() if member is not _NOWHERE}
        return members if isinstance(result.value, dict) else list(members.values())

    def _report_nowhere(self, spot: Spot, reference: str, why: str) -> None:
        message = f"`$ref` {reference!r} leads nowhere: {why}; it is left out"
        self.report(_at_reference(spot), DANGLING, message, "Correct the reference.")

    def wrong(self, spot: Spot, name: str, wanted: str) -> None:
        """Report a value of the wrong type, which is left out."""
        self.report(spot.at, SHAPE, f"`{name}` is not {wanted}; it is left out", f"Write {wanted}.")

    def report(self, at: Pointer, rule: str, message: str, hint: str, severity: str = "warning") -> None:
        """Report something once."""
        self._reported.setdefault(Problem(at, rule, severity, message, hint))

    def target(self, spot: Spot, reference: str) -> Spot | None:
        """Return what a reference in a file leads to, without a finding if that is nowhere."""
        result = self._target(spot, reference)
        return None if isinstance(result, str) else result

    def _target(self, spot: Spot, reference: str) -> Spot | str:
        """Return what a reference leads to, or why that is nowhere."""
        path, _, fragment = reference.partition("#")
        if _SCHEME.match(path) or path.startswith("/"):
            return "only the document and files next to it are read"
        if fragment and not fragment.startswith("/"):
            return "it names an anchor, and no pointer"
        file = self.file_of(spot, path)
        if file not in self._files and file not in self._not_read:
            try:
                self._open(file)
            except NoSuchFile as error:
                self._not_read[file] = str(error)
        if file in self._not_read:
            return self._not_read[file]
        value, tokens = self._files[file], [_unescaped(token) for token in fragment.split("/")[1:]]
        for token in tokens:
            if isinstance(value, dict) and token in value:
                value = value[token]
            elif isinstance(value, list) and is_whole(token) and int(token) < len(value):
                value = value[int(token)]
            else:
                return f"there is no `{token}`"
        inside = pointer_of(*tokens)
        for problem in self._found.get((file, inside), ()):
            self._reported.setdefault(problem._replace(pointer=_at_reference(spot)))
        return Spot(value, inside if not file else spot.at, file, inside)

    def file_of(self, spot: Spot, path: str) -> str:
        """Return the file to which the path of a reference leads, as `Spot` names it."""
        file = posixpath.normpath(posixpath.join(posixpath.dirname(spot.file), unquote(path))) if path else spot.file
        own = posixpath.normpath(posixpath.join(posixpath.dirname(self._uri), file))
        return "" if self._uri and own == posixpath.normpath(self._uri) else file

    def _open(self, file: str) -> None:
        self._files[file], problems = self._open_file(file)
        for problem in problems:
            tokens = problem.pointer.split("/")
            for length in range(1, len(tokens) + 1):
                above = self._found.setdefault((file, Pointer("/".join(tokens[:length]))), [])
                above += [problem._replace(message=f"in {file}: {problem.message}")] if len(above) < _MOST_FOUND else []


def _at_reference(spot: Spot) -> Pointer:
    """Return the pointer of a `$ref`; in another file that of the one which leads there."""
    return spot.at if spot.file else below(spot.at, "$ref")


def _unescaped(token: str) -> str:
    return unquote(token).replace("~1", "/").replace("~0", "~")


def for_merging(following: Following, objects: list[Spot], file: str, levels: int = _MOST_MERGED) -> list[Any]:
    """Return objects as a file may hold them, with each `$ref` followed in members of the same name: these merge, too.

    An object of another file has in it all that it refers to, since references there are relative to that file.
    """
    if any((spot.file, spot.value) != (objects[0].file, objects[0].value) for spot in objects):
        objects = [following.follow(spot) or spot._replace(value={}) for spot in objects]
    values = [spot.value if spot.file == file else following.plain(spot) for spot in objects]
    if levels == 0 or not all(isinstance(value, dict) for value in values):
        return values
    members: dict[str, list[int]] = {}
    for index, spot in enumerate(objects):
        for name, value in spot.value.items():
            members.setdefault(name, []).extend([index] if isinstance(value, dict) else [])
    results = [dict(value) for value in values]
    for name, indices in members.items():
        if len(indices) > 1:
            merging = for_merging(following, [following.child(objects[index], name) for index in indices], file, levels - 1)
            for index, value in zip(indices, merging, strict=True):
                results[index][name] = value
    return results


def apply_merge_patch(value: Any, patch: Any) -> Any:
    """Apply a JSON Merge Patch (RFC 7386); neither value is changed."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(value) if isinstance(value, dict) else {}
    for name, member in patch.items():
        if member is None:
            merged.pop(name, None)
        else:
            merged[name] = apply_merge_patch(merged.get(name), member)
    return merged


def completed(value: Any, other: Any) -> Any:
    """Add to a value what it does not say itself, all the way down; neither value is changed."""
    if not isinstance(value, dict) or not isinstance(other, dict):
        return value
    return {name: completed(value.get(name, other.get(name)), other.get(name)) for name in other | value}


_DATA = DATA | {"example"}  # of AsyncAPI, too


class Bundle:
    """A schema with all that it refers to.

    Args:
        following: the document.
        root: the schema, followed.
        id_word: the keyword of its draft for an identifier.

    Attributes:
        schema: the schema, whose references lead to itself or to its `definitions`. A part with references loses its
            identifier, from which they would lead; anchors (`#name`) stay.
    """

    def __init__(self, following: Following, root: Spot, id_word: str = "$id") -> None:
        self._following = following
        self._root = root
        self._id_word = id_word
        self._led = 0  # references that were followed
        self._names: dict[tuple[str, Pointer], str] = {}
        own = root.value.get("definitions") if isinstance(root.value, dict) else None
        self._taken = set(own) if isinstance(own, dict) else set()
        self._found: list[tuple[str, Spot]] = []  # what it refers to, by name: grows while that is copied
        self.schema = self._copied(root)
        added = {name: self._copied(spot) for name, spot in self._found}
        if added and isinstance(self.schema, dict):
            self.schema["definitions"] = self.schema.get("definitions", {}) | added

    @property
    def places(self) -> set[tuple[str, Pointer]]:
        """Return where what it refers to is written."""
        return set(self._names)

    def _copied(self, spot: Spot, *, is_named: bool = False) -> Any:
        value = spot.value
        if isinstance(value, list):
            return [self._copied(self._following.child(spot, str(index))) for index in range(len(value))]
        if not isinstance(value, dict):
            return value
        if isinstance(value.get("$ref"), str):
            reference = self._reference(spot, value["$ref"])
            return {"$ref": reference} | {name: member for name, member in value.items() if name != "$ref"}
        before = self._led
        members = {
            name: member
            if name in _DATA and not is_named
            else self._copied(self._following.child(spot, name), is_named=name in NAMED and not is_named)
            for name, member in value.items()
            if name != HINT or spot.inside != self._root.inside
        }
        identifier = None if is_named or spot.place == self._root.place else text_at(members, self._id_word)
        if identifier is not None and not identifier.startswith("#") and self._led > before:
            del members[self._id_word]
        return members

    def _reference(self, spot: Spot, reference: str) -> str:
        if reference.startswith("#") and reference[1:2] not in ("", "/"):
            return reference  # an anchor in a schema
        target = self._following.follow(spot)
        if target is None:
            return reference
        root = self._root
        self._led += 1
        if target.file == root.file and (target.inside + "/").startswith(root.inside + "/"):
            return "#" + target.inside[len(root.inside) :]
        if target.place not in self._names:
            wanted = target.inside.rpartition("/")[2] or "schema"
            if wanted == "payload" or wanted.isdecimal():
                wanted = "-".join(target.inside.split("/")[-2:])
            name, nth = wanted, 1
            while name in self._taken:
                nth += 1
                name = f"{wanted}-{nth}"
            self._taken.add(name)
            self._names[target.place] = name
            self._found.append((name, target))
        return f"#/definitions/{escaped(self._names[target.place])}"


def with_placed_references(schema: Any, pointer: Pointer, *, is_named: bool = False) -> Any:
    """Make the references of a schema without others lead to its place in a document: AsyncAPI does not heed `$id`.

    Args:
        schema: the schema.
        pointer: of the place.
        is_named: the schema is a map of schemas by their names.
    """
    if isinstance(schema, list):
        return [with_placed_references(item, pointer) for item in schema]
    if not isinstance(schema, dict):
        return schema
    moved = {
        name: member
        if name in _DATA and not is_named
        else with_placed_references(member, pointer, is_named=name in NAMED and not is_named)
        for name, member in schema.items()
    }
    reference = schema.get("$ref")
    if isinstance(reference, str) and (reference == "#" or reference.startswith("#/")):
        moved["$ref"] = f"#{pointer}{reference[1:]}"
    return moved
