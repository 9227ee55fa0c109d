"""A request on its way: the catalog that it is applied to, and what it does so far."""

from __future__ import annotations

import re
from typing import Any

from lakehouse.dialects.detection import DRAFT
from lakehouse.dialects.tables import NORMAL
from lakehouse.serve.apierrors import RC2, ProblemFound
from lakehouse.serve.targets import SINGULAR
from lakehouse.serve.write.effects import Effects
from lakehouse.serve.write.overlay import CatalogOverlay, OverlayRow, owner_problem
from lakehouse.serve.write.resourcestate import ResourceState, read_tree
from lakehouse.serve.write.writerequest import Json, WriteRequest, ignored_by, read_body, with_texts
from lakehouse.text.names import Xid
from lakehouse.text.xid import xid_of

_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_EPOCH = re.compile(r"[0-9]{1,18}")


class WriteContext:
    """A request on its way.

    Attributes:
        overlay: the catalog.
        write_request: the request.
        registryid: of the catalog.
        ignored: what of the request is to be ignored.
        patch: what is not named stays as it is.
        effects: what it does so far.
    """

    def __init__(self, overlay: CatalogOverlay, write_request: WriteRequest, max_depth: int) -> None:
        self.overlay = overlay
        self.write_request = write_request
        self.max_depth = max_depth
        self.registryid = write_request.registryid
        self.ignored = ignored_by(write_request)
        self.patch = write_request.method == "PATCH"
        self.effects = Effects()

    @property
    def checks_epoch(self) -> bool:
        """Return whether a given epoch must be the stored one."""
        return "epoch" not in self.ignored

    def row(self, xid: Xid) -> OverlayRow | None:
        """Return the row of an entity, or None."""
        return self.overlay.row(self.registryid, xid)

    def body(self) -> Json:
        """Return the JSON object of the request.

        Raises:
            ProblemFound: there is none.
        """
        body = _without(read_body(self.write_request, self.max_depth), "$schema")  # it is a tool's, and no attribute
        return self.without_ids(with_texts(body, self.write_request.body, self.write_request.parts))

    def check_names(self, body: Json, xid: str) -> None:
        """Make sure that the attributes that a body sets have names of the specification's form (core, Attributes).

        Documents are not held to it: what they add is stored as it is (MSG-102, END-022); the draft has other names (CAT-057).

        Raises:
            ProblemFound: one has not.
        """
        if self.write_request.dialect == DRAFT:
            return
        wrong = next((name for name, value in body.items() if value is not None and not _NAME.fullmatch(name)), None)
        if wrong is not None:
            detail = "a name has 1 to 63 characters of a to z, 0 to 9 and _, and begins with no digit"
            raise ProblemFound("invalid_attribute", xid, name=wrong[:128], error_detail=detail)

    def without_ids(self, body: Json) -> Json:
        """Return the body without the ids of the entity in the path, if `?ignore=id` says so (core, Ignore flag).

        The id of a Resource is written in its `meta` and its Versions once more; other entities in a body keep their ids. The
        draft has no such flag.
        """
        parts = self.write_request.parts
        if "id" not in self.ignored or self.write_request.dialect == DRAFT or (len(parts) % 2 and parts[4:] != ("meta",)):
            return body
        if len(parts) <= 2:
            return _without(body, f"{SINGULAR[parts[0]]}id" if parts else "registryid")
        name = f"{SINGULAR[parts[2]]}id"
        result = _without(body, name, *(("versionid",) if len(parts) == 6 else ()))
        if isinstance(result.get("meta"), dict):
            result["meta"] = _without(result["meta"], name)
        if isinstance(result.get("versions"), dict):
            versions = result["versions"]
            result["versions"] = {
                key: _without(version, name) if isinstance(version, dict) else version for key, version in versions.items()
            }
        return result

    def ignores(self, xid: Xid) -> bool:
        """Return whether a group, message or schema is passed over: it is read-only, and `?ignore=readonly` says so.

        Raises:
            ProblemFound: it is read-only, and was not to be ignored; or the request is directed at it, and would be about
                nothing without it (core, Ignore flag).
        """
        is_resource = xid.count("/") == 4
        return self._passes_over(xid, _read_only(self._read_tree(xid)) if is_resource else owner_problem(xid, self.row(xid)))

    def _passes_over(self, xid: Xid, problem: ProblemFound | None) -> bool:
        if problem is None:
            return False
        if "readonly" not in self.ignored:
            raise problem
        if self.write_request.path == xid or self.write_request.path.startswith(f"{xid}/"):
            detail = f"Without what is read-only, nothing is left of the request. {problem.detail}"
            raise ProblemFound("bad_flag", xid, detail, flag="noreadonly" if self.write_request.dialect == RC2 else "ignore")
        return True

    def make_parents(self) -> None:
        """Make the group of a Resource that is not there yet."""
        xid = xid_of(*self.write_request.parts[:2])
        if self.row(xid) is None:
            self.effects.groups.setdefault(xid, {})

    def resource_state(self, xid: Xid) -> ResourceState:
        """Return a Resource to change it.

        Raises:
            ProblemFound: documents hold it, or it is read-only.
        """
        resource_state = self.tree_unless_left_out(xid)
        if resource_state is None:
            raise ProblemFound("readonly", xid)
        return resource_state

    def tree_unless_left_out(self, xid: Xid) -> ResourceState | None:
        """Return a Resource to change it; None: it is passed over, as `ignores` says.

        Raises:
            ProblemFound: as `ignores`.
        """
        resource_state = self.effects.resource_states.get(xid)
        if resource_state is None:
            resource_state = self._read_tree(xid)
            if self._passes_over(xid, _read_only(resource_state)):
                return None
            self.effects.resource_states[xid] = resource_state
        return resource_state

    def _read_tree(self, xid: Xid) -> ResourceState:
        dialect = NORMAL if self.write_request.dialect == DRAFT else self.write_request.dialect
        resource_state = read_tree(self.overlay, self.registryid, xid, dialect)
        resource_state.epochs = () if resource_state.row is None else self.epochs_of(resource_state.row)
        return resource_state

    def epochs_of(self, row: OverlayRow) -> tuple[int, ...]:
        """Return the epochs that a request may name: the stored one, and of an alias that of its target, which GET shows."""
        shown = self.overlay.epoch_of_target(self.registryid, row)
        return (row.epoch, shown) if shown else (row.epoch,)

    def epoch_of_query(self) -> Any:
        """Return the epoch of the query.

        Raises:
            ProblemFound: it is no number.
        """
        flag = self.write_request.flag("epoch")
        if flag is None or not self.checks_epoch:
            return None
        if not _EPOCH.fullmatch(flag):
            raise ProblemFound("bad_request", self.write_request.path, error_detail='The flag "epoch" is not a number')
        return int(flag)


def _read_only(resource_state: ResourceState) -> ProblemFound | None:
    """Return what is wrong with a write to a Resource: it is read-only, or documents hold something of it; None: nothing is."""
    if resource_state.meta.get("readonly"):
        return ProblemFound("readonly", resource_state.xid, "Its `readonly` is true.")
    rows = [(resource_state.xid, resource_state.row), *((row.xid, row) for row in resource_state.rows.values())]
    return next((problem for problem in (owner_problem(*each) for each in rows) if problem is not None), None)


def _without(body: Json, *names: str) -> Json:
    return {name: value for name, value in body.items() if name not in names}
