-- One text for both engines. {{identity}} is the only thing that differs in
-- it: SQLite takes BYTEA, BIGINT and BOOLEAN for names of its own types.
-- Times are microseconds since 1970 in UTC; 0 is "never". JSON is TEXT.

CREATE TABLE nodes (
	id              TEXT PRIMARY KEY,
	hostname        TEXT NOT NULL,
	site            TEXT NOT NULL,
	sku             TEXT NOT NULL,
	status          TEXT NOT NULL,
	status_reason   TEXT NOT NULL DEFAULT '',
	turnover_owed   BOOLEAN NOT NULL DEFAULT FALSE,
	epoch           BIGINT NOT NULL DEFAULT 0,
	contacted_epoch BIGINT NOT NULL DEFAULT 0,
	bootstrap       TEXT NOT NULL,
	maas_system_id  TEXT NOT NULL DEFAULT '',
	labels          TEXT NOT NULL DEFAULT '{}',
	task_types      TEXT NOT NULL DEFAULT '[]',
	capabilities    TEXT NOT NULL DEFAULT '{}',
	agent_version   TEXT NOT NULL DEFAULT '',
	report_digest   TEXT NOT NULL DEFAULT '',
	trust_version   BIGINT NOT NULL DEFAULT 0,
	baseline_digest TEXT NOT NULL DEFAULT '',
	enrolled_at     BIGINT NOT NULL DEFAULT 0,
	last_contact_at BIGINT NOT NULL DEFAULT 0,
	cert_not_after  BIGINT NOT NULL DEFAULT 0,
	created_at      BIGINT NOT NULL,
	updated_at      BIGINT NOT NULL
);
CREATE UNIQUE INDEX nodes_hostname ON nodes (site, hostname) WHERE status <> 'deleted';

CREATE TABLE enroll_tokens (
	hash        TEXT PRIMARY KEY,
	node_id     TEXT NOT NULL REFERENCES nodes (id),
	created_at  BIGINT NOT NULL,
	expires_at  BIGINT NOT NULL,
	extended    BIGINT NOT NULL DEFAULT 0,
	key_digest  TEXT NOT NULL DEFAULT '', -- of the key that used it
	serial      TEXT NOT NULL DEFAULT '', -- of the certificate it was answered with
	used_at     BIGINT NOT NULL DEFAULT 0,
	consumed_at BIGINT NOT NULL DEFAULT 0, -- the node has been heard with that certificate
	void_at     BIGINT NOT NULL DEFAULT 0  -- a later token took its place
);
CREATE INDEX enroll_tokens_node ON enroll_tokens (node_id);

CREATE TABLE certificates (
	serial      TEXT PRIMARY KEY,
	node_id     TEXT NOT NULL REFERENCES nodes (id),
	epoch       BIGINT NOT NULL,
	public_key  BYTEA NOT NULL,
	key_digest  TEXT NOT NULL,
	pem         TEXT NOT NULL,
	not_before  BIGINT NOT NULL,
	not_after   BIGINT NOT NULL,
	issued_at   BIGINT NOT NULL,
	denied_at   BIGINT NOT NULL DEFAULT 0,
	deny_reason TEXT NOT NULL DEFAULT ''
);
CREATE INDEX certificates_node ON certificates (node_id, epoch);
CREATE INDEX certificates_denied ON certificates (serial) WHERE denied_at > 0;

-- What changes often is narrow; the envelope, which never changes, stands
-- apart, and what only the end writes stands last.
CREATE TABLE tasks (
	id               TEXT PRIMARY KEY,
	node_id          TEXT NOT NULL,
	node_epoch       BIGINT NOT NULL,
	type             TEXT NOT NULL,
	version          BIGINT NOT NULL,
	class            TEXT NOT NULL,
	lane             TEXT NOT NULL,
	params           TEXT NOT NULL,
	envelope_digest  TEXT NOT NULL,
	key_id           TEXT NOT NULL,
	nonce            TEXT NOT NULL,
	status           TEXT NOT NULL,
	attempt          BIGINT NOT NULL DEFAULT 0,
	retry_of         TEXT NOT NULL,
	idempotency_key  TEXT NOT NULL,
	correlation_id   TEXT NOT NULL,
	traceparent      TEXT NOT NULL,
	enqueued_by      TEXT NOT NULL,
	issued_at        BIGINT NOT NULL,
	not_after        BIGINT NOT NULL,
	dispatched_at    BIGINT NOT NULL DEFAULT 0,
	lease_until      BIGINT NOT NULL DEFAULT 0,
	alive_until      BIGINT NOT NULL DEFAULT 0, -- the lease that progress last renewed
	cancel_requested BOOLEAN NOT NULL DEFAULT FALSE,
	ended_at         BIGINT NOT NULL DEFAULT 0,
	outcome          TEXT NOT NULL DEFAULT '',
	code             TEXT NOT NULL DEFAULT '',
	message          TEXT NOT NULL DEFAULT '',
	verdict          TEXT NOT NULL DEFAULT '',
	progress         TEXT NOT NULL DEFAULT '',
	result           TEXT NOT NULL DEFAULT '',
	evidence         BYTEA NOT NULL DEFAULT ''
);
CREATE INDEX tasks_node ON tasks (node_id, id);
CREATE INDEX tasks_open ON tasks (node_id, id) WHERE status IN ('queued', 'dispatched');
CREATE UNIQUE INDEX tasks_idempotency ON tasks (node_id, idempotency_key) WHERE idempotency_key <> '';

CREATE TABLE task_envelopes (
	task_id  TEXT PRIMARY KEY,
	envelope BYTEA NOT NULL
);

CREATE TABLE mints (
	task_id         TEXT NOT NULL,
	attempt         BIGINT NOT NULL,
	credential_type TEXT NOT NULL,
	at              BIGINT NOT NULL,
	PRIMARY KEY (task_id, attempt, credential_type)
);

CREATE TABLE audit_logs (
	id             {{identity}},
	at             BIGINT NOT NULL,
	actor          TEXT NOT NULL,
	action         TEXT NOT NULL,
	subject        TEXT NOT NULL,
	reason         TEXT NOT NULL,
	before         TEXT NOT NULL,
	after          TEXT NOT NULL,
	correlation_id TEXT NOT NULL,
	code           TEXT NOT NULL,
	position       BIGINT NOT NULL DEFAULT 0, -- in the chain of seals, from 1
	seal           TEXT NOT NULL DEFAULT ''
);
CREATE INDEX audit_logs_subject ON audit_logs (subject, id);
CREATE INDEX audit_logs_unsealed ON audit_logs (id) WHERE position = 0;
CREATE UNIQUE INDEX audit_logs_position ON audit_logs (position) WHERE position > 0;

CREATE TABLE audit_tip (
	one      BIGINT PRIMARY KEY CHECK (one = 1),
	position BIGINT NOT NULL,
	seal     TEXT NOT NULL
);
INSERT INTO audit_tip (one, position, seal) VALUES (1, 0, '');

CREATE TABLE audit_heads (
	position BIGINT PRIMARY KEY,
	seal     TEXT NOT NULL,
	at       BIGINT NOT NULL,
	envelope BYTEA NOT NULL
);

CREATE TABLE operator_tokens (
	name       TEXT PRIMARY KEY,
	hash       TEXT NOT NULL UNIQUE,
	role       TEXT NOT NULL,
	sites      TEXT NOT NULL,
	created_at BIGINT NOT NULL,
	expires_at BIGINT NOT NULL,
	revoked_at BIGINT NOT NULL DEFAULT 0
);

CREATE TABLE trust_bundles (
	version    BIGINT PRIMARY KEY,
	envelope   BYTEA NOT NULL,
	created_at BIGINT NOT NULL
);

CREATE TABLE baselines (
	digest     TEXT PRIMARY KEY,
	baseline   TEXT NOT NULL,
	created_at BIGINT NOT NULL
);

CREATE TABLE packages (
	digest       TEXT PRIMARY KEY,
	upload       TEXT NOT NULL,
	name         TEXT NOT NULL,
	version      TEXT NOT NULL,
	size         BIGINT NOT NULL,
	published_by TEXT NOT NULL,
	published_at BIGINT NOT NULL
);

CREATE TABLE package_blocks (
	upload TEXT NOT NULL,
	n      BIGINT NOT NULL,
	at     BIGINT NOT NULL,
	data   BYTEA NOT NULL,
	PRIMARY KEY (upload, n)
);

CREATE TABLE clean_policies (
	site       TEXT PRIMARY KEY,
	policy     TEXT NOT NULL,
	updated_at BIGINT NOT NULL
);
