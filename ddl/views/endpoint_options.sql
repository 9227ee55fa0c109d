-- endpoint_options: Options of endpoints: those of the protocol that are in effect.
-- Grain: one row per endpoint.  Reads: endpoints.  Read by: endpoint_messages.
-- Addresses and authorization are not among them. Options that the role of the endpoint has no use for are left out: END-148, END-153,
-- END-167, END-180 to END-187.
CREATE OR REPLACE VIEW endpoint_options (
  registryid COMMENT 'Registry that the endpoint belongs to',
  xid COMMENT 'XID of the endpoint',
  options COMMENT 'Options of the protocol as text, after defaults and without those for other roles'
)
COMMENT 'The options of the protocol that are in effect at each endpoint.'
AS
-- Defaults, and the options of one role, by protocol.
WITH given_options AS (
  SELECT
    registryid,
    xid,
    from_json(protocoloptions, 'MAP<STRING, STRING>') AS options,
    map(
      'HTTP', map('method', 'POST'),
      'AMQP', map('durable', 'false', 'distributionmode', 'move'),
      'MQTT', map('qos', '0', 'retain', 'false', 'cleansession', 'true'),
      'KAFKA', map('acks', '1')
    )[protocol_family] AS defaults,
    CASE WHEN NOT array_contains(usage, 'producer') THEN
      map('AMQP', array('durable'), 'MQTT', array('retain'), 'KAFKA', array('acks', 'key', 'partition'))[protocol_family]
    END AS producer_options,
    CASE WHEN NOT array_contains(usage, 'consumer') THEN
      map('AMQP', array('distributionmode'), 'KAFKA', array('consumergroup'))[protocol_family]
    END AS consumer_options
  FROM endpoints
),

option_layers AS (
  SELECT
    registryid,
    xid,
    coalesce(options, CAST(map() AS MAP<STRING, STRING>)) AS options,
    map_concat(
      coalesce(defaults, CAST(map() AS MAP<STRING, STRING>)),
      CASE WHEN options IS NULL THEN CAST(map() AS MAP<STRING, STRING>) ELSE map('deployed', 'true') END
    ) AS defaults,
    concat(
      array('endpoints', 'authorization'), coalesce(producer_options, array()), coalesce(consumer_options, array())
    ) AS useless
  FROM given_options
)

SELECT
  registryid,
  xid,
  map_filter(
    map_concat(map_filter(defaults, (name, value) -> NOT map_contains_key(options, name)), options),
    (name, value) -> NOT array_contains(useless, name)
  ) AS options
FROM option_layers;
