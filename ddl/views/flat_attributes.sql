-- flat_attributes: Attributes: each flat attribute of each message's effective definition, and where it comes from.
-- Grain: one row per message of scope and JSON Pointer.  Reads: merged_definitions, flat_messages.  Read by: users.
CREATE OR REPLACE VIEW flat_attributes (
  registryid COMMENT 'Registry that the message belongs to',
  xid COMMENT 'XID of the message',
  pointer COMMENT 'JSON Pointer to the attribute within the definition in normal form',
  value COMMENT 'JSON text of the value',
  value_type COMMENT 'JSON type of the value: string, number, boolean, null, array or object',
  origin COMMENT 'declared: by the message itself (of an xref: by the message that it is an alias of); inherited: from a base; inferred: by the specifications',
  declared_by COMMENT 'XID of the Version that declares it; NULL when inferred',
  depth COMMENT '0: the message itself; 1: its base; 2: the base of the base ...; NULL when inferred'
)
COMMENT 'Each flat attribute of each message\'s effective definition, and where it comes from.'
AS
WITH declared AS (
  SELECT
    registryid,
    xid,
    definitions,
    pointer,
    value,
    array_position(transform(definitions, d -> map_contains_key(d.attributes, pointer)), TRUE) AS at
  FROM merged_definitions
  LATERAL VIEW explode(attributes) AS pointer, value
),

inferred AS (
  SELECT
    registryid,
    xid,
    pointer,
    value
  FROM flat_messages
  LATERAL VIEW explode(inferred) AS pointer, value
),

origins AS (
  SELECT
    registryid,
    xid,
    pointer,
    value,
    CASE WHEN at = 1 THEN 'declared' ELSE 'inherited' END AS origin,
    definitions[at - 1].version_xid AS declared_by,
    CAST(at - 1 AS INT) AS depth
  FROM declared
  UNION ALL
  SELECT
    registryid,
    xid,
    pointer,
    value,
    'inferred' AS origin,
    CAST(NULL AS STRING) AS declared_by,
    CAST(NULL AS INT) AS depth
  FROM inferred
)

SELECT
  registryid,
  xid,
  pointer,
  value,
  CASE left(value, 1)
    WHEN '"' THEN 'string'
    WHEN '{' THEN 'object'
    WHEN '[' THEN 'array'
    WHEN 't' THEN 'boolean'
    WHEN 'f' THEN 'boolean'
    WHEN 'n' THEN 'null'
    ELSE 'number'
  END AS value_type,
  origin,
  declared_by,
  depth
FROM origins;
