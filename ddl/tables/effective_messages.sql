-- effective_messages: Effective messages: what computed_messages computes, stored; flat_messages shows it; follows the log like the other tables.
-- Grain: one row per message.  Key: registryid, xid.
-- Retention: Delta's own time travel reaches 30 days back; the log `changes` keeps every past state.
-- Creates an empty table. To use the tables of an existing catalog, run the script that `lakehouse ddl` prints.
CREATE TABLE IF NOT EXISTS effective_messages (
  registryid STRING NOT NULL COMMENT 'Registry that the message belongs to',
  xid STRING NOT NULL COMMENT 'XID of the message',
  group_xid STRING COMMENT 'XID of the message group, or the endpoint, that holds the message',
  messageid STRING COMMENT 'Id of the message in its group',
  version_xid STRING COMMENT 'XID of the Version that the message shows; that of another message when it is an xref',
  chain_status STRING COMMENT 'none: no base; resolved; dangling: a base or what xref names is missing; cycle: own attributes only; external; too_deep',
  chain_depth INT COMMENT 'How many bases were merged',
  name STRING COMMENT 'Human-readable name',
  description STRING COMMENT 'Short text about the message',
  labels MAP<STRING, STRING> COMMENT 'Labels: name to value',
  envelope STRING COMMENT 'Envelope of the message, such as CloudEvents/1.0',
  ce_type STRING COMMENT 'CloudEvents type',
  ce_type_required BOOLEAN COMMENT 'Whether CloudEvents type must be there; true by default',
  ce_source STRING COMMENT 'CloudEvents source, often a URI template',
  ce_source_required BOOLEAN COMMENT 'Whether CloudEvents source must be there; true by default',
  ce_subject STRING COMMENT 'CloudEvents subject',
  ce_subject_required BOOLEAN COMMENT 'Whether CloudEvents subject must be there; false by default',
  protocol STRING COMMENT 'Protocol of the message, such as AMQP/1.0; NULL: any, or that of the group or endpoint',
  protocol_family STRING COMMENT 'Name part of protocol in upper case: AMQP, HTTP, KAFKA, MQTT, NATS or another',
  protocol_version STRING COMMENT 'Version part of protocol; AMQP without one is 1.0, MQTT 5.0, others NULL',
  address STRING COMMENT 'Where the protocol sends it: MQTT topic_name, Kafka topic, AMQP properties.to, NATS subject, HTTP path',
  kafka_key STRING COMMENT 'Kafka key; one in base64 when the definition says key_base64',
  http_method STRING COMMENT 'HTTP method',
  http_status STRING COMMENT 'HTTP status',
  dataschemaformat STRING COMMENT 'Format of the payload\'s schema, such as JSONSchema/draft-07',
  schema_xid STRING COMMENT 'XID of the payload\'s schema, as dataschemaxid or dataschemauri name it; whether it exists: entity_references',
  dataschemauri STRING COMMENT 'URI-reference to the payload\'s schema',
  datacontenttype STRING COMMENT 'Media type of the payload; inferred from the schema format when not declared',
  document_uris ARRAY<STRING> COMMENT 'URIs of the documents that hold the message now, sorted',
  attributes MAP<STRING, STRING> COMMENT 'The effective definition as flat attributes: JSON Pointer to JSON text of the value',
  inferred MAP<STRING, STRING> COMMENT 'What the specifications infer in addition: JSON Pointer to JSON text of the value',
  depends_on ARRAY<STRING> COMMENT 'XIDs of all messages that this definition was sought in, found or not',
  snapshot_id BIGINT COMMENT 'Snapshot at which this row was computed last'
)
USING DELTA
CLUSTER BY (registryid, xid)
COMMENT 'Effective messages: what computed_messages computes, stored; flat_messages shows it; follows the log like the other tables.'
TBLPROPERTIES (
  'xregistry.schema_version' = '2',
  'delta.checkpointPolicy' = 'classic',
  'delta.enableDeletionVectors' = 'false',
  'delta.deletedFileRetentionDuration' = 'interval 30 days',
  'delta.logRetentionDuration' = 'interval 30 days',
  'delta.constraints.registryid_not_empty' = 'registryid <> \'\'',
  'delta.constraints.snapshot_counts_from_1' = 'snapshot_id >= 1'
);
