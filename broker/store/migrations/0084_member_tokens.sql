-- The member whose token it is; empty: of the platform, or of a broker of before 0084, where the
-- token's name is the member's subject.
ALTER TABLE operator_tokens ADD COLUMN member_id TEXT NOT NULL DEFAULT '';
CREATE INDEX operator_tokens_member ON operator_tokens (member_id);
