-- message_texts: Texts of messages: the attributes that have a column, as text.
-- Grain: one row per message of scope.  Reads: merged_definitions.  Read by: inferred_definitions.
CREATE OR REPLACE VIEW message_texts (
  registryid COMMENT 'Registry that the message belongs to',
  xid COMMENT 'XID of the message',
  group_xid COMMENT 'XID of the message group, or the endpoint, that holds the message',
  messageid COMMENT 'Id of the message in its group',
  version_xid COMMENT 'XID of the Version that the message shows; that of another message when it is an xref',
  chain_status COMMENT 'none: no base; resolved; dangling: a base or what xref names is missing; cycle: own attributes only; external; too_deep',
  chain_depth COMMENT 'How many bases were merged',
  document_uris COMMENT 'URIs of the documents that hold the message now, sorted',
  attributes COMMENT 'The effective definition as flat attributes: JSON Pointer to JSON text of the value',
  depends_on COMMENT 'XIDs of all messages that this definition was sought in, found or not',
  texts COMMENT 'Attributes that have a column as text: JSON Pointer to a text without its quotes, or to JSON text; labels among them',
  protocol_family COMMENT 'Name part of protocol in upper case: AMQP, HTTP, KAFKA, MQTT, NATS or another',
  is_cloudevent COMMENT 'true: the envelope is CloudEvents, of whatever version; NULL: there is no envelope',
  format_type COMMENT 'Media type that dataschemaformat stands for: application/json for JSON Schema, else NULL'
)
COMMENT 'The attributes of messages that have a column, as text.'
AS
WITH leaf_texts AS (
  SELECT
    *,
    transform_values(
      map_filter(
        attributes,
        (pointer, leaf) -> startswith(pointer, '/labels/') OR pointer IN (
          '/name',
          '/description',
          '/envelope',
          '/envelopemetadata/type/value',
          '/envelopemetadata/source/value',
          '/envelopemetadata/subject/value',
          '/envelopemetadata/type/required',
          '/envelopemetadata/source/required',
          '/envelopemetadata/subject/required',
          '/protocol',
          '/protocoloptions/topic_name/value',
          '/protocoloptions/topic/value',
          '/protocoloptions/properties/to/value',
          '/protocoloptions/subject/value',
          '/protocoloptions/path/value',
          '/protocoloptions/key/value',
          '/protocoloptions/key_base64/value',
          '/protocoloptions/method/value',
          '/protocoloptions/status/value',
          '/dataschemaformat',
          '/dataschemauri',
          '/dataschemaxid',
          '/datacontenttype'
        )
      ),
      (pointer, leaf) -> CASE
        WHEN NOT startswith(leaf, '"') THEN nullif(leaf, 'null')
        WHEN contains(leaf, '\\') THEN get_json_object(leaf, '$')
        ELSE substr(leaf, 2, length(leaf) - 2)
      END
    ) AS texts
  FROM merged_definitions
)

SELECT
  registryid,
  xid,
  group_xid,
  messageid,
  version_xid,
  chain_status,
  chain_depth,
  document_uris,
  attributes,
  depends_on,
  texts,
  upper(trim(split_part(texts['/protocol'], '/', 1))) AS protocol_family,
  upper(split_part(texts['/envelope'], '/', 1)) = 'CLOUDEVENTS' AS is_cloudevent,
  CASE WHEN upper(translate(split_part(texts['/dataschemaformat'], '/', 1), '-_', '')) = 'JSONSCHEMA' THEN 'application/json' END AS format_type
FROM leaf_texts;
