package server_test

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/secrets"
	"github.com/hostler/hostler/broker/secrets/secretstest"
	"github.com/hostler/hostler/broker/server"
	"github.com/hostler/hostler/broker/server/servertest"
	"github.com/hostler/hostler/taskcatalog"
)

// logged is what a broker logs, at every level.
type logged struct {
	mu sync.Mutex
	bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Buffer.Write(p)
}

func (l *logged) String() string { l.mu.Lock(); defer l.mu.Unlock(); return l.Buffer.String() }

func (l *logged) logger() *zap.Logger {
	return zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapcore.AddSync(l), zapcore.DebugLevel))
}

// A broker with a Vault writes and reads secrets there. Neither its directory, nor its log, nor an
// answer of its API holds a secret, even if Vault fails.
func TestABrokerWithAVaultHoldsNoSecretItself(t *testing.T) {
	vault := secretstest.StartVault(t, false)
	dir := t.TempDir()
	login := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	secretID := vault.NewSecretID()
	c := secrets.VaultConfig{
		Address: vault.URL, Mount: secretstest.Mount, Prefix: secretstest.Prefix,
		AppRole: &secrets.AppRole{RoleIDFile: login("role-id", secretstest.RoleID), SecretIDFile: login("secret-id", secretID)},
	}
	var log logged
	b := servertest.Start(t, func(s *server.Config) { s.Vault, s.Log = &c, log.logger() })
	n := b.NewNode(t, api.NodeCreate{Hostname: "h1"}).Settle(t)
	token := api.NodeCredentials{Reason: "first", MAASMachineToken: taskcatalog.MAASMachineToken{
		Endpoint: "http://10.0.0.2:5248/MAAS/metadata/status/abc", ConsumerKey: "planted-a", TokenKey: "planted-b", TokenSecret: "planted-c",
	}}
	path := "/nodes/" + n.NodeID + "/credentials"
	var answers []string
	set := func(want int, code string) {
		t.Helper()
		a := b.Ask(t, b.Token, http.MethodPut, path, token)
		answers = append(answers, string(a.Body))
		if a.Status != want || code != "" && a.Code() != code {
			t.Errorf("got %d %s, want %d %s", a.Status, a.Body, want, code)
		}
	}
	set(http.StatusOK, "")
	kept, err := secrets.OpenVault(c, b.Now)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = kept.Close() }()
	if got, err := kept.Get(t.Context(), "nodes/"+n.NodeID+"/maas-machine-token"); err != nil || !bytes.Contains(got, []byte("planted-c")) {
		t.Fatalf("Vault holds %q, %v", got, err)
	}
	for _, row := range []struct {
		faults secretstest.Faults
		code   string
	}{
		{secretstest.Faults{Status: 503, Body: `{"errors":["Vault is sealed"]}`}, "secrets_unavailable"},
		{secretstest.Faults{Status: 500, Body: `{"errors":["planted-c"]}`}, "secrets_unavailable"},
		{secretstest.Faults{Status: 403, Body: `{"errors":["planted-c"]}`}, "secret_forbidden"},
		{secretstest.Faults{Status: 400, Body: `{"errors":["planted-c"]}`}, "secret_unwritable"},
		{secretstest.Faults{Status: 200, Body: `planted-c`}, "secrets_unavailable"},
		{secretstest.Faults{Lose: true}, "secrets_unavailable"},
	} {
		vault.Set(row.faults)
		set(http.StatusServiceUnavailable, row.code)
	}
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(b.Dir, "secrets")); !os.IsNotExist(err) {
		t.Errorf("there is a directory for secrets: %v", err)
	}
	for _, text := range append(answers, log.String()) {
		if strings.Contains(text, "planted") || strings.Contains(text, secretID) {
			t.Errorf("a secret is in %s", text)
		}
	}
	err = filepath.WalkDir(b.Dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		if bytes.Contains(raw, []byte("planted")) || bytes.Contains(raw, []byte(secretID)) {
			t.Errorf("%s holds a secret", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A broker starts while its Vault is sealed, logs that, and serves everything that needs no secret.
func TestABrokerStartsWhileItsVaultIsSealed(t *testing.T) {
	vault := secretstest.StartVault(t, false)
	vault.Set(secretstest.Faults{Status: 503, Body: `{"errors":["Vault is sealed"]}`})
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte(secretstest.Root), 0o600); err != nil {
		t.Fatal(err)
	}
	var log logged
	b := servertest.Start(t, func(s *server.Config) {
		s.Vault, s.Log = &secrets.VaultConfig{Address: vault.URL, Mount: secretstest.Mount, TokenFile: token}, log.logger()
	})
	b.NewNode(t, api.NodeCreate{Hostname: "h1"}).Settle(t)
	servertest.Eventually(t, "the log to say that Vault is sealed", func() bool { return strings.Contains(log.String(), "Vault is sealed (unseal it)") })
}
