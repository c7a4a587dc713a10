package broker

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/hostler/hostler/taskcatalog"
)

// RegistryCredential is the record of an account at an OCI registry. The broker uses the account
// to request tokens, each of which may pull one repository. The account itself is a secret.
type RegistryCredential struct {
	Registry  string // in the form of taskcatalog.RegistryName
	Username  string
	PlainHTTP bool   // the registry speaks no TLS: anybody who listens gets the password
	VaultPath string // of the account
	// Generation changes each time an account is set, and is stored with the record and with the
	// account. Different values mean an interruption between the two writes.
	Generation string

	SetBy, Reason string
	SetAt         time.Time
}

// dockerHub is the clients' name for a registry with other host names.
const dockerHub = "docker.io"

// RegistryOf splits HOST[:PORT]/REPOSITORY. The registry is in the form of
// taskcatalog.RegistryName.
func RegistryOf(reference string, plainHTTP bool) (registry, repository string) {
	registry, repository, _ = strings.Cut(reference, "/")
	return taskcatalog.RegistryName(registry, plainHTTP), repository
}

// RegistryCredentialPath is the path of a registry's account. A digest stands for the name,
// because a registry's name may contain characters that a path may not.
func RegistryCredentialPath(registry string) string {
	sum := sha256.Sum256([]byte(registry))
	return "registries/" + hex.EncodeToString(sum[:16]) + "/account"
}

// Base is the registry's address: https://HOST[:PORT], or http for PlainHTTP.
func (c RegistryCredential) Base() string {
	scheme, host := "https://", c.Registry
	if c.PlainHTTP {
		scheme = "http://"
	}
	if host == dockerHub {
		host = "registry-1." + dockerHub
	}
	return scheme + host
}

// Check refuses an invalid registry account. Code: registry_credential_invalid.
func (c RegistryCredential) Check(password string) error {
	refuse := func(why string) error {
		return Errorf(Invalid, "registry_credential_invalid", "cannot store a credential of registry %s: %s",
			taskcatalog.Clean(c.Registry, 300), why)
	}
	switch {
	case !taskcatalog.IsRegistry(c.Registry):
		return refuse("the registry is not HOST[:PORT] (without https:// and without a repository)")
	case c.Username == "" || len(c.Username) > 256 || !utf8.ValidString(c.Username) || taskcatalog.Clean(c.Username, 256) != c.Username ||
		strings.Contains(c.Username, ":"):
		return refuse("the username is empty, longer than 256 bytes, or has a colon or control characters")
	case password == "" || len(password) > 8<<10 || !utf8.ValidString(password) || taskcatalog.Clean(password, 64<<10) != password:
		return refuse("the password is empty, longer than 8 KiB, or has control characters")
	}
	return nil
}
