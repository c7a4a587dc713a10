-- Accounts at sources of artifacts, with which requests of operations' tasks are signed. The
-- secret is among the secrets, at its path.
CREATE TABLE source_credentials (
	name       TEXT PRIMARY KEY,
	source     TEXT NOT NULL, -- s3:models/public
	endpoint   TEXT NOT NULL,
	region     TEXT NOT NULL,
	key_id     TEXT NOT NULL,
	vault_path TEXT NOT NULL,
	generation TEXT NOT NULL,
	set_by     TEXT NOT NULL,
	reason     TEXT NOT NULL,
	set_at     BIGINT NOT NULL
);
