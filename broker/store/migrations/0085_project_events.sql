-- The project that may read an event. It is given with the event's position; empty: only the platform.
ALTER TABLE outbox ADD COLUMN project_id TEXT NOT NULL DEFAULT '';
CREATE INDEX outbox_project ON outbox (project_id, position) WHERE project_id <> '';
