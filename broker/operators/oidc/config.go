package oidc

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"net/url"
	"slices"
	"strings"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/internal/regular"
	"github.com/hostler/hostler/taskcatalog"
)

// Config names the provider and the broker's client there.
type Config struct {
	Issuer   string   `yaml:"issuer"`    // https://HOST[:PORT][/PATH], exactly as in the provider's tokens
	ClientID string   `yaml:"client_id"` // the audience of the tokens
	Scopes   []string `yaml:"scopes"`    // that the CLI asks for, besides openid; empty: email and offline_access
	CAFile   string   `yaml:"ca_file"`   // PEM; empty: the machine's own roots
}

const (
	maxCA     = 32 << 10 // a program keeps it beside two tokens, in a file of at most 64 KiB
	maxScopes = 16
	maxText   = 512
)

// check returns the PEM of the provider's roots; empty: the machine's own. Code: oidc_config_invalid.
func (c Config) check() (ca []byte, err error) {
	u, err := url.Parse(c.Issuer)
	switch {
	case err != nil, u.Scheme != "https", u.Host == "", u.User != nil, u.RawQuery != "", u.Fragment != "", len(c.Issuer) > maxText:
		return nil, Misconfigured("issuer must be https://HOST[:PORT][/PATH], as the provider writes its own name")
	case c.ClientID == "", len(c.ClientID) > maxText, taskcatalog.Clean(c.ClientID, maxText) != c.ClientID:
		return nil, Misconfigured("client_id must be the broker's client at the provider")
	case len(c.Scopes) > maxScopes:
		return nil, Misconfigured("there are %d scopes, at most %d", len(c.Scopes), maxScopes)
	}
	for _, s := range c.Scopes {
		if s == "" || len(s) > maxText || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' }) {
			return nil, Misconfigured("scope %q is not a scope", taskcatalog.Clean(s, 64))
		}
	}
	if c.CAFile == "" {
		return nil, nil
	}
	if ca, err = regular.Read(c.CAFile, maxCA); err != nil {
		return nil, Misconfigured("ca_file: %v", err)
	}
	return onlyCertificates(c.CAFile, ca)
}

// onlyCertificates returns the certificates of a PEM, encoded again: anybody may read the roots, so
// that nothing else of the file may be among them. Code: oidc_config_invalid.
func onlyCertificates(file string, raw []byte) (ca []byte, err error) {
	for {
		block, rest := pem.Decode(raw)
		if block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			return nil, Misconfigured("ca_file: there is a %s in %s, which anybody may read (leave only certificates in it)",
				taskcatalog.Clean(block.Type, 64), file)
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return nil, Misconfigured("ca_file: there is a damaged certificate in %s: %v", file, err)
		}
		ca, raw = append(ca, pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: block.Bytes})...), rest
	}
	if len(ca) == 0 {
		return nil, Misconfigured("ca_file: there is no certificate in %s", file)
	}
	if len(bytes.TrimSpace(raw)) > 0 {
		return nil, Misconfigured("ca_file: there is something after the last certificate in %s (leave only certificates in it)", file)
	}
	return ca, nil
}

// scopes are the scopes to ask for, with openid first.
func (c Config) scopes() []string {
	more := c.Scopes
	if len(more) == 0 {
		more = []string{"email", "offline_access"}
	}
	more = slices.DeleteFunc(slices.Clone(more), func(s string) bool { return s == "openid" })
	return append([]string{"openid"}, more...)
}

// Misconfigured is a fault of the config's section oidc. Code: oidc_config_invalid.
func Misconfigured(format string, args ...any) error {
	return broker.Errorf(broker.Invalid, "oidc_config_invalid", "cannot use oidc of the config: "+format, args...)
}
