-- What a task collected beside its result, such as a node's diagnostics, by the digest
-- that the node has signed. It goes when the policy's time is over; the task stays.
CREATE TABLE task_archives (
	task_id TEXT PRIMARY KEY REFERENCES tasks (id),
	node_id TEXT NOT NULL REFERENCES nodes (id),
	digest  TEXT NOT NULL,
	bytes   BIGINT NOT NULL,
	at      BIGINT NOT NULL,
	data    BYTEA NOT NULL
);
CREATE INDEX task_archives_of_nodes ON task_archives (node_id, at);
CREATE INDEX task_archives_by_age ON task_archives (at);
