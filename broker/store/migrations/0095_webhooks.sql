-- Endpoints to which the events of a project are sent, and how far each has come. The signing secrets are
-- where all secrets are.
CREATE TABLE webhooks (
	id            TEXT PRIMARY KEY,
	project_id    TEXT NOT NULL REFERENCES projects (id),
	url           TEXT NOT NULL,
	created_by    TEXT NOT NULL,
	created_at    BIGINT NOT NULL,
	secret_at     BIGINT NOT NULL,
	position      BIGINT NOT NULL,           -- of the last event that the endpoint has
	delivered_at  BIGINT NOT NULL DEFAULT 0,
	attempts      BIGINT NOT NULL DEFAULT 0, -- failed tries of the next event
	failing_since BIGINT NOT NULL DEFAULT 0,
	next_try_at   BIGINT NOT NULL DEFAULT 0,
	code          TEXT NOT NULL DEFAULT '',  -- of the last failure; empty: none
	trouble       TEXT NOT NULL DEFAULT '',  -- for people
	disabled_at   BIGINT NOT NULL DEFAULT 0,
	missed_at     BIGINT NOT NULL DEFAULT 0  -- when events were found deleted that were not sent
);
CREATE INDEX webhooks_project ON webhooks (project_id, id);
