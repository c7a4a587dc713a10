//go:build !race

package onboarding_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/chain/chaintest"
	"github.com/hostler/hostler/broker/onboarding"
	"github.com/hostler/hostler/broker/store/storetest"
	"github.com/hostler/hostler/test/maassim"
)

var (
	simSeeds = flag.Int("sim.n", 200, "how many seeds the simulation plays")
	simSeed  = flag.Int64("sim.seed", -1, "play this seed alone")
	simFirst = flag.Int64("sim.first", 0, "the first seed")
)

// TestSimulation plays onboardings at a site with faults: in the region's answers and its machines,
// by people who act by hand, by operators, and by the broker itself, which dies at any save. Often
// there are two brokers, and one steps while the other waits for an answer. Time is simulated, and
// everything follows from the seed. The invariants are checked at each call and each save.
func TestSimulation(t *testing.T) {
	first, n := *simFirst, int64(*simSeeds)
	switch {
	case *simSeed >= 0:
		first, n = *simSeed, 1
	case testing.Short():
		n = min(n, 50)
	}
	var ended [4]atomic.Int64
	var entered, together atomic.Int64
	var played atomic.Int64
	if n > 1000 {
		defer progress(&played, n)()
	}
	t.Run("seeds", func(t *testing.T) {
		const lanes = 4
		for lane := range int64(lanes) {
			t.Run(fmt.Sprint(lane), func(t *testing.T) {
				t.Parallel()
				for seed := first + lane; seed < first+n && !t.Failed(); seed += lanes {
					playSeed(t, uint64(seed), nil, func(s *simulation) {
						for _, id := range s.ids {
							ended[outcome(s.run(id).Status)].Add(1)
						}
						entered.Add(int64(s.entered))
						together.Add(int64(s.together))
					})
					played.Add(1)
				}
			})
		}
	})
	t.Logf("runs: %d completed or reconciled, %d cancelled, %d stopped; SSH asked %d times; %d steps of one broker within another's", ended[0].Load(), ended[1].Load(), ended[2].Load(), entered.Load(), together.Load())
	if n >= 100 && (ended[0].Load() == 0 || ended[1].Load() == 0 || ended[2].Load() == 0 || entered.Load() == 0 || together.Load() == 0) {
		t.Error("the simulation does not reach every end")
	}
}

// progress prints how far a long simulation has come, until stop is called.
func progress(played *atomic.Int64, of int64) (stop func()) {
	begun, tick, ended := time.Now(), time.NewTicker(10*time.Second), make(chan struct{})
	tell := func() {
		n := played.Load()
		rate := float64(n) / time.Since(begun).Seconds()
		fmt.Fprintf(os.Stderr, "%s: %d of %d seeds, %.1f a second, %v to go\n", time.Now().Format(time.TimeOnly), n, of, rate, time.Duration(float64(of-n)/max(rate, 0.1)*1e9).Round(time.Second))
	}
	go func() {
		for {
			select {
			case <-tick.C:
				tell()
			case <-ended:
				return
			}
		}
	}()
	return func() {
		tick.Stop()
		close(ended)
		tell()
	}
}

// A seed always plays the same.
func TestASeedPlaysTheSameAgain(t *testing.T) {
	for seed := range uint64(5) {
		var told [2]string
		for i := range told {
			s := newSimulation(t, seed)
			s.play()
			for _, id := range s.ids {
				for _, e := range s.history(id) {
					told[i] += fmt.Sprintln(e.At, e.RunID, e.Stage, e.Direction, e.Attempt, e.Status, e.Message)
				}
			}
		}
		if told[0] != told[1] || told[0] == "" {
			t.Errorf("seed %d: two plays differ\n%s\n%s", seed, told[0], told[1])
		}
	}
}

// TestSimulationOnEachEngine plays some of the seeds on the stores that brokers use.
func TestSimulationOnEachEngine(t *testing.T) {
	n := min(int64(*simSeeds), 20)
	if testing.Short() {
		n = 3
	}
	for _, engine := range storetest.Engines {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			for seed := *simFirst; seed < *simFirst+n && !t.Failed(); seed++ {
				playSeed(t, uint64(seed), func(now func() time.Time) chain.Store { return storetest.Open(t, engine, now) }, func(*simulation) {})
			}
		})
	}
}

// playSeed plays one seed, on a store in memory where open is nil.
func playSeed(t *testing.T, seed uint64, open func(now func() time.Time) chain.Store, ended func(*simulation)) {
	defer func() {
		if t.Failed() {
			t.Logf("play it again: go test ./broker/onboarding -run TestSimulation -sim.seed %d", seed)
		}
	}()
	s := newSimulation(t, seed)
	if open != nil {
		s.store = open(s.clock.Now)
		s.lossy.Store = s.store
	}
	s.play()
	ended(s)
}

func outcome(s chain.Status) int {
	switch {
	case s == chain.Completed || s == chain.Reconciled:
		return 0
	case s == chain.Cancelled:
		return 1
	case s.Stopped():
		return 2
	}
	return 3
}

// simulation is a world with random faults.
type simulation struct {
	*world
	seed uint64
	by   *rand.Rand
	ids  []string
	plan []event // future events, the next one first

	// Watched state.
	seen      map[string]bool   // machines that were looked at in this step
	holder    map[string]string // system_id → run that allocated it last
	bystander map[string]bool   // by system_id: machines that no run asked for
	passes    map[string]int    // run → operator's actions, each of which may lead to another deployment
	deployed  map[string]int    // run → deployments carried out
	entered   int               // number of SSH calls to machines

	unansweredAt time.Time       // the region did not identify itself, or refused the key
	second       *chain.Engine   // of another broker at the same store; nil: there is one broker
	within       bool            // the second broker steps during a call of the first
	together     int             // number of such steps
	stepping     string          // the run whose step this is
	began        time.Time       // when the step began
	dies         bool            // the broker dies before it saves the step
	letIn        map[string]bool // nodes that a person has activated while their run had stopped
}

type event struct {
	at time.Time
	do func()
}

func newSimulation(t testing.TB, seed uint64) *simulation {
	by := rand.New(rand.NewPCG(seed, 1))
	s := &simulation{
		world: newWorld(t, []string{"3.4", "3.5", "3.6"}[by.IntN(3)]), seed: seed, by: by,
		seen: map[string]bool{}, holder: map[string]string{}, bystander: map[string]bool{}, passes: map[string]int{}, deployed: map[string]int{},
		letIn: map[string]bool{},
	}
	s.region.Seed = seed
	s.region.Timing = maassim.Usual.Faster(3)
	s.guard = s
	s.policy()
	s.people()
	s.machines()
	s.troubles()
	s.ownTroubles()
	if s.chance(50) {
		s.second = s.broker()
	}
	s.silent, s.doors.closed, s.doors.unsynced = s.chance(15), s.chance(25), s.chance(20)
	s.doors.check = s.enters
	s.lossy.Saved = s.saved
	s.lossy.Claimed = func(r chain.Record) { s.stepping, s.began = r.ID, s.clock.Now() }
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

func (s *simulation) policy() {
	q := &s.profile.Policy
	q.HardwareSyncInterval = "5m"
	q.DiscoveryPowerCycle, q.StrictPXEPreflight, q.RequireHWSync = s.chance(50), s.chance(70), s.chance(85)
	q.AutoClaimSingleNewMachine, q.MaxDeployRetryAttempts = s.chance(10), s.by.IntN(3)
}

// machines puts hardware into racks: some for the runs, as MAAS may know it, and some for no run.
func (s *simulation) machines() {
	for i := range 1 + s.by.IntN(3) {
		n := 90 + i
		status := []maassim.Status{maassim.Ready, maassim.Allocated, maassim.Deployed, maassim.FailedDeployment, maassim.Broken}[s.by.IntN(5)]
		owner := ""
		if status != maassim.Ready && status != maassim.Broken {
			owner = []string{"admin", "bob"}[s.by.IntN(2)]
		}
		id := s.region.Arrange(maassim.Arranged{Hostname: hostname(n), Hardware: s.box(n), Status: status, Owner: owner, Series: "ubuntu/noble", PowerOn: s.chance(50)})
		s.bystander[id] = true
	}
	for n := 1; n <= 1+s.by.IntN(3); n++ {
		b := s.box(n)
		if s.chance(5) {
			b.NoPXE = true
		}
		switch s.by.IntN(4) {
		case 0:
			s.region.Arrange(maassim.Arranged{Hostname: hostname(n), Hardware: b, Status: maassim.Ready})
		case 1:
			s.region.Arrange(maassim.Arranged{Hostname: fmt.Sprintf("sly-%d", n), Hardware: b, Status: maassim.New, Uncommissioned: true})
		default:
			s.region.PlugIn(b)
		}
		req := onboarding.Request{Hostname: hostname(n), IPMIIP: b.BMC.Address}
		switch s.by.IntN(12) {
		case 0:
			req.Hostname = hostname(90) // a typo
		case 1:
			req.IPMIIP = maassim.Box(90).BMC.Address
		}
		id := fmt.Sprintf("r%d", n)
		s.ids = append(s.ids, id)
		profile := s.someProfile()
		s.fabric(hostname(n))
		s.later(time.Duration(s.by.IntN(300))*time.Second, func() {
			state, locks, err := onboarding.New(s.site, profile, s.sku, req)
			if err == nil {
				_, err = s.engine.Start(ctx, chain.Start{ID: id, Kind: onboarding.Kind, Site: s.site.Name, State: state, Locks: locks})
			}
			if locked := (*chain.Locked)(nil); errors.As(err, &locked) { // two with the same typo
				s.ids = slices.DeleteFunc(s.ids, func(other string) bool { return other == id })
			} else if err != nil {
				s.t.Error(err)
			}
		})
	}
}

func (s *simulation) later(d time.Duration, do func()) {
	s.plan = append(s.plan, event{s.clock.Now().Add(d), do})
	slices.SortStableFunc(s.plan, func(a, b event) int { return a.at.Compare(b.at) })
}

var operations = strings.Fields(`list power_parameters read create update query_power_state commission set_boot_disk set_storage_layout link_subnet subnets
	whoami allocate set_workload_annotations annotate deploy get_token events release get_config set_config version`)

// troubles draws faults, and an outage of the whole site.
func (s *simulation) troubles() {
	for range s.by.IntN(7) {
		f := maassim.Draw(s.by, operations...)
		s.later(time.Duration(s.by.IntN(2400))*time.Second, func() { s.region.Inject(f) })
	}
	if s.chance(30) {
		hands := []maassim.Kind{maassim.DeletedByHand, maassim.TakenByHand, maassim.ReadyByHand, maassim.LockedByHand}
		f := maassim.Fault{Kind: hands[s.by.IntN(len(hands))], Op: operations[s.by.IntN(len(operations))], After: time.Duration(s.by.IntN(1200)) * time.Second}
		s.later(time.Duration(s.by.IntN(1200))*time.Second, func() { s.region.Inject(f) })
	}
	if s.chance(20) {
		from := time.Duration(s.by.IntN(2400)) * time.Second
		freeze := chain.SiteHold{Site: s.site.Name, Kind: chain.Freeze, Reason: "storm"}
		s.later(from, func() { s.must(s.store.PlaceHold(ctx, ada, freeze)) })
		s.later(from+time.Duration(s.by.IntN(3*3600))*time.Second, func() { s.must(s.store.LiftHold(ctx, ada, s.site.Name, chain.Freeze, "over")) })
	}
	if s.chance(20) {
		from := time.Duration(s.by.IntN(2400)) * time.Second
		s.later(from, func() { s.region.Inject(maassim.Fault{Kind: maassim.Unreachable, Times: -1}) })
		s.later(from+time.Duration(s.by.IntN(4*3600))*time.Second, func() { s.region.Relent(maassim.Unreachable) })
	}
}

// people are operators who perform any action on any run at any moment.
func (s *simulation) people() {
	for range s.by.IntN(4) {
		s.later(time.Duration(s.by.IntN(5400))*time.Second, func() {
			if len(s.ids) > 0 {
				s.order(s.ids[s.by.IntN(len(s.ids))], chain.Actions[s.by.IntN(len(chain.Actions))])
			}
		})
	}
}

// caretaker renews the site's key when the site has been unreachable for a while.
func (s *simulation) caretaker() {
	holds, err := s.store.Holds(ctx, s.site.Name, s.clock.Now())
	if err != nil {
		s.t.Fatal(err)
	}
	for _, h := range holds {
		if h.Until.IsZero() && s.clock.Now().Sub(h.Since) > 30*time.Minute {
			s.credentials(s.region.RenewKeys("admin"))
		}
	}
	moving, err := s.store.Runs(ctx, chain.Filter{Statuses: []chain.Status{chain.Pending, chain.Running, chain.Compensating}})
	if err != nil || len(moving) > 0 || len(s.plan) > 0 {
		s.later(time.Hour, s.caretaker)
	}
}

// order performs an action that may be refused.
func (s *simulation) order(id string, a chain.Action) {
	_, err := s.engine.Act(ctx, chain.Order{ID: id, Actor: ada, Action: a, Reason: "because"})
	if no := (*chain.Refused)(nil); err != nil && !errors.As(err, &no) {
		s.t.Error(err)
	}
	if err == nil && a != chain.Cancel && a != chain.MarkManual {
		s.passes[id]++
	}
}

func (s *simulation) play() {
	s.due()
	s.later(time.Hour, s.caretaker)
	s.settle(s.turn)
	for round := 0; round < 3 && !s.t.Failed(); round++ {
		// Faults end, keys are renewed, and operators act on stopped runs.
		s.region.Relent()
		s.region.SetDHCP(true)
		s.credentials(s.region.RenewKeys("admin"))
		s.silent, s.doors.closed, s.doors.unsynced = false, false, false
		for _, id := range s.ids {
			if s.run(id).Status.Stopped() && s.chance(80) {
				s.order(id, []chain.Action{chain.Resume, chain.RetryStage, chain.Rerun, chain.RestartClean, chain.Cancel, chain.Adopt}[s.by.IntN(6)])
			}
		}
		s.settle(s.turn)
	}
	for _, id := range s.ids {
		if r := s.run(id); r.Status.Moving() {
			s.wrong("run %s is %s when nothing is due", id, r.Status)
		}
	}
	s.left()
}

// due performs the planned events until now. If no run is left, it advances the clock to the next
// event.
func (s *simulation) due() {
	clear(s.seen)
	if !s.unansweredAt.Equal(s.clock.Now()) { // runs that ask in one moment share an answer
		s.unansweredAt = time.Time{}
	}
	for len(s.plan) > 0 {
		if s.plan[0].at.After(s.clock.Now()) {
			runs, err := s.store.Runs(ctx, chain.Filter{Statuses: []chain.Status{chain.Pending, chain.Running, chain.Compensating}})
			if err != nil || len(runs) > 0 {
				return
			}
			s.clock.AdvanceTo(s.plan[0].at)
		}
		do := s.plan[0].do
		s.plan = s.plan[1:]
		do()
	}
}

func (s *simulation) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Error(err)
	}
}

func (s *simulation) wrong(format string, args ...any) {
	s.t.Helper()
	s.t.Errorf("seed %d, %s: %s", s.seed, s.clock.Now().Format(time.TimeOnly), fmt.Sprintf(format, args...))
}

// RoundTrip watches every call on its way to the region: a machine is changed only if it was looked
// at in the same step and is the run's.
func (s *simulation) RoundTrip(req *http.Request) (*http.Response, error) {
	path, _ := strings.CutPrefix(req.URL.Path, "/MAAS/api/2.0/")
	op := req.URL.Query().Get("op")
	part := strings.Split(path, "/")
	id := ""
	s.meanwhile()
	if (part[0] == "machines" || part[0] == "nodes") && len(part) > 1 {
		id = part[1]
	}
	if req.Method == http.MethodGet {
		res, err := s.region.RoundTripper().RoundTrip(req)
		if id != "" && op == "" && part[0] == "machines" {
			s.seen[id] = true
		}
		s.answered(req, res, err)
		return res, err
	}
	form := s.form(req)
	run, _ := strings.CutPrefix(form["comment"], "hostler run ")
	if op == "allocate" {
		id = form["system_id"]
	}
	if id == "" {
		res, err := s.region.RoundTripper().RoundTrip(req) // the call is about no existing machine
		s.answered(req, res, err)
		return res, err
	}
	before, _ := s.region.Machine(id)
	marked := before.Annotations["hostler-run"]
	switch {
	case s.bystander[id]:
		s.wrong("%s of machine %s, which nobody asked for", op, id)
	case !s.seen[id]:
		s.wrong("%s of machine %s, which was not looked at before", op, id)
	case op == "deploy" && (marked != run || before.Owner != "admin"):
		s.wrong("run %s deploys machine %s, which is marked for %q and %s's", run, id, marked, before.Owner)
	case op == "release" && (before.Owner != "admin" || marked != run && (marked != "" || s.holder[id] != run)):
		s.wrong("run %s releases machine %s, which is marked for %q, held by %q and %s's", run, id, marked, s.holder[id], before.Owner)
	case op == "release" && s.inUse(before.Annotations["hostler-node"]):
		s.wrong("run %s releases machine %s, whose node %s is in use", run, id, before.Annotations["hostler-node"])
	case before.Status == maassim.Deployed && op != "release":
		s.wrong("%s %s of machine %s, which is Deployed", req.Method, op, id)
	}
	if slices.Contains(tardy, op) && s.chance(5) {
		return s.late(req, op, id)
	}
	res, err := s.carry(req, op, id, run)
	s.answered(req, res, err)
	return res, err
}

// carry passes a change of a machine to the region, and records the run that has allocated or
// deployed the machine by it.
func (s *simulation) carry(req *http.Request, op, id, run string) (*http.Response, error) {
	before, _ := s.region.Machine(id)
	res, err := s.region.RoundTripper().RoundTrip(req)
	after, there := s.region.Machine(id)
	switch {
	case !there:
	case op == "allocate" && after.Status == maassim.Allocated && before.Status == maassim.Ready && after.Owner == "admin":
		s.holder[id] = run
	case op == "deploy" && after.Status == maassim.Deploying && before.Status != maassim.Deploying:
		s.deployed[run]++
	}
	return res, err
}

// enters checks that SSH reaches a machine only if the run that holds it has deployed it and looked
// at it in the same step. After a single deployment, no agent may have enrolled yet.
func (s *simulation) enters(id, call string) {
	m, _ := s.region.Machine(id)
	run := m.Annotations["hostler-run"]
	switch node := s.node(m.Hostname); {
	case s.bystander[id], m.Owner != "admin", m.Status != maassim.Deployed, !slices.Contains(s.ids, run):
		s.wrong("SSH asks machine %s for %s: %+v", id, call, m)
	case !s.seen[id]:
		s.wrong("SSH asks machine %s for %s, which was not looked at before", id, call)
	case s.holder[id] != run:
		s.wrong("SSH asks machine %s for %s, which run %s holds and %s has marked", id, call, s.holder[id], run)
	case node.Epoch > 0 && s.deployed[run] == 1:
		s.wrong("SSH asks machine %s for %s, whose agent has come", id, call)
	}
	s.entered++
}

// form reads a call's form, and restores the body.
func (s *simulation) form(req *http.Request) map[string]string {
	again := req.Clone(ctx)
	if req.GetBody != nil {
		body, err := req.GetBody()
		if err != nil {
			s.t.Fatal(err)
		}
		again.Body = body
	} else {
		req.Body, again.Body = twice(s.t, req.Body)
	}
	again.Method = http.MethodPost
	if err := again.ParseForm(); err != nil {
		s.t.Fatal(err)
	}
	out := map[string]string{}
	for name := range again.PostForm {
		out[name] = again.PostForm.Get(name)
	}
	return out
}

// allowed are the permitted pairs of run status and node status, after a cancel as well.
var allowed = map[chain.Status][]broker.NodeStatus{
	chain.Pending:         {"", broker.Enrolling, broker.Deleted, broker.Quarantined},
	chain.Running:         {"", broker.Enrolling, broker.Deleted, broker.Quarantined},
	chain.Compensating:    {"", broker.Enrolling, broker.Deleted, broker.Quarantined},
	chain.FailedRetryable: {"", broker.Enrolling, broker.Deleted, broker.Quarantined},
	chain.FailedManual:    {"", broker.Enrolling, broker.Deleted, broker.Quarantined},
	chain.Completed:       {broker.Active},
	chain.Reconciled:      {broker.Active},
	chain.Cancelled:       {"", broker.Deleted, broker.Quarantined},
}

// saved watches every save: the run's record must match the world.
func (s *simulation) saved(c chain.Change, err error) {
	r := c.Record
	if err != nil {
		return
	}
	var state onboarding.Onboarding
	if err := json.Unmarshal(r.State, &state); err != nil {
		s.wrong("run %s: %v", r.ID, err)
		return
	}
	node := broker.Node{}
	for _, n := range s.book.All() {
		if n.ID == state.NodeID {
			node = n
		}
	}
	if c.Unreachable != "" && s.unansweredAt.IsZero() {
		s.wrong("run %s holds the site, which has answered: %s", r.ID, c.Unreachable)
	}
	past := s.letIn[node.ID] && node.Status == broker.Active && r.Status != chain.Cancelled
	// The broker died between activating the node and saving the activation, and MAAS is away.
	// A run that is taken up again from its first stage comes back to the last one.
	waited := slices.ContainsFunc(s.history(r.ID), func(e chain.Event) bool { return e.Stage == "wait_for_agent_enrollment" })
	past = past || node.Status == broker.Active && node.Epoch > state.Epoch && r.Status == chain.Running && waited
	if !past && !slices.Contains(allowed[r.Status], node.Status) {
		s.wrong("run %s is %s, and node %s is %q", r.ID, r.Status, node.ID, node.Status)
	}
	if most := 1 + state.DeployRetries + s.passes[r.ID]; s.deployed[r.ID] > most {
		s.wrong("run %s has deployed %d times, and %d are accounted for", r.ID, s.deployed[r.ID], most)
	}
	m, there := s.region.Machine(state.SystemID)
	ours := there && m.Owner == "admin" && m.Annotations["hostler-run"] == r.ID
	switch r.Status {
	case chain.Completed, chain.Reconciled:
		if !s.meddled(state.SystemID) && (!ours || m.Status != maassim.Deployed || m.Annotations["hostler-node"] != node.ID) {
			s.wrong("run %s is %s, and its machine is %+v", r.ID, r.Status, m)
		}
	case chain.Cancelled:
		// The machine was released; or it is deployed and its node is quarantined.
		if ours && m.Status != maassim.Ready && (node.Status != broker.Quarantined || m.Status != maassim.Deployed) {
			s.wrong("run %s is cancelled, its node is %q and its machine %s: %+v", r.ID, node.Status, m.Status, m)
		}
	case chain.FailedManual, chain.FailedRetryable:
		if r.Failure == nil || r.Failure.Message == "" || r.NextAction == "" {
			s.wrong("run %s is %s, and says not why", r.ID, r.Status)
		} else if r.Stage == "deploy_via_maas" && r.Direction == chain.Forward && r.Failure.Code != "marked_by_operator" && ours && m.Status == maassim.Deploying {
			s.wrong("run %s is %s (%s), and MAAS deploys its machine", r.ID, r.Status, r.Failure.Message)
		}
	}
}

// meddled reports whether somebody changed the machine by hand within the last minute, when the run
// may have looked already.
func (s *simulation) meddled(systemID string) bool {
	return slices.ContainsFunc(s.region.History(systemID), func(c maassim.Change) bool {
		return c.By == "somebody" && s.clock.Now().Sub(c.At) < time.Minute
	})
}
