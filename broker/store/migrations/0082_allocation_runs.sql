-- For the watch that begins runs: allocations whose status asks for one, and allocations that end by
-- themselves.
CREATE INDEX tenant_allocations_moving ON tenant_allocations (requested_at, id) WHERE status IN ('requested', 'provisioning', 'releasing');
CREATE INDEX tenant_allocations_ending ON tenant_allocations (ends_at) WHERE status = 'active' AND ends_at > 0;
