"""Pages about the catalog as a whole: home, documents, findings, rules; and the index of names.

The index has every attribute that messages declare and every field of their payloads, with how many have it.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import orjson

from lakehouse.errors import UnknownRule
from lakehouse.readmodel.wordsearch import names_of_messages
from lakehouse.rules.declared import FINDING_RULES, SEVERITIES, explain
from lakehouse.site.addresses import DOCUMENTS, FINDINGS, HOME, NAMES, path_of_document, path_of_rule
from lakehouse.site.overview import Overview
from lakehouse.site.pagecontext import Page, PageContext
from lakehouse.site.pages.search import Wanted, past_entities
from lakehouse.site.pages.sentview import sent_of_all
from lakehouse.text.names import REGISTRY, RegistryId

_KINDS = {"attr": "attribute", "field": "payload field"}
_MOST_SNAPSHOTS, _MOST_REGISTRIES, _MOST_RULES, _MOST_PROTOCOLS = 6, 24, 6, 8
_MOST_ENTITIES = 200
_BAR = 560  # width of the picture of protocols


class NameRow(NamedTuple):
    """A name.

    Attributes:
        kind: attribute or payload field.
        name: as messages or schemas declare it.
        messages: how many have it.
        query: of the search that finds them.
    """

    kind: str
    name: str
    messages: int
    query: str


def names_page(page_context: PageContext, number: int) -> Page | None:
    """Make a page of the index, what most messages have first."""
    part = page_context.part(_rows(page_context), NAMES, number)
    return None if part is None else page_context.page("names.html", part.at(number), part=part)


def count_names(page_context: PageContext) -> int:
    """Count the names of the index."""
    return len(_rows(page_context))


def _rows(page_context: PageContext) -> list[NameRow]:
    return page_context.remember(("names",), lambda: _counted(page_context))


def _counted(page_context: PageContext) -> list[NameRow]:
    past = past_entities(page_context)
    present = [(names, fields) for key, names, fields in names_of_messages(page_context.view) if key not in past]
    present += [
        (past_entity.words.names, past_entity.words.fields)
        for key, past_entity in past.items()
        if past_entity is not None and key[1] == "message"
    ]
    counts: Counter[tuple[str, str]] = Counter()
    for (names, fields), times in Counter(present).items():  # many messages declare the same
        for key in (("attr", names or ""), ("field", (fields or "").partition("\n")[0])):
            for name in key[1].split():
                counts[key[0], name] += times
    most = sorted(counts.items(), key=lambda counted_name: (-counted_name[1], counted_name[0]))
    return [NameRow(_KINDS[kind], name, count, Wanted(f"{kind}:={name}", kind="message").query()) for (kind, name), count in most]


def home_page(page_context: PageContext, template: str = "home.html", path: str = HOME) -> Page:
    """Make the first page, or another file with its values, which a template names."""
    overview = page_context.overview
    latest = [snapshot for snapshot in overview.snapshots if snapshot.snapshot_id <= page_context.view.snapshot_id][::-1][
        :_MOST_SNAPSHOTS
    ]
    severities = {name: sum(finding["severity"] == name for finding in overview.findings) for name in SEVERITIES}
    return page_context.page(
        template,
        path,
        counts=[*_counts(overview), (len(overview.documents), "document", "documents")],
        protocols=_bars(overview.by_protocol),
        latest=latest,
        severities=severities,
        rules=_rules(page_context)[:_MOST_RULES],
        registries=[(registryid, _counts(overview, registryid)) for registryid in overview.registries[:_MOST_REGISTRIES]],
        more_registries=overview.registries[_MOST_REGISTRIES:],
        traffic=sent_of_all(page_context),
    )


def _counts(overview: Overview, registryid: RegistryId | None = None) -> list[tuple[int, str, str]]:
    """Count entities by the kinds of a search: how many, and the kind, as of one and of several."""
    groups = overview.count("messagegroups", registryid) + overview.count("schemagroups", registryid)
    counted = {"messages": overview.count("messages", registryid), "groups": groups}
    counted |= {name: overview.count(name, registryid) for name in ("endpoints", "schemas")}
    return [(count, name.removesuffix("s"), name) for name, count in counted.items()]


def _bars(counted: list[tuple[str, int]]) -> list[dict[str, Any]]:
    """Lay out a bar for each protocol; what is rare is counted together."""
    shown, rest = counted[:_MOST_PROTOCOLS], counted[_MOST_PROTOCOLS:]
    if rest:
        shown = [*shown, ("others", sum(count for _, count in rest))]
    most = max((count for _, count in shown), default=1)
    return [{"family": family, "count": count, "width": max(3, round(_BAR * count / most))} for family, count in shown]


def documents_page(page_context: PageContext, number: int) -> Page | None:
    """Make a page of the documents."""
    part = page_context.part(
        sorted(page_context.overview.documents), DOCUMENTS, number, lambda key: (key, *page_context.overview.documents[key])
    )
    return None if part is None else page_context.page("documents.html", part.at(number), part=part)


def document_page(page_context: PageContext, registryid: RegistryId, uri: str) -> Page:
    """Make the page of a document: what came of it."""
    snapshot_id, facts = page_context.overview.documents[registryid, uri]
    findings = page_context.overview.findings_by_document.get((registryid, uri), [])
    group_xids = page_context.overview.groups_by_document.get((registryid, uri), [])
    owners = {page_context.overview.owner(registryid, xid) for xid in group_xids or [REGISTRY]} - {""}
    details = [
        (name, facts[name] if isinstance(facts[name], str) else orjson.dumps(facts[name]).decode())
        for name in ("status", "reason", "dialect", "specversion", "size", "sha256", "entities", "quarantined", "spellings")
        if facts.get(name) not in (None, "", {}, [])
    ]
    return page_context.page(
        "document.html", path_of_document(registryid, uri), registryid=registryid, uri=uri, snapshot_id=snapshot_id,
        facts=details, findings=findings[:100], more=max(0, len(findings) - 100), groups=group_xids[:_MOST_ENTITIES],
        owners=sorted(owners),
    )  # fmt: skip


def _rules(page_context: PageContext) -> list[dict[str, Any]]:
    return [
        {
            "rule_id": rule_id,
            "severity": findings[0]["severity"],
            "text": FINDING_RULES[rule_id].text if rule_id in FINDING_RULES else "",
            "count": len(findings),
        }
        for rule_id, findings in page_context.overview.findings_by_rule.items()
    ]


def findings_page(page_context: PageContext, number: int) -> Page | None:
    """Make a page of the rules that something breaks, the worst first."""
    part = page_context.part(_rules(page_context), FINDINGS, number)
    return None if part is None else page_context.page("findings.html", part.at(number), part=part)


def rule_page(page_context: PageContext, rule_id: str, number: int) -> Page | None:
    """Make a page of a rule: what it asks, an example, its hint, and what breaks it."""
    findings = page_context.overview.findings_by_rule.get(rule_id, [])
    try:
        details = explain(rule_id, with_places=False)
    except UnknownRule:
        details = {}
    if not findings and not details:
        return None
    examples = {
        name: orjson.dumps(details[name], option=orjson.OPT_INDENT_2).decode()[:3000]
        for name in ("bad", "good")
        if name in details
    }
    part = page_context.part(findings, path_of_rule(rule_id), number)
    return (
        None
        if part is None
        else page_context.page("rule.html", part.at(number), rule_id=rule_id, details=details, part=part, examples=examples)
    )
