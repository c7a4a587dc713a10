-- Tokens of a session that were never used, and in whose place another came: whoever has one
-- may not know that yet, and is no attacker.
ALTER TABLE terminal_sessions ADD COLUMN superseded TEXT NOT NULL DEFAULT '[]';
