-- The nodes of a rollout, one row each: a step writes those that have moved on in it, and
-- not all of them. A rollout that is not in here has them in the state of its run.
CREATE TABLE rollout_members (
	run_id TEXT NOT NULL REFERENCES chain_runs (id),
	place  BIGINT NOT NULL, -- among the members, from 0
	member TEXT NOT NULL,   -- JSON, as package rollout has it
	PRIMARY KEY (run_id, place)
);
