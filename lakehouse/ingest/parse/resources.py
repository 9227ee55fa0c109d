"""Messages and schemas of a group, each with its Versions (decision 7)."""

from __future__ import annotations

from typing import Any, NamedTuple

from lakehouse.dialects.entityreader import NormalEntity, read_entity
from lakehouse.dialects.messagefamilies import FAMILY_MEMBERS, FindMessage, family_of_message, key_of_options
from lakehouse.dialects.versionorder import version_order
from lakehouse.domain.promises import PROMISES, earlier_versions
from lakehouse.domain.relations import of_promise
from lakehouse.domain.versionchanges import ComparedVersion, compared_version
from lakehouse.domain.versions import choose_default
from lakehouse.ingest.parse.emission import Emission, dependent, has_error, id_problems, id_syntax, split_meta, subject_of
from lakehouse.ingest.parse.readings import take_life
from lakehouse.rules.declared import RULES
from lakehouse.rules.entity.constraints import Subject
from lakehouse.store.keys import LIFE, VERSION_KIND
from lakehouse.text.jsontext import below, canonical, same
from lakehouse.text.names import Pointer, Xid
from lakehouse.text.problems import Problem
from lakehouse.text.xid import xid_of_version


class Resource(NamedTuple):
    """A message or schema as it is written: its entity, its key, its XID, its JSON Pointer, its text, its group."""

    entity: str
    name: str
    xid: Xid
    here: Pointer
    written: dict[str, Any]
    group: NormalEntity


class Resources:
    """Reads messages and schemas.

    Args:
        emission: takes what becomes of them.
        find_message: gives the members of a message that determine its protocol, by XID.
    """

    def __init__(self, emission: Emission, find_message: FindMessage) -> None:
        self.emission = emission
        self.dialect = emission.dialect
        self.find_message = find_message

    def read(self, resource: Resource, seen: dict[str, str]) -> None:
        """Read a message or schema with its Versions.

        Args:
            resource: the message or schema.
            seen: ids of its neighbours so far, in lower case and as written.
        """
        entity, name, _, here, written, group = resource
        emission = self.emission
        problems: list[Problem] = []
        family = self._family(written, here, group, problems) if entity == "message" else None
        read = read_entity(entity, written, here, family, self.dialect)
        problems += id_problems(name, read, f"{entity}id", "MSG-037", here, seen)
        meta = split_meta(read.attributes.pop("meta", None), entity)
        if meta.attributes or meta.extensions:
            subject = Subject("meta", meta.attributes, dialect=self.dialect, extensions=meta.extensions)
            inner = written.get("meta")
            problems += emission.broken(
                subject, read, (here, written), (below(here, "meta"), inner if isinstance(inner, dict) else {})
            )
        key, members = read.children.get("versions", ("versions", None))
        if members is not None and not isinstance(members, dict):
            message = "`versions` is not a map"
            problems.append(Problem(below(here, key), "MSG-069", "error", message, "Write a map keyed by versionid."))
            members = None
        if "xref" in meta.attributes:
            self._read_alias(resource, read, meta, problems)
        elif members:
            self._read_versioned(resource, read, meta, (key, members), family, problems)
        else:
            declared = read.attributes.get("versionid", meta.attributes.get("defaultversionid", "1"))
            results = [*id_syntax(declared, "MSG-038", here), *emission.text_errors(here)]
            results += emission.broken(subject_of(entity, read, name, group, family, self.dialect), read, (here, written))
            self._emit_single(resource, meta, Version(declared, here, written, read, results), problems)

    def _read_alias(self, resource: Resource, read: NormalEntity, meta: NormalEntity, problems: list[Problem]) -> None:
        """An entity with `xref` stands for another one and has no Versions (decision 20)."""
        own = sorted(set(read.attributes) - {"versionid", *LIFE}) + sorted(read.extensions)
        if own or read.children:
            message = f"`xref` is set, so its own {', '.join(own or ['versions'])} is ignored"
            problems.append(Problem(resource.here, "MSG-096", "warning", message, "Leave out `xref`, or the attributes."))
        meta.problems, meta.spellings = read.problems, read.spellings
        self.emission.emit(
            resource.entity,
            resource.xid,
            resource.here,
            resource.written,
            meta,
            [*problems, *self.emission.text_errors(resource.here)],
        )

    def _read_versioned(
        self,
        resource: Resource,
        read: NormalEntity,
        meta: NormalEntity,
        children: tuple[str, dict[str, Any]],
        family: str | None,
        problems: list[Problem],
    ) -> None:
        entity, name, _, here, written, group = resource
        key, members = children
        problems += self.emission.text_errors(here, (key,))
        outer = {name: written[name] for name in FAMILY_MEMBERS if name in written}
        versions = self._read_versions(entity, below(here, key), members, group, outer)
        rest = {member: value for member, value in written.items() if member != key}
        default = default_version(entity, read, meta, versions, here, problems)
        fill_default(entity, read, default, problems)
        for version in versions:
            if version.read is not None:
                context = [(here, rest)] if version is default else []
                subject = subject_of(entity, version.read, name, group, family, self.dialect)
                version.problems.extend(self.emission.broken(subject, version.read, (version.pointer, version.written), *context))
        _check_promise(VERSION_KIND[entity], meta.attributes.get("compatibility"), versions)
        self._emit_versioned(resource._replace(written=rest), read, meta, versions, default, problems)

    def _read_versions(
        self, entity: str, here: Pointer, members: dict[str, Any], group: NormalEntity, outer: dict[str, Any]
    ) -> list[Version]:
        versions = []
        seen: dict[str, str] = {}
        for versionid, written in members.items():
            at = below(here, versionid)
            if isinstance(written, dict):
                problems: list[Problem] = []
                family = self._family(outer | written, at, group, problems) if entity == "message" else None
                read = read_entity(entity, written, at, family, self.dialect)
                self_meta = read.attributes.get("meta", {})
                if "deprecated" in self_meta:
                    read.attributes["deprecated"] = self_meta.pop("deprecated")
                if self_meta:
                    message = f"{', '.join(sorted(self_meta))} belongs to the {entity}, not to a Version, and is kept in raw only"
                    problems.append(Problem(at, "MSG-066", "warning", message, f"Write it in `meta` of the {entity}."))
                problems += id_problems(versionid, read, "versionid", "MSG-038", at, seen)
                problems += self.emission.text_errors(at)
                read.attributes.pop(f"{entity}id", None)
                versions.append(Version(versionid, at, written, read, problems))
            else:
                versions.append(Version(versionid, at, written, None, []))
        return sorted(versions, key=lambda version: version_order(version.versionid, version.read and version.read.attributes))

    def _emit_single(self, resource: Resource, meta: NormalEntity, version: Version, problems: list[Problem]) -> None:
        """Emit a message without `versions`: what it says of itself belongs to its only Version, and `raw` is there."""
        entity, _, xid, here, written, _ = resource
        emit, read = self.emission.emit, version.read
        assert read is not None
        kind, version_xid = VERSION_KIND[entity], xid_of_version(xid, version.versionid)
        meta.attributes["defaultversionid"] = version.versionid
        if has_error(problems) or has_error(take_life(dict(meta.attributes), here)[1]):
            emit(entity, xid, here, written, meta, problems, keep_raw=False)
            if version.broken:
                emit(kind, version_xid, here, written, read, version.problems)
            else:
                self.emission.refusals.refuse_dependent(kind, version_xid, here, written, f"{xid} was refused")
            return
        read.attributes["ancestor"] = read.attributes.get("ancestor", version.versionid)
        read.attributes["isdefault"] = True
        if not emit(kind, version_xid, here, written, read, version.problems):
            problems = [*problems, dependent(here, f"its only Version {version.versionid} was refused")]
        emit(entity, xid, here, written, meta, problems, keep_raw=False)

    def _emit_versioned(
        self,
        resource: Resource,
        read: NormalEntity,
        meta: NormalEntity,
        versions: list[Version],
        default: Version,
        problems: list[Problem],
    ) -> None:
        """Emit a message with `versions`; it falls with its default Version, since it shows nothing without."""
        entity, _, xid, here, written, _ = resource
        refusals = self.emission.refusals
        if default.broken:
            problems.append(dependent(here, f"its default Version {default.versionid} was refused"))
        meta.attributes["defaultversionid"] = default.versionid
        own = own_extensions(read, default)
        if own:
            subject = Subject("meta", {}, dialect=self.dialect, extensions=own)
            problems += self.emission.broken(subject, read, (here, written))
            meta.extensions |= own
        meta.problems, meta.spellings = read.problems, read.spellings
        accepted = self.emission.emit(entity, xid, here, written, meta, problems)
        kind = VERSION_KIND[entity]
        before: str | None = None
        for version in versions:
            version_xid = xid_of_version(xid, version.versionid)
            if version.read is None:
                refusals.refuse_shape(kind, version_xid, version.pointer, version.written, "MSG-069")
            elif not accepted and not version.broken:
                refusals.refuse_dependent(kind, version_xid, version.pointer, version.written, f"{xid} was refused")
            else:
                version.read.attributes |= {
                    "ancestor": version.read.attributes.get("ancestor", before or version.versionid),
                    "isdefault": version is default,
                }
                if self.emission.emit(kind, version_xid, version.pointer, version.written, version.read, version.problems):
                    before = version.versionid

    def _family(self, written: dict[str, Any], here: Pointer, group: NormalEntity, warned: list[Problem]) -> str | None:
        """Find the protocol family of a message, and warn of options for which none is named."""
        family = family_of_message(written, group.attributes.get("protocol"), self.find_message)
        if family is None:
            key = key_of_options(written)
            if written.get(key):
                message = f"`{key}` is given without a protocol; its options are kept as written"
                warned.append(Problem(below(here, key), "MSG-111", "warning", message, "Set `protocol`."))
        return family


def _check_promise(kind: str, compatibility: Any, versions: list[Version]) -> None:
    """Compare the Versions of a message or schema in a document by what its `compatibility` promises (COMP-001)."""
    if compatibility not in PROMISES:
        return
    comparable: dict[str, ComparedVersion] = {}
    ancestors: dict[str, str] = {}
    before: str | None = None
    for version in versions:
        if version.read is None or version.broken:
            continue
        versionid = version.versionid
        comparable[versionid] = compared_version(kind, version.read.attributes | {"extensions": version.read.extensions})
        ancestors[versionid] = str(version.read.attributes.get("ancestor") or before or versionid)
        for earlier in earlier_versions(versionid, ancestors, compatibility=compatibility):
            for rule_id, pointer, message, _ in of_promise(
                kind=kind,
                compatibility=compatibility,
                version=comparable[versionid],
                versionid=versionid,
                earlier=comparable[earlier],
                earlier_id=earlier,
            ):
                place = Pointer(version.pointer + pointer)
                version.problems.append(Problem(place, rule_id, "error", message, RULES[rule_id].hint))
        if not version.broken:
            before = versionid


class Version(NamedTuple):
    """A Version on its way: `read` is None when what was written is not an object."""

    versionid: str
    pointer: Pointer
    written: Any
    read: NormalEntity | None
    problems: list[Problem]

    @property
    def broken(self) -> bool:
        """Return whether an error was found."""
        if self.read is None:
            return True
        results = [*self.problems, *self.read.problems, *take_life(dict(self.read.attributes), self.pointer)[1]]
        if has_error(results):
            return True
        try:
            canonical([self.read.attributes, self.read.extensions])
        except OverflowError:
            return True
        return False


def default_version(
    entity: str, read: NormalEntity, meta: NormalEntity, versions: list[Version], here: Pointer, problems: list[Problem]
) -> Version:
    """Choose the default Version: the declared one, else the newest (decision 7)."""
    by_id = {version.versionid: version for version in versions}
    marked = [version.versionid for version in versions if version.read and version.read.attributes.get("isdefault") is True]
    declared = (
        meta.attributes.get("defaultversionid"),
        read.attributes.get("versionid"),
        marked[0] if len(marked) == 1 else None,
    )
    chosen = choose_default(declared, by_id, versions[-1].versionid)
    for versionid in chosen.unknown:
        message = f"the default Version {versionid!r} is not one of the {entity}'s Versions ({', '.join(list(by_id)[:10])})"
        problems.append(Problem(here, "MSG-038", "error", message, "Name an existing versionid."))
    return by_id[chosen.versionid or ""]


def fill_default(entity: str, read: NormalEntity, default: Version, problems: list[Problem]) -> None:
    """Copy the attributes of the message to its default Version, unless that has them."""
    if default.read is None:
        return
    for name, value in read.attributes.items():
        if name in ("versionid", "isdefault", "ancestor"):
            continue
        if name not in default.read.attributes:
            default.read.attributes[name] = value
        elif not same(default.read.attributes[name], value) and name not in LIFE:
            message = f"`{name}` of the {entity} differs from its default Version's, which is taken"
            problems.append(Problem(default.pointer, "MSG-038", "warning", message, "Write it in the Version only."))


def own_extensions(read: NormalEntity, default: Version) -> dict[str, Any]:
    """Return the unknown attributes of a message that are not copies of its default Version's (MSG-070)."""
    shown = default.read.extensions if default.read else {}
    return {key: value for key, value in read.extensions.items() if key not in shown or not same(value, shown[key])}
