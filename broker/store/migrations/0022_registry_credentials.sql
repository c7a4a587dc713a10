-- Accounts at OCI registries, by which tokens are made that may pull. The account itself
-- is among the secrets, at its path.
CREATE TABLE registry_credentials (
	registry   TEXT PRIMARY KEY, -- HOST[:PORT]
	username   TEXT NOT NULL,
	plain_http BOOLEAN NOT NULL,
	vault_path TEXT NOT NULL,
	set_by     TEXT NOT NULL,
	reason     TEXT NOT NULL,
	set_at     BIGINT NOT NULL
);
