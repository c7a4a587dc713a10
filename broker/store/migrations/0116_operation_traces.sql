-- The W3C trace context of the request that began an operation; empty: an earlier release began it.
ALTER TABLE operations ADD COLUMN traceparent TEXT NOT NULL DEFAULT '';
