-- Freezes of one site stack: each operator's stands with its own reason.
DROP INDEX chain_holds_standing;
CREATE UNIQUE INDEX chain_holds_unreachable ON chain_holds (site) WHERE until_at = 0 AND kind = 'unreachable';
CREATE UNIQUE INDEX chain_holds_freezes ON chain_holds (site, placed_by, reason) WHERE until_at = 0 AND kind = 'freeze';

-- What a client may ask for twice and gets once; see store.RequestKey.
CREATE TABLE request_keys (
	actor  TEXT NOT NULL,
	name   TEXT NOT NULL,
	digest TEXT NOT NULL,
	begins TEXT NOT NULL, -- id of a run or of a batch
	at     BIGINT NOT NULL,
	PRIMARY KEY (actor, name)
);
CREATE INDEX request_keys_at ON request_keys (at);
