-- What has ended stays for more than a year: what is asked about what has not must not read that.
CREATE INDEX chain_runs_open ON chain_runs (id) WHERE status IN ('pending', 'running', 'compensating', 'failed_retryable', 'failed_manual_intervention');
CREATE INDEX turnover_outages_node ON turnover_outages (node_id, began_at);
CREATE INDEX nodes_by_hostname ON nodes (hostname) WHERE status <> 'deleted';
