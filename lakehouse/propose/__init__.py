"""Definitions proposed from messages that were sent: what a person reviews, as an ordinary document.

Events of one kind (`kinds`; of Kafka `columnevents`) → counts for each JSON path and type (`pathcounts`), which add up over days,
streams and repeated runs → what they decide: a schema (`payloadschema`), values and templates → a document of the specification
for each group (`proposals`) and a page of evidence (`evidence`).
All of this needs no Spark, and the same counts give the same bytes. `proposalruns` runs it over the sources of `match`, and
keeps the counts as a Delta table.
"""
