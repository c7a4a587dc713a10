-- Whether a node may be handed out, in one word, as broker.Handout judged last. Lists, metrics and
-- events use it; whoever hands out a node asks Handout again.
CREATE TABLE node_availability (
	node_id TEXT PRIMARY KEY REFERENCES nodes (id),
	word    TEXT NOT NULL,
	codes   TEXT NOT NULL, -- of the reasons against handing out; the first decided the word
	since   BIGINT NOT NULL, -- the node has the word
	at      BIGINT NOT NULL  -- judged; a later complete sweep confirms it
);
CREATE INDEX node_availability_word ON node_availability (word, node_id);
CREATE TABLE availability_sweep (
	one BIGINT PRIMARY KEY, -- always 1
	at  BIGINT NOT NULL     -- of the last sweep that judged all nodes
);
INSERT INTO availability_sweep (one, at) VALUES (1, 0);
CREATE INDEX allocations_uncertified ON allocations (node_id) WHERE certified_by = '';
