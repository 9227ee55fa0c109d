-- inferred_definitions: Inferred definitions: what the specifications say of each message in addition to what is written.
-- Grain: one row per message of scope.  Reads: message_texts.  Read by: computed_messages.
-- The defaults of MSG-054, MSG-055, MSG-237 to MSG-263, END-135, END-163, END-165, which are never written back into `versions`, and
-- are never in `attributes`.
CREATE OR REPLACE VIEW inferred_definitions (
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
  format_type COMMENT 'Media type that dataschemaformat stands for: application/json for JSON Schema, else NULL',
  inferred COMMENT 'What the specifications infer in addition: JSON Pointer to JSON text of the value'
)
COMMENT 'What the specifications say of each message in addition to what is written.'
AS
WITH declared_names AS (
  SELECT
    *,
    CASE WHEN is_cloudevent THEN
      array_distinct(
        transform(filter(map_keys(attributes), pointer -> startswith(pointer, '/envelopemetadata/')), pointer -> split_part(pointer, '/', 3))
      )
    ELSE array() END AS names,
    is_cloudevent AND coalesce(texts['/datacontenttype'], format_type) IS NOT NULL AS has_content_type,
    is_cloudevent AND texts['/dataschemauri'] IS NOT NULL AS has_schema
  FROM message_texts
),

extension_names AS (
  SELECT
    *,
    array_except(names, array('specversion', 'id', 'source', 'type', 'time', 'subject', 'datacontenttype', 'dataschema')) AS extensions
  FROM declared_names
),

-- What CloudEvents and the protocols ask for, whether it is declared or not.
implications AS (
  SELECT
    *,
    map_concat(
      CASE WHEN is_cloudevent THEN
        map(
          '/envelopemetadata/specversion/type', '"string"',
          '/envelopemetadata/specversion/required', 'true',
          '/envelopemetadata/specversion/value', '"1.0"',
          '/envelopemetadata/id/type', '"string"',
          '/envelopemetadata/id/required', 'true',
          '/envelopemetadata/source/type', '"uritemplate"',
          '/envelopemetadata/source/required', 'true',
          '/envelopemetadata/type/type', '"string"',
          '/envelopemetadata/type/required', 'true',
          '/envelopemetadata/time/type', '"timestamp"',
          '/envelopemetadata/time/required', 'false',
          '/envelopemetadata/time/value', '"0000-01-01T00:00:00Z"'
        )
      ELSE map() END,
      CASE WHEN array_contains(names, 'subject')
        THEN map('/envelopemetadata/subject/type', '"string"', '/envelopemetadata/subject/required', 'false')
        ELSE map() END,
      CASE WHEN has_content_type OR array_contains(names, 'datacontenttype')
        THEN map('/envelopemetadata/datacontenttype/type', '"string"', '/envelopemetadata/datacontenttype/required', 'false')
        ELSE map() END,
      CASE WHEN has_content_type
        THEN map('/envelopemetadata/datacontenttype/value', coalesce(attributes['/datacontenttype'], '"application/json"'))
        ELSE map() END,
      CASE WHEN has_schema OR array_contains(names, 'dataschema')
        THEN map('/envelopemetadata/dataschema/type', '"uritemplate"', '/envelopemetadata/dataschema/required', 'false')
        ELSE map() END,
      CASE WHEN has_schema THEN map('/envelopemetadata/dataschema/value', attributes['/dataschemauri']) ELSE map() END,
      CASE WHEN size(extensions) > 0 THEN
        map_from_entries(
          concat(
            transform(extensions, name -> struct(concat('/envelopemetadata/', name, '/type'), '"string"')),
            transform(extensions, name -> struct(concat('/envelopemetadata/', name, '/required'), 'false'))
          )
        )
      ELSE map() END,
      CASE WHEN format_type IS NOT NULL THEN map('/datacontenttype', '"application/json"') ELSE map() END,
      CASE WHEN protocol_family = 'MQTT' THEN map('/protocoloptions/qos/value', '0', '/protocoloptions/retain/value', 'false') ELSE map() END,
      CASE WHEN protocol_family = 'HTTP' AND texts['/protocoloptions/status/value'] IS NULL
        THEN map('/protocoloptions/method/value', '"POST"')
        ELSE map() END
    ) AS implied
  FROM extension_names
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
  protocol_family,
  is_cloudevent,
  format_type,
  map_filter(implied, (pointer, leaf) -> NOT map_contains_key(attributes, pointer)) AS inferred
FROM implications;
