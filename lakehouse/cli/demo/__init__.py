"""The demo: an online shop's documents, loaded into a catalog of their own, and a look at what came out.

The documents show typical shapes: CloudEvents base messages with Kafka, AMQP and MQTT variants by `basemessage`, endpoints,
schemas with versions, an older dialect, and one message that is refused.
"""

from __future__ import annotations

QUESTIONS = (
    (
        "Which messages travel over which protocol, and what do they extend?",
        """
        SELECT m.messageid, v.protocol, v.base_xid
        FROM messages AS m
        INNER JOIN versions AS v ON v.registryid = m.registryid AND v.message_xid = m.xid AND v.isdefault
        WHERE v.protocol IS NOT NULL
        ORDER BY v.protocol, m.messageid
        """,
    ),
    (
        "Which declarations carry a region, and what do they say?",
        """
        SELECT v.message_xid, key AS pointer, value
        FROM versions AS v
        LATERAL VIEW explode(v.attributes) leaf AS key, value
        WHERE key LIKE '%/region/%'
        ORDER BY v.message_xid, pointer
        """,
    ),
    (
        "What was rejected, why, and how do I fix it?",
        "SELECT rule_id, pointer, message, hint FROM violations WHERE severity = 'error' ORDER BY pointer",
    ),
)

GLIMPSES = (
    "SELECT registryid, specversion, name, epoch, snapshot_id FROM registries LIMIT 3",
    "SELECT xid, grouptype, envelope, protocol FROM groups ORDER BY xid LIMIT 5",
    "SELECT endpointid, usage, channel, protocol, endpoints.uri AS addresses, messagegroups FROM endpoints ORDER BY xid LIMIT 4",
    "SELECT messageid, group_xid, defaultversionid, epoch FROM messages ORDER BY xid LIMIT 4",
    "SELECT xid, isdefault, protocol, base_xid, dataschemauri FROM versions ORDER BY xid LIMIT 4",
    "SELECT xid, defaultversionid FROM schemas ORDER BY xid LIMIT 3",
    "SELECT xid, isdefault, ancestor, format, contenttype FROM schemaversions ORDER BY xid LIMIT 3",
    "SELECT snapshot_id, kind, op, count(*) AS n FROM changes GROUP BY ALL ORDER BY ALL",
)
