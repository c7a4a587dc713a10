-- Parts of releases are kept with the packages, and listed with none of them.
ALTER TABLE packages ADD COLUMN part BOOLEAN NOT NULL DEFAULT FALSE;

-- Signed releases of the agent, as they were verified when they were published. A
-- version is one release for ever: nodes and people name it by nothing else.
CREATE TABLE agent_releases (
	version        TEXT PRIMARY KEY,
	digest         TEXT NOT NULL UNIQUE, -- of the manifest
	channel        TEXT NOT NULL,
	reference      TEXT NOT NULL, -- HOST[:PORT]/REPOSITORY; empty: this broker has the parts
	plain_http     BOOLEAN NOT NULL,
	manifest       BYTEA NOT NULL,
	statement      BYTEA NOT NULL,
	signatures     TEXT NOT NULL,
	key_id         TEXT NOT NULL, -- of the release key by which it was verified
	statement_part TEXT NOT NULL,
	layer_part     TEXT NOT NULL,
	layer_size     BIGINT NOT NULL,
	published_by   TEXT NOT NULL,
	published_at   BIGINT NOT NULL,
	revoked_by     TEXT NOT NULL DEFAULT '',
	revoked_reason TEXT NOT NULL DEFAULT '',
	revoked_at     BIGINT NOT NULL DEFAULT 0
);

-- The lowest version that a node is given without asking for a rollback. One row.
CREATE TABLE agent_release_floor (
	one     INTEGER PRIMARY KEY CHECK (one = 1),
	version TEXT NOT NULL,
	set_by  TEXT NOT NULL,
	reason  TEXT NOT NULL,
	set_at  BIGINT NOT NULL
);
