-- Sets of resolver profiles, which of them which nodes shall have, and which
-- each has and had. A want is the newest whose selector means the node.
CREATE TABLE resolver_sets (
	digest    TEXT PRIMARY KEY,
	version   TEXT NOT NULL UNIQUE,
	profiles  TEXT NOT NULL,
	pushed_by TEXT NOT NULL,
	pushed_at BIGINT NOT NULL
);

CREATE TABLE resolver_wants (
	selector    TEXT PRIMARY KEY,
	digest      TEXT NOT NULL REFERENCES resolver_sets (digest),
	wanted_by   TEXT NOT NULL,
	wanted_at   BIGINT NOT NULL, -- no two are alike
	stopped_at  BIGINT NOT NULL DEFAULT 0,
	stop_reason TEXT NOT NULL DEFAULT ''
);
-- The wanted_at given last: whoever says a want locks this row.
CREATE TABLE resolver_clock (
	id   BIGINT PRIMARY KEY,
	last BIGINT NOT NULL
);
INSERT INTO resolver_clock (id, last) VALUES (1, 0);
CREATE UNIQUE INDEX resolver_wants_at ON resolver_wants (wanted_at);

ALTER TABLE nodes ADD COLUMN resolver_wanted TEXT NOT NULL DEFAULT '';
ALTER TABLE nodes ADD COLUMN resolver_want BIGINT NOT NULL DEFAULT 0; -- wanted_at of the want it comes from
ALTER TABLE nodes ADD COLUMN resolver_digest TEXT NOT NULL DEFAULT '';
ALTER TABLE nodes ADD COLUMN resolver_before TEXT NOT NULL DEFAULT '';
CREATE INDEX tasks_resolver ON tasks (idempotency_key) WHERE type = 'node.resolver_config';
