CREATE INDEX nodes_by_hostname ON nodes (hostname) WHERE status <> 'deleted';
