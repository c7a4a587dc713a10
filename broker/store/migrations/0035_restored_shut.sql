-- Since when nothing from before the restore renews for a node, unless an operator accepts
-- it: the node was denied, retired or given back afterwards; 0: it may.
ALTER TABLE restored_nodes ADD COLUMN shut_at BIGINT NOT NULL DEFAULT 0;
