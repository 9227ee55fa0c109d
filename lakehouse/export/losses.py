"""What a dialect could not say of all that was exported: counted by rule, with the first examples of each.

Each task counts its own and puts the examples into the trailer of its part, so that the driver holds a few for each rule,
however much was lost.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from lakehouse.dialects.tables import Loss
from lakehouse.text.names import RegistryId, Xid

EXAMPLES = 5


@dataclass
class Losses:
    """What was lost.

    Attributes:
        limit: how many examples of a rule are kept.
        by_rule: rule → how often, and examples: registryid, xid, pointer (into the entity in normal form), message.
    """

    limit: int = EXAMPLES
    by_rule: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """Return the number of losses."""
        return sum(int(loss["count"]) for loss in self.by_rule.values())

    def add(self, registryid: RegistryId, xid: Xid, losses: Iterable[Loss]) -> None:
        """Take what was lost of an entity into account."""
        for pointer, rule_id, message in losses:
            example = {"registryid": registryid, "xid": xid, "pointer": pointer, "message": message}
            self._add(rule_id, 1, [example])

    def merge(self, details: dict[str, dict[str, Any]]) -> None:
        """Take what was counted elsewhere into account: the `by_rule` of that."""
        for rule_id, loss in details.items():
            self._add(rule_id, loss["count"], loss["examples"])

    def as_json(self) -> list[dict[str, Any]]:
        """Return a JSON value: a count and examples by rule."""
        return [{"rule_id": rule_id} | loss for rule_id, loss in sorted(self.by_rule.items())]

    def _add(self, rule_id: str, count: int, examples: list[dict[str, str]]) -> None:
        loss = self.by_rule.setdefault(rule_id, {"count": 0, "examples": []})
        loss["count"] += count
        loss["examples"] += examples[: max(0, self.limit - len(loss["examples"]))]


def losses_as_text(losses: list[dict[str, Any]]) -> list[str]:
    """Return the losses as text, a line each, in the order of `Losses.as_json`."""
    lines = []
    several = len({example["registryid"] for loss in losses for example in loss["examples"]}) > 1
    for loss in losses:
        for example in loss["examples"]:
            where = example["xid"] + (f" {example['pointer']}" if example["pointer"] else "")
            registry = f"  (registry {example['registryid']})" if several else ""
            lines.append(f"{loss['rule_id']}  {where}: {example['message']}{registry}")
        if loss["count"] > len(loss["examples"]):
            lines.append(f"{loss['rule_id']}  ... and {loss['count'] - len(loss['examples'])} more")
    return lines
