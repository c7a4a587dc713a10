package clientfile

import (
	"encoding/json"
	"time"

	"github.com/hostler/hostler/broker"
)

// SignIn is a person's sign-in by OpenID Connect, in a file of its own beside client.yaml: the ID
// token, and whatever renews it. No part of it is ever printed.
type SignIn struct {
	ClientID      string   `json:"client_id"`
	Scopes        []string `json:"scopes"`
	TokenEndpoint string   `json:"token_endpoint"`
	CA            string   `json:"ca"` // PEM of the provider's roots; empty: the machine's own
	IDToken       string   `json:"id_token"`
	RefreshToken  string   `json:"refresh_token"` // empty: the sign-in ends with the ID token
	// RenewingSince is when a program asked for a renewal whose outcome is not in the file. The provider may
	// have replaced the refresh token then. Zero: the outcome of each renewal is in the file.
	RenewingSince time.Time `json:"renewing_since,omitzero"`
}

// ReadSignIn reads a sign-in. A file that other users may read is refused. Codes:
// token_file_unreadable, token_file_open, sign_in_malformed.
func ReadSignIn(path string) (*SignIn, error) {
	raw, err := ReadSecret(path, nil)
	if err != nil {
		return nil, err
	}
	var s SignIn
	if json.Unmarshal(raw, &s) != nil || s.IDToken == "" || s.TokenEndpoint == "" {
		return nil, broker.Errorf(broker.Invalid, "sign_in_malformed", "cannot use the sign-in in %s: it is damaged (sign in again: hostler login --oidc)",
			path)
	}
	return &s, nil
}

// Write writes the sign-in to path with mode 0600, completely or not at all.
func (s *SignIn) Write(path string) error {
	raw, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return WritePrivate(path, append(raw, '\n'))
}
