-- snapshots: Snapshots: each commit of the catalog.
-- Grain: one row per snapshot.  Reads: changes.  Read by: users.
CREATE OR REPLACE VIEW snapshots (
  snapshot_id COMMENT 'Snapshot: 1, 2, 3 ...; the order of all changes',
  committed_at COMMENT 'When it was committed (UTC); never before the snapshot before it',
  ingest_id COMMENT 'Run that committed it',
  command COMMENT 'Command that was run',
  committed_by COMMENT 'User of the machine who ran it; of what came over HTTP the users of the requests',
  product_version COMMENT 'Version of xRegistry Lakehouse',
  documents COMMENT 'Documents by outcome: read, unchanged, skipped, rejected',
  inserted COMMENT 'Entities that came',
  updated COMMENT 'Entities that changed, or whose owning documents did',
  deleted COMMENT 'Entities that went',
  counts COMMENT 'Changed entities by table and op',
  digest COMMENT 'Digest over the rows of the snapshot and of all before it',
  previous_digest COMMENT 'Digest of the snapshot before; empty for the first',
  labels COMMENT 'Names given to the snapshot, sorted'
)
COMMENT 'Snapshots: each commit of the catalog.'
AS
WITH commits AS (
  SELECT
    snapshot_id,
    from_json(
      body,
      'committed_at TIMESTAMP, ingest_id STRING, command STRING, committed_by STRING, product_version STRING, documents MAP<STRING, INT>, counts MAP<STRING, MAP<STRING, INT>>, digest STRING, previous_digest STRING'
    ) AS b
  FROM changes
  WHERE kind = 'snapshot'
),

last_labels AS (
  SELECT
    xid AS label,
    max(struct(snapshot_id, op, body)) AS last
  FROM changes
  WHERE kind = 'label'
  GROUP BY xid
),

labels AS (
  SELECT
    CAST(get_json_object(last.body, '$.snapshot_id') AS BIGINT) AS snapshot_id,
    array_sort(collect_list(label)) AS labels
  FROM last_labels
  WHERE last.op <> 'delete'
  GROUP BY 1
)

SELECT
  c.snapshot_id,
  c.b.committed_at AS committed_at,
  c.b.ingest_id AS ingest_id,
  c.b.command AS command,
  c.b.committed_by AS committed_by,
  c.b.product_version AS product_version,
  c.b.documents AS documents,
  aggregate(map_values(c.b.counts), 0, (n, ops) -> n + coalesce(try_element_at(ops, 'insert'), 0)) AS inserted,
  aggregate(
    map_values(c.b.counts),
    0,
    (n, ops) -> n + coalesce(try_element_at(ops, 'update'), 0) + coalesce(try_element_at(ops, 'own'), 0)
  ) AS updated,
  aggregate(map_values(c.b.counts), 0, (n, ops) -> n + coalesce(try_element_at(ops, 'delete'), 0)) AS deleted,
  c.b.counts AS counts,
  c.b.digest AS digest,
  c.b.previous_digest AS previous_digest,
  coalesce(l.labels, CAST(array() AS ARRAY<STRING>)) AS labels
FROM commits AS c
LEFT JOIN labels AS l ON l.snapshot_id = c.snapshot_id;
