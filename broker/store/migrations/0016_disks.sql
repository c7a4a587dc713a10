-- What a disk was for and how it was reached when it was recorded: by that an erase
-- leaves it out, and not by what its node says later. Empty: not recorded.
ALTER TABLE node_devices ADD COLUMN role TEXT NOT NULL DEFAULT '';
ALTER TABLE node_devices ADD COLUMN transport TEXT NOT NULL DEFAULT '';
