-- observed_paths: What `lakehouse propose` counted of events that no definition describes, or that break their schema.
-- Grain: one row per source, kind, broken schema, path, JSON type and day, and per micro-batch of a stream; rows of one key add up.
-- Retention: kept until its source is counted again.
CREATE TABLE IF NOT EXISTS observed_paths (
  source STRING COMMENT 'What was read, as an absolute location or the name of a table; of a stream, its identity',
  kind STRING COMMENT 'CloudEvents type, else protocol and address without ids, and what distinguishes kinds there',
  path STRING COMMENT 'JSON Pointer, with * for items of arrays and {} for keys of maps; below /data the payload',
  type STRING COMMENT 'JSON type: object, array, string, number, integer, boolean, null; binary for other payloads',
  day STRING COMMENT 'Day on which the events landed, else that of their time (UTC); empty when neither is known',
  events BIGINT COMMENT 'How many values there were; of the parent object, how many could have held one',
  values MAP<STRING, BIGINT> COMMENT 'Up to 32 values and how often each was there; NULL: more, a long one, or a secret',
  sketch BINARY COMMENT 'HyperLogLog of 256 registers, one byte each: distinct values where values is NULL',
  least DOUBLE COMMENT 'Least number',
  greatest DOUBLE COMMENT 'Greatest number',
  shortest BIGINT COMMENT 'Least length: characters of a text, items of an array, members of an object',
  longest BIGINT COMMENT 'Greatest length',
  formats ARRAY<STRING> COMMENT 'Formats of JSON Schema that all texts have; NULL: there was no text',
  compared BIGINT COMMENT 'Events of the sample whose texts were compared',
  equals MAP<STRING, BIGINT> COMMENT 'Paths that held the same text in the sample, and how often',
  breaks STRING COMMENT 'Registry and XID of the schema that the payloads break; NULL: no definition describes the events',
  producers ARRAY<STRING> COMMENT 'Up to 32 sources that sent it, of events, attributes and members of the payload; NULL: more, or not kept'
)
USING DELTA
COMMENT 'What `lakehouse propose` counted of events that no definition describes, or that break their schema'
TBLPROPERTIES (
  'delta.checkpointPolicy' = 'classic',
  'delta.enableDeletionVectors' = 'false'
);
