-- The id that a node gave its request for a secret. Where the answer was lost, the same
-- request is answered again, if the secret may be.
ALTER TABLE mints ADD COLUMN request_id TEXT NOT NULL DEFAULT '';
