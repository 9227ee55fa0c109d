"""The file of the read model: its tables, where it is, and how it is built and follows the Delta tables."""
