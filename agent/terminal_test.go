package agent

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hostler/hostler/agent/tasks"
	"github.com/hostler/hostler/agent/terminal/handover"
	"github.com/hostler/hostler/agent/terminal/unit"
	"github.com/hostler/hostler/taskcatalog"
)

// terminals stands for systemd and the sessions' processes, which survive a crash of the agent.
type terminals struct {
	mu    sync.Mutex
	units map[string]unit.State
	taken map[string][]handover.Request // by session
	stops int
	at    func(boundary string)
}

func (s *terminals) StartTerminal(_ context.Context, spec unit.Spec) error {
	s.mu.Lock()
	_, there := s.units[spec.Unit]
	if !there {
		s.units[spec.Unit] = unit.State{Unit: spec.Unit, Description: spec.Description, Active: "active"}
	}
	s.mu.Unlock()
	if there {
		return unit.ErrExists
	}
	s.at("after the unit's start")
	return nil
}

func (s *terminals) Terminals(context.Context) (all []unit.State, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, u := range s.units {
		all = append(all, u)
	}
	return all, nil
}

func (s *terminals) Stop(_ context.Context, name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stops++
	delete(s.units, name)
	return nil
}

func (s *terminals) ask(_ context.Context, dir string, r handover.Request) (handover.Reply, error) {
	id := filepath.Base(dir)
	if r.Handover != nil {
		s.at("before the handover")
	}
	s.mu.Lock()
	if _, there := s.units[unit.Name(id)]; !there {
		s.mu.Unlock()
		return handover.Reply{}, taskcatalog.Errorf(handover.CodeNobody, "nobody")
	}
	if r.Handover != nil {
		s.taken[id] = append(s.taken[id], r)
	}
	which := slices.IndexFunc(s.taken[id], func(t handover.Request) bool { return t.TaskID == r.TaskID })
	s.mu.Unlock()
	if r.Handover != nil {
		s.at("after the handover")
	}
	return handover.Reply{Resumed: which > 0, Taken: which >= 0}, nil
}

// The agent dies at each boundary of opening a session. The next agent reports the task's outcome
// truthfully, and another task for the session finds the state as it is: the session is never
// started twice, and always handed over.
func TestATerminalIsOpenedOnceAndToldTrulyAfterACrash(t *testing.T) {
	for _, test := range []struct {
		boundary string
		outcome  taskcatalog.Outcome
		says     string
		resumed  bool // as found by the next task
	}{
		{"after start", taskcatalog.OutcomeInterrupted, "has no unit", false},
		{"after the unit's start", taskcatalog.OutcomeInterrupted, "handover: false", false},
		{"before the handover", taskcatalog.OutcomeInterrupted, "handover: false", false},
		{"after the handover", taskcatalog.OutcomeSucceeded, "", true},
		{"before finish", taskcatalog.OutcomeSucceeded, "", true},
		{"after finish", taskcatalog.OutcomeSucceeded, "", true},
	} {
		t.Run(test.boundary, func(t *testing.T) {
			inBubble(t, func(l *lab) {
				const id = "ts-7k2m4q6s"
				open, _ := tasks.Lookup("terminal.open", 1)
				l.handle("terminal.open@1", open)
				l.broker.Lock()
				l.broker.Secrets = map[string]string{taskcatalog.CredentialTerminalSession: "token-of-the-session"}
				l.broker.Unlock()
				var first *process
				died := make(chan struct{})
				dieAt := func(boundary string) {
					if boundary != test.boundary {
						return
					}
					select {
					case <-died:
					default:
						close(died)
						first.kill()
						runtime.Goexit()
					}
				}
				s := &terminals{units: map[string]unit.State{}, taken: map[string][]handover.Request{}, at: dieAt}
				l.config.Terminals = &unit.Sessions{Systemd: s, Machine: l.config.Machine, Program: "/p", After: "/a", StateDir: l.config.StateDir, Ask: s.ask}
				first = l.start(func(p *process) { first, p.at = p, func(boundary, _ string) { dieAt(boundary) } })
				node := l.nodeID(first)
				task := func(relay string) string {
					return fmt.Sprintf(`{"session_id":%q,"relay":%q,"username":"alice","max_seconds":600,"detach_seconds":60}`, id, relay)
				}
				q := l.broker.Enqueue(node, "terminal.open", task("one:1"))
				<-died
				l.start()
				if r := l.broker.Wait(q, 10*time.Minute); r.Outcome != test.outcome || !strings.Contains(r.Message, test.says) {
					t.Errorf("it ended %s (%s), want %s", r.Outcome, r.Message, test.outcome)
				}
				q = l.broker.Enqueue(node, "terminal.open", task("two:2"))
				if r := l.broker.Wait(q, 10*time.Minute); r.Outcome != taskcatalog.OutcomeSucceeded || !strings.Contains(string(r.Result), fmt.Sprintf(`"resumed":%t`, test.resumed)) {
					t.Errorf("the next ended %s (%s) with %s", r.Outcome, r.Message, r.Result)
				}
				s.mu.Lock()
				defer s.mu.Unlock()
				taken := s.taken[id]
				if last := taken[len(taken)-1]; last.Handover.Params.Relay != "two:2" || last.Handover.Token != "token-of-the-session" || last.Handover.StateDir != l.config.StateDir {
					t.Errorf("handed over was %+v", last)
				}
				if len(s.units) != 1 || s.stops != 0 {
					t.Errorf("there are %d units, and %d were stopped", len(s.units), s.stops)
				}
			})
		})
	}
}
