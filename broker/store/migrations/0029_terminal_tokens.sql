-- A minted token stands beside the one of the last Welcome, so that neither takes the other's
-- place before it is used; and the one before the last stays known as used.
ALTER TABLE terminal_sessions ADD COLUMN next_token_hash TEXT NOT NULL DEFAULT '';  -- that the last Welcome carried
ALTER TABLE terminal_sessions ADD COLUMN token_holder TEXT NOT NULL DEFAULT '';     -- digest of the key that got it
ALTER TABLE terminal_sessions ADD COLUMN spent_token_hash TEXT NOT NULL DEFAULT ''; -- used before used_token_hash
UPDATE terminal_sessions SET next_token_hash = token_hash, token_holder = token_key_digest, token_hash = '' WHERE used_token_hash <> '';

-- Retention looks for recordings of a site whose end is in the audit log.
DROP INDEX terminal_sessions_kept;
CREATE INDEX terminal_sessions_kept ON terminal_sessions (site, closed_at) WHERE closed_at > 0 AND recorded_at > 0 AND dropped_at = 0;
