-- Whether a platform admin forced the present release, which then goes on without the operation of its end.
ALTER TABLE tenant_allocations ADD COLUMN release_forced BOOLEAN NOT NULL DEFAULT FALSE;
