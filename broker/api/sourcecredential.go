package api

import "time"

// SourceCredentialPut is an account at a source of artifacts: a key of a bucket, or a token of a
// repository of files. The broker keeps the secret outside the database, and never shows it again.
type SourceCredentialPut struct {
	Source   string `json:"source" maxLength:"420" doc:"what the account serves: s3:BUCKET[/PREFIX], gcs:BUCKET[/PREFIX] or huggingface:OWNER[/REPOSITORY]"`
	Endpoint string `json:"endpoint,omitempty" maxLength:"300" doc:"https://HOST[:PORT]; gcs and huggingface have a default"`
	Region   string `json:"region,omitempty" maxLength:"63" doc:"of s3 and gcs: region of the signature"`
	KeyID    string `json:"key_id,omitempty" maxLength:"256" doc:"of s3 and gcs: id of the access key"`
	Secret   string `json:"secret" minLength:"1" maxLength:"4096" doc:"the access key's secret, or the token"`
	Reason   string `json:"reason,omitempty" maxLength:"500" doc:"recorded in the audit log"`
}

// SourceCredential says that an account exists, and never shows its secret.
type SourceCredential struct {
	Name       string    `json:"name"`
	Source     string    `json:"source" doc:"kind and prefix: s3:models/public"`
	Endpoint   string    `json:"endpoint"`
	Region     string    `json:"region"`
	KeyID      string    `json:"key_id"`
	VaultPath  string    `json:"vault_path"`
	Generation string    `json:"generation" doc:"changes each time the credential is set; the stored secret has the same"`
	SetBy      string    `json:"set_by"`
	Reason     string    `json:"reason"`
	SetAt      time.Time `json:"set_at"`
}

// SourceCredentialList lists every account, by name.
type SourceCredentialList struct {
	Standing
	Items []SourceCredential `json:"items"`
	Next  string             `json:"next" doc:"cursor of the next page; empty: there is no next page"`
}
