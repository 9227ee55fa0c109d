"""One registry document becomes rows: its entities in normal form, and what was found.

Runs on the executors. An error takes its entity out, and what cannot live without it (the messages of a group, the Versions
of a message); everything else of the document stays. What is taken out is told with its raw JSON. Decisions 7 to 20.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from typing import Any

from lakehouse.dialects.detection import COLLECTIONS, dialect_of
from lakehouse.dialects.entities import Entity, read_entity
from lakehouse.dialects.locate import locate
from lakehouse.dialects.protocols import TELLS_FAMILY, Messages, family_of_message, key_of_options
from lakehouse.dialects.tables import DIALECTS, NORMAL
from lakehouse.dialects.versionorder import created, natural_order
from lakehouse.ingest.parse.identity import dependent, id_problems, id_syntax, meta_of, split_meta, subject_of
from lakehouse.ingest.parse.readings import Collection, Reading, Whole
from lakehouse.ingest.parse.rows import make_row, take_life
from lakehouse.ingest.parse.versions import Version, default_version, fill_default, has_error, own_extensions
from lakehouse.rules.declared import RULES
from lakehouse.rules.one.endpoints import NO_LABELS
from lakehouse.rules.one.engine import PRESENCE, check_entity
from lakehouse.rules.one.table import Subject
from lakehouse.store.keys import LIFE, VERSION_KIND
from lakehouse.text.jsontext import as_written, escaped, pointer_of
from lakehouse.text.problems import Finding, Problem
from lakehouse.text.xid import xid_of

_OTHER_SPECVERSIONS = frozenset(name for name in DIALECTS if name[0].isdigit()) - {NORMAL}  # others are no specversion
TABLE_OF_KIND = {
    "registry": "registries",
    "group": "groups",
    "endpoint": "endpoints",
    "message": "messages",
    "version": "versions",
    "schema": "schemas",
    "schemaversion": "schemaversions",
}


_GROUPS = {
    "messagegroups": Collection(
        "messagegroup", "group", "messagegroupid", "messages", "message", "MSG-020", "MSG-018", "MSG-036"
    ),
    "endpoints": Collection("endpoint", "endpoint", "endpointid", "messages", "message", "END-033", "END-031", "END-045"),
    "schemagroups": Collection("schemagroup", "group", "schemagroupid", "schemas", "schema", "MSG-020", "MSG-018", "MSG-036"),
}


def read_document(
    document: dict[str, Any], problems: list[Problem], dialect: str = "", *, rules: bool = True, whole: Whole | None = None
) -> Reading:
    """Bring a registry document into rows.

    Args:
        document: the parsed document, for which `not_a_registry` gave None.
        problems: what reading the text and redacting found; an error takes out the entity at its pointer.
        dialect: of the document, for what only that one asks for.
        rules: apply the rules about one entity, beside those of types and ids.
        whole: the document that this one is a part of; None: it is whole.
    """
    return _Document(document, problems, dialect, rules, whole or Whole(Messages(lambda: [document]).find)).read()


def wrong_collection(document: Any) -> Problem | None:
    """Tell the first collection of a document, in any spelling, that is not a map (MSG-018, END-031)."""
    for key, value in document.items() if isinstance(document, dict) else ():
        if key in COLLECTIONS and value is not None and not isinstance(value, dict):
            told = f"`{key}` is {'an array' if isinstance(value, list) else 'a scalar'} and no map"
            return Problem(pointer_of(key), _GROUPS[COLLECTIONS[key]].map_rule, "error", told, "Write a map keyed by id.")
    return None


class _Document:
    def __init__(self, document: dict[str, Any], problems: list[Problem], dialect: str, rules: bool, whole: Whole) -> None:
        self.document = document
        self.whole = whole
        self.rules = rules
        self.text_problems = problems
        # Errors by pointer, so that those below one stand together: an entity asks for its own.
        self.text_errors = sorted((f"{one.pointer}/", n) for n, one in enumerate(problems) if one.severity == "error")
        self.reading = Reading()
        self.dialect = dialect or dialect_of(document, Counter())

    def read(self) -> Reading:
        for problem in self.text_problems:
            if problem.severity != "error":
                self._tell("", "", problem, "kept", None)
        root = read_entity("registry", self.document, "", None, self.dialect)
        self._read_specversion(root)
        self.reading.registryid = root.known.get("registryid")
        written = {key: value for key, value in self.document.items() if key not in COLLECTIONS}
        self.reading.root = as_written(written)
        problems = [
            *self._text_errors("", tuple(COLLECTIONS)),
            *self._broken(Subject("registry", root.known), root, ("", written)),
        ]
        self._emit("registry", "/", "", written, root, problems)
        for key, value in self.document.items():
            if key in COLLECTIONS and value is not None:
                self._respelled("registry", key, COLLECTIONS[key])
                self._read_groups(key, value, COLLECTIONS[key])
        return self.reading

    def _read_specversion(self, root: Entity) -> None:
        """Give the root the specversion of the normal form (WIP-001); one of an unknown specification stays."""
        declared = root.known.get("specversion", NORMAL)
        if declared in _OTHER_SPECVERSIONS:
            self._respelled("registry", f"specversion {declared}", NORMAL)
            declared = NORMAL
        root.known["specversion"] = declared

    def _read_groups(self, key: str, groups: Any, collection: str) -> None:
        shape = _GROUPS[collection]
        here = pointer_of(key)
        if not isinstance(groups, dict):
            problem = Problem(
                here, shape.map_rule, "error", f"`{key}` is not a map", "Write a map keyed by id.", as_written(groups)
            )
            self._tell("registry", "/", problem, "quarantined", None)
            return
        seen = self.whole.groups.setdefault(collection, {})
        earlier = set(seen.values())
        for groupid, written in groups.items():
            xid = xid_of(collection, groupid)
            at = here + pointer_of(groupid)
            if isinstance(written, dict):
                read = read_entity(shape.entity, written, at, None, self.dialect)
                ids = id_problems(groupid, read, shape.idattribute, shape.id_rule, at, seen)
                if groupid in earlier:
                    told = f"{xid} stands twice in `{collection}`, or in both its spellings"
                    ids.append(Problem(at, shape.map_rule, "error", told, f"Keep it in `{collection}`."))
                self._read_group(shape, xid, at, written, read, ids)
            else:
                self._refuse_shape(shape.kind, xid, at, written, shape.map_rule)

    def _read_group(
        self, shape: Collection, xid: str, here: str, written: dict[str, Any], read: Entity, ids: list[Problem]
    ) -> None:
        key, members = read.children.get(shape.members, (shape.members, None))
        own = {name: value for name, value in written.items() if name != key}
        subject = Subject(shape.entity, read.known, xid.rsplit("/", 1)[-1], extensions=read.extensions)
        problems = [*ids, *self._text_errors(here, (key,) if isinstance(members, dict) else ())]
        problems += self._broken(subject, read, (here, written))
        if members is not None and not isinstance(members, dict):
            told = Problem(
                here + pointer_of(key), shape.members_rule, "error", f"`{key}` is not a map", "Write a map keyed by id."
            )
            problems.append(told)
            own, members = written, None
        accepted = self._emit(shape.kind, xid, here, own, read, problems)
        self._respelled(shape.entity, key, shape.members)
        seen: dict[str, str] = {}
        for name, member in (members or {}).items():
            at = here + pointer_of(key, name)
            member_xid = xid_of(*xid[1:].split("/"), shape.members, name)
            if not accepted:
                self._refuse_dependent(shape.member, member_xid, at, member, f"{xid}, which holds it, was refused")
            elif isinstance(member, dict):
                self._read_resource(shape.member, name, member_xid, at, member, read, seen)
            else:
                self._refuse_shape(shape.member, member_xid, at, member, shape.members_rule)
                self._refuse_versions(shape.member, member_xid, at, member, f"{member_xid} was refused")

    def _read_resource(
        self, entity: str, name: str, xid: str, here: str, written: dict[str, Any], group: Entity, seen: dict[str, str]
    ) -> None:
        """Read a message or schema with its Versions (decision 7)."""
        warned: list[Problem] = []
        family = self._family(written, here, group, warned) if entity == "message" else None
        read = read_entity(entity, written, here, family, self.dialect)
        problems = [*warned, *id_problems(name, read, f"{entity}id", "MSG-037", here, seen)]
        meta = split_meta(read.known.pop("meta", {}), entity)
        problems.extend(self._broken(Subject("meta", meta.known), read, (here, written)))
        key, members = read.children.get("versions", ("versions", None))
        if members is not None and not isinstance(members, dict):
            problems.append(
                Problem(here + pointer_of(key), "MSG-069", "error", "`versions` is not a map", "Write a map keyed by versionid.")
            )
            members = None
        if "xref" in meta.known:
            self._read_alias(entity, xid, here, written, read, meta, problems)
        elif members:
            problems.extend(self._text_errors(here, (key,)))
            versions = self._read_versions(
                entity, here + pointer_of(key), members, group, {name: written[name] for name in TELLS_FAMILY if name in written}
            )
            rest = {member: value for member, value in written.items() if member != key}
            default = default_version(entity, read, meta, versions, here, problems)
            fill_default(entity, read, default, problems)
            for version in versions:
                if version.read is not None:
                    outer = [(here, rest)] if version is default else []
                    subject = subject_of(entity, version.read, name, group, family)
                    version.problems.extend(self._broken(subject, version.read, (version.pointer, version.written), *outer))
            self._emit_versioned(entity, xid, here, rest, read, meta, versions, default, problems)
        else:
            declared = read.known.get("versionid", meta.known.get("defaultversionid", "1"))
            single = Version(declared, here, written, read, [*id_syntax(declared, "MSG-038", here), *self._text_errors(here, ())])
            single.problems.extend(self._broken(subject_of(entity, read, name, group, family), read, (here, written)))
            self._emit_single(entity, xid, here, written, meta, single, problems)

    def _read_alias(
        self, entity: str, xid: str, here: str, written: dict[str, Any], read: Entity, meta: Entity, problems: list[Problem]
    ) -> None:
        """An entity with `xref` stands for another one and has no Versions (decision 20)."""
        own = sorted(set(read.known) - {"versionid", *LIFE}) + sorted(read.extensions)
        if own or read.children:
            told = f"`xref` is set, so its own {', '.join(own or ['versions'])} is ignored"
            problems.append(Problem(here, "MSG-096", "warning", told, "Leave out `xref`, or the attributes."))
        meta.problems, meta.spellings = read.problems, read.spellings
        self._emit(entity, xid, here, written, meta, [*problems, *self._text_errors(here, ())])

    def _read_versions(
        self, entity: str, here: str, members: dict[str, Any], group: Entity, outer: dict[str, Any]
    ) -> list[Version]:
        versions = []
        seen: dict[str, str] = {}
        for versionid, written in members.items():
            at = here + pointer_of(versionid)
            if isinstance(written, dict):
                warned: list[Problem] = []
                family = self._family(outer | written, at, group, warned) if entity == "message" else None
                read = read_entity(entity, written, at, family, self.dialect)
                self_meta = read.known.get("meta", {})
                if "deprecated" in self_meta:
                    read.known["deprecated"] = self_meta.pop("deprecated")
                if self_meta:
                    told = f"{', '.join(sorted(self_meta))} belongs to the {entity}, not to a Version, and is kept in raw only"
                    warned.append(Problem(at, "MSG-066", "warning", told, f"Write it in `meta` of the {entity}."))
                problems = [*warned, *id_problems(versionid, read, "versionid", "MSG-038", at, seen), *self._text_errors(at, ())]
                read.known.pop(f"{entity}id", None)
                versions.append(Version(versionid, at, written, read, problems))
            else:
                versions.append(Version(versionid, at, written, None, []))
        return sorted(
            versions, key=lambda version: (created(version.read and version.read.known), natural_order(version.versionid))
        )

    def _emit_single(
        self, entity: str, xid: str, here: str, written: dict[str, Any], meta: Entity, version: Version, problems: list[Problem]
    ) -> None:
        """Emit a message without `versions`: what it says of itself belongs to its only Version, and `raw` stands there."""
        read = version.read
        assert read is not None
        kind, version_xid = VERSION_KIND[entity], f"{xid}/versions/{version.versionid}"
        meta.known["defaultversionid"] = version.versionid
        if has_error([*problems, *take_life(dict(meta.known), here)[1]]):
            self._emit(entity, xid, here, written, meta, problems, keep_raw=False)
            if version.broken:
                self._emit(kind, version_xid, here, written, read, version.problems)
            else:
                self._refuse_dependent(kind, version_xid, here, written, f"{xid} was refused")
            return
        read.known |= {"ancestor": read.known.get("ancestor", version.versionid), "isdefault": True}
        if not self._emit(kind, version_xid, here, written, read, version.problems):
            problems = [*problems, dependent(here, f"its only Version {version.versionid} was refused")]
        self._emit(entity, xid, here, written, meta, problems, keep_raw=False)

    def _emit_versioned(
        self,
        entity: str,
        xid: str,
        here: str,
        written: dict[str, Any],
        read: Entity,
        meta: Entity,
        versions: list[Version],
        default: Version,
        problems: list[Problem],
    ) -> None:
        """Emit a message with `versions`; it falls with its default Version, since it shows nothing without."""
        if default.broken:
            problems.append(dependent(here, f"its default Version {default.versionid} was refused"))
        meta.known["defaultversionid"] = default.versionid
        meta.extensions |= own_extensions(read, default)
        meta.problems, meta.spellings = read.problems, read.spellings
        accepted = self._emit(entity, xid, here, written, meta, problems)
        kind = VERSION_KIND[entity]
        before: str | None = None
        for version in versions:
            version_xid = f"{xid}/versions/{version.versionid}"
            if version.read is None:
                self._refuse_shape(kind, version_xid, version.pointer, version.written, "MSG-069")
            elif not accepted and not version.broken:
                self._refuse_dependent(kind, version_xid, version.pointer, version.written, f"{xid} was refused")
            else:
                version.read.known |= {
                    "ancestor": version.read.known.get("ancestor", before or version.versionid),
                    "isdefault": version is default,
                }
                if self._emit(kind, version_xid, version.pointer, version.written, version.read, version.problems):
                    before = version.versionid

    def _family(self, written: dict[str, Any], here: str, group: Entity, warned: list[Problem]) -> str | None:
        """Find the protocol family of a message, and warn of options that nothing tells it for."""
        family = family_of_message(written, group.known.get("protocol"), self.whole.find_message)
        key = key_of_options(written)
        if family is None and written.get(key):
            told = f"`{key}` stands without a protocol; its options are kept as written"
            warned.append(Problem(here + pointer_of(key), "MSG-111", "warning", told, "Set `protocol`."))
        return family

    def _emit(
        self,
        kind: str,
        xid: str,
        here: str,
        written: dict[str, Any],
        read: Entity,
        problems: list[Problem],
        *,
        keep_raw: bool = True,
    ) -> bool:
        """Emit an entity's row, or refuse it when there is an error; True when it was accepted."""
        self.reading.spellings.update(read.spellings)
        life, life_problems = take_life(read.known, f"{here}/meta" if kind in VERSION_KIND else here)
        every = [*problems, *read.problems, *life_problems]
        row = None
        if not has_error(every):
            try:
                row = make_row(kind, xid, life, read, written if keep_raw else None)
            except OverflowError as error:
                every.append(Problem(here, "MSG-104", "error", str(error), "Write a number that a double holds, or a string."))
        raw = as_written(written) if row is None else None
        for problem in every:
            self._tell(kind, xid, problem, "kept" if row else "quarantined", raw if problem.severity == "error" else None)
        if row is None:
            self.reading.quarantined[TABLE_OF_KIND[kind]] += 1
            return False
        self.reading.rows.append(row)
        self.reading.entities[TABLE_OF_KIND[kind]] += 1
        return True

    def _broken(self, subject: Subject, read: Entity, *written: tuple[str, dict[str, Any]]) -> list[Problem]:
        """Apply the rules about one entity, and tell where they are broken in the document as written."""
        problems = []
        for path, rule_id, message, severity in check_entity(subject._replace(dialect=self.dialect)) if self.rules else ():
            if rule_id in PRESENCE and has_error(read.problems):
                continue  # what is missing was refused for its type, which is told
            if rule_id == NO_LABELS and any(problem.kept for problem in read.problems):
                continue
            rule = RULES[rule_id]
            where = locate(subject.entity, path, *written)
            problems.append(Problem(where, rule_id, severity or rule.severity, message, rule.hint))
        return problems

    def _text_errors(self, here: str, children: tuple[str, ...]) -> list[Problem]:
        """Give the errors of the text that lie in the entity at `here` and not in an entity of its collections."""
        below = f"{here}/"
        collections = tuple(below + escaped(child) + "/" for child in children)
        inside = []
        for index in range(bisect_left(self.text_errors, (below, 0)), len(self.text_errors)):
            at, number = self.text_errors[index]
            if not at.startswith(below):
                break
            if not (at.startswith(collections) and at not in collections):
                inside.append(number)
        return [self.text_problems[number] for number in sorted(inside)]

    def _refuse_shape(self, kind: str, xid: str, here: str, written: Any, rule: str) -> None:
        told = Problem(here, rule, "error", "it is not an object", "Write an object.")
        self._refuse(kind, xid, told, as_written(written))

    def _refuse_dependent(self, kind: str, xid: str, here: str, written: Any, cause: str) -> None:
        """Refuse what cannot live without an entity that was refused: a message or schema with its Versions, or a Version."""
        self._refuse(kind, xid, dependent(here, cause), as_written(written))
        if kind in VERSION_KIND:
            self._refuse_versions(kind, xid, here, written, cause)

    def _refuse_versions(self, kind: str, xid: str, here: str, written: Any, cause: str) -> None:
        if isinstance(written, dict) and "xref" in meta_of(kind, written):
            return  # an alias has no Versions
        versions = written.get("versions") if isinstance(written, dict) else None
        if isinstance(versions, dict) and versions:
            for versionid in versions:
                self._refuse(
                    VERSION_KIND[kind],
                    f"{xid}/versions/{versionid}",
                    dependent(here + pointer_of("versions", versionid), cause),
                    None,
                )
        else:
            declared = written.get("versionid", written.get("defaultversionid")) if isinstance(written, dict) else None
            versionid = declared if isinstance(declared, str) else "1"
            self._refuse(VERSION_KIND[kind], f"{xid}/versions/{versionid}", dependent(here, cause), None)

    def _refuse(self, kind: str, xid: str, problem: Problem, raw: str | None) -> None:
        self.reading.quarantined[TABLE_OF_KIND[kind]] += 1
        self._tell(kind, xid, problem, "quarantined", raw)

    def _tell(self, kind: str, xid: str, problem: Problem, action: str, raw: str | None) -> None:
        pointer, rule_id, severity, message, hint, own_raw, _ = problem
        self.reading.findings.append(Finding(kind, xid, pointer, rule_id, severity, action, message, hint, own_raw or raw))

    def _respelled(self, entity: str, spelled: str, normal: str) -> None:
        if spelled != normal:
            self.reading.spellings[f"{entity}: {spelled} → {normal}"] += 1
