-- What a list of nodes shows of the machines, and by what a machine is found.
CREATE TABLE node_machines (
	node_id  TEXT PRIMARY KEY REFERENCES nodes (id),
	serial   TEXT NOT NULL DEFAULT '', -- of the chassis, as the node reported it
	bmc      TEXT NOT NULL DEFAULT '', -- the BMC's address, as the onboarding had it
	pxe_mac  TEXT NOT NULL DEFAULT '',
	facts_at BIGINT NOT NULL DEFAULT 0 -- of the report that the serial comes from
);
CREATE INDEX node_machines_serial ON node_machines (LOWER(serial));
CREATE INDEX node_machines_bmc ON node_machines (bmc);
CREATE INDEX node_machines_pxe_mac ON node_machines (pxe_mac);
CREATE INDEX node_facts_reported ON node_facts (node_id, reported_at);
CREATE INDEX nodes_by_any_hostname ON nodes (hostname);
CREATE INDEX nodes_by_any_maas_system ON nodes (maas_system_id);
CREATE INDEX node_maas_state_host ON node_maas_state (host);
CREATE INDEX node_devices_id ON node_devices (LOWER(id));
CREATE INDEX node_devices_serial ON node_devices (LOWER(serial));
CREATE INDEX allocations_by_id ON allocations (allocation_id);
