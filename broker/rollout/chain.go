package rollout

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
)

type (
	run   = chain.Run[Rollout]
	stage = chain.Stage[Rollout]
)

// Chains builds the list of this package. One value serves a whole broker.
type Chains struct{ Nodes Nodes }

// Rollout is the list of stages.
func (c *Chains) Rollout() chain.Chain[Rollout] {
	return chain.Chain[Rollout]{Kind: Kind, Form: 2, Marking: pause, Stages: []stage{
		{
			Name: checkRelease, Do: c.open(c.check), Undo: c.open(c.stop), Retry: again,
			About: about("nothing: the broker checks that the release exists"),
		},
		{Name: "roll_canary", Do: c.open(c.rollCanary), Retry: again, About: about("the canaries: a run on each")},
		{Name: "soak_canary", Do: c.open(c.soakCanary), Retry: again, About: about("nothing: the broker observes the canaries")},
		{Name: "roll_waves", Do: c.open(c.rollWaves), Retry: again, About: about("the nodes, wave after wave: a run on each")},
		{
			Name: complete, Do: c.open(c.complete), Retry: again,
			About: about("the nodes that waited until their tenant left: a run on each"),
		},
	}}
}

// Stage names for other files.
const (
	checkRelease = "check_release"
	complete     = "complete_rollout"
)

// Intervals between two looks of a rollout.
const (
	soon      = 2 * time.Second  // while runs move
	idlePause = 15 * time.Second // while the rollout only waits for tenants or for time
)

func again(Rollout) chain.Retry { return chain.Retry{Attempts: 5, First: 5 * time.Second} }

func about(touches string) func(Rollout) chain.About {
	return func(s Rollout) chain.About { return chain.About{Touches: touches, Expected: s.Plan.soak()} }
}

// The failure classes of this package's stages.
const (
	inputError = chain.Class(broker.InputConfigError)
	transient  = chain.UpstreamTransient
	paused     = chain.Class(broker.RolloutPaused)
)

// CodePaused is the code of a rollout stopped by failed nodes.
const CodePaused = "rollout_paused"

// storeFault turns an error of the broker's own records into the end of a step.
func storeFault(err error) error {
	switch e := broker.AsError(err); {
	case err == nil:
		return nil
	case e.Kind == broker.Unavailable:
		return chain.AgainFor(transient, idlePause, "%v", err)
	case refuses(e):
		return chain.Fail(inputError, "%w", err).With(e.Code, nil)
	}
	return err
}

// refuses reports whether an error is a refusal, so that a retry would change nothing.
func refuses(e *broker.Error) bool {
	return e.Kind == broker.Invalid || e.Kind == broker.NotFound || e.Kind == broker.Refused || e.Kind == broker.Forbidden
}

// check looks at the release before anything begins. After an operator's rerun, failed and
// skipped members wait for another try.
func (c *Chains) check(ctx context.Context, r *run) error {
	s := &r.State
	if s.noteCall(r) {
		s.tryAgain()
	}
	if err := c.lookAt(ctx, r); err != nil {
		return err
	}
	if s.Halt != nil {
		return c.halting(ctx, r)
	}
	r.Note(map[string]any{"version": s.Release.Version, "digest": s.Release.Digest, "nodes": len(s.Members), "waves": len(s.Waves)},
		"%s is rolled out to %s", s.Release.Version, nodes(len(s.Members)))
	return nil
}

// tryAgain makes members wait again that did not reach the release.
func (s *Rollout) tryAgain() {
	s.Wave, s.SoakFrom = 0, time.Time{}
	for i := range s.Members {
		switch m := &s.Members[i]; m.Result {
		case Failed, RolledBack, TakenBack, Skipped:
			*m = Member{NodeID: m.NodeID, Hostname: m.Hostname, Wave: m.Wave, From: m.From, Result: Waiting, Try: m.Try + 1, Again: true}
		}
	}
}

func (c *Chains) rollCanary(ctx context.Context, r *run) error {
	if r.State.Plan.Canary == 0 {
		r.AlreadyDone(nil, "no canaries were requested")
		return nil
	}
	return c.roll(ctx, r, 0)
}

func (c *Chains) soakCanary(ctx context.Context, r *run) error {
	return c.soak(ctx, r)
}

// rollWaves goes from wave to wave, each followed by its soak.
func (c *Chains) rollWaves(ctx context.Context, r *run) error {
	s := &r.State
	s.Wave = max(s.Wave, 1)
	for {
		if s.SoakFrom.IsZero() {
			if err := c.roll(ctx, r, s.Wave); err != nil {
				return err
			}
		}
		if err := c.soak(ctx, r); err != nil {
			return err
		}
		if s.Wave == len(s.Waves)-1 {
			return nil
		}
		s.Wave++
	}
}

// complete waits for members that were passed over because of a tenant, and watches them like a
// wave.
func (c *Chains) complete(ctx context.Context, r *run) error {
	s := &r.State
	if s.SoakFrom.IsZero() {
		if err := c.roll(ctx, r, len(s.Waves)-1); err != nil {
			return err
		}
		n := s.Count(-1)
		if open := n[Waiting] + n[Running] + n[Failing] + n[TakingBack]; open > 0 {
			return chain.Again(idlePause, "%s; %s wait until their tenant leaves", s.progress(-1), nodes(open))
		}
	}
	if err := c.soak(ctx, r); err != nil {
		return err
	}
	r.Note(s.Count(-1), "%s", s.progress(-1))
	return nil
}

// noteCall notes a call of a stage, and acknowledges the failures if an operator has continued the
// rollout. goesOn is true at the first call of an attempt that follows no failure, if the stage is
// the one where the rollout stood, or the first.
func (s *Rollout) noteCall(r *run) (goesOn bool) {
	at := attemptKey(r.Stage, r.Attempt)
	before, _, _ := strings.Cut(s.At, "/")
	goesOn = s.At != at && r.Spent == 0 && (before == r.Stage || before != "" && r.Stage == checkRelease)
	if goesOn {
		s.acknowledge()
	}
	s.At = at
	return goesOn
}

// progress counts a wave for people; -1: all members.
func (s *Rollout) progress(wave int) string {
	n, parked := s.Count(wave), 0
	all := 0
	for _, m := range s.Members {
		if wave < 0 || m.Wave == wave {
			all++
			if m.Parked {
				parked++
			}
		}
	}
	text := fmt.Sprintf("%d of %d done", n[Done], all)
	for _, part := range []struct {
		n     int
		words string
	}{
		{n[Running] + n[Failing] + n[TakingBack] - parked, "under way"},
		{parked, "parked"},
		{n[Failed] + n[RolledBack] + n[TakenBack], "failed"},
		{n[Skipped], "skipped"},
	} {
		if part.n > 0 {
			text += fmt.Sprintf(", %d %s", part.n, part.words)
		}
	}
	return text
}
