-- Runs of chains. What a claim asks for are columns; how far a run has come
-- beyond its cursor is one JSON document (progress).
CREATE TABLE chain_runs (
	id             TEXT PRIMARY KEY,
	kind           TEXT NOT NULL,
	site           TEXT NOT NULL,
	batch          TEXT NOT NULL,
	subject        TEXT NOT NULL,
	correlation_id TEXT NOT NULL,
	status         TEXT NOT NULL,
	stage          TEXT NOT NULL, -- the cursor
	direction      TEXT NOT NULL,
	attempt        BIGINT NOT NULL,
	progress       TEXT NOT NULL,
	state          TEXT NOT NULL,
	entered_at     BIGINT NOT NULL DEFAULT 0,
	due_at         BIGINT NOT NULL,
	spread         BIGINT NOT NULL, -- 0 to 999: this run's place among those that go on after a hold
	version        BIGINT NOT NULL DEFAULT 0,
	lease_owner    TEXT NOT NULL DEFAULT '',
	lease_until    BIGINT NOT NULL DEFAULT 0,
	held           BOOLEAN NOT NULL DEFAULT FALSE, -- its own last step could not reach the site
	waiting        TEXT NOT NULL DEFAULT '',
	asked          TEXT NOT NULL DEFAULT '', -- beside the fence: what an operator asked for while a step was in flight
	asked_by       TEXT NOT NULL DEFAULT '',
	asked_reason   TEXT NOT NULL DEFAULT '',
	failure_class  TEXT NOT NULL DEFAULT '',
	error_code     TEXT NOT NULL DEFAULT '',
	error_message  TEXT NOT NULL DEFAULT '',
	error_details  TEXT NOT NULL DEFAULT '',
	next_action    TEXT NOT NULL DEFAULT '',
	requested_by   TEXT NOT NULL,
	requested_at   BIGINT NOT NULL,
	started_at     BIGINT NOT NULL DEFAULT 0,
	completed_at   BIGINT NOT NULL DEFAULT 0,
	updated_at     BIGINT NOT NULL
);
CREATE INDEX chain_runs_due ON chain_runs (due_at, id) WHERE (status IN ('running', 'compensating') OR status = 'pending' AND batch = '');
CREATE INDEX chain_runs_held ON chain_runs (site) WHERE held;
CREATE INDEX chain_runs_batch ON chain_runs (batch, status) WHERE batch <> '';
CREATE INDEX chain_runs_waiting ON chain_runs (batch) WHERE batch <> '' AND status = 'pending';
CREATE INDEX chain_runs_list ON chain_runs (site, status, id);

-- One start and one end for each attempt at a stage, however often a step is
-- repeated.
CREATE TABLE chain_events (
	id        {{identity}},
	run_id    TEXT NOT NULL REFERENCES chain_runs (id),
	at        BIGINT NOT NULL,
	stage     TEXT NOT NULL,
	direction TEXT NOT NULL,
	attempt   BIGINT NOT NULL,
	status    TEXT NOT NULL,
	message   TEXT NOT NULL,
	details   TEXT NOT NULL
);
CREATE INDEX chain_events_run ON chain_events (run_id, id);
CREATE UNIQUE INDEX chain_events_started ON chain_events (run_id, stage, direction, attempt) WHERE status = 'started';
CREATE UNIQUE INDEX chain_events_ended ON chain_events (run_id, stage, direction, attempt) WHERE status <> 'started';

-- What a live run alone may touch: node/<id>, hostname/<site>/<h>, ipmi/<site>/<ip>.
CREATE TABLE chain_locks (
	name     TEXT PRIMARY KEY,
	run_id   TEXT NOT NULL REFERENCES chain_runs (id),
	taken_at BIGINT NOT NULL
);
CREATE INDEX chain_locks_run ON chain_locks (run_id);

CREATE TABLE chain_batches (
	id           TEXT PRIMARY KEY,
	kind         TEXT NOT NULL,
	site         TEXT NOT NULL,
	parallel     BIGINT NOT NULL, -- runs at a time
	stop_after   BIGINT NOT NULL, -- failures in a row at one stage and class; 0: never
	last_stage   TEXT NOT NULL DEFAULT '',
	last_class   TEXT NOT NULL DEFAULT '',
	in_a_row     BIGINT NOT NULL DEFAULT 0,
	stopped_at   BIGINT NOT NULL DEFAULT 0,
	stop_reason  TEXT NOT NULL DEFAULT '',
	requested_by TEXT NOT NULL,
	requested_at BIGINT NOT NULL
);
CREATE INDEX chain_batches_stopped ON chain_batches (id) WHERE stopped_at > 0;

-- Sites where no stage begins: kind freeze or unreachable; site '' is all of
-- them. A hold that was lifted stays, since clocks of stages stood still in it.
CREATE TABLE chain_holds (
	id        {{identity}},
	site      TEXT NOT NULL,
	kind      TEXT NOT NULL,
	reason    TEXT NOT NULL,
	placed_by TEXT NOT NULL,
	since     BIGINT NOT NULL,
	until_at  BIGINT NOT NULL DEFAULT 0, -- 0: it stands
	probe_at  BIGINT NOT NULL DEFAULT 0  -- unreachable: when one run may try again
);
CREATE UNIQUE INDEX chain_holds_standing ON chain_holds (site, kind) WHERE until_at = 0;
CREATE INDEX chain_holds_site ON chain_holds (site, until_at);

-- What happened, for whoever follows it: written with what it tells of.
CREATE TABLE outbox (
	id             {{identity}},
	at             BIGINT NOT NULL,
	type           TEXT NOT NULL,
	source         TEXT NOT NULL,
	subject        TEXT NOT NULL,
	data           TEXT NOT NULL,
	correlation_id TEXT NOT NULL
);
