-- Silence that is being told of: of a site, or of all of them (site ''). A row is there
-- from the event that says so until the event that says that it has passed.
CREATE TABLE silences (
	site  TEXT NOT NULL,
	code  TEXT NOT NULL, -- site_silent, polls_stopped
	text  TEXT NOT NULL,
	since BIGINT NOT NULL,
	PRIMARY KEY (site, code)
);
