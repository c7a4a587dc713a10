-- Operations that run by themselves when an allocation begins or ends.
ALTER TABLE skus ADD COLUMN bindings TEXT NOT NULL DEFAULT '{}';     -- JSON: on_begin, on_end
ALTER TABLE projects ADD COLUMN bindings TEXT NOT NULL DEFAULT '{}'; -- JSON, where the SKU names none
