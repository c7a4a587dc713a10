package chaintest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/hostler/hostler/broker/chain"
)

// Script is a chain whose stages behave as a test scripts them, in two lines:
//
//	list  "a b c! d?"        stages in order; ! a pivot, ? optional, - without Undo;
//	      "a b(x y>a) c"     in brackets the rescue of a stage, and where the rescue goes on
//	says  "b: again fail ok; b/undo: fail"
//
// A stage uses up one word at each call, and says ok when no word is left:
//
//	ok     the stage succeeds now  done   Done holds, Do is not called
//	again  not yet                 hold   the site cannot be reached
//	error  an unclassified error   panic  a panic
//	anew   the stage repeats its work, and later stages no longer count as reached
//	any other word is the class of a failure
type Script struct {
	List, Says string

	// Retry and Limit apply to every stage.
	Retry chain.Retry
	Limit chain.Limit
	// During is called inside a stage, before the stage returns. Undo is "b/undo".
	During func(ctx context.Context, stage string)

	mu    sync.Mutex
	left  map[string][]string
	calls []string
	keys  map[string][]string
}

// ScriptState is the state of a scripted run: the stages that changed it.
type ScriptState struct {
	Trail []string `json:"trail"`
}

// ScriptClasses is a small table: transient is retried; power is retried and then left to a
// person; mismatch is left to a person; deploy may be rescued; input only stops.
var ScriptClasses = chain.Classes{
	chain.UpstreamTransient: {Retry: true, Rescue: true, Ends: chain.FailedRetryable, NextAction: "retry"},
	chain.StateAmbiguity:    {Ends: chain.FailedManual, NextAction: "look"},
	"transient":             {Retry: true, Rescue: true, Ends: chain.FailedRetryable, NextAction: "retry"},
	"power":                 {Retry: true, Ends: chain.FailedManual, NextAction: "look at its power"},
	"mismatch": {
		Ends: chain.FailedManual, NextAction: "look at the machine, then resume",
		UndoAction: "look at the machine, then retry",
	},
	"deploy": {Rescue: true, Ends: chain.FailedManual, NextAction: "look at the console"},
	"input":  {Ends: chain.FailedRetryable, NextAction: "correct the input"},
}

// ScriptKind is the kind of scripted chains.
const ScriptKind = "test.script"

// Chain is the script as a chain.
func (s *Script) Chain() chain.Chain[ScriptState] {
	s.left, s.keys = map[string][]string{}, map[string][]string{}
	for part := range strings.SplitSeq(s.Says, ";") {
		if name, words, ok := strings.Cut(part, ":"); ok {
			s.left[strings.TrimSpace(name)] = strings.Fields(words)
		}
	}
	c := chain.Chain[ScriptState]{Kind: ScriptKind}
	var rescued *chain.Stage[ScriptState]
	for _, word := range strings.Fields(strings.NewReplacer("(", " ( ", ")", " ) ").Replace(s.List)) {
		switch {
		case word == "(":
			rescued = &c.Stages[len(c.Stages)-1]
		case word == ")":
			rescued = nil
		case rescued != nil:
			rescued.Rescue = append(rescued.Rescue, s.stage(word))
		default:
			c.Stages = append(c.Stages, s.stage(word))
		}
	}
	return c
}

func (s *Script) stage(word string) chain.Stage[ScriptState] {
	word, then, _ := strings.Cut(word, ">")
	name := strings.TrimRight(word, "!?-")
	st := chain.Stage[ScriptState]{
		Name: name, Then: then, Pivot: strings.Contains(word, "!"), Optional: strings.Contains(word, "?"),
		Done: func(ctx context.Context, r *chain.Run[ScriptState]) (bool, error) {
			if s.next(name) != "done" {
				return false, nil
			}
			return true, s.say(ctx, r, name)
		},
		Do:    func(ctx context.Context, r *chain.Run[ScriptState]) error { return s.say(ctx, r, name) },
		Retry: func(ScriptState) chain.Retry { return s.Retry },
		Limit: func(ScriptState) chain.Limit { return s.Limit },
	}
	if !strings.Contains(word, "-") {
		st.Undo = func(ctx context.Context, r *chain.Run[ScriptState]) error { return s.say(ctx, r, name+"/undo") }
	}
	return st
}

func (s *Script) next(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.left[name]) == 0 {
		return "ok"
	}
	return s.left[name][0]
}

func (s *Script) say(ctx context.Context, r *chain.Run[ScriptState], name string) error {
	word := s.next(name)
	s.mu.Lock()
	s.left[name] = s.left[name][min(1, len(s.left[name])):]
	s.calls, s.keys[name] = append(s.calls, name), append(s.keys[name], r.Key())
	s.mu.Unlock()
	if s.During != nil {
		s.During(ctx, name)
	}
	switch word {
	case "anew":
		r.StartOver()
		fallthrough
	case "ok", "done":
		r.State.Trail = append(r.State.Trail, name)
		return nil
	case "again":
		return chain.Again(30*time.Second, "%s is not there yet", name)
	case "hold":
		return chain.Hold("no answer from the region")
	case "error":
		return errors.New("connection reset")
	case "panic":
		panic("index out of range")
	}
	return chain.Fail(word, "%s says %s", name, word)
}

// Calls lists the calls of stages, oldest first.
func (s *Script) Calls() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.calls...)
}

// Keys lists the idempotency keys of a stage's calls.
func (s *Script) Keys(stage string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.keys[stage]...)
}

// Story is a run's history without the starts, one word for each attempt:
// "a:succeeded b:failed b:succeeded".
func Story(events []chain.Event) string {
	var words []string
	for _, e := range events {
		if e.Status == chain.Started {
			continue
		}
		name := e.Stage
		if e.Direction == chain.Undo && e.Status != chain.Compensated {
			name += "/undo"
		}
		words = append(words, fmt.Sprintf("%s:%s", name, e.Status))
	}
	return strings.Join(words, " ")
}

// Settle executes steps and moves the clock until no run is due any more. It gives up after a
// thousand steps.
func Settle(ctx context.Context, e *chain.Engine, store chain.Store, clock *Clock) error {
	for range 1000 {
		worked, err := e.Step(ctx)
		if err != nil && !errors.Is(err, chain.ErrLost) && !errors.Is(err, ErrKilled) {
			return err
		}
		if worked {
			continue
		}
		next, err := store.NextDue(ctx)
		if err != nil || next.IsZero() {
			return err
		}
		clock.AdvanceTo(next)
	}
	return errors.New("it does not come to an end")
}
