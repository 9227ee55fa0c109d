-- fact_endpoint_messages: Fact: an endpoint carries a message in a role.
-- Grain: one row per endpoint, group through which it carries, message and role.  Reads: endpoint_messages.  Read by: users.
CREATE OR REPLACE VIEW fact_endpoint_messages (
  registryid COMMENT 'Registry: part of each key',
  endpoint_xid COMMENT 'Endpoint: dim_endpoints',
  message_xid COMMENT 'Message: dim_messages',
  via_xid COMMENT 'Group that brings the message; the endpoint itself for its own',
  role COMMENT 'producer, consumer or subscriber; NULL when the endpoint does not say',
  envelope COMMENT 'Envelope in which the message travels',
  protocol COMMENT 'Protocol over which the message travels',
  protocol_family COMMENT 'Name part of protocol in upper case',
  is_mismatch COMMENT '1 when protocol or envelope are not those of the endpoint, else 0',
  options COMMENT 'JSON object: options of the protocol in effect'
)
COMMENT 'Fact: an endpoint carries a message in a role.'
AS
SELECT
  e.registryid,
  e.endpoint_xid,
  e.message_xid,
  e.via_xid,
  r.role,
  e.envelope,
  e.protocol,
  e.protocol_family,
  CASE WHEN e.matches THEN 0 ELSE 1 END AS is_mismatch,
  to_json(e.options) AS options
FROM endpoint_messages AS e
LATERAL VIEW OUTER explode(e.usage) r AS role;
