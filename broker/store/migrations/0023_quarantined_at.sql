-- When the reconciler last quarantined the node; 0: never. Whatever becomes of the drift,
-- of the node and of what people do to it, it counts as changed for as long.
ALTER TABLE node_maas_state ADD COLUMN quarantined_at BIGINT NOT NULL DEFAULT 0;
UPDATE node_maas_state SET quarantined_at = acted_at
WHERE drift_rule IN ('absent', 'released', 'redeployed', 'hardware_failed', 'mark_changed');
