package rollout_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/chain/chaintest"
	"github.com/hostler/hostler/broker/rollout"
)

func TestARolloutGoesFromTheCanariesToAll(t *testing.T) {
	w := newWorld(t, 9)
	w.start(request())
	w.settle(50 * time.Second)
	if got := w.counts(); got != "waiting 8, done 1" {
		t.Errorf("while the canary soaks: %s", got)
	}
	w.settle(time.Hour)
	w.is(chain.Completed, "", "done 9")
	if w.most != 3 {
		t.Errorf("%d runs moved at once", w.most)
	}
	_, s := w.rollout()
	if n := []int{s.Count(0)[rollout.Done], s.Count(1)[rollout.Done], s.Count(2)[rollout.Done]}; !slices.Equal(n, []int{1, 4, 4}) {
		t.Errorf("the waves had %v", n)
	}
	if m := w.member(0); m.From != "1.3.0" || m.Seconds != 40 || m.Wave != 0 {
		t.Errorf("the canary is %+v", m)
	}
}

func TestWavesByLabel(t *testing.T) {
	w := newWorld(t, 6)
	req := request()
	req.Plan.Waves, req.Plan.WaveBy, req.Plan.Canary = nil, "rack", 0
	w.start(req)
	_, s := w.rollout()
	if len(s.Waves) != 3 || s.Waves[1].Name != "rack=0" || s.Waves[2].Name != "rack=1" {
		t.Fatalf("the waves are %+v", s.Waves)
	}
	w.settle(time.Minute)
	for i := range 6 {
		if done := w.member(i).Result == rollout.Done; done != (i%2 == 0) {
			t.Errorf("%s is done: %v", id(i), done)
		}
	}
	w.settle(time.Hour)
	w.is(chain.Completed, "", "done 6")
}

// A broken node has its previous version back and is reported truthfully, and nothing more begins
// until a person says so.
func TestTooManyFailuresStopIt(t *testing.T) {
	w := newWorld(t, 20)
	for i, makes := range map[int]string{3: "rolled_back", 5: unwell} {
		w.machines[id(i)].makes = makes
	}
	w.start(request())
	w.settle(2 * time.Hour)
	r, s := w.rollout()
	if r.Status != chain.FailedManual || r.Failure.Code != rollout.CodePaused || !strings.Contains(r.NextAction, "hostler rollout resume r") {
		t.Fatalf("%s: %+v, next %q", r.Status, r.Failure, r.NextAction)
	}
	if w.member(3).Result != rollout.RolledBack || w.member(5).Result != rollout.TakenBack || w.machines[id(5)].version != "1.3.0" {
		t.Errorf("%+v, %+v, which runs %s", w.member(3), w.member(5), w.machines[id(5)].version)
	}
	if n := s.Count(-1); n[rollout.Waiting] == 0 || n[rollout.Running]+n[rollout.Failing]+n[rollout.TakingBack] > 0 {
		t.Errorf("it has %v", n)
	}
	told := 0
	for _, m := range w.memory.Outbox() {
		if m.Type == broker.AgentRolledBackEvent && m.Subject == "node/"+id(5) {
			told++
		}
	}
	if told != 1 {
		t.Errorf("that one was taken back is told %d times", told)
	}
	given := len(w.given)
	w.settle(24 * time.Hour)
	if len(w.given) != given {
		t.Error("it went on by itself")
	}
	w.act(chain.Resume)
	w.settle(2 * time.Hour)
	w.is(chain.Completed, "", "done 18, rolled_back 1, taken_back 1")
	w.once()
}

// once checks that no node was given the same twice.
func (w *world) once() {
	w.t.Helper()
	seen := map[string]int{}
	for _, g := range w.given {
		if seen[g]++; seen[g] > 1 {
			w.t.Errorf("%s was given %d times", g, seen[g])
		}
	}
}

func TestACanaryThatFailsStopsItAtOnce(t *testing.T) {
	w := newWorld(t, 20)
	w.machines[id(0)].makes = "rolled_back"
	req := request()
	req.Plan.MaxFailures = 10
	w.start(req)
	w.settle(2 * time.Hour)
	w.is(chain.FailedManual, rollout.CodePaused, "waiting 19, rolled_back 1")
	w.act(chain.Resume)
	w.settle(time.Minute)
	w.is(chain.Running, "", "waiting 18, done 1, rolled_back 1") // another canary first
}

func TestOnFailureRollbackTakesAllBack(t *testing.T) {
	w := newWorld(t, 20)
	w.machines[id(3)].makes, w.machines[id(5)].makes = "rolled_back", "rolled_back"
	req := request()
	req.OnFailure = rollout.Rollback
	w.start(req)
	w.settle(2 * time.Hour)
	r, s := w.rollout()
	if n := s.Count(-1); r.Status != chain.FailedManual || n[rollout.Done] > 0 || n[rollout.RolledBack] != 2 || n[rollout.TakenBack] < 3 {
		t.Errorf("%s with %v", r.Status, n)
	}
	for id, m := range w.machines {
		if m.version != "1.3.0" {
			t.Errorf("%s runs %s", id, m.version)
		}
	}
	if w.most > 3 {
		t.Errorf("%d runs moved at once", w.most)
	}
}

// A healthy member that cannot be taken back keeps the release, with the reason.
func TestWhatCannotBeTakenBackStays(t *testing.T) {
	w := newWorld(t, 6)
	w.machines[id(0)].version = ""
	w.machines[id(3)].makes = "rolled_back"
	req := request()
	req.OnFailure, req.Plan.MaxFailures = rollout.Rollback, 1
	w.start(req)
	w.settle(2 * time.Hour)
	if r, _ := w.rollout(); r.Status != chain.FailedManual {
		t.Fatalf("it is %s", r.Status)
	}
	if m := w.member(0); m.Result != rollout.Done || m.Back != "no_version_before" || w.machines[id(0)].version != "1.4.0" {
		t.Errorf("it is %+v", m)
	}
}

// Failed members are retried only on an operator's order, and with force, because nodes that
// refused the release before need it.
func TestATryAgainIsAsked(t *testing.T) {
	w := newWorld(t, 6)
	w.machines[id(2)].makes, w.machines[id(3)].makes = "update_refused", "update_refused"
	w.start(request())
	w.settle(2 * time.Hour)
	if r, _ := w.rollout(); r.Status != chain.FailedManual {
		t.Fatalf("it is %s", r.Status)
	}
	w.machines[id(2)].makes, w.machines[id(3)].makes = "", ""
	w.act(chain.Rerun)
	w.settle(2 * time.Hour)
	w.is(chain.Completed, "", "done 6")
	if m := w.member(2); m.Try != 1 || w.runs["r-n-002-1"] == nil {
		t.Errorf("%+v", m)
	}
}

func TestAReleaseThatIsNoneAnyMoreStopsIt(t *testing.T) {
	for code, as := range map[string]func(*world){
		"release_revoked": func(w *world) {
			w.release = broker.Errorf(broker.Refused, "release_revoked", "it was revoked")
		},
		"agent_release_unknown": func(w *world) {
			w.release = broker.Errorf(broker.NotFound, "agent_release_unknown", "there is none")
		},
		"release_changed": func(w *world) { w.digest = "sha256:bb" },
	} {
		t.Run(code, func(t *testing.T) {
			w := newWorld(t, 9)
			w.start(request())
			w.settle(time.Minute)
			given := len(w.given)
			as(w)
			w.settle(time.Hour)
			w.is(chain.FailedManual, code, "waiting 8, done 1")
			if len(w.given) != given {
				t.Error("a node more was given it")
			}
			w.act(chain.Resume)
			w.settle(time.Hour)
			w.is(chain.FailedManual, code, "waiting 8, done 1")
			w.release, w.digest = nil, newest.Digest
			w.act(chain.Resume)
			w.settle(time.Hour)
			w.is(chain.Completed, "", "done 9")
		})
	}
}

func TestWhoIsOnANode(t *testing.T) {
	t.Run("idle skips it", func(t *testing.T) {
		w := newWorld(t, 4)
		w.machines[id(2)].busy = true
		w.start(request())
		w.settle(time.Hour)
		w.is(chain.Completed, "", "done 3, skipped 1")
		if m := w.member(2); m.Code != "allocation_live" {
			t.Errorf("%+v", m)
		}
	})
	t.Run("after_drain does not hold the wave up", func(t *testing.T) {
		w := newWorld(t, 12)
		for i := range 5 {
			w.machines[id(2*i)].busy = true
		}
		req := request()
		req.Safety = broker.AfterDrain
		w.start(req)
		w.settle(time.Hour)
		w.is(chain.Running, "", "waiting 2, running 3, done 7")
		if r, _ := w.rollout(); r.Stage != "complete_rollout" || !strings.Contains(r.Waiting, "wait until their tenant leaves") || w.most > 3 {
			t.Errorf("at %s, waits for %q, %d at once", r.Stage, r.Waiting, w.most)
		}
		for _, m := range w.machines {
			m.busy = false
		}
		w.settle(time.Hour)
		w.is(chain.Completed, "", "done 12")
		w.once()
	})
	t.Run("a canary proves something, or another one does", func(t *testing.T) {
		w := newWorld(t, 4)
		w.machines[id(0)].no = broker.Errorf(broker.Refused, "agent_unreachable", "it does not answer")
		w.start(request())
		w.settle(time.Minute)
		if m := w.member(1); m.Wave != 0 || m.Result != rollout.Done {
			t.Errorf("%+v", m)
		}
		w.settle(time.Hour)
		w.is(chain.Completed, "", "done 3, skipped 1")
	})
	t.Run("what is parked is withdrawn when it stops", func(t *testing.T) {
		w := newWorld(t, 8)
		w.machines[id(1)].busy = true
		w.machines[id(2)].makes, w.machines[id(3)].makes = "rolled_back", "rolled_back"
		req := request()
		req.Safety = broker.AfterDrain
		w.start(req)
		w.settle(time.Hour)
		r, _ := w.rollout()
		if m := w.member(1); r.Status != chain.FailedManual || m.Result != rollout.Waiting || w.runs["r-n-001"].Status != chain.Cancelled {
			t.Fatalf("%s, %+v", r.Status, m)
		}
		w.machines[id(1)].busy = false
		w.act(chain.Resume)
		w.settle(time.Hour)
		w.is(chain.Completed, "", "done 6, rolled_back 2")
		w.once()
	})
}

// Every call of the store is lost in turn, on the way there and on the way back, together with
// the broker: no node gets anything twice, and all rollouts come to the same end.
func TestEachSaveMayBeLost(t *testing.T) {
	for _, fate := range []chaintest.Fate{chaintest.Lost, chaintest.Mute} {
		for n := 0; ; n++ {
			w := newWorld(t, 7)
			w.machines[id(2)].makes, w.machines[id(3)].makes = "rolled_back", unwell
			w.store.Fate = func(call int) chaintest.Fate {
				if call == n {
					return fate
				}
				return chaintest.Done
			}
			req := request()
			req.Plan.Waves, req.Plan.SoakSeconds = []int{100}, 4
			w.start(req)
			w.settle(3 * time.Hour)
			w.act(chain.Resume)
			w.settle(3 * time.Hour)
			w.is(chain.Completed, "", "done 5, rolled_back 1, taken_back 1")
			w.once()
			if t.Failed() {
				t.Fatalf("with fate %v of call %d", fate, n)
			}
			if w.store.Calls() <= n {
				break
			}
		}
	}
}

func TestWhoIsAMember(t *testing.T) {
	leaves := map[string]func(c *rollout.Candidate){
		"node_status":      func(c *rollout.Candidate) { c.Node.Status = broker.Removing },
		"never_enrolled":   func(c *rollout.Candidate) { c.Node.Epoch = 0 },
		"in_sync":          func(c *rollout.Candidate) { c.Node.AgentVersion, c.Agent.Commit, c.Agent.SHA256 = "1.4.0", "abc", "11" },
		"pinned_elsewhere": func(c *rollout.Candidate) { c.Agent.Channel, c.Agent.Pinned = broker.ChannelPinned, "1.2.0" },
		"runs_newer":       func(c *rollout.Candidate) { c.Node.AgentVersion = "1.5.0" },
		"in_rollout":       func(c *rollout.Candidate) { c.Rollout = "r-first" },
	}
	w := newWorld(t, 20)
	all := w.candidates()
	for i, code := range slices.Sorted(maps.Keys(leaves)) {
		leaves[code](&all[i])
	}
	s, err := rollout.New(request(), all)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Members) != 14 || len(s.LeftOut) != len(leaves) {
		t.Errorf("%d members, left out %+v", len(s.Members), s.LeftOut)
	}
	for _, l := range s.LeftOut {
		if leaves[l.Code] == nil || l.Count != 1 || l.Code == "in_rollout" && !strings.Contains(l.Why, "r-first") {
			t.Errorf("left out %+v", l)
		}
	}
	req := request()
	req.Release.Channel = broker.ChannelCandidate
	if _, err := rollout.New(req, w.candidates()); broker.AsError(err).Code != "rollout_empty" || !strings.Contains(err.Error(), "channel") {
		t.Errorf("a candidate for nodes of stable: %v", err)
	}
	req = request()
	req.AllowRollback, req.Reason = true, "it is better"
	req.Release.Version = "1.2.0"
	if s, err := rollout.New(req, w.candidates()); err != nil || len(s.Members) != 20 {
		t.Errorf("going back: %v, %d members", err, len(s.Members))
	}
}

func TestWhatIsRefused(t *testing.T) {
	for name, test := range map[string]struct {
		as   func(*rollout.Request)
		code string
	}{
		"shares that fall":       {func(r *rollout.Request) { r.Plan.Waves = []int{50, 20, 100} }, "rollout_invalid"},
		"shares that end early":  {func(r *rollout.Request) { r.Plan.Waves = []int{50} }, "rollout_invalid"},
		"the same share twice":   {func(r *rollout.Request) { r.Plan.Waves = []int{50, 50, 100} }, "rollout_invalid"},
		"two kinds of waves":     {func(r *rollout.Request) { r.Plan.WaveBy = "rack" }, "rollout_invalid"},
		"no concurrency":         {func(r *rollout.Request) { r.Plan.Concurrency = 0 }, "rollout_invalid"},
		"no failure stops it":    {func(r *rollout.Request) { r.Plan.MaxFailures = 0 }, "rollout_invalid"},
		"no such policy":         {func(r *rollout.Request) { r.Safety = "yolo" }, "rollout_invalid"},
		"no such answer":         {func(r *rollout.Request) { r.OnFailure = "shrug" }, "rollout_invalid"},
		"forced without reason":  {func(r *rollout.Request) { r.Safety = broker.Forced }, "reason_missing"},
		"going back without one": {func(r *rollout.Request) { r.AllowRollback = true }, "reason_missing"},
	} {
		req := request()
		test.as(&req)
		if _, err := rollout.New(req, newWorld(t, 2).candidates()); broker.AsError(err).Code != test.code {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The first state of a rollout carries all its members, also thousands of them.
func TestTheStateOfManyIsSmall(t *testing.T) {
	w := newWorld(t, 2000)
	w.start(request())
	r, _ := w.rollout()
	if each := len(r.State) / 2000; each > 120 {
		t.Errorf("%d bytes a node: %s", each, fmt.Sprintf("%.400s", r.State))
	}
}
