-- The delivery of which a node itself has told last, so that it is told of once.
ALTER TABLE node_agents ADD COLUMN delivery_id TEXT NOT NULL DEFAULT '';
UPDATE node_agents SET delivery_id = correlation_id;

-- What a node says of versions that it keeps, or skips: where a rollback leads, and JSON.
ALTER TABLE node_agents ADD COLUMN previous_version TEXT NOT NULL DEFAULT '';
ALTER TABLE node_agents ADD COLUMN pins TEXT NOT NULL DEFAULT '';
