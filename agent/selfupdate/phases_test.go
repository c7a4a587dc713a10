package selfupdate

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/release"
)

// stopping is a systemd whose watcher stops the agent that started it.
type stopping struct {
	*world
	stop func()
}

func (s stopping) Restart(ctx context.Context, unit string) error {
	defer s.stop()
	return s.world.Restart(ctx, unit)
}

// updater is the updater of the running agent.
func (w *world) updater() *Updater {
	return &Updater{Stager: *w.stager(), Systemd: w, Log: zap.NewNop(), Running: w.store.Current(), Version: w.agent.version, Contact: func() time.Duration { return time.Second }}
}

// carryOut runs a task from its beginning to its result, whichever agent reports the result.
func (w *world) carryOut(u *Updater, t Task) (*taskcatalog.SelfUpdateResult, error) {
	ctx, stop := context.WithCancel(w.Context())
	defer stop()
	u.Systemd = stopping{w, stop}
	res, err := u.Do(ctx, t)
	if !errors.Is(err, ErrUndecided) {
		return res, err
	}
	w.settled()
	return w.updater().Await(w.Context(), t)
}

// task is a task of a phase, with the broker's description of the release.
func (p published) task(id string, phase string) Task {
	return Task{ID: id, Params: &taskcatalog.SelfUpdateParams{
		Phase: phase, Version: p.want.Version, Manifest: &taskcatalog.ReleaseManifest{Digest: p.want.Manifest.Digest, Size: p.want.Manifest.Size},
		Signatures: []taskcatalog.ReleaseSignature{taskcatalog.ReleaseSignature(p.want.Signatures[0])},
	}}
}

// The three steps of an update, each as a task of its own: the first switches nothing, and the
// others fetch nothing.
func TestAnUpdateInSteps(t *testing.T) {
	w := newWorld(t)
	p := w.publish("1.1.0", "fine")
	bad := w.publish("1.2.0", "exits")
	fetches := 0
	source := opens(func(ctx context.Context, part release.Part, offset int64) (io.ReadCloser, error) {
		fetches++
		for _, of := range []published{p, bad} {
			if body, err := of.want.Source.Open(ctx, part, offset); err == nil {
				return body, nil
			}
		}
		return nil, taskcatalog.Errorf(CodeSourceRefused, "not here")
	})
	params := func(do func(*taskcatalog.SelfUpdateParams)) func(*Task) { return func(t *Task) { do(t.Params) } }
	unnamed := params(func(s *taskcatalog.SelfUpdateParams) { s.Version = "" })
	for _, step := range []struct {
		name   string
		of     published
		phase  string
		change func(*Task)
		came   taskcatalog.UpdateOutcome
		code   taskcatalog.Code
		runs   string
		first  bool // fetches
	}{
		{name: "what was not staged is activated", of: p, phase: taskcatalog.PhaseActivate, came: taskcatalog.UpdateRefused, code: CodeNotStaged, runs: "1.0.0"},
		{name: "nothing is activated", of: p, phase: taskcatalog.PhaseActivate, change: unnamed, came: taskcatalog.UpdateRefused, code: taskcatalog.CodeBadParams, runs: "1.0.0"},
		{name: "there is nothing to go back to", of: p, phase: taskcatalog.PhaseRollback, change: unnamed, came: taskcatalog.UpdateRefused, code: CodeNotStaged, runs: "1.0.0"},
		{name: "a version that the node never had is gone back to", of: bad, phase: taskcatalog.PhaseRollback, came: taskcatalog.UpdateRefused, code: CodeNotStaged, runs: "1.0.0"},
		{name: "nothing is staged", of: p, phase: taskcatalog.PhaseStage, change: unnamed, came: taskcatalog.UpdateRefused, code: taskcatalog.CodeBadParams, runs: "1.0.0"},
		{name: "it is staged", of: p, phase: taskcatalog.PhaseStage, came: taskcatalog.UpdateStaged, runs: "1.0.0", first: true},
		{
			name: "it is below the floor by now", of: p, phase: taskcatalog.PhaseActivate, change: params(func(s *taskcatalog.SelfUpdateParams) { s.Floor = "1.2.0" }),
			came: taskcatalog.UpdateRefused, code: release.CodeBelowFloor, runs: "1.0.0",
		},
		{name: "it is activated", of: p, phase: taskcatalog.PhaseActivate, came: taskcatalog.UpdateConfirmed, runs: "1.1.0"},
		{name: "once more", of: p, phase: taskcatalog.PhaseActivate, came: taskcatalog.UpdateConfirmed, runs: "1.1.0"},
		{
			name: "going back is below the floor", of: p, phase: taskcatalog.PhaseRollback, change: params(func(s *taskcatalog.SelfUpdateParams) { s.Version, s.Floor = "", "1.1.0" }),
			came: taskcatalog.UpdateRefused, code: release.CodeBelowFloor, runs: "1.1.0",
		},
		{
			name: "nobody says why", of: p, phase: taskcatalog.PhaseRollback, change: params(func(s *taskcatalog.SelfUpdateParams) { s.Version, s.Floor, s.AllowRollback = "", "1.1.0", true }),
			came: taskcatalog.UpdateRefused, code: CodeNoReason, runs: "1.1.0",
		},
		{
			name: "it is gone back", of: p, phase: taskcatalog.PhaseRollback,
			change: params(func(s *taskcatalog.SelfUpdateParams) {
				s.Version, s.Floor, s.AllowRollback, s.Reason = "", "1.1.0", true, "no GPUs"
			}),
			came: taskcatalog.UpdateConfirmed, runs: "1.0.0",
		},
		{name: "a bad one is staged", of: bad, phase: taskcatalog.PhaseStage, came: taskcatalog.UpdateStaged, runs: "1.0.0", first: true},
		{name: "it is activated and put back", of: bad, phase: taskcatalog.PhaseActivate, came: taskcatalog.UpdateRolledBack, code: CodeCrashLoop, runs: "1.0.0"},
		{name: "it is skipped", of: bad, phase: taskcatalog.PhaseActivate, came: taskcatalog.UpdateRefused, code: CodePinned, runs: "1.0.0"},
	} {
		before, was := fetches, w.store.Current()
		task := step.of.task("t-"+step.name, step.phase)
		if step.change != nil {
			step.change(&task)
		}
		u := w.updater()
		u.Broker = source
		res, err := w.carryOut(u, task)
		if res == nil || res.Outcome != step.came || res.Reason != step.code || taskcatalog.CodeOf(err, "") != step.code || (err == nil) != (step.code == "") || res.Phase != step.phase {
			t.Fatalf("%s: %+v, %v", step.name, res, err)
		}
		if w.agent.version != step.runs || w.store.Current() != step.runs || (fetches > before) != step.first {
			t.Errorf("%s: %s runs, %s is current, %d parts were fetched", step.name, w.agent.version, w.store.Current(), fetches-before)
		}
		if st, err := w.store.Load(); err != nil || st.Trial != nil || st.Good != "" && st.Good != step.runs {
			t.Errorf("%s: %+v, %v", step.name, st, err)
		}
		if switched := was != step.runs; switched && (res.FromVersion != was || res.ToVersion != step.runs || res.SwitchSeconds <= 0) {
			t.Errorf("%s: from %s it is said to be %+v", step.name, was, res)
		}
	}
}

// The silence of a new version is evidence only if the previous version was answered just before.
// The update therefore waits for an answer, and a silent version is reverted even if the broker was
// away during the fetch.
func TestAnUpdateWaitsForTheBrokerBeforeItSwitches(t *testing.T) {
	for _, c := range []struct {
		name string
		away time.Duration
		came taskcatalog.UpdateOutcome
		code taskcatalog.Code
	}{
		{"it has answered lately", 0, taskcatalog.UpdateRolledBack, CodeNoContact},
		{"it comes back", patience - time.Minute, taskcatalog.UpdateRolledBack, CodeNoContact},
		{"it stays away", 2 * patience, taskcatalog.UpdateRefused, CodeNotHeard},
	} {
		w := newWorld(t)
		p := w.publish("1.1.0", "silent")
		synctest.Test(t, func(t *testing.T) {
			w.T = t
			began := time.Now()
			u := w.updater()
			u.Broker = p.want.Source
			u.Contact = func() time.Duration {
				if time.Since(began) < c.away {
					return freshContact + time.Second
				}
				return time.Second
			}
			res, err := w.carryOut(u, p.task("t-1", taskcatalog.PhaseUpdate))
			if res == nil || res.Outcome != c.came || taskcatalog.CodeOf(err, "") != c.code || w.agent.version != "1.0.0" {
				t.Fatalf("%s: %+v, %v; %s runs", c.name, res, err, w.agent.version)
			}
			if took := time.Since(began); took < min(c.away, patience) || took > min(c.away, patience)+time.Second {
				t.Errorf("%s: it waited for %s", c.name, took)
			}
			st, err := w.store.Load()
			if refused := c.came == taskcatalog.UpdateRefused; err != nil || refused && (st.Trial != nil || len(st.Deliveries)+len(st.Pins) > 0 || len(w.ran) != 1 || w.watch) {
				t.Errorf("%s: %+v, %v; %v ran", c.name, st, err, w.ran)
			}
		})
	}
}

// A person who asks on the node gets the previous version at once: the lack of contact may be the
// reason for asking.
func TestAPersonDoesNotWaitForTheBroker(t *testing.T) {
	w := newWorld(t)
	w.arm("fine")
	w.settled()
	u := w.updater()
	u.Contact = func() time.Duration { return -1 }
	if to, err := u.RevertByHand(t.Context(), "by-hand-1", "no broker"); err != nil || to != "1.0.0" {
		t.Fatalf("%q %v", to, err)
	}
	if d := w.settled(); d == nil || d.Outcome != taskcatalog.UpdateConfirmed || w.agent.version != "1.0.0" || !strings.Contains(d.Message, "no broker") {
		t.Errorf("%+v, %+v runs", d, w.agent)
	}
}
