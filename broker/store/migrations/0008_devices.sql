-- The parts by which a node's machine is known again, and how each stands. Those
-- that were removed stay on record.
CREATE TABLE node_devices (
	node_id TEXT NOT NULL REFERENCES nodes (id),
	kind    TEXT NOT NULL, -- disk, gpu
	id      TEXT NOT NULL, -- a disk's serial, a GPU's UUID
	serial  TEXT NOT NULL,
	model   TEXT NOT NULL,
	place   TEXT NOT NULL,
	size    BIGINT NOT NULL,
	state   TEXT NOT NULL, -- expected, found, missing, unexpected, removed
	source  TEXT NOT NULL, -- maas, agent
	since   BIGINT NOT NULL,
	reason  TEXT NOT NULL,
	PRIMARY KEY (node_id, kind, id)
);
CREATE INDEX node_devices_wrong ON node_devices (node_id) WHERE state IN ('missing', 'unexpected');

-- When what a node had was taken for what it shall have; 0: not yet.
ALTER TABLE nodes ADD COLUMN devices_taken_at BIGINT NOT NULL DEFAULT 0;
