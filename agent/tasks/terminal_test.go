package tasks

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/agent/host/hosttest"
	"github.com/hostler/hostler/agent/terminal/handover"
	"github.com/hostler/hostler/agent/terminal/unit"
	"github.com/hostler/hostler/taskcatalog"
)

// playedTerminals are sessions whose processes take every order.
type playedTerminals struct {
	mu      sync.Mutex // guards units and stopped while several sessions are stopped at once
	units   map[string]unit.State
	taken   map[string][]string // tasks, by session
	sudo    bool                // of the order handed over last
	stopped []string
	stuck   error
	started func()
}

func terminals(h *host.Host) *playedTerminals {
	p := &playedTerminals{units: map[string]unit.State{}, taken: map[string][]string{}, started: func() {}}
	h.Terminals = &unit.Sessions{Systemd: p, Machine: h.Machine, Program: "/p", After: "/a", StateDir: h.StateDir, Ask: p.ask}
	return p
}

func (p *playedTerminals) StartTerminal(_ context.Context, s unit.Spec) error {
	if _, there := p.units[s.Unit]; there {
		return unit.ErrExists
	}
	p.units[s.Unit] = unit.State{Unit: s.Unit, Description: s.Description, Active: "active"}
	p.started()
	return nil
}

func (p *playedTerminals) Terminals(context.Context) (all []unit.State, err error) {
	for _, s := range p.units {
		all = append(all, s)
	}
	return all, nil
}

func (p *playedTerminals) Stop(_ context.Context, name string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = append(p.stopped, name)
	delete(p.units, name)
	return p.stuck
}

func (p *playedTerminals) ask(_ context.Context, dir string, r handover.Request) (handover.Reply, error) {
	id := filepath.Base(dir)
	if _, there := p.units[unit.Name(id)]; !there {
		return handover.Reply{}, taskcatalog.Errorf(handover.CodeNobody, "nobody")
	}
	reply := handover.Reply{Resumed: len(p.taken[id]) > 0 && p.taken[id][0] != r.TaskID, Taken: slices.Contains(p.taken[id], r.TaskID)}
	if r.Handover != nil {
		p.sudo = r.Handover.Sudo
		reply = handover.Reply{Resumed: len(p.taken[id]) > 0, Taken: true}
		p.taken[id] = append(p.taken[id], r.TaskID)
	}
	return reply, nil
}

const sessionID = "ts-7k2m4q6s"

func opens(t *testing.T, h *host.Host, task string, change ...func(*taskcatalog.TerminalOpenParams)) (*taskcatalog.TerminalOpenResult, error) {
	t.Helper()
	p := &taskcatalog.TerminalOpenParams{SessionID: sessionID, Relay: "one:1", Username: "alice", MaxSeconds: 60, DetachSeconds: 5}
	for _, c := range change {
		c(p)
	}
	res, _, err := terminalOpen(t.Context(), &host.Run{Params: p, Host: h, Task: &taskcatalog.Task{TaskID: task}, Mint: func(_ context.Context, kind string) ([]byte, error) {
		if kind != taskcatalog.CredentialTerminalSession {
			t.Errorf("%s is minted", kind)
		}
		return []byte("token"), nil
	}})
	if res == nil {
		return nil, err
	}
	return res.(*taskcatalog.TerminalOpenResult), err
}

func closes(t *testing.T, h *host.Host, id string) (*taskcatalog.TerminalCloseResult, error) {
	t.Helper()
	res, _, err := terminalClose(t.Context(), &host.Run{Params: &taskcatalog.TerminalCloseParams{SessionID: id, Code: "node_draining"}, Host: h, Task: &taskcatalog.Task{TaskID: "t-c"}})
	if res == nil {
		return nil, err
	}
	return res.(*taskcatalog.TerminalCloseResult), err
}

func TestATerminalIsOpenedSentOnAndClosed(t *testing.T) {
	h, _ := hosttest.Box(t)
	terminals(h)
	if res, err := opens(t, h, "t-1"); err != nil || *res != (taskcatalog.TerminalOpenResult{Unit: unit.Name(sessionID)}) {
		t.Errorf("%+v (%v)", res, err)
	}
	if res, err := opens(t, h, "t-2"); err != nil || !res.Resumed {
		t.Errorf("%+v (%v)", res, err)
	}
	if res, err := closes(t, h, sessionID); err != nil || !res.Existed {
		t.Errorf("%+v (%v)", res, err)
	}
	if res, err := closes(t, h, sessionID); err != nil || res.Existed {
		t.Errorf("again: %+v (%v)", res, err)
	}
}

// Only the operator who created the account grants sudo.
func TestATerminalHasTheSudoOfItsAllocationAlone(t *testing.T) {
	for allocation, want := range map[string]bool{"a-1": true, "a-2": false, "": false} {
		h, _ := hosttest.Box(t)
		p := terminals(h)
		hosttest.OK(t, h.Accounts.Put(host.Account{AllocationID: "a-1", Username: "alice", Sudo: true}))
		hosttest.OK(t, h.Accounts.Put(host.Account{AllocationID: "a-2", Username: "bob"}))
		_, err := opens(t, h, "t-1", func(q *taskcatalog.TerminalOpenParams) {
			q.AllocationID, q.Username = allocation, map[string]string{"a-2": "bob"}[allocation]
			if q.Username == "" {
				q.Username = "alice"
			}
		})
		if err != nil || p.sudo != want {
			t.Errorf("of allocation %q it is %t (%v)", allocation, p.sudo, err)
		}
	}
}

func TestATerminalThatMayNotBeIsNotOpened(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(*host.Host, *playedTerminals)
		code  taskcatalog.Code
	}{
		"the node is drained":         {func(h *host.Host, _ *playedTerminals) { _ = h.Marks.SetDrained(true) }, taskcatalog.CodeNodeDraining},
		"the allocation is not there": {func(h *host.Host, _ *playedTerminals) { _ = h.Accounts.Delete("a-1") }, "allocation_unknown"},
		"the allocation is somebody else's": {func(h *host.Host, _ *playedTerminals) {
			_ = h.Accounts.Put(host.Account{AllocationID: "a-1", Username: "bob"})
		}, "allocation_mismatch"},
		// Changes between the check and the start are noticed: a drain marks the node and then
		// looks for sessions; an open starts a session and then looks for the mark.
		"the node is drained meanwhile":        {func(h *host.Host, p *playedTerminals) { p.started = func() { _ = h.Marks.SetDrained(true) } }, taskcatalog.CodeNodeDraining},
		"the allocation's user goes meanwhile": {func(h *host.Host, p *playedTerminals) { p.started = func() { _ = h.Accounts.Delete("a-1") } }, "allocation_unknown"},
	} {
		h, _ := hosttest.Box(t)
		p := terminals(h)
		hosttest.OK(t, h.Accounts.Put(host.Account{AllocationID: "a-1", Username: "alice"}))
		c.spoil(h, p)
		res, err := opens(t, h, "t-1", func(q *taskcatalog.TerminalOpenParams) { q.AllocationID = "a-1" })
		if taskcatalog.CodeOf(err, "") != c.code || res != nil || len(p.units) != 0 || len(p.taken) != 0 {
			t.Errorf("where %s, it is %+v (%v), with %v", name, res, err, p.units)
		}
	}
	h, _ := hosttest.Box(t)
	if _, err := opens(t, h, "t-1"); taskcatalog.CodeOf(err, "") != codeNoTerminals {
		t.Errorf("without systemd: %v", err)
	}
	if res, err := closes(t, h, sessionID); err != nil || res.Existed {
		t.Errorf("without systemd, a close is %+v (%v)", res, err)
	}
}

// After an interruption the agent learns a task's state from the session's process.
func TestWhatACrashLeftOfATerminalIsKnown(t *testing.T) {
	h, _ := hosttest.Box(t)
	p := terminals(h)
	task := func(id string) *taskcatalog.Task {
		return &taskcatalog.Task{TaskID: id, Type: "terminal.open", Version: 1, Params: []byte(`{"session_id":"` + sessionID + `","relay":"one:1","username":"alice","max_seconds":60,"detach_seconds":5}`)}
	}
	at := func(when, id string, made bool, says string) {
		t.Helper()
		res, _, was := terminalOpened(h, task(id))
		if was != made || made && res.(*taskcatalog.TerminalOpenResult).Unit != unit.Name(sessionID) {
			t.Errorf("%s it was made: %t, %+v", when, was, res)
		}
		if got := probeTerminal(t.Context(), h, task(id)); !strings.Contains(got, says) {
			t.Errorf("%s it is said: %q", when, got)
		}
	}
	at("before the start", "t-1", false, "has no unit")
	hosttest.OK(t, p.StartTerminal(t.Context(), unit.Spec{Unit: unit.Name(sessionID)}))
	at("between the start and the handover", "t-1", false, "is active; its process received this task's handover: false")
	if res, err := opens(t, h, "t-1"); err != nil || res.Resumed {
		t.Fatalf("%+v (%v)", res, err)
	}
	at("after the handover", "t-1", true, "handover: true")
	at("before the second handover", "t-2", false, "handover: false")
	if _, err := opens(t, h, "t-2"); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]bool{"t-1": false, "t-2": true} {
		if res, _, made := terminalOpened(h, task(id)); !made || res.(*taskcatalog.TerminalOpenResult).Resumed != want {
			t.Errorf("%s is %+v", id, res)
		}
	}
	closing := &taskcatalog.Task{Type: "terminal.close", Version: 1, Params: []byte(`{"session_id":"` + sessionID + `","code":"x"}`)}
	if got := probeTerminal(t.Context(), h, closing); !strings.Contains(got, "is active") {
		t.Errorf("of a close it is said: %q", got)
	}
	p.units = map[string]unit.State{}
	if _, _, made := terminalOpened(h, task("t-2")); made {
		t.Error("a session that is over was opened")
	}
}

func TestADrainEndsEverybodysTerminals_AndAResumeNone(t *testing.T) {
	h, _ := hosttest.Box(t)
	p := terminals(h)
	for id, user := range map[string]string{"ts-aaaaaaaa": "alice", "ts-bbbbbbbb": "root"} {
		_, err := opens(t, h, "t-"+id, func(q *taskcatalog.TerminalOpenParams) { q.SessionID, q.Username = id, user })
		hosttest.OK(t, err)
	}
	if _, _, err := drain(t.Context(), &host.Run{Params: &taskcatalog.DrainParams{Resume: true}, Host: h}); err != nil || len(p.units) != 2 {
		t.Errorf("a resume leaves %v (%v)", p.units, err)
	}
	res, _, err := drain(t.Context(), &host.Run{Params: &taskcatalog.DrainParams{GraceSeconds: 1}, Host: h})
	if err != nil || res.(*taskcatalog.DrainResult).SessionsEnded != 2 || len(p.units) != 0 {
		t.Errorf("%+v (%v) leaves %v", res, err, p.units)
	}
	hosttest.OK(t, h.Marks.SetDrained(false))
	_, err = opens(t, h, "t-3")
	hosttest.OK(t, err)
	p.stuck = errors.New("it is stuck")
	if res, _, err := drain(t.Context(), &host.Run{Params: &taskcatalog.DrainParams{GraceSeconds: 1}, Host: h}); !errors.Is(err, p.stuck) || !res.(*taskcatalog.DrainResult).Drained {
		t.Errorf("where one does not end: %+v (%v)", res, err)
	}
}

func TestARevokeEndsTheTerminalsOfItsUserAlone(t *testing.T) {
	h, _ := hosttest.Box(t)
	p := terminals(h)
	do := func(task string, params any) error {
		handler, _ := Lookup(task, 1)
		_, _, err := handler.Do(t.Context(), &host.Run{Params: params, Host: h})
		return err
	}
	letIn := func(allocation, user string) {
		hosttest.OK(t, do("allocation.provision_user", &taskcatalog.ProvisionUserParams{AllocationID: allocation, Username: user, SSHKeys: []string{hosttest.AliceKey}}))
	}
	putOut := func(allocation, user string) error {
		return do("allocation.revoke_user", &taskcatalog.RevokeUserParams{AllocationID: allocation, Username: user, GraceSeconds: 1})
	}
	letIn("a-1", "alice")
	for id, user := range map[string]string{"ts-aaaaaaaa": "alice", "ts-bbbbbbbb": "bob", "ts-cccccccc": "alice"} {
		_, err := opens(t, h, "t-"+id, func(q *taskcatalog.TerminalOpenParams) { q.SessionID, q.Username = id, user })
		hosttest.OK(t, err)
	}
	hosttest.OK(t, putOut("a-1", "alice"))
	if _, there := p.units[unit.Name("ts-bbbbbbbb")]; !there || len(p.units) != 1 {
		t.Errorf("there are left %v", p.units)
	}
	letIn("a-2", "carol")
	_, err := opens(t, h, "t-3", func(q *taskcatalog.TerminalOpenParams) { q.SessionID, q.Username = "ts-dddddddd", "carol" })
	hosttest.OK(t, err)
	p.stuck = errors.New("it is stuck")
	if err := putOut("a-2", "carol"); taskcatalog.CodeOf(err, "") != "user_not_fully_revoked" {
		t.Errorf("where one does not end: %v", err)
	}
}

func TestAnAgentThatGoesEndsItsTerminalsFirst(t *testing.T) {
	h, _ := hosttest.Box(t)
	p := terminals(h)
	_, err := opens(t, h, "t-1")
	hosttest.OK(t, err)
	p.stuck = errors.New("it is stuck")
	hosttest.OK(t, removeAgent(t.Context(), h))
	if asked := h.Systemd.(*hosttest.Systemd).Asked; len(p.stopped) != 1 || len(asked) != 1 {
		t.Errorf("%q was stopped, and %q asked", p.stopped, asked)
	}
}
