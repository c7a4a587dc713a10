-- Clusters that nodes join by operations. The token of a cluster's API and what its nodes
-- authenticate with are among the secrets, at its path.
CREATE TABLE clusters (
	name       TEXT PRIMARY KEY,
	backend    TEXT NOT NULL,
	url        TEXT NOT NULL,
	ca_cert    TEXT NOT NULL,
	project_id TEXT NOT NULL, -- '' : operations of the platform alone
	controller TEXT NOT NULL,
	join_auth  TEXT NOT NULL,
	vault_path TEXT NOT NULL,
	generation TEXT NOT NULL,
	set_by     TEXT NOT NULL,
	reason     TEXT NOT NULL,
	set_at     BIGINT NOT NULL
);
