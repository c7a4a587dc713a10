-- Whose signatures of artifacts are believed, by place in a registry.
CREATE TABLE artifact_signers (
	name            TEXT PRIMARY KEY,
	source          TEXT NOT NULL, -- oci:registry.example/models
	public_key      TEXT NOT NULL, -- PEM; '': an identity
	issuer          TEXT NOT NULL,
	subject         TEXT NOT NULL,
	subject_pattern TEXT NOT NULL,
	trusted_root    TEXT NOT NULL, -- Sigstore's JSON; '': none
	trust           TEXT NOT NULL, -- digest of source, key and identity
	root            TEXT NOT NULL, -- digest of trusted_root; '': none
	set_by          TEXT NOT NULL,
	reason          TEXT NOT NULL,
	set_at          BIGINT NOT NULL
);
