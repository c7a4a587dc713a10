-- What projects are to be billed for: a row when an allocation becomes active, and a row when it is
-- released. Rows are inserted only, and at most once for each allocation.
CREATE TABLE usage_spans (
	allocation_id TEXT PRIMARY KEY,
	project_id    TEXT NOT NULL,
	sku           TEXT NOT NULL,
	site          TEXT NOT NULL,
	nodes         BIGINT NOT NULL, -- whole nodes; 0: GPUs of one node
	gpus          BIGINT NOT NULL, -- of all nodes
	from_at       BIGINT NOT NULL
);
CREATE INDEX usage_spans_project ON usage_spans (project_id, from_at, allocation_id);
CREATE INDEX usage_spans_from ON usage_spans (from_at, allocation_id);

CREATE TABLE usage_ends (
	allocation_id TEXT PRIMARY KEY,
	to_at         BIGINT NOT NULL -- never before from_at
);
