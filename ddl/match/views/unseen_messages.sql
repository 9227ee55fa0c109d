-- unseen_messages: Messages that an endpoint says it carries, and that no event was of in any run.
-- Grain: one row per endpoint and message.  Reads: event_matches, xregistry.endpoint_messages, xregistry.endpoints.  Read by: users.
CREATE OR REPLACE VIEW unseen_messages (
  registryid COMMENT 'Registry',
  endpoint_xid COMMENT 'XID of the endpoint, which is deployed or does not say that it is not',
  message_xid COMMENT 'XID of the message',
  protocol COMMENT 'Protocol over which it would travel'
)
COMMENT 'Messages that an endpoint says it carries, and that no event was of in any run.'
AS
WITH seen AS (
  SELECT DISTINCT
    definition.registryid,
    definition.xid
  FROM (SELECT explode(best) AS definition FROM event_matches)
)

SELECT
  m.registryid,
  m.endpoint_xid,
  m.message_xid,
  m.protocol
FROM xregistry.endpoint_messages AS m
INNER JOIN xregistry.endpoints AS e ON e.registryid = m.registryid AND e.xid = m.endpoint_xid
LEFT ANTI JOIN seen AS s ON s.registryid = m.registryid AND s.xid = m.message_xid
WHERE coalesce(e.deployed, TRUE);
