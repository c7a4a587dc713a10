-- What an operator takes a disk with although less was done to it than was asked, in one
-- turnover: the disk, and what was asked and done, as the certificate says that they saw.
CREATE TABLE accepted_downgrades (
	run_id         TEXT NOT NULL,
	device         TEXT NOT NULL,
	asked          TEXT NOT NULL,
	did            TEXT NOT NULL,
	node_id        TEXT NOT NULL REFERENCES nodes (id),
	certificate_id TEXT NOT NULL, -- that they saw
	accepted_by    TEXT NOT NULL,
	reason         TEXT NOT NULL,
	accepted_at    BIGINT NOT NULL,
	PRIMARY KEY (run_id, device, asked, did)
);
