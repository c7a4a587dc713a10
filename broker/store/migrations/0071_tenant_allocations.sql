-- What a project asked for and holds. The table allocations has the occupants: tenants' users on nodes.
CREATE TABLE tenant_allocations (
	id                TEXT PRIMARY KEY,
	project_id        TEXT NOT NULL,
	status            TEXT NOT NULL,
	sku               TEXT NOT NULL,
	nodes             BIGINT NOT NULL, -- whole nodes; 0: GPUs of one node
	gpus              BIGINT NOT NULL,
	site              TEXT NOT NULL,
	image             TEXT NOT NULL,   -- empty: the site's
	key_ids           TEXT NOT NULL,   -- JSON
	ends_at           BIGINT NOT NULL, -- 0: never
	labels            TEXT NOT NULL,   -- JSON
	code              TEXT NOT NULL,   -- of a failure
	certificate_ids   TEXT NOT NULL,   -- JSON
	requested_at      BIGINT NOT NULL,
	provisioning_at   BIGINT NOT NULL,
	active_at         BIGINT NOT NULL,
	releasing_at      BIGINT NOT NULL,
	released_at       BIGINT NOT NULL,
	failed_at         BIGINT NOT NULL,
	release_failed_at BIGINT NOT NULL
);
CREATE INDEX tenant_allocations_newest ON tenant_allocations (requested_at, id);
CREATE INDEX tenant_allocations_project ON tenant_allocations (project_id, requested_at, id);

-- Which allocation has a node to itself. ended_at 0: the claim is live.
CREATE TABLE allocation_claims (
	allocation_id TEXT NOT NULL,
	node_id       TEXT NOT NULL,
	since         BIGINT NOT NULL,
	ended_at      BIGINT NOT NULL,
	PRIMARY KEY (allocation_id, node_id)
);
CREATE UNIQUE INDEX allocation_claims_live ON allocation_claims (node_id) WHERE ended_at = 0;
CREATE INDEX nodes_sku ON nodes (sku, site, id);
