package relay_test

import (
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/taskcatalog/wire/frame"
)

// A node that reconnects without end fills neither the audit log nor the events, whose number is
// bounded. The session's status is still stored, later.
func TestANodeThatComesAndGoesFillsNoAuditLog(t *testing.T) {
	s := newSiteWith(t, broker.TerminalLimits{Max: 8 * time.Hour, Detach: 4 * time.Hour})
	s.attach(frame.Hello{}).drain(nil)
	token, at := s.token, uint64(0)
	for range 40 {
		n, w := s.join("tls", token, frame.Hello{From: at, Sent: at})
		n.write(at, "x") // each write also stores the session's status, if the rate allows
		at, token = at+1, w.Token
		n.close()
		s.eventually("the node is away", func() bool { return !s.relay.AbsentSince("ts-1").IsZero() })
	}
	if told := len(s.said("terminal.open")) + len(s.said("terminal.detached")); told == 0 || told > 20 {
		t.Errorf("it is told %d times", told)
	}
	for _, row := range []broker.TerminalStatus{broker.TerminalOpen, broker.TerminalDetached} {
		if row == broker.TerminalOpen {
			s.join("tls", token, frame.Hello{From: at, Sent: at})
		} else if err := s.relay.Detach("ts-1", "olga", "token_revoked", "test"); err != nil {
			t.Fatal(err)
		}
		s.clock.Advance(2 * time.Minute)
		s.eventually("it is told as "+string(row), func() bool { return must(s.db.TerminalSession(ctx, "ts-1"))(t).Status == row })
	}
	if err := s.relay.Close(ctx, "ts-1", "terminal_closed", "test"); err != nil {
		t.Fatal(err)
	}
	s.ends("terminal_closed") // at once: the end is not limited
}
