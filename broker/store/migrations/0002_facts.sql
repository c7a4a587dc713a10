-- What each node is made of, as it reported it last.
CREATE TABLE node_facts (
	node_id     TEXT PRIMARY KEY REFERENCES nodes (id),
	facts       TEXT NOT NULL,
	reported_at BIGINT NOT NULL
);
