-- definition_chains: Chains of definitions: each Version that has a base, with all the definitions that it is merged from.
-- Grain: one row per Version that has a basemessage.  Reads: base_paths, versions.  Read by: merged_versions.
CREATE OR REPLACE VIEW definition_chains (
  registryid COMMENT 'Registry that the Version belongs to',
  version_xid COMMENT 'XID of the Version',
  chain_status COMMENT 'resolved; dangling: a base is not in the catalog; cycle; external: a base on another host; too_deep: not all were followed',
  definitions COMMENT 'The definitions that were found, nearest first: the own one (depth -1) and its bases',
  sought COMMENT 'XIDs of all messages in which a definition was sought, found or not'
)
COMMENT 'Each Version that has a base, with all the definitions that it is merged from.'
AS
WITH steps AS (
  SELECT
    registryid,
    version_xid,
    is_open,
    is_cycle,
    at - 1 AS depth,
    step_xid
  FROM base_paths
  LATERAL VIEW posexplode(concat(array(version_xid), path)) AS at, step_xid
),

chains AS (
  SELECT /*+ SHUFFLE_HASH(s) */
    s.registryid,
    s.version_xid,
    any_value(s.is_open) AS is_open,
    any_value(s.is_cycle) AS is_cycle,
    array_sort(
      collect_list(struct(s.depth, v.xid AS version_xid, v.basemessage, v.base_xid, v.attributes)), (a, b) -> a.depth - b.depth
    ) AS definitions
  FROM steps AS s
  INNER JOIN versions AS v ON v.registryid = s.registryid AND v.xid = s.step_xid
  GROUP BY s.registryid, s.version_xid
)

SELECT
  registryid,
  version_xid,
  CASE
    WHEN is_cycle THEN 'cycle'
    WHEN element_at(definitions, -1).basemessage IS NULL THEN 'resolved'
    WHEN is_open THEN 'too_deep'
    WHEN element_at(definitions, -1).base_xid IS NULL THEN 'external'
    ELSE 'dangling'
  END AS chain_status,
  definitions,
  concat(
    transform(definitions, definition -> array_join(slice(split(definition.version_xid, '/'), 1, 5), '/')),
    transform(filter(definitions, definition -> definition.base_xid IS NOT NULL), definition -> array_join(slice(split(definition.base_xid, '/'), 1, 5), '/'))
  ) AS sought
FROM chains;
