"""The pages: a function for each kind, from page context and subject to bytes; `contents` finds the one for a path."""
