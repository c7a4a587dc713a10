package onboarding_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/chain/chaintest"
	"github.com/hostler/hostler/broker/maas"
	"github.com/hostler/hostler/broker/onboarding"
	"github.com/hostler/hostler/broker/onboarding/onboardingtest"
	"github.com/hostler/hostler/test/maassim"
)

var (
	ctx = context.Background()
	ada = chain.Actor{Name: "ada", Role: "operator"}
)

// roundTrip is a function that answers requests.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// kept keeps secrets in memory.
type kept map[string][]byte

func (k kept) Get(_ context.Context, path string) ([]byte, error) {
	if v, ok := k[path]; ok {
		return append([]byte(nil), v...), nil
	}
	return nil, broker.Errorf(broker.NotFound, "secret_not_found", "no")
}

func (k kept) Put(_ context.Context, path string, v []byte) error {
	k[path] = append([]byte(nil), v...)
	return nil
}

// world is a broker with one site, whose region is simulated in process. Nothing in it waits: the
// clock is moved.
type world struct {
	t       testing.TB
	clock   *chaintest.Clock
	region  *maassim.Region
	secrets *vault
	book    *onboardingtest.Book
	site    broker.Site
	profile broker.Profile
	sku     broker.SKU
	store   chain.Store
	memory  *chaintest.Memory // the usual store, unless a test has replaced it
	lossy   *chaintest.Lossy
	engine  *chain.Engine
	brokers int
	only    []string // stages that the engine runs; nil: all
	// patience is how long settle goes on for, by the clock; 0: until the end.
	patience time.Duration
	silent   bool              // agents stay away
	heard    time.Time         // when agents last had a chance to enrol
	guard    http.RoundTripper // before the region; nil: none
	doors    *doors            // of the machines
	behind   time.Duration     // how far the brokers' own clocks are behind the store's
}

// vault keeps secrets, and can be down.
type vault struct {
	kept
	down bool
}

func (v *vault) Get(ctx context.Context, path string) ([]byte, error) {
	if v.down {
		return nil, broker.Errorf(broker.Unavailable, "secrets_unavailable", "cannot read secret %s: it is sealed", path)
	}
	return v.kept.Get(ctx, path)
}

// RoundTrip sends a request to the region.
func (w *world) RoundTrip(req *http.Request) (*http.Response, error) {
	return w.guarded().RoundTrip(req)
}

// guarded returns the region behind the present guard.
func (w *world) guarded() http.RoundTripper {
	if w.guard != nil {
		return w.guard
	}
	return w.region.RoundTripper()
}

// guardFunc is a guard in one function.
type guardFunc func(*http.Request) (*http.Response, error)

// RoundTrip calls f.
func (f guardFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// twice reads a body once and returns two copies.
func twice(t testing.TB, body io.ReadCloser) (a, b io.ReadCloser) {
	t.Helper()
	raw, err := io.ReadAll(body)
	if err != nil {
		t.Fatal(err)
	}
	return io.NopCloser(bytes.NewReader(raw)), io.NopCloser(bytes.NewReader(raw))
}

// classes returns the broker's failure classes, as the engine takes them.
func classes() chain.Classes {
	out := chain.Classes{}
	for _, h := range broker.FailureHandlings {
		ends := chain.FailedRetryable
		if h.Person {
			ends = chain.FailedManual
		}
		out[chain.Class(h.Class)] = chain.Handling{Retry: h.Retry, Rescue: h.Rescue, Ends: ends, NextAction: h.NextAction(), UndoAction: h.UndoAction()}
	}
	return out
}

func newWorld(t testing.TB, version string) *world {
	t.Helper()
	w := &world{t: t, clock: chaintest.NewClock(), secrets: &vault{kept: kept{}}}
	w.region = &maassim.Region{
		Version: version, Seed: 7, Now: w.clock.Now,
		Sleep:    func(_ context.Context, d time.Duration) error { w.clock.Advance(d); return nil },
		Networks: []maassim.Network{{VID: 46, CIDR: "10.10.0.0/22", Gateway: "10.10.0.1", DHCP: true}, {Fabric: "roce", CIDR: "172.30.9.60/31"}},
	}
	w.book = &onboardingtest.Book{Now: w.clock.Now}
	w.site = broker.NewSite("site-1")
	w.site.Name, w.site.APIBaseURL, w.site.PXEIface, w.site.NodePXEIface, w.site.PXEVLANVID = "dc1", maassim.URL, "ens19", "eno8303", 46
	w.book.PutSite(w.site)
	w.profile = broker.NewProfile("profile-1", w.site.ID, "default")
	w.sku = broker.NewSKU()
	w.sku.ID, w.sku.NICs = "h100.8gpu", []string{"eno8303", "eno8403"}
	w.credentials(w.region.APIKey())
	w.deployKey()
	w.doors = &doors{world: w}
	w.lossy = &chaintest.Lossy{}
	w.freshStore()
	w.boot()
	return w
}

// boot starts a broker, in place of one that died.
func (w *world) boot() { w.engine = w.broker() }

// broker makes another broker on the same store.
func (w *world) broker() *chain.Engine {
	w.t.Helper()
	w.brokers++
	l := w.chains()
	list := l.Onboarding()
	if w.only != nil {
		list.Stages = slices.DeleteFunc(list.Stages, func(s chain.Stage[onboarding.Onboarding]) bool { return !slices.Contains(w.only, s.Name) })
	}
	e, err := chain.New(w.lossy, classes(), chain.Options{Owner: fmt.Sprint("broker ", w.brokers)}, list, l.Adoption(), reimage(l), removal(l))
	if err != nil {
		w.t.Fatal(err)
	}
	return e
}

func (w *world) chains() *onboarding.Chains {
	return &onboarding.Chains{
		Regions: &maas.Sites{Secrets: w.secrets, Now: func() time.Time { return w.clock.Now().Add(-w.behind) }, Transport: func(broker.Site) http.RoundTripper { return w }},
		Records: w.book, Nodes: w.book, SSH: w.doors,
	}
}

func (w *world) credentials(token string) {
	w.t.Helper()
	key, err := maas.ParseKey(token)
	if err == nil {
		err = maas.PutToken(ctx, w.secrets, w.site, key)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// login makes the BMC's credentials the site's own.
func (w *world) login(b maassim.BMC) {
	w.t.Helper()
	p, err := maas.NewPower(b.User, b.Password)
	if err == nil {
		err = maas.PutPower(ctx, w.secrets, w.site.PowerPath, p)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// box returns hardware whose BMC takes the site's login.
func (w *world) box(n int) maassim.Hardware {
	b := maassim.Box(n)
	b.BMC.User, b.BMC.Password = "root", "bmc-secret"
	w.login(b.BMC)
	return b
}

// start begins a run for the n-th box, under the hostname c<n>.
func (w *world) start(n int) string {
	w.t.Helper()
	return w.onboard(fmt.Sprintf("r%d", n), onboarding.Request{Hostname: hostname(n), IPMIIP: maassim.Box(n).BMC.Address})
}

func hostname(n int) string { return fmt.Sprintf("c%02d", n) }

func (w *world) onboard(id string, req onboarding.Request) string {
	w.t.Helper()
	state, locks, err := onboarding.New(w.site, w.profile, w.sku, req)
	if err != nil {
		w.t.Fatal(err)
	}
	_, err = w.engine.Start(ctx, chain.Start{ID: id, Kind: onboarding.Kind, Site: w.site.Name, State: state, Locks: locks, RequestedBy: "ada"})
	if err != nil {
		w.t.Fatal(err)
	}
	return id
}

// agents enrols the agents of running machines, by their user-data.
func (w *world) agents() {
	now := w.clock.Now()
	if w.silent || now.Sub(w.heard) < 5*time.Second {
		return
	}
	w.heard = now
	for _, m := range w.region.Machines() {
		if m.HostUp && m.Status == maassim.Deployed {
			w.book.Enroll(m.UserData)
		}
	}
}

// settle runs until nothing is due any more. before is called before each step.
func (w *world) settle(before func()) {
	w.t.Helper()
	begun := w.clock.Now()
	for range 20000 {
		if w.patience > 0 && w.clock.Now().Sub(begun) > w.patience {
			return
		}
		if before != nil {
			before()
		}
		w.agents()
		worked, err := w.engine.Step(ctx)
		if errors.Is(err, chaintest.ErrKilled) {
			w.boot()
		} else if err != nil && !errors.Is(err, chain.ErrLost) {
			w.t.Fatal(err)
		}
		if worked {
			continue
		}
		next, err := w.store.NextDue(ctx)
		if err != nil {
			w.t.Fatal(err)
		}
		if next.IsZero() {
			if runs, _ := w.store.Runs(ctx, chain.Filter{Statuses: []chain.Status{chain.Pending, chain.Running, chain.Compensating}}); len(runs) == 0 {
				return
			}
			next = w.clock.Now().Add(time.Second)
		}
		w.clock.AdvanceTo(next)
	}
	runs, _ := w.store.Runs(ctx, chain.Filter{})
	for _, r := range runs {
		w.t.Logf("%s at %s is %s, due %v, attempt %d: %s %s", r.ID, r.Stage, r.Status, r.DueAt.Sub(w.clock.Now()), r.Attempt, r.Waiting, chaintest.Story(w.history(r.ID)))
	}
	w.t.Fatalf("it does not come to an end in %v", w.clock.Now().Sub(begun))
}

func (w *world) act(id string, a chain.Action) {
	w.t.Helper()
	if _, err := w.engine.Act(ctx, chain.Order{ID: id, Actor: ada, Action: a, Reason: "because"}); err != nil {
		w.t.Fatalf("%s: %v", a, err)
	}
}

func (w *world) run(id string) chain.Record {
	w.t.Helper()
	r, err := w.store.Run(ctx, id)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

func (w *world) history(id string) []chain.Event {
	w.t.Helper()
	events, err := w.store.Events(ctx, id)
	if err != nil {
		w.t.Fatal(err)
	}
	return events
}

// story returns the history of a run from the stage where it left the happy path.
func (w *world) story(id string) string { return chaintest.Story(w.history(id)) }

// machine returns the machine with a serial, as MAAS has it.
func (w *world) machine(serial string) maassim.Machine {
	w.t.Helper()
	all := w.region.Machines()
	i := slices.IndexFunc(all, func(m maassim.Machine) bool { return m.Serial == serial })
	if i < 0 {
		return maassim.Machine{}
	}
	return all[i]
}

// node returns the latest node with a hostname.
func (w *world) node(hostname string) broker.Node {
	var n broker.Node
	for _, one := range w.book.All() {
		if one.Hostname == hostname {
			n = one
		}
	}
	return n
}

// happy is the story without a fault, up to but not including a stage; "": the whole list.
func happy(upTo string) string { return happyOf(stages, upTo) }

// happyOf is happy for another list of stages.
func happyOf(list []string, upTo string) string {
	var words []string
	for _, s := range list {
		if s == upTo {
			break
		}
		words = append(words, s+":succeeded")
	}
	return strings.Join(words, " ")
}

var stages = strings.Fields(`load_site_config resolve_power_credentials create_or_find_in_maas commission_node wait_for_ready configure_storage
	apply_roce_phase2 ensure_pxe_interface_auto render_cloud_init deploy_via_maas wait_for_deployed
	ensure_hardware_sync_configured wait_for_hardware_sync_healthy wait_for_agent_enrollment`)

// call sends a call with the broker's own key, past the broker.
func (w *world) call(method, at, form string) {
	w.t.Helper()
	if res := w.try(method, at, form); res.StatusCode != http.StatusOK {
		w.t.Fatalf("%s: %v", at, res.Status)
	}
}

// try is call without a check of the answer.
func (w *world) try(method, at, form string) *http.Response {
	w.t.Helper()
	req, err := http.NewRequest(method, maassim.URL+"/api/2.0/"+at, strings.NewReader(form))
	if err != nil {
		w.t.Fatal(err)
	}
	key := strings.Split(w.region.APIKey(), ":")
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Authorization", fmt.Sprintf(`OAuth oauth_consumer_key="%s", oauth_token="%s", oauth_signature_method="PLAINTEXT", oauth_signature="%%26%s", oauth_timestamp="%d", oauth_nonce="by hand %d", oauth_version="1.0"`,
		key[0], key[1], key[2], w.clock.Now().Unix(), w.clock.Now().UnixNano()))
	res, err := w.region.RoundTripper().RoundTrip(req)
	if err != nil {
		w.t.Fatal(err)
	}
	return res
}

// freshStore gives the world a new, empty store.
func (w *world) freshStore() {
	w.memory = chaintest.NewMemory(w.clock.Now)
	w.store, w.lossy.Store = w.memory, w.memory
}

// unlink removes all links of the machine's interfaces, by hand.
func (w *world) unlink(systemID string) {
	w.t.Helper()
	for id := 1; id < 20; id++ {
		for link := 1; link < 20; link++ {
			w.clock.Advance(time.Millisecond)
			w.try("POST", fmt.Sprintf("nodes/%s/interfaces/%d/?op=unlink_subnet", systemID, id), fmt.Sprintf("id=%d", link))
		}
	}
}
