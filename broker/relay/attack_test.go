package relay_test

import (
	"encoding/binary"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/recording"
	"github.com/hostler/hostler/broker/relay"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/pki/pkitest"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire/frame"
)

// audited waits for an attack by the node in the audit log.
func (s *site) audited(code string) {
	s.Helper()
	s.eventually(code+" is in the audit log", func() bool {
		return len(must(s.db.ListAudit(ctx, store.AuditFilter{Action: "terminal.attack", Code: code}))(s)) == 1
	})
}

func (c *conn) refused(code taskcatalog.Code) {
	c.Helper()
	if bye := byeOf(c, c.next); bye.Code != code || bye.Lasts {
		c.Errorf("it was told %+v, want %s", bye, code)
	}
	c.close()
}

func TestATokenIsGoodForOneConnectionOfOneNode(t *testing.T) {
	hello := func(session, token string) frame.Hello {
		return frame.Hello{Version: frame.Version, SessionID: session, Token: token}
	}
	for name, c := range map[string]struct {
		code   taskcatalog.Code
		attack func(s *site) (pkitest.Node, frame.Hello)
	}{
		"stolen by another node": {"terminal_wrong_node", func(s *site) (pkitest.Node, frame.Hello) {
			return s.enroll("beta"), hello("ts-1", s.token)
		}},
		"stolen for another key of the node": {"terminal_wrong_key", func(s *site) (pkitest.Node, frame.Hello) {
			return s.ca.Enroll(s, s.node.NodeIdentity, time.Hour), hello("ts-1", s.token)
		}},
		"of another epoch": {"terminal_wrong_epoch", func(s *site) (pkitest.Node, frame.Hello) {
			return s.ca.Enroll(s, pki.NodeIdentity{NodeID: s.node.NodeID, Epoch: 2}, time.Hour), hello("ts-1", s.token)
		}},
		"too late": {"terminal_token_expired", func(s *site) (pkitest.Node, frame.Hello) {
			s.clock.Advance(30 * time.Second)
			return s.node, hello("ts-1", s.token)
		}},
		"used, and its successor too": {"terminal_token_used", func(s *site) (pkitest.Node, frame.Hello) {
			_, w := s.join("quic", s.token, frame.Hello{})
			s.join("quic", w.Token, frame.Hello{})
			return s.node, hello("ts-1", s.token)
		}},
		"used, and shown with another key": {"terminal_token_used", func(s *site) (pkitest.Node, frame.Hello) {
			s.join("quic", s.token, frame.Hello{})
			return s.ca.Enroll(s, s.node.NodeIdentity, time.Hour), hello("ts-1", s.token)
		}},
		"guessed": {"terminal_token_unknown", func(s *site) (pkitest.Node, frame.Hello) {
			return s.node, hello("ts-1", "guessed")
		}},
		"none": {"terminal_token_unknown", func(s *site) (pkitest.Node, frame.Hello) {
			return s.node, hello("ts-1", "")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			n, h := c.attack(s)
			thief := s.dial("quic", n)
			thief.send(h)
			thief.refused(c.code)
			s.audited(string(c.code))
		})
	}
}

// A node that has not yet heard of a newly minted token is no attacker, and joins with the new
// token.
func TestATokenWhosePlaceAnotherTookIsNoAttack(t *testing.T) {
	s := newSite(t)
	old := s.token
	token := s.mint("ts-1", s.node)
	for range 20 {
		late := s.dial("quic", s.node)
		late.send(frame.Hello{Version: frame.Version, SessionID: "ts-1", Token: old})
		if bye, ok := late.next().(frame.Bye); !ok || bye.Code != "terminal_token_unknown" || !bye.Lasts { // every version waits after this code
			t.Errorf("%+v", bye)
		}
	}
	if rows := must(s.db.ListAudit(ctx, store.AuditFilter{Action: "terminal.attack"}))(t); len(rows) > 0 {
		t.Errorf("%+v", rows)
	}
	s.join("quic", token, frame.Hello{})
}

// A refused attempt takes nothing from the legitimate node.
func TestAThiefDoesNotUseATokenUp(t *testing.T) {
	s := newSite(t)
	thief := s.dial("quic", s.enroll("beta"))
	thief.send(frame.Hello{Version: frame.Version, SessionID: "ts-1", Token: s.token})
	thief.refused("terminal_wrong_node")
	s.join("quic", s.token, frame.Hello{})
}

func TestANodeIsNotLetIntoASessionThatIsNotHere(t *testing.T) {
	s := newSite(t)
	for h, code := range map[frame.Hello]taskcatalog.Code{
		{Version: frame.Version, SessionID: "ts-2", Token: s.token}: "terminal_session_not_here",
		{Version: 2, SessionID: "ts-1", Token: s.token}:             "version_unknown",
	} {
		n := s.dial("quic", s.node)
		n.send(h)
		n.refused(code)
	}
}

func TestANodeThatBreaksTheProtocolEndsItsSession(t *testing.T) {
	long := binary.BigEndian.AppendUint32([]byte{byte(frame.KindData)}, frame.MaxData+9)
	for name, c := range map[string]struct {
		code   taskcatalog.Code
		attack func(n *conn, w frame.Welcome)
	}{
		"an oversized frame": {frame.CodeInvalid, func(n *conn, _ frame.Welcome) { _ = must(n.Write(long))(n) }},
		"an unknown frame":   {frame.CodeInvalid, func(n *conn, _ frame.Welcome) { _ = must(n.Write([]byte{77, 0, 0, 0, 0}))(n) }},
		"Data beyond the limit": {frame.CodeBeyondLimit, func(n *conn, w frame.Welcome) {
			full := make([]byte, frame.MaxData)
			for at := uint64(0); at <= w.Limit; at += frame.MaxData {
				n.send(frame.Data{Offset: at, Bytes: full})
			}
		}},
		"Data with a gap": {frame.CodeGap, func(n *conn, _ frame.Welcome) { n.send(frame.Data{Offset: 1, Bytes: []byte("a")}) }},
		"an Ack of bytes that were not sent": {frame.CodeAckUnsent, func(n *conn, _ frame.Welcome) {
			n.send(frame.Ack{Taken: 1, Limit: 1})
		}},
		"Hello twice": {"frame_unexpected", func(n *conn, w frame.Welcome) {
			n.send(frame.Hello{Version: frame.Version, SessionID: "ts-1", Token: w.Token})
		}},
		"a Resize": {"frame_unexpected", func(n *conn, _ frame.Welcome) { n.send(frame.Resize{Columns: 1, Rows: 1}) }},
		"words after its end": {"frame_unexpected", func(n *conn, _ frame.Welcome) {
			n.send(frame.Data{Bytes: []byte("a")}, frame.Exit{}, frame.Ping{})
		}},
		"too many frames": {"frame_flood", func(n *conn, _ frame.Welcome) {
			for range 300 {
				n.send(frame.Pong{})
			}
		}},
	} {
		for _, over := range both {
			t.Run(name+" over "+over, func(t *testing.T) {
				s := newSite(t)
				s.attach(frame.Hello{}).drain(nil) // an operator who takes nothing: there is a limit, and an Exit is not the end yet
				n, w := s.join(over, s.token, frame.Hello{})
				c.attack(n, w)
				n.refused(c.code)
				s.ends(string(c.code))
				s.audited(string(c.code))
			})
		}
	}
}

func TestAConnectionHasOneStream(t *testing.T) {
	s := newSite(t)
	n, _ := s.join("quic", s.token, frame.Hello{})
	more := must(n.quic.OpenStream())(t)
	_ = must(more.Write([]byte("a")))(t)
	s.ends("streams_too_many")
	s.audited("streams_too_many")
	if _, err := n.quic.OpenUniStream(); err == nil {
		t.Error("a stream of one direction can be opened")
	}
}

func TestAnOperatorWhoBreaksTheProtocolLosesHisConnection(t *testing.T) {
	for name, c := range map[string]struct {
		code   taskcatalog.Code
		attack func(o *operator, w frame.Welcome)
	}{
		"a storm of sizes": {"resize_storm", func(o *operator, _ frame.Welcome) {
			for range 101 {
				o.send(frame.Resize{Columns: 80, Rows: 24})
			}
		}},
		"input beyond the limit": {frame.CodeBeyondLimit, func(o *operator, w frame.Welcome) {
			o.send(frame.Data{Offset: w.Taken, Bytes: make([]byte, w.Limit-w.Taken+1)})
		}},
		"an Ack of output that was not sent": {frame.CodeAckUnsent, func(o *operator, _ frame.Welcome) {
			o.send(frame.Ack{Taken: 1, Limit: 1})
		}},
		"Hello":   {"frame_unexpected", func(o *operator, _ frame.Welcome) { o.send(frame.Hello{}) }},
		"an Exit": {"frame_unexpected", func(o *operator, _ frame.Welcome) { o.send(frame.Exit{}) }},
		"signals without end": {"frame_flood", func(o *operator, _ frame.Welcome) {
			for range 201 {
				o.send(frame.Signal{Name: "INT"})
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			n, _ := s.join("quic", s.token, frame.Hello{})
			o := s.attach(frame.Hello{})
			told := make(chan frame.Bye, 1)
			w := until[frame.Welcome](t, o.next, nil)
			o.drain(told)
			c.attack(o, w)
			select {
			case bye := <-told:
				if bye.Code != c.code || !bye.Lasts {
					t.Errorf("he was told %+v, want %s", bye, c.code)
				}
			case <-time.After(patience):
				t.Fatal("he was told nothing")
			}
			// The session waits for the operator.
			n.send(frame.Data{Bytes: []byte("still here")})
			until(t, n.next, func(a frame.Ack) bool { return a.Taken == 10 })
			again := s.attach(frame.Hello{})
			until[frame.Welcome](t, again.next, nil)
		})
	}
}

func TestWhoIsNoNodeOfOursGetsNoConnection(t *testing.T) {
	s := newSite(t)
	dial := func(n pkitest.Node) error {
		c := s.clientTLS(n)
		return s.tryBoth(c)
	}
	if err := dial(pkitest.NewAt(t, s.clock.Now()).NewNode(t)); err == nil {
		t.Error("a node of another authority is let in")
	}
	if err := dial(pkitest.Node{Cert: s.ca.Server}); err == nil {
		t.Error("a broker's certificate is let in")
	}
	if err := dial(pkitest.Node{}); err == nil {
		t.Error("whoever has no certificate is let in")
	}
	s.deny(s.node)
	if err := dial(s.node); err == nil {
		t.Error("a denied certificate is let in")
	}
	s.deny(pkitest.Node{})
	other := s.clientTLS(s.node)
	other.NextProtos = []string{"h2"}
	if err := s.tryBoth(other); err == nil {
		t.Error("another protocol is let in")
	}
	s.clock.Advance(25 * time.Hour)
	if err := dial(s.node); err == nil {
		t.Error("a certificate that ran out is let in")
	}
}

func TestWhoSaysNothingIsNotWaitedFor(t *testing.T) {
	for _, over := range both {
		s := newSite(t, func(c *relay.Config) { c.HelloWithin = 2 * time.Second })
		n := s.dial(over, s.node)
		_ = must(n.Write([]byte{byte(frame.KindHello)}))(t)
		if bye := byeOf(t, n.next); bye.Code != "hello_missing" || !bye.Lasts { // the node may only have been slow
			t.Errorf("it was told %+v", bye)
		}
		n.close()
		n = s.dial(over, s.node)
		n.send(frame.Ping{})
		n.refused("frame_unexpected")
	}
}

// exhausted is a listener that cannot accept so many connections.
type exhausted struct {
	net.Listener
	times atomic.Int32
}

func (l *exhausted) Accept() (net.Conn, error) {
	if l.times.Add(-1) >= 0 {
		return nil, syscall.EMFILE
	}
	return l.Listener.Accept()
}

// An attacker who uses up the descriptors ends no other session.
func TestARelayThatCannotTakeAConnectionGoesOn(t *testing.T) {
	s := newSite(t)
	s.closed()
	l := &exhausted{}
	l.times.Store(2)
	s.listener = func(tcp net.Listener) net.Listener { l.Listener = tcp; return l }
	s.begin()
	if err := s.relay.Open(ctx, "ts-1", recording.Header{Width: 80, Height: 24}); err != nil {
		t.Fatal(err)
	}
	s.join("tls", s.mint("ts-1", s.node), frame.Hello{})
	if left := l.times.Load(); left >= 0 {
		t.Errorf("it was let in with %d failures to come", left)
	}
}

func TestAnAddressHasSoManyConnections(t *testing.T) {
	s := newSite(t, func(c *relay.Config) { c.PerSource, c.HelloWithin = 2, time.Minute })
	s.join("quic", s.token, frame.Hello{}) // counts for its node from now on, which frees a place at its address
	one := s.dial("tls", s.node)
	s.dial("tls", s.node)
	s.dial("tls", s.node)
	if err := s.tryBoth(s.clientTLS(s.node)); err == nil {
		t.Error("one more is let in")
	}
	one.close()
	s.eventually("there is room again", func() bool { return s.tryBoth(s.clientTLS(s.node)) == nil })
}

// A connection beyond the bound comes again later, with the same token.
func TestANodeHasSoManyConnections(t *testing.T) {
	s := newSite(t, func(c *relay.Config) { c.PerNode = 1 })
	one, w := s.join("quic", s.token, frame.Hello{})
	hello := frame.Hello{Version: frame.Version, SessionID: "ts-1", Token: w.Token}
	another := s.dial("tls", s.node)
	another.send(hello)
	if bye := byeOf(t, another.next); bye.Code != "connections_too_many" || !bye.Lasts {
		t.Errorf("%+v", bye)
	}
	one.write(0, "here")
	one.close()
	s.eventually("there is room again", func() bool {
		again := s.dial("tls", s.node)
		hello.Sent = 4
		again.send(hello)
		_, is := again.next().(frame.Welcome)
		return is
	})
	s.noAttack()
}

// A node with many refused tries uses up neither the audit log nor the store's time. Its permitted
// tries are delayed, not lost. Other nodes are not affected.
func TestTriesThatAreRefusedAreBounded(t *testing.T) {
	s := newSite(t)
	beta := s.enroll("beta")
	must(s.db.CreateTerminalSession(ctx, admin, broker.TerminalSession{ID: "ts-2", NodeID: beta.NodeID, NodeEpoch: 1}))(t)
	if err := s.relay.Open(ctx, "ts-2", recording.Header{Width: 80, Height: 24}); err != nil {
		t.Fatal(err)
	}
	try := func(n pkitest.Node, id, token string) frame.Frame {
		t.Helper()
		c := s.dial("tls", n)
		defer c.close()
		c.send(frame.Hello{Version: frame.Version, SessionID: id, Token: token})
		return c.next()
	}
	codes := map[taskcatalog.Code]int{}
	for range 40 {
		bye := try(s.node, "ts-1", "guessed").(frame.Bye)
		if codes[bye.Code]++; bye.Lasts != (bye.Code == "joins_too_many") {
			t.Errorf("%+v", bye)
		}
	}
	if codes["terminal_token_unknown"] != 16 || codes["joins_too_many"] != 24 {
		t.Errorf("%v", codes)
	}
	s.audited("terminal_token_unknown") // the entry counts the other refusals
	s.audited("joins_too_many")
	if bye, ok := try(s.node, "ts-1", s.token).(frame.Bye); !ok || bye.Code != "joins_too_many" {
		t.Errorf("%+v", bye)
	}
	if _, is := try(beta, "ts-2", s.mint("ts-2", beta)).(frame.Welcome); !is {
		t.Error("another node waits with it")
	}
	s.clock.Advance(31 * time.Second)
	if _, is := try(s.node, "ts-1", s.mint("ts-1", s.node)).(frame.Welcome); !is {
		t.Error("it waits for ever")
	}
}

// Successful tries are not limited, however many follow each other after broken connections.
func TestTriesThatSucceedAreNotBounded(t *testing.T) {
	s := newSite(t)
	token := s.token
	for range 40 {
		_, w := s.join("tls", token, frame.Hello{})
		token = w.Token
	}
}
