-- Where a node stands within its site. Empty, or unit 0: not known.
ALTER TABLE nodes ADD COLUMN place_zone TEXT NOT NULL DEFAULT '';
ALTER TABLE nodes ADD COLUMN place_room TEXT NOT NULL DEFAULT '';
ALTER TABLE nodes ADD COLUMN place_row TEXT NOT NULL DEFAULT '';
ALTER TABLE nodes ADD COLUMN place_rack TEXT NOT NULL DEFAULT '';
ALTER TABLE nodes ADD COLUMN place_unit BIGINT NOT NULL DEFAULT 0;
ALTER TABLE nodes ADD COLUMN place_domain TEXT NOT NULL DEFAULT '';
