-- When a person said that a node is as it shall be, and why: a clean certificate tells of
-- what was accepted after a tenant came.
CREATE TABLE accepted_baselines (
	node_id     TEXT NOT NULL REFERENCES nodes (id),
	digest      TEXT NOT NULL,
	accepted_by TEXT NOT NULL,
	reason      TEXT NOT NULL,
	accepted_at BIGINT NOT NULL,
	PRIMARY KEY (node_id, accepted_at)
);
