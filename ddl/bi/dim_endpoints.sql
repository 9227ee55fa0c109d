-- dim_endpoints: Dimension of endpoints: where messages are produced, consumed or subscribed to.
-- Grain: one row per endpoint.  Reads: endpoints.  Read by: users.
CREATE OR REPLACE VIEW dim_endpoints (
  registryid COMMENT 'Registry that the endpoint belongs to',
  endpoint_xid COMMENT 'XID of the endpoint: with registryid the key',
  endpointid COMMENT 'Id of the endpoint',
  name COMMENT 'Human-readable name',
  description COMMENT 'Short text about the endpoint',
  team COMMENT 'Who owns it: label team or owner; NULL: nobody said',
  roles COMMENT 'What a client does there: producer, consumer, subscriber; joined by a comma',
  channel COMMENT 'Endpoints with the same channel belong together',
  envelope COMMENT 'Envelope of the messages',
  protocol COMMENT 'Protocol of the endpoint',
  protocol_family COMMENT 'Name part of protocol in upper case',
  deployed COMMENT 'true: expected to be reachable; false: a template; NULL: not said',
  address COMMENT 'First network address',
  addresses COMMENT 'How many network addresses it has',
  is_deprecated COMMENT 'Whether the endpoint is deprecated',
  labels COMMENT 'JSON object: labels',
  protocoloptions COMMENT 'JSON object: all protocol options',
  snapshot_id COMMENT 'Snapshot that last changed the endpoint'
)
COMMENT 'Dimension of endpoints: where messages are produced, consumed or subscribed to.'
AS
SELECT
  registryid,
  xid AS endpoint_xid,
  endpointid,
  name,
  description,
  coalesce(labels['team'], labels['owner']) AS team,
  array_join(array_sort(usage), ',') AS roles,
  channel,
  envelope,
  protocol,
  protocol_family,
  deployed,
  try_element_at(endpoints, 1).uri AS address,
  coalesce(size(endpoints), 0) AS addresses,
  deprecated IS NOT NULL AS is_deprecated,
  to_json(labels) AS labels,
  protocoloptions,
  snapshot_id
FROM endpoints;
