"""What the specifications say, decided in plain Python: values in, a decision out, without Spark, SQLite or files.

| module | decides |
|---|---|
| `references` | what a reference of any spelling names: an XID, a Version, a type or a place within a schema |
| `diff` | what differs between two states of definitions, whether it breaks producers or consumers, and why |
| `flatattributes` | the flat attributes of a definition: by JSON Pointer, each with the JSON text of its value |
| `bases` | which Version a `basemessage` means, where a chain ends, what is inherited |
| `inferred` | what the specifications infer of a definition in addition to what it says |
| `effective` | the columns of `effective_messages` that follow from an effective definition |
| `bodies` | what is compared of an entity whose body alone is known |
| `events` | which CloudEvents a change makes, in which feed, under which id |
| `versions` | which Version was made from which, and which is the default one (decision 7) |
| `relations` | every rule between entities: when it is broken, where, and in which words |
| `promises` | whether a Version keeps what `compatibility` promises over the ones before it |
| `neighbours` | which entities these rules compare, found by look-ups |
| `ownership` | which of several documents defines an entity, who owns it, what an update does to it (decision 4) |
| `documents` | what is known of a document from one load to the next |
| `protocols` | whether two protocols or envelopes are the same, or one is more precise (requirements.md 22, 23) |
"""
