-- Each broker writes this row now and then, to know that it can.
CREATE TABLE write_probe (
	one BIGINT PRIMARY KEY,
	at  BIGINT NOT NULL
);
INSERT INTO write_probe (one, at) VALUES (1, 0);
