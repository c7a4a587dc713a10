package relay_test

import (
	"testing"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/recording"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/taskcatalog/wire/frame"
)

// noAttack checks that the audit log has no attack.
func (s *site) noAttack() {
	s.Helper()
	if rows := must(s.db.ListAudit(ctx, store.AuditFilter{Action: "terminal.attack"}))(s); len(rows) > 0 {
		s.Errorf("taken for an attack: %+v", rows)
	}
}

// A node that has lost the Welcome can join again with the same token.
func TestALostWelcomeIsAskedForAgain(t *testing.T) {
	s := newSite(t)
	lost := s.dial("quic", s.node)
	lost.send(frame.Hello{Version: frame.Version, SessionID: "ts-1", Token: s.token})
	until[frame.Welcome](t, lost.next, nil)
	n, w := s.join("quic", s.token, frame.Hello{}) // the second use of the token; the first Welcome is lost
	n.write(0, "here")
	n.close()
	lost = s.dial("quic", s.node)
	lost.send(frame.Hello{Version: frame.Version, SessionID: "ts-1", Token: w.Token, Sent: 4})
	until[frame.Welcome](t, lost.next, nil)
	lost.close()
	n, _ = s.join("tls", w.Token, frame.Hello{Sent: 4})
	n.write(4, " again")
	s.noAttack()
}

// A relay whose session was taken by another relay finds out by whatever it does, and releases the
// session without closing it.
func TestAStaleRelayLetsGo(t *testing.T) {
	for name, c := range map[string]struct {
		token bool // the relay sees a token, not only frames of its sides
		do    func(s *site, n *conn, w frame.Welcome)
	}{
		"its node writes": {do: func(_ *site, n *conn, _ frame.Welcome) { n.send(frame.Data{Bytes: []byte("late")}) }},
		"its node leaves": {do: func(_ *site, n *conn, _ frame.Welcome) { n.close() }},
		"it is to end": {do: func(s *site, n *conn, _ frame.Welcome) {
			// The node reads meanwhile: frames not read when the connection ends are lost.
			closed := make(chan error, 1)
			go func() { closed <- s.relay.Close(ctx, "ts-1", "revoked", "too late") }()
			bye, err := byeOf(s, n.next), <-closed
			if err != nil {
				s.Fatal(err)
			}
			if !bye.Lasts {
				s.Errorf("its node was told %+v", bye)
			}
		}},
		"its node comes again": {token: true, do: func(s *site, _ *conn, w frame.Welcome) {
			again := s.dial("quic", s.node)
			again.send(frame.Hello{Version: frame.Version, SessionID: "ts-1", Token: w.Token})
			if bye := byeOf(s, again.next); bye.Code != "terminal_session_elsewhere" || !bye.Lasts {
				s.Errorf("%+v", bye)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			n, w := s.join("quic", s.token, frame.Hello{})
			if err := s.db.SetTerminalReplica(ctx, admin, "ts-1", "elsewhere:1"); err != nil {
				t.Fatal(err)
			}
			c.do(s, n, w)
			s.eventually("it has let go", func() bool {
				return broker.AsError(s.relay.Close(ctx, "ts-1", "x", "")).Code == "terminal_session_not_here"
			})
			row := must(s.db.TerminalSession(ctx, "ts-1"))(t)
			if r := s.verify(); row.Status.Over() || row.EndCode != "" || !r.Intact || s.recorded(recording.Marker) != "" {
				t.Errorf("%+v, %+v", row, r)
			}
			s.leavesNothing()
			s.noAttack()
		})
	}
}
