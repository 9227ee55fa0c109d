"""Definitions proposed from messages that were sent: what a person reviews, as an ordinary document.

Events of one kind → counts for each JSON path and type (`eventcounts`, `pathcounts`), which add up over days, streams and
repeated runs → the schema that they decide (`payloadschema`). All of this needs no Spark and gives the same bytes for the same
counts.
"""
