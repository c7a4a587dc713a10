-- What became of the last task that sent a node to its session's relay; and whether the
-- session's process has begun: from then on none is started for it again.
ALTER TABLE terminal_sessions ADD COLUMN open_task TEXT NOT NULL DEFAULT '';
ALTER TABLE terminal_sessions ADD COLUMN began BOOLEAN NOT NULL DEFAULT FALSE;

-- The node of a session that is over is told to end what it has of it: until this says so.
ALTER TABLE terminal_sessions ADD COLUMN node_told BOOLEAN NOT NULL DEFAULT FALSE;
UPDATE terminal_sessions SET node_told = TRUE WHERE status = 'closed';
CREATE INDEX terminal_sessions_untold ON terminal_sessions (id) WHERE status = 'closed' AND NOT node_told;

-- Which process speaks for a relay's address.
ALTER TABLE terminal_relays ADD COLUMN instance TEXT NOT NULL DEFAULT '';
