-- undeclared_messages: Types of events that no definition is for, over all runs.
-- Grain: one row per CloudEvents type, source, reason and nearest definition.  Reads: unmatched_signatures.  Read by: users.
CREATE OR REPLACE VIEW undeclared_messages (
  ce_type COMMENT 'CloudEvents type',
  ce_source COMMENT 'CloudEvents source: the producer',
  why COMMENT 'Why they match nothing, in one line',
  nearest_xid COMMENT 'Definition that came nearest',
  events COMMENT 'How many there were',
  first_landed_at COMMENT 'When the first of them landed (UTC), where the landing says so',
  last_landed_at COMMENT 'When the last of them landed (UTC), where the landing says so'
)
COMMENT 'Types of events that no definition is for, over all runs.'
AS
SELECT
  ce_type,
  ce_source,
  why,
  nearest_xid,
  sum(events) AS events,
  min(first_landed_at) AS first_landed_at,
  max(last_landed_at) AS last_landed_at
FROM unmatched_signatures
WHERE status = 'unmatched'
GROUP BY ce_type, ce_source, why, nearest_xid;
