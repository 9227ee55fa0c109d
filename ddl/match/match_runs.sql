-- match_runs: Runs of `lakehouse match`: counts only, no value of any event.
-- Grain: one row per run; of a stream, one per micro-batch.  Key: run_id.
-- Retention: kept.
CREATE TABLE IF NOT EXISTS match_runs (
  run_id STRING NOT NULL COMMENT 'Identity of the run',
  begun_at TIMESTAMP COMMENT 'When it began (UTC)',
  sources ARRAY<STRING> COMMENT 'What was matched, as given',
  scope STRING COMMENT 'XID of the endpoint or group whose messages were asked; NULL: all',
  registryid STRING COMMENT 'Registry that was asked; NULL: all',
  level STRING COMMENT 'Strictness: default, strict or lenient',
  placeholders STRING COMMENT 'What a placeholder takes: auto, segment or any',
  catalog_snapshot BIGINT COMMENT 'Snapshot of the catalog',
  definitions BIGINT COMMENT 'Definitions that were asked',
  `read` BIGINT COMMENT 'Events: matched + ambiguous + incomplete + unmatched + unreadable',
  matched BIGINT COMMENT 'Events with one best definition in each registry that knows them',
  ambiguous BIGINT COMMENT 'Events with several equally specific definitions',
  unmatched BIGINT COMMENT 'Events of no definition',
  unreadable BIGINT COMMENT 'Rows that are no event that can be read',
  deviating BIGINT COMMENT 'Matched events that deviate in what does not decide',
  payloads MAP<STRING, BIGINT> COMMENT 'Events by payload_status',
  seen BIGINT COMMENT 'Definitions that an event was of',
  incomplete BIGINT COMMENT 'Events that only definitions may match whose chain of bases is not whole; NULL in runs of before that was counted'
)
USING DELTA
COMMENT 'Runs of `lakehouse match`: counts only, no value of any event.'
TBLPROPERTIES (
  'delta.checkpointPolicy' = 'classic',
  'delta.enableDeletionVectors' = 'false',
  'delta.constraints.counts_add_up' = '`read` = matched + ambiguous + coalesce(incomplete, 0) + unmatched + unreadable'
);
