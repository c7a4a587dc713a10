//go:build e2e

package terminalnode

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hostler/hostler/agent/identity"
	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/agent/systemd"
	"github.com/hostler/hostler/agent/terminal/handover"
	"github.com/hostler/hostler/agent/terminal/terminaltest"
	"github.com/hostler/hostler/agent/terminal/unit"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/pki/pkitest"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire"
	"github.com/hostler/hostler/taskcatalog/wire/frame"
)

// agentProgram is the agent's path in the guest.
const agentProgram = "/opt/hostler-agent"

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// node is this machine, with an agent's state and a relay.
type node struct {
	*unit.Sessions
	relay, other *terminaltest.Relay
}

func newNode(t *testing.T) *node {
	t.Helper()
	if os.Getenv("HOSTLER_GUEST") == "" {
		t.Skip("this runs inside a guest")
	}
	a := pkitest.New(t)
	id := a.NewNode(t).NodeIdentity
	s, err := identity.Open(t.TempDir(), time.Now)
	ok(t, err)
	t.Cleanup(func() { _ = s.Close() })
	ok(t, s.Lock())
	token, err := pki.NewEnrollToken(rand.Reader)
	ok(t, err)
	_, err = s.Enroll(t.Context(), &identity.Bootstrap{Broker: "https://b", CASHA256: a.Pin(), Token: token, Source: "the test"}, pki.Ed25519, identity.Report{},
		func(_ context.Context, r wire.EnrollRequest) (*wire.EnrollReply, error) {
			csr, err := pki.ParseCSR([]byte(r.CSR))
			if err != nil {
				return nil, err
			}
			leaf, err := a.Issuing.IssueNode(csr, id, time.Now(), 24*time.Hour)
			if err != nil {
				return nil, err
			}
			return &wire.EnrollReply{NodeID: id.NodeID, NodeEpoch: id.Epoch, Certificate: string(pki.MarshalCerts(leaf, a.Issuing.Cert, a.Root())), TrustBundle: string(a.RawBundle)}, nil
		})
	ok(t, err)
	m, err := machine.Open("/")
	ok(t, err)
	t.Cleanup(func() { m.Close() })
	n := &node{
		Sessions: &unit.Sessions{Systemd: systemd.Bus{}, Machine: m, Program: agentProgram, After: agentProgram, StateDir: s.Path(), Ask: handover.Ask},
		relay:    terminaltest.New(t, a), other: terminaltest.New(t, a),
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		_, err := n.EndUser(ctx, "")
		ok(t, err)
	})
	return n
}

func (n *node) open(t *testing.T, id, user string, at *terminaltest.Relay, command ...string) (*taskcatalog.TerminalOpenResult, error) {
	t.Helper()
	return n.Open(t.Context(), unit.Order{
		TaskID:  "t-" + id + at.Address,
		Params:  &taskcatalog.TerminalOpenParams{SessionID: id, Relay: at.Address, Username: user, Command: command, MaxSeconds: 600, DetachSeconds: 30},
		Allowed: func() error { return nil },
		Mint:    func(context.Context) ([]byte, error) { return []byte("token"), nil },
	})
}

// run returns the output of a program of the machine.
func run(t *testing.T, argv ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), argv[0], argv[1:]...).CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// until polls.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for over := time.After(time.Minute); !is(); {
		select {
		case <-over:
			t.Fatalf("%s: not within a minute", what)
		case <-ticker.C:
		}
	}
}

func (n *node) loaded(t *testing.T, id string) bool {
	t.Helper()
	all, err := n.Systemd.Terminals(t.Context())
	ok(t, err)
	return slices.ContainsFunc(all, func(s unit.State) bool { return s.Unit == unit.Name(id) })
}

// clean fails if anything of a session is left.
func (n *node) clean(t *testing.T, id, tty string) {
	t.Helper()
	until(t, "the unit of "+id+" is gone", func() bool { return !n.loaded(t, id) })
	if _, err := os.Stat(unit.Dir(id)); err == nil {
		t.Errorf("%s is still there", unit.Dir(id))
	}
	if left := run(t, "pgrep", "-u", "alice"); left != "" {
		t.Errorf("alice still has the processes %s", left)
	}
	if who := run(t, "who"); strings.Contains(who, tty) {
		t.Errorf("who still says %q", who)
	}
	if _, err := os.Stat("/dev/" + tty); err == nil {
		t.Errorf("/dev/%s is still there", tty)
	}
	if dirs := run(t, "find", "/sys/fs/cgroup", "-name", unit.Name(id)); dirs != "" {
		t.Errorf("there is still %s", dirs)
	}
}

// shell opens a session and returns its terminal.
func (n *node) shell(t *testing.T, id string) (*terminaltest.Peer, string) {
	t.Helper()
	if res, err := n.open(t, id, "alice", n.relay); err != nil || *res != (taskcatalog.TerminalOpenResult{Unit: unit.Name(id)}) {
		t.Fatalf("%+v (%v)", res, err)
	}
	p, _ := n.relay.Welcome(t, frame.Welcome{Token: "next"})
	p.Type(t, "stty -echo; PS1=; tty; echo ready-$((40+2))\n")
	said := p.Until(t, "ready-42")
	at := strings.LastIndex(said, "/dev/pts/")
	if at < 0 {
		t.Fatalf("its terminal is none: %q", said)
	}
	tty, _, _ := strings.Cut(said[at+len("/dev/"):], "\r")
	return p, tty
}

func TestASessionIsAUnitOfItsOwn(t *testing.T) {
	n := newNode(t)
	const id = "ts-aaaaaaaa"
	p, tty := n.shell(t, id)
	p.Type(t, "id -un; grep -c . /proc/self/status; cat /proc/self/cgroup; grep -E 'Sig(Ign|Blk)|NoNewPrivs' /proc/self/status; umask; env | sort; ls -l /proc/self/fd | wc -l; cat "+unit.Dir(id)+"/login.json; sudo -n true; echo sudo $?; echo end-$((1+1))\n")
	said := p.Until(t, "end-2")
	for _, want := range []string{
		"alice\r\n", "/" + unit.Slice + "/" + unit.Name(id), "SigIgn:\t0000000000000000", "NoNewPrivs:\t0", "0022\r\n", "HOME=/home/alice", "Permission denied", "sudo 0",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("%q is not in\n%s", want, said)
		}
	}
	for _, bad := range []string{"NOTIFY_SOCKET", "RUNTIME_DIRECTORY", "INVOCATION_ID", "JOURNAL_STREAM"} {
		if strings.Contains(said, bad) {
			t.Errorf("%s is in\n%s", bad, said)
		}
	}
	if who := run(t, "who"); !strings.Contains(who, "alice") || !strings.Contains(who, tty) || !strings.Contains(who, "hostler:"+id) {
		t.Errorf("who says %q", who)
	}
	if raw, err := os.ReadFile("/proc/self/cgroup"); err != nil || strings.Contains(string(raw), unit.Slice) {
		t.Errorf("who started it is in its cgroup: %s (%v)", raw, err)
	}
	main := run(t, "systemctl", "show", "-P", "MainPID", unit.Name(id))
	if out := run(t, "runuser", "-u", "alice", "--", "cat", "/proc/"+main+"/environ", "/proc/"+main+"/maps"); !strings.Contains(out, "Permission denied") {
		t.Errorf("alice looks into the session's process: %s", out)
	}
	if show := run(t, "systemctl", "show", "-p", "PartOf,BindsTo,Requires,WantedBy,BoundBy", unit.Name(id)); strings.Contains(show, "hostler-agent") {
		t.Errorf("it hangs on the agent: %s", show)
	}
	if res, err := n.open(t, id, "alice", n.other); err != nil || !res.Resumed {
		t.Fatalf("%+v (%v)", res, err)
	}
	q, hello := n.other.Welcome(t, frame.Welcome{Taken: p.In.Taken()})
	q.In = p.In
	if hello.Sent < p.In.Taken() {
		t.Errorf("%+v", hello)
	}
	if active, taken, _, err := n.Look(t.Context(), id, "t-"+id+n.other.Address); active != "active" || !taken || err != nil {
		t.Errorf("it is %s, %t (%v)", active, taken, err)
	}
	// This process leaves the terminal's session and ignores both signals.
	q.Type(t, "nohup setsid sh -c 'trap \"\" TERM HUP; while :; do sleep 1; done' >/dev/null 2>&1 & echo gone-$((2+1))\n")
	q.Until(t, "gone-3")
	start := time.Now()
	if existed, err := n.Close(t.Context(), id); err != nil || !existed {
		t.Errorf("%t (%v)", existed, err)
	}
	if took := time.Since(start); took > 40*time.Second {
		t.Errorf("it took %s", took)
	}
	if bye := q.Gone(t); bye.Code != "terminal_closed" {
		t.Errorf("its last word is %+v", bye)
	}
	n.clean(t, id, tty)
	if existed, err := n.Close(t.Context(), id); err != nil || existed {
		t.Errorf("again: %t (%v)", existed, err)
	}
	log := run(t, "journalctl", "-o", "cat", "HOSTLER_SESSION="+id)
	for _, want := range []string{"a user is logged in", "a user is logged out", "terminal_closed"} {
		if !strings.Contains(log, want) {
			t.Errorf("%q is not in the journal:\n%s", want, log)
		}
	}
	if strings.Contains(log, "setsid") || strings.Contains(log, "token") {
		t.Errorf("the journal says too much:\n%s", log)
	}
}

func TestASessionWhoseProcessIsKilledLeavesNothing(t *testing.T) {
	n := newNode(t)
	const id = "ts-bbbbbbbb"
	p, tty := n.shell(t, id)
	p.Type(t, "setsid sleep 1000 & echo gone-$((2+1))\n")
	p.Until(t, "gone-3")
	pid, err := strconv.Atoi(run(t, "systemctl", "show", "-P", "MainPID", unit.Name(id)))
	ok(t, err)
	start := time.Now()
	ok(t, unix.Kill(pid, unix.SIGKILL))
	n.clean(t, id, tty)
	if took := time.Since(start); took > 30*time.Second {
		t.Errorf("it took %s", took)
	}
	if log := run(t, "journalctl", "-o", "cat", "HOSTLER_SESSION="+id); !strings.Contains(log, "did not end by itself") || !strings.Contains(log, "a user is logged out") {
		t.Errorf("the journal says\n%s", log)
	}
}

func TestWhoMayNotIsToldSoAndLeavesNoUnit(t *testing.T) {
	n := newNode(t)
	for user, code := range map[string]taskcatalog.Code{
		"root": "terminal_user_refused", "nobody": "terminal_shell_refused", "expired": "terminal_account_expired", "bob": "terminal_user_unknown",
	} {
		id := "ts-cccc" + fmt.Sprintf("%04d", len(user))
		if _, err := n.open(t, id, user, n.relay); taskcatalog.CodeOf(err, "") != code {
			t.Errorf("%s: %v", user, err)
		}
		until(t, "the unit of "+user+" is gone", func() bool { return !n.loaded(t, id) })
	}
}

func TestTheSessionsOfAUserEndTogether(t *testing.T) {
	n := newNode(t)
	_, one := n.shell(t, "ts-dddddddd")
	_, two := n.shell(t, "ts-eeeeeeee")
	if ended, err := n.EndUser(t.Context(), "bob"); ended != 0 || err != nil {
		t.Errorf("of bob, %d (%v)", ended, err)
	}
	if ended, err := n.EndUser(t.Context(), "alice"); ended != 2 || err != nil {
		t.Errorf("%d (%v)", ended, err)
	}
	n.clean(t, "ts-dddddddd", one)
	n.clean(t, "ts-eeeeeeee", two)
}
