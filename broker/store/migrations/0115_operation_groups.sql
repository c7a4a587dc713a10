-- The allocations of a group, with what became of their nodes in the present attempt: a JSON list.
ALTER TABLE operations ADD COLUMN members TEXT NOT NULL DEFAULT '[]';
-- How many allocations the widest batch works on at once.
ALTER TABLE operations ADD COLUMN width BIGINT NOT NULL DEFAULT 1;
-- When the present batch began; 0: the attempt did not.
ALTER TABLE operations ADD COLUMN batch_at BIGINT NOT NULL DEFAULT 0;
