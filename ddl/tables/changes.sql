-- changes: The log: every change of every entity, document and label, append-only. All other entity tables follow it.
-- Grain: one row per snapshot and changed entity, document or label, and one per snapshot itself.  Key: snapshot_id, registryid, kind, xid.
-- Retention: Delta's own time travel reaches 30 days back; the log `changes` keeps every past state.
-- Creates an empty table. To use the tables of an existing catalog, run the script that `lakehouse ddl` prints.
CREATE TABLE IF NOT EXISTS changes (
  snapshot_id BIGINT NOT NULL COMMENT 'Snapshot: 1, 2, 3 ...; the order of all changes',
  registryid STRING NOT NULL COMMENT 'Registry that the row belongs to; empty for a snapshot',
  kind STRING NOT NULL COMMENT 'registry, group, endpoint, message, version, schema, schemaversion, document, label or snapshot',
  xid STRING NOT NULL COMMENT 'XID of the entity; the URI of a document; the name of a label; empty for a snapshot',
  op STRING COMMENT 'insert, update, own (only the owning documents changed) or delete',
  content_hash STRING COMMENT 'SHA-256 of body in hexadecimal digits; NULL but for entities',
  epoch BIGINT COMMENT 'Epoch of the entity after the change',
  createdat TIMESTAMP COMMENT 'createdat of the entity after the change (UTC)',
  modifiedat TIMESTAMP COMMENT 'modifiedat of the entity after the change (UTC)',
  document_uris ARRAY<STRING> COMMENT 'URIs of the documents that hold the entity, sorted',
  body STRING COMMENT 'JSON: the entity in normal form with sorted keys, without children, ids, URLs, counts, epoch and dates',
  raw STRING COMMENT 'JSON: the entity as written, without children; NULL when equal to body',
  attributes MAP<STRING, STRING> COMMENT 'Leaves of a Version\'s definition: JSON Pointer to JSON text'
)
USING DELTA
COMMENT 'The log: every change of every entity, document and label, append-only. All other entity tables follow it.'
TBLPROPERTIES (
  'xregistry.schema_version' = '2',
  'delta.checkpointPolicy' = 'classic',
  'delta.enableDeletionVectors' = 'false',
  'delta.deletedFileRetentionDuration' = 'interval 30 days',
  'delta.logRetentionDuration' = 'interval 30 days',
  'delta.appendOnly' = 'true',
  'delta.constraints.snapshot_counts_from_1' = 'snapshot_id >= 1',
  'delta.constraints.kind_is_known' = 'kind IN (\'registry\', \'group\', \'endpoint\', \'message\', \'version\', \'schema\', \'schemaversion\', \'document\', \'label\', \'snapshot\')',
  'delta.constraints.op_is_known' = 'op IN (\'insert\', \'update\', \'own\', \'delete\')'
);
