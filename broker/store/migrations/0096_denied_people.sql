-- People who sign in and are denied at a place, whatever the rules of the config give them. Such a person
-- is an ended member until the denial is lifted; one who was no member has a row without a role.
ALTER TABLE members ADD COLUMN denied_at BIGINT NOT NULL DEFAULT 0;
ALTER TABLE members ADD COLUMN end_reason TEXT NOT NULL DEFAULT '';
CREATE UNIQUE INDEX members_denied ON members (subject, organisation_id, project_id) WHERE denied_at > 0;
