-- scope: The messages that are looked at. Here: all; elsewhere a part, such as those that a change affects.
-- Grain: one row per message.  Reads: messages.  Read by: merged_definitions.
CREATE OR REPLACE VIEW scope (
  registryid COMMENT 'Registry that the message belongs to',
  xid COMMENT 'XID of the message',
  group_xid COMMENT 'XID of the message group, or the endpoint, that holds the message',
  messageid COMMENT 'Id of the message in its group',
  defaultversionid COMMENT 'Id of the default Version',
  xref COMMENT 'XID of the message that this one is an alias of; NULL for one with its own definition',
  document_uris COMMENT 'URIs of the documents that hold the message now, sorted'
)
COMMENT 'The messages that are looked at: all, unless a part is asked for.'
AS
SELECT
  registryid,
  xid,
  group_xid,
  messageid,
  defaultversionid,
  xref,
  document_uris
FROM messages;
