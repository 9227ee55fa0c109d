"""The definitions of a snapshot that are in a scope, read without Spark from the read model.

What one event or one message needs is read alone: `View.discriminators` returns of all definitions what distinguishes them, and
only those that are wanted are read whole, with the schemas that they name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import orjson

from lakehouse.domain.bases import definition_of
from lakehouse.errors import SettingsError
from lakehouse.match.definition.compiled import OWN_PROTOCOL
from lakehouse.match.payload.schemas import SchemaVersion, names_others, schema_xids
from lakehouse.readmodel.snapshotview import Discriminators, Entity, View
from lakehouse.text.jsontext import canonical, decoded, pointer_of
from lakehouse.text.names import JsonText, Pointer, RegistryId, Xid
from lakehouse.text.xid import last_id, xid_of, xid_of_resource, xid_of_version

MESSAGE_COLUMNS = ("registryid", "xid", "group_xid", "version_xid", "chain_status", "envelope", "protocol", "dataschemaformat",
                   "schema_xid", "dataschemauri", "attributes", "inferred", "depends_on")  # fmt: skip
SCHEMA_COLUMNS = ("registryid", "xid", "schema_xid", "isdefault", "format", "schema", "createdat", "labels")
_OWN_OPTIONS = ("topic", "key")  # of an endpoint, which apply to what it carries (END-177, END-183)


@dataclass
class MatchCatalog:
    """What is matched with.

    Attributes:
        messages: rows of definitions, as `definition_of` takes them.
        schemas: Versions of schemas.
        snapshot_id: the snapshot that they are of.
    """

    messages: list[dict[str, Any]] = field(default_factory=list)
    schemas: list[SchemaVersion] = field(default_factory=list)
    snapshot_id: int = 0


@dataclass(frozen=True)
class Scope:
    """Whose messages are candidates; nothing given: all of the catalog.

    Attributes:
        registry: of this registry only.
        group: XID of a message group.
        endpoint: XID of an endpoint: its own messages, and those of the groups that it carries.
        all_versions: Versions that are not the default are tried where no default one matches. Needs Spark.
    """

    registry: RegistryId | None = None
    group: Xid | None = None
    endpoint: Xid | None = None
    all_versions: bool = False

    @property
    def is_narrow(self) -> bool:
        """Return whether an endpoint or a group is asked."""
        return bool(self.group or self.endpoint)


def read_catalog(view: View, scope: Scope, is_wanted: Callable[[Discriminators], bool] | None = None) -> MatchCatalog:
    """Read the definitions of a snapshot that events may be of, with their schemas.

    Args:
        view: the snapshot.
        scope: whose messages are candidates.
        is_wanted: says of a definition, by what distinguishes it, whether it is read; None: all of the scope are.

    Raises:
        SettingsError: the scope names what is not there.
    """
    rows = read_definitions(view, scope, is_wanted)
    for row in rows:
        message = view.entity(row["registryid"], row["xid"])
        row["deprecated"] = message is not None and message.attributes.get("deprecated") is not None
    return MatchCatalog(rows, schema_versions(view, rows), view.definitions_snapshot)


def read_definitions(view: View, scope: Scope, is_wanted: Callable[[Discriminators], bool] | None = None) -> list[dict[str, Any]]:
    """Read effective definitions of a scope, as `definition_of` takes them; what an endpoint adds is in `endpoint`.

    Args:
        view: the snapshot.
        scope: whose messages.
        is_wanted: as in `read_catalog`.

    Raises:
        SettingsError: the scope names what is not there.
    """
    parents = list(_parents(view, scope))
    is_there, rows = False, []
    for registryid, group_xid, options in parents:
        if is_wanted is None:
            results = view.definitions(registryid, group_xid=group_xid)
        else:
            wanted: dict[RegistryId, list[Xid]] = {}
            for discriminators in view.discriminators(registryid, group_xid=group_xid):
                is_there = True
                if is_wanted(discriminators):
                    wanted.setdefault(discriminators.registryid, []).append(discriminators.xid)
            results = (row for registry, xids in wanted.items() for row in view.definitions(registry, xids=xids))
        rows += [row if options is None else row | {"endpoint": options} for row in results]
    if not (rows or is_there or scope.endpoint):
        in_scope([], [], scope)
    return rows


def _parents(view: View, scope: Scope) -> Iterator[tuple[RegistryId | None, Xid | None, dict[Pointer, JsonText] | None]]:
    """Return registry and group of what a scope holds (None: all), and what an endpoint says where its messages say nothing."""
    if not scope.endpoint:
        yield scope.registry or None, scope.group, None
        return
    endpoints = [entity for entity in view.entities(scope.endpoint, scope.registry) if entity.kind == "endpoint"]
    if not endpoints:
        in_scope([], [], Scope(endpoint=scope.endpoint))
    for endpoint in endpoints:
        row = endpoint_row(endpoint)
        for via in dict.fromkeys((endpoint.xid, *(row["messagegroups"] or ()))):
            if scope.group in (None, via):
                yield endpoint.registryid, via, own_options(row)


def endpoint_row(endpoint: Entity) -> dict[str, Any]:
    """Return an endpoint as a row of `endpoints`: registryid, xid, usage, protocol, messagegroups; options as JSON text."""
    attributes = endpoint.attributes
    options = {name: canonical(attributes.get(name) or {}).decode() for name in ("envelopeoptions", "protocoloptions")}
    lists = {name: attributes.get(name) for name in ("usage", "protocol", "messagegroups")}
    return {"registryid": endpoint.registryid, "xid": endpoint.xid, **lists, **options}


def schema_versions(view: View, rows: Iterable[dict[str, Any]], *, with_aliases: bool = False) -> list[SchemaVersion]:
    """Read the Versions of the schemas that definitions name; where one refers to others by `$id`, also those of its registry.

    Args:
        view: the snapshot.
        rows: columns of `effective_messages`.
        with_aliases: an alias has the Versions of what it stands for, as rendering needs it; a match leaves it unresolved.
    """
    wanted: dict[RegistryId, dict[Xid, None]] = {}
    inline: dict[RegistryId, bool] = {}
    for row in rows:
        registryid = row["registryid"]
        for uri in (row["schema_xid"], row["dataschemauri"]):
            wanted.setdefault(registryid, {}).update(dict.fromkeys(schema_xids(uri) if uri else ()))
        inline[registryid] = inline.get(registryid, False) or names_others(row["attributes"].get("/dataschema"))
    results = []
    for registryid, xids in wanted.items():
        own = [version for xid in xids for version in versions_of(view, registryid, xid, with_aliases=with_aliases)]
        if inline[registryid] or any(names_others(version.text) for version in own):
            own_xids = {version.xid for version in own}
            schemaversions = (
                entity for entity in view.below(registryid, xid_of("schemagroups")) if entity.kind == "schemaversion"
            )
            own += [schema_version(entity) for entity in schemaversions if entity.xid not in own_xids and '"$id"' in entity.body]
        results += own
    return results


def versions_of(view: View, registryid: RegistryId, xid: Xid, *, with_aliases: bool = True) -> list[SchemaVersion]:
    """Read the Versions of a schema; an alias has those of what it stands for, under its own XID."""

    def find(schema_xid: Xid) -> dict[str, Any] | None:
        schema = view.entity(registryid, schema_xid)
        return None if schema is None else schema.attributes

    result = definition_of(xid, find) if with_aliases else None
    shown = xid if result is None else result[0]
    versions = [schema_version(version) for version in view.versions(registryid, shown)]
    return [version._replace(xid=xid_of_version(xid, last_id(version.xid)), schema_xid=xid) for version in versions]


def schema_version(entity: Entity) -> SchemaVersion:
    """Return a Version of a schema as the read model holds it."""
    attributes = entity.attributes
    text = decoded(canonical(attributes["schema"])) if attributes.get("schema") is not None else None
    schema_xid = xid_of_resource(entity.xid)
    own = (entity.registryid, entity.xid, schema_xid, bool(attributes.get("isdefault")), attributes.get("format"), text)
    return SchemaVersion(*own, entity.createdat, attributes.get("labels"))


def in_scope(messages: list[dict[str, Any]], endpoints: list[dict[str, Any]], scope: Scope) -> list[dict[str, Any]]:
    """Narrow definitions to a scope; what an endpoint adds is in `endpoint`.

    Raises:
        SettingsError: the scope names what is not there.
    """
    if scope.registry:
        messages = [row for row in messages if row["registryid"] == scope.registry]
        if not messages:
            raise SettingsError(f"--registry {scope.registry}: the catalog holds no message of such a registry.")
    if scope.group:
        messages = [row for row in messages if row["group_xid"] == scope.group]
        if not messages:
            raise SettingsError(
                f"--group {scope.group}: the catalog holds no message of such a group. It is an XID: /messagegroups/ID."
            )
    if scope.endpoint:
        results = [
            endpoint
            for endpoint in endpoints
            if endpoint["xid"] == scope.endpoint and scope.registry in (None, "", endpoint["registryid"])
        ]
        if not results:
            raise SettingsError(f"--endpoint {scope.endpoint}: the catalog holds no such endpoint. It is an XID: /endpoints/ID.")
        carried = {
            (endpoint["registryid"], via): own_options(endpoint)
            for endpoint in results
            for via in (endpoint["xid"], *(endpoint["messagegroups"] or ()))
        }
        messages = [
            row | {"endpoint": carried[row["registryid"], row["group_xid"]]}
            for row in messages
            if (row["registryid"], row["group_xid"]) in carried
        ]
    return messages


def own_options(endpoint: dict[str, Any]) -> dict[Pointer, JsonText]:
    """Return what an endpoint says where its messages say nothing: protocol, and Kafka's topic and key."""
    results: dict[Pointer, JsonText] = {}
    if endpoint["protocol"]:
        results[OWN_PROTOCOL] = decoded(orjson.dumps(endpoint["protocol"]))
        if endpoint["protocol"].upper().startswith("KAFKA"):
            options = orjson.loads(endpoint["protocoloptions"] or "{}")
            texts = {name: options[name] for name in _OWN_OPTIONS if isinstance(options.get(name), str)}
            results |= {pointer_of("protocoloptions", name, "value"): decoded(orjson.dumps(text)) for name, text in texts.items()}
    return results
