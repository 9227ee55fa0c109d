"""How documents are ingested: of what SOURCE, with which flags, disturbed how."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from random import Random
from typing import Any, NamedTuple

from .documents import SUFFIXES

POINTS = (
    "after_stage", "before_commit", "after_commit", "after_project_registries", "after_project_groups",
    "after_project_messages", "after_project_versions", "after_project_effective_messages",
)  # fmt: skip
# Settings of an ingest that Spark plans, of those that the driver plans, interpreted or compiled, and of one whose new registries
# are planned in tasks; however small they are.
WAYS: dict[str, dict[str, Any]] = {
    "by Spark": {"planner": "spark"},
    "few rows in the driver": {"planner": "auto"},
    "many rows in the driver": {"planner": "auto", "interpreted_rows": 0},
    "in tasks": {"planner": "auto", "planner_rows": 0, "interpreted_rows": 0},
}
GLOBS = ("*.json", "*.json*", "[ab].*", "*.y*ml*")


class Run(NamedTuple):
    """An ingest.

    source: path below the folder of documents: a file, a glob, a folder, or empty for all; first_dry: a dry run of the same
    before; again: the same once more afterwards; crash: a point to die at, after which the same is run again; by_kill: in its
    own process, by kill -9; way: who plans it, one of `WAYS`.
    """

    source: str = ""
    prune: bool = False
    force: bool = False
    strict: bool = False
    first_dry: bool = False
    again: bool = False
    crash: str | None = None
    by_kill: bool = False
    way: str = "few rows in the driver"

    def lists(self, path: str) -> bool:
        """Return whether SOURCE would list a document of this path."""
        if any(one in self.source for one in "*?["):
            return self.source.count("/") == path.count("/") and fnmatchcase(path, self.source)
        if self.source.endswith(SUFFIXES):
            return path == self.source
        return self.source == "" or path.startswith(self.source + "/")

    def found(self, documents: Mapping[str, object]) -> set[str]:
        """Return the paths of the documents that SOURCE holds."""
        return {path for path in documents if self.lists(path)}


def draw_run(random: Random, documents: Mapping[str, object], *, by_kill: float = 0.0) -> Run:
    """Draw an ingest of some of the documents."""
    how = random.random()
    sources = [""]
    if how < 0.2:
        sources = sorted(documents)
    elif how < 0.4:
        sources = [*GLOBS, "sub"]
    source = random.choice([one for one in sources if Run(one).found(documents)] or [""])
    prune = random.random() < 0.4
    crash = random.choice(POINTS) if random.random() < 0.15 else None
    return Run(
        source,
        prune=prune,
        force=random.random() < (0.6 if prune else 0.1),
        strict=random.random() < 0.1,
        first_dry=random.random() < 0.15,
        again=random.random() < 0.25,
        crash=crash,
        by_kill=crash is not None and random.random() < by_kill,
        way=random.choice(list(WAYS)),
    )
