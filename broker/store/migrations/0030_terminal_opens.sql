-- What became of the last task that sent a node to its session's relay; and whether the
-- session's process has begun: from then on none is started for it again.
ALTER TABLE terminal_sessions ADD COLUMN open_task TEXT NOT NULL DEFAULT '';
ALTER TABLE terminal_sessions ADD COLUMN began BOOLEAN NOT NULL DEFAULT FALSE;
