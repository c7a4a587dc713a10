-- Refusals of callers without a good token or certificate, counted until the audit log
-- gets one row of their kind.
CREATE TABLE stranger_refusals (
	action   TEXT NOT NULL,   -- as in the audit log
	code     TEXT NOT NULL,
	source   TEXT NOT NULL,   -- a network; empty: all those beyond the most that are told apart
	refusals BIGINT NOT NULL,
	first_at BIGINT NOT NULL,
	last_at  BIGINT NOT NULL,
	PRIMARY KEY (action, code, source)
);
