-- What a definition by JSON Pointer is called in comments: flat attributes.
ALTER TABLE versions ALTER COLUMN attributes COMMENT 'The definition as flat attributes: JSON Pointer to JSON text of the value, in normal form';
ALTER TABLE effective_messages ALTER COLUMN attributes COMMENT 'The effective definition as flat attributes: JSON Pointer to JSON text of the value';
