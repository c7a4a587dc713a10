-- When a failed release goes on by itself without the operation of its end (0: it waits for a person), and when it did.
ALTER TABLE tenant_allocations ADD COLUMN goes_on_at BIGINT NOT NULL DEFAULT 0;
ALTER TABLE tenant_allocations ADD COLUMN passed_at BIGINT NOT NULL DEFAULT 0;
