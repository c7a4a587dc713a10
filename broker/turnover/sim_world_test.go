//go:build !race

package turnover_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/chain/chaintest"
	"github.com/hostler/hostler/broker/maas"
	"github.com/hostler/hostler/broker/onboarding"
	"github.com/hostler/hostler/broker/onboarding/onboardingtest"
	"github.com/hostler/hostler/broker/reconcile"
	"github.com/hostler/hostler/broker/sshseed"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/turnover"
	"github.com/hostler/hostler/broker/turnover/turnovertest"
	"github.com/hostler/hostler/taskcatalog/hwsync"
	"github.com/hostler/hostler/test/maassim"
)

// simulation is a site with nodes, driven by chance.
type simulation struct {
	t         testing.TB
	seed      uint64
	by        *rand.Rand
	clock     *chaintest.Clock
	region    *maassim.Region
	secrets   kept
	records   *onboardingtest.Book
	site      broker.Site
	profile   broker.Profile
	sku       broker.SKU
	book      *turnovertest.Book
	nodes     turnover.Nodes // the chains' view
	store     *chaintest.Memory
	lossy     *chaintest.Lossy
	engine    *chain.Engine
	second    *chain.Engine // of another broker at the same store; nil: a single broker
	drifts    *drifts
	through   http.RoundTripper // the reconciler's way to the region
	leavers   reconcile.Decommissioner
	watch     *reconcile.Watch
	brokers   int
	boxes     []*box
	runs      []*begun
	plan      []event // future events, the next first
	happened  []string
	counts    map[string]int
	told      bool
	certified int // checked certificates

	began      time.Time
	look       looking
	heard      time.Time       // when agents were last let in
	unmended   bool            // unclean parts are not repaired
	calmed     bool            // no more troubles
	away       bool            // agents of deployed machines stay away
	watching   bool            // the reconciler looks
	tenants    int             // so far
	bystanders map[string]bool // by system_id: outside Hostler

	// State of the present step.
	stepping     string          // the run
	steppedAt    time.Time       // since when
	seen         map[string]bool // machines read in the step
	within       bool            // another broker's step, within a call of this broker
	dies         bool            // its broker dies before the save
	unansweredAt time.Time       // the region did not identify itself, or refused the key
}

// box is a machine and its node.
type box struct {
	id, hostname, serial, systemID string // systemID empty: no machine in MAAS
	adopted                        bool

	was    broker.NodeStatus // at the last look
	epoch  int64             // then
	passed bool              // a person has let it in past its turnover
	since  time.Time         // start of the present status
	stays  bool              // a person wants it to stay retired
	// conflictAt is the last identity conflict that nobody has resolved.
	conflictAt time.Time
	fault      []span // times in which it was unclean, whatever the reports say
}

// span is a time; to is zero while it lasts.
type span struct{ from, to time.Time }

// begun is a run.
type begun struct {
	id       string
	box      *box
	req      turnover.Request
	owed     bool // a turnover was owed before
	taken    bool // it has the node out of service
	handed   bool // it has handed the node out, and not taken it since
	removed  bool // its node was deleted: a rerun has nothing to do
	drift    bool // begun by the reconciler
	raw      json.RawMessage
	state    turnover.Turnover // the decoded state
	over     bool              // its end was seen
	frozen   bool              // a person has stopped it (MarkManual) in the middle of its work
	adopted  time.Time         // last adoption of the present state by a person
	passes   int               // operators' actions, each of which may lead to another deployment
	deployed int               // deployments carried out
}

type event struct {
	at time.Time
	do func()
}

func newSimulation(t testing.TB, seed uint64, with func(*simulation)) *simulation {
	s := &simulation{
		t: t, seed: seed, by: rand.New(rand.NewPCG(seed, 5)), clock: chaintest.NewClock(), secrets: kept{},
		counts: map[string]int{}, seen: map[string]bool{}, bystanders: map[string]bool{},
	}
	s.began = s.clock.Now()
	s.region = &maassim.Region{
		Version: pick(s, "3.4", "3.5", "3.6"), Seed: seed, Now: s.clock.Now, Timing: maassim.Usual.Faster(3),
		Sleep:    func(_ context.Context, d time.Duration) error { s.clock.Advance(d); return nil },
		Networks: []maassim.Network{{VID: 46, CIDR: "10.10.0.0/22", Gateway: "10.10.0.1", DHCP: true}, {Fabric: "roce", CIDR: "172.30.9.60/31"}},
	}
	s.records = &onboardingtest.Book{Now: s.clock.Now}
	s.book = turnovertest.New(t, s.clock.Now)
	s.book.InRun = func(id string) string {
		if r := s.live(id); r != nil {
			return r.id
		}
		return ""
	}
	s.nodes = s.book
	s.drifts = &drifts{s: s, states: map[string]store.MAASState{}}
	s.through, s.leavers = watched{s}, leavingRuns{s}
	s.store = chaintest.NewMemory(s.clock.Now)
	s.lossy = &chaintest.Lossy{Store: s.store}
	s.places()
	for n := range 2 + s.by.IntN(2) {
		s.add(n + 1)
	}
	s.bystander()
	if with != nil {
		with(s)
	}
	s.engine = s.broker()
	if s.chance(50) {
		s.second = s.broker()
	}
	s.people()
	s.troubles()
	s.watches()
	s.lossy.Saved = s.saved
	s.lossy.Claimed = func(r chain.Record) { s.stepping, s.steppedAt = r.ID, s.clock.Now() }
	s.lossy.Fate = func(int) chaintest.Fate {
		if s.dies {
			s.dies = false
			return chaintest.Lost
		}
		if s.by.IntN(150) == 0 {
			return chaintest.Fate(1 + s.by.IntN(2))
		}
		return chaintest.Done
	}
	return s
}

func (s *simulation) chance(percent int) bool { return s.by.IntN(100) < percent }

// pick draws an element.
func pick[T any](s *simulation, of ...T) T { return of[s.by.IntN(len(of))] }

// until draws a duration up to a limit.
func (s *simulation) until(most time.Duration) time.Duration {
	return time.Duration(s.by.Int64N(int64(most/time.Second))) * time.Second
}

// unreached are machines without an SSH answer.
type unreached struct{}

var errUnreached = errors.New("connection refused")

func (unreached) HostKey(context.Context, sshseed.Host) (string, netip.Addr, error) {
	return "", netip.Addr{}, errUnreached
}

func (unreached) Seed(context.Context, sshseed.Host, hwsync.Files) (netip.Addr, error) {
	return netip.Addr{}, errUnreached
}

// broker is another broker on the same store.
func (s *simulation) broker() *chain.Engine {
	s.t.Helper()
	s.brokers++
	l := &onboarding.Chains{
		Regions: &maas.Sites{Secrets: s.secrets, Now: s.clock.Now, Transport: func(broker.Site) http.RoundTripper { return s }},
		Records: s.records, Nodes: turnovertest.ReimageNodes{Book: s.book}, SSH: unreached{},
	}
	e, err := chain.New(s.lossy, classes(), chain.Options{Owner: fmt.Sprint("broker ", s.brokers)}, (&turnover.Chains{Nodes: took{s.nodes, s}, MAAS: l}).All()...)
	if err != nil {
		s.t.Fatal(err)
	}
	return e
}

// took notes which runs have taken their node.
type took struct {
	turnover.Nodes
	s *simulation
}

func (n took) Disable(ctx context.Context, id, runID, reason string, from broker.NodeStatus, ends []string) ([]broker.Occupant, error) {
	before := n.s.book.Machine(id)
	forced, err := n.Nodes.Disable(ctx, id, runID, reason, from, ends)
	if r := n.s.runOf(runID); r != nil && err == nil {
		if r.drift && !r.taken {
			n.s.tookForDrift(r, before)
		}
		r.taken = true
	}
	return forced, err
}

func (s *simulation) runOf(id string) *begun {
	if i := slices.IndexFunc(s.runs, func(r *begun) bool { return r.id == id }); i >= 0 {
		return s.runs[i]
	}
	return nil
}

// live is the run that has a node; nil: none.
func (s *simulation) live(nodeID string) *begun {
	for _, r := range s.runs {
		if r.box.id != nodeID || r.over {
			continue
		}
		if r.over = s.run(r.id).Status.Ended(); !r.over {
			return r
		}
	}
	return nil
}

func (s *simulation) later(d time.Duration, do func()) {
	s.plan = append(s.plan, event{s.clock.Now().Add(d), do})
	slices.SortStableFunc(s.plan, func(a, b event) int { return a.at.Compare(b.at) })
}

// say notes an event for readers of the story.
func (s *simulation) say(format string, args ...any) {
	s.happened = append(s.happened, s.clock.Now().Format(time.TimeOnly)+" "+fmt.Sprintf(format, args...))
}

func (s *simulation) wrong(format string, args ...any) {
	s.t.Helper()
	s.t.Errorf("seed %d, %s: %s", s.seed, s.clock.Now().Format(time.TimeOnly), fmt.Sprintf(format, args...))
}

func (s *simulation) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Error(err)
	}
}
