-- fact_protocol_changes: Fact: a definition came to a protocol or left it; summed up over time, how many each has.
-- Grain: one row per snapshot, Version and protocol that it came to or left.  Reads: changes.  Read by: users.
CREATE OR REPLACE VIEW fact_protocol_changes (
  snapshot_id COMMENT 'Snapshot: dim_snapshots',
  registryid COMMENT 'Registry: part of each key',
  message_xid COMMENT 'Message: dim_messages, unless it was deleted since',
  version_xid COMMENT 'XID of the Version that declares the protocol',
  protocol_family COMMENT 'Name part of the declared protocol in upper case; ANY when none is declared',
  delta COMMENT '1: came to the protocol; -1: left it'
)
COMMENT 'Fact: a definition came to a protocol or left it; summed up over time, how many each has.'
AS
WITH states AS (
  SELECT
    snapshot_id,
    registryid,
    xid,
    CASE WHEN op <> 'delete' THEN coalesce(upper(split_part(get_json_object(body, '$.protocol'), '/', 1)), 'ANY') END AS protocol_family
  FROM changes
  WHERE kind = 'version'
),

steps AS (
  SELECT
    snapshot_id,
    registryid,
    xid,
    protocol_family,
    lag(protocol_family) OVER (PARTITION BY registryid, xid ORDER BY snapshot_id ASC) AS left_family
  FROM states
)

SELECT
  s.snapshot_id,
  s.registryid,
  array_join(slice(split(s.xid, '/'), 1, 5), '/') AS message_xid,
  s.xid AS version_xid,
  d.one.protocol_family AS protocol_family,
  d.one.delta AS delta
FROM steps AS s
LATERAL VIEW explode(
  array(named_struct('protocol_family', s.protocol_family, 'delta', 1), named_struct('protocol_family', s.left_family, 'delta', -1))
) d AS one
WHERE NOT s.protocol_family <=> s.left_family
  AND d.one.protocol_family IS NOT NULL;
