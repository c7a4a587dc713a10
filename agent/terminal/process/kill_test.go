package process

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/hostler/hostler/agent/identity"
	"github.com/hostler/hostler/agent/journal"
	"github.com/hostler/hostler/agent/terminal/handover"
	"github.com/hostler/hostler/agent/terminal/logins"
	"github.com/hostler/hostler/agent/terminal/terminaltest"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/pki/pkitest"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire"
	"github.com/hostler/hostler/taskcatalog/wire/frame"
)

// The test binary is also a session's process as in the field, with its runtime directory, the
// machine's root and its logins.
func TestMain(m *testing.M) {
	if len(os.Args) == 5 && os.Args[1] == "session" {
		err := HideMemory()
		if err == nil {
			err = Run(context.Background(), Config{
				SessionID: session, Dir: os.Args[2], Root: os.Args[3], Members: ReadMember, Notify: func(s string) { fmt.Println(s) },
				Logins: logins.Book{Utmp: os.Args[4], Wtmp: os.Args[4] + "w", Now: time.Now}, Log: journal.Plain(os.Stderr, zap.InfoLevel),
			})
		}
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// office enrols a node, and renews its certificate, as a broker does.
type office struct {
	*pkitest.Authority
	id pki.NodeIdentity
	t  *testing.T
}

func (o *office) certify(csrPEM string, life time.Duration) string {
	csr, err := pki.ParseCSR([]byte(csrPEM))
	ok(o.t, err)
	leaf, err := o.Issuing.IssueNode(csr, o.id, time.Now(), life)
	ok(o.t, err)
	return string(pki.MarshalCerts(leaf, o.Issuing.Cert, o.Root()))
}

// enrolled is the state directory of a node, held by the agent.
func enrolled(t *testing.T, a *pkitest.Authority) (*office, *identity.State) {
	t.Helper()
	o := &office{Authority: a, id: a.NewNode(t).NodeIdentity, t: t}
	s, err := identity.Open(t.TempDir(), time.Now)
	ok(t, err)
	t.Cleanup(func() { _ = s.Close() })
	ok(t, s.Lock())
	token, err := pki.NewEnrollToken(rand.Reader)
	ok(t, err)
	_, err = s.Enroll(t.Context(), &identity.Bootstrap{Broker: "https://b", CASHA256: a.Pin(), Token: token, Source: "the test"}, pki.Ed25519, identity.Report{},
		func(_ context.Context, r wire.EnrollRequest) (*wire.EnrollReply, error) {
			return &wire.EnrollReply{NodeID: o.id.NodeID, NodeEpoch: o.id.Epoch, Certificate: o.certify(r.CSR, 24*time.Hour), TrustBundle: string(a.RawBundle)}, nil
		})
	ok(t, err)
	return o, s
}

func TestWhoTheNodeIsIsReadAnew(t *testing.T) {
	a := pkitest.New(t)
	o, s := enrolled(t, a)
	before, err := ReadMember(s.Path())
	ok(t, err)
	serial := func(m Member) string {
		shown, err := m.Config.GetClientCertificate(nil)
		ok(t, err)
		return pki.Serial(shown.Leaf)
	}
	if before.NodeID != o.id.NodeID || !before.Config.RootCAs.Equal(a.Roots()) {
		t.Fatalf("%+v", before)
	}
	_, err = s.Renew(t.Context(), identity.Report{}, func(_ context.Context, r wire.RenewRequest) (*wire.RenewReply, error) {
		return &wire.RenewReply{Certificate: o.certify(r.CSR, time.Hour)}, nil
	})
	ok(t, err)
	after, err := ReadMember(s.Path()) // while the agent holds the directory
	ok(t, err)
	if serial(after) == serial(before) {
		t.Errorf("after a renewal it is the same: %s and %s", serial(before), serial(after))
	}
	gone := filepath.Join(t.TempDir(), "gone")
	if _, err := ReadMember(gone); taskcatalog.CodeOf(err, "") != CodeNoMember {
		t.Errorf("of a directory that is gone: %v", err)
	}
	if _, err := os.Stat(gone); err == nil {
		t.Error("it is made")
	}
	if _, err := ReadMember(t.TempDir()); taskcatalog.CodeOf(err, "") != CodeNoMember {
		t.Errorf("of a machine that is no node: %v", err)
	}
}

// Whoever kills the process, neither the program nor its terminal stays, and the login is ended.
func TestAProcessThatIsKilledLeavesNoProgramNoTerminalAndNoLogin(t *testing.T) {
	a := pkitest.New(t)
	_, s := enrolled(t, a)
	dir, utmp := place(t), filepath.Join(t.TempDir(), "utmp")
	ok(t, os.WriteFile(utmp, nil, 0o600))
	self, err := os.Executable()
	ok(t, err)
	cmd := exec.CommandContext(t.Context(), self, "session", dir, box(t), utmp)
	cmd.Stderr = new(bytes.Buffer)
	out, err := cmd.StdoutPipe()
	ok(t, err)
	ok(t, cmd.Start())
	ready := make([]byte, 8)
	if _, err := out.Read(ready); err != nil || string(ready) != "READY=1\n" {
		t.Fatalf("%q (%v): %s", ready, err, cmd.Stderr)
	}
	one := terminaltest.New(t, a)
	reply, err := handover.Ask(t.Context(), dir, handover.Request{SessionID: session, TaskID: "t-1", Handover: &handover.Handover{Token: "first", StateDir: s.Path(), Params: taskcatalog.TerminalOpenParams{
		SessionID: session, Relay: one.Address, Username: "alice", AllowRoot: true, Command: []string{"/bin/cat"}, MaxSeconds: 600, DetachSeconds: 60,
	}}})
	if err != nil || reply.Err() != nil {
		t.Fatalf("%+v (%v)", reply, err)
	}
	p, _ := one.Welcome(t, frame.Welcome{})
	p.Type(t, "one\n")
	p.Until(t, "one\r\none")
	program := onlyChild(t, cmd.Process.Pid)
	if who, err := os.Stat(fmt.Sprintf("/proc/%d/mem", cmd.Process.Pid)); err != nil || who.Mode().Perm()&0o077 != 0 {
		t.Errorf("its memory is %v (%v)", who, err)
	}
	ok(t, cmd.Process.Kill())
	_ = cmd.Wait()
	start := time.Now()
	if !within(10*time.Second, func() bool { return unix.Kill(program, 0) != nil || ended(program) }) {
		t.Fatalf("process %d is still there", program)
	}
	if bye := p.Gone(t); bye.Code != "" { // the relay sees the end of the connection
		t.Errorf("its last word is %+v", bye)
	}
	l, was, err := End(dir, logins.Book{Utmp: utmp, Now: time.Now})
	if err != nil || !was || l.PID != program {
		t.Errorf("the login of %d was %+v, %t (%v)", program, l, was, err)
	}
	var tty unix.Stat_t // the number may have been reused by now
	if err := unix.Stat(l.TTY, &tty); err == nil && time.Unix(tty.Ctim.Unix()).Before(start) {
		t.Errorf("%s is still there", l.TTY)
	}
	if raw, err := os.ReadFile(utmp); err != nil || len(raw) == 0 || raw[0] != 8 {
		t.Errorf("the record is %v (%v)", raw, err)
	}
	if _, err := handover.Ask(t.Context(), dir, handover.Request{SessionID: session}); taskcatalog.CodeOf(err, "") != handover.CodeNobody {
		t.Errorf("who asks now hears %v", err)
	}
}

func onlyChild(t *testing.T, pid int) (child int) {
	t.Helper()
	all, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	ok(t, err)
	for _, name := range all {
		raw, err := os.ReadFile(name)
		ok(t, err)
		if text := strings.TrimSpace(string(raw)); text != "" {
			if _, err := fmt.Sscan(text, &child); err != nil {
				t.Fatal(err)
			}
		}
	}
	if child == 0 {
		t.Fatal("it has started nothing")
	}
	return child
}

// ended reports whether a process is a zombie or gone.
func ended(pid int) bool {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || strings.Contains(string(raw), ") Z ")
}
