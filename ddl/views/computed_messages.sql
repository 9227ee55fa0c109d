-- computed_messages: Messages: the effective definition of each, computed from the definitions as they are now.
-- Grain: one row per message of scope.  Reads: inferred_definitions.  Read by: effective_messages, flat_messages.
-- effective_messages stores it; flat_messages reads it where that lags.
CREATE OR REPLACE VIEW computed_messages (
  registryid COMMENT 'Registry that the message belongs to',
  xid COMMENT 'XID of the message',
  group_xid COMMENT 'XID of the message group, or the endpoint, that holds the message',
  messageid COMMENT 'Id of the message in its group',
  version_xid COMMENT 'XID of the Version that the message shows; that of another message when it is an xref',
  chain_status COMMENT 'none: no base; resolved; dangling: a base or what xref names is missing; cycle: own attributes only; external; too_deep',
  chain_depth COMMENT 'How many bases were merged',
  name COMMENT 'Human-readable name',
  description COMMENT 'Short text about the message',
  labels COMMENT 'Labels: name to value',
  envelope COMMENT 'Envelope of the message, such as CloudEvents/1.0',
  ce_type COMMENT 'CloudEvents type',
  ce_type_required COMMENT 'Whether CloudEvents type must be there; true by default',
  ce_source COMMENT 'CloudEvents source, often a URI template',
  ce_source_required COMMENT 'Whether CloudEvents source must be there; true by default',
  ce_subject COMMENT 'CloudEvents subject',
  ce_subject_required COMMENT 'Whether CloudEvents subject must be there; false by default',
  protocol COMMENT 'Protocol of the message, such as AMQP/1.0; NULL: any, or that of the group or endpoint',
  protocol_family COMMENT 'Name part of protocol in upper case: AMQP, HTTP, KAFKA, MQTT, NATS or another',
  protocol_version COMMENT 'Version part of protocol; AMQP without one is 1.0, MQTT 5.0, others NULL',
  address COMMENT 'Where the protocol sends it: MQTT topic_name, Kafka topic, AMQP properties.to, NATS subject, HTTP path',
  kafka_key COMMENT 'Kafka key; one in base64 when the definition says key_base64',
  http_method COMMENT 'HTTP method',
  http_status COMMENT 'HTTP status',
  dataschemaformat COMMENT 'Format of the payload\'s schema, such as JSONSchema/draft-07',
  schema_xid COMMENT 'XID of the payload\'s schema, as dataschemaxid or dataschemauri name it; whether it exists: entity_references',
  dataschemauri COMMENT 'URI-reference to the payload\'s schema',
  datacontenttype COMMENT 'Media type of the payload; inferred from the schema format when not declared',
  document_uris COMMENT 'URIs of the documents that hold the message now, sorted',
  attributes COMMENT 'The effective definition as flat attributes: JSON Pointer to JSON text of the value',
  inferred COMMENT 'What the specifications infer in addition: JSON Pointer to JSON text of the value',
  depends_on COMMENT 'XIDs of all messages that this definition was sought in, found or not'
)
COMMENT 'The effective definition of each message, computed from the definitions as they are now.'
AS
-- Where dataschemauri leads within the registry: an XID or, after #, a JSON Pointer with its escapes, as entity_references reads it.
WITH spelled_definitions AS (
  SELECT
    *,
    regexp_replace(
      CASE WHEN startswith(ltrim(uri), '#')
        THEN replace(replace(coalesce(try_url_decode(replace(uri_path, '+', '%2B')), uri_path), '~1', '/'), '~0', '~')
        ELSE uri_path
      END,
      '\\A/schemaGroups/',
      '/schemagroups/'
    ) AS schema_path
  FROM (
    SELECT
      *,
      texts['/dataschemauri'] AS uri,
      split_part(regexp_replace(texts['/dataschemauri'], '\\A\\s*#', ''), '#', 1) AS uri_path
    FROM inferred_definitions
  )
)

SELECT
  registryid,
  xid,
  group_xid,
  messageid,
  version_xid,
  chain_status,
  chain_depth,
  texts['/name'] AS name,
  texts['/description'] AS description,
  CASE WHEN exists(map_keys(texts), pointer -> startswith(pointer, '/labels/')) THEN
    transform_keys(
      map_filter(texts, (pointer, text) -> startswith(pointer, '/labels/')),
      (pointer, text) -> replace(replace(substr(pointer, 9), '~1', '/'), '~0', '~')
    )
  END AS labels,
  texts['/envelope'] AS envelope,
  texts['/envelopemetadata/type/value'] AS ce_type,
  CASE WHEN is_cloudevent THEN coalesce(texts['/envelopemetadata/type/required'] = 'true', TRUE) END AS ce_type_required,
  texts['/envelopemetadata/source/value'] AS ce_source,
  CASE WHEN is_cloudevent THEN coalesce(texts['/envelopemetadata/source/required'] = 'true', TRUE) END AS ce_source_required,
  texts['/envelopemetadata/subject/value'] AS ce_subject,
  CASE WHEN is_cloudevent THEN coalesce(texts['/envelopemetadata/subject/required'] = 'true', FALSE) END AS ce_subject_required,
  texts['/protocol'] AS protocol,
  protocol_family,
  coalesce(
    nullif(trim(substr(texts['/protocol'], length(split_part(texts['/protocol'], '/', 1)) + 2)), ''),
    map('AMQP', '1.0', 'MQTT', '5.0')[protocol_family]
  ) AS protocol_version,
  CASE
    WHEN protocol_family IN ('MQTT', 'KAFKA', 'AMQP', 'NATS', 'HTTP') THEN
      texts[
        map(
          'MQTT', '/protocoloptions/topic_name/value',
          'KAFKA', '/protocoloptions/topic/value',
          'AMQP', '/protocoloptions/properties/to/value',
          'NATS', '/protocoloptions/subject/value',
          'HTTP', '/protocoloptions/path/value'
        )[protocol_family]
      ]
    ELSE coalesce(
      texts['/protocoloptions/topic_name/value'],
      texts['/protocoloptions/topic/value'],
      texts['/protocoloptions/properties/to/value'],
      texts['/protocoloptions/subject/value'],
      texts['/protocoloptions/path/value']
    )
  END AS address,
  coalesce(texts['/protocoloptions/key/value'], texts['/protocoloptions/key_base64/value']) AS kafka_key,
  texts['/protocoloptions/method/value'] AS http_method,
  texts['/protocoloptions/status/value'] AS http_status,
  texts['/dataschemaformat'] AS dataschemaformat,
  coalesce(
    regexp_replace(texts['/dataschemaxid'], '\\A((/[^/]*){4})/versions/[^/]*\\z', '$1'),
    nullif(regexp_extract(schema_path, '\\A(/schemagroups/[^/]+/schemas/[^/]+)/', 1), ''),
    nullif(regexp_extract(schema_path, '\\A(/schemagroups/[^/]+/schemas/[^/]+?)(:[^:/]*)?\\z', 1), '')
  ) AS schema_xid,
  texts['/dataschemauri'] AS dataschemauri,
  coalesce(texts['/datacontenttype'], format_type) AS datacontenttype,
  document_uris,
  attributes,
  inferred,
  depends_on
FROM spelled_definitions;
