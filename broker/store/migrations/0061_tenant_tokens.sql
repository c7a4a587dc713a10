-- Where the role of a token holds; both empty: on the platform. A broker of before 0061 refuses a
-- token with a role of tenants everywhere, but names frozen sites with its refusal: make such tokens
-- once no such broker runs.
ALTER TABLE operator_tokens ADD COLUMN organisation_id TEXT NOT NULL DEFAULT '';
ALTER TABLE operator_tokens ADD COLUMN project_id TEXT NOT NULL DEFAULT '';
