-- current_violations: Findings of each document's latest load; fixed ones are not among them.
-- Grain: one row per finding and document.  Reads: documents, violations.  Read by: users.
CREATE OR REPLACE VIEW current_violations (
  violation_id COMMENT 'Identity of the finding: stable over runs',
  ingest_id COMMENT 'Ingest that found it first',
  found_at COMMENT 'When it was found first (UTC)',
  registryid COMMENT 'Registry that the document is loaded into',
  document_uri COMMENT 'URI of the document',
  xid COMMENT 'XID of the entity; NULL when the whole document is meant',
  pointer COMMENT 'JSON Pointer to the place in the document as written',
  rule_id COMMENT 'Rule that is broken',
  severity COMMENT 'error, warning or info',
  action COMMENT 'quarantined: the entity was not loaded; kept: it was',
  message COMMENT 'What is wrong, with the offending value',
  hint COMMENT 'How to fix it',
  raw COMMENT 'JSON of what was refused, as written; the first 4 KiB when a whole document was',
  snapshot_id COMMENT 'Snapshot of the load that found it'
)
COMMENT 'Findings of each document\'s latest load; fixed ones are not among them.'
AS
WITH findings AS (
  SELECT
    registryid,
    document_uri,
    snapshot_id,
    explode(findings) AS violation_id
  FROM documents
)

SELECT
  v.violation_id,
  v.ingest_id,
  v.found_at,
  v.registryid,
  v.document_uri,
  v.xid,
  v.pointer,
  v.rule_id,
  v.severity,
  v.action,
  v.message,
  v.hint,
  v.raw,
  f.snapshot_id
FROM findings AS f
INNER JOIN violations AS v ON v.violation_id = f.violation_id;
