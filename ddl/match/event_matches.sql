-- event_matches: Events against definitions: what each event that landed is, and why not.
-- Grain: one row per event and run.  Key: run_id, event_ref, item.
-- Retention: the setting match_retention_days; Delta's own time travel reaches 30 days back.
CREATE TABLE IF NOT EXISTS event_matches (
  run_id STRING NOT NULL COMMENT 'Run that matched it: a row of match_runs',
  event_ref STRUCT<source: STRING, `partition`: BIGINT, `offset`: BIGINT, `row`: BIGINT> COMMENT 'Where the event is: file or topic; partition, or where the split of a file begins; offset; number of the line there',
  item INT COMMENT 'Place in a batch of CloudEvents, from 0; NULL when it was no batch',
  landed_at TIMESTAMP COMMENT 'When it landed (UTC), where the landing says so',
  protocol STRING COMMENT 'Protocol that it landed from; NULL when the landing does not say so',
  mode STRING COMMENT 'binary or structured; NULL: no CloudEvent',
  ce_id STRING COMMENT 'CloudEvents id',
  ce_source STRING COMMENT 'CloudEvents source: who produced it',
  ce_type STRING COMMENT 'CloudEvents type',
  address STRING COMMENT 'Where it travelled: topic, topic_name, subject or path',
  status STRING COMMENT 'matched; ambiguous: several definitions of one registry are equally specific; incomplete: only definitions may match whose chain of bases is not whole; unmatched; unreadable',
  registryid STRING COMMENT 'Registry of the best definition',
  xid STRING COMMENT 'XID of the best definition; the first of them when there are several',
  version_xid STRING COMMENT 'XID of the Version that was the default then',
  best ARRAY<STRUCT<registryid: STRING, xid: STRING>> COMMENT 'Matches that no other match of their registry is more specific than',
  matches ARRAY<STRUCT<registryid: STRING, xid: STRING>> COMMENT 'All definitions that the event is of, sorted',
  variables MAP<STRING, STRING> COMMENT 'What the placeholders of the best definition hold',
  reasons ARRAY<STRUCT<pointer: STRING, reason: STRING, expected: STRING, actual: STRING>> COMMENT 'Why it is not what nearest_xid says, or cannot be read',
  deviations ARRAY<STRUCT<pointer: STRING, reason: STRING, expected: STRING, actual: STRING>> COMMENT 'What differs from the best definition and does not decide',
  unchecked ARRAY<STRING> COMMENT 'JSON Pointers to declared attributes that the landing does not show',
  nearest_xid STRING COMMENT 'Definition that came nearest: of an unmatched or incomplete event; of a matched one, a more specific one that it misses',
  why STRING COMMENT 'Why it matches nothing or cannot be read, in one line; the same for all events of a kind',
  payload_status STRING COMMENT 'valid, valid_older, invalid, undecodable, none, no_schema, schema_unresolved, unsupported_format or not_checked',
  payload_errors ARRAY<STRUCT<pointer: STRING, keyword: STRING, message: STRING>> COMMENT 'Where the payload breaks its schema, at most five',
  written_with STRING COMMENT 'XID of the Version of the schema that the payload was written with; NULL: it is not known',
  remarks ARRAY<STRING> COMMENT 'What is odd and was corrected or ignored, such as double_encoded',
  catalog_snapshot BIGINT COMMENT 'Snapshot of the catalog that it was matched with'
)
USING DELTA
COMMENT 'Events against definitions: what each event that landed is, and why not.'
TBLPROPERTIES (
  'delta.checkpointPolicy' = 'classic',
  'delta.enableDeletionVectors' = 'false',
  'delta.deletedFileRetentionDuration' = 'interval 30 days',
  'delta.logRetentionDuration' = 'interval 30 days',
  'delta.constraints.status_is_known' = 'status IN (\'matched\', \'ambiguous\', \'incomplete\', \'unmatched\', \'unreadable\')'
);
