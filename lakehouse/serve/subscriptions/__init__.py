"""Subscriptions of the CNCF draft (its section 5.5) and of CloudEvents: who wants events of changes, and their delivery.

A subscription is read, and stored in a SQLite file of the server's (`store`) with how far its sink has received,
and served at `/subscriptions` (`subscriptionapi`). One process of the server sends (`deliver`): in the order of the log, at least
once, to addresses that were checked first.
"""
