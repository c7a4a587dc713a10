package secrets_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/secrets"
	"github.com/hostler/hostler/broker/secrets/secretstest"
)

func TestALocationNamesHostMountAndPrefix(t *testing.T) {
	for location, want := range map[string]secrets.VaultConfig{
		"vault://vault.example:8200/kv":            {Address: "https://vault.example:8200", Mount: "kv"},
		"vault://vault.example/kv/hostler/dc1":     {Address: "https://vault.example", Mount: "kv", Prefix: "hostler/dc1"},
		"vault://[2001:db8::1]:8200/kv/a":          {Address: "https://[2001:db8::1]:8200", Mount: "kv", Prefix: "a"},
		"vault://127.0.0.1:8200/team-kv/a":         {Address: "https://127.0.0.1:8200", Mount: "team-kv", Prefix: "a"},
		"vault://vault.example:8200/kv?x=1/../sys": {Address: "https://vault.example:8200", Mount: "kv?x=1", Prefix: "../sys"},
	} {
		var c secrets.VaultConfig
		if err := c.Locate(location); err != nil || c != want {
			t.Errorf("%s: got %+v, %v", location, c, err)
		}
		c.TokenFile = "token"
		_, err := secrets.OpenVault(c, time.Now)
		if bad := strings.Contains(location, ".."); (err != nil) != bad {
			t.Errorf("%s: %v", location, err)
		}
	}
	for _, location := range []string{"", "vault:", "vault://", "vault://h", "vault://h/", "vault:///kv", "https://h/kv", "vault://root:planted@h/kv", "vault://planted@h:1/kv"} {
		var c secrets.VaultConfig
		err := c.Locate(location)
		secretstest.WantCode(t, err, "secrets_config_invalid")
		if strings.Contains(err.Error(), "planted") {
			t.Errorf("the error repeats a login: %v", err)
		}
	}
}

func TestAConfigurationThatCouldLeakOrMissIsRefused(t *testing.T) {
	good := func() secrets.VaultConfig {
		return secrets.VaultConfig{Address: "https://vault.example:8200", Mount: "kv", Prefix: "hostler", Namespace: "team/a", TokenFile: "token"}
	}
	if _, err := secrets.OpenVault(good(), time.Now); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*secrets.VaultConfig){
		"no address":             func(c *secrets.VaultConfig) { c.Address = "" },
		"in the clear":           func(c *secrets.VaultConfig) { c.Address = "http://vault.example:8200" },
		"in the clear by number": func(c *secrets.VaultConfig) { c.Address = "http://192.0.2.1:8200" },
		"looks like loopback":    func(c *secrets.VaultConfig) { c.Address = "http://127.0.0.1.example:8200" },
		"localhost of another":   func(c *secrets.VaultConfig) { c.Address = "http://localhost.example" },
		"any address":            func(c *secrets.VaultConfig) { c.Address = "http://0.0.0.0:8200" },
		"login in the address":   func(c *secrets.VaultConfig) { c.Address = "https://root:planted@vault.example:8200" },
		"path in the address":    func(c *secrets.VaultConfig) { c.Address = "https://vault.example:8200/v1/planted" },
		"query in the address":   func(c *secrets.VaultConfig) { c.Address = "https://vault.example:8200?planted" },
		"another scheme":         func(c *secrets.VaultConfig) { c.Address = "unix:///run/vault" },
		"no host":                func(c *secrets.VaultConfig) { c.Address = "https://:8200" },
		"no mount":               func(c *secrets.VaultConfig) { c.Mount = "" },
		"mount that leaves":      func(c *secrets.VaultConfig) { c.Mount = "kv/../sys" },
		"mount that is escaped":  func(c *secrets.VaultConfig) { c.Mount = "kv%2f..%2fsys" },
		"prefix that leaves":     func(c *secrets.VaultConfig) { c.Prefix = "../others" },
		"prefix that asks":       func(c *secrets.VaultConfig) { c.Prefix = "a?version=1" },
		"prefix that ends":       func(c *secrets.VaultConfig) { c.Prefix = "a/" },
		"namespace that breaks":  func(c *secrets.VaultConfig) { c.Namespace = "a\r\nX-Vault-Token: planted" },
		"no login":               func(c *secrets.VaultConfig) { c.TokenFile = "" },
		"two logins":             func(c *secrets.VaultConfig) { c.AppRole = &secrets.AppRole{RoleIDFile: "a", SecretIDFile: "b"} },
		"half a login":           func(c *secrets.VaultConfig) { c.TokenFile, c.AppRole = "", &secrets.AppRole{RoleIDFile: "a"} },
		"login that leaves": func(c *secrets.VaultConfig) {
			c.TokenFile, c.AppRole = "", &secrets.AppRole{Mount: "../sys", RoleIDFile: "a", SecretIDFile: "b"}
		},
		"no CA":      func(c *secrets.VaultConfig) { c.CAFile = filepath.Join(t.TempDir(), "none") },
		"CA of none": func(c *secrets.VaultConfig) { c.CAFile = write(t, "ca.pem", "planted") },
	} {
		c := good()
		change(&c)
		_, err := secrets.OpenVault(c, time.Now)
		if err == nil {
			t.Errorf("%s: taken", name)
			continue
		}
		secretstest.WantCode(t, err, "secrets_config_invalid")
		if strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "root:planted") {
			t.Errorf("%s: %q", name, err)
		}
	}
}
