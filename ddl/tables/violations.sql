-- violations: Findings: what was refused, warned of or noted while documents were loaded. Append-only.
-- Grain: one row per finding (violation_id).  Key: violation_id.
-- Retention: Delta's own time travel reaches 30 days back; the log `changes` keeps every past state.
-- Creates an empty table. To use the tables of an existing catalog, run the script that `lakehouse ddl` prints.
CREATE TABLE IF NOT EXISTS violations (
  violation_id STRING NOT NULL COMMENT 'Identity of the finding: registry, document, rule, XID, pointer, value and action hashed; stable over runs',
  ingest_id STRING COMMENT 'Ingest that found it first',
  found_at TIMESTAMP COMMENT 'When it was found first (UTC)',
  registryid STRING COMMENT 'Registry that the document is loaded into',
  document_uri STRING COMMENT 'URI of the document',
  xid STRING COMMENT 'XID of the entity; NULL when the whole document is meant',
  pointer STRING COMMENT 'JSON Pointer to the place in the document as written',
  rule_id STRING COMMENT 'Rule that is broken',
  severity STRING COMMENT 'error, warning or info',
  action STRING COMMENT 'quarantined: the entity was not loaded; kept: it was',
  message STRING COMMENT 'What is wrong, with the offending value',
  hint STRING COMMENT 'How to fix it',
  raw STRING COMMENT 'JSON of what was refused, as written; the first 4 KiB when a whole document was'
)
USING DELTA
CLUSTER BY (document_uri)
COMMENT 'Findings: what was refused, warned of or noted while documents were loaded. Append-only.'
TBLPROPERTIES (
  'xregistry.schema_version' = '2',
  'delta.checkpointPolicy' = 'classic',
  'delta.enableDeletionVectors' = 'false',
  'delta.deletedFileRetentionDuration' = 'interval 30 days',
  'delta.logRetentionDuration' = 'interval 30 days',
  'delta.appendOnly' = 'true',
  'delta.constraints.severity_is_known' = 'severity IN (\'error\', \'warning\', \'info\')',
  'delta.constraints.action_is_known' = 'action IN (\'quarantined\', \'kept\')'
);
