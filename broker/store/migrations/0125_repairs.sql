-- A repair of a machine, by part. A row outlives its node.
CREATE TABLE repairs (
	id             TEXT PRIMARY KEY,
	node_id        TEXT NOT NULL,   -- empty: a part that was in no node on record
	hostname       TEXT NOT NULL,
	site           TEXT NOT NULL,
	maintenance_id TEXT NOT NULL,   -- empty: none
	source         TEXT NOT NULL,   -- hand or device
	category       TEXT NOT NULL,
	action         TEXT NOT NULL,
	part           TEXT NOT NULL,   -- kind of the part
	old_model      TEXT NOT NULL,
	old_serial     TEXT NOT NULL,   -- empty: none, as for an added part
	new_model      TEXT NOT NULL,
	new_serial     TEXT NOT NULL,
	ticket         TEXT NOT NULL,
	note           TEXT NOT NULL,
	recorded_by    TEXT NOT NULL,
	recorded_at    BIGINT NOT NULL,
	opened_at      BIGINT NOT NULL,
	closed_at      BIGINT NOT NULL  -- 0: not ended
);
CREATE INDEX repairs_node ON repairs (node_id, opened_at);
CREATE INDEX repairs_old ON repairs (old_serial) WHERE old_serial <> '';
CREATE INDEX repairs_new ON repairs (new_serial) WHERE new_serial <> '';
CREATE INDEX repairs_opened ON repairs (opened_at);

-- A machine that took the place of another one.
CREATE TABLE host_replacements (
	old_node_id TEXT PRIMARY KEY REFERENCES nodes (id),
	new_node_id TEXT NOT NULL REFERENCES nodes (id),
	at          BIGINT NOT NULL,
	by_name     TEXT NOT NULL,
	ticket      TEXT NOT NULL,
	reason      TEXT NOT NULL
);
CREATE UNIQUE INDEX host_replacements_new ON host_replacements (new_node_id);
