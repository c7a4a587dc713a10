-- Who is on a node, and who was since it was last handed out clean.
CREATE TABLE allocations (
	node_id       TEXT NOT NULL REFERENCES nodes (id),
	allocation_id TEXT NOT NULL,
	username      TEXT NOT NULL,
	tenant        TEXT NOT NULL,
	had_root      BOOLEAN NOT NULL,
	task_id       TEXT NOT NULL, -- that asked for its user first
	since         BIGINT NOT NULL,
	ended_at      BIGINT NOT NULL DEFAULT 0,
	forced_by     TEXT NOT NULL DEFAULT '', -- the run that ended it for the tenant
	certified_by  TEXT NOT NULL DEFAULT '', -- the certificate with which the node was handed out after it
	PRIMARY KEY (node_id, allocation_id)
);

-- Clean certificates, as they were signed. They are kept for ever.
CREATE TABLE clean_certificates (
	id            TEXT PRIMARY KEY,
	run_id        TEXT NOT NULL,
	node_id       TEXT NOT NULL,
	node_epoch    BIGINT NOT NULL,
	site          TEXT NOT NULL,
	mode          TEXT NOT NULL,
	allocation_id TEXT NOT NULL,
	meets_policy  BOOLEAN NOT NULL,
	shortfalls    TEXT NOT NULL, -- codes
	digest        TEXT NOT NULL, -- of the file
	issued_at     BIGINT NOT NULL,
	valid_until   BIGINT NOT NULL,
	file          BYTEA NOT NULL
);
CREATE INDEX clean_certificates_node ON clean_certificates (node_id, issued_at);
CREATE INDEX clean_certificates_issued ON clean_certificates (issued_at, id);
