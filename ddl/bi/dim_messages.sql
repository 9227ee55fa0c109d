-- dim_messages: Dimension of messages: the effective definition in columns that every BI tool reads.
-- Grain: one row per message.  Reads: flat_messages, groups, messages.  Read by: users.
CREATE OR REPLACE VIEW dim_messages (
  registryid COMMENT 'Registry that the message belongs to',
  message_xid COMMENT 'XID of the message: with registryid the key',
  messageid COMMENT 'Id of the message in its group',
  group_xid COMMENT 'XID of the group, or the endpoint, that holds the message',
  name COMMENT 'Human-readable name',
  description COMMENT 'Short text about the message',
  team COMMENT 'Who owns it: label team or owner of the message, else of its group; NULL: nobody said',
  envelope COMMENT 'Envelope of the message, such as CloudEvents/1.0',
  ce_type COMMENT 'CloudEvents type',
  protocol COMMENT 'Protocol of the message; any when it is bound to none',
  protocol_family COMMENT 'Name part of protocol in upper case; ANY when it is bound to none',
  address COMMENT 'Where the protocol sends it: topic, queue, subject or path',
  schema_xid COMMENT 'XID of the payload\'s schema',
  datacontenttype COMMENT 'Media type of the payload',
  chain_status COMMENT 'none, resolved, dangling, cycle, external or too_deep',
  chain_depth COMMENT 'How many bases were merged',
  is_deprecated COMMENT 'Whether the message is deprecated',
  createdat COMMENT 'When the message was created (UTC)',
  modifiedat COMMENT 'When the message last changed (UTC)',
  labels COMMENT 'JSON object: labels',
  attributes COMMENT 'JSON object: the effective definition as flat attributes, JSON Pointer to JSON text',
  snapshot_id COMMENT 'Snapshot that last changed the message'
)
COMMENT 'Dimension of messages: the effective definition in columns that every BI tool reads.'
AS
SELECT
  f.registryid,
  f.xid AS message_xid,
  f.messageid,
  f.group_xid,
  f.name,
  f.description,
  coalesce(f.labels['team'], f.labels['owner'], g.labels['team'], g.labels['owner']) AS team,
  f.envelope,
  f.ce_type,
  coalesce(f.protocol, 'any') AS protocol,
  coalesce(f.protocol_family, 'ANY') AS protocol_family,
  f.address,
  f.schema_xid,
  f.datacontenttype,
  f.chain_status,
  f.chain_depth,
  m.deprecated IS NOT NULL AS is_deprecated,
  m.createdat,
  m.modifiedat,
  to_json(f.labels) AS labels,
  to_json(f.attributes) AS attributes,
  m.snapshot_id
FROM flat_messages AS f
INNER JOIN messages AS m ON m.registryid = f.registryid AND m.xid = f.xid
LEFT JOIN groups AS g ON g.registryid = f.registryid AND g.xid = f.group_xid;
