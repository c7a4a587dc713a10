-- Executions of definitions of operations.
CREATE TABLE operations (
	id                TEXT PRIMARY KEY,
	operation         TEXT NOT NULL,   -- model.artifact.stage@v1
	definition_digest TEXT NOT NULL,
	organisation_id   TEXT NOT NULL,   -- empty: no tenant's
	project_id        TEXT NOT NULL,
	requested_by      TEXT NOT NULL,
	reason            TEXT NOT NULL,
	target_kind       TEXT NOT NULL,   -- node, allocation
	target_id         TEXT NOT NULL,
	allocation_id     TEXT NOT NULL,
	site              TEXT NOT NULL,
	node_ids          TEXT NOT NULL,   -- JSON list
	safety            TEXT NOT NULL,
	requires          TEXT NOT NULL,   -- JSON: fact and permitted values
	trigger_source    TEXT NOT NULL,
	idempotency_key   TEXT NOT NULL,
	correlation_id    TEXT NOT NULL,
	plan              TEXT NOT NULL,   -- JSON, of the first attempt
	status            TEXT NOT NULL,
	attempt           BIGINT NOT NULL,
	run_id            TEXT NOT NULL,
	code              TEXT NOT NULL,
	message           TEXT NOT NULL,
	canceled_by       TEXT NOT NULL,   -- of the present attempt
	cancel_reason     TEXT NOT NULL,
	requested_at      BIGINT NOT NULL,
	started_at        BIGINT NOT NULL,
	ended_at          BIGINT NOT NULL
);
CREATE INDEX operations_project ON operations (project_id, requested_at, id);
CREATE INDEX operations_requested ON operations (requested_at, id);
CREATE INDEX operations_live ON operations (project_id) WHERE ended_at = 0;
CREATE INDEX operations_ended ON operations (ended_at, id) WHERE ended_at > 0;
-- One attempt of one step on one node.
CREATE TABLE operation_steps (
	operation_id     TEXT NOT NULL,
	task             BIGINT NOT NULL, -- the attempt of the operation
	place            BIGINT NOT NULL, -- of the node among those of the operation
	seq              BIGINT NOT NULL,
	step_id          TEXT NOT NULL,
	step_kind        TEXT NOT NULL,
	resolved_profile TEXT NOT NULL,
	hardware_match   TEXT NOT NULL,
	attempt_number   BIGINT NOT NULL,
	status           TEXT NOT NULL,
	error_code       TEXT NOT NULL,
	duration_ms      BIGINT NOT NULL,
	earlier          BOOLEAN NOT NULL,
	message          TEXT NOT NULL,
	digest           TEXT NOT NULL,
	bytes            BIGINT NOT NULL,
	PRIMARY KEY (operation_id, task, place, seq)
);
