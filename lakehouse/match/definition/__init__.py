"""What a definition asks of an event: its attributes as predicates, its templates as programs, its types."""
