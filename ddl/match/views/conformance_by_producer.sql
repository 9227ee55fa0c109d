-- conformance_by_producer: How well each producer keeps to the catalog.
-- Grain: one row per CloudEvents source and run.  Reads: event_matches.  Read by: users.
CREATE OR REPLACE VIEW conformance_by_producer (
  run_id COMMENT 'Run: a row of match_runs',
  ce_source COMMENT 'CloudEvents source: the producer; NULL: events without',
  events COMMENT 'Events that were read',
  matched COMMENT 'Events of a definition, ambiguous ones too',
  unmatched COMMENT 'Events of no definition, incomplete ones too',
  deviating COMMENT 'Matched events that deviate in what does not decide',
  invalid COMMENT 'Events whose payload breaks its schema or cannot be decoded',
  conforming_share COMMENT 'Share of the events that match and whose payload does not break its schema, 0 to 1'
)
COMMENT 'How well each producer keeps to the catalog.'
AS
SELECT
  run_id,
  ce_source,
  count(*) AS events,
  count_if(status IN ('matched', 'ambiguous')) AS matched,
  count_if(status IN ('unmatched', 'incomplete')) AS unmatched,
  count_if(size(deviations) > 0) AS deviating,
  count_if(payload_status IN ('invalid', 'undecodable')) AS invalid,
  count_if(status IN ('matched', 'ambiguous') AND payload_status NOT IN ('invalid', 'undecodable')) / count(*) AS conforming_share
FROM event_matches
WHERE status <> 'unreadable'
GROUP BY run_id, ce_source;
