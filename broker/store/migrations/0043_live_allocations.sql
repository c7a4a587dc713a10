CREATE INDEX allocations_live ON allocations (node_id) WHERE certified_by = '' AND ended_at = 0;
