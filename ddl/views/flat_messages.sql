-- flat_messages: Messages: the effective definition of each, its bases merged in.
-- Grain: one row per message of scope.  Reads: merged_definitions.  Read by: flat_attributes, endpoint_messages, effective_messages.
-- `inferred` holds the defaults of the specifications (MSG-054, MSG-055, MSG-237 to MSG-263, END-135, END-163, END-165), which are
-- never written back into `versions`, and are never in `attributes`.
CREATE OR REPLACE VIEW flat_messages (
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
  schema_xid COMMENT 'XID of the payload\'s schema, as dataschemaxid or dataschemauri tell it; whether it is there: entity_references',
  dataschemauri COMMENT 'URI-reference to the payload\'s schema',
  datacontenttype COMMENT 'Media type of the payload; inferred from the schema format when not declared',
  document_uris COMMENT 'URIs of the documents that hold the message now, sorted',
  attributes COMMENT 'The effective definition as leaves: JSON Pointer to JSON text of the value',
  inferred COMMENT 'What the specifications infer beside: JSON Pointer to JSON text of the value',
  depends_on COMMENT 'XIDs of all messages that this definition was sought in, found or not'
)
COMMENT 'The effective definition of each message, its bases merged in.'
AS
WITH leaves AS (
  SELECT
    registryid,
    xid,
    group_xid,
    messageid,
    version_xid,
    chain_status,
    chain_depth,
    document_uris,
    depends_on,
    attributes,
    concat('\u0002', array_join(map_keys(attributes), '\u0002\u0002'), '\u0002') AS pointers,
    try_element_at(attributes, '/name') AS name,
    try_element_at(attributes, '/description') AS description,
    try_element_at(attributes, '/envelope') AS envelope,
    try_element_at(attributes, '/envelopemetadata/type/value') AS ce_type,
    try_element_at(attributes, '/envelopemetadata/source/value') AS ce_source,
    try_element_at(attributes, '/envelopemetadata/subject/value') AS ce_subject,
    try_element_at(attributes, '/envelopemetadata/type/required') AS ce_type_required,
    try_element_at(attributes, '/envelopemetadata/source/required') AS ce_source_required,
    try_element_at(attributes, '/envelopemetadata/subject/required') AS ce_subject_required,
    try_element_at(attributes, '/protocol') AS protocol,
    try_element_at(attributes, '/protocoloptions/topic_name/value') AS topic_name,
    try_element_at(attributes, '/protocoloptions/topic/value') AS topic,
    try_element_at(attributes, '/protocoloptions/properties/to/value') AS amqp_to,
    try_element_at(attributes, '/protocoloptions/subject/value') AS nats_subject,
    try_element_at(attributes, '/protocoloptions/path/value') AS path,
    try_element_at(attributes, '/protocoloptions/key/value') AS kafka_key,
    try_element_at(attributes, '/protocoloptions/key_base64/value') AS key_base64,
    try_element_at(attributes, '/protocoloptions/method/value') AS http_method,
    try_element_at(attributes, '/protocoloptions/status/value') AS http_status,
    try_element_at(attributes, '/dataschemaformat') AS dataschemaformat,
    try_element_at(attributes, '/dataschemauri') AS dataschemauri,
    try_element_at(attributes, '/dataschemaxid') AS dataschemaxid,
    try_element_at(attributes, '/datacontenttype') AS datacontenttype
  FROM merged_definitions
),

texts AS (
  SELECT
    registryid,
    xid,
    group_xid,
    messageid,
    version_xid,
    chain_status,
    chain_depth,
    document_uris,
    depends_on,
    attributes,
    pointers,
    dataschemauri AS dataschemauri_leaf,
    datacontenttype AS datacontenttype_leaf,
    CASE WHEN name = 'null' THEN NULL WHEN contains(name, '\\') AND startswith(name, '"') THEN get_json_object(name, '$') ELSE trim(BOTH '"' FROM name) END AS name,
    CASE WHEN description = 'null' THEN NULL WHEN contains(description, '\\') AND startswith(description, '"') THEN get_json_object(description, '$') ELSE trim(BOTH '"' FROM description) END AS description,
    CASE WHEN envelope = 'null' THEN NULL WHEN contains(envelope, '\\') AND startswith(envelope, '"') THEN get_json_object(envelope, '$') ELSE trim(BOTH '"' FROM envelope) END AS envelope,
    CASE WHEN ce_type = 'null' THEN NULL WHEN contains(ce_type, '\\') AND startswith(ce_type, '"') THEN get_json_object(ce_type, '$') ELSE trim(BOTH '"' FROM ce_type) END AS ce_type,
    CASE WHEN ce_source = 'null' THEN NULL WHEN contains(ce_source, '\\') AND startswith(ce_source, '"') THEN get_json_object(ce_source, '$') ELSE trim(BOTH '"' FROM ce_source) END AS ce_source,
    CASE WHEN ce_subject = 'null' THEN NULL WHEN contains(ce_subject, '\\') AND startswith(ce_subject, '"') THEN get_json_object(ce_subject, '$') ELSE trim(BOTH '"' FROM ce_subject) END AS ce_subject,
    CASE WHEN ce_type_required = 'null' THEN NULL WHEN contains(ce_type_required, '\\') AND startswith(ce_type_required, '"') THEN get_json_object(ce_type_required, '$') ELSE trim(BOTH '"' FROM ce_type_required) END AS ce_type_required,
    CASE WHEN ce_source_required = 'null' THEN NULL WHEN contains(ce_source_required, '\\') AND startswith(ce_source_required, '"') THEN get_json_object(ce_source_required, '$') ELSE trim(BOTH '"' FROM ce_source_required) END AS ce_source_required,
    CASE WHEN ce_subject_required = 'null' THEN NULL WHEN contains(ce_subject_required, '\\') AND startswith(ce_subject_required, '"') THEN get_json_object(ce_subject_required, '$') ELSE trim(BOTH '"' FROM ce_subject_required) END AS ce_subject_required,
    CASE WHEN protocol = 'null' THEN NULL WHEN contains(protocol, '\\') AND startswith(protocol, '"') THEN get_json_object(protocol, '$') ELSE trim(BOTH '"' FROM protocol) END AS protocol,
    CASE WHEN topic_name = 'null' THEN NULL WHEN contains(topic_name, '\\') AND startswith(topic_name, '"') THEN get_json_object(topic_name, '$') ELSE trim(BOTH '"' FROM topic_name) END AS topic_name,
    CASE WHEN topic = 'null' THEN NULL WHEN contains(topic, '\\') AND startswith(topic, '"') THEN get_json_object(topic, '$') ELSE trim(BOTH '"' FROM topic) END AS topic,
    CASE WHEN amqp_to = 'null' THEN NULL WHEN contains(amqp_to, '\\') AND startswith(amqp_to, '"') THEN get_json_object(amqp_to, '$') ELSE trim(BOTH '"' FROM amqp_to) END AS amqp_to,
    CASE WHEN nats_subject = 'null' THEN NULL WHEN contains(nats_subject, '\\') AND startswith(nats_subject, '"') THEN get_json_object(nats_subject, '$') ELSE trim(BOTH '"' FROM nats_subject) END AS nats_subject,
    CASE WHEN path = 'null' THEN NULL WHEN contains(path, '\\') AND startswith(path, '"') THEN get_json_object(path, '$') ELSE trim(BOTH '"' FROM path) END AS path,
    CASE WHEN kafka_key = 'null' THEN NULL WHEN contains(kafka_key, '\\') AND startswith(kafka_key, '"') THEN get_json_object(kafka_key, '$') ELSE trim(BOTH '"' FROM kafka_key) END AS kafka_key,
    CASE WHEN key_base64 = 'null' THEN NULL WHEN contains(key_base64, '\\') AND startswith(key_base64, '"') THEN get_json_object(key_base64, '$') ELSE trim(BOTH '"' FROM key_base64) END AS key_base64,
    CASE WHEN http_method = 'null' THEN NULL WHEN contains(http_method, '\\') AND startswith(http_method, '"') THEN get_json_object(http_method, '$') ELSE trim(BOTH '"' FROM http_method) END AS http_method,
    CASE WHEN http_status = 'null' THEN NULL WHEN contains(http_status, '\\') AND startswith(http_status, '"') THEN get_json_object(http_status, '$') ELSE trim(BOTH '"' FROM http_status) END AS http_status,
    CASE WHEN dataschemaformat = 'null' THEN NULL WHEN contains(dataschemaformat, '\\') AND startswith(dataschemaformat, '"') THEN get_json_object(dataschemaformat, '$') ELSE trim(BOTH '"' FROM dataschemaformat) END AS dataschemaformat,
    CASE WHEN dataschemauri = 'null' THEN NULL WHEN contains(dataschemauri, '\\') AND startswith(dataschemauri, '"') THEN get_json_object(dataschemauri, '$') ELSE trim(BOTH '"' FROM dataschemauri) END AS dataschemauri,
    CASE WHEN dataschemaxid = 'null' THEN NULL WHEN contains(dataschemaxid, '\\') AND startswith(dataschemaxid, '"') THEN get_json_object(dataschemaxid, '$') ELSE trim(BOTH '"' FROM dataschemaxid) END AS dataschemaxid,
    CASE WHEN datacontenttype = 'null' THEN NULL WHEN contains(datacontenttype, '\\') AND startswith(datacontenttype, '"') THEN get_json_object(datacontenttype, '$') ELSE trim(BOTH '"' FROM datacontenttype) END AS datacontenttype
  FROM leaves
),

-- What CloudEvents knows stands in `inferred` by name; other names that the metadata declares are looked at if there are any.
named AS (
  SELECT
    *,
    upper(split_part(protocol, '/', 1)) AS protocol_family,
    nullif(split_part(protocol, '/', 2), '') AS written_version,
    upper(envelope) RLIKE '\\ACLOUDEVENTS(/|\\z)' AS is_cloudevent,
    CASE WHEN upper(translate(split_part(dataschemaformat, '/', 1), '-_', '')) = 'JSONSCHEMA' THEN 'application/json' END AS format_type,
    array_distinct(regexp_extract_all(pointers, '\u0002/envelopemetadata/([^/\u0002]+)', 1)) AS declared,
    regexp_extract_all(pointers, '\u0002(/labels/[^\u0002]+)\u0002', 1) AS label_pointers
  FROM texts
),

-- Which names are implied.
implied AS (
  SELECT
    *,
    is_cloudevent AND array_contains(declared, 'subject') AS has_subject,
    is_cloudevent AND (coalesce(datacontenttype, format_type) IS NOT NULL OR array_contains(declared, 'datacontenttype')) AS has_datacontenttype,
    is_cloudevent AND (dataschemauri IS NOT NULL OR array_contains(declared, 'dataschema')) AS has_dataschema,
    CASE WHEN is_cloudevent THEN
      array_except(declared, array('specversion', 'id', 'source', 'type', 'time', 'subject', 'datacontenttype', 'dataschema'))
    END AS others
  FROM named
),

-- What is implied and not declared, as a text: pointers and values, each behind a separator that no JSON text has. A text,
-- since Spark generates no code for what stands inside of functions such as filter; there each look-up takes ten times as long.
lacking AS (
  SELECT
    *,
    concat(
      CASE WHEN is_cloudevent AND attributes['/envelopemetadata/specversion/type'] IS NULL THEN '\u0002/envelopemetadata/specversion/type\u0001"string"' ELSE '' END,
      CASE WHEN is_cloudevent AND attributes['/envelopemetadata/specversion/required'] IS NULL THEN '\u0002/envelopemetadata/specversion/required\u0001true' ELSE '' END,
      CASE WHEN is_cloudevent AND attributes['/envelopemetadata/id/type'] IS NULL THEN '\u0002/envelopemetadata/id/type\u0001"string"' ELSE '' END,
      CASE WHEN is_cloudevent AND attributes['/envelopemetadata/id/required'] IS NULL THEN '\u0002/envelopemetadata/id/required\u0001true' ELSE '' END,
      CASE WHEN is_cloudevent AND attributes['/envelopemetadata/source/type'] IS NULL THEN '\u0002/envelopemetadata/source/type\u0001"uritemplate"' ELSE '' END,
      CASE WHEN is_cloudevent AND attributes['/envelopemetadata/source/required'] IS NULL THEN '\u0002/envelopemetadata/source/required\u0001true' ELSE '' END,
      CASE WHEN is_cloudevent AND attributes['/envelopemetadata/type/type'] IS NULL THEN '\u0002/envelopemetadata/type/type\u0001"string"' ELSE '' END,
      CASE WHEN is_cloudevent AND attributes['/envelopemetadata/type/required'] IS NULL THEN '\u0002/envelopemetadata/type/required\u0001true' ELSE '' END,
      CASE WHEN is_cloudevent AND attributes['/envelopemetadata/time/type'] IS NULL THEN '\u0002/envelopemetadata/time/type\u0001"timestamp"' ELSE '' END,
      CASE WHEN is_cloudevent AND attributes['/envelopemetadata/time/required'] IS NULL THEN '\u0002/envelopemetadata/time/required\u0001false' ELSE '' END,
      CASE WHEN has_subject AND attributes['/envelopemetadata/subject/type'] IS NULL THEN '\u0002/envelopemetadata/subject/type\u0001"string"' ELSE '' END,
      CASE WHEN has_subject AND attributes['/envelopemetadata/subject/required'] IS NULL THEN '\u0002/envelopemetadata/subject/required\u0001false' ELSE '' END,
      CASE WHEN has_datacontenttype AND attributes['/envelopemetadata/datacontenttype/type'] IS NULL THEN '\u0002/envelopemetadata/datacontenttype/type\u0001"string"' ELSE '' END,
      CASE WHEN has_datacontenttype AND attributes['/envelopemetadata/datacontenttype/required'] IS NULL THEN '\u0002/envelopemetadata/datacontenttype/required\u0001false' ELSE '' END,
      CASE WHEN has_dataschema AND attributes['/envelopemetadata/dataschema/type'] IS NULL THEN '\u0002/envelopemetadata/dataschema/type\u0001"uritemplate"' ELSE '' END,
      CASE WHEN has_dataschema AND attributes['/envelopemetadata/dataschema/required'] IS NULL THEN '\u0002/envelopemetadata/dataschema/required\u0001false' ELSE '' END,
      CASE WHEN is_cloudevent AND attributes['/envelopemetadata/specversion/value'] IS NULL THEN '\u0002/envelopemetadata/specversion/value\u0001"1.0"' ELSE '' END,
      CASE WHEN is_cloudevent AND attributes['/envelopemetadata/time/value'] IS NULL THEN '\u0002/envelopemetadata/time/value\u0001"0000-01-01T00:00:00Z"' ELSE '' END,
      CASE WHEN is_cloudevent AND coalesce(datacontenttype_leaf, format_type) IS NOT NULL AND attributes['/envelopemetadata/datacontenttype/value'] IS NULL THEN concat('\u0002/envelopemetadata/datacontenttype/value\u0001', coalesce(datacontenttype_leaf, concat('"', format_type, '"'))) ELSE '' END,
      CASE WHEN is_cloudevent AND dataschemauri_leaf IS NOT NULL AND attributes['/envelopemetadata/dataschema/value'] IS NULL THEN concat('\u0002/envelopemetadata/dataschema/value\u0001', dataschemauri_leaf) ELSE '' END,
      CASE WHEN datacontenttype IS NULL AND format_type IS NOT NULL THEN concat('\u0002/datacontenttype\u0001"', format_type, '"') ELSE '' END,
      CASE WHEN protocol_family = 'MQTT' AND attributes['/protocoloptions/qos/value'] IS NULL THEN '\u0002/protocoloptions/qos/value\u00010' ELSE '' END,
      CASE WHEN protocol_family = 'MQTT' AND attributes['/protocoloptions/retain/value'] IS NULL THEN '\u0002/protocoloptions/retain/value\u0001false' ELSE '' END,
      CASE WHEN protocol_family = 'HTTP' AND http_method IS NULL AND http_status IS NULL THEN '\u0002/protocoloptions/method/value\u0001"POST"' ELSE '' END
    ) AS inferences,
    CASE WHEN size(others) > 0 THEN
      filter(
        concat(
          transform(others, n -> concat('/envelopemetadata/', n, '/type')), transform(others, n -> concat('/envelopemetadata/', n, '/required'))
        ),
        pointer -> NOT map_contains_key(attributes, pointer)
      )
    ELSE array() END AS other_lacks
  FROM implied
)

SELECT
  registryid,
  xid,
  group_xid,
  messageid,
  version_xid,
  chain_status,
  chain_depth,
  name,
  description,
  CASE WHEN size(label_pointers) > 0 THEN
    map_from_entries(
      transform(
        label_pointers,
        pointer -> struct(
          replace(replace(substr(pointer, 9), '~1', '/'), '~0', '~') AS key,
          CASE WHEN contains(attributes[pointer], '\\') AND startswith(attributes[pointer], '"') THEN get_json_object(attributes[pointer], '$')
            ELSE trim(BOTH '"' FROM attributes[pointer]) END AS value
        )
      )
    )
  END AS labels,
  envelope,
  ce_type,
  CASE WHEN is_cloudevent THEN coalesce(ce_type_required = 'true', TRUE) END AS ce_type_required,
  ce_source,
  CASE WHEN is_cloudevent THEN coalesce(ce_source_required = 'true', TRUE) END AS ce_source_required,
  ce_subject,
  CASE WHEN is_cloudevent THEN coalesce(ce_subject_required = 'true', FALSE) END AS ce_subject_required,
  protocol,
  protocol_family,
  coalesce(written_version, CASE protocol_family WHEN 'AMQP' THEN '1.0' WHEN 'MQTT' THEN '5.0' END) AS protocol_version,
  CASE protocol_family
    WHEN 'MQTT' THEN topic_name
    WHEN 'KAFKA' THEN topic
    WHEN 'AMQP' THEN amqp_to
    WHEN 'NATS' THEN nats_subject
    WHEN 'HTTP' THEN path
    ELSE coalesce(topic_name, topic, amqp_to, nats_subject, path)
  END AS address,
  coalesce(kafka_key, key_base64) AS kafka_key,
  http_method,
  http_status,
  dataschemaformat,
  coalesce(
    dataschemaxid,
    nullif(regexp_extract(dataschemauri, '\\A#?(/schemagroups/[^/#]+/schemas/[^/#]+)/versions/', 1), ''),
    nullif(regexp_extract(dataschemauri, '\\A#?(/schemagroups/[^/#]+/schemas/[^/#]+?)(:[^:/#]*)?(#.*)?\\z', 1), '')
  ) AS schema_xid,
  dataschemauri,
  coalesce(datacontenttype, format_type) AS datacontenttype,
  document_uris,
  attributes,
  map_concat(
    CASE WHEN inferences = '' THEN map() ELSE str_to_map(substr(inferences, 2), '\u0002', '\u0001') END,
    CASE WHEN size(other_lacks) > 0
      THEN map_from_arrays(other_lacks, transform(other_lacks, pointer -> CASE WHEN endswith(pointer, '/type') THEN '"string"' ELSE 'false' END))
      ELSE map() END
  ) AS inferred,
  depends_on
FROM lacking;
