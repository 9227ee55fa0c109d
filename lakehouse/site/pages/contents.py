"""Which page a path names, and all paths of a site."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from urllib.parse import unquote

from lakehouse.errors import SnapshotNotFound
from lakehouse.readmodel.snapshotview import Entity
from lakehouse.site import addresses
from lakehouse.site.addresses import (
    MEMBERS,
    PageAddress,
    id_of_path_part,
    path_of,
    path_of_document,
    path_of_rule,
    path_of_snapshot,
    read_path,
)
from lakehouse.site.markdown import markdown_of
from lakehouse.site.overview import NO_PROTOCOL, Overview, carried_xids
from lakehouse.site.pagecontext import PER_PAGE, Page, PageContext
from lakehouse.site.pages import (
    consequences,
    endpointview,
    entities,
    lists,
    map,
    messages,
    past,
    search,
    snapshotpages,
)
from lakehouse.site.schematext import Readable
from lakehouse.site.templating import ASSETS, MEDIA_TYPES, asset
from lakehouse.text.names import REGISTRY, RegistryId, Xid

MISSING = "404.html"
_LISTS = {
    addresses.SNAPSHOTS: snapshotpages.snapshots_page,
    addresses.FINDINGS: lists.findings_page,
    addresses.DOCUMENTS: lists.documents_page,
    addresses.MAP: map.map_page,
    addresses.NAMES: lists.names_page,
}
_HIT_LISTS = {f"{addresses.SEARCH.removesuffix('html')}{ending}": ending for ending in search.LISTS}


def find_page(page_context: PageContext, path: str, query: Mapping[str, str] | None = None) -> Page | None:
    """Make the page that a path names; None: there is none.

    Args:
        page_context: of the snapshot.
        path: relative to the root of the site.
        query: parameters, of a server.

    Raises:
        SnapshotNotFound: the path names a snapshot that is not there.
    """
    if path.startswith("assets/") and path.removeprefix("assets/") in ASSETS:
        return Page(path, asset(path.removeprefix("assets/")), MEDIA_TYPES[path.rpartition(".")[2]])
    if path == MISSING:
        return missing_page(page_context)
    if path.endswith(".md"):
        page = find_page(page_context, f"{path[:-3]}.html", query)
        return None if page is None else markdown_page(page)
    if path == search.INDEX:
        return None if page_context.style.is_served else search.search_index(page_context)
    if page_context.style.is_served and path in _HIT_LISTS:
        return search.search_list(page_context, _wanted(query or {}), _HIT_LISTS[path])
    if path in consequences.FEEDS:
        is_breaking = path == consequences.FEEDS[1] or "breaking" in (query or {})
        return snapshotpages.feed(page_context, consequences.FEEDS[is_breaking], is_breaking)
    address = read_path(path)
    if address is None or (address.part == "p" and address.number < 2):
        return None
    if not address.folder:
        return _of_the_whole(page_context, address, query or {})
    if address.folder[0].startswith("reg-"):
        return _of_entity(page_context, address, query or {})
    if len(address.folder) > 1 or address.ending not in ("html", "json"):
        return None
    return _of_folder(page_context, address, path)


def markdown_page(page: Page) -> Page | None:
    """Return the Markdown of a page of HTML; None: it has none."""
    if page.path == MISSING or not page.path.endswith(".html"):
        return None
    return Page(f"{page.path[:-5]}.md", markdown_of(page.body.decode()).encode(), MEDIA_TYPES["md"])


def missing_page(page_context: PageContext, path: str = MISSING, problem: str = "") -> Page:
    """Make the page for an address without one.

    Of an entity that was deleted, it says when, and leads to its last state; of one that is not there yet, to its first.

    Args:
        page_context: of the snapshot.
        path: the address.
        problem: why there is none, in a sentence; empty: it is only said that there is none.
    """
    address = read_path(path)
    key = (
        _key_of(page_context, address)
        if address is not None and address.folder[:1] and address.folder[0].startswith("reg-")
        else None
    )
    deletion = None if key is None else past.deletion_of(page_context, *key)
    coming = None if key is None or deletion is not None else past.coming_of(page_context, *key)
    return page_context.page("missing.html", path, key=key, deletion=deletion, coming=coming, problem=problem)


def _of_the_whole(page_context: PageContext, address: PageAddress, query: Mapping[str, str]) -> Page | None:
    name = f"{address.name}.{address.ending}"
    if address.part in ("", "p") and name in _LISTS:
        return _LISTS[name](page_context, address.number)
    if address.name.startswith("reg-") and address.part in ("", "p"):
        written = id_of_path_part(address.name.removeprefix("reg-"), page_context.overview.registries)
        if written is None or written not in page_context.overview.registries:
            return None
        registryid = RegistryId(written)
        if address.ending == "json" and not address.part:
            return entities.json_page(page_context, registryid, REGISTRY)
        return entities.registry_page(page_context, registryid, address.number) if address.ending == "html" else None
    if address.part:
        return None
    if name == addresses.HOME:
        return lists.home_page(page_context)
    if name == addresses.LLMS:
        return lists.home_page(page_context, "llms.txt", addresses.LLMS)._replace(media_type=MEDIA_TYPES["txt"])
    if name == addresses.SEARCH:
        return search.search_page(page_context, _wanted(query))
    if name == addresses.COMPARE:
        number = query.get("page", "1")
        page = int(number) if number.isdigit() and len(number) < 6 else 1
        return snapshotpages.chosen_page(page_context, query.get("a", "")[:100], query.get("b", "")[:100], page)
    return None


def _wanted(query: Mapping[str, str]) -> search.Wanted:
    """Return what the parameters of a search ask for."""
    number = query.get("page", "1")
    details = {parameter: query.get(parameter, "")[:400] for parameter in ("q", "group", "label", "order", *search.FACETS)}
    if details["protocol"] != NO_PROTOCOL:
        details["protocol"] = details["protocol"].upper()
    return search.Wanted(**details, page=int(number) if number.isdecimal() and len(number) < 10 else 1)


def _of_folder(page_context: PageContext, address: PageAddress, path: str) -> Page | None:
    """Find rules, snapshots, documents and comparisons of snapshots."""
    folder = address.folder[0]
    if address.ending == "json":
        pair = past.tokens_of(address.name) if folder == "compare" else None
        return snapshotpages.differences_json(page_context, *pair) if pair is not None else None
    if folder == "findings":
        rule_id = id_of_path_part(address.name)
        return None if rule_id is None else lists.rule_page(page_context, rule_id, address.number)
    if folder == "snapshots" and address.name.isdigit() and len(address.name) < 18:
        return snapshotpages.snapshot_page(page_context, int(address.name), address.number)
    if folder == "documents":
        documents = page_context.remember(
            ("documents",), lambda: {path_of_document(*key): key for key in page_context.overview.documents}
        )
        return lists.document_page(page_context, *documents[path]) if path in documents else None
    if folder == "compare":
        before, result, after = address.name.partition(addresses.TO)
        at = "" if page_context.style.is_served else path  # a server redirects to the path of the pair
        return (
            snapshotpages.compare_page(page_context, before, after, address.number, at) if result and before and after else None
        )
    return None


def _of_entity(page_context: PageContext, address: PageAddress, query: Mapping[str, str]) -> Page | None:
    key = _key_of(page_context, address)
    entity = None if key is None else page_context.entity(*key)
    return None if entity is None else _page_of(page_context, entity, address, query)


def _key_of(page_context: PageContext, address: PageAddress) -> tuple[RegistryId, Xid] | None:
    """Return registry and XID of the entity that an address names, whether it is in the catalog or not; None: it names none."""
    registry = id_of_path_part(address.folder[0].removeprefix("reg-"), page_context.overview.registries)
    if registry is None or len(address.folder) not in (2, 3, 4) or address.folder[1] not in MEMBERS:
        return None
    collection = address.folder[1]
    registryid, at = RegistryId(registry), f"/{collection}"
    for name in (*address.folder[2:], address.name):
        entityid = id_of_path_part(name, (sibling.rpartition("/")[2] for sibling in _siblings(page_context, registryid, at)))
        if entityid is None:
            return None
        below = {1: "", 2: f"/{MEMBERS[collection]}", 4: "/versions"}[at.count("/")]
        at += f"{below}/{entityid}"
    return registryid, Xid(at)


def _siblings(page_context: PageContext, registryid: RegistryId, at: str) -> Iterator[Xid]:
    """Return the XIDs of what is below a collection, a group, or a message or schema; looked at when a name was cut."""
    depth = at.count("/")
    if depth == 1:
        yield from (group_xid for registry, group_xid in page_context.overview.groups if registry == registryid)
    elif depth == 2:
        yield from page_context.overview.members.get((registryid, Xid(at)), ())
    else:
        yield from (version.xid for version in page_context.view.versions(registryid, Xid(at)))


def _page_of(page_context: PageContext, entity: Entity, address: PageAddress, query: Mapping[str, str]) -> Page | None:
    depth, part = entity.xid.count("/"), address.part
    if address.ending == "json":
        return entities.json_page(page_context, entity.registryid, entity.xid) if not part else None
    if address.ending == "txt":
        return entities.raw_page(page_context, entity) if part == "raw" and entity.kind == "schemaversion" else None
    if depth == 2:
        page = endpointview.endpoint_page if entity.kind == "endpoint" else entities.group_page
        return page(page_context, entity, address.number) if part in ("", "p") else None
    if depth == 6:
        return entities.version_page(page_context, entity) if not part else None
    if part == "history" and not address.of:
        return past.history_page(page_context, entity)
    if part == "compare":
        return _comparison(page_context, entity, address.of, (query.get("a", "")[:200], query.get("b", "")[:200]))
    if part == addresses.WITH:
        wanted = query.get("other", "")[:800]
        other = past.other_of(page_context, entity, address.of) if address.of else _other(page_context, entity, wanted)
        if other is None:
            return None if address.of else past.choice_page(page_context, entity, wanted)
        readable = _reader_of(entity)
        return past.beside_page(page_context, entity, other, (readable(page_context, entity), readable(page_context, other)))
    if part == "p" and address.name:
        return None
    return messages.message_page(page_context, entity) if entity.kind == "message" else entities.schema_page(page_context, entity)


def _comparison(page_context: PageContext, entity: Entity, of: str, chosen: tuple[str, str]) -> Page | None:
    """Find the comparison of two states that a path names, or a form, which is answered with what is wrong with a state."""
    tokens = past.tokens_of(of) if of else chosen
    try:
        return None if tokens is None else past.comparison_page(page_context, entity, _reader_of(entity), tokens)
    except SnapshotNotFound as error:
        if of:
            raise
        return past.comparison_page(page_context, entity, _reader_of(entity), problem=str(error))


def _reader_of(entity: Entity) -> Callable[[PageContext, Entity], Readable | None]:
    return messages.payload_of if entity.kind == "message" else entities.schema_of


def _other(page_context: PageContext, entity: Entity, text: str) -> Entity | None:
    """Find what a form names to compare with: by XID, id, or the address of its page, which may be of any registry."""
    address = read_path(unquote(text.strip().rpartition("/ui/")[2]))
    is_of_page = address is not None and address.folder[:1] != () and address.folder[0].startswith("reg-")
    key = _key_of(page_context, address) if address is not None and is_of_page else None
    other = None if key is None else page_context.entity(*key)
    return other if other is not None and other.kind == entity.kind else past.named_other(page_context, entity, text)


def all_paths(page_context: PageContext) -> Iterator[str]:
    """Return the paths of all pages of a static site but those of members of groups."""
    overview = page_context.overview
    yield from (f"assets/{name}" for name in ASSETS)
    yield from (addresses.HOME, addresses.LLMS, addresses.SEARCH, MISSING, search.INDEX)
    yield from page_paths(addresses.MAP, map.count_pages(page_context), 1)
    yield from page_paths(addresses.NAMES, lists.count_names(page_context))
    yield from page_paths(addresses.FINDINGS, len(overview.findings_by_rule))
    yield from page_paths(addresses.DOCUMENTS, len(overview.documents))
    upto = [snapshot for snapshot in overview.snapshots if snapshot.snapshot_id <= page_context.view.snapshot_id]
    yield from page_paths(addresses.SNAPSHOTS, len(upto))
    yield from (path_of_document(*key) for key in overview.documents)
    for rule_id, findings in overview.findings_by_rule.items():
        yield from page_paths(path_of_rule(rule_id), len(findings))
    for snapshot in upto:
        number = snapshot.snapshot_id
        yield from page_paths(path_of_snapshot(number), snapshotpages.count_rows(page_context, (number - 1, number)))
    yield from consequences.FEEDS
    yield addresses.COMPARE
    for before, after in snapshotpages.ready_pairs(page_context):
        path = f"{addresses.path_of_differences(before, after).removesuffix('json')}html"
        yield from page_paths(path, snapshotpages.count_rows(page_context, (before, after)) if after > before + 1 else 1)
        yield addresses.path_of_differences(before, after)
    for registryid in overview.registries:
        groups = sum(registry == registryid for registry, _ in overview.groups)
        yield from page_paths(path_of(registryid, REGISTRY), groups)
        yield path_of(registryid, REGISTRY, ending="json")
    for (registryid, xid), group in overview.groups.items():
        yield from (path for path, _ in pages_of_group(overview, group))
        yield path_of(registryid, xid, ending="json")


def pages_of_group(overview: Overview, group: Entity) -> Iterator[tuple[str, list[Xid]]]:
    """Yield the paths of the pages of a group or endpoint, each with the messages or schemas that it lists."""
    key = (group.registryid, group.xid)
    members = carried_xids(overview, group) if group.kind == "endpoint" else overview.members[key]
    for at, path in enumerate(page_paths(path_of(*key), len(members))):
        yield path, members[at * PER_PAGE : (at + 1) * PER_PAGE]


def paths_of_member(page_context: PageContext, registryid: RegistryId, xid: Xid) -> Iterator[str]:
    """Return the paths of the pages of a message or schema of a static site."""
    path = path_of(registryid, xid)
    yield path
    yield path_of(registryid, xid, ending="json")
    entity = page_context.entity(registryid, xid)
    if entity is None:
        return
    base = past.bases_of(page_context, entity)[:1]
    yield from (
        addresses.path_beside(registryid, xid, base_xid) for base_xid in base if page_context.overview.has(registryid, base_xid)
    )
    versions = page_context.view.versions(registryid, xid)
    for version in versions if entity.kind == "schema" or len(versions) > 1 else []:
        yield path_of(registryid, version.xid)
        if version.kind == "schemaversion" and "schema" in version.attributes:
            yield path_of(registryid, version.xid, "raw", "txt")
    changes = past.history_of(page_context, registryid, xid, past.bases_of(page_context, entity))
    if len(changes) > past.MOST_ON_PAGE:
        yield path_of(registryid, xid, "history")
    ready = past.ready_comparisons(path, changes, versions)
    if ready:
        yield f"{path.removesuffix('.html')}~compare.html"
    yield from ready


def page_paths(path: str, count: int, per_page: int = PER_PAGE) -> Iterator[str]:
    """Yield the paths of the pages of a list; path: of the first."""
    for number in range(1, max(1, -(-count // per_page)) + 1):
        yield addresses.page_of_list(path, number)
