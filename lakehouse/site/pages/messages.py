"""The page of a message: what it is, what is in effect and where that comes from, schema, endpoints, history, examples."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

import orjson
from markupsafe import Markup

from lakehouse.domain.effective import payload_reference
from lakehouse.domain.flatattributes import flat_attributes_of_body
from lakehouse.domain.references import schema_places, schema_reference
from lakehouse.domain.schemalookup import version_at
from lakehouse.errors import LakehouseError
from lakehouse.extras import not_installed
from lakehouse.match.definition.scope import endpoint_row, versions_of
from lakehouse.match.payload.schemas import SchemaVersion, schema_xids
from lakehouse.readmodel.flattened import attributes_of, chain_of, endpoints_of, steps_of
from lakehouse.readmodel.queries import extending
from lakehouse.readmodel.snapshotview import Entity
from lakehouse.render.protocolbinding import Endpoint, endpoint_of
from lakehouse.render.selected import Selected
from lakehouse.site.addresses import path_of
from lakehouse.site.pagecontext import Page, PageContext
from lakehouse.site.pages.messageroute import declared_route, route_of
from lakehouse.site.pages.past import MOST_ON_PAGE, history_of, pairs_of, states_of
from lakehouse.site.pages.sentview import sent_of
from lakehouse.site.schematext import Readable, readable
from lakehouse.site.templating import Attributes, render_part, shown, shown_share
from lakehouse.text.jsontext import indented
from lakehouse.text.names import RegistryId, Xid
from lakehouse.text.timestamps import microseconds, rfc3339
from lakehouse.text.xid import xid_of_group, xid_of_resource, xid_of_version

if TYPE_CHECKING:
    from lakehouse.render.renderruns import Command

_MOST_RELATED = 40
_MOST_EXAMPLE = 3_000
_MOST_EXAMPLES = 6
_MOST_ENDPOINTS = 4  # to which the page writes a command
_MOST_COMMAND = 6_000
_MOST_ROWS = 5_000  # of tables of attributes that are kept as HTML


def message_page(page_context: PageContext, entity: Entity) -> Page:
    """Make the page of a message."""
    registryid, xid = entity.registryid, entity.xid
    definition = page_context.definition(registryid, xid)
    versions = page_context.view.versions(registryid, xid)
    default = _default_version(page_context, entity, versions)
    attributes = entity.attributes
    own = Attributes(attributes | (default.attributes if default is not None else {}))
    details = _effective(page_context, definition) if definition is not None else _declared(default)
    sections: list[Section] = details["sections"]
    effective = {row.pointer: row.part("value").text for section in sections for row in section.rows}
    path = path_of(registryid, xid)
    history = history_of(page_context, registryid, xid, details["bases"])
    states = states_of(history, versions)
    through = _through(page_context, registryid, xid)
    route = (
        declared_route(page_context, entity, effective, through)
        if definition is None
        else route_of(page_context, definition, details["endpoints"], through)
    )
    return page_context.page(
        "message.html",
        path,
        entity=entity,
        attributes=own,
        definition=definition,
        name=effective.get("/name") or own.get("name"),
        description=effective.get("/description") or own.get("description"),
        protocol=effective.get("/protocol"),
        envelope=effective.get("/envelope"),
        content_type=effective.get("/datacontenttype"),
        family=page_context.overview.family(registryid, xid),
        required=_required(sections),
        versions=[] if len(versions) < 2 and not (versions and default is None) else versions,
        default=default,
        schema=_schema(page_context, registryid, definition, own),
        related=_related(page_context, registryid, xid, details["chain"]),
        route=route,
        findings=page_context.overview.findings_by_xid.get((registryid, xid), [])[:50],
        history=history[:MOST_ON_PAGE],
        changes=len(history),
        pairs=pairs_of(states),
        states=states,
        sent=sent_of(page_context, registryid, [xid]),
        **_examples(page_context, entity, definition),
        curl=_curl(page_context, registryid, xid, path),
        **details,
    )


def _default_version(page_context: PageContext, entity: Entity, versions: list[Entity]) -> Entity | None:
    """Return the Version that counts: the default one, of what `xref` names where it names something."""
    xref = entity.attributes.get("xref")
    if isinstance(xref, str):
        other = page_context.entity(entity.registryid, Xid(xref))
        if other is None or isinstance(other.attributes.get("xref"), str):
            return None
        return _default_version(page_context, other, page_context.view.versions(entity.registryid, Xid(xref)))
    wanted = xid_of_version(entity.xid, entity.attributes.get("defaultversionid"))
    return next((version for version in versions if version.xid == wanted), versions[-1] if versions else None)


def _effective(page_context: PageContext, definition: dict[str, Any]) -> dict[str, Any]:
    depth = page_context.style.max_chain_depth
    steps = steps_of(page_context.view, definition, depth)
    chain = chain_of(page_context.view, definition, depth, steps)
    bases = [xid_of_resource(link["base_version_xid"]) for link in chain if link["base_version_xid"]]
    own = xid_of_resource(definition["version_xid"]) if definition["version_xid"] else definition["xid"]
    return {
        "sections": sections_of(attributes_of(page_context.view, definition, depth, steps)),
        "chain": [link for link in chain if link["depth"]],
        "chain_status": definition["chain_status"],
        "bases": [base for base in dict.fromkeys([own, *bases]) if base != definition["xid"]],
        "endpoints": endpoints_of(
            page_context.view, definition, page_context.carriers(definition["registryid"], definition["group_xid"])
        ),
    }


def _declared(default: Entity | None) -> dict[str, Any]:
    """Return what a message declares, where it has no effective definition."""
    rows = flat_attributes_of_body(default.body) if default is not None else []
    details: dict[str, Any] = {"origin": "declared", "declared_by": default.xid if default else None, "depth": 0}
    flat_attributes = [{"pointer": pointer, "value": value} | details for pointer, value in rows]
    return {"sections": sections_of(flat_attributes), "chain": [], "chain_status": "none", "bases": [], "endpoints": []}


def _required(sections: list[Section]) -> list[dict[str, Any]]:
    """List the attributes without which a message does not conform, by who says so: itself, its bases, the specification."""
    results: dict[tuple[str, str | None], list[str]] = {}
    for row in (row for section in sections for row in section.rows if row.is_required):
        origin = row.part("required").origin
        declared_by = xid_of_resource(Xid(row.required_by)) if row.required_by and origin == "inherited" else None
        results.setdefault((origin, declared_by), []).append(row.name)
    order = ("declared", "inherited", "inferred")
    return [
        {"origin": origin, "declared_by": declared_by, "names": names}
        for (origin, declared_by), names in sorted(
            results.items(), key=lambda entry: (order.index(entry[0][0]), entry[0][1] or "")
        )
    ]


def _related(page_context: PageContext, registryid: RegistryId, xid: Xid, chain: list[dict[str, Any]]) -> dict[str, Any]:
    """Find messages that extend this one, and others that extend the same base."""
    children = extending(page_context.view, registryid, xid, _MOST_RELATED + 1)
    bases = [xid_of_resource(link["base_version_xid"]) for link in chain if link["base_version_xid"]]
    siblings: list[Xid] = []
    if bases:
        siblings = [
            sibling for sibling in extending(page_context.view, registryid, bases[0], _MOST_RELATED + 2) if sibling != xid
        ]
    details = {"children": [child for child in children if child != xid], "siblings": siblings}
    rows = [
        {"xid": related_xid, "how": how, "family": page_context.overview.family(registryid, related_xid)}
        for name, how in (("children", "extends this one"), ("siblings", "extends the same base"))
        for related_xid in details[name][:_MOST_RELATED]
    ]
    return {"rows": rows, "is_more": any(len(related) > _MOST_RELATED for related in details.values())}


def _through(page_context: PageContext, registryid: RegistryId, xid: Xid) -> list[dict[str, Any]]:
    """List the endpoints that carry messages that extend this one, at first or second hand: XID, and these messages."""
    results: dict[Xid, list[Xid]] = {}
    seen, left = {xid}, [xid]
    while left and len(seen) <= _MOST_RELATED:
        variants = [
            variant for variant in extending(page_context.view, registryid, left.pop(0), _MOST_RELATED) if variant not in seen
        ]
        seen.update(variants)
        left += variants
        for variant in variants:
            for endpoint in page_context.carriers(registryid, xid_of_group(variant)):
                results.setdefault(endpoint.xid, []).append(variant)
    return [{"endpoint_xid": endpoint, "variants": variants} for endpoint, variants in sorted(results.items())]


def _schema(
    page_context: PageContext, registryid: RegistryId, definition: dict[str, Any] | None, own: dict[str, Any]
) -> dict[str, Any] | None:
    """Find the schema of the payload, and read it."""
    attributes = definition["attributes"] if definition else {}
    written = orjson.loads(attributes["/dataschemaformat"]) if "/dataschemaformat" in attributes else own.get("dataschemaformat")
    format_ = written if isinstance(written, str) else None
    inline = orjson.loads(attributes["/dataschema"]) if "/dataschema" in attributes else own.get("dataschema")
    if inline is not None:
        return {"readable": readable(inline, format_), "format": format_, "xid": None, "uri": None, "versions": []}
    uri = definition["dataschemauri"] if definition else own.get("dataschemauri")
    reference = payload_reference(definition) if definition else schema_reference(uri, own.get("dataschemaxid"))
    if reference is None:
        return None
    result = page_context.remember(
        ("schema", registryid, reference), lambda: _version_of(page_context, registryid, reference), 200
    )
    if result is None:
        return {"readable": None, "format": format_, "xid": None, "uri": reference, "versions": []}
    version, versions = result
    of_version = version.attributes
    format_ = format_ or of_version.get("format")
    text = readable(of_version["schema"], format_) if "schema" in of_version else None
    return {
        "readable": text,
        "format": format_,
        "xid": version.xid,
        "uri": of_version.get("schemauri") or uri,
        "versions": versions,
    }


def payload_of(page_context: PageContext, message: Entity) -> Readable | None:
    """Return the schema of the payload of a message, or of a Version as it declares it, read; None: it is not in the catalog."""
    is_version = message.kind == "version"
    definition = None if is_version else page_context.definition(message.registryid, message.xid)
    schema = _schema(page_context, message.registryid, definition, message.attributes if is_version else {})
    return None if schema is None else schema["readable"]


def _version_of(page_context: PageContext, registryid: RegistryId, reference: str) -> tuple[Entity, list[str]] | None:
    """Find the Version of a schema that a reference names (without one: the default Version); with the XIDs of all."""

    def find(xid: Xid) -> dict[str, Any] | None:
        schema = page_context.entity(registryid, xid)
        return None if schema is None else schema.attributes

    for place in schema_places(reference):
        xid = version_at(place, find)
        versions = [] if xid is None else page_context.view.versions(registryid, xid_of_resource(xid))
        result = next((version for version in versions if version.xid == xid), None)
        if result is not None:
            return result, [version.xid for version in versions]
    return None


class MadeUp(NamedTuple):
    """What a page shows that was made up from a definition.

    Attributes:
        examples: over each protocol, as of `examples_of`.
        commands: what sends them.
        more_commands: how many endpoints have no command here because of their number.
        payload: of the examples, as a JSON value, where they hold its bytes; None: they show it, or have none.
    """

    examples: list[dict[str, Any]]
    commands: Sequence[Command] = ()
    more_commands: int = 0
    payload: Any = None


def _examples(page_context: PageContext, entity: Entity, definition: dict[str, Any] | None) -> dict[str, Any]:
    """Make up a message for each protocol that it goes over, and commands that send it; or say why there is none."""
    try:
        made = MadeUp([]) if definition is None else _made_up(page_context, entity, definition)
    except ModuleNotFoundError as error:
        made = MadeUp([{"as": None, "error": f"{not_installed(error)}."}])
    except LakehouseError as error:
        made = MadeUp([{"as": None, "error": str(error)}])
    cut = []
    for example in made.examples[:_MOST_EXAMPLES]:
        text = _text(example["example"]) if "example" in example else None
        cut.append({"as": example["as"], "text": text, "error": example.get("error")})
    return {
        "examples": cut,
        "payload": None if made.payload is None else _text(made.payload),
        "commands": [_cut(command) for command in made.commands],
        "more_commands": made.more_commands,
    }


def _text(value: Any) -> str:
    text = indented(value)
    return text if len(text) <= _MOST_EXAMPLE else f"{text[:_MOST_EXAMPLE]}\n…"


def _cut(command: Command) -> Command:
    length = len(command.text)
    return command if length <= _MOST_COMMAND else command._replace(text="", error=f"it would have {length:,} characters")


def _made_up(page_context: PageContext, entity: Entity, definition: dict[str, Any]) -> MadeUp:
    """Return examples and commands of a message, which are rendered once for each that is looked at often.

    Raises:
        ModuleNotFoundError: the extra `match` is not installed.
        LakehouseError: the definition cannot be rendered.
    """
    from lakehouse.render import renderruns  # noqa: PLC0415 - extra `match`

    changed = rfc3339(microseconds(str(page_context.commit_of(entity.snapshot_id)["committed_at"]))[0])

    def made() -> MadeUp:
        selected = _selected(page_context, definition)
        # A fixed time, so that the page stays the same.
        key = ("renderer", definition["registryid"], payload_reference(definition), changed)
        renderer = page_context.remember(key, lambda: renderruns.renderer_of(selected, changed), 50)
        samples = renderruns.samples_of(selected, renderer)
        endpoints = renderruns.sending(definition, selected.endpoints)
        commands = renderruns.commands_of(samples, replace(selected, endpoints=endpoints[:_MOST_ENDPOINTS]), renderer)
        more = {endpoint.xid for endpoint in endpoints[_MOST_ENDPOINTS:]} - {command.endpoint for command in commands}
        payload = renderruns.payload_of_samples(samples, selected, renderer)
        return MadeUp(renderruns.examples_of(samples), commands, len(more), payload)

    return page_context.remember(("examples", entity.registryid, entity.xid), made, 200)


def _selected(page_context: PageContext, definition: dict[str, Any]) -> Selected:
    """Gather what rendering needs, as `selected_at`; endpoints and schemas that many messages share are read once."""
    registryid, group_xid, reference = definition["registryid"], definition["group_xid"], payload_reference(definition)

    def every() -> list[Endpoint]:
        return [endpoint_of(endpoint_row(entity)) for entity in page_context.overview.groups_of(registryid, "endpoints")]

    def carriers() -> list[Endpoint]:
        return [
            endpoint
            for endpoint in page_context.remember(("endpoints", registryid), every)
            if endpoint.carries(registryid, group_xid)
        ]

    def schemas() -> list[SchemaVersion]:
        xids = schema_xids(reference) if reference else []
        return [version for xid in xids for version in versions_of(page_context.view, registryid, xid)]

    endpoints = page_context.remember(("carriers", registryid, group_xid), carriers, 100)
    versions = page_context.remember(("schemas", registryid, reference), schemas, 200)
    return Selected([definition], endpoints, versions, page_context.view.snapshot_id)


def _curl(page_context: PageContext, registryid: RegistryId, xid: Xid, path: str) -> str:
    """Return the line that fetches the message as JSON; empty: nobody knows from where."""
    if page_context.style.api:
        place = f"/reg-{quote(registryid, safe='')}{quote(xid, safe='/:@~$!&()*+,;=-._')}"
        at = f"/at/{page_context.style.at}" if page_context.style.at is not None else ""
        return f"curl '{page_context.style.api}{at}{place}'"
    if page_context.style.base_url:
        return f"curl '{page_context.style.base_url.rstrip('/')}/{path.removesuffix('.html')}.json'"
    return ""


_DECLARATION = re.compile(r"\A/(envelopemetadata|protocoloptions)/(.+)/(type|value|required|description|specurl)\Z")
_PARTS = ("value", "type", "required", "description", "specurl")
_TYPING = ("type", "required")
_INFERRED = "inferred"
_TITLES = {
    "envelopemetadata": "Envelope attributes",
    "protocoloptions": "Protocol options",
    "data": "Payload",
    "": "Definition",
}
_ORDER = ("type", "source", "id", "subject", "time", "specversion", "datacontenttype", "dataschema")


class DeclaredValue(NamedTuple):
    """One value of a declaration.

    Attributes:
        text: as it is shown.
        origin: declared, inherited or inferred.
    """

    text: str = ""
    origin: str = ""


_UNDECLARED = DeclaredValue()


class AttributeRow(NamedTuple):
    """An attribute.

    Attributes:
        name: as shown.
        pointer: JSON Pointer of the declaration, or of the attribute.
        parts: value, type, required, description, specurl: what is declared of it, by name.
        origin: of what the definition itself says of it; `inferred` when it says nothing.
        declared_by: XID of the Version that says so; None: none does.
        required_by: XID of the Version that says whether it is required; None: none does.
    """

    name: str
    pointer: str
    parts: dict[str, DeclaredValue]
    origin: str
    declared_by: str | None
    required_by: str | None

    def part(self, name: str) -> DeclaredValue:
        """Return a part; an empty one where nothing is declared."""
        return self.parts.get(name, _UNDECLARED)

    @property
    def is_required(self) -> bool:
        """Return whether a message without it does not conform."""
        return self.part("required").text == "true"

    @property
    def is_declared(self) -> bool:
        """Return whether the definition itself declares any of it."""
        return any(part.origin == "declared" for part in self.parts.values())


class Section(NamedTuple):
    """Attributes of one kind, under a heading; has_types: any of them is declared with a type, or as required or not."""

    name: str
    title: str
    rows: list[AttributeRow]
    has_types: bool

    def shown(self, row: AttributeRow, inherited_from: str) -> Markup:
        """Return a row as HTML, made once for all messages that have it alike; inherited_from: a link to the base, or empty."""
        parts = tuple(row.parts.items())
        return _row_shown(row.name, row.pointer, parts, row.origin, self.has_types, inherited_from, shown_share())


@lru_cache(_MOST_ROWS)
def _row_shown(
    name: str,
    pointer: str,
    parts: tuple[tuple[str, DeclaredValue], ...],
    origin: str,
    has_types: bool,
    inherited_from: str,
    _share: float,  # of long texts that are shown, which the template follows
) -> Markup:
    row = AttributeRow(name, pointer, dict(parts), origin, None, None)
    return render_part("attribute.html", row=row, has_types=has_types, inherited_from=inherited_from)


def sections_of(attributes: Iterable[dict[str, Any]]) -> list[Section]:
    """Gather attributes.

    Args:
        attributes: rows of `flat_attributes`: pointer, value, origin, declared_by, depth.
    """
    parts_by_key: dict[tuple[str, str, str], list[tuple[str, dict[str, Any]]]] = {}
    for attribute in attributes:
        pointer = attribute["pointer"]
        match = _DECLARATION.match(pointer)
        if match is not None:
            key, part = (match[1], match[2], pointer[: -len(match[3]) - 1]), match[3]
        else:
            first, _, rest = pointer[1:].partition("/")
            section = first if first in ("envelopemetadata", "protocoloptions") else "data" if first.startswith("data") else ""
            name = rest if section in ("envelopemetadata", "protocoloptions") else pointer[1:]
            key, part = (section, name, pointer), "value"
        parts_by_key.setdefault(key, []).append((part, attribute))
    sections: dict[str, list[AttributeRow]] = {"envelopemetadata": [], "protocoloptions": [], "data": [], "": []}
    for (section, name, pointer), parts in parts_by_key.items():
        sections[section].append(_row(name, pointer, parts))
    return [
        Section(name, _TITLES[name], sorted(rows, key=_place), any(not row.parts.keys().isdisjoint(_TYPING) for row in rows))
        for name, rows in sections.items()
        if rows
    ]


def _row(name: str, pointer: str, parts: list[tuple[str, dict[str, Any]]]) -> AttributeRow:
    details: dict[str, DeclaredValue] = {}
    for part, attribute in parts:
        if part not in details or details[part].origin == _INFERRED:  # what is written comes before what is inferred
            details[part] = DeclaredValue(shown(attribute["value"]), attribute["origin"])
    declared = [
        attribute for _, attribute in sorted(parts, key=lambda pair: _PARTS.index(pair[0])) if attribute["origin"] != _INFERRED
    ]
    first = min(declared, key=lambda attribute: attribute["depth"] if attribute["depth"] is not None else 10**6, default=None)
    unescaped = name.replace("~1", "/").replace("~0", "~")
    if first is None:
        return AttributeRow(unescaped, pointer, details, _INFERRED, None, None)
    required_by = next(
        (attribute["declared_by"] for part, attribute in parts if part == "required" and attribute["declared_by"]), None
    )
    return AttributeRow(unescaped, pointer, details, first["origin"], first["declared_by"], required_by)


def _place(row: AttributeRow) -> tuple[int, str]:
    return (_ORDER.index(row.name) if row.name in _ORDER else len(_ORDER), row.name)
