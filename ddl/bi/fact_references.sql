-- fact_references: Fact: an entity refers to another.
-- Grain: one row per entity, relation and pointer.  Reads: entity_references.  Read by: users.
CREATE OR REPLACE VIEW fact_references (
  registryid COMMENT 'Registry: part of each key',
  message_xid COMMENT 'Message that refers, or whose Version does: dim_messages; NULL when another entity refers',
  source_xid COMMENT 'XID of the entity that refers',
  relation COMMENT 'basemessage, xref, dataschemauri, dataschemaxid, messagegroups, willmessage or references (between schemas)',
  pointer COMMENT 'JSON Pointer to the reference within the entity in normal form',
  target COMMENT 'The reference',
  target_xid COMMENT 'XID that it means; NULL when it leads to another host',
  status COMMENT 'resolves, dangling or external',
  is_dangling COMMENT '1 when the target is not in the catalog, else 0'
)
COMMENT 'Fact: an entity refers to another.'
AS
SELECT
  registryid,
  CASE WHEN contains(source_xid, '/messages/') THEN array_join(slice(split(source_xid, '/'), 1, 5), '/') END AS message_xid,
  source_xid,
  relation,
  pointer,
  target,
  target_xid,
  status,
  CASE WHEN status = 'dangling' THEN 1 ELSE 0 END AS is_dangling
FROM entity_references;
