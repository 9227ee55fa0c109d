-- dictionary: Dictionary: every table and view of the results of matching with its columns, for clients that do not show comments.
-- Grain: one row per column.  Reads: nothing.  Read by: users.
-- Written from the other files of ddl/match by `make docs`.
CREATE OR REPLACE VIEW dictionary (
  table_name COMMENT 'Name of the table or view',
  table_type COMMENT 'table or view',
  position COMMENT 'Place of the column, from 1',
  column_name COMMENT 'Name of the column',
  type COMMENT 'Type of the column in Spark SQL',
  comment COMMENT 'What the column holds'
)
COMMENT 'Every table and view of the results of matching with its columns.'
AS
SELECT
  table_name,
  table_type,
  position,
  column_name,
  type,
  comment
FROM VALUES
  ('event_matches', 'table', 1, 'run_id', 'string', 'Run that matched it: a row of match_runs')
  AS columns (table_name, table_type, position, column_name, type, comment);
