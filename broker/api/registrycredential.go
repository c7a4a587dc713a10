package api

import "time"

// RegistryCredentialPut is an account at an OCI registry that may pull the artifacts that nodes are
// given from there. The broker tries the account first, keeps it outside the database, and never
// shows it again.
type RegistryCredentialPut struct {
	Username  string `json:"username" minLength:"1" maxLength:"256"`
	Password  string `json:"password" minLength:"1" maxLength:"8192"`
	PlainHTTP bool   `json:"plain_http,omitzero" doc:"the registry is reached over HTTP without TLS: the password travels unencrypted"`
	Reason    string `json:"reason,omitempty" maxLength:"500" doc:"recorded in the audit log"`
}

// RegistryCredential says that an account exists, and never shows its password.
type RegistryCredential struct {
	Registry   string    `json:"registry" doc:"HOST[:PORT]"`
	Username   string    `json:"username"`
	PlainHTTP  bool      `json:"plain_http,omitzero"`
	VaultPath  string    `json:"vault_path"`
	Generation string    `json:"generation" doc:"changes each time the credential is set; the stored secret has the same"`
	SetBy      string    `json:"set_by"`
	Reason     string    `json:"reason"`
	SetAt      time.Time `json:"set_at"`
}

// RegistryCredentialList lists every account, by registry.
type RegistryCredentialList struct {
	Standing
	Items []RegistryCredential `json:"items"`
	Next  string               `json:"next" doc:"cursor of the next page; empty: there is no next page"`
}
