"""What a request that writes does to the catalog, by the rules of the xRegistry API and of the CNCF draft.

A request (`writerequest`) is applied to the catalog as the read model has it and the requests before it left it (`overlay`):
`apply` chooses the operation (`operations`) on groups, Resources (`resourcestate`) or deletions, `effects` makes rows of the
result, read by the same parser as a document and checked by the rules between entities. `context` holds what a request has
changed so far. Nothing is committed here; `lakehouse.serve.writer` does that.
"""
