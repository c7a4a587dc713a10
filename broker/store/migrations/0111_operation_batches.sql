-- How an operation goes from node to node, and the present batch of its present attempt, from 1.
ALTER TABLE operations ADD COLUMN canary BIGINT NOT NULL DEFAULT 0;
ALTER TABLE operations ADD COLUMN batch_size BIGINT NOT NULL DEFAULT 0;   -- 0: all others at once
ALTER TABLE operations ADD COLUMN max_failures BIGINT NOT NULL DEFAULT 0; -- 0: the first failure stops it
ALTER TABLE operations ADD COLUMN batch BIGINT NOT NULL DEFAULT 1;
