-- When a platform admin last said that a node may be used all the same; 0: never.
ALTER TABLE nodes ADD COLUMN override_at BIGINT NOT NULL DEFAULT 0;

-- Which runs have had a node, from the moment in which they took its lock: its
-- history is found without reading all runs.
CREATE TABLE node_runs (
	node_id TEXT NOT NULL,
	run_id  TEXT NOT NULL,
	since   BIGINT NOT NULL,
	PRIMARY KEY (node_id, run_id)
);
INSERT INTO node_runs (node_id, run_id, since) SELECT substr(name, 6), run_id, taken_at FROM chain_locks WHERE name >= 'node/' AND name < 'node0';
INSERT INTO node_runs (node_id, run_id, since) SELECT id, made_by_run, created_at FROM nodes WHERE made_by_run <> '' ON CONFLICT (node_id, run_id) DO NOTHING;
INSERT INTO node_runs (node_id, run_id, since) SELECT node_id, run_id, MIN(issued_at) FROM clean_certificates GROUP BY node_id, run_id ON CONFLICT (node_id, run_id) DO NOTHING;

-- When a node was out of use because it was owed a turnover, and how many GPUs that
-- was: from the transaction that owed it to the one that ended it.
CREATE TABLE turnover_outages (
	id       {{identity}},
	node_id  TEXT NOT NULL REFERENCES nodes (id),
	site     TEXT NOT NULL,
	gpus     BIGINT NOT NULL,
	began_at BIGINT NOT NULL,
	ended_at BIGINT NOT NULL DEFAULT 0 -- 0: it goes on
);
CREATE UNIQUE INDEX turnover_outages_open ON turnover_outages (node_id) WHERE ended_at = 0;
CREATE INDEX turnover_outages_ended ON turnover_outages (ended_at);
INSERT INTO turnover_outages (node_id, site, gpus, began_at)
	SELECT id, site, (SELECT COUNT(*) FROM node_devices d WHERE d.node_id = nodes.id AND kind = 'gpu' AND state IN ('expected', 'found', 'missing')), updated_at
	FROM nodes WHERE turnover_owed AND status NOT IN ('active', 'deleted');

-- Runs that have ended lately, found without reading those of before.
CREATE INDEX chain_runs_completed ON chain_runs (completed_at);

-- What persons say of parts that are gone, as it was signed. It is kept for ever.
CREATE TABLE attestations (
	id           TEXT PRIMARY KEY,
	node_id      TEXT NOT NULL REFERENCES nodes (id),
	site         TEXT NOT NULL,
	kind         TEXT NOT NULL, -- of the part
	device_id    TEXT NOT NULL, -- of the part
	statement    TEXT NOT NULL, -- what was signed
	digest       TEXT NOT NULL, -- of the file
	issued_at    BIGINT NOT NULL,
	certified_by TEXT NOT NULL DEFAULT '', -- the certificate with which the node was handed out after it
	file         BYTEA NOT NULL
);
CREATE INDEX attestations_node ON attestations (node_id, issued_at);
