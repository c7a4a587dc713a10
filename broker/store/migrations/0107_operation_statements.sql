-- What an attempt of an operation did, signed.
CREATE TABLE operation_statements (
	operation_id TEXT NOT NULL,
	attempt      BIGINT NOT NULL,
	file         TEXT NOT NULL, -- an envelope, as it was issued
	issued_at    BIGINT NOT NULL,
	PRIMARY KEY (operation_id, attempt)
);
