-- unmatched_signatures: Kinds of events that match nothing or cannot be read: small, and without payloads, so it may be shared.
-- Grain: one row per run, reason, nearest definition and producer.  Key: run_id, why, nearest_xid, ce_source.
-- Retention: the setting match_retention_days.
CREATE TABLE IF NOT EXISTS unmatched_signatures (
  run_id STRING NOT NULL COMMENT 'Run that found it: a row of match_runs',
  status STRING COMMENT 'unmatched, incomplete or unreadable',
  why STRING COMMENT 'Why, in one line',
  pointers ARRAY<STRING> COMMENT 'JSON Pointers to the declared attributes that fail',
  nearest_xid STRING COMMENT 'Definition that came nearest',
  ce_type STRING COMMENT 'CloudEvents type of the events',
  ce_source STRING COMMENT 'CloudEvents source of the events: the producer',
  events BIGINT COMMENT 'How many there are',
  first_landed_at TIMESTAMP COMMENT 'When the first of them landed (UTC), where the landing says so',
  last_landed_at TIMESTAMP COMMENT 'When the last of them landed (UTC), where the landing says so',
  sample STRUCT<source: STRING, `partition`: BIGINT, `offset`: BIGINT, `row`: BIGINT> COMMENT 'Where one of them is',
  catalog_snapshot BIGINT COMMENT 'Snapshot of the catalog'
)
USING DELTA
COMMENT 'Kinds of events that match nothing or cannot be read: small, and without payloads, so it may be shared.'
TBLPROPERTIES (
  'delta.checkpointPolicy' = 'classic',
  'delta.enableDeletionVectors' = 'false'
);
