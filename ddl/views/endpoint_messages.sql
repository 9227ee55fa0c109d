-- endpoint_messages: Messages of endpoints: what each endpoint carries, its own messages and those of the groups that it names.
-- Grain: one row per endpoint, group through which it carries, and message.  Reads: endpoints, groups, endpoint_options, flat_messages.  Read by: users.
CREATE OR REPLACE VIEW endpoint_messages (
  registryid COMMENT 'Registry that the endpoint belongs to',
  endpoint_xid COMMENT 'XID of the endpoint',
  message_xid COMMENT 'XID of the message',
  via_xid COMMENT 'XID of the group that brings the message; the endpoint itself for its own messages',
  messageid COMMENT 'Id of the message in its group',
  usage COMMENT 'Roles that a client of the endpoint can act in: producer, consumer, subscriber',
  channel COMMENT 'Endpoints with the same channel belong together, such as the two ends of a queue',
  envelope COMMENT 'Envelope in which the message travels: its own, else the group\'s, else the endpoint\'s',
  mode COMMENT 'CloudEvents mode of the endpoint: binary, structured, or both when it does not say',
  format COMMENT 'CloudEvents event format of the endpoint in structured mode',
  protocol COMMENT 'Protocol over which the message travels: its own, else the group\'s, else the endpoint\'s, to which its envelope is bound implicitly',
  protocol_family COMMENT 'Name part of protocol in upper case',
  protocol_source COMMENT 'Who says protocol: message, group or endpoint',
  options COMMENT 'Options of the protocol as text, after defaults and without those for other roles; what the message declares wins',
  matches COMMENT 'false: protocol or envelope are not those of the endpoint',
  chain_status COMMENT 'Status of the message\'s chain of bases, as in flat_messages'
)
COMMENT 'What each endpoint carries: its own messages and those of the groups that it names.'
AS
WITH carrying AS (
  SELECT
    registryid,
    xid AS endpoint_xid,
    explode(array_distinct(concat(array(xid), coalesce(messagegroups, CAST(array() AS ARRAY<STRING>))))) AS via_xid
  FROM endpoints
),

carried_messages AS (
  SELECT
    e.registryid,
    e.xid AS endpoint_xid,
    m.xid AS message_xid,
    c.via_xid,
    m.messageid,
    array_distinct(e.usage) AS usage,
    e.channel,
    coalesce(m.envelope, g.envelope, e.envelope) AS envelope,
    e.envelope AS endpoint_envelope,
    get_json_object(e.envelopeoptions, '$.mode') AS mode,
    get_json_object(e.envelopeoptions, '$.format') AS format,
    coalesce(m.protocol, g.protocol, e.protocol) AS protocol,
    CASE
      WHEN m.protocol IS NOT NULL THEN 'message'
      WHEN g.protocol IS NOT NULL THEN 'group'
      WHEN e.protocol IS NOT NULL THEN 'endpoint'
    END AS protocol_source,
    e.protocol_family AS endpoint_family,
    e.protocol AS endpoint_protocol,
    o.options,
    m.attributes,
    m.chain_status
  FROM carrying AS c
  INNER JOIN endpoints AS e ON e.registryid = c.registryid AND e.xid = c.endpoint_xid
  INNER JOIN endpoint_options AS o ON o.registryid = c.registryid AND o.xid = c.endpoint_xid
  INNER JOIN flat_messages AS m ON m.registryid = c.registryid AND m.group_xid = c.via_xid
  LEFT JOIN groups AS g ON g.registryid = c.registryid AND g.xid = c.via_xid
),

comparisons AS (
  SELECT
    registryid,
    endpoint_xid,
    message_xid,
    via_xid,
    messageid,
    usage,
    channel,
    envelope,
    endpoint_envelope,
    mode,
    format,
    protocol,
    upper(trim(split_part(protocol, '/', 1))) AS protocol_family,
    protocol_source,
    endpoint_family,
    -- What protocols compare by: HTTP, KAFKA and NATS by name; others by their version too, where AMQP is 1.0 and MQTT 5.0.
    transform(
      transform(
        array(protocol, endpoint_protocol),
        name -> struct(
          upper(trim(split_part(name, '/', 1))) AS family,
          nullif(trim(substr(name, length(split_part(name, '/', 1)) + 2)), '') AS version
        )
      ),
      parts -> CASE
        WHEN parts.family IN ('HTTP', 'KAFKA', 'NATS') THEN parts.family
        ELSE concat(
          parts.family,
          '/',
          regexp_replace(coalesce(parts.version, map('AMQP', '1.0', 'MQTT', '5.0')[parts.family], ''), '\\.0\\z', '')
        )
      END
    ) AS keys,
    options,
    attributes,
    chain_status
  FROM carried_messages
),

-- What the message declares of the options that endpoints have too, and which of them something else stands in for.
declarations AS (
  SELECT
    *,
    transform_values(
      map_filter(
        CASE WHEN coalesce(protocol_family = endpoint_family, TRUE) THEN
          map(
            'HTTP', map('method', attributes['/protocoloptions/method/value']),
            'KAFKA', map(
              'topic', attributes['/protocoloptions/topic/value'],
              'key', attributes['/protocoloptions/key/value'],
              'partition', attributes['/protocoloptions/partition/value']
            ),
            'AMQP', map('durable', attributes['/protocoloptions/header/durable/value']),
            'MQTT', map(
              'topic', attributes['/protocoloptions/topic_name/value'],
              'qos', attributes['/protocoloptions/qos/value'],
              'retain', attributes['/protocoloptions/retain/value']
            ),
            'NATS', map('subject', attributes['/protocoloptions/subject/value'])
          )[protocol_family]
        END,
        (name, value) -> value IS NOT NULL
      ),
      (name, value) -> CASE WHEN startswith(value, '"') THEN get_json_object(concat('{"v":', value, '}'), '$.v') ELSE value END
    ) AS declared,
    CASE
      WHEN protocol_family = 'HTTP' AND attributes['/protocoloptions/status/value'] IS NOT NULL THEN 'method'
      WHEN protocol_family = 'KAFKA' AND attributes['/protocoloptions/key_base64/value'] IS NOT NULL THEN 'key'
    END AS replaced
  FROM comparisons
)

SELECT
  registryid,
  endpoint_xid,
  message_xid,
  via_xid,
  messageid,
  usage,
  channel,
  envelope,
  CASE WHEN upper(envelope) LIKE 'CLOUDEVENTS%' THEN coalesce(mode, 'both') ELSE mode END AS mode,
  format,
  protocol,
  protocol_family,
  protocol_source,
  map_concat(
    map_filter(options, (name, value) -> NOT coalesce(map_contains_key(declared, name), FALSE) AND NOT coalesce(name = replaced, FALSE)),
    coalesce(declared, CAST(map() AS MAP<STRING, STRING>))
  ) AS options,
  coalesce(keys[0] = keys[1], TRUE)
  AND coalesce(
    lower(envelope) = lower(endpoint_envelope)
    OR (
      startswith(lower(envelope), lower(endpoint_envelope))
      AND substr(envelope, length(endpoint_envelope) + 1, 1) IN ('/', '.', '-')
    ),
    TRUE
  ) AS matches,
  chain_status
FROM declarations;
