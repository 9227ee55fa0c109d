"""The payload of an event against the schema of its definition: decoded and validated, without network or files."""
