package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/server/servertest"
	"github.com/hostler/hostler/taskcatalog/wire/frame"
)

// realSite is a whole broker, with a node whose side of a terminal the test controls.
type realSite struct {
	*testing.T
	*servertest.Broker
	node *servertest.Node
}

func newRealSite(t *testing.T) *realSite {
	b := servertest.Start(t)
	s := &realSite{t, b, b.NewNode(t, api.NodeCreate{Hostname: "gpu-07"}).Settle(t)}
	s.node.LetIn(t, "a-1", "alice")
	return s
}

func (s *realSite) command(args ...string) *exec.Cmd {
	cmd := program(s.T, filepath.Join(s.Dir, "client.yaml"), args...)
	cmd.Env = append(cmd.Env, "CLOCK=real")
	return cmd
}

func (s *realSite) says(args ...string) string {
	s.Helper()
	out, err := s.command(args...).CombinedOutput()
	if err != nil {
		s.Fatalf("hostler %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

func TestATerminalThroughARealBroker(t *testing.T) {
	s := newRealSite(t)
	n := onTerminal(t, s.command("terminal", "gpu-07"))
	node, p := s.node.OpenTerminal(t)
	if p.Username != "alice" || p.Term != "xterm-256color" || p.Locale["LANG"] != "de_DE.UTF-8" || len(p.Command) != 0 {
		t.Errorf("%+v", p)
	}
	node.Send(t, frame.Ack{Limit: 1 << 16}, frame.Data{Bytes: []byte("$ \x1b]0;owned\a")})
	if r := servertest.Until[frame.Resize](t, node); r.Columns != 100 || r.Rows != 30 {
		t.Errorf("%+v", r)
	}
	n.shows("$ ")
	n.types("exit\r")
	if d := servertest.Until[frame.Data](t, node); string(d.Bytes) != "exit\r" {
		t.Errorf("%q", d.Bytes)
	}
	node.Send(t, frame.Ack{Taken: 5, Limit: 1 << 16}, frame.Data{Offset: 12, Bytes: []byte("logout\r\n")}, frame.EOF{Offset: 20}, frame.Exit{Status: 5})
	n.ends(5)
	if shown := n.shown(); !strings.Contains(shown, "logout") || strings.Contains(shown, "owned") {
		t.Errorf("%q", shown)
	}
	servertest.Eventually(t, "its end", func() bool { return strings.Contains(s.says("terminal", "show", p.SessionID), "terminal_exited") })
	if got := s.says("recording", "verify", p.SessionID); !strings.Contains(got, "complete") || strings.Contains(got, "incomplete") {
		t.Errorf("%q", got)
	}
	if got := s.says("recording", "play", p.SessionID, "--speed", "0", "-q"); got != "$ logout\r\n" {
		t.Errorf("%q", got)
	}
	if got := s.says("recording", "list", "--node", "gpu-07", "-q"); got != p.SessionID+"\n" {
		t.Errorf("%q", got)
	}
}

// A program writes without end, and the terminal accepts nothing: the output on its way is bounded,
// and Ctrl-C overtakes it.
func TestAFloodHoldsNoInterruptUp(t *testing.T) {
	s := newRealSite(t)
	n := onTerminal(t, s.command("terminal", "gpu-07"))
	node, p := s.node.OpenTerminal(t)
	n.shows("session " + p.SessionID)
	n.eventually("keys to come as they are", func() bool { return !n.echoes() })
	n.mu.Lock() // nothing of the terminal is read any more
	node.Send(t, frame.Ack{Limit: 1 << 16})
	chunk := bytes.Repeat([]byte("y\r\n"), frame.MaxData/3)
	interrupted := make(chan uint64)
	go func() {
		var sent, limit uint64 = 0, 256 << 10
		typed := false
		for {
			for ; sent+uint64(len(chunk)) <= limit; sent += uint64(len(chunk)) {
				node.Send(t, frame.Data{Offset: sent, Bytes: chunk})
			}
			if !typed && sent > 128<<10 {
				typed = true
				n.types("\x03")
			}
			switch f := node.Next(t).(type) {
			case frame.Ack:
				limit = f.Limit
			case frame.Data:
				if string(f.Bytes) != "\x03" {
					t.Errorf("%q is typed", f.Bytes)
				}
				interrupted <- sent
				return
			case frame.Bye:
				t.Errorf("it was ended instead: %+v", f)
				close(interrupted)
				return
			}
		}
	}()
	sent := <-interrupted
	if sent > 1<<20 {
		t.Errorf("%d bytes were taken that nobody has read", sent)
	}
	n.mu.Unlock()
	node.Send(t, frame.Ack{Taken: 1, Limit: 1 << 16}, frame.EOF{Offset: sent}, frame.Exit{Status: 130, Signal: "INT"})
	n.ends(130)
	if got := uint64(strings.Count(n.shown(), "y\r\n")); got != sent/3 {
		t.Errorf("%d lines are shown, %d were sent", got, sent/3)
	}
	n.shows("the program was ended by signal INT")
}

func TestASessionIsClosedByItsBroker(t *testing.T) {
	s := newRealSite(t)
	n := onTerminal(t, s.command("terminal", "gpu-07"))
	node, p := s.node.OpenTerminal(t)
	node.Send(t, frame.Data{Bytes: []byte("$ ")})
	n.shows("$ ")
	s.says("terminal", "close", p.SessionID, "--yes", "--reason", "left open")
	n.ends(exitRefused)
	n.shows("error: terminal_closed: session " + p.SessionID + " on gpu-07 has ended")
}

func TestASessionThatWasLeftIsTakenUpAgain(t *testing.T) {
	s := newRealSite(t)
	n := onTerminal(t, s.command("terminal", "gpu-07"))
	node, p := s.node.OpenTerminal(t)
	node.Send(t, frame.Data{Bytes: []byte("$ ")})
	n.shows("$ ")
	n.types("~d")
	n.ends(0)
	n = onTerminal(t, s.command("terminal", "attach", p.SessionID))
	n.shows("$ ") // the end of its screen
	n.types("~.")
	n.ends(0)
	if bye := servertest.ByeOf(t, node); bye.Code != "terminal_operator_ended" {
		t.Errorf("%+v", bye)
	}
}

// A client that attaches takes the session from the attached client, whose message differs from the
// message of an ended session.
func TestASessionThatIsTakenByAnotherOfOnesOwnIsSaidToGoOn(t *testing.T) {
	s := newRealSite(t)
	first := onTerminal(t, s.command("terminal", "gpu-07"))
	node, p := s.node.OpenTerminal(t)
	node.Send(t, frame.Data{Bytes: []byte("$ ")})
	first.shows("$ ")
	second := onTerminal(t, s.command("terminal", "attach", p.SessionID))
	second.shows("$ ")
	first.ends(exitRefused)
	first.shows("error: connection_replaced: session " + p.SessionID + " was attached elsewhere, and continues there")
	second.types("~.")
	second.ends(0)
}

// A pipe without a reader, or a lost terminal, would end another process at once. This process
// restores the keyboard first.
func TestTheKeyboardIsPutRightWhateverEndsTheSession(t *testing.T) {
	begin := func(args ...string) (n *near, node *servertest.Frames, reader *os.File) {
		reader, writer, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		s := newRealSite(t)
		cmd := s.command(append([]string{"terminal", "gpu-07"}, args...)...)
		cmd.Stdout = writer
		n = onTerminal(t, cmd)
		_ = writer.Close()
		node, _ = s.node.OpenTerminal(t)
		n.eventually("keys to come as they are", func() bool { return !n.echoes() })
		return n, node, reader
	}
	n, node, reader := begin("--command", "yes")
	_ = reader.Close()
	node.Send(t, frame.Data{Bytes: []byte("y\r\n")})
	n.ends(exitFailed)
	n.shows("error: output_failed: ")
	if bye := servertest.ByeOf(t, node); bye.Lasts {
		t.Errorf("the session goes on: %+v", bye)
	}
	n, _, reader = begin()
	defer reader.Close()
	if err := n.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	n.ends(0)
	n.shows("which continues for up to")
}

// After an operator's program is killed, the session notices and waits.
func TestAnOperatorWhoIsKilledFindsTheSessionAgain(t *testing.T) {
	s := newRealSite(t)
	n := onTerminal(t, s.command("terminal", "gpu-07"))
	node, p := s.node.OpenTerminal(t)
	node.Send(t, frame.Data{Bytes: []byte("one ")})
	n.shows("one ")
	if err := n.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = n.cmd.Wait()
	servertest.Eventually(t, "the session to be detached", func() bool {
		return strings.Contains(s.says("terminal", "show", p.SessionID), "detached")
	})
	node.Send(t, frame.Data{Offset: 4, Bytes: []byte("two ")})
	n = onTerminal(t, s.command("terminal", "attach", p.SessionID))
	n.shows("one two ")
	n.types("~.")
	n.ends(0)
	servertest.Eventually(t, "a whole recording", func() bool {
		return strings.Contains(s.says("terminal", "show", p.SessionID), "terminal_operator_ended")
	})
	if got := s.says("recording", "play", p.SessionID, "--speed", "0", "-q"); got != "one two " {
		t.Errorf("%q", got)
	}
}
