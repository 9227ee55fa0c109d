"""New Versions of schemas that payloads break: what is widened, whom that breaks, and the Version in a document."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson

from lakehouse.compatibility import Judgement, judge
from lakehouse.dialects.schemadocuments import family_of_format
from lakehouse.match.payload.schemas import Resolved, SchemaVersion, Versions
from lakehouse.propose.decided import Observed, Thresholds
from lakehouse.propose.widening import WidenedSchema, widen
from lakehouse.text.jsontext import canonical_text
from lakehouse.text.names import JsonText, RegistryId, Xid
from lakehouse.text.xid import last_id

PROPOSED = {"proposed": "true"}  # labels of what is proposed
Json = dict[str, Any]


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
        widened = widen(JsonText(orjson.dumps(schema).decode()), format, observed, thresholds, place)
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
