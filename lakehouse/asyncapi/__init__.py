"""AsyncAPI documents: 2.0 to 3.1 become registry documents in normal form, and these become AsyncAPI 3.

Read: `following` (`$ref`), `application` (both major versions in one shape), `inward` (the registry document). Written:
`servers`, `outward` (the AsyncAPI document). Names that differ are in tables (`data/*.csv`). What
xRegistry has no place for is kept in the extension attribute `asyncapi` of its entity, what AsyncAPI has no place for in
`x-xregistry`, so that either way back finds it.
"""
