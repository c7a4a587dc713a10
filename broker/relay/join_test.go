package relay_test

import (
	"sync"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/recording"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/pki/pkitest"
	"github.com/hostler/hostler/taskcatalog/wire/frame"
)

// The operator is told the node's state and transport.
func TestAnOperatorIsToldWhereTheNodeIs(t *testing.T) {
	s := newSite(t)
	o := s.attach(frame.Hello{})
	n, w := s.join("quic", s.token, frame.Hello{})
	until[frame.Welcome](t, o.next, nil)
	told := func(want frame.State) {
		t.Helper()
		if got := until[frame.State](t, o.next, nil); got != want {
			t.Errorf("he is told %+v, want %+v", got, want)
		}
		if state, err := s.relay.State("ts-1"); err != nil || state != want {
			t.Errorf("it says %+v (%v), want %+v", state, err, want)
		}
	}
	told(frame.State{Node: frame.NodeHere, Transport: frame.OverQUIC})
	n.close()
	told(frame.State{Node: frame.NodeAway})
	n, _ = s.join("tls", w.Token, frame.Hello{})
	told(frame.State{Node: frame.NodeHere, Transport: frame.OverTCP})
	o = s.attach(frame.Hello{}) // the next operator is told at once
	told(frame.State{Node: frame.NodeHere, Transport: frame.OverTCP})
	n.write(0, "here")
	if _, err := s.relay.State("ts-2"); broker.AsError(err).Code != "terminal_session_not_here" {
		t.Errorf("%v", err)
	}
}

// Two clients do not take a session from one another for ever.
func TestAnOperatorWhoIsReplacedDoesNotComeBack(t *testing.T) {
	s := newSite(t)
	s.join("quic", s.token, frame.Hello{})
	first := s.attach(frame.Hello{})
	until[frame.Welcome](t, first.next, nil)
	second := s.attach(frame.Hello{})
	if bye := byeOf(t, first.next); bye.Code != "connection_replaced" || bye.Lasts {
		t.Errorf("%+v", bye)
	}
	until[frame.Welcome](t, second.next, nil)
}

// The node is told the size with every connection, also by a relay that takes over.
func TestANodeIsToldTheSizeEachTime(t *testing.T) {
	s := newSite(t)
	n, w := s.join("quic", s.token, frame.Hello{})
	sized := func(columns uint16) {
		t.Helper()
		until(t, n.next, func(size frame.Resize) bool { return size.Columns == columns })
	}
	sized(80) // the operator's size at Open
	o := s.attach(frame.Hello{})
	o.send(frame.Resize{Columns: 132, Rows: 50})
	sized(132)
	n.close()
	n, w = s.join("tls", w.Token, frame.Hello{})
	sized(132)
	o.send(frame.Resize{Columns: 132, Rows: 50}) // the same size: no change
	s.eventually("it is kept", func() bool { return s.recorded(recording.Resize) == "132x50" })
	s.begin()
	if err := s.relay.Open(ctx, "ts-1", recording.Header{Width: 100, Height: 30}); err != nil {
		t.Fatal(err)
	}
	n, _ = s.join("quic", w.Token, frame.Hello{})
	sized(100)
	n.write(0, "x") // kept together with the events before it
	if got := s.recorded(recording.Resize); got != "132x50100x30" {
		t.Errorf("%q is recorded", got)
	}
}

// The previous relay forwarded input and recorded nothing, so the next relay cannot know the input.
func TestASessionThatWasOpeningIsTakenOver(t *testing.T) {
	s := newSite(t)
	s.begin()
	if err := s.relay.Open(ctx, "ts-1", recording.Header{Width: 80, Height: 24}); err != nil {
		t.Fatal(err)
	}
	if row := must(s.db.TerminalSession(ctx, "ts-1"))(t); row.Status != broker.TerminalOpening {
		t.Fatalf("%+v", row)
	}
	_, w := s.join("quic", s.token, frame.Hello{Taken: 7})
	if w.From != 7 {
		t.Errorf("%+v", w)
	}
	s.noAttack()
}

// Of several concurrent Opens of one session exactly one succeeds, and the recording is its
// recording.
func TestASessionIsOpenedByOne(t *testing.T) {
	s := newSite(t)
	must(s.db.CreateTerminalSession(ctx, admin, broker.TerminalSession{ID: "ts-2", NodeID: s.node.NodeID, NodeEpoch: 1}))(t)
	var all sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		all.Go(func() { errs[i] = s.relay.Open(ctx, "ts-2", recording.Header{Width: 80, Height: 24}) })
	}
	all.Wait()
	opened := 0
	for _, err := range errs {
		if err == nil {
			opened++
		} else if broker.AsError(err).Code != "terminal_session_here" {
			t.Errorf("%v", err)
		}
	}
	if last := must(s.db.LastBlock(ctx, "ts-2"))(t); opened != 1 || last.Seq != 0 {
		t.Errorf("%d opened it, and its last block is %d", opened, last.Seq)
	}
}

// A session without a relay is ended with its recording, wherever the recording was cut.
func TestASessionThatNobodyHasIsReaped(t *testing.T) {
	s := newSite(t)
	n, _ := s.join("quic", s.token, frame.Hello{})
	n.write(0, "as far as this")
	if err := s.relay.Reap(ctx, "ts-1", "relay_lost", ""); broker.AsError(err).Code != "terminal_session_here" {
		t.Errorf("%v", err)
	}
	s.closed() // a relay that dies leaves the same state
	s.begin()
	for range 2 {
		if err := s.relay.Reap(ctx, "ts-1", "relay_lost", "its relay is gone"); err != nil {
			t.Fatal(err)
		}
	}
	s.ends("relay_lost")
	if got := s.recorded(recording.Output); got != "as far as this" {
		t.Errorf("%q", got)
	}
	if err := s.relay.Reap(ctx, "ts-2", "relay_lost", ""); broker.AsError(err).Code != "terminal_session_not_found" {
		t.Errorf("%v", err)
	}
}

// A certificate is renewed, expires, and is replaced with another key: the terminal stays.
func TestANodeComesAgainWithAnotherCertificate(t *testing.T) {
	s := newSiteWith(t, broker.TerminalLimits{})
	n, w := s.join("quic", s.token, frame.Hello{})
	n.write(0, "here")
	n.close()
	s.clock.Advance(25 * time.Hour)
	if err := s.tryBoth(s.clientTLS(s.node)); err == nil {
		t.Error("a certificate that ran out is let in")
	}
	digest := func(n pkitest.Node) string { return must(pki.PublicKeyDigest(n.Signer().Public()))(t) }
	s.ca.Now = s.clock.Now()
	stranger := s.ca.Enroll(s, s.node.NodeIdentity, 24*time.Hour) // with a key that the store does not know
	c := s.dial("quic", stranger)
	c.send(frame.Hello{Version: frame.Version, SessionID: "ts-1", Token: w.Token, Sent: 4})
	c.refused("terminal_wrong_key")
	s.node = s.ca.Enroll(s, s.node.NodeIdentity, 24*time.Hour)
	old := must(s.db.Certificates(ctx, s.node.NodeID))(t)[0]
	must(s.db.RecordRenewal(ctx, store.Renewal{
		NodeID: s.node.NodeID, Epoch: 1, OldSerial: old.Serial, PublicKeyDigest: digest(s.node), TrustVersion: 1,
		Cert: store.IssuedCert{Serial: pki.Serial(s.node.Cert.Leaf), PEM: "x", PublicKey: []byte("x"), NotBefore: s.clock.Now(), NotAfter: s.node.Cert.Leaf.NotAfter},
	}))(t)
	n, _ = s.join("quic", w.Token, frame.Hello{Sent: 4})
	n.write(4, " again")
}

// A rotation of the node's key ends the connection with the previous key, and not the session.
func TestANodeComesAgainAfterARotation(t *testing.T) {
	s := newSite(t)
	n, w := s.join("quic", s.token, frame.Hello{})
	n.write(0, "here")
	old := s.node
	s.node = s.ca.Enroll(s, s.node.NodeIdentity, 24*time.Hour)
	s.clock.Advance(time.Second)
	must(s.db.RecordRenewal(ctx, store.Renewal{
		NodeID: s.node.NodeID, Epoch: 1, OldSerial: pki.Serial(old.Cert.Leaf), PublicKeyDigest: must(pki.PublicKeyDigest(s.node.Signer().Public()))(t), TrustVersion: 1,
		Cert: store.IssuedCert{Serial: pki.Serial(s.node.Cert.Leaf), PEM: "x", PublicKey: []byte("x"), NotBefore: s.clock.Now(), NotAfter: s.node.Cert.Leaf.NotAfter},
	}))(t)
	if err := s.db.Deny(ctx, admin, pki.Serial(old.Cert.Leaf), store.DenyRotated); err != nil {
		t.Fatal(err)
	}
	s.deny(old)
	if bye := byeOf(t, n.next); bye.Code != "certificate_denied" || !bye.Lasts {
		t.Errorf("%+v", bye)
	}
	n.close()
	if err := s.tryBoth(s.clientTLS(old)); err == nil {
		t.Error("the key before is let in")
	}
	n, _ = s.join("tls", w.Token, frame.Hello{Sent: 4})
	n.write(4, " again")
}
