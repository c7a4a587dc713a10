package adminapi_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/outbox/webhook"
	"github.com/hostler/hostler/broker/server"
	"github.com/hostler/hostler/broker/server/servertest"
)

func (n tenant) webhooks() string { return "/projects/" + n.project.ID + "/webhooks" }

// receiver is a tenant's HTTPS endpoint on the loopback interface.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	status int
	got    []http.Header
	bodies [][]byte
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{status: http.StatusOK}
	r.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.got, r.bodies = append(r.got, q.Header), append(r.bodies, body)
		w.WriteHeader(r.status)
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) answers(status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status = status
}

func (r *receiver) received() ([]http.Header, [][]byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.got), slices.Clone(r.bodies)
}

// allowed lets a broker send to a receiver.
func (r *receiver) allowed(t *testing.T) func(*server.Config) {
	t.Helper()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: r.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	return func(c *server.Config) { c.Webhooks = webhook.Config{Allow: []string{"127.0.0.0/8"}, CAFile: ca} }
}

func create(t *testing.T, b *servertest.Broker, token string, n tenant, url string) (out api.WebhookSecret) {
	t.Helper()
	a := b.Ask(t, token, http.MethodPost, n.webhooks(), api.WebhookCreate{URL: url})
	if err := json.Unmarshal(a.Body, &out); err != nil || a.Status != http.StatusCreated {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	return out
}

// signedBy reports whether a request is signed with a secret, as a receiver checks it.
func signedBy(t *testing.T, secret string, h http.Header, body []byte) bool {
	t.Helper()
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil {
		t.Fatal(err)
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(h.Get("webhook-id") + "." + h.Get("webhook-timestamp") + "." + string(body)))
	return slices.Contains(strings.Fields(h.Get("webhook-signature")), "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
}

// A project's administrator registers an endpoint, tests it, and gets what the feed has, with the
// same ids. The secret is shown once and is nowhere else.
func TestAProjectsEndpointGetsWhatItsFeedHas(t *testing.T) {
	r := newReceiver(t)
	b := servertest.Start(t, r.allowed(t))
	undisturbed(t, b)
	stocked(t, b, "h100.8gpu", 1)
	mine := newTenant(t, b, "acme", "lab")
	token := mine.tokens(t, b)["project_admin of a project"]
	made := create(t, b, token, mine, r.URL+"/hooks")
	if made.Webhook.State != "active" || made.Webhook.URL != r.URL+"/hooks" || !strings.HasPrefix(made.Secret, "whsec_") {
		t.Fatalf("made is %+v", made)
	}
	tried := servertest.Must[api.WebhookTried](t, b, http.MethodPost, mine.webhooks()+"/"+made.Webhook.ID+"/test", nil)
	if got, bodies := r.received(); !tried.Delivered || len(got) != 1 || got[0].Get("webhook-id") != tried.EventID ||
		!signedBy(t, made.Secret, got[0], bodies[0]) || !strings.Contains(string(bodies[0]), `"type":"webhook.test"`) {
		t.Fatalf("the test is %+v, received are %v %s", tried, got, bodies)
	}
	mine.holds(t, b, "h100.8gpu")
	leads(t, b, mine.held.ID, toProvisioning, toFailed)
	feed := mine.told(t, b, token, 2)
	servertest.Eventually(t, "the events", func() bool { got, _ := r.received(); return len(got) == 3 })
	got, bodies := r.received()
	for i, e := range feed {
		var sent api.Event
		if err := json.Unmarshal(bodies[i+1], &sent); err != nil || sent.ID != e.ID || sent.Type != e.Type || string(sent.Data) != string(e.Data) ||
			got[i+1].Get("webhook-id") != e.ID || !signedBy(t, made.Secret, got[i+1], bodies[i+1]) {
			t.Errorf("event %s is sent as %v %s", e.ID, got[i+1], bodies[i+1])
		}
	}
	again := servertest.Must[api.WebhookSecret](t, b, http.MethodPost, mine.webhooks()+"/"+made.Webhook.ID+"/rotate-secret", api.ReasonBody{Reason: "yearly"})
	servertest.Must[api.WebhookTried](t, b, http.MethodPost, mine.webhooks()+"/"+made.Webhook.ID+"/test", nil)
	if got, bodies := r.received(); again.Secret == made.Secret || !signedBy(t, again.Secret, got[3], bodies[3]) || !signedBy(t, made.Secret, got[3], bodies[3]) {
		t.Errorf("after the rotation: %v", got[3])
	}
	servertest.Must[api.Webhook](t, b, http.MethodDelete, mine.webhooks()+"/"+made.Webhook.ID+"?reason=gone", nil)
	for _, path := range []string{mine.webhooks(), "/audit?limit=1000", "/events?after=0&follow=false", "/status"} {
		shown(t, path, b.Ask(t, b.Token, http.MethodGet, path, nil).Body, made.Secret, again.Secret)
	}
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := filepath.WalkDir(b.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		raw, err := os.ReadFile(path)
		shown(t, path, raw, made.Secret, again.Secret)
		if strings.Contains(path, made.Webhook.ID) {
			t.Errorf("%s is left", path)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// shown fails if one of the secrets, or its key, is in a text.
func shown(t *testing.T, where string, text []byte, secrets ...string) {
	t.Helper()
	for _, secret := range secrets {
		if bytes.Contains(text, []byte(strings.TrimPrefix(secret, "whsec_"))) {
			t.Errorf("a secret is in %s", where)
		}
	}
}

// Members and viewers read webhooks, and change none.
func TestOnlyAProjectsAdministratorsChangeWebhooks(t *testing.T) {
	r := newReceiver(t)
	b := servertest.Start(t, r.allowed(t))
	mine := newTenant(t, b, "acme", "lab")
	made := create(t, b, b.Token, mine, r.URL)
	at := mine.webhooks() + "/" + made.Webhook.ID
	for role, token := range mine.tokens(t, b) {
		may := strings.Contains(role, "admin")
		for _, ask := range []struct {
			method, path string
			body         any
			reads        bool
		}{
			{http.MethodGet, mine.webhooks(), nil, true},
			{http.MethodGet, at, nil, true},
			{http.MethodPost, at + "/test", nil, false},
			{http.MethodPost, at + "/enable", api.ReasonBody{Reason: "r"}, false},
			{http.MethodPost, at + "/rotate-secret", api.ReasonBody{Reason: "r"}, false},
			{http.MethodPost, mine.webhooks(), api.WebhookCreate{URL: r.URL}, false},
			{http.MethodDelete, mine.webhooks() + "/whk-none?reason=r", nil, false},
		} {
			b.Advance(time.Second) // no token asks too often
			a := b.Ask(t, token, ask.method, ask.path, ask.body)
			if refused := a.Code() == "role_insufficient"; refused == (may || ask.reads) {
				t.Errorf("%s %s as %s: %d %s", ask.method, ask.path, role, a.Status, a.Body)
			}
			if ask.reads && strings.Contains(string(a.Body), "whsec_") {
				t.Errorf("%s shows a secret: %s", ask.path, a.Body)
			}
		}
	}
}

// An endpoint that the broker may not reach is refused before anything is stored, and without a word
// about the broker's network.
func TestAnEndpointInTheBrokersNetworkIsRefused(t *testing.T) {
	b := servertest.Start(t, func(c *server.Config) { c.Webhooks.Allow = []string{"203.0.113.0/24"} }) // which nobody has
	mine := newTenant(t, b, "acme", "lab")
	token := mine.tokens(t, b)["project_admin of a project"]
	for url, code := range map[string]string{
		b.OperatorURL() + "/api/v1/admin/status": "webhook_address_refused", "https://127.0.0.1/": "webhook_address_refused",
		"https://[::1]/": "webhook_address_refused", "https://[::ffff:10.0.0.1]/": "webhook_address_refused", "https://169.254.169.254/latest": "webhook_address_refused",
		"https://localhost/": "webhook_address_refused", "https://10.1.2.3:8443/": "webhook_address_refused",
		"http://1.1.1.1/": "webhook_url_invalid", "https://planted:planted@1.1.1.1/": "webhook_url_invalid", "https://1.1.1.1/?planted": "webhook_url_invalid",
	} {
		b.Advance(time.Second)
		a := b.Ask(t, token, http.MethodPost, mine.webhooks(), api.WebhookCreate{URL: url})
		if a.Code() != code || strings.Contains(string(a.Body), "planted") {
			t.Errorf("%s: %d %s", url, a.Status, a.Body)
		}
	}
	if after := servertest.Must[api.WebhookList](t, b, http.MethodGet, mine.webhooks(), nil); len(after.Items) != 0 {
		t.Errorf("stored are %+v", after)
	}
	for range 5 {
		b.Advance(time.Second)
		create(t, b, token, mine, "https://203.0.113.7/")
	}
	if a := b.Ask(t, token, http.MethodPost, mine.webhooks(), api.WebhookCreate{URL: "https://203.0.113.7/"}); a.Code() != "webhook_limit" {
		t.Errorf("a sixth webhook: %d %s", a.Status, a.Body)
	}
}

// A disabled webhook says so to its project, to the operators, in the metrics and as an event.
func TestADisabledWebhookIsTold(t *testing.T) {
	r := newReceiver(t)
	b := servertest.Start(t, r.allowed(t))
	stocked(t, b, "h100.8gpu", 1)
	mine := newTenant(t, b, "acme", "lab")
	made := create(t, b, b.Token, mine, r.URL+"/planted-path")
	metric := func(state, n string) bool {
		text := string(b.Ask(t, b.Token, http.MethodGet, b.OperatorURL()+"/metrics", nil).Body)
		return strings.Contains(text, "\nhostler_webhooks{state=\""+state+"\"} "+n+"\n")
	}
	if !metric("active", "1") || !metric("disabled", "0") {
		t.Error("the metric does not count the webhooks")
	}
	r.answers(http.StatusGone)
	mine.holds(t, b, "h100.8gpu")
	at := mine.webhooks() + "/" + made.Webhook.ID
	servertest.Eventually(t, "the end", func() bool {
		b.Advance(time.Second)
		return servertest.Must[api.Webhook](t, b, http.MethodGet, at, nil).State == "disabled"
	})
	w := servertest.Must[api.Webhook](t, b, http.MethodGet, at, nil)
	if w.Code != "webhook_gone" || w.DisabledAt == nil || w.NextTryAt != nil || !strings.Contains(w.Message, "410") {
		t.Errorf("the project sees %+v", w)
	}
	if !metric("disabled", "1") {
		t.Error("the metric does not say so")
	}
	var alerts []string
	for _, a := range servertest.Must[api.Status](t, b, http.MethodGet, "/status", nil).Alerts {
		alerts = append(alerts, a.Code+" "+a.Message)
	}
	if all := strings.Join(alerts, "\n"); !strings.Contains(all, "webhooks_disabled") || strings.Contains(all, "planted-path") {
		t.Errorf("the alerts are %q", alerts)
	}
	var events string
	servertest.Eventually(t, "the event", func() bool {
		b.Advance(time.Second)
		events = string(b.Ask(t, b.Token, http.MethodGet, "/events?after=0&follow=false&type=project.webhook.disabled", nil).Body)
		return strings.Contains(events, made.Webhook.ID)
	})
	if strings.Contains(events, "planted-path") {
		t.Errorf("the event is %s", events)
	}
	r.answers(http.StatusOK)
	if w := servertest.Must[api.Webhook](t, b, http.MethodPost, at+"/enable", api.ReasonBody{Reason: "repaired"}); w.State != "active" {
		t.Errorf("enabled is %+v", w)
	}
	servertest.Eventually(t, "the event that it lacked", func() bool {
		b.Advance(time.Second)
		return servertest.Must[api.Webhook](t, b, http.MethodGet, at, nil).DeliveredAt != nil
	})
}
