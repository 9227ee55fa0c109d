"""The Versions of a message or schema: their order, which is the default, and what the entity says in its stead (decision 7)."""

from __future__ import annotations

from typing import Any, NamedTuple

from lakehouse.dialects.entityreader import NormalEntity
from lakehouse.domain.defaults import choose_default
from lakehouse.ingest.parse.rows import take_life
from lakehouse.store.keys import LIFE
from lakehouse.text.jsontext import canonical, same
from lakehouse.text.names import Pointer
from lakehouse.text.problems import Problem


class Version(NamedTuple):
    """A Version on its way: `read` is None when what was written is not an object."""

    versionid: str
    pointer: Pointer
    written: Any
    read: NormalEntity | None
    problems: list[Problem]

    @property
    def broken(self) -> bool:
        """Tell whether an error was found."""
        if self.read is None:
            return True
        found = [*self.problems, *self.read.problems, *take_life(dict(self.read.known), self.pointer)[1]]
        if has_error(found):
            return True
        try:
            canonical([self.read.known, self.read.extensions])
        except OverflowError:
            return True
        return False


def default_version(
    entity: str, read: NormalEntity, meta: NormalEntity, versions: list[Version], here: Pointer, problems: list[Problem]
) -> Version:
    """Choose the default Version: the declared one, else the newest (decision 7)."""
    by_id = {version.versionid: version for version in versions}
    marked = [version.versionid for version in versions if version.read and version.read.known.get("isdefault") is True]
    declared = (meta.known.get("defaultversionid"), read.known.get("versionid"), marked[0] if len(marked) == 1 else None)
    chosen = choose_default(declared, by_id, versions[-1].versionid)
    for versionid in chosen.unknown:
        told = f"the default Version {versionid!r} is not one of the {entity}'s Versions ({', '.join(list(by_id)[:10])})"
        problems.append(Problem(here, "MSG-038", "error", told, "Name an existing versionid."))
    return by_id[chosen.versionid or ""]


def fill_default(entity: str, read: NormalEntity, default: Version, problems: list[Problem]) -> None:
    """Give the default Version the attributes that stand at the message only; where both have one, the Version's wins."""
    if default.read is None:
        return
    for name, value in read.known.items():
        if name in ("versionid", "isdefault", "ancestor"):
            continue
        if name not in default.read.known:
            default.read.known[name] = value
        elif not same(default.read.known[name], value) and name not in LIFE:
            told = f"`{name}` of the {entity} differs from its default Version's, which is taken"
            problems.append(Problem(default.pointer, "MSG-038", "warning", told, "Write it in the Version only."))


def own_extensions(read: NormalEntity, default: Version) -> dict[str, Any]:
    """Give the unknown attributes of a message that do not show those of its default Version (MSG-070)."""
    shown = default.read.extensions if default.read else {}
    return {key: value for key, value in read.extensions.items() if key not in shown or not same(value, shown[key])}


def has_error(problems: list[Problem]) -> bool:
    """Tell whether one of the problems is an error that takes its entity out."""
    return bool(problems) and any(problem.severity == "error" and not problem.kept for problem in problems)
