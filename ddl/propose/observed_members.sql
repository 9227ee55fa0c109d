-- observed_members: How often each path was there, of how many parents: what decides whether it is required.
-- Grain: one row per kind, broken schema and path.  Reads: observed_paths.  Read by: users.
CREATE OR REPLACE TEMPORARY VIEW observed_members (
  kind COMMENT 'CloudEvents type, else protocol and address without ids, and what distinguishes kinds there',
  breaks COMMENT 'Registry and XID of the schema that the payloads break; NULL: no definition describes the events',
  path COMMENT 'JSON Pointer, with * for items of arrays and {} for keys of maps; below /data the payload',
  parents COMMENT 'Objects that hold the path or could have held it; NULL: it is below no object',
  events COMMENT 'How many values there were, nulls among them',
  nulls COMMENT 'How many of them were null',
  types COMMENT 'JSON types of the values',
  first_seen COMMENT 'First day; empty when it is not known',
  last_seen COMMENT 'Last day',
  days COMMENT 'On how many days there were such objects'
)
COMMENT 'How often each path was there, of how many parents: what decides whether it is required.'
AS
WITH members AS (
  SELECT
    kind,
    breaks,
    path,
    SUBSTRING_INDEX(path, '/', SIZE(SPLIT(path, '/')) - 1) AS parent,
    SUM(events) AS events,
    SUM(IF(type = 'null', events, 0)) AS nulls,
    ARRAY_SORT(COLLECT_SET(type)) AS types,
    MIN(day) AS first_seen,
    MAX(day) AS last_seen
  FROM observed_paths
  GROUP BY kind, breaks, path
),

objects AS (
  SELECT
    kind,
    breaks,
    path,
    SUM(events) AS events,
    COUNT(DISTINCT NULLIF(day, '')) AS days
  FROM observed_paths
  WHERE type = 'object'
  GROUP BY kind, breaks, path
)

SELECT
  m.kind,
  m.breaks,
  m.path,
  o.events AS parents,
  m.events,
  m.nulls,
  m.types,
  m.first_seen,
  m.last_seen,
  o.days
FROM members AS m
LEFT JOIN objects AS o ON o.kind = m.kind AND o.breaks <=> m.breaks AND o.path = m.parent AND m.path <> '';
