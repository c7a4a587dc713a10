-- A database that was restored from a backup, and what was found of what it does not
-- know (package restored). Where there never was a restore these are empty.
CREATE TABLE restores (
	id          {{identity}},
	restored_at BIGINT NOT NULL,
	taken_at    BIGINT NOT NULL, -- when the backup was; 0: not known
	source      TEXT NOT NULL,
	trust_floor BIGINT NOT NULL, -- the least version of the next trust bundle
	events_upto BIGINT NOT NULL, -- the newest position of an event in the backup
	events_from BIGINT NOT NULL, -- positions go on after this one; readers may have seen others in between
	released_at BIGINT NOT NULL DEFAULT 0,
	released_by TEXT NOT NULL DEFAULT '',
	reason      TEXT NOT NULL DEFAULT '' -- of the release
);

-- The nodes of the backup, and others that have asked to renew since.
CREATE TABLE restored_nodes (
	node_id     TEXT PRIMARY KEY,
	known       BOOLEAN NOT NULL,
	epoch       BIGINT NOT NULL,            -- in the backup
	asked_epoch BIGINT NOT NULL DEFAULT 0,  -- the newest identity that has asked to renew
	asked_since BIGINT NOT NULL DEFAULT 0,  -- from when its certificate is
	asked_key   TEXT NOT NULL DEFAULT '',
	asked_at    BIGINT NOT NULL DEFAULT 0,
	asked_from  TEXT NOT NULL DEFAULT '',   -- address
	machine     TEXT NOT NULL DEFAULT '',   -- MAAS's word: same, newer or other; empty: none yet
	machine_at  BIGINT NOT NULL DEFAULT 0,
	machine_is  TEXT NOT NULL DEFAULT '',   -- in words
	accepted_by TEXT NOT NULL DEFAULT '',
	accepted_key TEXT NOT NULL DEFAULT '',
	let_in_at   BIGINT NOT NULL DEFAULT 0,
	let_in_key  TEXT NOT NULL DEFAULT '',
	enrolled_at BIGINT NOT NULL DEFAULT 0,  -- anew, since the restore
	compared_at BIGINT NOT NULL DEFAULT 0   -- its ledger, with the tasks on record
);

CREATE TABLE restored_differences (
	subject  TEXT NOT NULL,
	code     TEXT NOT NULL,
	text     TEXT NOT NULL,
	found_at BIGINT NOT NULL,
	PRIMARY KEY (subject, code)
);

-- On record before the last restore: such a certificate may have been denied since the
-- backup, and is good for asking to renew and for nothing else.
ALTER TABLE certificates ADD COLUMN restored BOOLEAN NOT NULL DEFAULT FALSE;
