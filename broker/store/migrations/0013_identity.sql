-- When the key that a node has now was first certified: what an earlier key signed
-- is not taken as the node's word any more.
ALTER TABLE nodes ADD COLUMN identity_since BIGINT NOT NULL DEFAULT 0;
UPDATE nodes SET identity_since = enrolled_at;

-- What a node.rotate_identity came to at the broker: the certificate for the new
-- key, which is the node's from the first request with it.
CREATE TABLE rotations (
	task_id     TEXT PRIMARY KEY,
	node_id     TEXT NOT NULL REFERENCES nodes (id),
	epoch       BIGINT NOT NULL,
	key_digest  TEXT NOT NULL,
	serial      TEXT NOT NULL,
	remote      TEXT NOT NULL, -- address that asked for it
	issued_at   BIGINT NOT NULL,
	used_at     BIGINT NOT NULL DEFAULT 0, -- the node was heard with it
	void_at     BIGINT NOT NULL DEFAULT 0, -- the task ended otherwise: it never will be
	conflict_at BIGINT NOT NULL DEFAULT 0  -- another than who has the new key was seen
);
CREATE UNIQUE INDEX rotations_serial ON rotations (serial);
CREATE INDEX rotations_open ON rotations (node_id) WHERE used_at = 0 AND void_at = 0;
CREATE INDEX certificates_key ON certificates (key_digest);

-- Which running agent polls as a node, and which did before it.
CREATE TABLE node_instances (
	node_id TEXT PRIMARY KEY REFERENCES nodes (id),
	epoch   BIGINT NOT NULL,
	present TEXT NOT NULL,
	remote  TEXT NOT NULL,
	since   BIGINT NOT NULL,
	earlier TEXT NOT NULL, -- newest first
	told_at BIGINT NOT NULL DEFAULT 0 -- of a conflict
);
