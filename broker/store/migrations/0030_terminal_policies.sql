-- Who may open a terminal as whom, the way in, and which relays live.
CREATE TABLE terminal_policies (
	site       TEXT PRIMARY KEY,
	policy     TEXT NOT NULL,
	updated_at BIGINT NOT NULL
);

CREATE TABLE terminal_tickets (
	hash       TEXT PRIMARY KEY,
	session_id TEXT NOT NULL REFERENCES terminal_sessions (id),
	operator   TEXT NOT NULL, -- name of the token that alone may show it
	width      BIGINT NOT NULL,
	height     BIGINT NOT NULL,
	expires_at BIGINT NOT NULL,
	used_at    BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX terminal_tickets_old ON terminal_tickets (expires_at);

-- A relay that holds sessions says every few seconds that it does.
CREATE TABLE terminal_relays (
	address TEXT PRIMARY KEY,
	seen_at BIGINT NOT NULL
);

ALTER TABLE terminal_sessions ADD COLUMN params TEXT NOT NULL DEFAULT '{}';    -- of terminal.open, without the relay
ALTER TABLE terminal_sessions ADD COLUMN opened_in TEXT NOT NULL DEFAULT '';   -- the node's status then
ALTER TABLE terminal_sessions ADD COLUMN opens BIGINT NOT NULL DEFAULT 0;      -- tasks that were sent to the node
ALTER TABLE terminal_sessions ADD COLUMN end_asked_code TEXT NOT NULL DEFAULT '';
ALTER TABLE terminal_sessions ADD COLUMN end_asked_reason TEXT NOT NULL DEFAULT '';
ALTER TABLE terminal_sessions ADD COLUMN end_asked_by TEXT NOT NULL DEFAULT '';
