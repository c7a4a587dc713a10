-- By which organisations and projects are found that have ended, too.
CREATE INDEX organisations_by_any_name ON organisations (name);
CREATE INDEX projects_by_any_name ON projects (name);
