-- For the quota of a project: what it holds now.
CREATE INDEX tenant_allocations_live ON tenant_allocations (project_id, sku) WHERE status NOT IN ('released', 'failed');
