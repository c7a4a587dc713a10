-- How often a node could not be provisioned, one time after another. The row goes when the node is provisioned, or when a person
-- lets the node in again.
CREATE TABLE provision_failures (
	node_id       TEXT PRIMARY KEY,
	failures      BIGINT NOT NULL,
	code          TEXT NOT NULL, -- of the last one
	message       TEXT NOT NULL,
	allocation_id TEXT NOT NULL, -- of the last one
	at            BIGINT NOT NULL, -- of the last one
	held_at       BIGINT NOT NULL -- since when the node is handed to nobody; 0: it may be handed out
);
