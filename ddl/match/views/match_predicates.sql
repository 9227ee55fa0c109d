-- match_predicates: What each definition asks of an event, attribute by attribute, for people to read and join.
-- Grain: one row per message and declared attribute.  Reads: xregistry.flat_messages.  Read by: users.
CREATE OR REPLACE VIEW match_predicates (
  registryid COMMENT 'Registry of the message',
  xid COMMENT 'XID of the message',
  protocol COMMENT 'Protocol of the message; NULL: any',
  pointer COMMENT 'JSON Pointer to the declaration: /envelopemetadata/<attribute> or /protocoloptions/<option>',
  value COMMENT 'Declared value as JSON text; NULL: none',
  is_template COMMENT 'Whether the value holds placeholders',
  type COMMENT 'Declared type; NULL: not said',
  required COMMENT 'Whether it must be there, declared or inferred'
)
COMMENT 'What each definition asks of an event, attribute by attribute, for people to read and join.'
AS
WITH texts AS (
  SELECT
    registryid,
    xid,
    protocol,
    inferred,
    explode(attributes) AS (leaf, text)
  FROM xregistry.flat_messages
),

members AS (
  SELECT
    registryid,
    xid,
    protocol,
    inferred,
    regexp_extract(leaf, '\\A(/(?:envelopemetadata|protocoloptions)/.+)/(value|type|required)\\z', 1) AS pointer,
    regexp_extract(leaf, '\\A(/(?:envelopemetadata|protocoloptions)/.+)/(value|type|required)\\z', 2) AS member,
    text
  FROM texts
)

SELECT
  registryid,
  xid,
  protocol,
  pointer,
  max(CASE WHEN member = 'value' THEN text END) AS value,
  coalesce(max(CASE WHEN member = 'value' THEN text END) RLIKE '\\{[A-Za-z0-9_]+\\}', FALSE) AS is_template,
  trim(BOTH '"' FROM max(CASE WHEN member = 'type' THEN text END)) AS type,
  coalesce(max(CASE WHEN member = 'required' THEN text END), any_value(try_element_at(inferred, concat(pointer, '/required')))) = 'true' AS required
FROM members
WHERE pointer <> ''
GROUP BY registryid, xid, protocol, pointer;
