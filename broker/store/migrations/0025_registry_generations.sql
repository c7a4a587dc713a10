-- Which setting of an account a record is of; the account has the same. That of before has
-- none, as the record.
ALTER TABLE registry_credentials ADD COLUMN generation TEXT NOT NULL DEFAULT '';

-- How often a secret was asked for by a task, and when it may be again.
CREATE TABLE mint_tries (
	task_id TEXT PRIMARY KEY REFERENCES tasks (id),
	tries   BIGINT NOT NULL,
	next_at BIGINT NOT NULL
);
