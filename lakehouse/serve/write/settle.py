"""What a request writes becomes rows: epochs are counted, holders' epochs grow, and the rules between entities are asked."""

from __future__ import annotations

from dataclasses import dataclass, field

from lakehouse.domain.defaults import with_isdefault
from lakehouse.ingest.parse.rows import Row as Parsed
from lakehouse.serve.problems import ProblemFound
from lakehouse.serve.write.asked import Json, Writing
from lakehouse.serve.write.relations import check_between
from lakehouse.serve.write.rows import parse
from lakehouse.serve.write.trees import Life, Tree
from lakehouse.serve.write.working import Row, Working, check_owner
from lakehouse.settings import Settings
from lakehouse.store.keys import OVER_HTTP
from lakehouse.text.jsontext import hash_of, read_canonical
from lakehouse.text.names import REGISTRY, Xid
from lakehouse.text.xid import holder_of, xid_of_version

_OWNER = (OVER_HTTP,)


@dataclass
class Effects:
    """What a request writes and deletes.

    Attributes:
        registry: attributes of the registry, where they are written.
        groups: attributes of groups, by XID: those that are written, and those that are made for what they hold.
        trees: Resources that it writes, by XID.
        deleted: groups and Resources that it deletes, with all that they hold.
        life: dates of groups and the registry, by XID.
    """

    registry: Json | None = None
    groups: dict[Xid, Json] = field(default_factory=dict)
    trees: dict[Xid, Tree] = field(default_factory=dict)
    deleted: list[Xid] = field(default_factory=list)
    life: dict[Xid, Life] = field(default_factory=dict)


def settle(working: Working, writing: Writing, effects: Effects, settings: Settings) -> None:
    """Write what a request does.

    Args:
        working: the catalog; written to.
        writing: the request.
        effects: what it does.
        settings: which rules between entities hold.

    Raises:
        ProblemFound: something breaks a rule; the caller takes back what was written.
    """
    settling = _Settling(working, writing, effects)
    settling.run()
    check_between(working, writing.registryid, working.since(settling.mark), settings)


class _Settling:
    def __init__(self, working: Working, writing: Writing, effects: Effects) -> None:
        self.working = working
        self.writing = writing
        self.effects = effects
        self.registryid = writing.registryid
        self.mark = working.mark()
        self.grown: set[Xid] = set()  # holders of which members came or went

    def run(self) -> None:
        deleted = [*self.effects.deleted]
        kept = []
        for xid, tree in self.effects.trees.items():
            if xid in self.effects.deleted:
                continue
            if not tree.versions and tree.xref is None:
                if tree.is_new:
                    raise ProblemFound("missing_versions", xid)
                deleted.append(xid)  # the last Version takes the Resource along
            else:
                tree.settle_ancestors()
                tree.settle_default()
                kept.append(tree)
        for xid in deleted:
            self._delete(xid)
        parsed = self._parsed(kept)
        for xid in self.effects.groups:
            self._put_group(xid, parsed[xid])
        for tree in kept:
            self._put_tree(tree, parsed)
        self._put_registry(parsed.get(REGISTRY))
        for xid in sorted(self.grown):
            self._grow(xid)

    def _parsed(self, trees: list[Tree]) -> dict[Xid, Parsed]:
        has_registry = self.working.row(self.registryid, REGISTRY) is not None
        if not trees and not self.effects.groups and self.effects.registry is None and has_registry:
            return {}
        return parse(
            self.working, self.registryid, self.writing.dialect, trees, self.effects.groups, self.effects.registry
        )  # fmt: skip

    # Deletions

    def _delete(self, xid: Xid) -> None:
        for child in self.working.children(self.registryid, xid):
            if child.kind in ("message", "schema"):
                for version in self.working.children(self.registryid, child.xid):
                    check_owner(version.xid, version)
                    self.working.delete(self.registryid, version.xid)
            check_owner(child.xid, child)
            self.working.delete(self.registryid, child.xid)
        if self.working.row(self.registryid, xid) is not None:
            self.working.delete(self.registryid, xid)
            self.grown.add(holder_of(xid))

    # Groups and the registry

    def _put_group(self, xid: Xid, parsed: Parsed) -> None:
        row = self.working.row(self.registryid, xid)
        self.working.put(self.registryid, self._row(parsed, row, self.effects.life.get(xid)))
        if row is None:
            self.grown.add(REGISTRY)

    def _put_registry(self, parsed: Parsed | None) -> None:
        row = self.working.row(self.registryid, REGISTRY)
        if parsed is not None and (row is None or self.effects.registry is not None):
            self.working.put(self.registryid, self._row(parsed, row, self.effects.life.get(REGISTRY)))
            self.grown.discard(REGISTRY)

    def _grow(self, xid: Xid) -> None:
        """Count the epoch of what holds something that came or went, whoever owns it."""
        if xid in self.effects.groups:
            return  # it was written, and counted
        row = self.working.row(self.registryid, xid)
        if row is not None:
            self.working.put(self.registryid, row._replace(epoch=row.epoch + 1, modifiedat=self.working.now))

    # Resources

    def _put_tree(self, tree: Tree, parsed: dict[Xid, Parsed]) -> None:
        for versionid in tree.removed:
            if versionid in tree.rows:
                self.working.delete(self.registryid, xid_of_version(tree.xid, versionid))
        for versionid in tree.versions:
            xid = xid_of_version(tree.xid, versionid)
            before = tree.rows.get(versionid)
            if versionid in tree.touched:
                self.working.put(self.registryid, self._row(parsed[xid], before, tree.life.get(versionid)))
            elif before is not None:
                flipped = _with_isdefault(before, versionid == tree.default.versionid)
                if flipped is not before:
                    self.working.put(self.registryid, flipped)
        came_or_went = set(tree.versions) != set(tree.rows)
        row, own = tree.row, parsed[tree.xid]
        if row is None or tree.is_meta_touched or came_or_went or own.content_hash != row.content_hash:
            made = self._row(own, row, tree.life.get(""))
            if row is not None and tree.xref is None:
                made = made._replace(epoch=max(made.epoch, self._epoch_of_target(row) + 1))
            self.working.put(self.registryid, made)
        if row is None:
            self.grown.add(holder_of(tree.xid))

    def _epoch_of_target(self, row: Row) -> int:
        """Give the epoch of what a Resource stood for until now; 0: it stood for nothing."""
        xref = read_canonical(row.body).get("xref")
        target = self.working.row(self.registryid, Xid(xref)) if isinstance(xref, str) else None
        return 0 if target is None else target.epoch

    def _row(self, parsed: Parsed, before: Row | None, life: Life | None) -> Row:
        life = life or Life()
        now = self.working.now
        epoch = self.working.epoch_after(self.registryid, parsed.xid) if before is None else before.epoch + 1
        createdat = life.createdat if life.createdat is not None else now if before is None else before.createdat
        modifiedat = now if life.modifiedat is None else life.modifiedat
        return Row(
            parsed.kind,
            parsed.xid,
            parsed.content_hash,
            epoch,
            createdat,
            modifiedat,
            _OWNER,
            parsed.body,
            parsed.raw,
            parsed.attributes,
        )


def _with_isdefault(row: Row, isdefault: bool) -> Row:
    """Write into a Version whether it is the default one: that is no part of its definition, so epoch and dates stay."""
    body = with_isdefault(row.body, isdefault)
    if body == row.body:
        return row
    raw = row.body if row.raw is None else row.raw
    return row._replace(body=body, raw=raw, content_hash=hash_of(body))
