package main

import (
	"bytes"
	"context"
	"os"
	"os/user"
	"path/filepath"
	"runtime/pprof"
	"sync"
	"syscall"
	"testing"
	"time"

	nodeside "github.com/hostler/hostler/agent/terminal"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/api/client"
	"github.com/hostler/hostler/broker/cmd/hostler/attach"
	"github.com/hostler/hostler/broker/escape"
	"github.com/hostler/hostler/broker/server/servertest"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire/frame"
)

// BenchmarkOutputOfAProgram measures a program's output from its terminal on the node to the
// operator's: the session's process, QUIC, the relay with the recording on disk, the WebSocket and
// the filter, all in this process. It reports the output per second and the processor time per
// megabyte. A profile distinguishes the sides by their label (-cpuprofile, pprof -tagfocus).
func BenchmarkOutputOfAProgram(b *testing.B) {
	const size = 16 << 20
	lines := text(size)
	file := filepath.Join(b.TempDir(), "text")
	if err := os.WriteFile(file, lines, 0o644); err != nil {
		b.Fatal(err)
	}
	shown := len(lines) + bytes.Count(lines, []byte("\n")) // the line ends of a terminal
	p := newPath(b)
	var took, used time.Duration
	for b.Loop() {
		s := &counter{want: shown}
		before := processor()
		if status := p.session(b, s, "cat", file); status != 0 || s.count != shown {
			b.Fatalf("it ended with %d, and %d bytes of %d are shown", status, s.count, shown)
		}
		took, used = took+s.last.Sub(s.first), used+processor()-before
	}
	megabytes := float64(shown) * float64(b.N) / 1e6
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(megabytes/took.Seconds(), "MB/s")
	b.ReportMetric(float64(used.Microseconds())/1000/megabytes, "cpu-ms/MB")
}

// path is a broker, a node, and an operator's client.
type path struct {
	broker *servertest.Broker
	node   *servertest.Node
	client *client.Client
}

func newPath(t testing.TB) *path {
	t.Helper()
	p := &path{broker: servertest.Start(t)}
	p.node = p.broker.NewNode(t, api.NodeCreate{Hostname: node}).Settle(t)
	p.node.LetIn(t, "a-1", tenant)
	p.client = client.New(client.Options{Broker: p.broker.OperatorURL(), Roots: p.broker.Roots, Token: p.broker.Token, Version: "test", Now: time.Now})
	return p
}

// session runs a program in a terminal, as the user of the test, until the program has ended and
// its whole output is on a screen.
func (p *path) session(t testing.TB, screen *counter, command ...string) (status int) {
	t.Helper()
	ctx := t.Context()
	k, err := p.client.OpenTerminal(ctx, api.TerminalStart{Node: p.node.NodeID, Columns: 80, Rows: 24})
	if err != nil {
		t.Fatal(err)
	}
	_, _, params, token := p.node.TakeTerminal(t)
	self, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	dial := func(ctx context.Context, relay string) (nodeside.Conn, error) {
		return nodeside.Dial(ctx, relay, p.node.TLS())
	}
	var sides sync.WaitGroup
	sides.Go(func() {
		pprof.Do(ctx, pprof.Labels("side", "node"), func(ctx context.Context) {
			if _, err := nodeside.Run(ctx, nodeside.Options{
				SessionID: params.SessionID, Pass: nodeside.Pass{Relay: params.Relay, Token: token}, Dial: dial,
				Root: "/", User: self.Username, Command: command, Term: "xterm", AllowRoot: true,
				ConnectTimeout: time.Minute, DetachTimeout: time.Minute, Grace: time.Second,
			}); err != nil {
				t.Errorf("the node's side: %v", err)
			}
		})
	})
	var end attach.End
	sides.Go(func() {
		pprof.Do(ctx, pprof.Labels("side", "operator"), func(ctx context.Context) {
			end, err = attach.Run(ctx, attach.Config{
				ID: params.SessionID, In: nothing{ctx}, Out: screen, Err: os.Stderr, Quiet: true, New: true, Filter: escape.Policy{},
				Size:  func() frame.Resize { return frame.Resize{Columns: 80, Rows: 24} },
				Begin: func() error { return nil },
				Dial: func(ctx context.Context) (attach.Conn, error) {
					return p.client.AttachTerminal(ctx, params.SessionID, k.Ticket)
				},
			})
		})
	})
	sides.Wait()
	d, task := p.node.Next(t) // the task that closes the ended session
	p.node.Finish(t, d, task, taskcatalog.OutcomeSucceeded, taskcatalog.TerminalCloseResult{}, taskcatalog.Report{})
	if err != nil || end.Status == nil {
		t.Fatalf("the operator's side ended with %+v: %v", end, err)
	}
	return *end.Status
}

// nothing is a keyboard without input.
type nothing struct{ context.Context }

func (n nothing) Read([]byte) (int, error) { <-n.Done(); return 0, context.Cause(n) }

// counter is a screen that counts bytes.
type counter struct {
	want, count int
	first, last time.Time // time of the first byte, and time of the last expected byte
}

func (c *counter) Write(b []byte) (int, error) {
	if c.count == 0 {
		c.first = time.Now()
	}
	if c.count += len(b); c.count == c.want {
		c.last = time.Now()
	}
	return len(b), nil
}

// processor returns the processor time of this process.
func processor() time.Duration {
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r) // never fails
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
