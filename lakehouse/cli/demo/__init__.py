"""The demo: an online shop's documents, loaded into their own catalog, and queries that show what they became.

The documents show typical shapes: CloudEvents base messages with Kafka, AMQP and MQTT variants by `basemessage`, endpoints,
schemas with versions, an older dialect, and one message that is refused.
"""

from __future__ import annotations

PROPOSALS = "demo-proposals"  # folder of what is proposed for the topic without definitions
QUERIES = (
    ("Registries", "SELECT registryid, specversion, name, epoch, snapshot_id FROM registries LIMIT 3"),
    ("Groups of messages and schemas", "SELECT xid, grouptype, envelope, protocol FROM groups ORDER BY xid LIMIT 5"),
    (
        "Endpoints: channels and addresses",
        """
        SELECT endpointid, usage, channel, protocol, endpoints.uri AS addresses, messagegroups
        FROM endpoints
        ORDER BY xid
        LIMIT 4
        """,
    ),
    ("Messages", "SELECT messageid, group_xid, defaultversionid, epoch FROM messages ORDER BY xid LIMIT 4"),
    (
        "Versions of messages: definitions as written, before inheritance",
        "SELECT xid, isdefault, protocol, base_xid, dataschemauri FROM versions ORDER BY xid LIMIT 4",
    ),
    ("Schemas", "SELECT xid, defaultversionid FROM schemas ORDER BY xid LIMIT 3"),
    ("Versions of schemas", "SELECT xid, isdefault, ancestor, format, contenttype FROM schemaversions ORDER BY xid LIMIT 3"),
    (
        "The log: number of changes in each snapshot, by kind and operation",
        "SELECT snapshot_id, kind, op, count(*) AS n FROM changes GROUP BY ALL ORDER BY ALL",
    ),
    (
        "Which messages inherit a definition, and what do they carry in effect?",
        """
        SELECT messageid, protocol, ce_source, address
        FROM flat_messages
        WHERE chain_depth > 0
        ORDER BY protocol, messageid
        """,
    ),
    (
        "Where does each value of one message come from?",
        """
        SELECT pointer, value, origin, declared_by
        FROM flat_attributes
        WHERE xid = '/messagegroups/shop.orders.kafka/messages/shop.orders.OrderPlaced' AND pointer LIKE '%/value'
        ORDER BY pointer
        """,
    ),
    (
        "What was rejected, why, and how do I fix it?",
        "SELECT rule_id, pointer, message, hint FROM violations WHERE severity = 'error' ORDER BY rule_id, pointer",
    ),
)
