package secrets_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/secrets"
	"github.com/hostler/hostler/broker/secrets/secretstest"
)

// standIn returns a fake Vault, and a secrets.Vault that uses the fake as the role.
func standIn(t *testing.T) (*secretstest.Vault, *secrets.Vault) {
	t.Helper()
	s := secretstest.StartVault(t, false)
	return s, openVault(t, target{url: s.URL, newSecretID: s.NewSecretID}.config(t))
}

// Whatever Vault answers, the error is typed, has one line, tells the next action, and repeats
// nothing of the request or the answer.
func TestNoFaultOfVaultRepeatsASecretOrPassesForAnAnswer(t *testing.T) {
	never := make(chan struct{})
	for name, row := range map[string]struct {
		faults secretstest.Faults
		code   string
		saying string
	}{
		"sealed":               {secretstest.Faults{Status: 503, Body: `{"errors":["Vault is sealed"]}`}, "secrets_unavailable", "sealed"},
		"standby":              {secretstest.Faults{Status: 429, Body: `{"errors":["planted"]}`}, "secrets_unavailable", "quotas"},
		"broken":               {secretstest.Faults{Status: 500, Body: `{"errors":["planted"]}`}, "secrets_unavailable", "status 500"},
		"bad gateway":          {secretstest.Faults{Status: 502, Body: "<html>planted"}, "secrets_unavailable", "status 502"},
		"not found by a proxy": {secretstest.Faults{Status: 404, Body: "<html>planted"}, "secrets_unavailable", "does not come from Vault"},
		"404 of another":       {secretstest.Faults{Status: 404, Body: `{"error":"planted"}`}, "secrets_unavailable", "does not come from Vault"},
		"denied":               {secretstest.Faults{Status: 403, Body: `{"errors":["planted"]}`}, "secret_forbidden", "allow"},
		"elsewhere":            {secretstest.Faults{Status: 307, Header: http.Header{"Location": {"http://127.0.0.1:1/planted"}}}, "secrets_unavailable", "active node"},
		"a page":               {secretstest.Faults{Status: 200, Body: "<html>planted"}, "secrets_unavailable", "does not come from Vault"},
		"no fields":            {secretstest.Faults{Status: 200, Body: `{"data":{"data":"planted"}}`}, "secrets_unavailable", "does not come from Vault"},
		"twice":                {secretstest.Faults{Status: 200, Body: `{"data":{},"data":{"data":{"value":"planted"}}}`}, "secrets_unavailable", "does not come from Vault"},
		"endless":              {secretstest.Faults{Status: 200, Body: strings.Repeat("planted", 1<<17)}, "secrets_unavailable", "too large"},
		"lost":                 {secretstest.Faults{Lose: true}, "secrets_unavailable", "lost before its answer"},
		"slow":                 {secretstest.Faults{Hang: never}, "secrets_unavailable", "in time"},
	} {
		t.Run(name, func(t *testing.T) {
			s, v := standIn(t)
			put(t, v, "a", "planted-old")
			s.Set(row.faults)
			if row.faults.Hang != nil {
				v.SetTimeout(20 * time.Millisecond)
			}
			_, err := v.Get(t.Context(), "a")
			wantUnreachable(t, err, row.code, row.saying)
			if strings.ContainsAny(err.Error(), "\n<") || strings.Contains(err.Error(), "planted") {
				t.Errorf("the error repeats what was received: %q", err)
			}
			if err := v.Put(t.Context(), "a", []byte("planted-new")); !secrets.Unreachable(err) || strings.Contains(err.Error(), "planted") {
				t.Errorf("put: %v", err)
			}
			if err := v.Delete(t.Context(), "a"); err != nil && (!secrets.Unreachable(err) || strings.Contains(err.Error(), "planted")) {
				t.Errorf("delete: %v", err)
			}
		})
	}
	// A lost answer may have been a success: the same call again repairs the state.
	s, v := standIn(t)
	put(t, v, "a", "old")
	s.Set(secretstest.Faults{Lose: true})
	if err := v.Put(t.Context(), "a", []byte("new")); !secrets.Unreachable(err) {
		t.Errorf("got %v", err)
	}
	s.Set(secretstest.Faults{})
	put(t, v, "a", "new")
	wantValue(t, v, "a", "new")
}

func TestTheLoginFailsAsTheRequestWould(t *testing.T) {
	for status, code := range map[int]string{400: "secrets_login_failed", 403: "secrets_login_failed", 500: "secrets_unavailable", 503: "secrets_unavailable"} {
		s, v := standIn(t)
		s.Set(secretstest.Faults{Status: status, Body: `{"errors":["planted"]}`})
		_, err := v.Get(t.Context(), "a")
		wantUnreachable(t, err, code, "")
		if strings.Contains(err.Error(), "planted") || strings.Contains(err.Error(), secretstest.RoleID) {
			t.Errorf("the error repeats what was sent or received: %v", err)
		}
	}
}

func TestWhoAskedAndLeftSaysNothingAboutVault(t *testing.T) {
	s, v := standIn(t)
	ctx, cancel := context.WithCancel(t.Context())
	hang := make(chan struct{})
	s.Set(secretstest.Faults{Hang: hang})
	done := make(chan error)
	go func() { _, err := v.Get(ctx, "a"); done <- err }()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) || secrets.Unreachable(err) {
		t.Errorf("got %v", err)
	}
	// The next call uses the login that the cancelled call began.
	close(hang)
	put(t, v, "a", "x")
	if s.Logins() != 1 {
		t.Errorf("%d logins", s.Logins())
	}
	late, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
	defer cancel()
	_, err := v.Get(late, "a")
	wantUnreachable(t, err, "secrets_unavailable", "in time")
}

func TestOneLoginServesAllUntilItEnds(t *testing.T) {
	var mu sync.Mutex
	now := time.Unix(1_800_000_000, 0)
	s := secretstest.StartVault(t, false)
	s.Set(secretstest.Faults{Life: 1000})
	v, err := secrets.OpenVault(target{url: s.URL, newSecretID: s.NewSecretID}.config(t), func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		return now
	})
	if err != nil {
		t.Fatal(err)
	}
	pass := func(d time.Duration) { mu.Lock(); defer mu.Unlock(); now = now.Add(d) }
	all := func(want int) {
		t.Helper()
		var group sync.WaitGroup
		for range 20 {
			group.Go(func() {
				if _, err := v.Get(t.Context(), "a"); secrets.Unreachable(err) {
					t.Error(err)
				}
			})
		}
		group.Wait()
		if s.Logins() != want {
			t.Errorf("%d logins, want %d", s.Logins(), want)
		}
	}
	all(1)
	pass(899 * time.Second)
	all(1)
	pass(time.Second)
	all(2)
}

// A person's token is reported a week before its end. A token that is renewed each hour is reported
// if the renewal did not happen.
func TestALoginThatEndsIsNewsInTime(t *testing.T) {
	s := secretstest.StartVault(t, false)
	c := target{url: s.URL, newSecretID: s.NewSecretID}.config(t)
	c.AppRole, c.TokenFile = nil, write(t, "token", secretstest.Root)
	now := time.Unix(1_800_000_000, 0)
	v, err := secrets.OpenVault(c, func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	for life, soon := range map[time.Duration]time.Duration{time.Hour: 12 * time.Minute, 32 * 24 * time.Hour: 32 * 24 * time.Hour / 5, 365 * 24 * time.Hour: 7 * 24 * time.Hour} {
		s.Set(secretstest.Faults{Life: int(life.Seconds())})
		if got, err := v.Login(t.Context()); err != nil || !got.Ends.Equal(now.Add(life)) || got.Soon != soon {
			t.Errorf("a token of %v: %+v, %v", life, got, err)
		}
	}
	s.Set(secretstest.Faults{Status: 500})
	_, err = v.Login(t.Context())
	wantUnreachable(t, err, "secrets_unavailable", "status 500")
}

// A path that stays denied costs at most one login a minute, however often the path is read.
func TestADeniedPathDoesNotFloodVaultWithLogins(t *testing.T) {
	s := secretstest.StartVault(t, false)
	c := target{url: s.URL, newSecretID: s.NewSecretID}.config(t)
	c.Prefix = "others"
	now := time.Unix(1_800_000_000, 0)
	v, err := secrets.OpenVault(c, func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	for minute := range 3 {
		for range 5 {
			_, err := v.Get(t.Context(), "a")
			secretstest.WantCode(t, err, "secret_forbidden")
		}
		if s.Logins() != minute+1 {
			t.Errorf("%d logins after %d minutes", s.Logins(), minute)
		}
		now = now.Add(time.Minute)
	}
}

func TestNoPathReachesVaultUnlessItIsNames(t *testing.T) {
	s, v := standIn(t)
	for _, path := range []string{"../x", "a/../../sys/seal", "a%2f..%2fx", "a?list=true", "a#", "a\r\nb", "/a", "a//b", "A"} {
		_, err := v.Get(t.Context(), path)
		secretstest.WantCode(t, err, "secret_path_invalid")
		secretstest.WantCode(t, v.Put(t.Context(), path, []byte("x")), "secret_path_invalid")
		secretstest.WantCode(t, v.Delete(t.Context(), path), "secret_path_invalid")
	}
	if asked := s.Requests(); len(asked) != 0 {
		t.Errorf("Vault was asked %v", asked)
	}
}

func TestVaultIsOnlySpokenToOverTLSItCanVerify(t *testing.T) {
	s := secretstest.StartVault(t, true)
	ca := caOf(t, s)
	c := target{url: s.URL, newSecretID: s.NewSecretID}.config(t)
	c.CAFile = ca
	put(t, openVault(t, c), "a", "x")
	asked := len(s.Requests())

	// The server's certificate has a signer unknown to the machine, or is for another name.
	c.CAFile = ""
	_, err := openVault(t, c).Get(t.Context(), "a")
	wantUnreachable(t, err, "secrets_unavailable", "does not verify (set vault.ca_file to its CA)")
	c.CAFile = ca
	c.Address = strings.Replace(s.URL, "127.0.0.1", "localhost", 1)
	_, err = openVault(t, c).Get(t.Context(), "a")
	wantUnreachable(t, err, "secrets_unavailable", "does not verify")
	if now := len(s.Requests()); now != asked {
		t.Errorf("%d requests went to a server that does not verify", now-asked)
	}

	old := httptest.NewUnstartedServer(s)
	old.TLS = &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11, Certificates: s.TLS.Certificates}
	old.StartTLS()
	defer old.Close()
	c.Address = old.URL
	_, err = openVault(t, c).Get(t.Context(), "a")
	wantUnreachable(t, err, "secrets_unavailable", "")
	if now := len(s.Requests()); now != asked {
		t.Errorf("%d requests went over TLS 1.1", now-asked)
	}
}

func TestAVaultThatIsNotThereIsUnreachable(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := "http://" + l.Addr().String()
	_ = l.Close()
	v := openVault(t, secrets.VaultConfig{Address: address, Mount: "kv", TokenFile: write(t, "token", "x")})
	_, err = v.Get(t.Context(), "a")
	wantUnreachable(t, err, "secrets_unavailable", "cannot be reached: connect: connection refused")
}

// The environment variables about Vault are for people. A broker that read them could be turned to
// another Vault, or made to trust any certificate.
func TestTheEnvironmentSaysNothing(t *testing.T) {
	for name, value := range map[string]string{
		"VAULT_ADDR": "http://127.0.0.1:1", "VAULT_TOKEN": "planted", "VAULT_NAMESPACE": "planted", "VAULT_SKIP_VERIFY": "1",
		"HTTP_PROXY": "http://127.0.0.1:1", "HTTPS_PROXY": "http://127.0.0.1:1",
	} {
		t.Setenv(name, value)
	}
	_, v := standIn(t)
	put(t, v, "a", "x")
	wantValue(t, v, "a", "x")
}
