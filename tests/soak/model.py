"""The expected catalog, in plain Python: what each document says, what is published of it, and who owns that.

It knows nothing of the product's code. Decision 4 (docs/decisions/2026-11-22-ownership.md) has the same rules; numbers in
comments are those of its sentences.

What rules between entities refuse depends on what will be published, which depends on what they refuse. So the model gets
what they refused, and checks whether that was right: `unfounded` and `missed`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import NamedTuple

from .documents import write
from .terms import NO_DOCUMENTS, Document, Endpoint, Group, Resource, Text

DEFAULT_REGISTRY = "default"
TABLES = {
    "registry": "registries", "group": "groups", "endpoint": "endpoints", "message": "messages", "version": "versions",
    "schema": "schemas", "schemaversion": "schemaversions",
}  # fmt: skip
_VERSION_OF = {"message": "version", "schema": "schemaversion"}


class Key(NamedTuple):
    """Names an entity."""

    registry: str
    kind: str
    xid: str


Definition = tuple[tuple[str, str | None], ...]  # names and values, sorted


def definition(**values: str | None) -> Definition:
    return tuple(sorted(values.items()))


@dataclass(frozen=True)
class Reading:
    """What is accepted of a document by itself, and what is refused (with all that cannot live without it).

    has_errors: under `--strict` it is rejected.
    """

    registry: str
    accepted: dict[Key, Definition] = field(default_factory=dict)
    refused: frozenset[Key] = frozenset()
    has_errors: bool = False
    rejected: bool = False
    skipped: bool = False


def read(document: Document, *, is_named: bool = False) -> Reading:
    """Return what a document says by itself; what is none is passed over in a folder, and rejected where it is named."""
    registry = document.registry or DEFAULT_REGISTRY
    if document.damage in NO_DOCUMENTS:
        return Reading(registry, rejected=is_named, skipped=not is_named)
    if document.damage is not None:
        return Reading(registry, rejected=True)
    entities = _Entities(registry)
    # Groups in two spellings are an error of the root, which holds both.
    entities.add("registry", "/", definition(name=document.name), refused=bool(document.doubled))
    for groupid, group in document.groups.items():
        # A group that occurs twice is refused: nobody can know which is meant.
        entities.add_group("messagegroups", groupid, group, refused=group.bad or groupid in document.doubled)
    for groupid, group in document.doubled.items():
        entities.add_group("messagegroups", groupid, group, refused=group.bad or groupid in document.groups)
    for endpointid, endpoint in document.endpoints.items():
        entities.add_endpoint(endpointid, endpoint)
    for groupid, group in document.schemagroups.items():
        entities.add_group("schemagroups", groupid, group, refused=group.bad)
    return Reading(registry, entities.accepted, frozenset(entities.refused), bool(entities.refused) or entities.has_odd)


class _Entities:
    def __init__(self, registry: str) -> None:
        self.registry = registry
        self.accepted: dict[Key, Definition] = {}
        self.refused: set[Key] = set()
        self.has_odd = False

    def add(self, kind: str, xid: str, said: Definition, *, refused: bool = False) -> None:
        key = Key(self.registry, kind, xid)
        if refused:
            self.refused.add(key)
        else:
            self.accepted[key] = said

    def add_group(self, collection: str, groupid: str, group: Group, *, refused: bool) -> None:
        xid = f"/{collection}/{groupid}"
        self.add("group", xid, definition(name=group.name), refused=refused)
        for name, member in group.members.items():
            kind = "message" if collection == "messagegroups" else "schema"
            self.add_resource(kind, f"{xid}/{kind}s/{name}", member, refused=refused)

    def add_endpoint(self, endpointid: str, endpoint: Endpoint) -> None:
        xid = f"/endpoints/{endpointid}"
        self.add("endpoint", xid, definition(name=endpoint.name, will=_message_xid(endpoint.will)), refused=endpoint.refused)
        for name, member in endpoint.members.items():
            self.add_resource("message", f"{xid}/messages/{name}", member, refused=endpoint.refused)

    def add_resource(self, kind: str, xid: str, resource: Resource, *, refused: bool) -> None:
        default = resource.default_version
        falls = refused or default not in resource.versions or resource.versions[default].refused
        self.add(kind, xid, definition(default=default), refused=falls)
        before: str | None = None
        for versionid in sorted(resource.versions, key=lambda one: (len(one), one)):
            text = resource.versions[versionid]
            is_out = falls or text.refused
            self.has_odd |= text.odd
            said = _definition_of(kind, text, before or versionid)
            self.add(_VERSION_OF[kind], f"{xid}/versions/{versionid}", said, refused=is_out)
            before = before if is_out else versionid


def _definition_of(kind: str, text: Text, ancestor: str) -> Definition:
    name = None if text.odd else text.name
    if kind == "schema":
        return definition(name=name, text=text.name, ancestor=ancestor)
    schema = None if text.schema is None else "/schemagroups/{}/schemas/{}".format(*text.schema.split("/"))
    return definition(name=name, ancestor=ancestor, base=text.base_xid, schema=schema)


def _message_xid(reported: str | None) -> str | None:
    return None if reported is None else "/messagegroups/{}/messages/{}".format(*reported.split("/"))


@dataclass(frozen=True)
class Published:
    """An entity as it is published."""

    said: Definition
    owners: tuple[str, ...]
    epoch: int = 1


class Ingest(NamedTuple):
    """What an ingest finds.

    Attributes:
        documents: those that its SOURCE holds, by path.
        named: those that SOURCE names, and does not only find in a folder or by a glob.
        below: paths that a scan of SOURCE would list; those of them that are no more have vanished.
        refused: entities that rules between entities refused, by path; without those that only fall with them.
        rejected: documents that `--strict` refused whole for that, or for what they say by themselves.
    """

    documents: Mapping[str, Document]
    named: frozenset[str] = frozenset()
    below: frozenset[str] = frozenset()
    prune: bool = False
    force: bool = False
    strict: bool = False
    refused: Mapping[str, frozenset[Key]] = MappingProxyType({})
    rejected: frozenset[str] = frozenset()


class TooMuchPruned(Exception):
    """`--prune` would delete more than half of a registry, and there is no `--force`."""


@dataclass(frozen=True)
class Catalog:
    """What the catalog holds.

    Attributes:
        said: what each known document says, by path; what is refused in it now is what it said before.
        published: the entities.
        deleted: epoch that an entity had when it was deleted last.
        lost: entities of which a document lost a conflict (DOC-001 is reported), by path.
        taken: entities that a document took over (DOC-002 is reported), by path.
        refused: entities that were refused in a document when it was read last, by path.
        texts: each document as it was read last, by path.
    """

    said: Mapping[str, Mapping[Key, Definition]] = field(default_factory=dict)
    published: Mapping[Key, Published] = field(default_factory=dict)
    deleted: Mapping[Key, int] = field(default_factory=dict)
    lost: Mapping[str, frozenset[Key]] = field(default_factory=dict)
    taken: Mapping[str, frozenset[Key]] = field(default_factory=dict)
    refused: Mapping[str, frozenset[Key]] = field(default_factory=dict)
    texts: Mapping[str, bytes] = field(default_factory=dict)

    def isdefault(self, key: Key) -> bool:
        """Return whether a Version is the default one: the published message names it (9)."""
        versionid = key.xid.split("/versions/")[1]
        named = self.published.get(_resource(key))
        return named is not None and dict(named.said)["default"] == versionid

    def after(self, ingest: Ingest) -> Catalog:
        """Return the catalog after an ingest.

        Raises:
            TooMuchPruned: nothing is changed.
        """
        return _Step(self, ingest).run()


class _Step:
    """One ingest."""

    def __init__(self, before: Catalog, ingest: Ingest) -> None:
        self.before = before
        self.ingest = ingest
        self.readings = {path: read(document, is_named=path in ingest.named) for path, document in ingest.documents.items()}
        self.out = {path: with_dependents(self.readings[path], out) for path, out in ingest.refused.items()}
        self.accepted = {path: accepted for path in self.readings if (accepted := self._accepted(path)) is not None}
        gone = {path for path in before.said if path in ingest.below and path not in ingest.documents} if ingest.prune else set()
        self.said: dict[str, Mapping[Key, Definition]] = {path: said for path, said in before.said.items() if path not in gone}
        for path in ingest.documents:
            self.said.setdefault(path, {})
        for path, accepted in self.accepted.items():
            self.said[path] = self._standing(path) | accepted
        self.refused = {path: keys for path, keys in before.refused.items() if path in self.said}
        self.refused |= {path: self._refused(path) for path in self.accepted}
        self.written = {path: write(document, path) for path, document in ingest.documents.items()}
        self.lost: dict[str, set[Key]] = {path: set() for path in self.said}
        self.taken: dict[str, set[Key]] = {path: set() for path in self.said}
        self.published: dict[Key, Published] = {}

    def run(self) -> Catalog:
        for key in sorted({*self.before.published, *(key for said in self.said.values() for key in said)}):
            one = self._registry(key) if key.kind == "registry" else self._entity(key)
            if one is not None:
                self.published[key] = one
        deleted = self._prune() if self.ingest.prune else {}
        for key in {_holder(one) for one in {*deleted} | self.published.keys() - self.before.published.keys()}:
            self._grow(key)
        texts = {path: text for path, text in self.before.texts.items() if path in self.said} | self.written
        return Catalog(
            self.said, self.published, {**self.before.deleted, **deleted},
            {path: frozenset(keys) for path, keys in self.lost.items()},
            {path: frozenset(keys) for path, keys in self.taken.items()}, self.refused, texts,
        )  # fmt: skip

    def _accepted(self, path: str) -> dict[Key, Definition] | None:
        """Return what is accepted of a document now; None of one that is rejected."""
        reading = self.readings[path]
        if reading.rejected or path in self.ingest.rejected or (self.ingest.strict and reading.has_errors):
            return None
        out = self.out.get(path, frozenset())
        return {key: said for key, said in reading.accepted.items() if key not in out}

    def _refused(self, path: str) -> frozenset[Key]:
        return self.readings[path].refused | self.out.get(path, frozenset())

    def _standing(self, path: str) -> dict[Key, Definition]:
        """Return what a document said before of what is refused in it now, and of what is below that (1)."""
        out = self._refused(path)

        def stands(key: Key) -> bool:
            return any(key.registry == one.registry and (key.xid + "/").startswith(one.xid + "/") for one in out)

        return {key: said for key, said in self.before.said.get(path, {}).items() if stands(key)}

    def _news(self, key: Key) -> list[str]:
        """Return the documents that say something new of an entity, sorted (3)."""
        return sorted(
            path for path, accepted in self.accepted.items()
            if key in accepted and accepted[key] != self.before.said.get(path, {}).get(key)
        )  # fmt: skip

    def _sayers(self, key: Key, said: Definition) -> tuple[str, ...]:
        return tuple(sorted(path for path, every in self.said.items() if every.get(key) == said))

    def _still_said(self, key: Key, owners: tuple[str, ...]) -> bool:
        """Return whether an owner so far still holds an entity (3, 6)."""
        return any(key in self.said.get(path, {}) for path in owners)

    def _entity(self, key: Key) -> Published | None:
        old, news = self.before.published.get(key), self._news(key)
        if news:  # 3, 4
            said = self.accepted[news[0]][key]
            owners = self._sayers(key, said)
            if old is not None and said != old.said and self._still_said(key, old.owners) and not set(old.owners) & set(owners):
                self.taken[news[0]].add(key)
        else:
            said, owners = (old.said, self._sayers(key, old.said)) if old is not None else (None, ())
        if not owners:  # 7
            waiting = sorted(path for path, accepted in self.accepted.items() if key in accepted)
            if waiting:
                said = self.accepted[waiting[0]][key]
                owners = self._sayers(key, said)
        if said is None:
            return None
        self._report(key, said, {path for path in news if self.accepted[path][key] != said})
        return self._counted(key, said, owners)

    def _report(self, key: Key, said: Definition, lost: set[str]) -> None:
        """Note what is reported for an entity (5)."""
        for path, every in self.said.items():
            waits = key in every and every[key] != said
            if path in lost or (waits and key in self.before.lost.get(path, ())):
                self.lost[path].add(key)
            if self._is_same(path) and every.get(key) == said and key in self.before.taken.get(path, ()):
                self.taken[path].add(key)

    def _is_same(self, path: str) -> bool:
        """Return whether a document's text did not change; what is left out of it may be said otherwise."""
        return path not in self.written or self.before.texts.get(path) == self.written[path]

    def _counted(self, key: Key, said: Definition, owners: tuple[str, ...]) -> Published:
        old = self.before.published.get(key)
        if old is None:
            return Published(said, owners, self.before.deleted.get(key, 0) + 1)
        return Published(said, owners, old.epoch + (said != old.said))

    def _registry(self, key: Key) -> Published | None:
        """Of a registry's own attributes all documents are owners, and the first supplies them."""
        owners = tuple(sorted(path for path, every in self.said.items() if key in every))
        old = self.before.published.get(key)
        if not owners:
            return None if old is None else replace(old, owners=())
        return self._counted(key, self.said[owners[0]][key], owners)

    def _grow(self, key: Key) -> None:
        """Count the epoch of what holds something that came or went, unless it was counted already."""
        old, one = self.before.published.get(key), self.published.get(key)
        if old is not None and one is not None and one.epoch == old.epoch:
            self.published[key] = replace(one, epoch=one.epoch + 1)

    def _prune(self) -> dict[Key, int]:
        """Delete what is owned by nobody (8), and give the epochs that it had."""
        held = {key for every in (*self.said.values(), *self.refused.values()) for key in every}
        gone = {key for key, one in self.published.items() if not one.owners and key not in held}
        for key in sorted(gone):
            if "/versions/" in key.xid:
                holder, versionid = _resource(key), key.xid.split("/versions/")[1]
                if holder in self.published and holder not in gone and dict(self.published[holder].said)["default"] == versionid:
                    gone.discard(key)
        for registry in sorted({key.registry for key in gone}):
            n = sum(key.registry == registry for key in gone)
            there = sum(key.registry == registry for key in self.before.published)
            if n * 2 > there and not self.ingest.force:
                raise TooMuchPruned(f"{n} of {there} of {registry}")
        return {key: self.published.pop(key).epoch for key in gone}


# Rules between entities


def broken(published: Mapping[Key, Published]) -> dict[Key, str]:
    """Return the entities that break a rule between entities: a cycle of bases; a schema, will message or ancestor that lacks."""
    said = {key: dict(one.said) for key, one in published.items()}
    found: dict[Key, str] = {}
    for key, values in said.items():
        if key.kind == "version" and (schema := values["schema"]) is not None:
            is_kept = Key(key.registry, "group", "/".join(schema.split("/")[:3])) in said
            if is_kept and Key(key.registry, "schema", schema) not in said:
                found[key] = "schema"
        if key.kind == "version" and _ancestor_of(key, values) not in said:
            found[key] = "ancestor"
        if key.kind == "endpoint" and (will := values["will"]) is not None and Key(key.registry, "message", will) not in said:
            found[key] = "will"
    for version in [key for key in said if key.kind == "version"]:
        at, seen = _base_of(said, version), set[Key]()
        while at is not None and at != version and at not in seen:
            seen.add(at)
            at = _base_of(said, at)
        if at == version:
            found[version] = "cycle"
    return found


def _base_of(said: Mapping[Key, dict[str, str | None]], version: Key) -> Key | None:
    """Return the Version that one extends, if it is there: the default one of a message."""
    base = said[version]["base"]
    message = said.get(Key(version.registry, "message", base)) if base is not None else None
    xid = base if message is None else f"{base}/versions/{message['default']}"
    found = None if xid is None else Key(version.registry, "version", xid)
    return found if found in said else None


def _ancestor_of(version: Key, values: Mapping[str, str | None]) -> Key:
    return version._replace(xid=f"{_resource(version).xid}/versions/{values['ancestor']}")


def with_dependents(reading: Reading, refused: Iterable[Key]) -> frozenset[Key]:
    """Return what rules between entities refused in a document, with what cannot live without it."""
    out = set(refused)
    for key in reading.accepted:
        if key.kind in _VERSION_OF:
            default = dict(reading.accepted[key])["default"]
            if Key(key.registry, _VERSION_OF[key.kind], f"{key.xid}/versions/{default}") in out:
                out.add(key)
    below = tuple(key.xid + "/" for key in out)
    return frozenset(out | {key for key in reading.accepted if key.xid.startswith(below)})


def settle(before: Catalog, ingest: Ingest) -> tuple[Catalog, Ingest]:
    """Return the catalog after an ingest, and the ingest with what rules between entities refuse.

    One way to settle what they refuse, for tests of the model itself: again and again, until nothing that is written new
    breaks one.
    """
    readings = {path: read(document) for path, document in ingest.documents.items()}
    while True:
        after = before.after(ingest._replace(force=True))
        wrong = missed(before, after)
        if not wrong:
            return before.after(ingest), ingest
        refused = dict(ingest.refused)
        for key in wrong:
            # A Version that was there and is the default now: the message that names it is refused.
            for one in (key, _resource(key)):
                said = after.published[one].said
                blamed = [
                    path for path, of in readings.items() if of.accepted.get(one) == said and _is_new(before, of.accepted, one)
                ]
                refused |= {path: refused.get(path, frozenset()) | {one} for path in blamed}
                if blamed:
                    break
        if refused == dict(ingest.refused):
            raise AssertionError(f"nobody says what is wrong: {sorted(wrong)}")
        rejected = {path for path in refused if ingest.strict} | ingest.rejected
        ingest = ingest._replace(refused=refused, rejected=frozenset(rejected))


def missed(before: Catalog, after: Catalog) -> set[Key]:
    """Return what was written new and breaks a rule between entities: it was to be refused."""
    was = broken(before.published)
    earlier = {key: one.said for key, one in before.published.items()}
    written = {key for key, one in after.published.items() if earlier.get(key) != one.said}
    return {
        key
        for key, why in broken(after.published).items()
        if key in written or (why == "cycle" and _resource(key) in written and key not in was)
    }


def unfounded(before: Catalog, ingest: Ingest, after: Catalog) -> dict[str, set[Key]]:
    """Return what was refused by rules between entities without a reason: it is published as it is, or breaks none.

    In doubt there is a reason: what all documents say is taken together, and what is not there before or after is missing.
    """
    readings = {path: read(document) for path, document in ingest.documents.items()}
    bare = before.after(ingest._replace(refused={}, rejected=frozenset(), force=True))  # were nothing refused for that
    fallen = {key for path, out in ingest.refused.items() for key in with_dependents(readings[path], out)}
    there = set(before.published) & set(after.published) & set(bare.published) - fallen
    links: dict[str, set[str]] = {}  # of a Version to its base, of a message to all its Versions
    said = [
        *(reading.accepted for reading in readings.values()),
        *({k: one.said for k, one in c.published.items()} for c in (before, after, bare)),
    ]
    for key, values in ((key, dict(one)) for part in said for key, one in part.items()):
        if key.kind == "version":
            links.setdefault(_resource(key).xid, set()).add(key.xid)
            links.setdefault(key.xid, set()).update({values["base"]} - {None})
    found: dict[str, set[Key]] = {}
    for path, refused in ingest.refused.items():
        own = readings[path].accepted
        for key in refused:
            values = dict(own.get(key, ()))
            needed = {"schema": values.get("schema"), "message": values.get("will")}
            has_reason = any(xid is not None and Key(key.registry, kind, xid) not in there for kind, xid in needed.items())
            has_reason |= key.kind == "version" and bool(values) and _ancestor_of(key, values) not in there | {key}
            has_reason |= any(_is_on_cycle(links, one) for one in links.get(_resource(key).xid, ()))
            if not has_reason or not _is_new(before, own, key):
                found.setdefault(path, set()).add(key)
    return found


def _is_new(before: Catalog, own: Mapping[Key, Definition], key: Key) -> bool:
    """Return whether something new would be written of an entity, or of the message whose default Version it may become."""
    earlier = {one: before.published[one].said for one in (key, _resource(key)) if one in before.published}
    return any(own.get(one) not in (None, earlier.get(one)) for one in (key, _resource(key)))


def _holder(key: Key) -> Key:
    """Return what holds an entity; of a registry nothing that is published."""
    kinds = {2: "registry", 4: "group", 6: "message" if key.kind == "version" else "schema"}
    tokens = key.xid.strip("/").split("/")
    kind = "endpoint" if len(tokens) == 4 and tokens[0] == "endpoints" else kinds.get(len(tokens), "")
    return Key(key.registry, kind, "/" + "/".join(tokens[:-2]))


def _resource(key: Key) -> Key:
    """Return the message or schema of a Version; what is none stays."""
    kinds = {version: kind for kind, version in _VERSION_OF.items()}
    return Key(key.registry, kinds.get(key.kind, key.kind), key.xid.split("/versions/")[0])


def _is_on_cycle(links: Mapping[str, set[str]], xid: str) -> bool:
    seen: set[str] = set()
    left = {*links.get(xid, ())}
    while left:
        seen |= left
        left = {further for one in left for further in links.get(one, ())} - seen
    return xid in seen
