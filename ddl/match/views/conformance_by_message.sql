-- conformance_by_message: How often each definition was seen, and how well what was seen keeps to it.
-- Grain: one row per best definition and run.  Reads: event_matches.  Read by: users.
CREATE OR REPLACE VIEW conformance_by_message (
  run_id COMMENT 'Run: a row of match_runs',
  registryid COMMENT 'Registry of the definition',
  xid COMMENT 'XID of the message',
  events COMMENT 'Events that it is best for',
  deviating COMMENT 'Those that deviate in what does not decide',
  invalid COMMENT 'Those whose payload breaks the schema or cannot be decoded',
  missed COMMENT 'Those that miss a more specific definition: nearest_xid names it',
  first_landed_at COMMENT 'When the first of them landed (UTC), where the landing says so',
  last_landed_at COMMENT 'When the last of them landed (UTC), where the landing says so'
)
COMMENT 'How often each definition was seen, and how well what was seen keeps to it.'
AS
WITH seen AS (
  SELECT
    run_id,
    explode(best) AS definition,
    deviations,
    payload_status,
    nearest_xid,
    landed_at
  FROM event_matches
)

SELECT
  run_id,
  definition.registryid,
  definition.xid,
  count(*) AS events,
  count_if(size(deviations) > 0) AS deviating,
  count_if(payload_status IN ('invalid', 'undecodable')) AS invalid,
  count_if(nearest_xid IS NOT NULL) AS missed,
  min(landed_at) AS first_landed_at,
  max(landed_at) AS last_landed_at
FROM seen
GROUP BY run_id, definition.registryid, definition.xid;
