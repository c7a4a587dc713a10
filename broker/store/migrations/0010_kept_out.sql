-- Who put a node out of use that is quarantined, as an owner of transitions; empty:
-- not known, and then it counts as a person.
ALTER TABLE nodes ADD COLUMN kept_out_by TEXT NOT NULL DEFAULT '';

-- The last start and the last end of each stage of a run, found without its history.
CREATE INDEX chain_events_stages ON chain_events (run_id, stage, (CASE status WHEN 'started' THEN 1 ELSE 0 END), id);
