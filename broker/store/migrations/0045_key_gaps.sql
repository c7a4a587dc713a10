-- A broker that lacks keys of the trust bundle in force says so every few seconds.
CREATE TABLE key_gaps (
	replica TEXT PRIMARY KEY, -- one process
	name    TEXT NOT NULL,    -- of its machine
	lacks   TEXT NOT NULL,    -- JSON: use and id of each key
	seen_at BIGINT NOT NULL
);
