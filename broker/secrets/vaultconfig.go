package secrets

import (
	"net"
	"net/url"
	"strings"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/lazyregexp"
)

// VaultConfig names the Vault that stores the secrets, and the broker's login. VaultConfig holds
// names of files, never their contents.
type VaultConfig struct {
	Address   string   `yaml:"address"`    // https://HOST[:PORT]; http:// on this machine only
	Mount     string   `yaml:"mount"`      // of a KV engine, version 2
	Prefix    string   `yaml:"prefix"`     // below the mount; empty: at its root
	CAFile    string   `yaml:"ca_file"`    // PEM; empty: the machine's own roots
	Namespace string   `yaml:"namespace"`  // of Vault Enterprise; empty: none
	TokenFile string   `yaml:"token_file"` // either TokenFile or AppRole
	AppRole   *AppRole `yaml:"approle"`
}

// AppRole is a login for machines: an identity and its proof.
type AppRole struct {
	Mount        string `yaml:"mount"` // of the auth method; empty: approle
	RoleIDFile   string `yaml:"role_id_file"`
	SecretIDFile string `yaml:"secret_id_file"`
}

const vaultScheme = "vault://"

// Locate takes address, mount and prefix from vault://HOST[:PORT]/MOUNT[/PREFIX].
// Code: secrets_config_invalid.
func (c *VaultConfig) Locate(location string) error {
	rest, found := strings.CutPrefix(location, vaultScheme)
	host, path, _ := strings.Cut(rest, "/")
	mount, prefix, _ := strings.Cut(path, "/")
	// Text before an @ is a secret in argv and must not be repeated.
	if strings.Contains(host, "@") {
		return misconfigured("leave the login out of the location (use vault.token_file or vault.approle in the config file)")
	}
	if !found || host == "" || mount == "" {
		return misconfigured("the location %q is not of the form vault://HOST:PORT/MOUNT[/PREFIX]", taskcatalog.Clean(location, 100))
	}
	c.Address, c.Mount, c.Prefix = "https://"+host, mount, prefix
	return nil
}

// placeForm is the form of mounts, prefixes and namespaces: without characters that are special in
// a URL or a header.
var placeForm = lazyregexp.New(`^[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*){0,7}$`)

// check refuses an unusable configuration and returns the address.
func (c *VaultConfig) check() (*url.URL, error) {
	u, err := url.Parse(c.Address)
	// The address is not repeated: it may contain a password.
	if err != nil || u.User != nil || u.Host == "" || u.Hostname() == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" ||
		u.Fragment != "" ||
		u.Scheme != "https" && u.Scheme != "http" {
		return nil, misconfigured("the address is not of the form https://HOST:PORT")
	}
	if ip := net.ParseIP(u.Hostname()); u.Scheme == "http" && u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, misconfigured("%s would send secrets in the clear (use https://; http:// is for this machine only)",
			taskcatalog.Clean(c.Address, 100))
	}
	if !placeForm.MatchString(c.Mount) || len(c.Mount) > maxPath {
		return nil, misconfigured("the mount %q is not a valid path (use the path of a KV engine, version 2)",
			taskcatalog.Clean(c.Mount, 100))
	}
	for what, place := range map[string]string{"prefix": c.Prefix, "namespace": c.Namespace} {
		if place != "" && (!placeForm.MatchString(place) || len(place) > maxPath) {
			return nil, misconfigured("the %s %q is not valid (use names joined by slashes)", what, taskcatalog.Clean(place, 100))
		}
	}
	switch r := c.AppRole; {
	case (c.TokenFile == "") == (r == nil):
		return nil, misconfigured("set one login: vault.token_file or vault.approle")
	case r != nil && (r.RoleIDFile == "" || r.SecretIDFile == ""):
		return nil, misconfigured("vault.approle needs role_id_file and secret_id_file")
	case r != nil && r.Mount != "" && !placeForm.MatchString(r.Mount):
		return nil, misconfigured("the mount of vault.approle, %q, is not valid", taskcatalog.Clean(r.Mount, 100))
	}
	return &url.URL{Scheme: u.Scheme, Host: u.Host}, nil
}

func misconfigured(format string, args ...any) error {
	return broker.Errorf(broker.Invalid, "secrets_config_invalid", "cannot use Vault for secrets: "+format, args...)
}
