"""What happens to documents between two ingests, drawn at random: they come, change, break, are fixed, split, renamed and go.

All of it works on the model's terms; the few ids and texts make documents agree and disagree often.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

from .documents import DAMAGES, DIALECTS, SUFFIXES
from .off import OFF
from .terms import NO_DOCUMENTS, PLAIN, Document, Endpoint, Group, Resource, Text

Documents = dict[str, Document]
Operation = Callable[[Random, Documents], bool]
STEMS = ("a", "b", "c", "sub/d")
REGISTRIES = (None, None, None, "r")
TEXTS = ("X1", "X2", "X3")
# An id is in one group only: by the oldest dialect a CloudEvents `type` is one message's.
MESSAGES = {"g": ("m", "n"), "h": ("p", "q")}
BASES = ("g/m", "g/n", "h/p", "h/q")
PINNED = ("g/m/1", "g/n/2", "h/p/1")
MAX_DOCUMENTS = 4
NEEDLE = "PLANTED"  # a part of each credential


def first_documents(random: Random) -> Documents:
    """Draw what a catalog begins with."""
    documents: Documents = {}
    for _ in range(random.randint(1, 3)):
        add_document(random, documents)
    return documents


def edit(random: Random, documents: Documents) -> None:
    """Change documents in one to three places."""
    number = random.choice((1, 1, 2, 3))
    edit_by(random, documents, random.choices(list(OPERATIONS), weights=list(OPERATIONS.values()), k=number))


def edit_by(random: Random, documents: Documents, operations: list[Operation]) -> None:
    """Change documents by these operations."""
    for operation in operations:
        operation(random, documents)
    for path, document in documents.items():
        # By the oldest dialect a published Version never changes (CAT-038), unless its message is plain: left out here.
        if not all(member.plain for group in document.groups.values() for member in group.members.values()):
            is_oldest = document.dialect == "cereg"
            documents[path] = replace(document, dialect="1.0-rc2" if is_oldest else document.dialect, doubled={})


def add_document(random: Random, documents: Documents) -> bool:
    if len(documents) >= MAX_DOCUMENTS:
        return False
    path = _free_path(random, documents)
    if path is None:
        return False
    if documents and random.random() < 0.4:  # one that says what another says
        documents[path] = replace(documents[_one(random, documents)], registry=random.choice(REGISTRIES))
        return True
    made = Document(random.choice(REGISTRIES), random.choice((None, None, "R1", "R2")), dialect=random.choice(DIALECTS))
    groups = {key: _group(random, key, made.dialect) for key in MESSAGES if random.random() < 0.7}
    schemagroups = {"s": Group("S", {"t": _schema(random)})} if random.random() < 0.4 else {}
    endpoints = {"e": Endpoint("E1", random.choice((None, *BASES)))} if random.random() < 0.3 else {}
    documents[path] = replace(made, groups=groups, schemagroups=schemagroups, endpoints=endpoints)
    return True


def drop_document(random: Random, documents: Documents) -> bool:
    return bool(documents) and documents.pop(_one(random, documents)) is not None


def rename(random: Random, documents: Documents) -> bool:
    """Return a document another name, format and packing."""
    path = _free_path(random, documents)
    if not documents or path is None:
        return False
    documents[path] = documents.pop(_one(random, documents))
    return True


def split(random: Random, documents: Documents) -> bool:
    """Move a group of a document into a new one."""
    path = _free_path(random, documents)
    whole = [one for one, document in documents.items() if len(document.groups) + len(document.schemagroups) > 1]
    if not whole or path is None:
        return False
    source = random.choice(whole)
    document = documents[source]
    name = random.choice(
        [*(f"groups {key}" for key in document.groups), *(f"schemagroups {key}" for key in document.schemagroups)]
    )
    collection, key = name.split()
    held = getattr(document, collection)
    documents[path] = Document(document.registry, document.name, dialect=document.dialect, **{collection: {key: held[key]}})
    documents[source] = replace(document, **{collection: {other: one for other, one in held.items() if other != key}})
    return True


def change_registry(random: Random, documents: Documents) -> bool:
    return _change(random, documents, lambda document: replace(document, registry="r" if document.registry is None else None))


def change_root(random: Random, documents: Documents) -> bool:
    return _change(random, documents, lambda document: replace(document, name=random.choice((None, "R1", "R2"))))


def change_dialect(random: Random, documents: Documents) -> bool:
    return _change(random, documents, lambda document: replace(document, dialect=random.choice(DIALECTS)))


def damage(random: Random, documents: Documents) -> bool:
    secret = _secret(random) if random.random() < 0.5 else None
    damages = [one for one in DAMAGES if one not in OFF]
    return _change(random, documents, lambda document: replace(document, damage=random.choice(damages), secret=secret))


def become_other(random: Random, documents: Documents) -> bool:
    return _change(random, documents, lambda document: replace(document, damage=random.choice(list(NO_DOCUMENTS))))


def repair(random: Random, documents: Documents) -> bool:
    """Take away all that is wrong in a document."""
    wrong = [path for path, document in documents.items() if _mended(document) != document]
    if not wrong:
        return False
    path = random.choice(wrong)
    documents[path] = _mended(documents[path])
    return True


def edit_message(random: Random, documents: Documents) -> bool:
    """Change one definition: its text, its base, its schema."""

    def changed(resource: Resource) -> Resource:
        versionid = random.choice(list(resource.versions))
        text = resource.versions[versionid]
        how = random.random()
        if how < 0.55:
            text = replace(text, name=random.choice(TEXTS))
        elif how < 0.65:
            text = replace(text, odd=not text.odd)
        elif how < 0.85:
            text = replace(text, base=random.choice((None, *BASES, *PINNED)))
        else:
            text = replace(text, schema=None if text.schema else "s/t")
        return replace(resource, versions=resource.versions | {versionid: text})

    return _change_message(random, documents, changed)


def break_message(random: Random, documents: Documents) -> bool:
    secret = _secret(random) if random.random() < 0.4 else None

    def changed(resource: Resource) -> Resource:
        versionid = random.choice(list(resource.versions))
        text = replace(resource.versions[versionid], bad=secret is None, secret=secret)
        return replace(resource, versions=resource.versions | {versionid: text})

    return _change_message(random, documents, changed)


def change_versions(random: Random, documents: Documents) -> bool:
    """Return a message another Version, take one away, or name another default."""

    def changed(resource: Resource) -> Resource:
        versions = dict(resource.versions)
        how = random.random()
        if how < 0.5 or len(versions) == 1:
            versions[random.choice(("1", "2", "3"))] = _text(random)
        elif how < 0.75:
            versions.pop(random.choice(list(versions)))
        default = random.choice((None, *versions))
        is_plain = list(versions) == [PLAIN] and random.random() < 0.5
        return Resource(versions, None if is_plain else default, is_plain)

    return _change_message(random, documents, changed)


def change_messages(random: Random, documents: Documents) -> bool:
    """Add a message, or drop one."""

    def changed(document: Document) -> Document:
        key = random.choice(list(MESSAGES))
        group = document.groups.get(key, Group("G", {}))
        name = random.choice(MESSAGES[key])
        members = {other: one for other, one in group.members.items() if other != name}
        if name not in group.members:
            members[name] = _plain(random)
        return replace(document, groups=document.groups | {key: replace(group, members=members)})

    return _change(random, documents, changed)


def change_groups(random: Random, documents: Documents) -> bool:
    """Add a group, drop it, rename it, break it, or write it in both spellings."""

    def changed(document: Document) -> Document:
        key = random.choice(list(MESSAGES))
        if key not in document.groups:
            return replace(document, groups=document.groups | {key: _group(random, key, document.dialect)})
        how = random.random()
        if how < 0.4:
            return replace(document, groups={other: one for other, one in document.groups.items() if other != key})
        if how < 0.6:
            return replace(document, groups=document.groups | {key: replace(document.groups[key], name=random.choice("GH"))})
        if how < 0.8:
            return replace(document, groups=document.groups | {key: replace(document.groups[key], bad=True)})
        return document if "doubled" in OFF else replace(document, doubled={key: _group(random, key, "cereg")})

    return _change(random, documents, changed)


def change_schemas(random: Random, documents: Documents) -> bool:
    """Let a schema, or its group, come, change or go."""

    def changed(document: Document) -> Document:
        how = random.random()
        if not document.schemagroups or how < 0.4:
            return replace(document, schemagroups={"s": Group("S", {"t": _schema(random)})})
        return replace(document, schemagroups={"s": Group("S", {"u": _schema(random)})} if how < 0.8 else {})

    return _change(random, documents, changed)


def change_endpoints(random: Random, documents: Documents) -> bool:
    """Let an endpoint come, change, break or go."""

    def changed(document: Document) -> Document:
        if document.endpoints and random.random() < 0.3:
            return replace(document, endpoints={})
        how = random.random()
        members = {"k": _plain(random)} if random.random() < 0.4 else {}
        made = Endpoint(random.choice(("E1", "E2")), random.choice((None, *BASES)), members)
        if how < 0.2:
            made = replace(made, bad=True)
        elif how < 0.4:
            made = replace(made, secret=_secret(random))
        return replace(document, endpoints={"e": made})

    return _change(random, documents, changed)


OPERATIONS: dict[Operation, int] = {
    edit_message: 8, change_messages: 5, change_versions: 5, add_document: 5, repair: 6, break_message: 3, damage: 3,
    drop_document: 3, rename: 4, split: 3, change_registry: 2, change_root: 1, change_dialect: 3, become_other: 1,
    change_groups: 4, change_schemas: 4, change_endpoints: 3,
}  # fmt: skip


def _change(random: Random, documents: Documents, how: Callable[[Document], Document]) -> bool:
    if not documents:
        return False
    path = _one(random, documents)
    before = documents[path]
    documents[path] = how(before)
    return documents[path] != before


def _change_message(random: Random, documents: Documents, how: Callable[[Resource], Resource]) -> bool:
    places = [
        (path, key, name)
        for path, document in documents.items()
        for key, group in document.groups.items()
        for name in group.members
    ]
    if not places:
        return False
    path, key, name = random.choice(places)
    group = documents[path].groups[key]
    changed = replace(group, members=group.members | {name: how(group.members[name])})
    documents[path] = replace(documents[path], groups=documents[path].groups | {key: changed})
    return changed != group


def _mended(document: Document) -> Document:
    def whole(resource: Resource) -> Resource:
        return replace(resource, versions={key: replace(text, bad=False, secret=None) for key, text in resource.versions.items()})

    groups = {
        key: replace(group, bad=False, members={name: whole(one) for name, one in group.members.items()})
        for key, group in document.groups.items()
    }
    endpoints = {key: replace(one, bad=False, secret=None) for key, one in document.endpoints.items()}
    return replace(document, groups=groups, endpoints=endpoints, doubled={}, damage=None, secret=None)


def _group(random: Random, key: str, dialect: str) -> Group:
    members = {name: _plain(random) for name in MESSAGES[key] if random.random() < 0.7}
    if members and dialect != "cereg" and random.random() < 0.3:
        name = random.choice(list(members))
        members[name] = Resource({"1": _text(random), "2": _text(random)}, random.choice((None, "1", "2")))
    return Group(random.choice(("G", "G", "H")), members)


def _plain(random: Random) -> Resource:
    return Resource({PLAIN: _text(random)}, plain=True)


def _schema(random: Random) -> Resource:
    return Resource({PLAIN: Text(_text(random).name)}, plain=True)  # it has neither base nor schema


def _text(random: Random) -> Text:
    base = random.choice((*BASES, *PINNED)) if random.random() < 0.3 else None
    return Text(random.choice(TEXTS), base, "s/t" if random.random() < 0.2 else None)


def _secret(random: Random) -> str:
    return f"{NEEDLE}{random.randrange(10**6):06}"


def _free_path(random: Random, documents: Documents) -> str | None:
    free = [path for stem in STEMS for suffix in SUFFIXES if (path := stem + suffix) not in documents]
    return random.choice(free) if free else None


def _one(random: Random, documents: Documents) -> str:
    return random.choice(sorted(documents))
