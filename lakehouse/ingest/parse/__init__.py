"""A document becomes rows of the stage: entities in normal form, findings, and facts of the document."""
