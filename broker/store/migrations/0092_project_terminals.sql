-- Terminals that members open for their projects. Operators' sessions have no project.
ALTER TABLE terminal_sessions ADD COLUMN project_id TEXT NOT NULL DEFAULT '';

CREATE INDEX terminal_sessions_project ON terminal_sessions (project_id, created_at, id) WHERE project_id <> '';
CREATE INDEX terminal_sessions_project_live ON terminal_sessions (project_id) WHERE status <> 'closed' AND project_id <> '';
