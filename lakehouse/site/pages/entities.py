"""Pages of what is no message: registries, groups, endpoints, schemas and Versions; and entities as JSON and as text."""

from __future__ import annotations

from typing import Any

from lakehouse.readmodel.detail import rendered
from lakehouse.readmodel.queries import find_referring
from lakehouse.readmodel.snapshotview import Entity
from lakehouse.site.addresses import MEMBERS, path_of
from lakehouse.site.pagecontext import Page, PageContext
from lakehouse.site.pages.map import drawing_of
from lakehouse.site.pages.past import MOST_ON_PAGE, history_of, pairs_of, states_of
from lakehouse.site.schematext import Readable, readable, whole_text
from lakehouse.site.templating import MEDIA_TYPES, Attributes
from lakehouse.text.jsontext import indented
from lakehouse.text.names import REGISTRY, RegistryId, Xid
from lakehouse.text.xid import xid_of_resource, xid_of_version

_MOST_REFERRING = 60
_MOST_JSON = 6_000
_SHOWN = ("name", "description", "labels", "deprecated", "protocol", "envelope")


def registry_page(page_context: PageContext, registryid: RegistryId, number: int) -> Page | None:
    """Make a page of the groups of a registry."""
    if registryid not in page_context.overview.registries:
        return None
    groups = [group for collection in MEMBERS for group in page_context.overview.groups_of(registryid, collection)]
    path = path_of(registryid, REGISTRY)
    part = page_context.part(groups, path, number, lambda group: _group_row(page_context, group))
    if part is None:
        return None
    entity = page_context.entity(registryid, REGISTRY)
    attributes = Attributes(entity.attributes if entity is not None else {})
    return page_context.page(
        "registry.html", part.at(number), registryid=registryid, entity=entity, attributes=attributes, part=part
    )


def _group_row(page_context: PageContext, group: Entity) -> dict[str, Any]:
    return {
        "entity": group,
        "attributes": Attributes(group.attributes),
        "members": len(page_context.overview.members[group.registryid, group.xid]),
        "is_refused": page_context.overview.is_refused(group.registryid, group.xid),
    }


def group_page(page_context: PageContext, group: Entity, number: int) -> Page | None:
    """Make a page of the members of a group."""
    registryid, xid = group.registryid, group.xid
    path = path_of(registryid, xid)
    read = _schema_row if xid.startswith("/schemagroups/") else _message_row
    part = page_context.part(
        page_context.overview.members[registryid, xid],
        path,
        number,
        lambda member_xid: read(page_context, registryid, member_xid),
    )
    if part is None:
        return None
    is_first = number == 1
    attributes = Attributes(group.attributes)
    endpoints = _carriers(page_context, group) if group.kind == "group" and is_first else []
    return page_context.page(
        "group.html",
        part.at(number),
        entity=group,
        attributes=attributes,
        facts=facts_of(attributes),
        part=part,
        endpoints=endpoints,
        drawn=drawing_of(page_context, group) if is_first and not xid.startswith("/schemagroups/") else None,
        refused=page_context.overview.refused.get((registryid, xid), [])[:50],
        findings=page_context.overview.findings_by_xid.get((registryid, xid), [])[:50],
        history=history_of(page_context, registryid, xid)[:MOST_ON_PAGE] if is_first else [],
    )


def facts_of(attributes: dict[str, Any], *shown: str) -> list[tuple[str, str]]:
    """List attributes that have no own place on a page, as name and text; `shown`: names of those that have one."""
    return [
        (name, value if isinstance(value, str) else indented(value))
        for name, value in sorted(attributes.items())
        if name not in (*_SHOWN, *shown) and value is not None
    ]


def _message_row(page_context: PageContext, registryid: RegistryId, xid: Xid) -> dict[str, Any]:
    entity = page_context.entity(registryid, xid)
    definition = page_context.definition(registryid, xid)
    own = entity.attributes if entity is not None else {}
    if definition is None:
        version = page_context.entity(registryid, xid_of_version(xid, own.get("defaultversionid")))
        details = version.attributes if version is not None else {}
        definition = {"name": details.get("name"), "description": details.get("description"), "ce_type": None, "address": None}
    return {
        "xid": xid,
        "name": definition["name"],
        "description": definition["description"],
        "detail": definition["address"] or definition["ce_type"],
        "family": page_context.overview.family(registryid, xid),
        "deprecated": own.get("deprecated") is not None,
        "labels": definition.get("labels"),
        "is_refused": page_context.overview.is_refused(registryid, xid),
        "alias": own.get("xref"),
    }


def _schema_row(page_context: PageContext, registryid: RegistryId, xid: Xid) -> dict[str, Any]:
    entity = page_context.entity(registryid, xid)
    own = entity.attributes if entity is not None else {}
    version = page_context.entity(registryid, xid_of_version(xid, own.get("defaultversionid")))
    details = version.attributes if version is not None else {}
    return {
        "xid": xid,
        "name": details.get("name") or own.get("name"),
        "description": details.get("description") or own.get("description"),
        "detail": details.get("format"),
        "family": "",
        "deprecated": own.get("deprecated") is not None,
        "labels": details.get("labels"),
        "is_refused": page_context.overview.is_refused(registryid, xid),
        "alias": own.get("xref"),
    }


def _carriers(page_context: PageContext, group: Entity) -> list[dict[str, Any]]:
    xids = find_referring(page_context.view, group.registryid, group.xid, "messagegroups", _MOST_REFERRING)
    results = [page_context.entity(group.registryid, carrier_xid) for carrier_xid in xids]
    return [_group_row(page_context, carrier) for carrier in results if carrier is not None]


def schema_of(page_context: PageContext, schema: Entity) -> Readable | None:
    """Return a Version of a schema, or the default one of a schema, read; None: it has no text."""
    if schema.kind == "schemaversion":
        return _text(schema)
    return _text(_default_of(schema, page_context.view.versions(schema.registryid, schema.xid)))


def _default_of(schema: Entity, versions: list[Entity]) -> Entity | None:
    default = xid_of_version(schema.xid, schema.attributes.get("defaultversionid"))
    return next((version for version in versions if version.xid == default), versions[-1] if versions else None)


def schema_page(page_context: PageContext, schema: Entity) -> Page:
    """Make the page of a schema: its default Version, its other Versions, and who uses it."""
    registryid, xid = schema.registryid, schema.xid
    versions = page_context.view.versions(registryid, xid)
    version = _default_of(schema, versions)
    history = history_of(page_context, registryid, xid)
    states = states_of(history, versions)
    return page_context.page(
        "schema.html",
        path_of(registryid, xid),
        entity=schema,
        attributes=Attributes(schema.attributes | (version.attributes if version is not None else {})),
        version=version,
        versions=versions[:200],
        text=_text(version),
        messages=_users(page_context, registryid, xid),
        history=history[:MOST_ON_PAGE],
        changes=len(history),
        states=states,
        pairs=pairs_of(states),
        findings=page_context.overview.findings_by_xid.get((registryid, xid), [])[:50],
    )


def version_page(page_context: PageContext, version: Entity) -> Page:
    """Make the page of a Version of a message or schema."""
    resource_xid = xid_of_resource(version.xid)
    is_schema = version.kind == "schemaversion"
    attributes = {name: value for name, value in version.attributes.items() if name != "schema"}
    body = indented(attributes)
    siblings = page_context.view.versions(version.registryid, resource_xid)[:200]
    return page_context.page(
        "version.html",
        path_of(version.registryid, version.xid),
        entity=version,
        resource_xid=resource_xid,
        attributes=Attributes(version.attributes),
        versions=siblings,
        text=_text(version) if is_schema else None,
        body=body[:_MOST_JSON] + ("\n…" if len(body) > _MOST_JSON else ""),
        messages=_users(page_context, version.registryid, version.xid) if is_schema else [],
    )


def _text(version: Entity | None) -> Readable | None:
    if version is None or "schema" not in version.attributes:
        return None
    return readable(version.attributes["schema"], version.attributes.get("format"))


def _users(page_context: PageContext, registryid: RegistryId, xid: Xid) -> list[str]:
    """List messages whose schema this is, or a Version of it."""
    results: set[str] = set()
    for relation in ("dataschemauri", "dataschemaxid"):
        results |= {
            xid_of_resource(referring_xid)
            for referring_xid in find_referring(page_context.view, registryid, xid, relation, _MOST_REFERRING)
        }
    return sorted(results)


def json_page(page_context: PageContext, registryid: RegistryId, xid: Xid) -> Page | None:
    """Return an entity as the JSON of a document."""
    result = rendered(page_context.view, registryid, xid)
    if result is None:
        return None
    text = indented(result).encode()
    return Page(path_of(registryid, xid, ending="json"), text, MEDIA_TYPES["json"])


def raw_page(page_context: PageContext, version: Entity) -> Page | None:
    """Return the text of a schema, whole."""
    schema = version.attributes.get("schema")
    if schema is None:
        return None
    path = path_of(version.registryid, version.xid, "raw", "txt")
    return Page(path, whole_text(schema).encode("utf-8", "replace"), MEDIA_TYPES["txt"])
