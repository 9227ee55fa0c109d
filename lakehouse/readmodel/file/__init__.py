"""The file of the read model: its tables, where it stands, and how it is built and follows the Delta tables."""
