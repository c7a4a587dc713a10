package webhook_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/outbox"
	"github.com/hostler/hostler/broker/outbox/webhook"
	"github.com/hostler/hostler/broker/secrets"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
)

var (
	ctx     = context.Background()
	admin   = broker.Actor{Name: "ada", Role: broker.RolePlatformAdmin}
	errNone = errors.New("none")
)

const look = 5 * time.Millisecond

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// request is what an endpoint got.
type request struct {
	id, timestamp, signature, contentType string
	body                                  []byte
}

func (r request) event(t testing.TB) (e struct{ ID, Type, Subject string }) {
	t.Helper()
	if err := json.Unmarshal(r.body, &e); err != nil || e.ID != r.id {
		t.Errorf("request %s has %s", r.id, r.body)
	}
	return e
}

// endpoint is a tenant's HTTPS server.
type endpoint struct {
	*httptest.Server
	mu     sync.Mutex
	got    []request
	answer func(http.ResponseWriter, *http.Request) // nil: 204
}

func newEndpoint(t testing.TB) *endpoint {
	t.Helper()
	e := &endpoint{}
	e.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		h := r.Header
		e.mu.Lock()
		e.got = append(e.got, request{h.Get("webhook-id"), h.Get("webhook-timestamp"), h.Get("webhook-signature"), h.Get("Content-Type"), body})
		answer := e.answer
		e.mu.Unlock()
		if answer == nil {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		answer(w, r)
	}))
	e.EnableHTTP2 = true
	e.StartTLS()
	t.Cleanup(func() { e.CloseClientConnections(); e.Close() })
	return e
}

func (e *endpoint) answers(f func(http.ResponseWriter, *http.Request)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.answer = f
}

func status(code int) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

func (e *endpoint) requests() []request {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.got)
}

// ca is a file with the certificate of an endpoint.
func (e *endpoint) ca(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: e.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// loopback is a config that permits the tests' endpoints.
func loopback(t testing.TB, e *endpoint) webhook.Config {
	return webhook.Config{Allow: []string{"127.0.0.0/8"}, CAFile: e.ca(t)}
}

// world is a broker's store with projects that make events.
type world struct {
	db      *store.DB
	secrets *secrets.Files
	feed    *outbox.Feed
	plain   map[string]string // secrets by webhook
}

func newWorld(t testing.TB, db *store.DB) *world {
	t.Helper()
	w := &world{db: db, secrets: must(secrets.Open(t.TempDir()))(t), feed: outbox.NewFeed(db), plain: map[string]string{}}
	t.Cleanup(func() { _ = w.secrets.Close() })
	k := &outbox.Keeper{DB: db, Log: zap.NewNop()}
	running(t, k.Run, func(ctx context.Context) { _ = w.feed.Run(ctx) })
	s := broker.NewSKU()
	s.ID = "h100"
	must(db.CreateSKU(ctx, admin, s))(t)
	return w
}

// project makes an organisation with a project that holds a node.
func (w *world) project(t testing.TB, name string) {
	t.Helper()
	must(w.db.CreateOrganisation(ctx, admin, broker.Organisation{ID: "org-" + name, Name: name}))(t)
	w.projectOf(t, "org-"+name, name)
}

func (w *world) projectOf(t testing.TB, organisation, name string) {
	t.Helper()
	must(w.db.CreateProject(ctx, admin, broker.Project{ID: "prj-" + name, OrganisationID: organisation, Name: name}))(t)
	must(w.db.SetQuota(ctx, admin, broker.Quota{ProjectID: "prj-" + name, SKU: "h100", Nodes: 9, GPUs: 99}, ""))(t)
	must(w.db.CreateNode(ctx, admin, store.NewNode{
		ID: "n-" + name, Hostname: name, Site: "dc1", SKU: "h100", Bootstrap: "command", TokenHash: "hash-" + name, TokenExpires: w.db.Now().Add(time.Hour),
	}))(t)
	e := must(w.db.Enroll(ctx, store.EnrollInput{
		TokenHash: "hash-" + name, PublicKeyDigest: "key-" + name, TrustVersion: 1,
		Report: store.NodeReport{AgentVersion: "1.0", Digest: "d1"},
		Issue: func(broker.Node, int64) (store.IssuedCert, error) {
			return store.IssuedCert{Serial: "serial-" + name, PublicKey: []byte(name), NotBefore: w.db.Now(), NotAfter: w.db.Now().Add(time.Hour)}, nil
		},
	}))(t)
	must(w.db.FirstContact(ctx, "n-"+name, 1, e.Cert.Serial))(t)
	must(w.db.Transition(ctx, admin, "n-"+name, store.Change{To: broker.Active, By: broker.OwnerOnboarding, Reason: "test"}))(t)
	must(w.db.CreateAllocation(ctx, admin, store.NewAllocation{
		ID: "alc-" + name, ProjectID: "prj-" + name, AllocationRequest: broker.AllocationRequest{SKU: "h100", Nodes: 1}, KeyIDs: []string{"k-1"},
	}))(t)
	w.moves(t, name, broker.AllocationProvisioning, broker.AllocationActive, broker.AllocationReleasing, broker.AllocationReleaseFailed)
	eventually(t, "the first events", func() bool {
		page, _, err := w.db.Outbox(ctx, store.OutboxFilter{ProjectID: "prj-" + name})
		return err == nil && len(page) == 4
	})
}

func (w *world) moves(t testing.TB, name string, statuses ...broker.AllocationStatus) {
	t.Helper()
	for _, to := range statuses {
		c := store.AllocationChange{To: to, By: broker.AllocationWorker}
		if to == broker.AllocationReleasing {
			c.By = broker.AllocationUser
		}
		if to == broker.AllocationReleaseFailed {
			c.Code = "cleanup_failed"
		}
		must(w.db.TransitionAllocation(ctx, admin, "alc-"+name, c))(t)
	}
}

// happen makes 2n events of a project: a release that begins and fails, again and again.
func (w *world) happen(t testing.TB, name string, n int) {
	t.Helper()
	for range n {
		w.moves(t, name, broker.AllocationReleasing, broker.AllocationReleaseFailed)
	}
}

// hook registers a webhook of a project.
func (w *world) hook(t testing.TB, name, url string) broker.Webhook {
	t.Helper()
	id := fmt.Sprintf("whk-%s-%d", name, len(w.plain))
	w.plain[id] = must(webhook.MakeSecret(ctx, w.secrets, "prj-"+name, id))(t)
	return must(w.db.CreateWebhook(ctx, admin, broker.Webhook{ID: id, ProjectID: "prj-" + name, URL: url}))(t)
}

func (w *world) look(t testing.TB, h broker.Webhook) broker.Webhook {
	t.Helper()
	return must(w.db.Webhook(ctx, h.ProjectID, h.ID))(t)
}

func (w *world) sender(t testing.TB, c webhook.Config, change ...func(*webhook.SenderOptions)) *webhook.Sender {
	t.Helper()
	o := webhook.SenderOptions{Config: c, Secrets: w.secrets, Now: time.Now}
	for _, f := range change {
		f(&o)
	}
	return must(webhook.NewSender(o))(t)
}

// delivering runs a deliverer until stop is called.
func (w *world) delivering(t testing.TB, s *webhook.Sender, change ...func(*webhook.Deliverer)) (stop func()) {
	t.Helper()
	d := &webhook.Deliverer{DB: w.db, Feed: w.feed, Secrets: w.secrets, Sender: s, Log: zap.NewNop(), Period: look}
	for _, f := range change {
		f(d)
	}
	return running(t, d.Run)
}

// names resolves names as a test says.
type names struct {
	mu sync.Mutex
	of map[string][]string
}

func (n *names) set(host string, addresses ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.of == nil {
		n.of = map[string][]string{}
	}
	n.of[host] = addresses
}

func (n *names) lookUp(_ context.Context, host string) (all []netip.Addr, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, a := range n.of[host] {
		all = append(all, netip.MustParseAddr(a))
	}
	if len(all) == 0 {
		return nil, errNone
	}
	return all, nil
}

func (n *names) use(o *webhook.SenderOptions) { o.LookUp = n.lookUp }

// key is the key in a secret.
func key(t testing.TB, secret string) []byte {
	t.Helper()
	text, is := strings.CutPrefix(secret, "whsec_")
	if !is {
		t.Fatalf("the secret is %q", secret)
	}
	return must(base64.StdEncoding.DecodeString(text))(t)
}

func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	late, again := time.After(30*time.Second), time.NewTicker(look)
	defer again.Stop()
	for !is() {
		select {
		case <-again.C:
		case <-late:
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// running has functions run beside the test until stop is called.
func running(t testing.TB, runs ...func(context.Context)) (stop func()) {
	work, cancel := context.WithCancel(ctx)
	var ended sync.WaitGroup
	for _, run := range runs {
		ended.Go(func() { run(work) })
	}
	stop = func() { cancel(); ended.Wait() }
	t.Cleanup(stop)
	return stop
}

// openWorld is a world on SQLite.
func openWorld(t testing.TB) (*world, *storetest.Clock) {
	clock := storetest.NewClock()
	return newWorld(t, storetest.Open(t, "sqlite", clock.Now)), clock
}
