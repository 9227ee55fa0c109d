-- base_paths: Base paths: the bases of each Version that has one, nearest first.
-- Grain: one row per Version that has a basemessage.  Reads: versions, default_versions.  Read by: merged_definitions.
-- Pointer doubling instead of recursion: with each round every Version sees twice as far, so seven rounds see 128 bases,
-- whatever the number of messages. In a round each Version asks the last base that it sees for what that base sees.
CREATE OR REPLACE VIEW base_paths (
  registryid COMMENT 'Registry that the Version belongs to',
  version_xid COMMENT 'XID of the Version',
  path COMMENT 'XIDs of the Versions that it extends, nearest first; the last may be missing in the catalog',
  is_open COMMENT 'true: the last Version of path may have a base too, which was not followed (setting max_chain_depth)',
  is_cycle COMMENT 'true: following the bases leads into a cycle; path then holds its members, some more than once'
)
COMMENT 'The bases of each Version that has one, nearest first.'
AS
WITH references AS (
  SELECT
    registryid,
    xid AS version_xid,
    base_xid,
    split(base_xid, '/') AS parts,
    128 AS max_depth
  FROM versions
  WHERE basemessage IS NOT NULL
),

-- /messagegroups/g/messages/m, which means the default Version, or /messagegroups/g/messages/m/versions/v.
bases AS (
  SELECT
    registryid,
    version_xid,
    CASE WHEN size(parts) = 7 AND parts[5] = 'versions' THEN concat_ws('/', slice(parts, 1, 5)) ELSE base_xid END AS message_xid,
    CASE WHEN size(parts) = 7 AND parts[5] = 'versions' THEN parts[6] END AS versionid,
    max_depth
  FROM references
),

links AS (
  SELECT
    b.registryid,
    b.version_xid,
    concat(d.definition_xid, '/versions/', coalesce(b.versionid, d.versionid)) AS base_version_xid,
    b.max_depth
  FROM bases AS b
  LEFT JOIN default_versions AS d ON d.registryid = b.registryid AND d.message_xid = b.message_xid
),

seen_0 AS (
  SELECT
    registryid,
    version_xid,
    max_depth,
    array_compact(array(base_version_xid)) AS path,
    coalesce(base_version_xid <> version_xid, FALSE) AS is_open,
    coalesce(base_version_xid = version_xid, FALSE) AS is_cycle
  FROM links
),

asked_1 AS (
  SELECT
    registryid,
    version_xid,
    max_depth,
    path,
    is_open,
    is_cycle,
    key <> version_xid AS asks,
    any_value(CASE WHEN key = version_xid THEN struct(path, is_open, is_cycle) END) IGNORE NULLS
      OVER (PARTITION BY registryid, key) AS base
  FROM seen_0
  LATERAL VIEW explode(CASE WHEN is_open THEN array(version_xid, element_at(path, -1)) ELSE array(version_xid) END) AS key
),

seen_1 AS (
  SELECT
    registryid,
    version_xid,
    max_depth,
    CASE WHEN asks AND base IS NOT NULL THEN concat(path, base.path) ELSE path END AS path,
    coalesce(asks AND base.is_open AND NOT arrays_overlap(array_append(path, version_xid), base.path), FALSE) AS is_open,
    coalesce(is_cycle OR asks AND (base.is_cycle OR arrays_overlap(array_append(path, version_xid), base.path)), FALSE) AS is_cycle
  FROM asked_1
  WHERE asks OR NOT is_open
),

asked_2 AS (
  SELECT
    registryid,
    version_xid,
    max_depth,
    path,
    is_open,
    is_cycle,
    key <> version_xid AS asks,
    any_value(CASE WHEN key = version_xid THEN struct(path, is_open, is_cycle) END) IGNORE NULLS
      OVER (PARTITION BY registryid, key) AS base
  FROM seen_1
  LATERAL VIEW explode(CASE WHEN is_open THEN array(version_xid, element_at(path, -1)) ELSE array(version_xid) END) AS key
),

seen_2 AS (
  SELECT
    registryid,
    version_xid,
    max_depth,
    CASE WHEN asks AND base IS NOT NULL THEN concat(path, base.path) ELSE path END AS path,
    coalesce(asks AND base.is_open AND NOT arrays_overlap(array_append(path, version_xid), base.path), FALSE) AS is_open,
    coalesce(is_cycle OR asks AND (base.is_cycle OR arrays_overlap(array_append(path, version_xid), base.path)), FALSE) AS is_cycle
  FROM asked_2
  WHERE asks OR NOT is_open
),

asked_3 AS (
  SELECT
    registryid,
    version_xid,
    max_depth,
    path,
    is_open,
    is_cycle,
    key <> version_xid AS asks,
    any_value(CASE WHEN key = version_xid THEN struct(path, is_open, is_cycle) END) IGNORE NULLS
      OVER (PARTITION BY registryid, key) AS base
  FROM seen_2
  LATERAL VIEW explode(CASE WHEN is_open THEN array(version_xid, element_at(path, -1)) ELSE array(version_xid) END) AS key
),

seen_3 AS (
  SELECT
    registryid,
    version_xid,
    max_depth,
    CASE WHEN asks AND base IS NOT NULL THEN concat(path, base.path) ELSE path END AS path,
    coalesce(asks AND base.is_open AND NOT arrays_overlap(array_append(path, version_xid), base.path), FALSE) AS is_open,
    coalesce(is_cycle OR asks AND (base.is_cycle OR arrays_overlap(array_append(path, version_xid), base.path)), FALSE) AS is_cycle
  FROM asked_3
  WHERE asks OR NOT is_open
),

asked_4 AS (
  SELECT
    registryid,
    version_xid,
    max_depth,
    path,
    is_open,
    is_cycle,
    key <> version_xid AS asks,
    any_value(CASE WHEN key = version_xid THEN struct(path, is_open, is_cycle) END) IGNORE NULLS
      OVER (PARTITION BY registryid, key) AS base
  FROM seen_3
  LATERAL VIEW explode(CASE WHEN is_open THEN array(version_xid, element_at(path, -1)) ELSE array(version_xid) END) AS key
),

seen_4 AS (
  SELECT
    registryid,
    version_xid,
    max_depth,
    CASE WHEN asks AND base IS NOT NULL THEN concat(path, base.path) ELSE path END AS path,
    coalesce(asks AND base.is_open AND NOT arrays_overlap(array_append(path, version_xid), base.path), FALSE) AS is_open,
    coalesce(is_cycle OR asks AND (base.is_cycle OR arrays_overlap(array_append(path, version_xid), base.path)), FALSE) AS is_cycle
  FROM asked_4
  WHERE asks OR NOT is_open
),

asked_5 AS (
  SELECT
    registryid,
    version_xid,
    max_depth,
    path,
    is_open,
    is_cycle,
    key <> version_xid AS asks,
    any_value(CASE WHEN key = version_xid THEN struct(path, is_open, is_cycle) END) IGNORE NULLS
      OVER (PARTITION BY registryid, key) AS base
  FROM seen_4
  LATERAL VIEW explode(CASE WHEN is_open THEN array(version_xid, element_at(path, -1)) ELSE array(version_xid) END) AS key
),

seen_5 AS (
  SELECT
    registryid,
    version_xid,
    max_depth,
    CASE WHEN asks AND base IS NOT NULL THEN concat(path, base.path) ELSE path END AS path,
    coalesce(asks AND base.is_open AND NOT arrays_overlap(array_append(path, version_xid), base.path), FALSE) AS is_open,
    coalesce(is_cycle OR asks AND (base.is_cycle OR arrays_overlap(array_append(path, version_xid), base.path)), FALSE) AS is_cycle
  FROM asked_5
  WHERE asks OR NOT is_open
),

asked_6 AS (
  SELECT
    registryid,
    version_xid,
    max_depth,
    path,
    is_open,
    is_cycle,
    key <> version_xid AS asks,
    any_value(CASE WHEN key = version_xid THEN struct(path, is_open, is_cycle) END) IGNORE NULLS
      OVER (PARTITION BY registryid, key) AS base
  FROM seen_5
  LATERAL VIEW explode(CASE WHEN is_open THEN array(version_xid, element_at(path, -1)) ELSE array(version_xid) END) AS key
),

seen_6 AS (
  SELECT
    registryid,
    version_xid,
    max_depth,
    CASE WHEN asks AND base IS NOT NULL THEN concat(path, base.path) ELSE path END AS path,
    coalesce(asks AND base.is_open AND NOT arrays_overlap(array_append(path, version_xid), base.path), FALSE) AS is_open,
    coalesce(is_cycle OR asks AND (base.is_cycle OR arrays_overlap(array_append(path, version_xid), base.path)), FALSE) AS is_cycle
  FROM asked_6
  WHERE asks OR NOT is_open
),

asked_7 AS (
  SELECT
    registryid,
    version_xid,
    max_depth,
    path,
    is_open,
    is_cycle,
    key <> version_xid AS asks,
    any_value(CASE WHEN key = version_xid THEN struct(path, is_open, is_cycle) END) IGNORE NULLS
      OVER (PARTITION BY registryid, key) AS base
  FROM seen_6
  LATERAL VIEW explode(CASE WHEN is_open THEN array(version_xid, element_at(path, -1)) ELSE array(version_xid) END) AS key
),

seen_7 AS (
  SELECT
    registryid,
    version_xid,
    max_depth,
    CASE WHEN asks AND base IS NOT NULL THEN concat(path, base.path) ELSE path END AS path,
    coalesce(asks AND base.is_open AND NOT arrays_overlap(array_append(path, version_xid), base.path), FALSE) AS is_open,
    coalesce(is_cycle OR asks AND (base.is_cycle OR arrays_overlap(array_append(path, version_xid), base.path)), FALSE) AS is_cycle
  FROM asked_7
  WHERE asks OR NOT is_open
)

SELECT
  registryid,
  version_xid,
  slice(path, 1, CASE WHEN is_cycle THEN size(path) ELSE max_depth END) AS path,
  is_open OR (size(path) > max_depth AND NOT is_cycle) AS is_open,
  is_cycle
FROM seen_7;
