"""How documents are ingested: of what SOURCE, with which flags, disturbed how."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from random import Random
from typing import NamedTuple

from .documents import SUFFIXES

POINTS = (
    "after_stage", "before_commit", "after_commit", "after_project_registries", "after_project_groups",
    "after_project_messages", "after_project_versions", "after_project_effective_messages",
)  # fmt: skip
GLOBS = ("*.json", "*.json*", "[ab].*", "*.y*ml*")


class Run(NamedTuple):
    """An ingest.

    source: path below the folder of documents: a file, a glob, a folder, or empty for all; first_dry: a dry run of the same
    before; again: the same once more afterwards; crash: a point to die at, after which the same is run again; by_kill: in a
    process of its own, by kill -9; by_joins: Spark plans it, however small it is.
    """

    source: str = ""
    prune: bool = False
    force: bool = False
    strict: bool = False
    first_dry: bool = False
    again: bool = False
    crash: str | None = None
    by_kill: bool = False
    by_joins: bool = False

    def lists(self, path: str) -> bool:
        """Tell whether SOURCE would list a document of this path."""
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
        by_joins=random.random() < 0.4,
    )
