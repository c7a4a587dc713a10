-- Maintenance of a node, planned, open or over. It stands beside the node's status.
CREATE TABLE maintenances (
	id          TEXT PRIMARY KEY,
	node_id     TEXT NOT NULL REFERENCES nodes (id),
	site        TEXT NOT NULL,    -- of the node when the maintenance was made
	status      TEXT NOT NULL,
	category    TEXT NOT NULL,
	tenant      TEXT NOT NULL,    -- stays or leaves
	planned     BOOLEAN NOT NULL, -- begins and ends by itself
	ticket      TEXT NOT NULL,
	reason      TEXT NOT NULL,
	created_by  TEXT NOT NULL,
	created_at  BIGINT NOT NULL,
	from_at     BIGINT NOT NULL,
	until_at    BIGINT NOT NULL,  -- expected end; 0: not known
	opened_at   BIGINT NOT NULL,  -- 0: not begun
	closing_at  BIGINT NOT NULL,  -- the last time that its checks were made; 0: never
	closing_by  TEXT NOT NULL,
	closed_at   BIGINT NOT NULL,  -- closed, cancelled or missed; 0: not
	closed_by   TEXT NOT NULL,
	reminded_at BIGINT NOT NULL,  -- when the tenant was told that it is about to begin; 0: not
	overdue_at  BIGINT NOT NULL,  -- when it was told that the expected end has passed; 0: not
	because     TEXT NOT NULL,    -- what keeps it from beginning or from being closed
	checks      TEXT NOT NULL     -- JSON: the last checks, and their findings
);
-- A node is in one maintenance at a time.
CREATE UNIQUE INDEX maintenances_open ON maintenances (node_id) WHERE status = 'open';
CREATE INDEX maintenances_live ON maintenances (status, from_at) WHERE status IN ('planned', 'open');
CREATE INDEX maintenances_node ON maintenances (node_id, id);

CREATE TABLE maintenance_notes (
	maintenance_id TEXT NOT NULL REFERENCES maintenances (id),
	number         BIGINT NOT NULL, -- from 1
	at             BIGINT NOT NULL,
	author         TEXT NOT NULL,
	text           TEXT NOT NULL,
	PRIMARY KEY (maintenance_id, number)
);
