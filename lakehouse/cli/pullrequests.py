"""Differences as Markdown, for a pull request."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lakehouse.domain.diff import CLASSES, Difference

_MAX_VALUE = 60
_MAX_MEANING = 1_000  # what is in a schema, with reasons


def as_markdown(differences: Iterable[Difference], before: str, after: str, *, with_registry: bool = False) -> str:
    """Write differences for a pull request: the breaking ones as a table, the others folded away.

    Args:
        differences: what differs.
        before: name of the earlier state.
        after: name of the later state.
        with_registry: name the registry of each.
    """
    every = list(differences)
    columns = ["registry"] * with_registry + ["entity", "change", "attribute", "before", "after", "meaning"]
    numbers = {name: sum(one.class_ == name for one in every) for name in CLASSES}
    counts = ", ".join(f"{number} {name}" for name, number in numbers.items() if number or name != "unknown")
    lines = [f"### Catalog changes from {_cell(before)} to {_cell(after)}", "", f"{counts}.", ""]
    for name in CLASSES:
        rows = [one for one in every if one.class_ == name]
        if rows:
            is_folded = name not in ("breaking", "unknown")
            lines += [f"<details><summary>{len(rows)} {name}</summary>", ""] if is_folded else [f"**{len(rows)} {name}**", ""]
            lines += [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
            lines += list(_markdown_rows(rows, with_registry=with_registry))
            lines += ["", "</details>", ""] if is_folded else [""]
    return "\n".join(lines).rstrip() + "\n"


def _markdown_rows(rows: Iterable[Difference], *, with_registry: bool) -> Iterator[str]:
    for one in rows:
        hurt = " and ".join(
            who for who, effect in (("producers", one.for_producers), ("consumers", one.for_consumers)) if effect == "breaking"
        )
        meaning = one.told + (f" (breaks {hurt})" if hurt else "")
        registry = [f"`{one.registryid}`"] if with_registry else []
        cells = [*registry, f"{one.kind} `{one.xid}`", one.change, one.pointer, one.before or "", one.after or ""]
        yield "| " + " | ".join([*(_cell(cell) for cell in cells), _cell(meaning, most=_MAX_MEANING)]) + " |"


def _cell(text: str, most: int = _MAX_VALUE) -> str:
    shown = " ".join(text.split())
    shown = shown if len(shown) <= most or "`" in shown else shown[: most - 1] + "…"
    return shown.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")
