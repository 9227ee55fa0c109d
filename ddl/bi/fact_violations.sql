-- fact_violations: Fact: a document breaks a rule, as of its latest load.
-- Grain: one row per finding and document.  Reads: current_violations, groups.  Read by: users.
CREATE OR REPLACE VIEW fact_violations (
  violation_id COMMENT 'Identity of the finding: stable over runs',
  registryid COMMENT 'Registry: part of each key',
  document_uri COMMENT 'URI of the document',
  xid COMMENT 'XID of the entity; NULL when the whole document is meant',
  team COMMENT 'Who owns the group of the entity: its label team or owner; NULL: nobody said',
  rule_id COMMENT 'Rule that is broken',
  severity COMMENT 'error, warning or info',
  action COMMENT 'quarantined: the entity was not loaded; kept: it was',
  found_at COMMENT 'When it was found first (UTC)',
  message COMMENT 'What is wrong',
  hint COMMENT 'How to fix it',
  snapshot_id COMMENT 'Snapshot of the load that found it: dim_snapshots'
)
COMMENT 'Fact: a document breaks a rule, as of its latest load.'
AS
SELECT
  v.violation_id,
  v.registryid,
  v.document_uri,
  v.xid,
  coalesce(g.labels['team'], g.labels['owner']) AS team,
  v.rule_id,
  v.severity,
  v.action,
  v.found_at,
  v.message,
  v.hint,
  v.snapshot_id
FROM current_violations AS v
LEFT JOIN groups AS g ON g.registryid = v.registryid AND g.xid = array_join(slice(split(v.xid, '/'), 1, 3), '/');
