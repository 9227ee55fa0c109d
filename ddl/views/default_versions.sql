-- default_versions: Default Versions: the Version that each message shows, through xref where it is an alias of another message.
-- Grain: one row per message, but for one whose xref leads nowhere or to another xref.  Reads: messages.  Read by: base_paths.
CREATE OR REPLACE VIEW default_versions (
  registryid COMMENT 'Registry that the message belongs to',
  message_xid COMMENT 'XID of the message',
  definition_xid COMMENT 'XID of the message that has the Versions: its own, or the one that its xref names',
  versionid COMMENT 'Id of the default Version',
  version_xid COMMENT 'XID of the default Version'
)
COMMENT 'The Version that each message shows, through xref where it is an alias of another message.'
AS
SELECT
  registryid,
  xid AS message_xid,
  xid AS definition_xid,
  defaultversionid AS versionid,
  concat(xid, '/versions/', defaultversionid) AS version_xid
FROM messages
WHERE xref IS NULL
UNION ALL
SELECT
  a.registryid,
  a.xid AS message_xid,
  t.xid AS definition_xid,
  t.defaultversionid AS versionid,
  concat(t.xid, '/versions/', t.defaultversionid) AS version_xid
FROM messages AS a
INNER JOIN messages AS t ON t.registryid = a.registryid AND t.xid = a.xref
WHERE a.xref IS NOT NULL AND t.xref IS NULL;
