-- How far events were passed on to another system, and what is wrong with it.
CREATE TABLE outbox_relays (
	name          TEXT PRIMARY KEY, -- nats/STREAM
	position      BIGINT NOT NULL,  -- of the last event that the other system has
	code          TEXT NOT NULL,    -- of what is wrong; empty: nothing
	trouble       TEXT NOT NULL,    -- for people
	trouble_since BIGINT NOT NULL,
	lost          BIGINT NOT NULL,  -- positions that were deleted before they were passed on
	lost_at       BIGINT NOT NULL
);
