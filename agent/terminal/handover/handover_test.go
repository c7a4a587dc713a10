package handover

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hostler/hostler/taskcatalog"
)

// The test binary is also an intruder at the socket: "ask" asks like the agent, and "poke" skips
// the check of the other end.
func TestMain(m *testing.M) {
	if len(os.Args) != 3 {
		os.Exit(m.Run())
	}
	said, err := "", error(nil)
	if os.Args[1] == "ask" {
		_, err = Ask(context.Background(), os.Args[2], Request{})
	} else {
		said, err = poke(filepath.Join(os.Args[2], socketName))
	}
	if err != nil {
		said = "error: " + err.Error()
	}
	_, _ = io.WriteString(os.Stdout, said)
	os.Exit(0)
}

func poke(socket string) (string, error) {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return "", err
	}
	_, _ = io.WriteString(conn, `{"version":1,"session_id":"x","task_id":"t"}`)
	_ = conn.(*net.UnixConn).CloseWrite()
	said, err := io.ReadAll(conn)
	return "heard " + string(said), err
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// place is a directory as systemd makes one for a session: short enough for a socket.
func place(t *testing.T) string {
	t.Helper()
	top, err := os.MkdirTemp("", "handover")
	ok(t, err)
	t.Cleanup(func() { ok(t, os.RemoveAll(top)) })
	ok(t, os.Chmod(top, 0o755))
	dir := filepath.Join(top, "ts-7k2m4q6s")
	ok(t, os.Mkdir(dir, 0o700))
	return dir
}

type served struct {
	dir     string
	mu      sync.Mutex
	heard   []Request
	refused []error
	answer  func(Request) Reply
}

func serves(t *testing.T, answer func(Request) Reply) *served {
	t.Helper()
	s := &served{dir: place(t), answer: answer}
	l, err := Open(s.dir)
	ok(t, err)
	ctx, stop := context.WithCancel(context.Background())
	over := make(chan struct{})
	go func() {
		defer close(over)
		l.Answer(ctx, func(r Request) Reply {
			s.mu.Lock()
			s.heard = append(s.heard, r)
			s.mu.Unlock()
			return s.answer(r)
		}, func(err error) {
			s.mu.Lock()
			s.refused = append(s.refused, err)
			s.mu.Unlock()
		})
	}()
	t.Cleanup(func() { stop(); <-over })
	return s
}

func (s *served) count() (heard, refused int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.heard), len(s.refused)
}

func taken(Request) Reply { return Reply{Taken: true} }

func TestARequestAndItsAnswerPass(t *testing.T) {
	s := serves(t, func(Request) Reply { return Reply{Resumed: true, Taken: true} })
	params := taskcatalog.TerminalOpenParams{SessionID: "ts-7k2m4q6s", Relay: "broker.example:7442", Username: "alice", Command: []string{"echo", "a\x1b b"}, MaxSeconds: 60, DetachSeconds: 5}
	reply, err := Ask(t.Context(), s.dir, Request{SessionID: "ts-7k2m4q6s", TaskID: "t-1", Handover: &Handover{Token: "secret", StateDir: "/var/lib/x", Params: params}})
	if err != nil || reply != (Reply{Version: Version, Resumed: true, Taken: true}) {
		t.Fatalf("%+v (%v)", reply, err)
	}
	got := s.heard[0]
	if got.TaskID != "t-1" || got.Handover.Token != "secret" || got.Handover.Params.Command[1] != "a\x1b b" || got.Handover.Params.Relay != params.Relay {
		t.Errorf("%+v was heard", got)
	}
	s.answer = func(Request) Reply { return Refuse(taskcatalog.Errorf("terminal_user_unknown", "nobody\x1b[2J")) }
	reply, err = Ask(t.Context(), s.dir, Request{})
	if err != nil || taskcatalog.CodeOf(reply.Err(), "") != "terminal_user_unknown" || strings.Contains(reply.Text, "\x1b") {
		t.Errorf("%+v (%v)", reply, err)
	}
}

func TestWhatIsNoRequestIsNotActedUpon(t *testing.T) {
	good := `{"version":1,"session_id":"ts-7k2m4q6s","task_id":"t"}`
	for name, raw := range map[string]string{
		"nothing":               "",
		"text":                  "hello",
		"a version as text":     strings.Replace(good, `:1`, `:"1"`, 1),
		"a task that is a list": strings.Replace(good, `"t"`, `["t"]`, 1),
		"more after it":         good + good,
		"another version":       strings.Replace(good, `:1`, `:2`, 1),
		"no version":            strings.Replace(good, `"version":1,`, ``, 1),
		"more than allowed":     `{"version":1,"task_id":"` + strings.Repeat("x", maxMessage) + `"}`,
	} {
		s := serves(t, taken)
		conn, err := net.Dial("unix", filepath.Join(s.dir, socketName))
		ok(t, err)
		_, _ = io.WriteString(conn, raw) // a message that is too long may be cut off
		_ = conn.(*net.UnixConn).CloseWrite()
		var reply Reply
		if answer, err := io.ReadAll(conn); err == nil { // otherwise closed with unread data
			ok(t, json.Unmarshal(answer, &reply))
			if reply.Code != CodeInvalid && reply.Code != CodeVersion || reply.Taken {
				t.Errorf("%s is answered by %+v", name, reply)
			}
		}
		conn.Close()
		if heard, _ := s.count(); heard != 0 {
			t.Errorf("%s is a request", name)
		}
	}
}

// A session outlasts its agent: unknown fields from either end are ignored, and of another version
// only the version number is read.
func TestVersionsSpeakWithEachOther(t *testing.T) {
	s := serves(t, taken)
	say := func(raw string) (reply Reply) {
		t.Helper()
		conn, err := net.Dial("unix", filepath.Join(s.dir, socketName))
		ok(t, err)
		defer conn.Close()
		_, err = io.WriteString(conn, raw)
		ok(t, err)
		ok(t, conn.(*net.UnixConn).CloseWrite())
		answer, err := io.ReadAll(conn)
		ok(t, err)
		ok(t, json.Unmarshal(answer, &reply))
		return reply
	}
	if reply := say(`{"version":1,"session_id":"ts-7k2m4q6s","task_id":"t","later":{"a":1},"handover":{"token":"x","state_dir":"/s","more":[1],"params":{"relay":"one:1","even":"more"}}}`); !reply.Taken {
		t.Errorf("%+v", reply)
	}
	if got := s.heard[0]; got.TaskID != "t" || got.Handover.Params.Relay != "one:1" {
		t.Errorf("%+v", got)
	}
	if reply := say(`{"version":2,"session_id":["another","shape"]}`); reply.Code != CodeVersion || reply.Taken || len(s.heard) != 1 {
		t.Errorf("%+v", reply)
	}
	for raw, code := range map[string]taskcatalog.Code{
		`{"version":1,"taken":true,"later":true}`: "",
		`{"version":2,"taken":["yes"]}`:           CodeVersion,
	} {
		dir := place(t)
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, socketName), Net: "unix"})
		ok(t, err)
		go func() {
			conn, err := l.Accept()
			if err == nil {
				_, _ = io.ReadAll(conn)
				_, _ = io.WriteString(conn, raw)
				_ = conn.Close()
			}
		}()
		reply, err := Ask(t.Context(), dir, Request{})
		if taskcatalog.CodeOf(err, "") != code || reply.Taken != (code == "") {
			t.Errorf("%s is %+v (%v)", raw, reply, err)
		}
		l.Close()
	}
}

// A client that connects and sends nothing is dropped after a while, and the next is served.
func TestWhoSaysNothingHoldsUpNobodyForLong(t *testing.T) {
	s := serves(t, taken)
	conn, err := net.Dial("unix", filepath.Join(s.dir, socketName))
	ok(t, err)
	defer conn.Close()
	start := time.Now()
	if reply, err := Ask(t.Context(), s.dir, Request{}); err != nil || !reply.Taken || time.Since(start) > 2*messageTime {
		t.Errorf("%+v (%v) after %s", reply, err, time.Since(start))
	}
	if _, refused := s.count(); refused != 1 {
		t.Errorf("%d were refused", refused)
	}
}

func TestAnotherUserIsToldNothing(t *testing.T) {
	if err := allow(&unix.Ucred{Uid: 1000, Pid: 7}, 0); taskcatalog.CodeOf(err, "") != CodeStranger {
		t.Errorf("uid 1000 is let in (%v)", err)
	}
	if err := allow(&unix.Ucred{Uid: 0, Pid: 7}, 1000); taskcatalog.CodeOf(err, "") != CodeStranger {
		t.Errorf("another root is let in (%v)", err)
	}
	if os.Geteuid() != 0 {
		t.Skip("only root can be somebody else")
	}
	s := serves(t, taken)
	self, err := os.ReadFile("/proc/self/exe")
	ok(t, err)
	program := filepath.Join(filepath.Dir(s.dir), "program")
	ok(t, os.WriteFile(program, self, 0o755))
	as := func(what string) string {
		cmd := exec.CommandContext(t.Context(), program, what, s.dir)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		out, err := cmd.CombinedOutput()
		ok(t, err)
		return string(out)
	}
	if out := as("poke"); !strings.Contains(out, "permission denied") {
		t.Errorf("into a directory of root's gets nobody: %s", out)
	}
	ok(t, os.Chmod(s.dir, 0o777))
	ok(t, os.Chmod(filepath.Join(s.dir, socketName), 0o777))
	if out := as("ask"); !strings.Contains(out, "error: ") {
		t.Errorf("nobody takes root's process for one of his own: %s", out)
	}
	if out := as("poke"); strings.Contains(out, "version") {
		t.Errorf("nobody hears %s", out)
	}
	if _, refused := s.count(); refused != 1 {
		t.Errorf("%d were refused", refused)
	}
	if heard, _ := s.count(); heard != 0 {
		t.Errorf("%d requests of nobody's were heard", heard)
	}
}

func TestADirectoryThatOthersMayChangeIsNotUsed(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, dir string){
		"others may enter it":    func(t *testing.T, dir string) { ok(t, os.Chmod(dir, 0o711)) },
		"its group may write it": func(t *testing.T, dir string) { ok(t, os.Chmod(dir, 0o720)) },
		"it is a link": func(t *testing.T, dir string) {
			ok(t, os.Rename(dir, dir+"x"))
			ok(t, os.Symlink(dir+"x", dir))
		},
		"others may write above it": func(t *testing.T, dir string) { ok(t, os.Chmod(filepath.Dir(dir), 0o777)) },
		"it is another's": func(t *testing.T, dir string) {
			if os.Geteuid() != 0 {
				ok(t, os.Chmod(dir, 0o777))
				return
			}
			ok(t, os.Chown(dir, 65534, 65534))
		},
	} {
		dir := place(t)
		spoil(t, dir)
		if l, err := Open(dir); taskcatalog.CodeOf(err, "") != CodeUnguarded {
			t.Errorf("where %s, it is listened in: %+v (%v)", name, l, err)
		}
		if reply, err := Ask(t.Context(), dir, Request{}); taskcatalog.CodeOf(err, "") != CodeUnguarded {
			t.Errorf("where %s, it is asked: %+v (%v)", name, reply, err)
		}
	}
}

func TestWhereNobodyListensHasItsCode(t *testing.T) {
	dir := place(t)
	if _, err := Ask(t.Context(), dir, Request{}); taskcatalog.CodeOf(err, "") != CodeNobody {
		t.Errorf("without a socket: %v", err)
	}
	if _, err := Ask(t.Context(), dir+"y", Request{}); taskcatalog.CodeOf(err, "") != CodeNobody {
		t.Errorf("without a directory: %v", err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, socketName), Net: "unix"})
	ok(t, err)
	l.SetUnlinkOnClose(false) // as after a kill
	ok(t, l.Close())
	if _, err := Ask(t.Context(), dir, Request{}); taskcatalog.CodeOf(err, "") != CodeNobody {
		t.Errorf("with a socket of who is gone: %v", err)
	}
}

func TestAProcessThatDoesNotAnswerIsNotWaitedForForEver(t *testing.T) {
	dir := place(t)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, socketName), Net: "unix"})
	ok(t, err)
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	start := time.Now()
	if reply, err := Ask(ctx, dir, Request{}); err == nil || time.Since(start) > 5*time.Second {
		t.Errorf("%+v (%v) after %s", reply, err, time.Since(start))
	}
}
