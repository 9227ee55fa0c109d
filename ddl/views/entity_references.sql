-- entity_references: References: every reference from one entity to another, and whether it leads to one.
-- Grain: one row per entity, relation and pointer.  Reads: messages, versions, schemas, schemaversions, groups, endpoints.  Read by: users.
CREATE OR REPLACE VIEW entity_references (
  registryid COMMENT 'Registry that the entity belongs to',
  source_xid COMMENT 'XID of the entity that refers; for a definition that of the Version',
  relation COMMENT 'basemessage, xref, dataschemauri, dataschemaxid, messagegroups, willmessage or references (between schemas)',
  pointer COMMENT 'JSON Pointer to the reference within the entity in normal form',
  target COMMENT 'The reference as the normal form has it',
  target_xid COMMENT 'XID that it means; NULL when it leads to another host',
  type_name COMMENT 'Type within the schema document: what follows a second # or the suffix :Type',
  status COMMENT 'resolves; dangling: not in the catalog, which is legal; external: on another host'
)
COMMENT 'Every reference from one entity to another, and whether it leads to one.'
AS
WITH xids AS (
  SELECT registryid, xid FROM messages
  UNION ALL
  SELECT registryid, xid FROM versions
  UNION ALL
  SELECT registryid, xid FROM schemas
  UNION ALL
  SELECT registryid, xid FROM schemaversions
  UNION ALL
  SELECT registryid, xid FROM groups
  UNION ALL
  SELECT registryid, xid FROM endpoints
),

written AS (
  SELECT registryid, xid AS source_xid, 'basemessage' AS relation, '/basemessage' AS pointer, basemessage AS target
  FROM versions
  WHERE basemessage IS NOT NULL
  UNION ALL
  SELECT registryid, xid, 'dataschemauri', '/dataschemauri', dataschemauri
  FROM versions
  WHERE dataschemauri IS NOT NULL
  UNION ALL
  SELECT registryid, xid, 'dataschemaxid', '/dataschemaxid', dataschemaxid
  FROM versions
  WHERE dataschemaxid IS NOT NULL
  UNION ALL
  SELECT registryid, xid, 'xref', '/meta/xref', xref
  FROM messages
  WHERE xref IS NOT NULL
  UNION ALL
  SELECT registryid, xid, 'xref', '/meta/xref', xref
  FROM schemas
  WHERE xref IS NOT NULL
  UNION ALL
  SELECT
    registryid,
    xid,
    'references',
    concat('/extensions/references/', pos, '/xid'),
    get_json_object(reference, '$.xid')
  FROM schemaversions
  LATERAL VIEW posexplode(from_json(get_json_object(extensions, '$.references'), 'ARRAY<STRING>')) AS pos, reference
  WHERE startswith(get_json_object(reference, '$.xid'), '/')
  UNION ALL
  SELECT registryid, xid, 'messagegroups', concat('/messagegroups/', pos), messagegroup
  FROM endpoints
  LATERAL VIEW posexplode(messagegroups) AS pos, messagegroup
  UNION ALL
  SELECT registryid, xid, 'willmessage', '/protocoloptions/willmessage', get_json_object(protocoloptions, '$.willmessage')
  FROM endpoints
  WHERE get_json_object(protocoloptions, '$.willmessage') IS NOT NULL
),

-- A schema reference: an XID or, after #, a JSON Pointer; what follows a second # names a type.
split_up AS (
  SELECT
    registryid,
    source_xid,
    relation,
    pointer,
    target,
    split_part(regexp_replace(target, '\\A\\s*#', ''), '#', 1) AS path,
    CASE WHEN contains(regexp_replace(target, '\\A\\s*#', ''), '#')
      THEN regexp_replace(target, '\\A\\s*#?[^#]*#', '')
    END AS fragment
  FROM written
),

spelled AS (
  SELECT
    registryid,
    source_xid,
    relation,
    pointer,
    target,
    fragment,
    CASE
      WHEN NOT startswith(path, '/') THEN NULL
      WHEN startswith(ltrim(target), '#')
        THEN replace(replace(coalesce(try_url_decode(replace(path, '+', '%2B')), path), '~1', '/'), '~0', '~')
      ELSE path
    END AS path
  FROM split_up
),

-- An id may hold colons, so the whole is looked for first, and then without what follows the last one.
candidates AS (
  SELECT
    registryid,
    source_xid,
    relation,
    pointer,
    target,
    fragment,
    regexp_replace(path, '\\A/schemaGroups/', '/schemagroups/') AS whole,
    CASE WHEN relation = 'dataschemauri' AND path RLIKE '\\A/[^/]+/[^/]+/[^/]+/.*:'
      THEN regexp_replace(regexp_replace(path, '\\A/schemaGroups/', '/schemagroups/'), ':[^:]*\\z', '')
    END AS without_suffix
  FROM spelled
)

SELECT
  c.registryid,
  c.source_xid,
  c.relation,
  c.pointer,
  c.target,
  CASE WHEN w.xid IS NOT NULL OR c.without_suffix IS NULL THEN c.whole ELSE c.without_suffix END AS target_xid,
  coalesce(c.fragment, CASE WHEN w.xid IS NULL THEN substr(c.whole, length(c.without_suffix) + 2) END) AS type_name,
  CASE
    WHEN w.xid IS NOT NULL OR s.xid IS NOT NULL THEN 'resolves'
    WHEN c.whole IS NULL AND NOT startswith(ltrim(c.target), '#') THEN 'external'
    ELSE 'dangling'
  END AS status
FROM candidates AS c
LEFT JOIN xids AS w ON w.registryid = c.registryid AND w.xid = c.whole
LEFT JOIN xids AS s ON s.registryid = c.registryid AND s.xid = c.without_suffix;
