-- Nodes of a SKU that a project is to have in a period, and nobody else. A row names no nodes: it counts.
CREATE TABLE reservations (
	id         TEXT PRIMARY KEY,
	project_id TEXT NOT NULL REFERENCES projects (id),
	sku        TEXT NOT NULL REFERENCES skus (id),
	site       TEXT NOT NULL,   -- empty: any
	nodes      BIGINT NOT NULL,
	from_at    BIGINT NOT NULL,
	to_at      BIGINT NOT NULL,
	created_at BIGINT NOT NULL,
	ended_at   BIGINT NOT NULL  -- by hand; 0: not
);
-- What is planned or in force.
CREATE INDEX reservations_live ON reservations (to_at, sku) WHERE ended_at = 0;
CREATE INDEX reservations_project ON reservations (project_id, id);
