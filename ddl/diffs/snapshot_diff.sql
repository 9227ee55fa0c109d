-- snapshot_diff: What differs between two states of the catalog, and what it means for producers and consumers.
-- Grain: one row per entity that came or went, and per attribute that differs.  Reads: before_definitions, after_definitions, compatibility_rules.  Read by: lakehouse diff.
-- before_definitions and after_definitions are comparable_definitions of the two.
CREATE OR REPLACE VIEW snapshot_diff (
  registryid COMMENT 'Registry that the entity belongs to',
  kind COMMENT 'message, group, endpoint, schema or schemaversion',
  xid COMMENT 'XID of the entity',
  change COMMENT 'added, removed or changed: the entity when pointer is empty, else the attribute',
  pointer COMMENT 'JSON Pointer to the attribute in the effective definition; empty for the entity itself',
  before COMMENT 'JSON text of the value before',
  after COMMENT 'JSON text of the value after',
  class COMMENT 'breaking, unknown, compatible or cosmetic: the graver of the next two',
  for_producers COMMENT 'What it is for those who send the messages',
  for_consumers COMMENT 'What it is for those who receive the messages',
  rule COMMENT 'Rule of compatibility_rules that holds',
  meaning COMMENT 'What it means'
)
COMMENT 'What differs between two states of the catalog, and what it means for producers and consumers.'
AS
WITH both AS (
  SELECT
    coalesce(b.registryid, a.registryid) AS registryid,
    coalesce(b.kind, a.kind) AS kind,
    coalesce(b.xid, a.xid) AS xid,
    b.attributes AS before,
    a.attributes AS after
  FROM before_definitions AS b
  FULL OUTER JOIN after_definitions AS a ON a.registryid = b.registryid AND a.kind = b.kind AND a.xid = b.xid
),

differing AS (
  SELECT
    registryid,
    kind,
    xid,
    before,
    after,
    CASE
      WHEN before IS NULL OR after IS NULL THEN map('', named_struct('before', CAST(NULL AS STRING), 'after', CAST(NULL AS STRING)))
      ELSE map_filter(
        map_zip_with(before, after, (pointer, x, y) -> named_struct('before', x, 'after', y)),
        (pointer, pair) -> NOT pair.before <=> pair.after
      )
    END AS pairs
  FROM both
),

pairs AS (
  SELECT
    registryid,
    kind,
    xid,
    before,
    after,
    pointer,
    pair.before AS value_before,
    pair.after AS value_after,
    regexp_replace(pointer, r'[^/]*\z', '') AS parent,
    CASE
      WHEN before IS NULL THEN 'added'
      WHEN after IS NULL THEN 'removed'
      WHEN pair.before IS NULL THEN 'added'
      WHEN pair.after IS NULL THEN 'removed'
      ELSE 'changed'
    END AS change
  FROM differing
  LATERAL VIEW explode(pairs) each_pair AS pointer, pair
),

placed AS (
  SELECT
    registryid,
    kind,
    xid,
    pointer,
    value_before,
    value_after,
    change,
    CASE
      WHEN NOT pointer RLIKE r'^/(envelopemetadata|protocoloptions)/.+/(type|value|required|description|specurl)$' THEN ''
      WHEN NOT exists(map_keys(before), other -> startswith(other, parent)) THEN 'new'
      WHEN NOT exists(map_keys(after), other -> startswith(other, parent)) THEN 'gone'
      ELSE 'declaration'
    END AS place
  FROM pairs
),

ruled AS (
  SELECT
    p.registryid,
    p.kind,
    p.xid,
    p.change,
    p.pointer,
    p.value_before,
    p.value_after,
    min_by(
      named_struct('rule', r.rule, 'for_producers', r.for_producers, 'for_consumers', r.for_consumers, 'meaning', r.meaning),
      r.ordinal
    ) AS first_rule
  FROM placed AS p
  INNER JOIN compatibility_rules AS r
    ON r.kind IN ('', p.kind)
    AND r.change IN ('', p.change)
    AND r.place IN ('', p.place)
    AND p.pointer RLIKE r.pointer
    AND coalesce(p.value_after, p.value_before, '') RLIKE r.value
  GROUP BY p.registryid, p.kind, p.xid, p.change, p.pointer, p.value_before, p.value_after
)

SELECT
  registryid,
  kind,
  xid,
  change,
  pointer,
  value_before AS before,
  value_after AS after,
  CASE
    WHEN 'breaking' IN (first_rule.for_producers, first_rule.for_consumers) THEN 'breaking'
    WHEN 'unknown' IN (first_rule.for_producers, first_rule.for_consumers) THEN 'unknown'
    WHEN 'compatible' IN (first_rule.for_producers, first_rule.for_consumers) THEN 'compatible'
    ELSE 'cosmetic'
  END AS class,
  first_rule.for_producers AS for_producers,
  first_rule.for_consumers AS for_consumers,
  first_rule.rule AS rule,
  first_rule.meaning AS meaning
FROM ruled;
