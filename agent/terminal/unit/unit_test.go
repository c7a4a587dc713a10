package unit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/agent/terminal/handover"
	"github.com/hostler/hostler/taskcatalog"
)

const session = "ts-7k2m4q6s"

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// node simulates systemd and the sessions' processes.
type node struct {
	mu      sync.Mutex
	units   map[string]State
	specs   map[string]Spec
	log     []string
	silent  int                                   // how often a process does not answer yet
	answer  func(handover.Request) handover.Reply // nil: takes everything
	taken   map[string][]string                   // tasks, by directory
	stopErr map[string]error
	handed  handover.Handover // last
	startAs string            // state of a started unit
}

func newNode() *node {
	return &node{units: map[string]State{}, specs: map[string]Spec{}, taken: map[string][]string{}, stopErr: map[string]error{}, startAs: "active"}
}

func (n *node) say(format string, args ...any) { n.log = append(n.log, fmt.Sprintf(format, args...)) }

func (n *node) StartTerminal(_ context.Context, s Spec) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, there := n.units[s.Unit]; there {
		return ErrExists
	}
	n.say("start %s", s.Unit)
	n.units[s.Unit], n.specs[s.Unit] = State{Unit: s.Unit, Description: s.Description, Active: n.startAs}, s
	return nil
}

func (n *node) Terminals(context.Context) (all []State, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, s := range n.units {
		all = append(all, s)
	}
	return all, nil
}

func (n *node) Stop(ctx context.Context, unit string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.say("stop %s", unit)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	delete(n.units, unit)
	return n.stopErr[unit]
}

func (n *node) ask(_ context.Context, dir string, r handover.Request) (handover.Reply, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	st := n.units[Name(filepath.Base(dir))]
	if n.silent > 0 || !st.runs() {
		n.silent--
		return handover.Reply{}, taskcatalog.Errorf(handover.CodeNobody, "nobody")
	}
	if n.answer != nil {
		return n.answer(r), nil
	}
	reply := handover.Reply{Resumed: len(n.taken[dir]) > 0, Taken: slices.Contains(n.taken[dir], r.TaskID)}
	if r.Handover != nil {
		n.handed = *r.Handover
		n.say("hand %s %s to %s", r.SessionID, r.Handover.Token, r.Handover.Params.Relay)
		n.taken[dir] = append(n.taken[dir], r.TaskID)
		reply.Taken = true
	}
	return reply, nil
}

func (n *node) sessions(t *testing.T) *Sessions {
	t.Helper()
	root := t.TempDir()
	ok(t, os.Mkdir(root+"/proc", 0o755))
	m, err := machine.Open(root)
	ok(t, err)
	t.Cleanup(func() { m.Close() })
	return &Sessions{Systemd: n, Machine: m, Program: "/v/1/hostler-agent", After: "/usr/bin/hostler-agent", StateDir: "/var/lib/hostler-agent", Ask: n.ask}
}

func order(task string, change ...func(*Order)) Order {
	o := Order{
		TaskID:  task,
		Params:  &taskcatalog.TerminalOpenParams{SessionID: session, Relay: "one:1", Username: "alice", MaxSeconds: 60, DetachSeconds: 5},
		Allowed: func() error { return nil },
		Mint:    func(context.Context) ([]byte, error) { return []byte("token-of-" + task), nil },
	}
	for _, c := range change {
		c(&o)
	}
	return o
}

func (n *node) did(t *testing.T, want ...string) {
	t.Helper()
	if !slices.Equal(n.log, want) {
		t.Errorf("it did %q, want %q", n.log, want)
	}
}

const name = "hostler-terminal-ts-7k2m4q6s.service"

func TestASessionIsStartedOnceAndHandedOverAgain(t *testing.T) {
	n := newNode()
	s := n.sessions(t)
	res, err := s.Open(t.Context(), order("t-1"))
	if err != nil || *res != (taskcatalog.TerminalOpenResult{Unit: name}) {
		t.Fatalf("%+v (%v)", res, err)
	}
	if h := n.handed; h.Params.Username != "alice" || h.Sudo {
		t.Errorf("it is handed %+v", h)
	}
	res, err = s.Open(t.Context(), order("t-2", func(o *Order) { o.Params.Relay, o.Sudo = "two:2", true }))
	if err != nil || !res.Resumed {
		t.Fatalf("%+v (%v)", res, err)
	}
	// A session that has begun, maybe with an older agent, is told only the relay and token.
	if p, want := n.handed.Params, (taskcatalog.TerminalOpenParams{SessionID: session, Relay: "two:2"}); !reflect.DeepEqual(p, want) || n.handed.Sudo {
		t.Errorf("it is handed %+v", n.handed)
	}
	n.did(t, "start "+name, "hand ts-7k2m4q6s token-of-t-1 to one:1", "hand ts-7k2m4q6s token-of-t-2 to two:2")
	spec := n.specs[name]
	if !slices.Equal(spec.Start, []string{"/v/1/hostler-agent", "session", session}) || !slices.Equal(spec.After, []string{"/usr/bin/hostler-agent", "session-ended", session}) ||
		spec.Directory != "hostler-terminal/"+session || spec.Longest != 2*time.Minute || spec.Slice != Slice {
		t.Errorf("the unit is %+v", spec)
	}
	s.Config = "/etc/other.yaml"
	if after := s.spec(&taskcatalog.TerminalOpenParams{SessionID: session}).After; !slices.Equal(after, []string{"/usr/bin/hostler-agent", "session-ended", session, "--config", "/etc/other.yaml"}) {
		t.Errorf("after it comes %q", after)
	}
	if strings.Contains(fmt.Sprintf("%+v", spec), "token") {
		t.Errorf("the unit has the token: %+v", spec)
	}
	for task, want := range map[string]bool{"t-1": true, "t-2": true, "t-3": false} {
		if active, taken, _, err := s.Look(t.Context(), session, task); active != "active" || taken != want || err != nil {
			t.Errorf("of %s it is known: %q %t (%v)", task, active, taken, err)
		}
	}
}

func TestASessionThatHasBegunIsNeverStartedAgain(t *testing.T) {
	resume := func(o *Order) { o.Params.Resume = true }
	n := newNode()
	s := n.sessions(t)
	if res, err := s.Open(t.Context(), order("t-1", resume)); taskcatalog.CodeOf(err, "") != CodeGone || res != nil {
		t.Errorf("%+v (%v)", res, err)
	}
	n.did(t)
	if _, err := s.Open(t.Context(), order("t-1")); err != nil {
		t.Fatal(err)
	}
	if res, err := s.Open(t.Context(), order("t-2", resume)); err != nil || !res.Resumed {
		t.Errorf("%+v (%v)", res, err)
	}
	n.did(t, "start "+name, "hand ts-7k2m4q6s token-of-t-1 to one:1", "hand ts-7k2m4q6s token-of-t-2 to one:1")
	n.units[name] = State{Unit: name, Active: "failed"}
	if _, err := s.Open(t.Context(), order("t-3", resume)); taskcatalog.CodeOf(err, "") != CodeGone {
		t.Error(err)
	}
}

// An interrupted agent left a process that has not received its handover yet.
func TestASessionThatWasStartedAndNeverHandedOverIsHandedOver(t *testing.T) {
	n := newNode()
	s := n.sessions(t)
	ok(t, n.StartTerminal(t.Context(), s.spec(order("t-1").Params)))
	if active, taken, _, err := s.Look(t.Context(), session, "t-1"); active != "active" || taken || err != nil {
		t.Errorf("before, it is %q %t (%v)", active, taken, err)
	}
	if res, err := s.Open(t.Context(), order("t-2")); err != nil || res.Resumed {
		t.Errorf("%+v (%v)", res, err)
	}
}

func TestWhatWasStartedForNothingIsStopped(t *testing.T) {
	no := taskcatalog.Errorf("no_way", "no")
	for what, c := range map[string]struct {
		change func(*Order)
		answer handover.Reply
		code   taskcatalog.Code
		minted bool
	}{
		"the node drains":      {func(o *Order) { o.Allowed = func() error { return no } }, handover.Reply{}, "no_way", false},
		"there is no token":    {func(o *Order) { o.Mint = func(context.Context) ([]byte, error) { return nil, no } }, handover.Reply{}, "no_way", false},
		"the process says no":  {func(*Order) {}, handover.Reply{Code: "terminal_user_unknown"}, "terminal_user_unknown", true},
		"the task is canceled": {func(*Order) {}, handover.Reply{}, "no_way", false},
	} {
		for _, ran := range []bool{false, true} {
			n := newNode()
			s := n.sessions(t)
			if ran {
				ok(t, n.StartTerminal(t.Context(), s.spec(order("t-1").Params)))
				n.log = nil
			}
			ctx, cancel := context.WithCancel(t.Context())
			minted := false
			n.answer = func(r handover.Request) handover.Reply {
				if r.Handover == nil {
					return handover.Reply{}
				}
				minted = true
				return c.answer
			}
			o := order("t-1", c.change)
			if what == "the task is canceled" {
				o.Mint = func(context.Context) ([]byte, error) { cancel(); return nil, no }
			}
			if res, err := s.Open(ctx, o); taskcatalog.CodeOf(err, "") != c.code || res != nil {
				t.Errorf("where %s, it is %+v (%v)", what, res, err)
			}
			cancel()
			if minted != c.minted {
				t.Errorf("where %s, a token was handed over: %t", what, minted)
			}
			if ran {
				n.did(t)
			} else {
				n.did(t, "start "+name, "stop "+name)
			}
		}
	}
}

func TestAProcessThatIsOnItsWayIsWaitedFor_AndOneThatEndsIsNot(t *testing.T) {
	n := newNode()
	n.startAs, n.silent = "activating", 3
	s := n.sessions(t)
	if res, err := s.Open(t.Context(), order("t-1")); err != nil || res.Resumed {
		t.Errorf("%+v (%v)", res, err)
	}
	n.units[name] = State{Unit: name, Active: "deactivating"}
	minted := false
	if res, err := s.Open(t.Context(), order("t-2", func(o *Order) {
		o.Mint = func(context.Context) ([]byte, error) { minted = true; return nil, nil }
	})); taskcatalog.CodeOf(err, "") != CodeEnding || minted {
		t.Errorf("%+v (%v), and a token was minted: %t", res, err, minted)
	}
	if active, taken, _, err := s.Look(t.Context(), session, "t-1"); active != "deactivating" || taken || err != nil {
		t.Errorf("it is %q %t (%v)", active, taken, err)
	}
}

func TestAClosedSessionIsGone_AndOneThatIsNotThereIsNoError(t *testing.T) {
	n := newNode()
	s := n.sessions(t)
	if existed, err := s.Close(t.Context(), session); existed || err != nil {
		t.Errorf("one that never was: %t (%v)", existed, err)
	}
	_, err := s.Open(t.Context(), order("t-1"))
	ok(t, err)
	if existed, err := s.Close(t.Context(), session); !existed || err != nil {
		t.Errorf("%t (%v)", existed, err)
	}
	if active, taken, _, err := s.Look(t.Context(), session, "t-1"); active != "" || taken || err != nil {
		t.Errorf("it is %q %t (%v)", active, taken, err)
	}
}

// systemd reports a unit as ended although it could not kill its processes.
func TestASessionOfWhichAProcessIsLeftIsNotClosed(t *testing.T) {
	n := newNode()
	s := n.sessions(t)
	for pid, cgroup := range map[int]string{
		7: "/hostler.slice/hostler-terminal.slice/" + name, 8: "/hostler.slice/hostler-terminal.slice/" + name + "/below",
		9: "/user.slice", 10: "/hostler.slice/hostler-terminal.slice/x" + name,
	} {
		dir := fmt.Sprintf("%s/proc/%d", s.Machine.Dir(), pid)
		ok(t, os.Mkdir(dir, 0o755))
		for file, text := range map[string]string{
			"stat": fmt.Sprintf("%d (deaf) D 1 %d %d 0 -1 4194304 0 0 0 0 0 0 0 0 20 0 1 0 100 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 17 0 0 0 0 0 0\n", pid, pid, pid), "status": "Name:\tdeaf\nUid:\t1000\t1000\t1000\t1000\n", "cgroup": "0::" + cgroup + "\n",
		} {
			ok(t, os.WriteFile(dir+"/"+file, []byte(text), 0o644))
		}
	}
	_, err := s.Close(t.Context(), session)
	if taskcatalog.CodeOf(err, "") != CodeLeft || !strings.Contains(err.Error(), "2 processes") {
		t.Errorf("it is closed (%v)", err)
	}
}

func TestTheSessionsOfOneUserEnd_AndThoseOfAll(t *testing.T) {
	for user, want := range map[string]int{"alice": 2, "": 4, "lice": 0, "bob": 1, "of user alice": 0} {
		n := newNode()
		s := n.sessions(t)
		for id, of := range map[string]string{"ts-aaaaaaaa": "alice", "ts-bbbbbbbb": "bob", "ts-cccccccc": "alice", "ts-dddddddd": "root"} {
			_, err := s.Open(t.Context(), order("t", func(o *Order) { o.Params.SessionID, o.Params.Username = id, of }))
			ok(t, err)
		}
		n.stopErr[Name("ts-aaaaaaaa")] = errors.New("it is stuck")
		ended, err := s.EndUser(t.Context(), user)
		if ended != want || len(n.units) != 4-want || (err != nil) != (user == "alice" || user == "") {
			t.Errorf("of %q, %d ended, and %d are left (%v)", user, ended, len(n.units), err)
		}
	}
}

func TestWhatIsNoSessionHasNoUnit(t *testing.T) {
	n := newNode()
	s := n.sessions(t)
	for _, id := range []string{"", "ts-", "ts-ABCDEFGH", "../../x", "ts-7k2m4q6s/../x", "ts-7k2m4q6s\n", "7k2m4q6s", "ts-" + strings.Repeat("a", 41), "ts-7k2m4q6s.service"} {
		_, opened := s.Open(t.Context(), order("t", func(o *Order) { o.Params.SessionID = id }))
		_, closed := s.Close(t.Context(), id)
		_, _, _, looked := s.Look(t.Context(), id, "t")
		for _, err := range []error{opened, closed, looked} {
			if taskcatalog.CodeOf(err, "") != CodeSessionInvalid {
				t.Errorf("%q is one (%v)", id, err)
			}
		}
		if IsSession(Name(id)) {
			t.Errorf("%q is a session's unit", Name(id))
		}
	}
	n.did(t)
	if !IsSession(name) || IsSession("hostler-agent.service") || IsSession(name+".d") {
		t.Error("a session's unit is none, or another is one")
	}
}
