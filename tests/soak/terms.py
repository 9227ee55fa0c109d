"""What documents say, in the terms of the model: messages, schemas, groups, endpoints. Plain values, as JSON and back."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

NO_DOCUMENTS = {"other": "an AsyncAPI document", "list": "an array", "empty": "nothing"}
PLAIN = "1"  # the Version of a message without `versions`


@dataclass(frozen=True)
class Text:
    """One definition: of a Version of a message, or of a schema.

    Attributes:
        name: what it says; two definitions of one name, base and schema are the same.
        base: message that it extends, as group/message, or a Version of one, as group/message/versionid.
        schema: schema of its payload, as group/schema.
        odd: its name is not text, and is left out.
        bad: it has another attribute of a wrong type, so that it is refused.
        secret: a credential in it, for which it is refused too.
    """

    name: str
    base: str | None = None
    schema: str | None = None
    odd: bool = False
    bad: bool = False
    secret: str | None = None

    @property
    def refused(self) -> bool:
        return self.bad or self.secret is not None

    @property
    def base_xid(self) -> str | None:
        if self.base is None:
            return None
        group, message, *version = self.base.split("/")
        return "/".join(["", "messagegroups", group, "messages", message, *(["versions", *version] if version else [])])


@dataclass(frozen=True)
class Resource:
    """A message or schema.

    Attributes:
        versions: definitions by versionid.
        default: the declared default Version; None: the last one.
        plain: it is written without `versions`, and has the Version `1` only.
    """

    versions: dict[str, Text]
    default: str | None = None
    plain: bool = False

    @property
    def default_version(self) -> str:
        return self.default if self.default is not None else max(self.versions, key=lambda one: (len(one), one))


@dataclass(frozen=True)
class Group:
    """A group of messages or of schemas; a bad one is refused with all that it holds."""

    name: str
    members: dict[str, Resource] = field(default_factory=dict)
    bad: bool = False


@dataclass(frozen=True)
class Endpoint:
    """An endpoint, its will message (group/message) and the messages in it."""

    name: str
    will: str | None = None
    members: dict[str, Resource] = field(default_factory=dict)
    bad: bool = False
    secret: str | None = None

    @property
    def refused(self) -> bool:
        return self.bad or self.secret is not None


@dataclass(frozen=True)
class Document:
    """A document.

    Attributes:
        registry: its `registryid`.
        name: `name` of the root.
        groups, schemagroups, endpoints: what it holds, by id.
        doubled: message groups that it holds once more, in the other spelling (`definitionGroups`).
        dialect: in which it is written.
        damage: why nothing of it can be read (`documents.DAMAGES`), or why it is not a registry document (`NO_DOCUMENTS`).
        secret: a credential in a damaged text.
    """

    registry: str | None = None
    name: str | None = None
    groups: dict[str, Group] = field(default_factory=dict)
    schemagroups: dict[str, Group] = field(default_factory=dict)
    endpoints: dict[str, Endpoint] = field(default_factory=dict)
    doubled: dict[str, Group] = field(default_factory=dict)
    dialect: str = "1.0-rc2"
    damage: str | None = None
    secret: str | None = None


def as_json(document: Document) -> dict[str, Any]:
    """Return a document as a JSON value, without what is not set."""

    def lean(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {key: lean(one) for key, one in value.items() if one not in (None, False, {})}

    reported: dict[str, Any] = lean(asdict(document))
    return reported


def from_json(reported: dict[str, Any]) -> Document:
    """Return the document of a JSON value."""

    def resource(one: dict[str, Any]) -> Resource:
        return Resource(**{**one, "versions": {key: Text(**text) for key, text in one["versions"].items()}})

    def holder(kind: type, one: dict[str, Any]) -> Any:
        return kind(**{**one, "members": {key: resource(member) for key, member in one.get("members", {}).items()}})

    kinds = {"groups": Group, "schemagroups": Group, "doubled": Group, "endpoints": Endpoint}
    held = {name: {key: holder(kind, one) for key, one in reported.get(name, {}).items()} for name, kind in kinds.items()}
    return Document(**{**reported, **held})
