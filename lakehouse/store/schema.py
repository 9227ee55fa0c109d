"""The schemas of everything that is stored: declared once, with a comment on each column.

`make docs` writes `ddl/tables/*.sql`, which create the tables, from `DECLARATIONS`. Words of the specification are spelled as
there (`messageid`, `basemessage`); columns of this store are snake_case (`document_uris`).
"""

from __future__ import annotations

from inspect import signature
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

if TYPE_CHECKING:
    import pyarrow as pa

SCHEMA = "xregistry"

_STRING = StringType()
_LONG = LongType()
_TIME = TimestampType()
_BOOLEAN = BooleanType()
_STRINGS = ArrayType(_STRING)
_MAP = MapType(_STRING, _STRING)
_ADDRESSES = ArrayType(StructType([StructField("uri", _STRING), StructField("options", _MAP)]))


def _columns(*columns: tuple[str, DataType, str]) -> StructType:
    return StructType([StructField(name, kind, True, {"comment": comment}) for name, kind, comment in columns])


class Table(NamedTuple):
    """An entity table: the kind of log row that it projects, the columns, and those of them that `body` holds."""

    name: str
    kind: str
    columns: StructType
    body: tuple[str, ...]


_KEY = _columns(
    ("registryid", _STRING, "Registry that the entity belongs to: the namespace of its XID"),
    ("xid", _STRING, "XID of the entity: its path within the registry"),
)
_TEXTS = _columns(
    ("name", _STRING, "Human-readable name"),
    ("description", _STRING, "Short text about the entity"),
    ("documentation", _STRING, "URL of further documentation"),
    ("labels", _MAP, "Labels: name to value"),
    ("deprecated", _STRING, "JSON object: since when deprecated, when removed, what to use instead; NULL when not deprecated"),
)
_LIFE = _columns(
    ("epoch", _LONG, "Revision number: as declared by the document, else counted up with each change"),
    ("createdat", _TIME, "When the entity was created: as declared, else when it was first committed (UTC)"),
    ("modifiedat", _TIME, "When the entity last changed: as declared, else when the change was committed (UTC)"),
)
_STORE = _columns(
    ("extensions", _STRING, "JSON object: attributes that the specification does not know, as written"),
    ("document_uris", _STRINGS, "URIs of the documents that hold this entity now, sorted"),
    ("content_hash", _STRING, "SHA-256 of the normal form in hexadecimal digits: differs when the content differs"),
    ("snapshot_id", _LONG, "Snapshot that last changed this row"),
)
_TEXT_NAMES = ("name", "description", "documentation", "labels", "deprecated", "extensions")


def _join(*parts: StructType) -> StructType:
    return StructType([column for part in parts for column in part])


def _entity(name: str, kind: str, specific: StructType, derived: tuple[str, ...] = ()) -> Table:
    columns = _join(_KEY, _TEXTS, _LIFE, specific, _STORE)
    body = (*_TEXT_NAMES, *(column for column in specific.names if column not in derived))
    return Table(name, kind, columns, body)


def _resource(name: str, kind: str, group: str, singular: str) -> Table:
    specific = _columns(
        ("group_xid", _STRING, f"XID of the {group} that holds the {singular}"),
        (f"{singular}id", _STRING, f"Id of the {singular} in its group"),
        ("defaultversionid", _STRING, "Id of the default Version"),
        ("defaultversionsticky", _BOOLEAN, "true: the default Version was chosen and stays when newer ones come"),
        ("xref", _STRING, f"XID of the {singular} that this one is an alias of; NULL for one with its own definition"),
        ("readonly", _BOOLEAN, "true: clients must not change it"),
        ("compatibility", _STRING, "Compatibility promised between Versions"),
        ("authority", _STRING, "Authority that defines it, for catalogs that are copied elsewhere"),
        (
            "deprecated",
            _STRING,
            "JSON object: since when deprecated, when removed, what to use instead; NULL when not deprecated",
        ),
    )
    body = (
        "defaultversionid",
        "defaultversionsticky",
        "xref",
        "readonly",
        "compatibility",
        "authority",
        "deprecated",
        "extensions",
    )
    return Table(name, kind, _join(_KEY, specific, _LIFE, _STORE), body)


REGISTRIES = _entity(
    "registries",
    "registry",
    _columns(
        ("specversion", _STRING, "Version of the specification: that of the normal form for every dialect that is known"),
        ("capabilities", _STRING, "JSON object: what the registry offers"),
        ("model", _STRING, "JSON object: the registry's model"),
        ("modelsource", _STRING, "JSON object: the model as its author wrote it"),
    ),
)
GROUPS = _entity(
    "groups",
    "group",
    _columns(
        ("grouptype", _STRING, "Collection of the group: messagegroups or schemagroups"),
        ("groupid", _STRING, "Id of the group: messagegroupid or schemagroupid"),
        ("envelope", _STRING, "Envelope that all messages of the group use, such as CloudEvents/1.0"),
        ("protocol", _STRING, "Protocol that all messages of the group use, such as MQTT/5.0"),
    ),
    derived=("grouptype", "groupid"),
)
ENDPOINTS = _entity(
    "endpoints",
    "endpoint",
    _columns(
        ("endpointid", _STRING, "Id of the endpoint"),
        ("usage", _STRINGS, "Roles that a client can act in: producer, consumer, subscriber"),
        ("channel", _STRING, "Endpoints with the same channel belong together, such as the two ends of a queue"),
        ("envelope", _STRING, "Envelope of the messages, such as CloudEvents/1.0"),
        ("envelopeoptions", _STRING, "JSON object: options of the envelope, such as mode and format"),
        ("protocol", _STRING, "Protocol of the endpoint, such as KAFKA"),
        ("protocol_family", _STRING, "Name part of protocol in upper case: AMQP, HTTP, KAFKA, MQTT, NATS or another"),
        ("protocol_version", _STRING, "Version part of protocol; AMQP without one is 1.0, MQTT 5.0, others NULL"),
        ("protocoloptions", _STRING, "JSON object: all protocol options, with addresses and authorization"),
        ("deployed", _BOOLEAN, "true: expected to be reachable; false: a template; NULL: not said (the default is true)"),
        ("endpoints", _ADDRESSES, "Network addresses: the URI, and other members of the address as text"),
        ("messagegroups", _STRINGS, "XIDs of the message groups whose messages the endpoint carries"),
    ),
    derived=("endpointid", "protocol_family", "protocol_version", "deployed", "endpoints"),
)
MESSAGES = _resource("messages", "message", "message group, or the endpoint,", "message")
VERSIONS = _entity(
    "versions",
    "version",
    _columns(
        ("message_xid", _STRING, "XID of the message that this is a Version of"),
        ("versionid", _STRING, "Id of the Version"),
        ("isdefault", _BOOLEAN, "true: the Version that the message shows"),
        ("ancestor", _STRING, "Id of the Version that this one was made from; a root names itself"),
        ("basemessage", _STRING, "Message that this definition extends: an XID, or as written when it leads to another host"),
        ("base_xid", _STRING, "basemessage when it is an XID in this registry, else NULL"),
        ("envelope", _STRING, "Envelope of the message, such as CloudEvents/1.0"),
        ("envelopemetadata", _STRING, "JSON object: declarations of the envelope's attributes by name"),
        ("envelopeoptions", _STRING, "JSON object: options of the envelope, such as mode and format"),
        ("protocol", _STRING, "Protocol of the message, such as AMQP/1.0"),
        ("protocoloptions", _STRING, "JSON object: declarations of the protocol's properties"),
        ("dataschemaformat", _STRING, "Format of the payload's schema, such as JSONSchema/draft-07"),
        ("dataschema", _STRING, "JSON: the payload's schema, inline; a schema that is text is in quotes"),
        ("dataschemauri", _STRING, "URI-reference to the payload's schema"),
        ("dataschemaxid", _STRING, "XID of the schema that dataschemauri leads to"),
        ("datacontenttype", _STRING, "Media type of the payload"),
        ("version_uri", _STRING, "URI that names this Version across catalogs"),
        ("attributes", _MAP, "The definition as flat attributes: JSON Pointer to JSON text of the value, in normal form"),
    ),
    derived=("message_xid", "versionid", "base_xid", "dataschema", "attributes"),
)
SCHEMAS = _resource("schemas", "schema", "schema group", "schema")
SCHEMAVERSIONS = _entity(
    "schemaversions",
    "schemaversion",
    _columns(
        ("schema_xid", _STRING, "XID of the schema that this is a Version of"),
        ("versionid", _STRING, "Id of the Version"),
        ("isdefault", _BOOLEAN, "true: the Version that the schema shows"),
        ("ancestor", _STRING, "Id of the Version that this one was made from; a root names itself"),
        ("format", _STRING, "Format of the schema, such as Avro/1.11.1"),
        ("schema", _STRING, "JSON: the schema document, inline; a schema that is text is in quotes"),
        ("schemauri", _STRING, "URI of the schema document, when it is kept elsewhere"),
        ("contenttype", _STRING, "Media type of the schema document"),
    ),
    derived=("schema_xid", "versionid", "schema"),
)

EFFECTIVE_MESSAGES = _columns(
    ("registryid", _STRING, "Registry that the message belongs to"),
    ("xid", _STRING, "XID of the message"),
    ("group_xid", _STRING, "XID of the message group, or the endpoint, that holds the message"),
    ("messageid", _STRING, "Id of the message in its group"),
    ("version_xid", _STRING, "XID of the Version that the message shows; that of another message when it is an xref"),
    (
        "chain_status",
        _STRING,
        "none: no base; resolved; dangling: a base or what xref names is missing; cycle: own attributes only; external; too_deep",
    ),
    ("chain_depth", IntegerType(), "How many bases were merged"),
    ("name", _STRING, "Human-readable name"),
    ("description", _STRING, "Short text about the message"),
    ("labels", _MAP, "Labels: name to value"),
    ("envelope", _STRING, "Envelope of the message, such as CloudEvents/1.0"),
    ("ce_type", _STRING, "CloudEvents type"),
    ("ce_type_required", _BOOLEAN, "Whether CloudEvents type must be there; true by default"),
    ("ce_source", _STRING, "CloudEvents source, often a URI template"),
    ("ce_source_required", _BOOLEAN, "Whether CloudEvents source must be there; true by default"),
    ("ce_subject", _STRING, "CloudEvents subject"),
    ("ce_subject_required", _BOOLEAN, "Whether CloudEvents subject must be there; false by default"),
    ("protocol", _STRING, "Protocol of the message, such as AMQP/1.0; NULL: any, or that of the group or endpoint"),
    ("protocol_family", _STRING, "Name part of protocol in upper case: AMQP, HTTP, KAFKA, MQTT, NATS or another"),
    ("protocol_version", _STRING, "Version part of protocol; AMQP without one is 1.0, MQTT 5.0, others NULL"),
    (
        "address",
        _STRING,
        "Where the protocol sends it: MQTT topic_name, Kafka topic, AMQP properties.to, NATS subject, HTTP path",
    ),
    ("kafka_key", _STRING, "Kafka key; one in base64 when the definition says key_base64"),
    ("http_method", _STRING, "HTTP method"),
    ("http_status", _STRING, "HTTP status"),
    ("dataschemaformat", _STRING, "Format of the payload's schema, such as JSONSchema/draft-07"),
    (
        "schema_xid",
        _STRING,
        "XID of the payload's schema, as dataschemaxid or dataschemauri name it; whether it exists: entity_references",
    ),
    ("dataschemauri", _STRING, "URI-reference to the payload's schema"),
    ("datacontenttype", _STRING, "Media type of the payload; inferred from the schema format when not declared"),
    ("document_uris", _STRINGS, "URIs of the documents that hold the message now, sorted"),
    ("attributes", _MAP, "The effective definition as flat attributes: JSON Pointer to JSON text of the value"),
    ("inferred", _MAP, "What the specifications infer in addition: JSON Pointer to JSON text of the value"),
    ("depends_on", _STRINGS, "XIDs of all messages that this definition was sought in, found or not"),
    ("snapshot_id", _LONG, "Snapshot at which this row was computed last"),
)

ENTITY_TABLES = (REGISTRIES, GROUPS, ENDPOINTS, MESSAGES, VERSIONS, SCHEMAS, SCHEMAVERSIONS)
TABLE_OF_KIND = {table.kind: table for table in ENTITY_TABLES}

CHANGES = _columns(
    ("snapshot_id", _LONG, "Snapshot: 1, 2, 3 ...; the order of all changes"),
    ("registryid", _STRING, "Registry that the row belongs to; empty for a snapshot"),
    ("kind", _STRING, "registry, group, endpoint, message, version, schema, schemaversion, document, label or snapshot"),
    ("xid", _STRING, "XID of the entity; the URI of a document; the name of a label; empty for a snapshot"),
    ("op", _STRING, "insert, update, own (only the owning documents changed) or delete"),
    ("content_hash", _STRING, "SHA-256 of body in hexadecimal digits; NULL but for entities"),
    ("epoch", _LONG, "Epoch of the entity after the change"),
    ("createdat", _TIME, "createdat of the entity after the change (UTC)"),
    ("modifiedat", _TIME, "modifiedat of the entity after the change (UTC)"),
    ("document_uris", _STRINGS, "URIs of the documents that hold the entity, sorted"),
    ("body", _STRING, "JSON: the entity in normal form with sorted keys, without children, ids, URLs, counts, epoch and dates"),
    ("raw", _STRING, "JSON: the entity as written, without children; NULL when equal to body"),
    ("attributes", _MAP, "Leaves of a Version's definition: JSON Pointer to JSON text"),
)

VIOLATIONS = _columns(
    (
        "violation_id",
        _STRING,
        "Identity of the finding: registry, document, rule, XID, pointer, value and action hashed; stable over runs",
    ),
    ("ingest_id", _STRING, "Ingest that found it first"),
    ("found_at", _TIME, "When it was found first (UTC)"),
    ("registryid", _STRING, "Registry that the document is loaded into"),
    ("document_uri", _STRING, "URI of the document"),
    ("xid", _STRING, "XID of the entity; NULL when the whole document is meant"),
    ("pointer", _STRING, "JSON Pointer to the place in the document as written"),
    ("rule_id", _STRING, "Rule that is broken"),
    ("severity", _STRING, "error, warning or info"),
    ("action", _STRING, "quarantined: the entity was not loaded; kept: it was"),
    ("message", _STRING, "What is wrong, with the offending value"),
    ("hint", _STRING, "How to fix it"),
    ("raw", _STRING, "JSON of what was refused, as written; the first 4 KiB when a whole document was"),
)


class Declaration(NamedTuple):
    """A table, as `ddl/tables` creates it.

    Attributes:
        comment: what it holds, a sentence.
        columns: with comments.
        row: what has one row.
        key: columns that identify a row, never NULL.
        constraints: conditions that Delta checks, by name.
        cluster_by: columns that its files are clustered by.
        is_append_only: rows are added and never changed.
    """

    comment: str
    columns: StructType
    row: str
    key: tuple[str, ...] = ("registryid", "xid")
    constraints: dict[str, str] = {}  # noqa: RUF012  # a NamedTuple's default is never changed
    cluster_by: tuple[str, ...] = ("registryid", "xid")
    is_append_only: bool = False


_HAS_REGISTRY = {"registryid_not_empty": "registryid <> ''"}
_COUNTED = {"snapshot_counts_from_1": "snapshot_id >= 1"}


def _declared(table: Table, row: str, comment: str, xids: str) -> Declaration:
    hashed = {"epoch_not_negative": "epoch >= 0", "content_hash_is_sha256": "length(content_hash) = 64"}
    return Declaration(comment, table.columns, row, constraints=_HAS_REGISTRY | {"xid_names_this_kind": xids} | hashed | _COUNTED)


DECLARATIONS = {
    "changes": Declaration(
        "The log: every change of every entity, document and label, append-only. All other entity tables follow it.",
        CHANGES,
        "snapshot and changed entity, document or label, and one per snapshot itself",
        ("snapshot_id", "registryid", "kind", "xid"),
        _COUNTED
        | {
            "kind_is_known": "kind IN ('registry', 'group', 'endpoint', 'message', 'version', 'schema', "
            "'schemaversion', 'document', 'label', 'snapshot')",
            "op_is_known": "op IN ('insert', 'update', 'own', 'delete')",
        },
        cluster_by=(),
        is_append_only=True,
    ),
    "violations": Declaration(
        "Findings: what was refused, warned of or noted while documents were loaded. Append-only.",
        VIOLATIONS,
        "finding (violation_id)",
        ("violation_id",),
        {
            "severity_is_known": "severity IN ('error', 'warning', 'info')",
            "action_is_known": "action IN ('quarantined', 'kept')",
        },
        cluster_by=("document_uri",),
        is_append_only=True,
    ),
    "registries": _declared(REGISTRIES, "registry", "Registries: the root attributes of each registry.", "xid = '/'"),
    "groups": _declared(
        GROUPS,
        "group",
        "Message groups and schema groups.",
        "xid LIKE '/messagegroups/%' OR xid LIKE '/schemagroups/%'",
    ),
    "endpoints": _declared(
        ENDPOINTS, "endpoint", "Endpoints: where messages are produced, consumed or subscribed to.", "xid LIKE '/endpoints/%'"
    ),
    "messages": _declared(
        MESSAGES,
        "message",
        "Messages: what belongs to a message and not to one of its Versions.",
        "xid LIKE '/messagegroups/%/messages/%' OR xid LIKE '/endpoints/%/messages/%'",
    ),
    "versions": _declared(
        VERSIONS,
        "Version of a message",
        "Versions of messages: the message definitions, not yet flattened.",
        "xid LIKE '%/messages/%/versions/%'",
    ),
    "schemas": _declared(
        SCHEMAS,
        "schema",
        "Schemas: what belongs to a schema and not to one of its Versions.",
        "xid LIKE '/schemagroups/%/schemas/%'",
    ),
    "schemaversions": _declared(
        SCHEMAVERSIONS,
        "Version of a schema",
        "Versions of schemas: the schema documents.",
        "xid LIKE '/schemagroups/%/schemas/%/versions/%'",
    ),
    "effective_messages": Declaration(
        "Effective messages: what computed_messages computes, stored; flat_messages shows it; "
        "follows the log like the other tables.",
        EFFECTIVE_MESSAGES,
        "message",
        constraints=_HAS_REGISTRY | _COUNTED,
    ),
}

FINDING = StructType(
    [
        StructField(name, _STRING)
        for name in ("violation_id", "pointer", "rule_id", "severity", "action", "message", "hint", "raw")
    ]
)

STAGE = StructType(
    [
        StructField("row", _STRING),  # entity, document or finding
        StructField("document_uri", _STRING),
        StructField("again", _BOOLEAN),  # the document has the bytes of its last load, and is read all the same
        StructField("draft", _BOOLEAN),  # an entity of the CNCF catalog draft, whose Versions the catalog numbers
        StructField("registryid", _STRING),
        StructField("kind", _STRING),
        StructField("xid", _STRING),
        StructField("content_hash", _STRING),
        StructField("epoch", _LONG),  # as declared; so are the dates
        StructField("createdat", _TIME),
        StructField("modifiedat", _TIME),
        StructField("body", _STRING),
        StructField("raw", _STRING),
        StructField("attributes", _MAP),
        StructField("facts", _STRING),  # JSON: DOCUMENT_BODY
        StructField("finding", FINDING),
        StructField("isdefault", _BOOLEAN),  # of a Version: it is the default in its document
        StructField("twin_hash", _STRING),  # of a Version: its content_hash were isdefault the other way round
        StructField("defaultversionid", _STRING),  # of a message or schema
    ]
)

# What a document says of an entity that is not published as it says, or that it took from another document.
DISPUTE = StructType(
    [
        StructField("kind", _STRING),
        StructField("xid", _STRING),
        StructField("content_hash", _STRING),  # of what it says; NULL: that was refused
        StructField("rule_id", _STRING),  # of the finding about it; NULL: there is none
        StructField("other", _STRING),  # document that the finding names
    ]
)

_COUNTS = MapType(_STRING, IntegerType())

DOCUMENT_BODY = StructType(
    [
        StructField("status", _STRING),  # loaded, skipped or rejected
        StructField("reason", _STRING),
        StructField("dialect", _STRING),  # rejected without one: that of what it said before, which remains valid
        StructField("specversion", _STRING),
        StructField("own_registry", _BOOLEAN),  # the document itself says its registry
        StructField("sha256", _STRING),
        StructField("size", _LONG),
        StructField("entities", _COUNTS),  # accepted, by table
        StructField("quarantined", _COUNTS),  # refused, by table
        StructField("spellings", _COUNTS),
        StructField("root", _STRING),  # JSON of the root as written, without the collections
        StructField("findings", _STRINGS),  # violation_ids of this load
        StructField("disputes", ArrayType(DISPUTE)),
    ]
)


def body_schema(table: Table) -> StructType:
    """Return the schema with which `from_json` reads a table's columns from `body`; JSON columns are text."""
    return StructType([StructField(name, table.columns[name].dataType) for name in table.body])


def arrow_schema_of(columns: StructType) -> pa.Schema:
    """Return columns as Arrow's, moments in UTC."""
    if "timezone" not in signature(to_arrow_schema).parameters:  # before PySpark 4.2, which meant UTC
        return to_arrow_schema(columns)
    return to_arrow_schema(columns, timezone="UTC")
