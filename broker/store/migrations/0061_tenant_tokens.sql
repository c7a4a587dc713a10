-- Where the role of a token holds; both empty: on the platform. A broker of before 0061 refuses a
-- token with a role of tenants everywhere.
ALTER TABLE operator_tokens ADD COLUMN organisation_id TEXT NOT NULL DEFAULT '';
ALTER TABLE operator_tokens ADD COLUMN project_id TEXT NOT NULL DEFAULT '';
