-- What is old is looked for by when it ended, and kept where something that stays is of it.
CREATE INDEX tasks_ended ON tasks (ended_at, id) WHERE ended_at > 0;
CREATE INDEX tasks_last ON tasks (node_id, type, id) WHERE attempt > 0;
CREATE INDEX tasks_correlation ON tasks (correlation_id) WHERE correlation_id <> '';
CREATE INDEX tasks_retries ON tasks (retry_of) WHERE retry_of <> '';
CREATE INDEX node_runs_run ON node_runs (run_id);
CREATE INDEX chain_runs_correlation ON chain_runs (correlation_id) WHERE correlation_id <> '';
