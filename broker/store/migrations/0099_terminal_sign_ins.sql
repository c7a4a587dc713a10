-- The role, the place and the end of the last ID token that the opener of a session has shown, if the
-- opener is a person who signs in. Such a person has no operator token.
ALTER TABLE terminal_sessions ADD COLUMN signed_in_role TEXT NOT NULL DEFAULT '';
ALTER TABLE terminal_sessions ADD COLUMN signed_in_organisation TEXT NOT NULL DEFAULT '';
ALTER TABLE terminal_sessions ADD COLUMN signed_in_project TEXT NOT NULL DEFAULT '';
ALTER TABLE terminal_sessions ADD COLUMN signed_in_until BIGINT NOT NULL DEFAULT 0;
