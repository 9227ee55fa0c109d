"""What the server tells of itself, whatever its catalog holds: capabilities, the model, and the API as OpenAPI."""
