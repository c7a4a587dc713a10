package api

import "time"

// ArtifactSignerPut says whose signatures of artifacts are believed: the owner of a key, or an identity.
type ArtifactSignerPut struct {
	Source         string `json:"source" maxLength:"512" doc:"oci:REGISTRY[/PATH], or a source of files: s3:, gcs:, huggingface: or https_signed:PREFIX; artifacts there need a signature from then on"`
	Key            string `json:"key,omitempty" maxLength:"4096" doc:"public key in PEM, P-256 or Ed25519; without it an identity signs"`
	Issuer         string `json:"issuer,omitempty" maxLength:"1024" doc:"of the identity: https://HOST of the OpenID Connect provider"`
	Subject        string `json:"subject,omitempty" maxLength:"1024" doc:"the whole identity: an e-mail address or a URI"`
	SubjectPattern string `json:"subject_pattern,omitempty" maxLength:"1024" doc:"regular expression of the whole identity, in place of subject"`
	TrustedRoot    string `json:"trusted_root,omitempty" maxLength:"65536" doc:"Sigstore's trusted_root.json; with a key: a log must have the signature"`
	Reason         string `json:"reason,omitempty" maxLength:"500" doc:"recorded in the audit log"`
}

// ArtifactSigner is a signer whose signatures of artifacts are believed.
type ArtifactSigner struct {
	Name           string    `json:"name"`
	Source         string    `json:"source"`
	Key            string    `json:"key" doc:"public key in PEM; empty: an identity signs"`
	Issuer         string    `json:"issuer"`
	Subject        string    `json:"subject"`
	SubjectPattern string    `json:"subject_pattern"`
	Logged         bool      `json:"logged" doc:"a signature must be in a transparency log of the trusted root"`
	Trust          string    `json:"trust" doc:"digest of source, key and identity; plans name it"`
	TrustedRoot    string    `json:"trusted_root" doc:"digest of the trusted root; plans name it; empty: there is none"`
	SetBy          string    `json:"set_by"`
	Reason         string    `json:"reason"`
	SetAt          time.Time `json:"set_at"`
}

// ArtifactSignerList lists every signer, by name.
type ArtifactSignerList struct {
	Standing
	Items []ArtifactSigner `json:"items"`
	Next  string           `json:"next" doc:"cursor of the next page; empty: there is no next page"`
}
