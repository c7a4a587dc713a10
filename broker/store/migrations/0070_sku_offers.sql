-- What tenants may ask for of a SKU. Empty: whole nodes, in any count, at all sites.
ALTER TABLE skus ADD COLUMN offer TEXT NOT NULL DEFAULT '';
