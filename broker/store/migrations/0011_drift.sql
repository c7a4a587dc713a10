-- What the reconciler knows of a node's machine in MAAS, and how the two differ.
CREATE TABLE node_maas_state (
	node_id               TEXT PRIMARY KEY REFERENCES nodes (id),
	site_id               TEXT NOT NULL,
	maas_system_id        TEXT NOT NULL,
	last_maas_status      TEXT NOT NULL,
	last_maas_power_state TEXT NOT NULL,
	last_maas_ips         TEXT NOT NULL,
	host                  TEXT NOT NULL, -- the node's address
	marked                BOOLEAN NOT NULL, -- the machine was seen with the node's mark
	last_reconciled_at    BIGINT NOT NULL, -- when this row last changed
	drift_detected        BOOLEAN NOT NULL DEFAULT FALSE,
	drift_rule            TEXT NOT NULL DEFAULT '', -- of the last drift, open or not
	drift_severity        TEXT NOT NULL DEFAULT '',
	drift_details         TEXT NOT NULL DEFAULT '',
	drift_first_seen      BIGINT NOT NULL DEFAULT 0,
	acted_at              BIGINT NOT NULL DEFAULT 0, -- the last time; 0: never
	acts                  BIGINT NOT NULL DEFAULT 0, -- how often
	work                  TEXT NOT NULL DEFAULT '', -- the task or run that was started
	drift_resolved_at     BIGINT NOT NULL DEFAULT 0,
	resolved_by           TEXT NOT NULL DEFAULT '',
	resolution            TEXT NOT NULL DEFAULT ''
);
CREATE INDEX node_maas_state_drift ON node_maas_state (node_id) WHERE drift_detected;

-- What a site wants done about drift: the mode of each rule, and how much at once.
CREATE TABLE reconcile_policies (
	site       TEXT PRIMARY KEY, -- its name
	policy     TEXT NOT NULL,
	updated_at BIGINT NOT NULL
);

-- The last look at each site.
CREATE TABLE reconcile_looks (
	site         TEXT PRIMARY KEY, -- its name
	requested_at BIGINT NOT NULL DEFAULT 0, -- when an operator last asked for one
	looked_at    BIGINT NOT NULL DEFAULT 0,
	complete_at  BIGINT NOT NULL DEFAULT 0, -- when all of it was last read
	look         TEXT NOT NULL DEFAULT ''
);
