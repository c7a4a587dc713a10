-- Which list of stages a run began with, and goes on by; empty: it began before that
-- was kept.
ALTER TABLE chain_runs ADD COLUMN list TEXT NOT NULL DEFAULT '';

-- What is wanted of a node's agent, which build it says it is, and how the last
-- delivery to it ended. A node without a row has had none of it.
CREATE TABLE node_agents (
	node_id         TEXT PRIMARY KEY REFERENCES nodes (id),
	channel         TEXT NOT NULL DEFAULT 'stable', -- stable, candidate, pinned
	pinned_version  TEXT NOT NULL DEFAULT '',       -- of channel pinned
	delivery_mode   TEXT NOT NULL DEFAULT 'rebootstrap', -- how it is to come: reimage, manual_install, rebootstrap
	reported_commit TEXT NOT NULL DEFAULT '',
	reported_digest TEXT NOT NULL DEFAULT '',       -- hex SHA-256 of the program
	reported_at     BIGINT NOT NULL DEFAULT 0,
	attempt_at      BIGINT NOT NULL DEFAULT 0,
	result          TEXT NOT NULL DEFAULT '',       -- running, or the outcome
	reason          TEXT NOT NULL DEFAULT '',       -- code
	seconds         BIGINT NOT NULL DEFAULT 0,
	correlation_id  TEXT NOT NULL DEFAULT ''
);
