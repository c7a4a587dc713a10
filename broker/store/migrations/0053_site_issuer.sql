-- Who issues the certificates of a site's machines: signed into each new certificate.
ALTER TABLE maas_sites ADD COLUMN issuer_organisation TEXT NOT NULL DEFAULT '';
ALTER TABLE maas_sites ADD COLUMN issuer_contact TEXT NOT NULL DEFAULT '';
ALTER TABLE maas_sites ADD COLUMN issuer_trust_url TEXT NOT NULL DEFAULT '';
