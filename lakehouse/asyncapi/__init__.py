"""AsyncAPI documents: 2.0 to 3.1 become registry documents in normal form, and these become AsyncAPI 3.

Read: `following` (`$ref`), `application` (both major versions in one shape, traits merged), `inward` (registry entities).
Written: `outward`. What AsyncAPI and xRegistry call differently stands in tables (`data/*.csv`); what xRegistry has no place for
stays in the extension attribute `asyncapi` of its entity, and what AsyncAPI has no place for in `x-xregistry`, so that either way
back finds it.
"""
