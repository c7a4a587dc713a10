-- What each node's newest certificate lacks by the policy of its site: judged again when the policy changes. A row of another
-- certificate, or by another policy, says nothing.
CREATE TABLE certificate_verdicts (
	node_id        TEXT PRIMARY KEY,
	certificate_id TEXT NOT NULL,
	policy         TEXT NOT NULL, -- digest of what the policy asks for
	lacks          TEXT NOT NULL, -- JSON list of codes; []: nothing
	since          BIGINT NOT NULL, -- since when it lacks anything; 0: it lacks nothing
	judged_at      BIGINT NOT NULL
);
