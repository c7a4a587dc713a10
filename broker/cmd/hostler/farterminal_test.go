package main

import (
	"bytes"
	"context"
	"fmt"
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

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/taskcatalog/wire/frame"
)

// farTerminal is a relay with a program behind it, which a test controls line by line.
type farTerminal struct {
	*testing.T
	*fakeBroker

	mu      sync.Mutex
	changed *sync.Cond
	conn    *websocket.Conn
	in      *frame.Inflow
	out     *frame.Outflow
	heard   []byte // all typed bytes
	ended   bool   // the input has ended
	size    frame.Resize
	byes    []frame.Bye
	hellos  []frame.Hello
	refuse  int // the number of connections to refuse
	lost    int // bytes of output that the relay has lost
	asked   []*http.Request
}

const farID = "ts-7k2m4q6s"

func newFarTerminal(t *testing.T, change func(*api.Terminal)) *farTerminal {
	f := &farTerminal{T: t, fakeBroker: newFakeBroker(t), in: frame.NewInflow(0), out: frame.NewOutflow(0)}
	f.changed = sync.NewCond(&f.mu)
	terminal := api.Terminal{
		ID: farID, NodeID: "n-1", Hostname: "gpu-07", Username: "alice", OpenedBy: "alice", Status: "opening", MaxSeconds: 28800, IdleSeconds: 1800, DetachSeconds: 900, CreatedAt: testNow, StatusAt: testNow,
	}
	if change != nil {
		change(&terminal)
	}
	for n, line := range []string{"POST /terminals", "POST /terminals/" + farID + "/tickets"} {
		f.answer(line, http.StatusCreated, encoded(api.TerminalTicket{Terminal: terminal, Ticket: fmt.Sprintf("SECRET%d", n), TicketExpiresAt: testNow.Add(time.Minute)}))
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
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{api.TerminalProtocol}, CompressionMode: websocket.CompressionDisabled})
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
		from := got.Taken
		if f.lost > 0 {
			from, f.lost = from+uint64(f.lost), 0
			f.out = frame.NewOutflow(from)
		}
		f.send(frame.Welcome{Version: frame.Version, Taken: f.in.Taken(), Limit: f.in.Allow(1 << 16).Limit, From: from}, frame.State{Node: frame.NodeHere, Transport: frame.OverQUIC})
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

// until waits for an action of the operator's side.
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

// writes sends output of the program, once the window allows it.
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

// breaks ends the connection without notice.
func (f *farTerminal) breaks() {
	f.mu.Lock()
	defer f.mu.Unlock()
	_ = f.conn.CloseNow()
}

// near is the hostler program on a terminal of its own.
type near struct {
	*testing.T
	cmd    *exec.Cmd
	master *os.File
	mu     sync.Mutex // held: the terminal is not read
	seen   bytes.Buffer
	all    chan struct{} // closed when all output of the program has been read
}

// program is a run of hostler with a client file.
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
	n := &near{T: t, cmd: cmd, all: make(chan struct{})}
	var err error
	if n.master, err = pty.StartWithSize(n.cmd, &pty.Winsize{Cols: 100, Rows: 30}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.cmd.Process.Kill(); _ = n.master.Close() })
	go func() {
		defer close(n.all)
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

// echoes reports whether the terminal is in line mode, as a shell needs it.
func (n *near) echoes() bool {
	t, err := unix.IoctlGetTermios(int(n.master.Fd()), unix.TCGETS)
	return err == nil && t.Lflag&unix.ECHO != 0 && t.Lflag&unix.ICANON != 0
}

func (n *near) ends(status int) {
	n.Helper()
	_ = n.cmd.Wait()
	<-n.all // the terminal of an ended program reads as its end
	if got := n.cmd.ProcessState.ExitCode(); got != status {
		n.Errorf("exit status %d, want %d: %q", got, status, n.shown())
	}
	if !n.echoes() {
		n.Error("the terminal is not put right")
	}
}
