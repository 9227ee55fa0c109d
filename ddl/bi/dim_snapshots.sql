-- dim_snapshots: Dimension of snapshots: when the catalog changed, and who changed it.
-- Grain: one row per snapshot.  Reads: snapshots.  Read by: users.
CREATE OR REPLACE VIEW dim_snapshots (
  snapshot_id COMMENT 'Snapshot: the key',
  committed_at COMMENT 'When it was committed (UTC)',
  committed_on COMMENT 'Day of committed_at',
  command COMMENT 'Command that was run',
  committed_by COMMENT 'User of the machine who ran it',
  inserted COMMENT 'Entities that came',
  updated COMMENT 'Entities that changed',
  deleted COMMENT 'Entities that went',
  labels COMMENT 'Names of the snapshot, joined by a comma'
)
COMMENT 'Dimension of snapshots: when the catalog changed, and who changed it.'
AS
SELECT
  snapshot_id,
  committed_at,
  CAST(committed_at AS DATE) AS committed_on,
  command,
  committed_by,
  inserted,
  updated,
  deleted,
  array_join(labels, ',') AS labels
FROM snapshots;
