"""What the specifications say, decided in plain Python: values in, a decision out, without Spark, SQLite or files.

| module | decides |
|---|---|
| `references` | what a reference of any spelling names: an XID, a Version, a type or a place within a schema |
| `diff` | what differs between two states of definitions, whether it breaks producers or consumers, and why |
| `flatattributes` | the flat attributes of a definition: by JSON Pointer, each with the JSON text of its value |
| `bases` | which Version a `basemessage` means, where a chain ends, what is inherited |
| `effective` | of bodies alone: a row of `effective_messages`, what is inferred, and what is compared of an entity |
| `events` | which CloudEvents a change makes, in which feed, under which id |
| `versions` | which Version was made from which, and which is the default one (decision 7) |
| `versionchanges` | what a Version changes, whom that breaks, and whether it keeps what `compatibility` promises |
| `relations` | every rule between entities: whether two that are compared break it, where, and in which words |
| `neighbours` | which entities these rules compare, found by look-ups; where a chain is a cycle |
| `ownership` | which of several documents defines an entity, who owns it, what an update does to it (decision 4) |
| `documents` | what is known of a document from one load to the next |
| `protocols` | whether two protocols or envelopes are the same, or one is more precise (requirements.md 22, 23) |
"""
