"""What a request that writes does to the catalog, by the rules of the xRegistry API and of the CNCF draft.

A request is applied to the catalog as the read model has it and the requests before it left it (`working`): `apply` tells groups,
Resources (`trees`; their default Version: `defaults`) and deletions apart, `settle` makes rows of them, read by the same parser
as a document (`rows`) and held against the rules between entities (`relations`). Nothing is committed here;
`lakehouse.serve.writer` does that.
"""
