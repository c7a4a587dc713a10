-- The tenant's version of a statement, signed; empty: the operation is no tenant's.
ALTER TABLE operation_statements ADD COLUMN receipt TEXT NOT NULL DEFAULT '';
