-- Which nodes the allocations of a project get.
ALTER TABLE projects ADD COLUMN placement_order TEXT NOT NULL DEFAULT ''; -- empty: the site's
ALTER TABLE projects ADD COLUMN node_labels TEXT NOT NULL DEFAULT '{}';   -- JSON: labels that each node must have
