-- The fingerprints of the tenant's keys that the node's SSH server did not accept.
ALTER TABLE allocation_claims ADD COLUMN refused_keys TEXT NOT NULL DEFAULT '[]';
