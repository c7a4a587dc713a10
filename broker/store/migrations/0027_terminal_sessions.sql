-- Terminal sessions, and their recordings in blocks: on any replica, in no replica's files.
CREATE TABLE terminal_sessions (
	id                TEXT PRIMARY KEY,
	node_id           TEXT NOT NULL REFERENCES nodes (id),
	node_epoch        BIGINT NOT NULL,
	site              TEXT NOT NULL,
	allocation_id     TEXT NOT NULL,
	username          TEXT NOT NULL,
	opened_by         TEXT NOT NULL,
	reason            TEXT NOT NULL,
	max_seconds       BIGINT NOT NULL,
	idle_seconds      BIGINT NOT NULL,
	detach_seconds    BIGINT NOT NULL,
	record_input      BOOLEAN NOT NULL,
	replica           TEXT NOT NULL,
	status            TEXT NOT NULL,
	end_code          TEXT NOT NULL DEFAULT '',
	exit_status       BIGINT NOT NULL DEFAULT -1, -- -1: not known
	token_hash        TEXT NOT NULL DEFAULT '',   -- for the node's next connection; empty: none is let in
	token_expires_at  BIGINT NOT NULL DEFAULT 0,
	token_key_digest  TEXT NOT NULL DEFAULT '',   -- of the key that has to show it
	used_token_hash   TEXT NOT NULL DEFAULT '',   -- of the one before
	created_at        BIGINT NOT NULL,
	status_at         BIGINT NOT NULL,
	closed_at         BIGINT NOT NULL DEFAULT 0,
	recorded_at       BIGINT NOT NULL DEFAULT 0, -- when the audit log was told the recording's end
	dropped_at        BIGINT NOT NULL DEFAULT 0  -- when the recording was, as it was old
);
CREATE INDEX terminal_sessions_live ON terminal_sessions (node_id) WHERE status <> 'closed';
CREATE INDEX terminal_sessions_made ON terminal_sessions (created_at, id);
CREATE INDEX terminal_sessions_kept ON terminal_sessions (closed_at) WHERE closed_at > 0 AND dropped_at = 0;

CREATE TABLE recording_blocks (
	session_id TEXT NOT NULL REFERENCES terminal_sessions (id),
	seq        BIGINT NOT NULL,
	at         BIGINT NOT NULL,
	upto       BIGINT NOT NULL, -- bytes of output in it and those before
	lost       BIGINT NOT NULL,
	last       BOOLEAN NOT NULL,
	lines      BYTEA NOT NULL,
	prev       TEXT NOT NULL,
	hash       TEXT NOT NULL,
	PRIMARY KEY (session_id, seq)
);
