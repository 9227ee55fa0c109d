-- base_links: Base links: the Version that each basemessage means.
-- Grain: one row per Version that has a basemessage.  Reads: versions, default_versions.  Read by: base_paths.
-- A base is /messagegroups/g/messages/m, which means its default Version, or /messagegroups/g/messages/m/versions/v.
CREATE OR REPLACE VIEW base_links (
  registryid COMMENT 'Registry that the Version belongs to',
  version_xid COMMENT 'XID of the Version',
  base_version_xid COMMENT 'XID of the Version that it extends, which may be missing; NULL: the base is on another host, or no message of the catalog'
)
COMMENT 'The Version that each basemessage means.'
AS
WITH bases AS (
  SELECT
    registryid,
    xid AS version_xid,
    CASE WHEN base_xid RLIKE '\\A(/[^/]*){4}/versions/[^/]*\\z' THEN array_join(slice(split(base_xid, '/'), 1, 5), '/') ELSE base_xid END AS message_xid,
    CASE WHEN base_xid RLIKE '\\A(/[^/]*){4}/versions/[^/]*\\z' THEN split_part(base_xid, '/', 7) END AS versionid
  FROM versions
  WHERE basemessage IS NOT NULL
)

SELECT
  b.registryid,
  b.version_xid,
  concat(d.definition_xid, '/versions/', coalesce(b.versionid, d.versionid)) AS base_version_xid
FROM bases AS b
LEFT JOIN default_versions AS d ON d.registryid = b.registryid AND d.message_xid = b.message_xid;
