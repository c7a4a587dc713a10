-- What a node said of a task after the broker had given up waiting for its end.
ALTER TABLE tasks ADD COLUMN late TEXT NOT NULL DEFAULT '';
CREATE INDEX tasks_unheard ON tasks (ended_at) WHERE code = 'outcome_unknown' AND late = '';
