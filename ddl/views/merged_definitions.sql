-- merged_definitions: Merged definitions: the definition of each message over those of its bases, as flat attributes.
-- Grain: one row per message of scope.  Reads: scope, messages, versions, merged_versions.  Read by: message_chains, message_texts, flat_attributes.
-- A message without a base and without xref shows the row of its default Version as it is.
CREATE OR REPLACE VIEW merged_definitions (
  registryid COMMENT 'Registry that the message belongs to',
  xid COMMENT 'XID of the message',
  group_xid COMMENT 'XID of the message group, or the endpoint, that holds the message',
  messageid COMMENT 'Id of the message in its group',
  xref COMMENT 'XID of the message that this one is an alias of; NULL for one with its own definition',
  version_xid COMMENT 'XID of the Version that the message shows; that of another message when xref is set; NULL: there is none',
  chain_status COMMENT 'none: no base; resolved; dangling: a base, or what xref names, is not in the catalog; cycle; external: a base on another host; too_deep',
  chain_depth COMMENT 'How many bases were merged',
  definitions COMMENT 'The definitions that were found, nearest first: the own one and its bases',
  attributes COMMENT 'The merged definition as flat attributes: JSON Pointer to JSON text of the value',
  document_uris COMMENT 'URIs of the documents that hold the message now, sorted',
  depends_on COMMENT 'XIDs of all messages that this definition was sought in, found or not'
)
COMMENT 'The definition of each message over those of its bases, as flat attributes.'
AS
WITH shown_versions AS (
  SELECT
    registryid,
    xid,
    group_xid,
    messageid,
    xref,
    document_uris,
    concat(xid, '/versions/', defaultversionid) AS version_xid
  FROM scope
  WHERE xref IS NULL
  UNION ALL
  SELECT
    s.registryid,
    s.xid,
    s.group_xid,
    s.messageid,
    s.xref,
    s.document_uris,
    concat(t.xid, '/versions/', t.defaultversionid) AS version_xid
  FROM scope AS s
  LEFT JOIN messages AS t ON t.registryid = s.registryid AND t.xid = s.xref AND t.xref IS NULL
  WHERE s.xref IS NOT NULL
),

own_definitions AS (
  SELECT /*+ SHUFFLE_HASH(s) */
    s.registryid,
    s.xid,
    s.group_xid,
    s.messageid,
    s.xref,
    s.document_uris,
    s.version_xid AS shown_version_xid,
    v.xid AS version_xid,
    v.basemessage,
    v.base_xid,
    v.attributes
  FROM shown_versions AS s
  LEFT JOIN versions AS v ON v.registryid = s.registryid AND v.xid = s.version_xid
)

SELECT /*+ SHUFFLE_HASH(m) */
  o.registryid,
  o.xid,
  o.group_xid,
  o.messageid,
  o.xref,
  o.version_xid,
  CASE WHEN o.version_xid IS NULL THEN 'dangling' ELSE coalesce(m.chain_status, 'none') END AS chain_status,
  coalesce(m.chain_depth, 0) AS chain_depth,
  CASE
    WHEN m.definitions IS NOT NULL THEN m.definitions
    WHEN o.version_xid IS NOT NULL THEN array(struct(-1 AS depth, o.version_xid, o.basemessage, o.base_xid, o.attributes))
    ELSE array()
  END AS definitions,
  CASE WHEN o.version_xid IS NULL THEN CAST(map() AS MAP<STRING, STRING>) ELSE coalesce(m.attributes, o.attributes) END AS attributes,
  o.document_uris,
  CASE
    WHEN o.xref IS NULL AND m.sought IS NULL THEN array(o.xid)
    ELSE array_distinct(concat(array_compact(array(o.xid, o.xref)), coalesce(m.sought, array())))
  END AS depends_on
FROM own_definitions AS o
LEFT JOIN merged_versions AS m ON m.registryid = o.registryid AND m.version_xid = o.shown_version_xid;
