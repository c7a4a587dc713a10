-- Which run made a node, so that a run finds again what it made.
ALTER TABLE nodes ADD COLUMN made_by_run TEXT NOT NULL DEFAULT '';
CREATE UNIQUE INDEX nodes_made_by_run ON nodes (made_by_run) WHERE made_by_run <> '' AND status <> 'deleted';
CREATE INDEX nodes_maas_system ON nodes (site, maas_system_id) WHERE maas_system_id <> '' AND status <> 'deleted';
