package chain_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/chain/chaintest"
)

var update = flag.Bool("update", false, "write the golden files anew")

// The runs that an operator may meet, of a chain of a, b(x>a), a pivot c, and d.
var met = []struct {
	name, says string
	acts       []chain.Action
	steps      int // after the actions; -1: until the run stops
	fly        bool
}{
	{name: "pending, never begun"},
	{name: "running", steps: 1},
	{name: "running, step in flight", steps: 1, fly: true},
	{name: "waiting", says: "b: again again", steps: 2},
	{name: "failed_retryable", says: "b: input", steps: -1},
	{name: "failed_manual in a rescue", says: "b: deploy; x: mismatch", steps: -1},
	{name: "failed_manual past the pivot", says: "d: mismatch", steps: -1},
	{name: "cancelling", says: "d: mismatch; d/undo: again", acts: []chain.Action{chain.Cancel}},
	{name: "cancelling, step in flight", says: "d: mismatch", acts: []chain.Action{chain.Cancel}, fly: true},
	{name: "cancelling failed", says: "d: mismatch; d/undo: mismatch", acts: []chain.Action{chain.Cancel}, steps: -1},
	{name: "restarting clean", says: "d: mismatch", acts: []chain.Action{chain.RestartClean}, steps: 2},
	{name: "restarting clean failed", says: "d: mismatch; b/undo: input", acts: []chain.Action{chain.RestartClean}, steps: -1},
	{name: "adopting", says: "b: mismatch", acts: []chain.Action{chain.Adopt}},
	{name: "completed", steps: -1},
	{name: "cancelled", says: "b: mismatch", acts: []chain.Action{chain.Cancel}, steps: -1},
	{name: "reconciled", says: "b: mismatch", acts: []chain.Action{chain.Adopt}, steps: -1},
}

// The result of each action on each run is a contract: with operators, and with the commands and
// pages that offer actions.
func TestActionsDoWhatTheTableSays(t *testing.T) {
	var b strings.Builder
	for _, m := range met {
		fmt.Fprintf(&b, "%s\n", m.name)
		for _, a := range chain.Actions {
			s := newSetting(t, &chaintest.Script{List: "a b(x>a) c! d", Says: m.says})
			s.start("r")
			if len(m.acts) > 0 {
				s.settle()
			}
			for _, first := range m.acts {
				if err := s.act("r", first); err != nil {
					t.Fatalf("%s: %v", m.name, err)
				}
			}
			if m.steps < 0 {
				s.settle()
			}
			for range m.steps {
				if _, err := s.engine.Step(ctx); err != nil {
					t.Fatal(err)
				}
			}
			if m.fly {
				if r, err := s.store.Claim(ctx, chain.Claim{Owner: "other", Lease: time.Minute, Kinds: []string{chaintest.ScriptKind}}); r == nil || err != nil {
					t.Fatalf("%s: %v", m.name, err)
				}
			}
			before := s.run("r")
			err := s.act("r", a)
			fmt.Fprintf(&b, "\t%-34s %s\n", a, told(before, s.run("r"), err))
		}
	}
	const golden = "testdata/actions.golden"
	if *update {
		if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil || b.String() != string(want) {
		t.Errorf("the table differs from %s (go test ./broker/chain -update, and read the diff): %v\n%s", golden, err, b.String())
	}
}

func told(before, after chain.Record, err error) string {
	no, refused := errors.AsType[*chain.Refused](err)
	switch {
	case refused:
		return "refused: " + no.Code
	case err != nil:
		return err.Error()
	case after.Asked != before.Asked:
		return "asked: " + string(after.Asked) + ", when the step has ended"
	case after.Version == before.Version:
		return "nothing: it is under way, or done"
	}
	return fmt.Sprintf("%s, %s, at %s", after.Status, after.Direction, after.Stage)
}

// Each rescue stage sees the rescued failure. The stage after the rescue begins afresh.
func TestARescueKnowsWhatFailed(t *testing.T) {
	s := newSetting(t, &chaintest.Script{List: "a"})
	var seen []string
	stage := func(name, then string, fails bool) chain.Stage[chaintest.ScriptState] {
		return chain.Stage[chaintest.ScriptState]{Name: name, Then: then, Do: func(_ context.Context, r *chain.Run[chaintest.ScriptState]) error {
			what := name + ":"
			if r.Failure != nil {
				what += string(r.Failure.Class) + "/" + r.Failure.Message
			}
			seen = append(seen, what)
			if fails && r.Attempt == 1 {
				return chain.Fail("deploy", "no datasource")
			}
			return nil
		}}
	}
	b := stage("b", "", true)
	b.Rescue = []chain.Stage[chaintest.ScriptState]{stage("x", "", false), stage("y", "a", false)}
	c := chain.Chain[chaintest.ScriptState]{Kind: chaintest.ScriptKind, Stages: []chain.Stage[chaintest.ScriptState]{stage("a", "", false), b}}
	s.engine = newEngine(t, s.store, "one", c)
	s.start("r")
	s.settle()
	if got, want := strings.Join(seen, " "), "a: b: x:deploy/no datasource y:deploy/no datasource a: b:"; got != want {
		t.Errorf("seen\n%s\nwant\n%s", got, want)
	}
}

// An order names the seen stage and class; a run that has stopped elsewhere since is left alone.
// A repeated order does nothing more.
func TestAnOrderIsForTheRunAsItWasSeen(t *testing.T) {
	s := newSetting(t, &chaintest.Script{List: "a b", Says: "b: mismatch"})
	s.start("r")
	s.settle()
	order := func(seen chain.Seen) error {
		_, err := s.engine.Act(ctx, chain.Order{ID: "r", Action: chain.Resume, Reason: "mended", Seen: &seen})
		return err
	}
	for _, other := range []chain.Seen{{Stage: "a", Class: "mismatch"}, {Stage: "b", Class: "power"}} {
		if no, ok := errors.AsType[*chain.Refused](order(other)); !ok || no.Code != "run_moved" {
			t.Errorf("seen as %+v it went on: %v", other, no)
		}
	}
	for range 2 {
		if err := order(chain.Seen{Stage: "b", Class: "mismatch"}); err != nil {
			t.Errorf("as it stands: %v", err)
		}
	}
	s.settle()
	if r := s.run("r"); r.Status != chain.Completed {
		t.Errorf("it is %s", r.Status)
	}
}

// An order for a stopped run leaves the run alone if somebody has set it in motion meanwhile.
func TestAnOrderForAStoppedRunLeavesOneThatMovesAlone(t *testing.T) {
	s := newSetting(t, &chaintest.Script{List: "a b! c", Says: "b: mismatch"})
	s.start("r")
	s.settle()
	order := chain.Order{ID: "r", Action: chain.Cancel, Reason: "by itself", OnlyStopped: true}
	if err := s.act("r", chain.RetryStage); err != nil {
		t.Fatal(err)
	}
	_, err := s.engine.Act(ctx, order)
	if no, ok := errors.AsType[*chain.Refused](err); !ok || no.Code != "run_moving" {
		t.Errorf("%v", err)
	}
	if r := s.run("r"); r.Status != chain.Pending || r.Asked != chain.AskNothing {
		t.Errorf("it is %s, asked %q", r.Status, r.Asked)
	}
}

func TestAFailedUndoIsToldToRetry(t *testing.T) {
	s := newSetting(t, &chaintest.Script{List: "a b", Says: "b: mismatch; b/undo: mismatch"})
	s.start("r")
	s.settle()
	if r := s.run("r"); r.NextAction != "look at the machine, then resume" {
		t.Errorf("forwards: %q", r.NextAction)
	}
	if err := s.act("r", chain.Cancel); err != nil {
		t.Fatal(err)
	}
	s.settle()
	if r := s.run("r"); r.Status != chain.FailedManual || r.NextAction != "look at the machine, then retry" {
		t.Errorf("taking back, %s: %q", r.Status, r.NextAction)
	}
}
