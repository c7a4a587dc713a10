-- The next run of a batch is the first of this index whose batch has a place, however many wait.
CREATE INDEX chain_runs_next ON chain_runs (due_at, id) WHERE batch <> '' AND status = 'pending';
