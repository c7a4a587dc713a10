-- What has ended stays for more than a year: what is asked about what has not must not read
-- that. An index of a table is a migration by itself here, so that none waits for one table
-- with another locked, in which a broker that serves meanwhile may be writing.
CREATE INDEX chain_runs_open ON chain_runs (id) WHERE status IN ('pending', 'running', 'compensating', 'failed_retryable', 'failed_manual_intervention');
