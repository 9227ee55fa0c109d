"""The command `lakehouse`: its options, and what it prints. Spark is loaded by the commands that need it."""
