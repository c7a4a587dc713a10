package secrets_test

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/secrets"
	"github.com/hostler/hostler/broker/secrets/secretstest"
)

// target is a Vault, real or fake, with the content of secretstest's constants: two engines, a
// role, and a policy for the role's tokens.
type target struct {
	url, ca, unsealKey string // ca is a file, or empty
	client             *http.Client
	newSecretID        func() string
}

func TestAVaultKeepsItsRules(t *testing.T) {
	v := secretstest.StartVault(t, true)
	rules(t, target{url: v.URL, ca: caOf(t, v), client: v.Client(), newSecretID: v.NewSecretID})
}

// caOf returns a file with the certificate of a fake Vault.
func caOf(t *testing.T, v *secretstest.Vault) string {
	t.Helper()
	return write(t, "ca.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: v.Certificate().Raw})))
}

// rules tests all rules that hold with the fake and with a real Vault alike.
func rules(t *testing.T, on target) {
	for name, rule := range map[string]func(*testing.T, target){
		"KeepsWhatAKeeperPromises":           keepsPromises,
		"WithATokenToo":                      keepsPromisesWithAToken,
		"WhatAnOperatorPutIsRead":            operatorsValueIsRead,
		"WhatIsPutIsWhatAnOperatorSees":      operatorSeesFields,
		"ARotatedSecretLeavesNoOldVersion":   noOldVersion,
		"ADeletedSecretLeavesNothing":        deletedLeavesNothing,
		"WhatAnOperatorDeletedIsNotThere":    operatorDeleted,
		"AnEntryThatNeedsCheckAndSetIsKept":  checkAndSet,
		"ADeniedPathIsUnreachable":           deniedPath,
		"AMountThatIsNoneIsUnreachable":      noMount,
		"AnEngineWithoutVersionsIsRefused":   versionOne,
		"ASealedVaultIsUnreachableTillOpen":  sealed,
		"ALoginThatIsRefusedIsUnreachable":   loginRefused,
		"ARevokedTokenIsReplacedInAMinute":   revoked,
		"ATokenFileIsReadAtEachUse":          tokenFileReadAtUse,
		"WhenALoginEndsIsTold":               loginEnds,
		"NothingIsWrittenOutsideThePrefix":   insideThePrefix,
		"TheBrokersTokenNeedsNoMoreThanSaid": noMoreThanSaid,
	} {
		t.Run(name, func(t *testing.T) { rule(t, on) })
	}
}

// write makes a file that holds a login.
func write(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// config returns the role's configuration, below a prefix of this test's own.
func (on target) config(t *testing.T) secrets.VaultConfig {
	return secrets.VaultConfig{
		Address: on.url, CAFile: on.ca, Mount: secretstest.Mount, Prefix: secretstest.Prefix + "/" + filepath.Base(t.Name()),
		AppRole: &secrets.AppRole{RoleIDFile: write(t, "role-id", secretstest.RoleID), SecretIDFile: write(t, "secret-id", on.newSecretID())},
	}
}

func openVault(t *testing.T, c secrets.VaultConfig) *secrets.Vault {
	t.Helper()
	v, err := secrets.OpenVault(c, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = v.Close() })
	return v
}

// asRoot sends a request with the root token, as an operator would outside the broker.
func (on target) asRoot(t *testing.T, method, path string, body any) (int, map[string]any) {
	t.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, on.url+"/v1/"+path, bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Vault-Token", secretstest.Root)
	resp, err := on.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var said map[string]any
	_ = json.NewDecoder(resp.Body).Decode(&said)
	data, _ := said["data"].(map[string]any)
	return resp.StatusCode, data
}

func (on target) must(t *testing.T, method, path string, body any) map[string]any {
	t.Helper()
	status, data := on.asRoot(t, method, path, body)
	if status/100 != 2 {
		t.Fatalf("%s %s: status %d", method, path, status)
	}
	return data
}

func at(c secrets.VaultConfig, kind, path string) string {
	return c.Mount + "/" + kind + "/" + c.Prefix + "/" + path
}

type object = map[string]any

func wantUnreachable(t *testing.T, err error, code, saying string) {
	t.Helper()
	secretstest.WantCode(t, err, code)
	if !secrets.Unreachable(err) {
		t.Errorf("this would not hold a site: %v", err)
	}
	if !strings.Contains(err.Error(), saying) {
		t.Errorf("%q does not say %q", err, saying)
	}
}

func wantValue(t *testing.T, k secrets.Keeper, path, value string) {
	t.Helper()
	if got, err := k.Get(t.Context(), path); err != nil || string(got) != value {
		t.Errorf("got %q, %v; want %q", got, err, value)
	}
}

func put(t *testing.T, k secrets.Keeper, path, value string) {
	t.Helper()
	if err := k.Put(t.Context(), path, []byte(value)); err != nil {
		t.Fatal(err)
	}
}

func keepsPromises(t *testing.T, on target) { secretstest.Run(t, openVault(t, on.config(t))) }

func keepsPromisesWithAToken(t *testing.T, on target) {
	c := on.config(t)
	c.AppRole, c.TokenFile = nil, write(t, "token", secretstest.Root)
	secretstest.Run(t, openVault(t, c))
}

func operatorsValueIsRead(t *testing.T, on target) {
	c := on.config(t)
	v := openVault(t, c)
	for path, row := range map[string]struct {
		fields object
		want   string
	}{
		"maas-sites/1/api-token":     {object{"token": "a:b:c"}, `{"token":"a:b:c"}`},
		"maas-sites/1/power/default": {object{"user": "root", "pass": "p&<\n"}, `{"pass":"p&<\n","user":"root"}`},
		"a/plain-token":              {object{"value": "a plain \"one\"\n"}, "a plain \"one\"\n"},
		"odd":                        {object{"value": 7}, `{"value":7}`},
	} {
		on.must(t, "POST", at(c, "data", path), object{"data": row.fields})
		wantValue(t, v, path, row.want)
	}
	on.must(t, "POST", at(c, "data", "none"), object{"data": object{}})
	_, err := v.Get(t.Context(), "none")
	secretstest.WantCode(t, err, "secret_not_found")
	on.must(t, "POST", at(c, "data", "empty"), object{"data": object{"value": ""}})
	_, err = v.Get(t.Context(), "empty")
	secretstest.WantCode(t, err, "secret_unreadable")
	on.must(t, "POST", at(c, "data", "large"), object{"data": object{"value": strings.Repeat("planted-large", 6<<10)}})
	_, err = v.Get(t.Context(), "large")
	secretstest.WantCode(t, err, "secret_unreadable")
	if strings.Contains(err.Error(), "planted") {
		t.Errorf("the error holds the value: %v", err)
	}
}

func operatorSeesFields(t *testing.T, on target) {
	c := on.config(t)
	v := openVault(t, c)
	put(t, v, "power", `{"user":"root","pass":"p"}`)
	put(t, v, "plain", "text")
	if got, _ := on.must(t, "GET", at(c, "data", "power"), nil)["data"].(object); len(got) != 2 || got["user"] != "root" || got["pass"] != "p" {
		t.Errorf("an operator sees %v", got)
	}
	if got, _ := on.must(t, "GET", at(c, "data", "plain"), nil)["data"].(object); len(got) != 1 || got["value"] != "text" {
		t.Errorf("an operator sees %v", got)
	}
}

func noOldVersion(t *testing.T, on target) {
	c := on.config(t)
	v := openVault(t, c)
	for _, old := range []string{"one", "two", "three"} {
		on.must(t, "POST", at(c, "data", "a"), object{"data": object{"token": old}})
	}
	for _, value := range []string{`{"token":"four"}`, `{"token":"five"}`} {
		put(t, v, "a", value)
		wantValue(t, v, "a", value)
		if kept, _ := on.must(t, "GET", at(c, "metadata", "a"), nil)["versions"].(object); len(kept) != 1 {
			t.Errorf("%d versions are left: %v", len(kept), kept)
		}
	}
	for _, n := range []string{"1", "2", "3", "4"} {
		if status, data := on.asRoot(t, "GET", at(c, "data", "a")+"?version="+n, nil); status != 404 || data["data"] != nil {
			t.Errorf("version %s is still read: status %d", n, status)
		}
	}
}

func deletedLeavesNothing(t *testing.T, on target) {
	c := on.config(t)
	v := openVault(t, c)
	for _, old := range []string{"one", "two"} {
		on.must(t, "POST", at(c, "data", "a"), object{"data": object{"token": old}})
	}
	if err := v.Delete(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if status, _ := on.asRoot(t, "GET", at(c, "metadata", "a"), nil); status != 404 {
		t.Errorf("the entry is still there: status %d", status)
	}
}

func operatorDeleted(t *testing.T, on target) {
	c := on.config(t)
	v := openVault(t, c)
	put(t, v, "a", "x")
	on.must(t, "DELETE", at(c, "data", "a"), nil)
	_, err := v.Get(t.Context(), "a")
	secretstest.WantCode(t, err, "secret_not_found")
	// Ensure makes no new secret in place of a deleted secret that can be restored.
	_, err = v.Ensure(t.Context(), "a", []byte("planted"))
	wantUnreachable(t, err, "secret_unwritable", "vault kv metadata delete")
	put(t, v, "a", "y")
	wantValue(t, v, "a", "y")
}

func checkAndSet(t *testing.T, on target) {
	c := on.config(t)
	v := openVault(t, c)
	put(t, v, "a", "old")
	on.must(t, "POST", at(c, "metadata", "a"), object{"cas_required": true})
	err := v.Put(t.Context(), "a", []byte("planted"))
	wantUnreachable(t, err, "secret_unwritable", "cas_required")
	if strings.Contains(err.Error(), "planted") {
		t.Errorf("the error holds the value: %v", err)
	}
	wantValue(t, v, "a", "old")
}

func deniedPath(t *testing.T, on target) {
	c := on.config(t)
	c.Prefix = "others"
	v := openVault(t, c)
	_, err := v.Get(t.Context(), "a")
	wantUnreachable(t, err, "secret_forbidden", "read on kv/data/others/a")
	wantUnreachable(t, v.Put(t.Context(), "a", []byte("planted")), "secret_forbidden", "create and update on kv/data/others/a and kv/metadata/others/a")
	wantUnreachable(t, v.Delete(t.Context(), "a"), "secret_forbidden", "delete on kv/metadata/others/a")
}

func noMount(t *testing.T, on target) {
	c := on.config(t)
	c.Mount, c.AppRole, c.TokenFile = "nosuch", nil, write(t, "token", secretstest.Root)
	v := openVault(t, c)
	_, err := v.Get(t.Context(), "a")
	wantUnreachable(t, err, "secrets_unavailable", "no engine at mount nosuch")
	wantUnreachable(t, v.Put(t.Context(), "a", []byte("x")), "secrets_unavailable", "no engine at mount nosuch")
	wantUnreachable(t, v.Delete(t.Context(), "a"), "secrets_unavailable", "no engine at mount nosuch")
}

func versionOne(t *testing.T, on target) {
	c := on.config(t)
	c.Mount, c.AppRole, c.TokenFile = secretstest.OldMount, nil, write(t, "token", secretstest.Root)
	v := openVault(t, c)
	wantUnreachable(t, v.Put(t.Context(), "a", []byte("x")), "secrets_unavailable", "not a KV engine of version 2")
	_, err := v.Get(t.Context(), "a")
	wantUnreachable(t, err, "secrets_unavailable", "not a KV engine of version 2")
}

func sealed(t *testing.T, on target) {
	v := openVault(t, on.config(t))
	put(t, v, "a", "x")
	fresh := openVault(t, on.config(t))
	on.must(t, "PUT", "sys/seal", nil)
	for _, v := range []*secrets.Vault{v, fresh} {
		_, err := v.Get(t.Context(), "a")
		wantUnreachable(t, err, "secrets_unavailable", "sealed (unseal it)")
		wantUnreachable(t, v.Put(t.Context(), "a", []byte("y")), "secrets_unavailable", "sealed (unseal it)")
		wantUnreachable(t, v.Delete(t.Context(), "a"), "secrets_unavailable", "sealed (unseal it)")
	}
	on.must(t, "PUT", "sys/unseal", object{"key": on.unsealKey})
	for _, v := range []*secrets.Vault{v, fresh} {
		eventually(t, v, "a", "x")
	}
}

// eventually waits until a Vault serves after it was unsealed.
func eventually(t *testing.T, k secrets.Keeper, path, value string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for {
		got, err := k.Get(ctx, path)
		if string(got) == value {
			return
		}
		if ctx.Err() != nil || !secrets.Unreachable(err) {
			t.Fatalf("got %q, %v; want %q", got, err, value)
		}
	}
}

func loginRefused(t *testing.T, on target) {
	c := on.config(t)
	good, err := os.ReadFile(c.AppRole.SecretIDFile)
	if err != nil {
		t.Fatal(err)
	}
	v := openVault(t, c)
	for name, content := range map[string]string{"another": "planted-secret-id", "two words": "planted secret-id", "nothing": "", "large": strings.Repeat("planted", 4<<10)} {
		if err := os.WriteFile(c.AppRole.SecretIDFile, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err = v.Get(t.Context(), "a")
		wantUnreachable(t, err, "secrets_login_failed", c.AppRole.SecretIDFile)
		if strings.Contains(err.Error(), "planted") {
			t.Errorf("%s: the error holds the login: %v", name, err)
		}
	}
	if err := os.WriteFile(c.AppRole.SecretIDFile, good, 0o600); err != nil {
		t.Fatal(err)
	}
	put(t, v, "a", "x")
	wantValue(t, v, "a", "x")
}

func revoked(t *testing.T, on target) {
	ahead := time.Duration(0)
	v, err := secrets.OpenVault(on.config(t), func() time.Time { return time.Now().Add(ahead) })
	if err != nil {
		t.Fatal(err)
	}
	put(t, v, "a", "x")
	on.must(t, "PUT", "sys/leases/revoke-prefix/auth/approle/login", nil)
	// A denied path and an ended token look the same: a token younger than a minute is kept.
	_, err = v.Get(t.Context(), "a")
	wantUnreachable(t, err, "secret_forbidden", "whether the broker's token has expired")
	ahead = time.Minute
	wantValue(t, v, "a", "x")
}

func tokenFileReadAtUse(t *testing.T, on target) {
	c := on.config(t)
	c.AppRole, c.TokenFile = nil, write(t, "token", "planted-token")
	v := openVault(t, c)
	_, err := v.Get(t.Context(), "a")
	wantUnreachable(t, err, "secret_forbidden", "denies")
	if err := os.WriteFile(c.TokenFile, []byte(secretstest.Root), 0o600); err != nil {
		t.Fatal(err)
	}
	put(t, v, "a", "x")
	if err := os.Chmod(c.TokenFile, 0o644); err != nil {
		t.Fatal(err)
	}
	_, err = v.Get(t.Context(), "a")
	wantUnreachable(t, err, "secrets_login_failed", "other users can read the file (chmod 640)")
	if err := os.Remove(c.TokenFile); err != nil {
		t.Fatal(err)
	}
	_, err = v.Get(t.Context(), "a")
	wantUnreachable(t, err, "secrets_login_failed", "no such file")
}

func insideThePrefix(t *testing.T, on target) {
	c := on.config(t)
	put(t, openVault(t, c), "sites/a", "mine")
	c.Prefix += "/sites"
	wantValue(t, openVault(t, c), "a", "mine")
	if status, _ := on.asRoot(t, "GET", c.Mount+"/data/sites/a", nil); status != 404 {
		t.Errorf("something is at the root of the mount: status %d", status)
	}
}

// noMoreThanSaid tests that the policy in docs/how-to/secrets.md denies the broker's token every
// path outside the prefix.
func noMoreThanSaid(t *testing.T, on target) {
	on.must(t, "POST", "kv/data/others/a", object{"data": object{"token": "x"}})
	c := on.config(t)
	for _, prefix := range []string{"", "others", secretstest.Prefix + "-2"} {
		c.Prefix = prefix
		_, err := openVault(t, c).Get(t.Context(), "others/a")
		secretstest.WantCode(t, err, "secret_forbidden")
	}
}

// loginEnds tests that a token without an expiry has no end, that an AppRole has none either, since
// the broker itself logs in again, and that a refused login is reported.
func loginEnds(t *testing.T, on target) {
	c := on.config(t)
	if got, err := openVault(t, c).Login(t.Context()); err != nil || !got.Ends.IsZero() {
		t.Errorf("with an AppRole: %+v, %v", got, err)
	}
	c.AppRole = &secrets.AppRole{RoleIDFile: c.AppRole.RoleIDFile, SecretIDFile: write(t, "old", "planted-secret")}
	_, err := openVault(t, c).Login(t.Context())
	wantUnreachable(t, err, "secrets_login_failed", "put a new secret id in")
	c.AppRole, c.TokenFile = nil, write(t, "token", secretstest.Root)
	if got, err := openVault(t, c).Login(t.Context()); err != nil || !got.Ends.IsZero() {
		t.Errorf("with a token that has no end: %+v, %v", got, err)
	}
	c.TokenFile = write(t, "other", "planted-token")
	_, err = openVault(t, c).Login(t.Context())
	wantUnreachable(t, err, "secrets_login_failed", "put another token there")
	if strings.Contains(err.Error(), "planted") {
		t.Errorf("the error holds the token: %v", err)
	}
}
