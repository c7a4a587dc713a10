-- Receipts that tenants have fetched: each stays the file that was signed first.
CREATE TABLE receipts (
	certificate_id TEXT NOT NULL REFERENCES clean_certificates (id),
	allocation_id  TEXT NOT NULL,
	digest         TEXT NOT NULL, -- of the file
	issued_at      BIGINT NOT NULL,
	file           BYTEA NOT NULL,
	PRIMARY KEY (certificate_id, allocation_id)
);
