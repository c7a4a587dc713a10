-- By what placements may order the free nodes of a site: when the newest clean certificate was issued, and
-- how many allocations a node has had.
ALTER TABLE nodes ADD COLUMN certified_at BIGINT NOT NULL DEFAULT 0;
ALTER TABLE nodes ADD COLUMN claims BIGINT NOT NULL DEFAULT 0;
UPDATE nodes SET certified_at = (SELECT MAX(issued_at) FROM clean_certificates WHERE node_id = nodes.id)
	WHERE id IN (SELECT node_id FROM clean_certificates);
UPDATE nodes SET claims = (SELECT COUNT(*) FROM allocation_claims WHERE node_id = nodes.id)
	WHERE id IN (SELECT node_id FROM allocation_claims);
CREATE INDEX nodes_certified ON nodes (sku, site, (-certified_at), id);
CREATE INDEX nodes_claims ON nodes (sku, site, claims, id);
