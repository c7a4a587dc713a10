CREATE INDEX baselines_created ON baselines (created_at);
