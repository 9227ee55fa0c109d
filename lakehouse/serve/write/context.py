"""A request on its way: the catalog that it is applied to, and what it does so far."""

from __future__ import annotations

from typing import Any

from lakehouse.dialects.detection import DRAFT
from lakehouse.dialects.tables import NORMAL
from lakehouse.serve.problems import ProblemFound
from lakehouse.serve.write.asked import Json, Writing, ignored_by, read_body
from lakehouse.serve.write.settle import Effects
from lakehouse.serve.write.trees import Tree, read_tree
from lakehouse.serve.write.working import Row, Working, check_owner
from lakehouse.text.names import Xid
from lakehouse.text.xid import xid_of


class Context:
    """A request on its way.

    Attributes:
        working: the catalog.
        writing: the request.
        registryid: of the catalog.
        ignored: what of the request is to be ignored.
        patch: what is not named stays as it is.
        effects: what it does so far.
    """

    def __init__(self, working: Working, writing: Writing, max_depth: int) -> None:
        self.working = working
        self.writing = writing
        self.max_depth = max_depth
        self.registryid = writing.registryid
        self.ignored = ignored_by(writing)
        self.patch = writing.method == "PATCH"
        self.effects = Effects()

    @property
    def checks_epoch(self) -> bool:
        """Tell whether a given epoch must be the stored one."""
        return "epoch" not in self.ignored

    def row(self, xid: Xid) -> Row | None:
        """Look an entity up."""
        return self.working.row(self.registryid, xid)

    def body(self) -> Json:
        """Give the JSON object of the request.

        Raises:
            ProblemFound: there is none.
        """
        return read_body(self.writing, self.max_depth)

    def make_parents(self) -> None:
        """Make the group of a Resource that is not there yet."""
        xid = xid_of(*self.writing.parts[:2])
        if self.row(xid) is None:
            self.effects.groups.setdefault(xid, {})

    def tree(self, xid: Xid) -> Tree:
        """Give a Resource to change it.

        Raises:
            ProblemFound: documents hold it, or it is read-only.
        """
        tree = self.effects.trees.get(xid)
        if tree is None:
            tree = self.effects.trees[xid] = read_tree(
                self.working, self.registryid, xid, NORMAL if self.writing.dialect == DRAFT else self.writing.dialect
            )
            check_owner(xid, tree.row)
            if tree.meta.get("readonly") and "readonly" not in self.ignored:
                raise ProblemFound("readonly", xid, "Its `readonly` is true.")
            for row in tree.rows.values():
                check_owner(row.xid, row)
        return tree

    def given_epoch(self) -> Any:
        """Give the epoch of the query.

        Raises:
            ProblemFound: it is no number.
        """
        told = self.writing.flag("epoch")
        if told is None or not self.checks_epoch:
            return None
        if not told.isdecimal():
            raise ProblemFound("bad_request", self.writing.path, error_detail='The flag "epoch" is not a number')
        return int(told)
