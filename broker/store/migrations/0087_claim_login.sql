-- Where the node's SSH server was asked for the tenant's keys, and the key that the server has.
ALTER TABLE allocation_claims ADD COLUMN login_address TEXT NOT NULL DEFAULT '';
ALTER TABLE allocation_claims ADD COLUMN host_key TEXT NOT NULL DEFAULT '';
