-- MAAS sites, their profiles, exceptions and addresses, and what machines are
-- made of. A *_vault_path is where a secret is kept, never a secret.
CREATE TABLE maas_sites (
	id                             TEXT PRIMARY KEY,
	name                           TEXT NOT NULL UNIQUE, -- what nodes.site holds
	region_code                    TEXT NOT NULL,
	status                         TEXT NOT NULL,
	api_base_url                   TEXT NOT NULL,
	ca_cert                        TEXT NOT NULL,
	pxe_iface                      TEXT NOT NULL,
	pxe_vlan_vid                   BIGINT NOT NULL,
	node_pxe_iface                 TEXT NOT NULL,
	distro_series                  TEXT NOT NULL,
	architecture                   TEXT NOT NULL,
	upstream_dns_servers           TEXT NOT NULL,
	deploy_user                    TEXT NOT NULL,
	deploy_ssh_iface               TEXT NOT NULL,
	deploy_ssh_public_key          TEXT NOT NULL DEFAULT '',
	commissioning_scripts          TEXT NOT NULL,
	default_profile_id             TEXT NOT NULL,
	api_token_vault_path           TEXT NOT NULL,
	default_power_creds_vault_path TEXT NOT NULL,
	deploy_password_vault_path     TEXT NOT NULL,
	deploy_ssh_key_vault_path      TEXT NOT NULL,
	api_token_set_at               BIGINT NOT NULL DEFAULT 0,
	default_power_creds_set_at     BIGINT NOT NULL DEFAULT 0,
	deploy_password_set_at         BIGINT NOT NULL DEFAULT 0,
	created_at                     BIGINT NOT NULL,
	updated_at                     BIGINT NOT NULL
);

CREATE TABLE maas_site_profiles (
	id          TEXT PRIMARY KEY,
	site_id     TEXT NOT NULL REFERENCES maas_sites (id),
	name        TEXT NOT NULL,
	description TEXT NOT NULL,
	status      TEXT NOT NULL,
	policy      TEXT NOT NULL,
	created_at  BIGINT NOT NULL,
	updated_at  BIGINT NOT NULL,
	UNIQUE (site_id, name)
);

CREATE TABLE maas_power_credential_overrides (
	id             TEXT PRIMARY KEY,
	site_id        TEXT NOT NULL REFERENCES maas_sites (id),
	selector_type  TEXT NOT NULL,
	selector_value TEXT NOT NULL,
	vault_path     TEXT NOT NULL,
	status         TEXT NOT NULL,
	last_used_at   BIGINT NOT NULL DEFAULT 0,
	created_at     BIGINT NOT NULL,
	updated_at     BIGINT NOT NULL,
	UNIQUE (site_id, selector_type, selector_value)
);

CREATE TABLE maas_roce_assignments (
	id         TEXT PRIMARY KEY,
	site_id    TEXT NOT NULL REFERENCES maas_sites (id),
	hostname   TEXT NOT NULL,
	interface  TEXT NOT NULL,
	ipv4_cidr  TEXT NOT NULL,
	address    TEXT NOT NULL, -- of ipv4_cidr
	created_at BIGINT NOT NULL,
	updated_at BIGINT NOT NULL,
	UNIQUE (site_id, hostname, interface)
);
CREATE INDEX maas_roce_address ON maas_roce_assignments (site_id, address);

CREATE TABLE skus (
	id         TEXT PRIMARY KEY,
	sku        TEXT NOT NULL,
	created_at BIGINT NOT NULL,
	updated_at BIGINT NOT NULL
);
