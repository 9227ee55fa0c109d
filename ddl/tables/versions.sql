-- versions: Versions of messages: the message definitions, not yet flattened.
-- Grain: one row per Version of a message.  Key: registryid, xid.
-- Retention: Delta's own time travel reaches 30 days back; the log `changes` keeps every past state.
-- Creates an empty table. To use the tables of an existing catalog, run the script that `lakehouse ddl` prints.
CREATE TABLE IF NOT EXISTS versions (
  registryid STRING NOT NULL COMMENT 'Registry that the entity belongs to: the namespace of its XID',
  xid STRING NOT NULL COMMENT 'XID of the entity: its path within the registry',
  name STRING COMMENT 'Human-readable name',
  description STRING COMMENT 'Short text about the entity',
  documentation STRING COMMENT 'URL of further documentation',
  labels MAP<STRING, STRING> COMMENT 'Labels: name to value',
  deprecated STRING COMMENT 'JSON object: since when deprecated, when removed, what to use instead; NULL when not deprecated',
  epoch BIGINT COMMENT 'Revision number: as declared by the document, else counted up with each change',
  createdat TIMESTAMP COMMENT 'When the entity was created: as declared, else when it was first committed (UTC)',
  modifiedat TIMESTAMP COMMENT 'When the entity last changed: as declared, else when the change was committed (UTC)',
  message_xid STRING COMMENT 'XID of the message that this is a Version of',
  versionid STRING COMMENT 'Id of the Version',
  isdefault BOOLEAN COMMENT 'true: the Version that the message shows',
  ancestor STRING COMMENT 'Id of the Version that this one was made from; a root names itself',
  basemessage STRING COMMENT 'Message that this definition extends: an XID, or as written when it leads to another host',
  base_xid STRING COMMENT 'basemessage when it is an XID in this registry, else NULL',
  envelope STRING COMMENT 'Envelope of the message, such as CloudEvents/1.0',
  envelopemetadata STRING COMMENT 'JSON object: declarations of the envelope\'s attributes by name',
  envelopeoptions STRING COMMENT 'JSON object: options of the envelope, such as mode and format',
  protocol STRING COMMENT 'Protocol of the message, such as AMQP/1.0',
  protocoloptions STRING COMMENT 'JSON object: declarations of the protocol\'s properties',
  dataschemaformat STRING COMMENT 'Format of the payload\'s schema, such as JSONSchema/draft-07',
  dataschema STRING COMMENT 'JSON: the payload\'s schema, inline; a schema that is text is in quotes',
  dataschemauri STRING COMMENT 'URI-reference to the payload\'s schema',
  dataschemaxid STRING COMMENT 'XID of the schema that dataschemauri leads to',
  datacontenttype STRING COMMENT 'Media type of the payload',
  version_uri STRING COMMENT 'URI that names this Version across catalogs',
  attributes MAP<STRING, STRING> COMMENT 'The definition as flat attributes: JSON Pointer to JSON text of the value, in normal form',
  extensions STRING COMMENT 'JSON object: attributes that the specification does not know, as written',
  document_uris ARRAY<STRING> COMMENT 'URIs of the documents that hold this entity now, sorted',
  content_hash STRING COMMENT 'SHA-256 of the normal form in hexadecimal digits: differs when the content differs',
  snapshot_id BIGINT COMMENT 'Snapshot that last changed this row'
)
USING DELTA
CLUSTER BY (registryid, xid)
COMMENT 'Versions of messages: the message definitions, not yet flattened.'
TBLPROPERTIES (
  'xregistry.schema_version' = '2',
  'delta.checkpointPolicy' = 'classic',
  'delta.enableDeletionVectors' = 'false',
  'delta.deletedFileRetentionDuration' = 'interval 30 days',
  'delta.logRetentionDuration' = 'interval 30 days',
  'delta.constraints.registryid_not_empty' = 'registryid <> \'\'',
  'delta.constraints.xid_names_this_kind' = 'xid LIKE \'%/messages/%/versions/%\'',
  'delta.constraints.epoch_not_negative' = 'epoch >= 0',
  'delta.constraints.content_hash_is_sha256' = 'length(content_hash) = 64',
  'delta.constraints.snapshot_counts_from_1' = 'snapshot_id >= 1'
);
