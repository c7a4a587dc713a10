package reconcile_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/maas"
	"github.com/hostler/hostler/broker/reconcile"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
	"github.com/hostler/hostler/test/maassim"
)

var ada = broker.Actor{Name: "ada", Role: broker.RoleOperator}

// world is a site with a simulated region, and the broker's records of the site.
type world struct {
	t       testing.TB
	db      *store.DB
	clock   *storetest.Clock
	region  *maassim.Region
	site    broker.Site
	regions *maas.Sites
	watch   *reconcile.Watch
	agents  *agents
	runs    *runs
	guard   func(*http.Request) (*http.Response, error) // nil result: on to the region
	blind   bool                                        // MAAS cannot be read, as intended
	nonce   int
	count   int
}

// kept are secrets in memory.
type kept map[string][]byte

func (k kept) Get(_ context.Context, path string) ([]byte, error) {
	if v, ok := k[path]; ok {
		return slices.Clone(v), nil
	}
	return nil, fmt.Errorf("no secret %s: %w", path, fs.ErrNotExist)
}

func (k kept) Put(_ context.Context, path string, v []byte) error {
	k[path] = slices.Clone(v) // the caller wipes the value
	return nil
}

// agents stands for the task queue.
type agents struct{ keys []string }

func (a *agents) Reseed(_ context.Context, nodeID, key string, _ time.Duration) (string, error) {
	if !slices.Contains(a.keys, nodeID+" "+key) {
		a.keys = append(a.keys, nodeID+" "+key)
	}
	return fmt.Sprintf("t-%d", len(a.keys)), nil
}

// runs stands for the chains that take nodes out of the fleet.
type runs struct {
	started []string // nodes
	ids     []string
	fails   error
	lost    error // the run is begun, and the caller is gone
}

func (r *runs) Start(_ context.Context, n broker.Node, id, _ string) (string, error) {
	if r.fails != nil {
		return "", r.fails
	}
	if !slices.Contains(r.ids, id) {
		r.started, r.ids = append(r.started, n.ID), append(r.ids, id)
	}
	return id, r.lost
}

func newWorld(t testing.TB, db *store.DB, clock *storetest.Clock) *world {
	t.Helper()
	w := &world{t: t, db: db, clock: clock, agents: &agents{}, runs: &runs{}}
	w.region = &maassim.Region{
		Seed: 3, Now: clock.Now, Sleep: func(context.Context, time.Duration) error { return nil },
		Networks: []maassim.Network{{VID: 46, CIDR: "10.10.0.0/16", Gateway: "10.10.0.1", DHCP: true}},
	}
	s := broker.NewSite("00000000-0000-4000-8000-000000000001")
	s.Name, s.RegionCode, s.APIBaseURL, s.PXEIface, s.NodePXEIface, s.PXEVLANVID = "dc1", "eu-1", maassim.URL, "ens19", "eno8303", 46
	p := broker.NewProfile("00000000-0000-4000-8000-000000000002", s.ID, broker.DefaultProfile)
	var err error
	w.site, err = db.CreateSite(t.Context(), ada, s, p)
	w.ok(err)
	secrets := kept{}
	key, err := maas.ParseKey(w.region.APIKey())
	w.ok(err)
	w.ok(maas.PutToken(t.Context(), secrets, w.site, key))
	w.regions = &maas.Sites{Secrets: secrets, Now: clock.Now, Transport: func(broker.Site) http.RoundTripper { return w }}
	w.boot()
	return w
}

// boot makes a broker that begins to lead.
func (w *world) boot() {
	w.watch = &reconcile.Watch{DB: w.db, Regions: w.regions, Now: w.clock.Now, Log: zap.NewNop(), Reseed: w.agents, Decommission: w.runs}
}

func onSQLite(t testing.TB) *world {
	t.Helper()
	clock := storetest.NewClock()
	return newWorld(t, storetest.Open(t, "sqlite", clock.Now), clock)
}

// RoundTrip sends a request to the region.
func (w *world) RoundTrip(req *http.Request) (*http.Response, error) {
	if op := req.URL.Query().Get("op"); req.Method != http.MethodGet || op != "" && op != "whoami" {
		w.t.Errorf("the reconciler asks MAAS for more than to be read: %s %s", req.Method, req.URL)
	}
	if w.guard != nil {
		if res, err := w.guard(req); res != nil || err != nil {
			return res, err
		}
	}
	return w.region.RoundTripper().RoundTrip(req)
}

func (w *world) ok(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// machine arranges a deployed machine in MAAS, and its node in the store.
func (w *world) machine(marked bool, status broker.NodeStatus) (node broker.Node, systemID string) {
	w.t.Helper()
	w.count++
	id := fmt.Sprintf("n-%04d", w.count)
	a := maassim.Arranged{Hostname: "gpu-" + id, Hardware: maassim.Box(w.count), Status: maassim.Deployed, Owner: "admin", Series: "ubuntu/noble", PowerOn: true, HWSync: true, Token: true}
	if marked {
		a.Annotations = map[string]string{"hostler-node": id, "hostler-run": "r-" + id}
	}
	systemID = w.region.Arrange(a)
	return w.node(id, systemID, status), systemID
}

// node stores a node that is bound to a machine.
func (w *world) node(id, systemID string, status broker.NodeStatus) broker.Node {
	w.t.Helper()
	hash := "hash-" + id
	_, err := w.db.CreateNode(w.t.Context(), ada, store.NewNode{ID: id, Hostname: "gpu-" + id, Site: w.site.Name, MAASSystemID: systemID, TokenHash: hash, TokenExpires: w.clock.Now().Add(time.Hour)})
	w.ok(err)
	_, err = w.db.Enroll(w.t.Context(), store.EnrollInput{TokenHash: hash, PublicKeyDigest: "key-" + id, MAASSystemID: systemID, Issue: func(broker.Node, int64) (store.IssuedCert, error) {
		return store.IssuedCert{Serial: "serial-" + id, PublicKey: []byte(id), NotAfter: w.clock.Now().Add(time.Hour)}, nil
	}})
	w.ok(err)
	w.heard(id)
	w.move(id, broker.Active, broker.OwnerOnboarding)
	switch status {
	case broker.Active:
	case broker.Offline:
		w.move(id, status, broker.OwnerHeartbeat)
	case broker.Quarantined:
		w.move(id, status, broker.OwnerOperator)
	default:
		w.move(id, broker.Draining, broker.OwnerOperator)
		if status == broker.Retired {
			w.move(id, status, broker.OwnerDrain)
		}
	}
	return w.now(id)
}

func (w *world) move(id string, to broker.NodeStatus, by broker.Owner) {
	w.t.Helper()
	_, err := w.db.Transition(w.t.Context(), broker.Actor{Name: "test"}, id, store.Change{To: to, By: by, Reason: "test"})
	w.ok(err)
}

func (w *world) now(id string) broker.Node {
	w.t.Helper()
	n, err := w.db.Node(w.t.Context(), id)
	w.ok(err)
	return n
}

func (w *world) state(id string) store.MAASState {
	w.t.Helper()
	s, _, err := w.db.MAASState(w.t.Context(), id)
	w.ok(err)
	return s
}

// modes sets rules to a mode.
func (w *world) modes(mode reconcile.Mode, rules ...string) {
	w.t.Helper()
	w.policy(func(p *reconcile.Policy) {
		for _, r := range rules {
			p.Modes[r] = mode
		}
	})
}

// acting sets every rule to act but the rule about retired nodes.
func (w *world) acting() {
	w.t.Helper()
	for _, r := range reconcile.Rules {
		if r.ID != reconcile.Unmanaged && r.ID != "retired_deployed" {
			w.modes(reconcile.Act, r.ID)
		}
	}
}

func (w *world) policy(change func(*reconcile.Policy)) {
	w.t.Helper()
	_, err := w.db.ChangeReconcilePolicy(w.t.Context(), ada, w.site.Name, "test", func(raw json.RawMessage) (json.RawMessage, error) {
		p, err := reconcile.PolicyOf(raw)
		if err != nil {
			return nil, err
		}
		if p.Modes == nil {
			p.Modes = map[string]reconcile.Mode{}
		}
		change(&p)
		if err := p.Check(); err != nil {
			return nil, err
		}
		return json.Marshal(p)
	})
	w.ok(err)
}

// heard records a contact of the nodes' agents now.
func (w *world) heard(ids ...string) {
	w.t.Helper()
	at := map[string]time.Time{}
	for _, id := range ids {
		at[id] = w.clock.Now()
	}
	w.ok(w.db.TouchNodes(w.t.Context(), at))
}

// look looks once.
func (w *world) look() {
	w.t.Helper()
	w.ok(w.watch.Look(w.t.Context(), w.site))
	if looks, err := w.db.ReconcileLooks(w.t.Context(), nil); err != nil || !w.blind && looks[0].Trouble != "" {
		w.t.Fatalf("the site cannot be read: %v %+v", err, looks)
	}
}

// twice looks, and once more when a second observation can confirm the first.
func (w *world) twice() {
	w.t.Helper()
	w.clock.Advance(2 * time.Second)
	w.look()
	w.clock.Advance(31 * time.Second)
	w.look()
}

// is checks a node's status and its open drift, empty for none.
func (w *world) is(id string, status broker.NodeStatus, rule string) {
	w.t.Helper()
	n, s := w.now(id), w.state(id)
	open := ""
	if s.Drift {
		open = s.Rule
	}
	if n.Status != status || open != rule {
		w.t.Errorf("node %s is %s (%s) with drift %q, want %s with %q", id, n.Status, n.StatusReason, open, status, rule)
	}
}

// admin makes a call of MAAS as a person beside the broker.
func (w *world) admin(systemID, op string, params url.Values) {
	w.t.Helper()
	w.call("machines/"+systemID, op, params)
}

func (w *world) call(at, op string, params url.Values) {
	w.t.Helper()
	w.nonce++
	part := strings.Split(w.region.APIKey(), ":")
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, maassim.URL+"/api/2.0/"+at+"/?op="+op, strings.NewReader(params.Encode()))
	w.ok(err)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Authorization", fmt.Sprintf(`OAuth oauth_consumer_key="%s", oauth_token="%s", oauth_signature_method="PLAINTEXT", oauth_signature="%s", oauth_timestamp="%d", oauth_nonce="hand%d", oauth_version="1.0"`,
		part[0], part[1], url.QueryEscape("&"+part[2]), w.clock.Now().Unix(), w.nonce))
	res, err := w.region.RoundTripper().RoundTrip(req)
	w.ok(err)
	body, _ := io.ReadAll(res.Body)
	if res.StatusCode/100 != 2 {
		w.t.Fatalf("%s of %s: %d %s", op, at, res.StatusCode, body)
	}
}

// redeploys releases a machine and deploys it again, as somebody would at MAAS's own command line.
func (w *world) redeploys(systemID string, until time.Duration) {
	w.t.Helper()
	w.admin(systemID, "release", nil)
	w.clock.Advance(10 * time.Minute)
	w.call("machines", "allocate", url.Values{"system_id": {systemID}})
	w.admin(systemID, "deploy", url.Values{"distro_series": {"noble"}})
	w.clock.Advance(until)
}

// run starts a run that has a node until end is called.
func (w *world) run(nodeID, id string) (end func()) {
	w.t.Helper()
	ended := false
	e, err := chain.New(w.db, chain.Classes{}, chain.Options{}, chain.Chain[struct{}]{Kind: "test-" + nodeID, Stages: []chain.Stage[struct{}]{{
		Name: "hold", Do: func(context.Context, *chain.Run[struct{}]) error {
			if !ended {
				return chain.Again(time.Second, "the test says when")
			}
			return nil
		},
	}}})
	w.ok(err)
	r, err := e.Start(w.t.Context(), chain.Start{ID: id, Kind: "test-" + nodeID, Site: w.site.Name, Subject: nodeID, State: struct{}{}, Locks: []string{"node/" + nodeID}, RequestedBy: "ada"})
	w.ok(err)
	return func() {
		w.t.Helper()
		ended = true
		w.clock.Advance(time.Minute)
		for worked := true; worked; {
			worked, err = e.Step(w.t.Context())
			w.ok(err)
		}
		if r, err = w.db.Run(w.t.Context(), r.ID); err != nil || !r.Status.Ended() {
			w.t.Fatalf("the run is %s: %v", r.Status, err)
		}
	}
}

// alerts counts audit rows.
func (w *world) alerts(action, code string) int {
	w.t.Helper()
	rows, err := w.db.ListAudit(w.t.Context(), store.AuditFilter{Action: action, Code: code, Limit: 10000})
	w.ok(err)
	return len(rows)
}

var errAway = errors.New("no route to host")
