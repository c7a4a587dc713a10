package maassim_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/test/maassim"
)

func TestOnlyAGoodSignatureIsLetIn(t *testing.T) {
	r, _, _ := start(t, "3.4")
	key, plain := r.APIKey(), r.AddUser("plain", false)
	out := r.AddUser("out", true)
	r.SetActive("out", false)
	id := r.Arrange(maassim.Arranged{Hardware: maassim.Box(1), Status: maassim.Deployed, Owner: "admin", Token: true})
	locked := r.Arrange(maassim.Arranged{Hardware: maassim.Box(2), Status: maassim.Deployed, Owner: "admin", Locked: true})
	part := strings.Split(key, ":")
	now := wallClock().Unix()
	good := signature(key, now, "once")
	for _, tc := range []struct {
		name, method, path, header string
		code                       int
		body                       string
	}{
		{"anybody asks for the version", "GET", "version/", "", 200, `"version":"3.4.10"`},
		{"nobody signed", "GET", "events/?op=query", "", 401, "Forbidden"},
		{"a header that cannot be read", "GET", "events/?op=query", "OAuth x", 401, "Forbidden"},
		{"nobody signed, at a collection with an anonymous face", "GET", "machines/", "", 400, "Unrecognised signature: method=GET op=None"},
		{"the right key", "GET", "users/?op=whoami", good, 200, `"username":"admin"`},
		{"a nonce that was used", "GET", "users/?op=whoami", good, 401, "Nonce already used"},
		{"an unknown consumer", "GET", "users/?op=whoami", signature("x:"+part[1]+":"+part[2], now, "a"), 401, "Authorization Error: Invalid API key."},
		{"an unknown token", "GET", "users/?op=whoami", signature(part[0]+":x:"+part[2], now, "b"), 401, "Authorization Error: Invalid API key."},
		{"the wrong secret, which the answer then tells", "GET", "users/?op=whoami", signature(part[0]+":"+part[1]+":x", now, "c"), 401, part[2]},
		{"a timestamp of 301 s ago", "GET", "users/?op=whoami", signature(key, now-302, "d"), 401, "has a greater difference than threshold 300"},
		{"a timestamp of 299 s ago", "GET", "users/?op=whoami", signature(key, now-297, "e"), 200, ""},
		{"a timestamp of tomorrow", "GET", "users/?op=whoami", signature(key, now+86400, "f"), 200, ""},
		{"a machine's token at the API", "GET", "machines/", machineKey(t, r, id, "g", now), 403, "User is not allowed access to this API."},
		{"a user who is kept out", "GET", "users/?op=whoami", signature(out, now, "q"), 403, "User is not allowed access to this API."},
		{"no administrator, at what is theirs", "POST", "machines/", signature(plain, now, "h"), 403, "This method is reserved for admin users."},
		{"no administrator, at another's machine", "POST", "machines/" + id + "/?op=commission", signature(plain, now, "i"), 403, ""},
		{"an unknown machine", "GET", "machines/zzzzzz/", signature(key, now, "j"), 404, "No Machine matches the given query."},
		{"an unknown op", "POST", "machines/" + id + "/?op=bogus", signature(key, now, "k"), 400, "Unrecognised signature: method=POST op=bogus"},
		{"a method that is not served", "DELETE", "version/", signature(key, now, "l"), 405, ""},
		{"a path without its slash", "GET", "machines", signature(key, now, "m"), 404, "Unknown API endpoint: /MAAS/api/2.0/machines."},
		{"a locked machine", "POST", "machines/" + locked + "/?op=release", signature(key, now, "n"), 403, ""},
		{"a locked machine that is only read", "GET", "machines/" + locked + "/", signature(key, now, "o"), 200, `"locked":true`},
		{"the token of a locked machine", "GET", "machines/" + locked + "/?op=get_token", signature(key, now, "p"), 200, "null"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			req := httptest.NewRequest(tc.method, "/MAAS/api/2.0/"+tc.path, nil)
			if tc.header != "" {
				req.Header.Set("Authorization", tc.header)
			}
			res, body := do(t, r, req)
			if res.StatusCode != tc.code || !strings.Contains(string(body), tc.body) || (tc.body == "" && tc.code == 403 && len(body) > 0) {
				t.Errorf("%d %s, want %d %s", res.StatusCode, body, tc.code, tc.body)
			}
			if challenge := res.Header.Get("Www-Authenticate") != ""; challenge != (res.StatusCode == 401 && tc.header != "" && tc.header != "OAuth x") {
				t.Errorf("challenge %v", challenge)
			}
		})
	}
}

// machineKey is the Authorization header of a machine.
func machineKey(t *testing.T, r *maassim.Region, id, nonce string, now int64) string {
	t.Helper()
	return signature(tokenKey(t, r, id), now, nonce)
}

func tokenKey(t *testing.T, r *maassim.Region, id string) string {
	t.Helper()
	token, err := dial(t, r, r.APIKey()).Machine.GetToken(id)
	if err != nil || token.TokenKey == "" {
		t.Fatalf("no token: %v", err)
	}
	return token.ConsumerKey + ":" + token.TokenKey + ":" + token.TokenSecret
}

func TestAKeyThatIsRevokedStaysOutUntilItIsRenewed(t *testing.T) {
	r, clock, c := start(t, "3.6")
	r.Inject(maassim.Fault{Kind: maassim.KeyRevoked, Op: "whoami", Skip: 1})
	who := func() error { _, err := c.Users.Whoami(); return err }
	if err := who(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := who(); err == nil || !strings.Contains(err.Error(), "401") {
			t.Fatalf("%v, want 401", err)
		}
	}
	clock.pass(time.Hour)
	c = dial(t, r, r.RenewKeys("admin"))
	if err := who(); err != nil {
		t.Fatal(err)
	}
	if n := r.Count("whoami"); n != 4 {
		t.Errorf("%d calls were logged", n)
	}
	if res, _ := send(t, r, "", http.MethodGet, "version/", nil); res.StatusCode != http.StatusOK {
		t.Errorf("version: %d", res.StatusCode)
	}
}
