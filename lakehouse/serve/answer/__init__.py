"""What a request is answered with: entities nested and filtered, documents, definitions, events."""
