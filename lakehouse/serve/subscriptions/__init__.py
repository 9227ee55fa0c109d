"""Subscriptions of the CNCF draft (its section 5.5) and of CloudEvents: who wants to be told of changes, and the telling itself.

A subscription is read (`asked`), kept in a SQLite file of the server's (`store`) with how far its sink was told, and served at
`/subscriptions` (`api`). One process of the server sends (`deliver`): in the order of the log, at least once, to addresses that
were looked at first (`sinks`).
"""
