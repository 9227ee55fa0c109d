-- dictionary: Dictionary: x.
-- Grain: one row per column.  Reads: nothing.  Read by: users.
CREATE OR REPLACE VIEW dictionary AS SELECT 1 AS a;
