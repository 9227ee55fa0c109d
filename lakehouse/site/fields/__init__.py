"""Fields of schemas as rows of a table: a reader for each language gives a tree of nodes, which `listing` bounds and lays out."""
