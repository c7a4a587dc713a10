package process

import (
	"bytes"
	"context"
	"encoding/binary"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/hostler/hostler/agent/journal"
	"github.com/hostler/hostler/agent/terminal"
	"github.com/hostler/hostler/agent/terminal/handover"
	"github.com/hostler/hostler/agent/terminal/logins"
	"github.com/hostler/hostler/agent/terminal/terminaltest"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/pki/pkitest"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire/frame"
)

const session = "ts-7k2m4q6s"

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// box is a machine's root in which alice is the user who runs the test.
func box(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	ok(t, os.MkdirAll(root+"/etc", 0o755))
	for name, text := range map[string]string{
		"passwd": "alice:x:" + strconv.Itoa(os.Getuid()) + ":" + strconv.Itoa(os.Getgid()) + "::/:/bin/sh\nnobody:x:65534:65534::/:/usr/sbin/nologin\nsue:x:4321:4321::/:/bin/sh\n",
		"group":  "sudo:x:27:sue\n", "shadow": "alice:!:20000:0:99999:7:::\n", "shells": "/bin/sh\n",
	} {
		ok(t, os.WriteFile(root+"/etc/"+name, []byte(text), 0o644))
	}
	return root
}

// place is the runtime directory, short enough for a socket.
func place(t *testing.T) string {
	t.Helper()
	top, err := os.MkdirTemp("", "process")
	ok(t, err)
	t.Cleanup(func() { ok(t, os.RemoveAll(top)) })
	ok(t, os.Chmod(top, 0o755))
	dir := filepath.Join(top, session)
	ok(t, os.Mkdir(dir, 0o700))
	return dir
}

// leavesNothing fails a test that leaks a descriptor or a goroutine of a session.
func leavesNothing(t *testing.T) {
	t.Helper()
	open := func() int {
		all, err := os.ReadDir("/proc/self/fd")
		ok(t, err)
		return len(all)
	}
	before := open()
	t.Cleanup(func() {
		left, stacks := 0, make([]byte, 1<<20)
		gone := within(10*time.Second, func() bool {
			left = open()
			text := string(stacks[:runtime.Stack(stacks, true)])
			return left <= before && !strings.Contains(text, "agent/terminal.") && !strings.Contains(text, "handover.")
		})
		if gone {
			return
		}
		t.Errorf("%d descriptors were open before, and %d are; what runs:\n%s", before, left, stacks[:runtime.Stack(stacks, true)])
	})
}

// within waits until is returns true, or the time is over.
func within(d time.Duration, is func() bool) bool {
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for over := time.After(d); !is(); {
		select {
		case <-over:
			return false
		case <-ticker.C:
		}
	}
	return true
}

// running is a session's process, inside this test process.
type running struct {
	Config
	authority *pkitest.Authority
	stop      context.CancelFunc
	over      chan error
	log       *safe
	mu        sync.Mutex
	member    Member
	key       string // of the member at the beginning
}

type safe struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safe) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safe) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func memberOf(t *testing.T, a *pkitest.Authority, n pkitest.Node) (m Member, key string) {
	t.Helper()
	key, err := pki.PublicKeyDigest(n.Signer().Public())
	ok(t, err)
	return Member{NodeID: n.NodeID, Config: pki.ClientConfig(a.Roots(), &n.Cert, time.Now)}, key
}

func runs(t *testing.T, change ...func(*Config)) *running {
	t.Helper()
	leavesNothing(t)
	a := pkitest.New(t)
	r := &running{authority: a, over: make(chan error, 1), log: &safe{}}
	r.member, r.key = memberOf(t, a, a.NewNode(t))
	dir := t.TempDir()
	ok(t, os.WriteFile(dir+"/utmp", nil, 0o600))
	ready := make(chan struct{}, 2)
	r.Config = Config{
		OwnScore:  dir + "/score",
		SessionID: session, Dir: place(t), Root: box(t), Log: journal.Plain(r.log, zap.InfoLevel),
		Logins: logins.Book{Utmp: dir + "/utmp", Wtmp: dir + "/wtmp", Now: time.Now}, Notify: func(string) { ready <- struct{}{} },
		Members: func(string) (Member, error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			return r.member, nil
		},
	}
	for _, c := range change {
		c(&r.Config)
	}
	ctx, stop := context.WithCancel(context.Background())
	r.stop = stop
	done := make(chan struct{})
	go func() { defer close(done); r.over <- Run(ctx, r.Config) }()
	t.Cleanup(func() {
		stop()
		<-done
		ok(t, unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0)) // of the test itself
	})
	<-ready
	return r
}

func (r *running) hand(t *testing.T, task string, to *terminaltest.Relay, token string, change ...func(*handover.Request)) handover.Reply {
	t.Helper()
	q := handover.Request{SessionID: session, TaskID: task, Handover: &handover.Handover{Token: token, StateDir: "/var/lib/hostler-agent", Params: taskcatalog.TerminalOpenParams{
		SessionID: session, Relay: to.Address, Username: "alice", AllowRoot: true, Command: []string{"/bin/cat", "-"}, MaxSeconds: 600, DetachSeconds: 60,
	}}}
	for _, c := range change {
		c(&q)
	}
	reply, err := handover.Ask(t.Context(), r.Dir, q)
	ok(t, err)
	return reply
}

func (r *running) end(t *testing.T) error {
	t.Helper()
	select {
	case err := <-r.over:
		return err
	case <-time.After(30 * time.Second):
		t.Fatal("the process does not end")
		return nil
	}
}

func TestASessionIsHandedOverAndHandedOn(t *testing.T) {
	r := runs(t)
	one, two := terminaltest.New(t, r.authority), terminaltest.New(t, r.authority)
	if reply := r.hand(t, "t-1", one, "first"); reply.Err() != nil || !reply.Taken || reply.Resumed {
		t.Fatalf("%+v", reply)
	}
	p, hello := one.Welcome(t, frame.Welcome{Token: "second"})
	if hello.Token != "first" || hello.SessionID != session || p.Key != r.key {
		t.Errorf("%+v", hello)
	}
	p.Type(t, "one\n")
	p.Until(t, "one\r\none")
	if n, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0); err != nil || n != 0 {
		t.Errorf("while a program runs, the process can be dumped: %d (%v)", n, err)
	}
	if raw, err := os.ReadFile(r.OwnScore); err != nil || string(raw) != "-900" {
		t.Errorf("while a program runs, it is killed as %q (%v)", raw, err)
	}
	if reply := r.hand(t, "t-2", two, "other"); reply.Err() != nil || !reply.Taken || !reply.Resumed {
		t.Fatalf("%+v", reply)
	}
	q, hello := two.Welcome(t, frame.Welcome{Taken: p.In.Taken()})
	q.In = p.In
	if hello.Token != "other" || hello.Taken != 4 {
		t.Errorf("%+v", hello)
	}
	q.Type(t, "two\n")
	q.Until(t, "two\r\ntwo")
	for task, want := range map[string]bool{"t-1": true, "t-2": true, "t-3": false} {
		reply, err := handover.Ask(t.Context(), r.Dir, handover.Request{SessionID: session, TaskID: task})
		if err != nil || reply.Taken != want || reply.Code != "" {
			t.Errorf("of %s it says %+v (%v)", task, reply, err)
		}
	}
	q.Send(t, frame.Bye{Code: "node_draining", Text: "it drains"})
	if err := r.end(t); err != nil {
		t.Errorf("a session that its relay ended is a failure: %v", err)
	}
	if _, err := handover.Ask(t.Context(), r.Dir, handover.Request{SessionID: session}); taskcatalog.CodeOf(err, "") != handover.CodeNobody {
		t.Errorf("after its end: %v", err)
	}
	said := r.log.String()
	for _, secret := range []string{"first", "second", "other", "/bin/cat", "one\n", "two"} {
		if strings.Contains(said, secret) {
			t.Errorf("%q is in the log:\n%s", secret, said)
		}
	}
	for _, want := range []string{"t-1", "t-2", session, r.member.NodeID, "node_draining", "alice"} {
		if !strings.Contains(said, want) {
			t.Errorf("%q is not in the log:\n%s", want, said)
		}
	}
}

func TestALoginIsRecordedAndItsEndWhoeverEndsIt(t *testing.T) {
	r := runs(t)
	one := terminaltest.New(t, r.authority)
	r.hand(t, "t-1", one, "first")
	p, _ := one.Welcome(t, frame.Welcome{})
	p.Type(t, "one\n")
	p.Until(t, "one\r\none")
	kind := func() (kind uint16, user string) {
		raw, err := os.ReadFile(r.Logins.Utmp)
		ok(t, err)
		name, _, _ := strings.Cut(string(raw[44:76]), "\x00")
		return binary.NativeEndian.Uint16(raw), name
	}
	if k, user := kind(); k != 7 || user != "alice" {
		t.Errorf("the record is %d of %q", k, user)
	}
	r.stop()
	ok(t, r.end(t))
	if k, _ := kind(); k != 7 {
		t.Errorf("the process itself says that it is over: %d", k)
	}
	l, was, err := End(r.Dir, r.Logins)
	if err != nil || !was || l.User != "alice" || l.From != "hostler:"+session {
		t.Errorf("%+v %t (%v)", l, was, err)
	}
	if k, user := kind(); k != 8 || user != "" {
		t.Errorf("then the record is %d of %q", k, user)
	}
	if _, was, err := End(r.Dir, r.Logins); was || err != nil {
		t.Errorf("its end is recorded again (%v)", err)
	}
	if _, was, err := End(r.Dir+"x", r.Logins); was || err != nil {
		t.Errorf("of a session that never was: %v", err)
	}
}

func TestAProcessThatNobodyComesToEndsByItself(t *testing.T) {
	r := runs(t, func(c *Config) { c.Within = 50 * time.Millisecond })
	if err := r.end(t); taskcatalog.CodeOf(err, "") != CodeNotHandedOver {
		t.Errorf("it ended with %v", err)
	}
}

func TestAStopBeforeAHandoverIsNoFailure(t *testing.T) {
	r := runs(t)
	r.stop()
	ok(t, r.end(t))
}

// The agent is told at once why there is no session, and the process ends without a failure of its
// own.
func TestWhatCannotBeASessionIsToldToTheAgent(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*taskcatalog.TerminalOpenParams)
		code   taskcatalog.Code
	}{
		"nobody knows the user":   {func(q *taskcatalog.TerminalOpenParams) { q.Username = "bob" }, terminal.CodeUserUnknown},
		"the user has no shell":   {func(q *taskcatalog.TerminalOpenParams) { q.Username = "nobody" }, terminal.CodeShellRefused},
		"there is no such thing":  {func(q *taskcatalog.TerminalOpenParams) { q.Command = []string{"./x"} }, terminal.CodeCommandRefused},
		"it brings a library":     {func(q *taskcatalog.TerminalOpenParams) { q.Locale = map[string]string{"LD_PRELOAD": "x"} }, terminal.CodeEnvRefused},
		"the terminal is a path":  {func(q *taskcatalog.TerminalOpenParams) { q.Term = "../x" }, terminal.CodeEnvRefused},
		"sudo, and nobody may be": {func(q *taskcatalog.TerminalOpenParams) { q.Username, q.AllowRoot = "sue", false }, terminal.CodeUserRefused},
		"root, and nobody may be": {func(q *taskcatalog.TerminalOpenParams) { q.AllowRoot = false }, terminal.CodeUserRefused},
	} {
		if os.Getuid() != 0 && strings.HasPrefix(name, "root") {
			continue
		}
		r := runs(t)
		reply := r.hand(t, "t-1", &terminaltest.Relay{Address: "127.0.0.1:1"}, "first", func(q *handover.Request) { c.change(&q.Handover.Params) })
		if reply.Code != c.code || reply.Taken {
			t.Errorf("where %s, the answer is %+v", name, reply)
		}
		if err := r.end(t); err != nil {
			t.Errorf("where %s, the process fails: %v", name, err)
		}
	}
}

// The journal gets no word of the command, even if the command cannot be started.
func TestAProgramThatCannotBeStartedIsToldToTheRelayAlone(t *testing.T) {
	r := runs(t)
	one := terminaltest.New(t, r.authority)
	reply := r.hand(t, "t-1", one, "first", func(q *handover.Request) {
		q.Handover.Params.Command = []string{"/nonexistent/hush-program", "hush-word"}
	})
	if reply.Err() != nil {
		t.Fatalf("%+v", reply)
	}
	p, _ := one.Welcome(t, frame.Welcome{})
	if bye := p.Gone(t); bye.Code != terminal.CodeStartFailed || !strings.Contains(bye.Text, "/nonexistent/hush-program") {
		t.Errorf("the relay hears %+v", bye)
	}
	p.Close()
	err := r.end(t)
	if taskcatalog.CodeOf(err, "") != terminal.CodeStartFailed || strings.Contains(err.Error()+r.log.String(), "hush") {
		t.Errorf("it ends with %v, and the log is\n%s", err, r.log)
	}
}

// A user who was given sudo with the account is allowed here as well.
func TestWhoWasGivenSudoIsLetIn(t *testing.T) {
	r := runs(t)
	reply := r.hand(t, "t-1", &terminaltest.Relay{Address: "127.0.0.1:1"}, "first", func(q *handover.Request) {
		q.Handover.Params.Username, q.Handover.Params.AllowRoot, q.Handover.Sudo = "sue", false, true
	})
	if reply.Err() != nil || !reply.Taken {
		t.Errorf("%+v", reply)
	}
	r.stop()
	ok(t, r.end(t))
}

func TestAHandoverThatIsNoneBeginsNothing(t *testing.T) {
	r := runs(t)
	for name, change := range map[string]func(*handover.Request){
		"of another session": func(q *handover.Request) { q.SessionID = "ts-aaaaaaaa" },
		"without a token":    func(q *handover.Request) { q.Handover.Token = "" },
		"without a relay":    func(q *handover.Request) { q.Handover.Params.Relay = "" },
		"without a port":     func(q *handover.Request) { q.Handover.Params.Relay = "broker.example" },
		"with another port":  func(q *handover.Request) { q.Handover.Params.Relay = "broker.example:99999" },
		"without a host":     func(q *handover.Request) { q.Handover.Params.Relay = ":7442" },
	} {
		if reply := r.hand(t, "t-1", &terminaltest.Relay{Address: "127.0.0.1:1"}, "first", change); reply.Code != handover.CodeInvalid || reply.Taken {
			t.Errorf("one %s is answered by %+v", name, reply)
		}
	}
	one := terminaltest.New(t, r.authority)
	if reply := r.hand(t, "t-2", one, "first"); reply.Resumed || !reply.Taken {
		t.Errorf("then the first is %+v", reply)
	}
	one.Welcome(t, frame.Welcome{})
}

// During a session the node's certificate is renewed, or its key changes: the next connection uses
// the new one.
func TestASessionFollowsTheNodesCertificateAndItsKey(t *testing.T) {
	r := runs(t)
	one := terminaltest.New(t, r.authority)
	r.hand(t, "t-1", one, "first")
	p, _ := one.Welcome(t, frame.Welcome{Token: "second"})
	p.Type(t, "one\n")
	p.Until(t, "one\r\none")
	nodeNow, keyNow := memberOf(t, r.authority, r.authority.NewNode(t))
	if p.Key == keyNow {
		t.Fatal("both keys are one")
	}
	r.mu.Lock()
	r.member = nodeNow
	r.mu.Unlock()
	p.Close()
	q, hello := one.Welcome(t, frame.Welcome{Taken: p.In.Taken()})
	if hello.Token != "second" || q.Key != keyNow {
		t.Errorf("%+v with key %s", hello, q.Key)
	}
}
