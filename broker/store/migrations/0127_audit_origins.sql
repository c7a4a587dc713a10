-- Where the request of an operator came from, and the site of what it was about. Empty: no request, or an earlier release.
-- A row with an origin waits for its seal at position -1: a broker of an earlier release does not seal what it cannot read.
ALTER TABLE audit_logs ADD COLUMN source TEXT NOT NULL DEFAULT '';
ALTER TABLE audit_logs ADD COLUMN user_agent TEXT NOT NULL DEFAULT '';
ALTER TABLE audit_logs ADD COLUMN site TEXT NOT NULL DEFAULT '';
CREATE INDEX audit_logs_waiting ON audit_logs (id) WHERE position <= 0;
