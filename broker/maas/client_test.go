package maas

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/canonical/gomaasclient/client"
	"github.com/canonical/gomaasclient/entity"

	"golang.org/x/crypto/ssh"

	"github.com/hostler/hostler/broker"
)

const planted = "SECRETsecretSECRETsecretSECRET12"

func testKey(t testing.TB) Key {
	t.Helper()
	k, err := ParseKey("consumerconsumerco:tokentokentokentok:" + planted)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// answering is a region that gives every request the same answer, and counts the requests.
func answering(t *testing.T, status int, header map[string]string, body string) (*Region, *int) {
	t.Helper()
	asked := new(int)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*asked++
		for name, value := range header {
			w.Header().Set(name, value)
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(server.Close)
	return opened(t, Options{BaseURL: server.URL + "/MAAS"}), asked
}

func opened(t testing.TB, o Options) *Region {
	t.Helper()
	if o.Key.parts == nil {
		o.Key = testKey(t)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	r, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func release(ctx context.Context, r *Region) error {
	_, err := call(ctx, r, "release", switches, func(c *client.Client) (*entity.Machine, error) {
		return c.Machine.Release("abc123", &entity.MachineReleaseParams{})
	})
	return err
}

// Every answer has one class, whether the call reads or changes; and whatever the library would
// like to do, there is one request.
func TestEveryAnswerHasItsClass(t *testing.T) {
	expired := "Authorization Error: 'Expired timestamp: given 1700000000 and now 1700000400 and has a greater difference than threshold 300'"
	for name, row := range map[string]struct {
		status       int
		header       map[string]string
		body         string
		read, change Class
	}{
		"not there":            {404, nil, "No Machine matches the given query.", NotFound, NotFound},
		"no API":               {404, nil, "Unknown API endpoint: /MAAS/api/2.0/x.", Unavailable, Unavailable},
		"a proxy's 404":        {404, map[string]string{"Content-Type": "text/html; charset=utf-8"}, "<h1>Not Found</h1>", Unavailable, Unavailable},
		"state":                {409, nil, "Machine cannot be released in its current state ('Commissioning').", RefusedState, RefusedState},
		"database conflict":    {409, map[string]string{"Retry-After": "5"}, "", ConflictRetry, ConflictRetry},
		"form":                 {400, map[string]string{"Content-Type": "application/json"}, `{"__all__":["no"],"network":["Node must","be configured"]}`, Invalid, Invalid},
		"method":               {405, nil, "", Invalid, Invalid},
		"key":                  {401, nil, "Authorization Error: Invalid API key.", Unauthorized, Unauthorized},
		"clock":                {401, nil, expired, ClockSkew, ClockSkew},
		"not an admin":         {403, nil, "", Forbidden, Forbidden},
		"power":                {503, nil, "Failed talking to node's BMC", Unavailable, UnknownOutcome},
		"no rack":              {503, map[string]string{"Retry-After": "10"}, "", Unavailable, UnknownOutcome},
		"gateway":              {504, nil, "<html>", Unavailable, UnknownOutcome},
		"unforeseen":           {500, nil, "boom", Unavailable, UnknownOutcome},
		"too many":             {429, nil, "", Unavailable, Unavailable},
		"redirect":             {302, map[string]string{"Location": "https://elsewhere/MAAS/"}, "", Unavailable, Unavailable},
		"a page with 200":      {200, map[string]string{"Content-Type": "text/html"}, "<html>hello</html>", Unavailable, UnknownOutcome},
		"text of no type":      {404, map[string]string{"Content-Type": "text/html; charset=utf-8"}, "Not Found", NotFound, NotFound},
		"half an answer":       {200, map[string]string{"Content-Length": "500"}, `{"system_id":"abc`, Unavailable, UnknownOutcome},
		"something else":       {200, nil, `[1]`, Unavailable, UnknownOutcome},
		"another machine's id": {200, nil, `{"system_id":"zzz999"}`, Unavailable, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r, asked := answering(t, row.status, row.header, row.body)
			_, err := r.Machine(t.Context(), "abc123")
			if ClassOf(err) != row.read || err == nil {
				t.Errorf("read: %v, want %s", err, row.read)
			}
			if row.change == "" {
				return
			}
			err = release(t.Context(), r)
			if ClassOf(err) != row.change || err == nil {
				t.Errorf("change: %v, want %s", err, row.change)
			}
			if *asked != 2 {
				t.Errorf("it was asked %d times, want once each", *asked)
			}
			var e *Error
			if errors.As(err, &e) && (row.header["Retry-After"] == "10") != (e.RetryAfter == 10*time.Second) {
				t.Errorf("retry after %v", e.RetryAfter)
			}
		})
	}
}

func TestAFormsMessagesAreToldFieldByField(t *testing.T) {
	r, _ := answering(t, 400, nil, `{"__all__":["Not now."],"network":["Node must be","configured\u001b[2J"]}`)
	err := release(t.Context(), r)
	if want := `MAAS: release: invalid (400): Not now.; network: Node must be configured\x1b[2J`; err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	long, _ := answering(t, 409, nil, strings.Repeat("x", 5000))
	if err := release(t.Context(), long); len(err.Error()) > 700 {
		t.Errorf("%d bytes", len(err.Error()))
	}
}

func TestBothClocksAreNamed(t *testing.T) {
	r, _ := answering(t, 401, nil, "Authorization Error: 'Expired timestamp: given 1700000000 and now 1700000400 and has a greater difference than threshold 300'")
	_, err := r.Machine(t.Context(), "abc123")
	if err == nil || !strings.Contains(err.Error(), "2023-11-14T22:13:20Z") || !strings.Contains(err.Error(), "2023-11-14T22:20:00Z") {
		t.Errorf("%v", err)
	}
}

// MAAS has been seen to quote the secret in a 401, and may quote a password in a 400. A proxy in
// front of MAAS may quote the whole request, also where the error has no room for all of it.
func TestNoSecretComesBackInAnError(t *testing.T) {
	const password = "hunter2&hunter 2"
	for _, words := range []string{
		"expected GET&..&oauth_signature%26" + planted + " or power_pass " + password,
		`Authorization: OAuth oauth_consumer_key="consumerconsumerco", oauth_token="tokentokentokentok", oauth_signature="%26` + planted + `"`,
		"power_parameters_power_pass=hunter2%26hunter+2",
		strings.Repeat("x", maxDetail-15) + " " + planted,
		strings.Repeat("x", maxDetail-12) + " " + password,
	} {
		for _, status := range []int{400, 401, 403, 404, 409, 500, 503} {
			r, _ := answering(t, status, nil, words)
			_, err := call(t.Context(), r, "create", changes, func(c *client.Client) (*entity.Machine, error) {
				return c.Machines.Create(&entity.MachineCreateParams{Hostname: "h"}, map[string]any{"power_parameters_power_pass": password})
			})
			told := fmt.Sprintf("%v %+v %#v", err, err, err)
			for _, secret := range []string{planted[:6], "hunter2", "consumerco", "tokento"} {
				if err == nil || strings.Contains(told, secret) {
					t.Errorf("%d: %v", status, err)
				}
			}
		}
	}
	r := opened(t, Options{BaseURL: "http://127.0.0.1:1/MAAS"})
	p, err := NewPower("root", "hunter2-hunter2")
	if err != nil {
		t.Fatal(err)
	}
	holder := struct {
		k Key
		p Power
		r *Region
	}{r.key, p, r}
	raw, _ := json.Marshal(map[string]any{"k": r.key, "p": p})
	for _, text := range []string{fmt.Sprintf("%v|%+v|%#v|%s|%d", r.key, r.key, r.key, r.key, r.key), fmt.Sprintf("%v|%+v", holder, holder), fmt.Sprintf("%+v|%#v", *r, *r), fmt.Sprintf("%v|%+v|%#v|%s", p, p, p, p), string(raw)} {
		if strings.Contains(text, planted) || strings.Contains(text, "hunter2") || strings.Contains(text, "tokentoken") {
			t.Errorf("it is printed: %s", text)
		}
	}
	if _, err := ParseKey("no-key-" + planted); err == nil || strings.Contains(err.Error(), planted) {
		t.Errorf("%v", err)
	}
}

func TestASecretIsHiddenHoweverItIsQuotedAndCut(t *testing.T) {
	const pass = `battery "staple" & <horse> correct/100%`
	escaped := []string{pass, url.QueryEscape(pass), html.EscapeString(pass), strings.ReplaceAll(pass, `"`, `\"`)}
	long := strings.Repeat(planted, 300) // 8 KiB of it come back
	said := []string{"starts with " + long[:6000]}
	for _, form := range escaped {
		for pad := maxDetail - len(form) - 2; pad <= maxDetail; pad += 3 {
			said = append(said, strings.Repeat("x", pad)+form+strings.Repeat("y", 100))
		}
	}
	for _, text := range said {
		r, _ := answering(t, 400, nil, text)
		_, err := call(t.Context(), r, "create", changes, func(c *client.Client) (*entity.Machine, error) {
			return c.Machines.Create(&entity.MachineCreateParams{Hostname: "h"}, map[string]any{"power_parameters_power_pass": pass, "user_data": long})
		})
		if err == nil || strings.Contains(err.Error(), "batt") || strings.Contains(err.Error(), planted) {
			t.Errorf("%.20s… (%d): %v", text, len(text), err)
		}
	}
}

func TestThePathOfAMachineCannotLeadElsewhere(t *testing.T) {
	r, asked := answering(t, 200, nil, `{"username":"x"}`)
	for _, id := range []string{"", "../users", "ABC123", "abc12", "abc1234", "abc/23", "abc%2f"} {
		if _, err := r.Machine(t.Context(), id); ClassOf(err) != Invalid {
			t.Errorf("%q: %v", id, err)
		}
		// A path that passes this check is stopped in the RoundTripper.
		_, err := call(t.Context(), r, "read", looks, func(c *client.Client) (*entity.Machine, error) { return c.Machine.Get(id + "/../../../../x") })
		if err == nil {
			t.Errorf("%q was asked for", id)
		}
	}
	if *asked > 0 {
		t.Errorf("%d requests were made", *asked)
	}
}

func TestACallEndsInItsTime(t *testing.T) {
	stuck := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-stuck }))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(stuck) })
	r := opened(t, Options{BaseURL: server.URL + "/MAAS"})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := r.Machine(ctx, "abc123"); ClassOf(err) != Timeout || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("read: %v", err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := release(ctx, r); ClassOf(err) != UnknownOutcome || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("change: %v", err)
	}
	if err := release(ctx, r); ClassOf(err) != Timeout { // the context ended before the call: nothing was sent
		t.Errorf("late change: %v", err)
	}
}

// MAAS answers a call that switches power only after the BMC has answered. This takes minutes, and
// no other look may wait for it.
func TestMachinesThatAreSwitchedHoldUpNoLook(t *testing.T) {
	stuck, began := make(chan struct{}), make(chan struct{}, 100)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			began <- struct{}{}
			<-stuck
		}
		_, _ = io.WriteString(w, `{"system_id":"abc123","status":6}`)
	}))
	t.Cleanup(server.Close)
	r := opened(t, Options{BaseURL: server.URL + "/MAAS"})
	var all sync.WaitGroup
	for range 30 {
		all.Go(func() {
			if err := release(t.Context(), r); err != nil {
				t.Error(err)
			}
		})
	}
	for range mostConnections {
		<-began
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := r.Machine(ctx, "abc123"); err != nil {
		t.Error(err)
	}
	close(stuck)
	all.Wait()
}

func TestWhatWasNeverSentHasNoUnknownOutcome(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	if err := release(t.Context(), opened(t, Options{BaseURL: "http://" + l.Addr().String() + "/MAAS"})); ClassOf(err) != Unavailable {
		t.Errorf("nobody listens: %v", err)
	}
	server := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	if err := release(t.Context(), opened(t, Options{BaseURL: server.URL + "/MAAS"})); ClassOf(err) != Unavailable || !strings.Contains(err.Error(), "ca_cert") {
		t.Errorf("a certificate of nobody known: %v", err)
	}
	ca := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	if err := release(t.Context(), opened(t, Options{BaseURL: server.URL + "/MAAS", CACert: ca})); ClassOf(err) != NotFound {
		t.Errorf("with its authority: %v", err)
	}
}

func TestAnAnswerIsBounded(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		line := []byte(strings.Repeat("x", 1<<20))
		for range 64 {
			if _, err := w.Write(line); err != nil {
				return
			}
		}
	}))
	t.Cleanup(server.Close)
	r := opened(t, Options{BaseURL: server.URL + "/MAAS"})
	if _, err := r.Machine(t.Context(), "abc123"); ClassOf(err) != Unavailable || !strings.Contains(err.Error(), "too large") {
		t.Errorf("%v", err)
	}
}

func TestAnImageOfOursIsInTheCustomNamespace(t *testing.T) {
	for given, want := range map[string]string{"gpuaas-noble": "custom/gpuaas-noble", "custom/x": "custom/x", "ubuntu/noble": "ubuntu/noble", "noble": "noble"} {
		if got := Image(given); got != want {
			t.Errorf("%s is %s, want %s", given, got, want)
		}
	}
}

// memory keeps secrets as a map.
type memory map[string][]byte

func (m memory) Get(_ context.Context, path string) ([]byte, error) {
	if v, ok := m[path]; ok {
		return append([]byte(nil), v...), nil // the reader may wipe the value
	}
	return nil, broker.Errorf(broker.NotFound, "secret_not_found", "no")
}

func (m memory) Put(_ context.Context, path string, v []byte) error {
	m[path] = append([]byte(nil), v...)
	return nil
}

func TestATokenIsUsedWhereItWasCheckedAndNowhereElse(t *testing.T) {
	s := broker.NewSite("id")
	s.Name, s.APIBaseURL = "dc1", "https://maas.dc1/MAAS"
	kept := memory{}
	sites := &Sites{Secrets: kept, Now: time.Now}
	if _, err := sites.Region(t.Context(), s); broker.AsError(err).Code != "site_credentials_missing" {
		t.Errorf("without a token: %v", err)
	}
	if err := PutToken(t.Context(), kept, s, testKey(t)); err != nil {
		t.Fatal(err)
	}
	one, err := sites.Region(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := sites.Region(t.Context(), s); again != one {
		t.Error("each call has a region of its own")
	}
	rotated, err := ParseKey("a:b:c")
	if err != nil {
		t.Fatal(err)
	}
	if err := PutToken(t.Context(), kept, s, rotated); err != nil {
		t.Fatal(err)
	}
	two, err := sites.Region(t.Context(), s)
	if err != nil || two == one || !two.key.equal(rotated) || two.roster != one.roster {
		t.Errorf("a new token is not used, or machines are listed twice: %v", err)
	}
	s.CACert = "another authority"
	if _, err := sites.Region(t.Context(), s); broker.AsError(err).Code != "site_credentials_moved" {
		t.Errorf("with another authority: %v", err)
	}
	s.CACert, s.APIBaseURL = "", "https://attacker/MAAS"
	if _, err := sites.Region(t.Context(), s); broker.AsError(err).Code != "site_credentials_moved" {
		t.Errorf("at another address: %v", err)
	}
}

func TestASitesOtherSecretsAreReadAsTheyWereWritten(t *testing.T) {
	s := broker.NewSite("id")
	s.Name = "dc1"
	kept := memory{}
	p, err := NewPower("root", "p w")
	if err != nil {
		t.Fatal(err)
	}
	other := s
	if _, err := NewDeployKey(strings.NewReader(strings.Repeat("o", 64)), &other); err != nil {
		t.Fatal(err)
	}
	private, err := NewDeployKey(strings.NewReader(strings.Repeat("r", 64)), &s)
	if s.DeploySSHKeyPath == other.DeploySSHKeyPath {
		t.Errorf("two keys have one place, %s", s.DeploySSHKeyPath)
	}
	public := s.DeploySSHPublicKey
	if err != nil || !strings.HasPrefix(public, "ssh-ed25519 ") || !strings.HasSuffix(public, " hostler@dc1") {
		t.Fatalf("%q, %v", public, err)
	}
	if err := errors.Join(PutPower(t.Context(), kept, s.PowerPath, p), PutDeployPassword(t.Context(), kept, s, "pw"), PutDeployKey(t.Context(), kept, s, private)); err != nil {
		t.Fatal(err)
	}
	got, err := PowerAt(t.Context(), kept, s, s.PowerPath)
	if user, pass := got.Reveal(); err != nil || user != "root" || pass != "p w" {
		t.Errorf("%s %s %v", user, pass, err)
	}
	if pw, err := DeployPassword(t.Context(), memory{}, s); pw != "" || err != nil {
		t.Errorf("a site without a password has %q, %v", pw, err)
	}
	s.DeployPasswordSetAt = time.Unix(1, 0)
	if _, err := DeployPassword(t.Context(), memory{}, s); broker.AsError(err).Code != "site_credentials_missing" {
		t.Errorf("a password that is lost: %v", err)
	}
	if pw, err := DeployPassword(t.Context(), kept, s); pw != "pw" || err != nil {
		t.Errorf("%q, %v", pw, err)
	}
	if key, err := DeployKey(t.Context(), kept, s); err != nil || strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key.PublicKey())))+" hostler@dc1" != public {
		t.Errorf("the key that is read is not that of %s: %v", public, err)
	}
	kept[s.PowerPath] = []byte("hunter2-hunter2")
	if _, err := PowerAt(t.Context(), kept, s, s.PowerPath); broker.AsError(err).Code != "secret_unreadable" || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("%v", err)
	}
	for _, bad := range [][2]string{{"", "x"}, {"x", ""}, {"x", "a\nb"}, {strings.Repeat("u", 300), "x"}} {
		if _, err := NewPower(bad[0], bad[1]); broker.AsError(err).Code != "power_credentials_invalid" {
			t.Errorf("%v", err)
		}
	}
}
