-- documents: Documents: what came of each when it was loaded last.
-- Grain: one row per registry and document.  Reads: changes.  Read by: current_violations.
CREATE OR REPLACE VIEW documents (
  registryid COMMENT 'Registry that the document is loaded into',
  document_uri COMMENT 'URI of the document',
  status COMMENT 'loaded; skipped: it is no registry document; rejected: it was refused whole',
  reason COMMENT 'Why it was skipped or rejected',
  dialect COMMENT 'Dialect that was recognised: 1.0-rc1, 1.0-rc2, 1.0-rc4, 0.5-wip, cereg or cncf-catalog',
  specversion COMMENT 'specversion as the document says it',
  sha256 COMMENT 'SHA-256 of the document in hexadecimal digits',
  size COMMENT 'Bytes of the document as stored',
  entities COMMENT 'Entities that were accepted, by table',
  quarantined COMMENT 'Entities that were refused, by table',
  spellings COMMENT 'Spellings that were brought into normal form, each with its count',
  findings COMMENT 'violation_id of each finding of this load',
  root COMMENT 'JSON object: the root attributes as written',
  snapshot_id COMMENT 'Snapshot since which this is so'
)
COMMENT 'Documents: what came of each when it was loaded last.'
AS
WITH last_loads AS (
  SELECT
    registryid,
    xid AS document_uri,
    max(struct(snapshot_id, op, body)) AS last
  FROM changes
  WHERE kind = 'document'
  GROUP BY registryid, xid
),

facts AS (
  SELECT
    registryid,
    document_uri,
    last.snapshot_id AS snapshot_id,
    from_json(
      last.body,
      'status STRING, reason STRING, dialect STRING, specversion STRING, sha256 STRING, size BIGINT, entities MAP<STRING, INT>, quarantined MAP<STRING, INT>, spellings MAP<STRING, INT>, root STRING, findings ARRAY<STRING>'
    ) AS f
  FROM last_loads
  WHERE last.op <> 'delete'
)

SELECT
  registryid,
  document_uri,
  f.status AS status,
  f.reason AS reason,
  f.dialect AS dialect,
  f.specversion AS specversion,
  f.sha256 AS sha256,
  f.size AS size,
  f.entities AS entities,
  f.quarantined AS quarantined,
  f.spellings AS spellings,
  f.findings AS findings,
  f.root AS root,
  snapshot_id
FROM facts;
