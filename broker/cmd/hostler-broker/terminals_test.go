package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/server/servertest"
	"github.com/hostler/hostler/taskcatalog/wire/frame"
)

// resident is the resident memory of a process, in KiB.
func resident(t testing.TB, pid int) int {
	t.Helper()
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(raw), "VmRSS:")
	n, err := strconv.Atoi(strings.Fields(rest + " ?")[0])
	if !found || err != nil {
		t.Fatalf("%q, %v", raw, err)
	}
	return n
}

// BenchmarkTwoHundredTerminals measures the cost of 200 parallel sessions for a broker's process,
// from its API to its relay, and the time of an echo while each session types ten keys a second;
// every echo is stored before it is shown. The nodes' sides are in this process, over TLS. There
// are enough nodes and operators for none to exceed the API's rate limit on a quick machine.
func BenchmarkTwoHundredTerminals(b *testing.B) {
	const nodes, each, keys = 10, 20, 30
	for b.Loop() {
		p := newProcess(b, `{}`, func(_ *process, next http.Handler) http.Handler { return next })
		var all []*typist
		ready, operators := make([]*servertest.Node, nodes), make([]string, nodes)
		for i := range ready {
			operators[i] = p.NewToken(b, api.TokenCreate{Name: fmt.Sprintf("op-%d", i), Role: "operator"})
			ready[i] = p.NewNode(b, api.NodeCreate{Hostname: fmt.Sprintf("gpu-%02d", i)}).Settle(b)
			ready[i].LetIn(b, "a-1", "alice")
		}
		var sides sync.WaitGroup
		open := func() {
			n, token := ready[len(all)%nodes], operators[len(all)%nodes]
			a := p.Ask(b, token, http.MethodPost, "/terminals", api.TerminalStart{Node: n.NodeID, Columns: 80, Rows: 24})
			var k api.TerminalTicket
			if err := json.Unmarshal(a.Body, &k); err != nil || a.Status/100 != 2 {
				b.Fatalf("no terminal is opened: %d %s (%v)", a.Status, a.Body, err)
			}
			s := &typist{TB: b, operator: p.JoinTerminal(b, token, k), shown: make(chan frame.Data, 1)}
			s.node, _ = n.OpenTerminal(b)
			sides.Go(s.program)
			sides.Go(s.screen)
			all = append(all, s)
		}
		open()
		before := resident(b, p.cmd.Process.Pid)
		for len(all) < nodes*each {
			open()
		}
		idle := resident(b, p.cmd.Process.Pid)
		var group sync.WaitGroup
		var mu sync.Mutex
		var took []time.Duration
		for i, s := range all {
			group.Go(func() {
				<-time.After(time.Duration(i) * time.Millisecond / 2) // spread over time
				mine := s.types(keys)
				mu.Lock()
				defer mu.Unlock()
				took = append(took, mine...)
			})
		}
		group.Wait()
		typed := resident(b, p.cmd.Process.Pid)
		for _, s := range all {
			s.node.Send(b, frame.EOF{Offset: keys}, frame.Exit{})
		}
		sides.Wait()
		slices.Sort(took)
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(float64(idle-before)/float64(len(all)-1), "KiB/session")
		b.ReportMetric(float64(typed-before)/float64(len(all)-1), "KiB/session(after-typing)")
		b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms-echo-p50")
		b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "ms-echo-p99")
	}
}

// typist is a session: a person who types, and a program that echoes.
type typist struct {
	testing.TB
	operator, node *servertest.Frames
	shown          chan frame.Data
}

// program is the node's side, until its end.
func (s *typist) program() {
	s.node.Send(s, frame.Ack{Limit: 1 << 16})
	for {
		switch f := s.node.Next(s).(type) {
		case frame.Data:
			s.node.Send(s, frame.Ack{Taken: f.Offset + 1, Limit: 1 << 16}, f)
		case frame.Ping:
			s.node.Send(s, frame.Pong(f))
		case frame.Bye:
			return
		}
	}
}

// screen is the operator's view, until its end.
func (s *typist) screen() {
	defer close(s.shown)
	s.operator.Send(s, frame.Ack{Limit: 1 << 20})
	for {
		switch f := s.operator.Next(s).(type) {
		case frame.Data:
			s.operator.Send(s, frame.Ack{Taken: f.Offset + 1, Limit: 1 << 20})
			s.shown <- f
		case frame.Ping:
			s.operator.Send(s, frame.Pong(f))
		case frame.Bye:
			return
		}
	}
}

// types sends the given number of keys, and returns how long each took to be shown.
func (s *typist) types(keys int) (took []time.Duration) {
	key := time.NewTicker(100 * time.Millisecond)
	defer key.Stop()
	for at := range keys {
		<-key.C
		began := time.Now()
		s.operator.Send(s, frame.Data{Offset: uint64(at), Bytes: []byte{'a' + byte(at)}})
		got, there := <-s.shown
		if !there { // the reason is reported already
			return took
		}
		if got.Offset != uint64(at) || len(got.Bytes) != 1 || got.Bytes[0] != 'a'+byte(at) {
			s.Errorf("%+v is shown, and %d was typed", got, at)
		}
		took = append(took, time.Since(began))
	}
	return took
}
