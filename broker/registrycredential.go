package broker

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/hostler/hostler/taskcatalog"
)

// RegistryCredential is on record for an account at an OCI registry: the broker has
// tokens made with it that may pull one repository. The account itself is a secret.
type RegistryCredential struct {
	Registry  string // as RegistryName has it
	Username  string
	PlainHTTP bool   // the registry speaks no TLS: whoever listens has the password
	VaultPath string // of the account
	// Generation is another one each time that an account is set, and is with the record
	// and with the account: where they differ somebody was cut off between the two.
	Generation string

	SetBy, Reason string
	SetAt         time.Time
}

var registryForm = regexp.MustCompile(`^(?:[a-z0-9](?:[a-z0-9.-]{0,253}[a-z0-9])?|\[[0-9a-f:]{2,39}\])(?::[0-9]{1,5})?$`)

// dockerHub is what clients call a registry that answers at other names.
const dockerHub = "docker.io"

// RegistryName is the one name that a registry's credential is kept by: in lower case,
// without the port that goes without saying.
func RegistryName(name string, plainHTTP bool) string {
	port := ":443"
	if plainHTTP {
		port = ":80"
	}
	name = strings.TrimSuffix(strings.ToLower(name), port)
	if name == "index."+dockerHub || name == "registry-1."+dockerHub {
		return dockerHub
	}
	return name
}

// RegistryOf splits HOST[:PORT]/REPOSITORY. The registry is as credentials are kept by.
func RegistryOf(reference string, plainHTTP bool) (registry, repository string) {
	registry, repository, _ = strings.Cut(reference, "/")
	return RegistryName(registry, plainHTTP), repository
}

// RegistryCredentialPath is where an account is kept: a registry's name may hold what a
// path may not.
func RegistryCredentialPath(registry string) string {
	sum := sha256.Sum256([]byte(registry))
	return "registries/" + hex.EncodeToString(sum[:16]) + "/account"
}

// Base is where the registry answers: https://HOST[:PORT].
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

// Check refuses what is no account of a registry. Code: registry_credential_invalid.
func (c RegistryCredential) Check(password string) error {
	refuse := func(why string) error {
		return Errorf(Invalid, "registry_credential_invalid", "cannot keep a credential of registry %s: %s", taskcatalog.Clean(c.Registry, 300), why)
	}
	switch {
	case !registryForm.MatchString(c.Registry):
		return refuse("it is not HOST[:PORT] (without https:// and without a repository)")
	case c.Username == "" || len(c.Username) > 256 || !utf8.ValidString(c.Username) || taskcatalog.Clean(c.Username, 256) != c.Username || strings.Contains(c.Username, ":"):
		return refuse("the username is empty, longer than 256 bytes, or has a colon or control characters")
	case password == "" || len(password) > 8<<10 || !utf8.ValidString(password) || taskcatalog.Clean(password, 64<<10) != password:
		return refuse("the password is empty, longer than 8 KiB, or has control characters")
	}
	return nil
}
