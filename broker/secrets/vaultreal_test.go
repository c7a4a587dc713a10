package secrets_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/secrets/secretstest"
)

// TestARealVaultKeepsItsRules runs the rules against HashiCorp Vault itself, with
// the policy that docs/how-to/secrets.md gives. make test-vault builds the program that
// HOSTLER_VAULT names.
func TestARealVaultKeepsItsRules(t *testing.T) {
	program := os.Getenv("HOSTLER_VAULT")
	if program == "" {
		t.Skip("this needs a real Vault: make test-vault")
	}
	rules(t, startRealVault(t, program))
}

// output is the program's output so far.
type output struct {
	mu sync.Mutex
	bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.Buffer.Write(p)
}

func (o *output) String() string { o.mu.Lock(); defer o.mu.Unlock(); return o.Buffer.String() }

var unsealKey = regexp.MustCompile(`Unseal Key: (\S+)`)

// startRealVault runs a Vault in development mode, in memory, with TLS, on this
// machine only, and sets it up as an operator would.
func startRealVault(t *testing.T, program string) target {
	t.Helper()
	port, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := port.Addr().String()
	if err := port.Close(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var said output
	c := exec.Command(program, "server", "-dev", "-dev-tls", "-dev-tls-cert-dir="+dir, "-dev-no-store-token",
		"-dev-root-token-id="+secretstest.Root, "-dev-listen-address="+address)
	c.Dir, c.Env = dir, []string{"HOME=" + dir, "PATH=/usr/bin:/bin"}
	c.Stdout, c.Stderr = &said, &said
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
		if t.Failed() {
			t.Logf("Vault wrote:\n%s", said.String())
		}
	})
	on := target{url: "https://" + address, ca: filepath.Join(dir, "vault-ca.pem")}
	until(t, "Vault to say its key", func() bool { return unsealKey.MatchString(said.String()) })
	on.unsealKey = unsealKey.FindStringSubmatch(said.String())[1]
	pem, err := os.ReadFile(on.ca)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	on.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}}
	t.Cleanup(on.client.CloseIdleConnections)
	on.setUp(t)
	return on
}

func (on *target) setUp(t *testing.T) {
	t.Helper()
	page, err := os.ReadFile("../../docs/how-to/secrets.md")
	if err != nil {
		t.Fatal(err)
	}
	policy := regexp.MustCompile("(?s)```hcl\n(.*?)```").FindSubmatch(page)
	if policy == nil {
		t.Fatal("docs/how-to/secrets.md gives no policy")
	}
	for mount, version := range map[string]string{secretstest.Mount: "2", secretstest.OldMount: "1"} {
		on.must(t, "POST", "sys/mounts/"+mount, object{"type": "kv", "options": object{"version": version}})
	}
	// The engine becomes ready some time after the mount.
	until(t, "the engine to be ready", func() bool {
		status, _ := on.asRoot(t, "GET", secretstest.Mount+"/config", nil)
		return status == http.StatusOK
	})
	const role = "auth/approle/role/hostler-broker"
	on.must(t, "POST", "sys/policies/acl/hostler-broker", object{"policy": string(policy[1])})
	on.must(t, "POST", "sys/auth/approle", object{"type": "approle"})
	on.must(t, "POST", role, object{"token_policies": "hostler-broker", "token_ttl": "1h"})
	on.must(t, "POST", role+"/role-id", object{"role_id": secretstest.RoleID})
	on.newSecretID = func() string {
		id, _ := on.must(t, "POST", role+"/secret-id", object{})["secret_id"].(string)
		return id
	}
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(time.Minute); !ok(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("waited a minute for %s", what)
		}
	}
}
