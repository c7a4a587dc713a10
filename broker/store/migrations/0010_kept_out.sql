-- Who put a node out of use that is quarantined, as an owner of transitions; empty:
-- not known, and then it counts as a person.
ALTER TABLE nodes ADD COLUMN kept_out_by TEXT NOT NULL DEFAULT '';
