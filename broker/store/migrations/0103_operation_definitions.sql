-- Versions of operations' definitions. The content of a row changes only while the row is a draft.
CREATE TABLE operation_definitions (
	id         TEXT PRIMARY KEY, -- OPERATION@VERSION
	operation  TEXT NOT NULL,
	version    TEXT NOT NULL,
	summary    TEXT NOT NULL,
	status     TEXT NOT NULL,
	digest     TEXT NOT NULL,    -- of content
	content    TEXT NOT NULL,    -- canonical JSON
	shipped    BOOLEAN NOT NULL, -- it came with the broker
	created_at BIGINT NOT NULL,
	created_by TEXT NOT NULL,
	changed_at BIGINT NOT NULL,
	changed_by TEXT NOT NULL
);
