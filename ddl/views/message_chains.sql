-- message_chains: Chains: each step from a message's definition over basemessage to the next.
-- Grain: one row per message of scope and depth; a message without a base has one row of depth 0.  Reads: merged_definitions.  Read by: users.
CREATE OR REPLACE VIEW message_chains (
  registryid COMMENT 'Registry that the message belongs to',
  xid COMMENT 'XID of the message',
  version_xid COMMENT 'XID of the Version that the message shows',
  depth COMMENT '1: the base; 2: the base of the base ...; 0: there is none',
  basemessage COMMENT 'The base as the definition one step nearer names it',
  base_xid COMMENT 'basemessage when it is an XID in this registry, else NULL',
  base_version_xid COMMENT 'XID of the Version that it leads to; NULL: not found, or not followed',
  status COMMENT 'none: no base; resolved; dangling: not in the catalog; cycle; external: on another host; too_deep: not followed'
)
COMMENT 'Each step from a message\'s definition over basemessage to the next.'
AS
WITH steps AS (
  SELECT
    registryid,
    xid,
    version_xid,
    chain_status,
    pos AS at,
    definition,
    try_element_at(definitions, pos + 2).version_xid AS base_version_xid,
    -- A cycle comes back to a definition that was seen: no step leads on from there.
    array_position(transform(definitions, step -> step.version_xid), definition.version_xid) = pos + 1 AS is_first
  FROM merged_definitions
  LATERAL VIEW OUTER posexplode(definitions) AS pos, definition
)

SELECT
  registryid,
  xid,
  version_xid,
  CASE WHEN definition.basemessage IS NULL THEN 0 ELSE at + 1 END AS depth,
  definition.basemessage AS basemessage,
  definition.base_xid AS base_xid,
  base_version_xid,
  CASE
    WHEN definition.basemessage IS NULL OR chain_status = 'cycle' OR base_version_xid IS NULL THEN chain_status
    ELSE 'resolved'
  END AS status
FROM steps
WHERE coalesce(at, 0) = 0 OR (definition.basemessage IS NOT NULL AND is_first);
