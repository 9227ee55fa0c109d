"""A message or schema while a request changes it: its meta entity and its Versions, in the dialect of the request.

The default Version is the newest, unless a client chose one that stays (`defaultversionsticky`).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from lakehouse.dialects.schemadocuments import member_of
from lakehouse.domain.versions import choose_default, find_circle, newest_of, with_ancestors
from lakehouse.serve.answer.entityviews import ResourceView, make_resource
from lakehouse.serve.apierrors import RC4, ProblemFound
from lakehouse.serve.targets import SINGULAR
from lakehouse.serve.write.overlay import CatalogOverlay, OverlayRow
from lakehouse.serve.write.writerequest import Json, JsonWithText
from lakehouse.text.jsontext import read_canonical
from lakehouse.text.names import RegistryId, Xid
from lakehouse.text.timestamps import microseconds
from lakehouse.text.xid import last_id, parent_xid, xid_of_version

_DOCUMENTS = ("schema", "schemabase64", "schemaurl")
# What only the server says, and a client may send back: it is passed over.
READ_ONLY = (
    "self", "shortself", "xid", "isdefault", "metaurl", "versionsurl", "versionscount", "readonly", "defaultversionurl",
    "formatvalidated", "formatvalidatedreason", "compatibilityvalidated", "compatibilityvalidatedreason",
)  # fmt: skip
_SERVER = frozenset((*READ_ONLY, "meta", "versions"))
_LIFE = ("epoch", "createdat", "modifiedat")
_RESERVED = frozenset({"null", "request"})  # no id of a Version (core, `versionid`)
_OF_META = frozenset(("defaultversionid", "defaultversionsticky", "xref"))


@dataclass
class Default:
    """The default Version of a Resource.

    Attributes:
        versionid: its id; None: there is none, or the newest will be it.
        sticky: it was chosen, and stays when newer ones come.
    """

    versionid: str | None = None
    sticky: bool = False

    def choose(self, body: Json, here: str, *, patch: bool) -> None:
        """Take what a body says of it (spec.md, `defaultversionid` and `defaultversionsticky` attributes).

        An id without stickiness says nothing: the newest Version is the default one then, which `resolve` finds.

        Args:
            body: attributes of the meta entity.
            here: its XID.
            patch: what is not given stays.

        Raises:
            ProblemFound: a value is of the wrong type.
        """
        has_id, has_sticky = "defaultversionid" in body, "defaultversionsticky" in body
        if patch and not has_id and not has_sticky:
            return
        wanted, sticky = body.get("defaultversionid"), body.get("defaultversionsticky")
        if sticky is not None and not isinstance(sticky, bool):
            raise _wrong_type("defaultversionsticky", here, "it is not true or false")
        if wanted is not None and not isinstance(wanted, str):
            raise _wrong_type("defaultversionid", here, "it is not a string")
        if patch and has_id and not has_sticky:
            sticky = wanted is not None
        if patch and not has_id and self.sticky:
            wanted = self.versionid
        self.sticky = bool(sticky)
        self.versionid = wanted if self.sticky else None

    def resolve(self, xid: Xid, versions: Collection[str], removed: Collection[str], newest: str | None) -> None:
        """Find it once all Versions are written.

        Args:
            xid: of the Resource.
            versions: ids of its Versions.
            removed: ids of those that the request deleted.
            newest: id of the newest.

        Raises:
            ProblemFound: the one that was chosen is not there.
        """
        chosen = choose_default([self.versionid if self.sticky else None], versions, newest)
        for versionid in chosen.unknown:
            if versionid not in removed:
                raise ProblemFound("unknown_id", xid, singular="version", id=versionid)
            self.sticky = False
        self.versionid = chosen.versionid


def _wrong_type(name: str, subject: str, detail: str) -> ProblemFound:
    return ProblemFound("invalid_attribute", subject, name=name, error_detail=detail)


@dataclass
class Life:
    """What a request says of epoch and dates, and what they become; dates in microseconds since 1970."""

    createdat: int | None = None
    modifiedat: int | None = None


@dataclass
class ResourceState:
    """A Resource.

    Attributes:
        xid: its XID.
        dialect: of the attributes.
        is_new: it is not in the catalog.
        meta: attributes of the meta entity that a client may set, without those that name the default Version.
        versions: attributes of the Versions by id, with the document of a schema, without ids, epoch and dates.
        rows: of the Versions as they are.
        row: of the Resource as it is.
        default: which Version is the default one.
        xref: XID that it stands for.
        touched: Versions that the request wrote.
        removed: Versions that it deleted.
        is_meta_touched: it wrote the meta entity.
        life: what it says of dates, by versionid, of the meta entity under "".
        former: ids that its Versions have ever had.
        epochs: of the Resource as it is; also that of what it stands for, which a GET of an alias shows.
    """

    xid: Xid
    dialect: str
    is_new: bool
    meta: Json
    versions: dict[str, Json]
    rows: dict[str, OverlayRow]
    row: OverlayRow | None
    default: Default = field(default_factory=Default)
    xref: str | None = None
    touched: set[str] = field(default_factory=set)
    removed: set[str] = field(default_factory=set)
    is_meta_touched: bool = False
    life: dict[str, Life] = field(default_factory=dict)
    former: frozenset[str] = frozenset()
    epochs: tuple[int, ...] = ()

    @property
    def singular(self) -> str:
        """Return `message` or `schema`."""
        return SINGULAR[self.xid.split("/")[3]]

    @property
    def documents(self) -> tuple[str, ...]:
        """Return the attributes of which one at most holds a Version's document."""
        return _DOCUMENTS if self.singular == "schema" else ()

    @property
    def ancestor(self) -> str:
        """Return the name of the attribute that names a Version's ancestor."""
        return "ancestorid" if self.dialect == RC4 else "ancestor"

    # Versions

    def put_version(self, versionid: str, body: Json, *, patch: bool, check_epoch: bool) -> None:
        """Write a Version: all of it, or with `patch` what is given only.

        Raises:
            ProblemFound: another id or epoch is given, more than one document, or a date that is none.
        """
        here = xid_of_version(self.xid, versionid)
        check_id(body, f"{self.singular}id", self.singular, self.xid, last_id(self.xid))
        check_id(body, "versionid", "version", here, versionid)
        row = self.rows.get(versionid) if versionid in self.versions else None
        if row is None:
            _check_new_version(versionid, here)
        if check_epoch and row is not None:
            check_body_epoch(body, here, row.epoch)
        attributes = self._retained(versionid, body, patch=patch)
        for name, value in body.items():
            if name in _SERVER or name in _LIFE or name in ("versionid", f"{self.singular}id", *_OF_META):
                continue
            if value is None:
                attributes.pop(name, None)
            else:
                attributes[name] = value
        if self.documents:
            _keep_document_text(attributes, body)
        self.versions[versionid] = attributes
        self.touched.add(versionid)
        self.removed.discard(versionid)
        self.life[versionid] = life_of(body, here, row)

    def _retained(self, versionid: str, body: Json, *, patch: bool) -> Json:
        """Return what a write keeps of a Version: with `patch` all, else its document and ancestor where none is given.

        A document that is elsewhere is kept by `patch` alone; null in one of its spellings removes it in each
        (core, `<RESOURCE>*` Attribute Processing).

        Raises:
            ProblemFound: more than one document is given.
        """
        before = self.versions.get(versionid, {})
        texts = [name for name in self.documents if name != f"{self.singular}url"]
        retained = dict(before) if patch else {name: value for name, value in before.items() if name in texts}
        if not patch and self.ancestor in before and self.ancestor not in body:
            retained[self.ancestor] = before[self.ancestor]
        documents = [name for name in self.documents if body.get(name) is not None]
        if len(documents) > 1:
            raise ProblemFound("one_resource", xid_of_version(self.xid, versionid), list=", ".join(self.documents))
        is_replaced = any(name in body for name in self.documents)
        return {name: value for name, value in retained.items() if name not in self.documents} if is_replaced else retained

    def remove_version(self, versionid: str) -> None:
        """Delete a Version; those that were made from it become their own roots."""
        del self.versions[versionid]
        self.removed.add(versionid)
        self.touched.discard(versionid)
        for other, attributes in self.versions.items():
            if attributes.get(self.ancestor) == versionid:
                attributes[self.ancestor] = other
                self.touched.add(other)

    def newest(self) -> str | None:
        """Return the newest Version, if there is one."""
        return newest_of(self._ancestors(), partial(_made, self))

    def _ancestors(self) -> dict[str, str | None]:
        return {versionid: attributes.get(self.ancestor) for versionid, attributes in self.versions.items()}

    def next_number(self) -> int:
        """Return the id of a Version that the client does not name: a number that was never one."""
        numbers = [
            int(versionid) for versionid in (*self.versions, *self.former) if versionid.isdecimal() and len(versionid) < 16
        ]
        return max(numbers, default=0) + 1

    # The meta entity

    def put_meta(self, body: Json, *, patch: bool, check_epoch: bool, ignored: frozenset[str]) -> None:
        """Write the meta entity: all of it, or with `patch` what is given only.

        Raises:
            ProblemFound: another id or epoch is given, or a value is of the wrong type.
        """
        here = self.xid + "/meta"
        check_id(body, f"{self.singular}id", self.singular, here, last_id(self.xid))
        if check_epoch and self.row is not None:
            check_body_epoch(body, here, *self.epochs)
        meta = dict(self.meta) if patch else {}
        for name, value in body.items():
            if name in _SERVER or name in _LIFE or name in _OF_META or name == f"{self.singular}id":
                continue
            if value is None:
                meta.pop(name, None)
            else:
                meta[name] = value
        self.meta = meta
        self.is_meta_touched = True
        self.life[""] = life_of(body, here, self.row)
        if "xref" in body or not patch:
            self.xref = _xref(body.get("xref"), self.xid)
        if self.xref is None:
            chosen = {name: value for name, value in body.items() if name not in ignored}
            self.default.choose(chosen, here, patch=patch)

    def set_default(self, wanted: str | None) -> None:
        """Choose the default Version (`?setdefaultversionid`); None: the newest from now on."""
        self.default = Default(wanted, wanted is not None)
        self.is_meta_touched = True

    def resolve_default(self) -> None:
        """Find the default Version once all Versions are written.

        Raises:
            ProblemFound: the one that was chosen is not there.
        """
        if self.xref is not None or not self.versions:
            self.default = Default()
        else:
            self.default.resolve(self.xid, self.versions, self.removed, self.newest())

    def resolve_ancestors(self) -> None:
        """Find the ancestors of Versions that the request gives none, and make sure that each one leads to a root.

        Raises:
            ProblemFound: one is not there, or they go round in a circle.
        """
        for versionid in self.touched:
            at = self.versions[versionid].get(self.ancestor)
            if at is not None and (not isinstance(at, str) or (at not in self.versions and at not in self.rows)):
                raise ProblemFound("unknown_id", xid_of_version(self.xid, versionid), singular="version", id=str(at)[:128])
        for versionid, ancestor in with_ancestors(self._ancestors(), partial(_made, self)).items():
            self.versions[versionid][self.ancestor] = ancestor
        circle = find_circle(self._ancestors(), sorted(self.touched))
        if circle:
            raise ProblemFound("ancestor_circular_reference", self.xid, list=", ".join(circle))

    def as_json(self) -> Json:
        """Write it as a document has it."""
        named: Json = {f"{self.singular}id": last_id(self.xid)}
        if self.xref is not None:
            return named | {"meta": named | self.meta | {"xref": self.xref}}
        meta = self.meta | {"defaultversionid": self.default.versionid}
        if self.default.sticky:
            meta["defaultversionsticky"] = True
        written = {versionid: {**named, "versionid": versionid, **attributes} for versionid, attributes in self.versions.items()}
        return named | {"meta": named | meta, "versions": written}


def read_tree(overlay: CatalogOverlay, registryid: RegistryId, xid: Xid, dialect: str) -> ResourceState:
    """Read a Resource as it is; one that is not there has no Versions."""
    row = overlay.row(registryid, xid)
    kind = "version" if xid.split("/")[3] == "messages" else "schemaversion"
    rows = {last_id(row.xid): row for row in overlay.children(registryid, xid) if row.kind == kind}
    former = frozenset(version_xid.rsplit("/", 1)[1] for version_xid in overlay.former(registryid, f"{xid}/versions/"))
    if row is None and not rows:
        return ResourceState(xid, dialect, True, {}, {}, {}, None, former=former)
    group = overlay.row(registryid, parent_xid(xid))
    protocol = None if group is None else read_canonical(group.body).get("protocol")
    stored = None if row is None else row.as_stored(registryid)
    shown = make_resource(xid, stored, [version_row.as_stored(registryid) for version_row in rows.values()], protocol, dialect)
    return replace(_tree_of(shown, row, rows, dialect), former=former)


def _tree_of(shown: ResourceView, row: OverlayRow | None, rows: dict[str, OverlayRow], dialect: str) -> ResourceState:
    singular = SINGULAR[shown.xid.split("/")[3]]
    left_out = {*_LIFE, *_SERVER, *_OF_META, f"{singular}id", "versionid"}
    versions: dict[str, Json] = {}
    for versionid, attributes in shown.versions.items():
        version = {name: value for name, value in attributes.items() if name not in left_out}
        document = shown.documents.get(versionid)
        if document is not None:
            name, value = member_of(document.as_bytes(), document.contenttype)
            version[name] = value
        versions[versionid] = version
    own = shown.meta_in_document if shown.xref else shown.meta
    meta = {name: value for name, value in own.items() if name not in left_out}
    readonly = own.get("readonly")
    if readonly:
        meta["readonly"] = True
    default = Default(shown.default if rows else None, bool(own.get("defaultversionsticky", False)))
    return ResourceState(shown.xid, dialect, False, meta, versions, rows, row, default, shown.xref)


def _keep_document_text(attributes: Json, body: Json) -> None:
    """Store a document that was sent as a JSON value as its text; the media type is JSON's if none is named."""
    value = attributes.get("schema")
    if body.get("schema") is not None and not isinstance(value, str) and "contenttype" not in body:
        attributes.setdefault("contenttype", "application/json")
    if isinstance(value, JsonWithText):
        del attributes["schema"]
        name, document = member_of(value.text, attributes.get("contenttype"))
        attributes[name] = document


def check_form_of_id(value: str, subject: str) -> None:
    """Make sure that an id is not empty, and has no `/`.

    Raises:
        ProblemFound: it is, or has.
    """
    if "/" in value or not value:
        raise ProblemFound("malformed_id", subject, id=value[:128], error_detail="an id is not empty, and has no `/`")


def check_id(body: Json, name: str, singular: str, subject: str, expected: str) -> None:
    """Make sure that an id in a body is that of the path.

    Raises:
        ProblemFound: it is another one.
    """
    value = body.get(name)
    if value is not None and value != expected:
        raise ProblemFound("mismatched_id", subject, singular=singular, invalid_id=str(value)[:128], expected_id=expected)


def _made(resource_state: ResourceState, versionid: str) -> int:
    """Return when a Version was made: as a client says, else when it came; a new one comes last."""
    life = resource_state.life.get(versionid)
    if life is not None and life.createdat is not None:
        return life.createdat
    return resource_state.rows[versionid].createdat if versionid in resource_state.rows else 2**62


def _check_new_version(versionid: str, subject: str) -> None:
    """Make sure that a Version can be named.

    Raises:
        ProblemFound: its id is one of those that flags mean otherwise.
    """
    if versionid in _RESERVED:
        detail = "`?setdefaultversionid` and `ancestorid` mean something else by it"
        raise ProblemFound("malformed_id", subject, id=versionid, error_detail=detail)


def check_body_epoch(body: Json, subject: str, *epochs: int) -> None:
    """Make sure that an epoch in a body is the stored one, or the one that is shown, the last.

    Raises:
        ProblemFound: it is another one.
    """
    value = body.get("epoch")
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int):
        raise _invalid("epoch", subject, "it is not a number")
    if value not in epochs:
        raise ProblemFound("mismatched_epoch", subject, bad_epoch=str(value), epoch=str(epochs[-1]))


def life_of(body: Json, subject: str, row: OverlayRow | None) -> Life:
    """Read the dates of a body: one that is given holds, `modifiedat` unless it is the stored one.

    Raises:
        ProblemFound: one is no date.
    """
    result = Life()
    for name in ("createdat", "modifiedat"):
        value = body.get(name)
        if value is None:
            continue
        try:
            moment = microseconds(value if isinstance(value, str) else "")[0]
        except ValueError as error:
            raise _invalid(name, subject, "it is not a timestamp such as 2024-12-31T23:59:59Z") from error
        if name == "createdat" or row is None or moment != row.modifiedat:
            setattr(result, name, moment)
    return result


def _xref(value: Any, xid: Xid) -> Xid | None:
    """Read what a Resource stands for.

    Raises:
        ProblemFound: it is no XID of a Resource of the same type, or its own.
    """
    if value is None:
        return None
    parts = value.split("/") if isinstance(value, str) else []
    if len(parts) != 5 or parts[0] or not all(parts[1:]) or parts[3] != xid.split("/")[3] or value == xid:
        detail = f"it is not the XID of another one of /{xid.split('/')[1]}/…/{xid.split('/')[3]}"
        raise ProblemFound("malformed_xref", xid, xref=str(value)[:200], error_detail=detail)
    return Xid(value)


def _invalid(name: str, subject: str, detail: str) -> ProblemFound:
    return ProblemFound("invalid_attribute", subject, name=name, error_detail=detail)
