-- groups: Message groups and schema groups.
-- Grain: one row per group.  Key: registryid, xid.
-- Retention: Delta's own time travel reaches 30 days back; the log `changes` keeps every past state.
-- Creates an empty table. To use the tables of an existing catalog, run the script that `lakehouse ddl` prints.
CREATE TABLE IF NOT EXISTS groups (
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
  grouptype STRING COMMENT 'Collection of the group: messagegroups or schemagroups',
  groupid STRING COMMENT 'Id of the group: messagegroupid or schemagroupid',
  envelope STRING COMMENT 'Envelope that all messages of the group use, such as CloudEvents/1.0',
  protocol STRING COMMENT 'Protocol that all messages of the group use, such as MQTT/5.0',
  extensions STRING COMMENT 'JSON object: attributes that the specification does not know, as written',
  document_uris ARRAY<STRING> COMMENT 'URIs of the documents that hold this entity now, sorted',
  content_hash STRING COMMENT 'SHA-256 of the normal form in hexadecimal digits: differs when the content differs',
  snapshot_id BIGINT COMMENT 'Snapshot that last changed this row'
)
USING DELTA
CLUSTER BY (registryid, xid)
COMMENT 'Message groups and schema groups.'
TBLPROPERTIES (
  'xregistry.schema_version' = '2',
  'delta.checkpointPolicy' = 'classic',
  'delta.enableDeletionVectors' = 'false',
  'delta.deletedFileRetentionDuration' = 'interval 30 days',
  'delta.logRetentionDuration' = 'interval 30 days',
  'delta.constraints.registryid_not_empty' = 'registryid <> \'\'',
  'delta.constraints.xid_names_this_kind' = 'xid LIKE \'/messagegroups/%\' OR xid LIKE \'/schemagroups/%\'',
  'delta.constraints.epoch_not_negative' = 'epoch >= 0',
  'delta.constraints.content_hash_is_sha256' = 'length(content_hash) = 64',
  'delta.constraints.snapshot_counts_from_1' = 'snapshot_id >= 1'
);
