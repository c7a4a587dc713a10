-- For the usage of a period: what has ended since the period began.
CREATE INDEX usage_ends_to ON usage_ends (to_at, allocation_id);
