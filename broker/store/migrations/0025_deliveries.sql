-- The delivery of which a node itself has told last, so that it is told of once.
ALTER TABLE node_agents ADD COLUMN delivery_id TEXT NOT NULL DEFAULT '';
UPDATE node_agents SET delivery_id = correlation_id;
