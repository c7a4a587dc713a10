-- The last time that a node's machine was given back to MAAS by a run: from then on
-- whoever shows a certificate from before is the system that was on it.
CREATE TABLE releases (
	node_id  TEXT PRIMARY KEY REFERENCES nodes (id),
	run_id   TEXT NOT NULL,
	cut_at   BIGINT NOT NULL,
	wiped_at BIGINT NOT NULL DEFAULT 0, -- MAAS had the machine back
	shown_at BIGINT NOT NULL DEFAULT 0, -- a certificate from before was shown last, after that
	serial   TEXT NOT NULL DEFAULT '',
	remote   TEXT NOT NULL DEFAULT ''
);

-- Since when a deleted node's secrets wait to be removed; 0: they do not.
ALTER TABLE nodes ADD COLUMN secrets_left_at BIGINT NOT NULL DEFAULT 0;
