package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"github.com/creack/pty"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/taskcatalog/wire/frame"
)

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
	n.shows("~d detaches and leaves it running")
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

// Across a break, with the broker away for a while, no typed byte is lost or comes twice.
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
	n.shows("continues for up to 15m0s (hostler terminal attach ts-7k2m4q6s)")
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

// A program without a local terminal: its input has an end, and its output and its exit status are
// passed on.
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

// An interrupt ends a session to which nobody can come back.
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

// A relay that violates the protocol is reported with a code, and so is a server that speaks
// another protocol.
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

// The title passes if the site's policy allows it, and the clipboard never passes to a file.
func TestTheSitesPolicyDecidesWhatPasses(t *testing.T) {
	f := newFarTerminal(t, func(t *api.Terminal) { t.Filter = api.TerminalFilter{Title: true, Clipboard: true} })
	n := f.onTerminal("terminal", "gpu-07")
	f.writes("\x1b]0;top\a\x1b]52;c;eA==\a")
	n.shows("\x1b]0;top\x1b\\\x1b]52;c;eA==\x1b\\")
	f.exits(0)
	n.ends(0)
	f = newFarTerminal(t, func(t *api.Terminal) { t.Filter = api.TerminalFilter{Title: true, Clipboard: true} })
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

// If output for a file is lost, the exit status is not a success, whatever the program's own
// status. For a session that existed before, earlier output does not count as lost.
func TestOutputThatIsMissingInAFileIsSaid(t *testing.T) {
	run := func(f *farTerminal, args ...string) (out string, status int) {
		cmd := f.command(args...)
		var to, errs bytes.Buffer
		cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(""), &to, &errs
		ended := make(chan error, 1)
		go func() { ended <- cmd.Run() }()
		f.writes("rest\n")
		f.until("it is taken", func() bool { return f.out.From() == f.out.Sent() })
		f.exits(0)
		<-ended
		return to.String() + errs.String(), cmd.ProcessState.ExitCode()
	}
	for _, c := range []struct {
		args   []string
		lost   int
		status int
	}{
		{[]string{"terminal", "gpu-07", "-q", "--command", "cat", "big"}, 5, exitFailed},
		{[]string{"terminal", "gpu-07", "-q", "--command", "cat", "big"}, 0, 0},
		{[]string{"terminal", "attach", farID, "-q"}, 5, 0},
	} {
		f := newFarTerminal(t, nil)
		f.lost = c.lost
		got, status := run(f, c.args...)
		if status != c.status || !strings.HasPrefix(got, "rest\n") || strings.Contains(got, "error: terminal_output_lost: 5 bytes") != (c.status != 0) {
			t.Errorf("%q with %d bytes lost: %d, %q", c.args, c.lost, status, got)
		}
	}
}
