-- Where an event stands among all. It is given once the event's transaction has
-- committed, by one writer at a time: who has seen a position never misses a
-- smaller one. Ids do not hold that, as they are taken before the commit. 0: not
-- given yet.
ALTER TABLE outbox ADD COLUMN position BIGINT NOT NULL DEFAULT 0;
ALTER TABLE outbox ADD COLUMN site TEXT NOT NULL DEFAULT ''; -- whose it is; '*': that of all
CREATE UNIQUE INDEX outbox_position ON outbox (position) WHERE position > 0;
CREATE INDEX outbox_waiting ON outbox (id) WHERE position = 0;
CREATE INDEX outbox_subject ON outbox (subject, position) WHERE position > 0;

-- The last position that was given, and the last that is no longer kept.
CREATE TABLE outbox_tip (
	one       BIGINT PRIMARY KEY,
	position  BIGINT NOT NULL,
	forgotten BIGINT NOT NULL
);
INSERT INTO outbox_tip (one, position, forgotten) VALUES (1, 0, 0);
