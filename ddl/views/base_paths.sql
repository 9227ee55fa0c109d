-- base_paths: Base paths: the bases of each Version that has one, nearest first.
-- Grain: one row per Version that has a basemessage.  Reads: base_links.  Read by: definition_chains.
-- Pointer doubling instead of recursion: with each round every Version sees twice as far, so seven rounds see 128 bases,
-- whatever the number of messages. In a round each Version that sees as far as it can so far asks the last base that it sees
-- for what that base sees. A path that comes to a Version twice leads into a cycle.
-- The setting max_chain_depth takes the place of 128 (store/views.py).
CREATE OR REPLACE VIEW base_paths (
  registryid COMMENT 'Registry that the Version belongs to',
  version_xid COMMENT 'XID of the Version',
  path COMMENT 'XIDs of the Versions that it extends, nearest first; the last may be missing; in a cycle each once',
  is_open COMMENT 'true: the last Version of path may have a base too, which was not followed (setting max_chain_depth)',
  is_cycle COMMENT 'true: following the bases leads into a cycle; path then holds its members'
)
COMMENT 'The bases of each Version that has one, nearest first.'
AS
WITH paths_1 AS (
  SELECT registryid, version_xid, array_compact(array(base_version_xid)) AS path
  FROM base_links
),

answers_2 AS (
  SELECT registryid, version_xid, path, asks, any_value(CASE WHEN asks = 0 THEN path END, TRUE) OVER (PARTITION BY registryid, key) AS further
  FROM paths_1
  LATERAL VIEW posexplode(CASE WHEN size(path) = 1 THEN array(version_xid, path[0]) ELSE array(version_xid) END) AS asks, key
),

paths_2 AS (
  SELECT registryid, version_xid, CASE WHEN asks = 1 AND further IS NOT NULL THEN concat(path, further) ELSE path END AS path
  FROM answers_2
  WHERE asks = 1 OR size(path) < 1
),

answers_4 AS (
  SELECT registryid, version_xid, path, asks, any_value(CASE WHEN asks = 0 THEN path END, TRUE) OVER (PARTITION BY registryid, key) AS further
  FROM paths_2
  LATERAL VIEW posexplode(CASE WHEN size(path) = 2 THEN array(version_xid, path[1]) ELSE array(version_xid) END) AS asks, key
),

paths_4 AS (
  SELECT registryid, version_xid, CASE WHEN asks = 1 AND further IS NOT NULL THEN concat(path, further) ELSE path END AS path
  FROM answers_4
  WHERE asks = 1 OR size(path) < 2
),

answers_8 AS (
  SELECT registryid, version_xid, path, asks, any_value(CASE WHEN asks = 0 THEN path END, TRUE) OVER (PARTITION BY registryid, key) AS further
  FROM paths_4
  LATERAL VIEW posexplode(CASE WHEN size(path) = 4 THEN array(version_xid, path[3]) ELSE array(version_xid) END) AS asks, key
),

paths_8 AS (
  SELECT registryid, version_xid, CASE WHEN asks = 1 AND further IS NOT NULL THEN concat(path, further) ELSE path END AS path
  FROM answers_8
  WHERE asks = 1 OR size(path) < 4
),

answers_16 AS (
  SELECT registryid, version_xid, path, asks, any_value(CASE WHEN asks = 0 THEN path END, TRUE) OVER (PARTITION BY registryid, key) AS further
  FROM paths_8
  LATERAL VIEW posexplode(CASE WHEN size(path) = 8 THEN array(version_xid, path[7]) ELSE array(version_xid) END) AS asks, key
),

paths_16 AS (
  SELECT registryid, version_xid, CASE WHEN asks = 1 AND further IS NOT NULL THEN concat(path, further) ELSE path END AS path
  FROM answers_16
  WHERE asks = 1 OR size(path) < 8
),

answers_32 AS (
  SELECT registryid, version_xid, path, asks, any_value(CASE WHEN asks = 0 THEN path END, TRUE) OVER (PARTITION BY registryid, key) AS further
  FROM paths_16
  LATERAL VIEW posexplode(CASE WHEN size(path) = 16 THEN array(version_xid, path[15]) ELSE array(version_xid) END) AS asks, key
),

paths_32 AS (
  SELECT registryid, version_xid, CASE WHEN asks = 1 AND further IS NOT NULL THEN concat(path, further) ELSE path END AS path
  FROM answers_32
  WHERE asks = 1 OR size(path) < 16
),

answers_64 AS (
  SELECT registryid, version_xid, path, asks, any_value(CASE WHEN asks = 0 THEN path END, TRUE) OVER (PARTITION BY registryid, key) AS further
  FROM paths_32
  LATERAL VIEW posexplode(CASE WHEN size(path) = 32 THEN array(version_xid, path[31]) ELSE array(version_xid) END) AS asks, key
),

paths_64 AS (
  SELECT registryid, version_xid, CASE WHEN asks = 1 AND further IS NOT NULL THEN concat(path, further) ELSE path END AS path
  FROM answers_64
  WHERE asks = 1 OR size(path) < 32
),

answers_128 AS (
  SELECT registryid, version_xid, path, asks, any_value(CASE WHEN asks = 0 THEN path END, TRUE) OVER (PARTITION BY registryid, key) AS further
  FROM paths_64
  LATERAL VIEW posexplode(CASE WHEN size(path) = 64 THEN array(version_xid, path[63]) ELSE array(version_xid) END) AS asks, key
),

paths_128 AS (
  SELECT registryid, version_xid, CASE WHEN asks = 1 AND further IS NOT NULL THEN concat(path, further) ELSE path END AS path
  FROM answers_128
  WHERE asks = 1 OR size(path) < 64
),

cycles AS (
  SELECT
    registryid,
    version_xid,
    path,
    size(array_distinct(path)) < size(path) OR array_contains(path, version_xid) AS is_cycle,
    128 AS max_depth
  FROM paths_128
)

SELECT
  registryid,
  version_xid,
  CASE WHEN is_cycle THEN array_distinct(path) ELSE slice(path, 1, max_depth) END AS path,
  NOT is_cycle AND (size(path) = 128 OR size(path) > max_depth) AS is_open,
  is_cycle
FROM cycles;
