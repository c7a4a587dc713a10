-- What operations may do: an overlay of each level for an operation, or with * for all operations.
CREATE TABLE operation_policies (
	organisation_id TEXT NOT NULL, -- empty: of the platform
	project_id      TEXT NOT NULL, -- empty: of the whole organisation, or of the platform
	operation       TEXT NOT NULL,
	policy          TEXT NOT NULL, -- JSON of seven optional keys
	updated_at      BIGINT NOT NULL,
	PRIMARY KEY (organisation_id, project_id, operation)
);
