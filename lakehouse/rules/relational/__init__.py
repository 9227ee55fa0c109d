"""Rules between entities: their members, references, chains, endpoints and changes, as joins in Spark."""
