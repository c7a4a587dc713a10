package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/hostler/hostler/broker/adminapi/resource"
	"github.com/hostler/hostler/taskcatalog/wire/frame"
)

// farTerminal is a relay with a program behind it, which a test plays line by line.
type farTerminal struct {
	*testing.T
	*fakeBroker

	mu      sync.Mutex
	changed *sync.Cond
	conn    *websocket.Conn
	in      *frame.Inflow
	out     *frame.Outflow
	heard   []byte // all that was typed
	ended   bool   // nothing more is
	size    frame.Resize
	byes    []frame.Bye
	hellos  []frame.Hello
	refuse  int // so many connections
	asked   []*http.Request
}

const farID = "ts-7k2m4q6s"

func newFarTerminal(t *testing.T, change func(*resource.Terminal)) *farTerminal {
	f := &farTerminal{T: t, fakeBroker: newFakeBroker(t), in: frame.NewInflow(0), out: frame.NewOutflow(0)}
	f.changed = sync.NewCond(&f.mu)
	terminal := resource.Terminal{
		ID: farID, NodeID: "n-1", Hostname: "gpu-07", Username: "alice", OpenedBy: "alice", Status: "opening", MaxSeconds: 28800, IdleSeconds: 1800, DetachSeconds: 900, CreatedAt: testNow, StatusAt: testNow,
	}
	if change != nil {
		change(&terminal)
	}
	for n, line := range []string{"POST /terminals", "POST /terminals/" + farID + "/tickets"} {
		f.answer(line, http.StatusCreated, encoded(resource.TerminalTicket{Terminal: terminal, Ticket: fmt.Sprintf("SECRET%d", n), TicketExpiresAt: testNow.Add(time.Minute)}))
	}
	f.answer("POST /terminals/"+farID+"/close", http.StatusOK, encoded(terminal))
	f.fakeBroker.attach = f.serve
	return f
}

// serve is one connection.
func (f *farTerminal) serve(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	f.asked = append(f.asked, r)
	refused := f.refuse > 0
	f.refuse--
	f.mu.Unlock()
	if refused {
		f.problem(w, http.StatusServiceUnavailable, "relay_stopping", "cannot attach: the relay stops")
		return
	}
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{resource.TerminalProtocol}, CompressionMode: websocket.CompressionDisabled})
	if err != nil {
		return
	}
	for {
		_, raw, err := conn.Read(context.Background())
		if err != nil {
			return
		}
		got, err := frame.Parse(raw)
		if err != nil {
			f.Error(err)
			return
		}
		f.mu.Lock()
		f.took(conn, got)
		f.changed.Broadcast()
		f.mu.Unlock()
	}
}

func (f *farTerminal) took(conn *websocket.Conn, got frame.Frame) {
	var err error
	switch got := got.(type) {
	case frame.Hello:
		f.hellos, f.conn = append(f.hellos, got), conn
		f.send(frame.Welcome{Version: frame.Version, Taken: f.in.Taken(), Limit: f.in.Allow(1 << 16).Limit, From: got.Taken}, frame.State{Node: frame.NodeHere, Transport: frame.OverQUIC})
	case frame.Data:
		var fresh []byte
		if fresh, err = f.in.Take(got); err == nil {
			f.heard = append(f.heard, fresh...)
			f.send(f.in.Allow(1 << 16))
		}
	case frame.Ack:
		err = f.out.Acked(got)
	case frame.EOF:
		f.ended = true
	case frame.Resize:
		f.size = got
	case frame.Bye:
		f.byes = append(f.byes, got)
		if !got.Lasts {
			f.send(frame.Bye{Code: "terminal_operator_ended", Text: "its operator ended it"})
		}
	}
	if err != nil {
		f.Error(err)
	}
}

// send needs the lock.
func (f *farTerminal) send(frames ...frame.Frame) {
	for _, fr := range frames {
		raw, err := frame.Append(nil, fr)
		if err != nil {
			f.Error(err)
		}
		_ = f.conn.Write(context.Background(), websocket.MessageBinary, raw)
	}
}

// until waits for something that the operator's side has done.
func (f *farTerminal) until(what string, is func() bool) {
	f.Helper()
	timer := time.AfterFunc(20*time.Second, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.changed.Broadcast()
	})
	defer timer.Stop()
	late := time.Now().Add(20 * time.Second)
	f.mu.Lock()
	defer f.mu.Unlock()
	for !is() {
		if time.Now().After(late) {
			f.Fatalf("%s: heard %q, %+v, %+v", what, f.heard, f.hellos, f.byes)
		}
		f.changed.Wait()
	}
}

func (f *farTerminal) hears(text string) {
	f.Helper()
	f.until("it hears "+text, func() bool { return strings.Contains(string(f.heard), text) })
}

// writes is what the program writes, once it may.
func (f *farTerminal) writes(text string) {
	f.Helper()
	f.until("it may write", func() bool { return f.out.Room() >= len(text) })
	f.mu.Lock()
	defer f.mu.Unlock()
	f.send(f.out.Add([]byte(text)))
}

func (f *farTerminal) exits(status int32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.send(frame.Exit{Status: status}, frame.Bye{Code: "terminal_exited", Text: "its program ended", Status: &status})
}

// breaks has the connection end without a word.
func (f *farTerminal) breaks() {
	f.mu.Lock()
	defer f.mu.Unlock()
	_ = f.conn.CloseNow()
}

// near is the program on a terminal of its own.
type near struct {
	*testing.T
	cmd    *exec.Cmd
	master *os.File
	mu     sync.Mutex // held: nothing of the terminal is read
	seen   bytes.Buffer
}

// program is a run of ours with a client file.
func program(t *testing.T, config string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("hostler", args...)
	cmd.Env = append(os.Environ(), "GORACE="+atOnce, "HOME="+t.TempDir(), "TERM=xterm-256color", "LANG=de_DE.UTF-8", "LC_TIME=; reboot", "HOSTLER_CONFIG="+config)
	return cmd
}

func (f *farTerminal) command(args ...string) *exec.Cmd {
	f.Helper()
	dir := f.TempDir()
	if err := f.writeClient(dir); err != nil {
		f.Fatal(err)
	}
	return program(f.T, filepath.Join(dir, "client.yaml"), args...)
}

func (f *farTerminal) onTerminal(args ...string) *near {
	f.Helper()
	return onTerminal(f.T, f.command(args...))
}

func onTerminal(t *testing.T, cmd *exec.Cmd) *near {
	t.Helper()
	n := &near{T: t, cmd: cmd}
	var err error
	if n.master, err = pty.StartWithSize(n.cmd, &pty.Winsize{Cols: 100, Rows: 30}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.cmd.Process.Kill(); _ = n.master.Close() })
	go func() {
		buf := make([]byte, 4096)
		for {
			got, err := n.master.Read(buf)
			n.mu.Lock()
			n.seen.Write(buf[:got])
			n.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	return n
}

func (n *near) types(text string) {
	n.Helper()
	if _, err := n.master.WriteString(text); err != nil {
		n.Fatal(err)
	}
}

func (n *near) shown() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.seen.String()
}

func (n *near) shows(text string) {
	n.Helper()
	n.eventually("it shows "+text, func() bool { return strings.Contains(n.shown(), text) })
}

func (n *near) eventually(what string, is func() bool) {
	n.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for late := time.Now().Add(20 * time.Second); !is(); <-tick.C {
		if time.Now().After(late) {
			n.Fatalf("%s: %q", what, n.shown())
		}
	}
}

// echoes reports whether the terminal is one for lines, as a shell wants it.
func (n *near) echoes() bool {
	t, err := unix.IoctlGetTermios(int(n.master.Fd()), unix.TCGETS)
	return err == nil && t.Lflag&unix.ECHO != 0 && t.Lflag&unix.ICANON != 0
}

func (n *near) ends(status int) {
	n.Helper()
	_ = n.cmd.Wait()
	if got := n.cmd.ProcessState.ExitCode(); got != status {
		n.Errorf("exit status %d, want %d: %q", got, status, n.shown())
	}
	if !n.echoes() {
		n.Error("the terminal is not put right")
	}
}

func TestATerminalUnderARealOne(t *testing.T) {
	f := newFarTerminal(t, nil)
	n := f.onTerminal("terminal", "gpu-07", "--user", "alice", "--reason", "ticket 4711")
	f.writes("\x1b]0;owned\a\x1b[?1049h\x1b[?2004h$ ")
	n.shows("\x1b[?1049h\x1b[?2004h$ ")
	if n.echoes() {
		t.Error("keys do not come as they are")
	}
	n.types("\x03\x04\x1a\x11\x13\x7f\t")
	f.hears("\x03\x04\x1a\x11\x13\x7f\t")
	f.until("the size", func() bool { return f.size == frame.Resize{Columns: 100, Rows: 30} })
	if err := pty.Setsize(n.master, &pty.Winsize{Cols: 132, Rows: 50}); err != nil {
		t.Fatal(err)
	}
	f.until("another size", func() bool { return f.size == frame.Resize{Columns: 132, Rows: 50} })
	n.types("~.\r~~\r~?")
	f.hears("~.\r~\r")
	n.shows("~d leaves it")
	n.types("exit 7\r")
	f.hears("exit 7\r")
	f.exits(7)
	n.ends(7)
	shown := n.shown()
	if !strings.HasSuffix(shown, "\x1b[?2004l\x1b[?1049l\x1b[0m\x1b(B\x0f") || strings.Contains(shown, "owned") {
		t.Errorf("%q", shown)
	}
	if !strings.Contains(shown, "session ts-7k2m4q6s as alice on gpu-07; what it shows is recorded") {
		t.Errorf("%q", shown)
	}
	asked := f.requests()[0]
	if want := `{"node":"gpu-07","username":"alice","term":"xterm-256color","locale":{"LANG":"de_DE.UTF-8"},"columns":100,"rows":30,"reason":"ticket 4711"}`; asked.line != "POST /terminals" || asked.body != want {
		t.Errorf("%s", asked)
	}
	for _, r := range f.asked {
		if strings.Contains(r.URL.String(), "SECRET") || r.Header.Get("Authorization") != "Bearer "+testToken || !strings.Contains(r.Header.Get("Sec-WebSocket-Protocol"), "hostler-ticket.SECRET0") {
			t.Errorf("%s: %v", r.URL, r.Header)
		}
	}
}

// A break, and a broker that is away for a while: nothing typed is lost or comes twice.
func TestATerminalOverABreak(t *testing.T) {
	f := newFarTerminal(t, nil)
	n := f.onTerminal("terminal", "gpu-07")
	f.writes("$ ")
	n.shows("$ ")
	n.types("one ")
	f.hears("one ")
	f.mu.Lock()
	f.refuse = 2
	f.mu.Unlock()
	f.breaks()
	n.types("two ")
	n.shows("hostler: the connection broke: trying again, for up to 15m0s")
	n.types("three\r")
	f.hears("one two three\r")
	n.shows("hostler: back, after")
	f.writes("done\r\n")
	n.shows("done")
	n.types("~.")
	f.until("a Bye", func() bool { return len(f.byes) == 1 && !f.byes[0].Lasts })
	n.ends(0)
	f.mu.Lock()
	defer f.mu.Unlock()
	if h := f.hellos[1]; h.Taken != 2 || string(f.heard) != "one two three\r" {
		t.Errorf("%+v, %q", h, f.heard)
	}
	if last := f.asked[len(f.asked)-1].Header.Get("Sec-WebSocket-Protocol"); !strings.Contains(last, "hostler-ticket.SECRET1") {
		t.Errorf("it came back with %q", last)
	}
}

func TestATerminalIsLeftAndAttachedAgain(t *testing.T) {
	f := newFarTerminal(t, nil)
	n := f.onTerminal("terminal", "gpu-07")
	f.writes("$ ")
	n.shows("$ ")
	n.types("sleep 100\r~d")
	f.until("a Bye that lasts", func() bool { return len(f.byes) == 1 && f.byes[0].Lasts })
	n.shows("goes on for up to 15m0s (hostler terminal attach ts-7k2m4q6s)")
	n.ends(0)
	f.hears("sleep 100\r")
	n = f.onTerminal("terminal", "attach", farID)
	f.until("another Hello", func() bool { return len(f.hellos) == 2 })
	if f.hellos[1].Taken != 0 || f.hellos[1].Sent != 0 {
		t.Errorf("%+v", f.hellos[1])
	}
	n.shows("session ts-7k2m4q6s")
	f.mu.Lock()
	f.send(frame.Bye{Code: "node_quarantined", Text: "the node is quarantined\x1b]0;x\a"})
	f.mu.Unlock()
	n.ends(exitRefused)
	n.shows(`error: node_quarantined: session ts-7k2m4q6s on gpu-07 has ended: the node is quarantined\x1b]0;x\x07`)
}

// A program of which no terminal is the other end: its input has an end, its words are
// its own, and so is its exit status.
func TestAProgramWithoutATerminalHere(t *testing.T) {
	f := newFarTerminal(t, nil)
	cmd := f.command("terminal", "gpu-07", "--command", "sort", "-r", "--", "-o json", "--command")
	cmd.Stdin = strings.NewReader("~.\nb\na\n")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	done := make(chan error, 1)
	go func() { done <- cmd.Run() }()
	f.until("the end of input", func() bool { return f.ended && string(f.heard) == "~.\nb\na\n" })
	f.writes("b\r\na\r\n\x1b[6n\x1b]52;c;eA==\a")
	f.exits(42)
	<-done
	if got := cmd.ProcessState.ExitCode(); got != 42 || out.String() != "b\r\na\r\n" || errs.Len() != 0 {
		t.Errorf("status %d, %q, %q", got, out.String(), errs.String())
	}
	if f.requests()[0].body != `{"node":"gpu-07","command":["sort","-r","--","-o json","--command"],"term":"xterm-256color","locale":{"LANG":"de_DE.UTF-8"},"columns":80,"rows":24}` {
		t.Errorf("%s", f.requests()[0])
	}
}

// What is interrupted while nobody may come back to it is ended.
func TestAnInterruptEndsWhatHasNoTerminal(t *testing.T) {
	f := newFarTerminal(t, nil)
	cmd := f.command("terminal", "gpu-07", "--command", "sleep", "100")
	in, _ := cmd.StdinPipe()
	var errs bytes.Buffer
	cmd.Stderr = &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	f.until("it is there", func() bool { return f.size.Columns == 80 })
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	f.until("a Bye", func() bool { return len(f.byes) == 1 && !f.byes[0].Lasts })
	_ = cmd.Wait()
	_ = in.Close()
	if got := cmd.ProcessState.ExitCode(); got != exitFailed || !strings.Contains(errs.String(), "error: interrupted: ") {
		t.Errorf("status %d, %q", got, errs.String())
	}
}

// A relay that does not keep to the protocol, by its code; and one that speaks no protocol.
func TestABrokerThatDoesNotKeepToTheProtocol(t *testing.T) {
	for name, c := range map[string]struct {
		message []byte
		kind    websocket.MessageType
		code    string
	}{
		"text":     {[]byte("hello"), websocket.MessageText, "frame_invalid"},
		"no frame": {[]byte{99, 0, 0, 0, 0}, websocket.MessageBinary, "frame_invalid"},
		"too long": {make([]byte, frame.Largest+1), websocket.MessageBinary, "frame_invalid"},
	} {
		f := newFarTerminal(t, nil)
		n := f.onTerminal("terminal", "gpu-07")
		f.writes("$ ")
		n.shows("$ ")
		f.mu.Lock()
		_ = f.conn.Write(context.Background(), c.kind, c.message)
		f.mu.Unlock()
		n.ends(exitFailed)
		if !strings.Contains(n.shown(), "error: "+c.code+": ") {
			t.Errorf("%s: %q", name, n.shown())
		}
	}
	f := newFarTerminal(t, nil)
	f.fakeBroker.attach = func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{"other"}})
		if err == nil {
			_ = conn.CloseNow()
		}
	}
	cmd := f.command("terminal", "gpu-07", "--command", "true")
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "does not speak hostler-terminal.1") {
		t.Errorf("%q, %v", out, err)
	}
}

// The title passes where the site's policy says so, and the clipboard never to a file.
func TestTheSitesPolicyDecidesWhatPasses(t *testing.T) {
	f := newFarTerminal(t, func(t *resource.Terminal) { t.Filter = resource.TerminalFilter{Title: true, Clipboard: true} })
	n := f.onTerminal("terminal", "gpu-07")
	f.writes("\x1b]0;top\a\x1b]52;c;eA==\a")
	n.shows("\x1b]0;top\x1b\\\x1b]52;c;eA==\x1b\\")
	f.exits(0)
	n.ends(0)
	f = newFarTerminal(t, func(t *resource.Terminal) { t.Filter = resource.TerminalFilter{Title: true, Clipboard: true} })
	cmd := f.command("terminal", "gpu-07", "--command", "x")
	cmd.Stdin = io.LimitReader(nil, 0)
	done := make(chan []byte, 1)
	go func() { out, _ := cmd.Output(); done <- out }()
	f.writes("\x1b]0;top\a\x1b]52;c;eA==\aend")
	f.exits(0)
	if out := <-done; string(out) != "end" {
		t.Errorf("%q", out)
	}
}
