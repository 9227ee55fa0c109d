"""The pages: a function for each kind, from a book and what it is about to its bytes; `contents` finds the one for a path."""
