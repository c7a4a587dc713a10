-- Tenants: organisations, their projects, and the members of both. Rows are never deleted:
-- ended_at > 0 says that the row's subject has ended. A name is unique among the live ones.
CREATE TABLE organisations (
	id         TEXT PRIMARY KEY,
	name       TEXT NOT NULL,
	created_at BIGINT NOT NULL,
	ended_at   BIGINT NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX organisations_name ON organisations (name) WHERE ended_at = 0;

CREATE TABLE projects (
	id              TEXT PRIMARY KEY,
	organisation_id TEXT NOT NULL REFERENCES organisations (id),
	name            TEXT NOT NULL,
	created_at      BIGINT NOT NULL,
	ended_at        BIGINT NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX projects_name ON projects (organisation_id, name) WHERE ended_at = 0;

-- A member with an empty project_id is a member of the whole organisation.
CREATE TABLE members (
	id              TEXT PRIMARY KEY,
	subject         TEXT NOT NULL,
	organisation_id TEXT NOT NULL REFERENCES organisations (id),
	project_id      TEXT NOT NULL DEFAULT '',
	role            TEXT NOT NULL,
	created_at      BIGINT NOT NULL,
	ended_at        BIGINT NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX members_subject ON members (organisation_id, project_id, subject) WHERE ended_at = 0;

CREATE TABLE ssh_keys (
	id          TEXT PRIMARY KEY,
	member_id   TEXT NOT NULL REFERENCES members (id),
	type        TEXT NOT NULL,
	public_key  TEXT NOT NULL, -- TYPE BASE64
	fingerprint TEXT NOT NULL,
	comment     TEXT NOT NULL,
	created_at  BIGINT NOT NULL,
	ended_at    BIGINT NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX ssh_keys_fingerprint ON ssh_keys (member_id, fingerprint) WHERE ended_at = 0;

-- A project without a row may have nothing of the SKU.
CREATE TABLE quotas (
	project_id TEXT NOT NULL REFERENCES projects (id),
	sku        TEXT NOT NULL REFERENCES skus (id),
	nodes      BIGINT NOT NULL,
	gpus       BIGINT NOT NULL,
	updated_at BIGINT NOT NULL,
	PRIMARY KEY (project_id, sku)
);
