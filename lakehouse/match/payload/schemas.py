"""Schemas of payloads, out of the snapshot only: nothing is fetched, whatever a schema refers to (law 13 of matching).

A definition names its schema by `dataschemaxid` or `dataschemauri`, may pin a Version and name a type or a place in it
(`…/schemas/S/versions/1:Type`, `…/schemas/S#/definitions/T`), or holds it inline.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol

from lakehouse.domain.references import SchemaPlace, schema_places
from lakehouse.match.definition.compiled import Definition
from lakehouse.text.jsontext import read_exactly
from lakehouse.text.names import JsonText, RegistryId, Xid
from lakehouse.text.xid import last_id

_OTHER = re.compile(r'"\$ref"\s*:\s*"[^#"]')
Key = tuple[RegistryId, Xid]  # registryid, and the XID of a Version or of a schema


def schema_xids(uri: str) -> list[Xid]:
    """Return the XIDs of the schemas that a reference may mean: as it is written, or without the type that it names."""
    return list(dict.fromkeys(place.schema for place in schema_places(uri)))


def names_others(text: JsonText | None) -> bool:
    """Return whether a schema, as JSON text, refers to what it does not hold."""
    return text is not None and _OTHER.search(text) is not None


class SchemaVersion(NamedTuple):
    """A Version of a schema.

    Attributes:
        registryid, xid, schema_xid, isdefault: whose it is.
        format: of the document.
        text: the document as JSON text; a schema that is text is in quotes.
        createdat: microseconds since 1970 (UTC).
        labels: name to value; `payloads` says which hold ids that payloads name.
    """

    registryid: RegistryId
    xid: Xid
    schema_xid: Xid
    isdefault: bool
    format: str | None
    text: JsonText | None
    createdat: int | None = None
    labels: dict[str, str] | None = None


class Resolved(NamedTuple):
    """The schema of a definition: where it is, its format and text, and the type or place in it that is meant.

    `schema_xid` is None where the definition holds it itself.
    """

    xid: Xid
    format: str
    text: JsonText
    type_name: str | None = None
    fragment: str | None = None
    registryid: RegistryId = RegistryId("")
    schema_xid: Xid | None = None

    @property
    def document(self) -> Any:
        """Return the schema as a JSON value; one that is text is a string."""
        return read_exactly(self.text.encode())

    @property
    def named(self) -> str:
        """Return the type that the reference names, however it is written; empty: it names none."""
        return self.type_name or (self.fragment or "").lstrip(":/")


class WriterSchema(NamedTuple):
    """A Version that payloads of a definition may have been written with.

    Attributes:
        resolved: the schema.
        is_older: it is older than the Version that the definition names.
        labels: of the Version.
    """

    resolved: Resolved
    is_older: bool
    labels: dict[str, str]


class Versions(Protocol):
    """Versions of schemas, wherever they are held."""

    def version(self, key: Key) -> SchemaVersion | None:
        """Find a Version by its registry and XID."""

    def default(self, key: Key) -> SchemaVersion | None:
        """Find the default Version of a schema by its registry and the schema's XID."""

    def defaults(self, registryid: RegistryId) -> Iterable[SchemaVersion]:
        """Return the default Versions of a registry."""

    def of_schema(self, key: Key) -> Iterable[SchemaVersion]:
        """Return all Versions of a schema by its registry and the schema's XID."""


class VersionsInMemory:
    """Versions of schemas in memory.

    Args:
        versions: all there are.
    """

    def __init__(self, versions: Iterable[SchemaVersion]) -> None:
        self._by_xid: dict[Key, SchemaVersion] = {}
        self._default: dict[Key, SchemaVersion] = {}
        self._of_schema: dict[Key, list[SchemaVersion]] = {}
        for version in versions:
            self._by_xid[version.registryid, version.xid] = version
            self._of_schema.setdefault((version.registryid, version.schema_xid), []).append(version)
            existing = self._default.get((version.registryid, version.schema_xid))
            if existing is None or version.isdefault:
                self._default[version.registryid, version.schema_xid] = version

    def version(self, key: Key) -> SchemaVersion | None:
        """Find a Version by its registry and XID."""
        return self._by_xid.get(key)

    def default(self, key: Key) -> SchemaVersion | None:
        """Find the default Version of a schema by its registry and the schema's XID."""
        return self._default.get(key)

    def defaults(self, registryid: RegistryId) -> Iterable[SchemaVersion]:
        """Return the default Versions of a registry."""
        return (version for version in self._default.values() if version.registryid == registryid)

    def of_schema(self, key: Key) -> Iterable[SchemaVersion]:
        """Return all Versions of a schema by its registry and the schema's XID."""
        return self._of_schema.get(key, ())


class Schemas:
    """Finds the schema of a definition.

    Args:
        versions: the Versions of all schemas.
    """

    def __init__(self, versions: Iterable[SchemaVersion] | Versions) -> None:
        self.versions: Versions = VersionsInMemory(versions) if isinstance(versions, Iterable) else versions
        self._named: dict[RegistryId, dict[str, Any]] = {}

    def resolve(self, definition: Definition) -> Resolved | str:
        """Find the schema of a definition.

        Returns:
            The schema; or why there is none to apply: `no_schema`, or `schema_unresolved`.
        """
        if definition.inline_schema is not None:
            key = (definition.xid, definition.schema_format or "", definition.inline_schema)
            return Resolved(*key, registryid=definition.registryid)
        uri = definition.schema_reference
        if not uri:
            return "no_schema"
        for place in schema_places(uri):
            version = self._version(definition.registryid, place)
            if version is not None:
                if version.text is None:
                    break
                written = definition.schema_format or version.format or ""
                named = (place.type_name, place.place)
                return Resolved(version.xid, written, version.text, *named, definition.registryid, version.schema_xid)
        return "schema_unresolved"

    def writers(self, resolved: Resolved) -> list[WriterSchema]:
        """Return all Versions of a definition's schema, that of the definition first, then the others, the newest first."""
        if resolved.schema_xid is None:
            return [WriterSchema(resolved, False, {})]
        results: list[WriterSchema] = []
        is_older = False
        for version in sorted(self.versions.of_schema((resolved.registryid, resolved.schema_xid)), key=_age, reverse=True):
            labels = version.labels or {}
            if version.xid == resolved.xid:
                results.insert(0, WriterSchema(resolved, False, labels))
                is_older = True
            elif version.text is not None:
                other = resolved._replace(xid=version.xid, text=version.text, format=version.format or resolved.format)
                results.append(WriterSchema(other, is_older, labels))
        return results

    def finder(self, registryid: RegistryId) -> Callable[[str], Any]:
        """Return what finds another schema of a registry by its `$id`; it raises LookupError when there is none."""

        def find(uri: str) -> Any:
            wanted = uri.partition("#")[0]
            for named in (wanted, wanted.rstrip("/")):
                if named in self._ids(registryid):
                    return self._ids(registryid)[named]
            raise LookupError(f"{uri}: no schema of the catalog has this $id, and nothing is fetched")

        return find

    def _ids(self, registryid: RegistryId) -> dict[str, Any]:
        """Return the schemas of a registry by `$id`, read when one is asked for first."""
        if registryid not in self._named:
            results: dict[str, Any] = {}
            for version in self.versions.defaults(registryid):
                if version.text and '"$id"' in version.text:
                    document = read_exactly(version.text.encode())
                    if isinstance(document, dict) and isinstance(document.get("$id"), str):
                        results[document["$id"].partition("#")[0]] = document
            self._named[registryid] = results
        return self._named[registryid]

    def _version(self, registryid: RegistryId, place: SchemaPlace) -> SchemaVersion | None:
        """Find the Version that a reference names, else the default one."""
        if place.version is None:
            return self.versions.default((registryid, place.schema))
        return self.versions.version((registryid, place.version))


def _age(version: SchemaVersion) -> tuple[int, int, str]:
    """Return what orders the Versions of a schema, the oldest first: createdat, else versionid, as numbers count."""
    versionid = last_id(version.xid)
    return (version.createdat or 0, len(versionid), versionid)
