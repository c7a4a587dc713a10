package relay

import (
	"context"
	"crypto/rand"
	"fmt"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/recording"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire/frame"
)

// Attach connects an operator's side to a session and replaces the present operator. The caller
// must have authorised the operator named by, and is responsible for checking again later
// (Operator, Detach). The Hello says what the operator already has. The operator gets a Welcome
// once the node is connected. The relay closes side, also if Attach fails. Codes:
// terminal_session_not_here, terminal_session_over.
func (r *Relay) Attach(id, by string, h frame.Hello, side Side) error {
	s, err := r.session(id)
	if err == nil && !s.do(func() { s.joinOperator(by, h, side) }) {
		err = over(id)
	}
	if err != nil {
		_ = side.Close()
	}
	return err
}

func over(id string) *broker.Error {
	return broker.Errorf(broker.Refused, "terminal_session_over", "terminal session %s has ended (open another session)",
		taskcatalog.Clean(id, 60))
}

func (s *session) joinOperator(by string, h frame.Hello, side Side) {
	// The Bye does not last: two operators who both reconnect would take the session from one
	// another.
	s.dropOperator(frame.Bye{Code: codeReplaced, Text: "another connection has taken the session over"})
	seen := s.seen()
	s.operator, s.by = newLink(&s.group, side), by
	s.show()                      // before the new operator is let on
	s.lastInput = s.relay.c.Now() // an operator is present
	s.progress = s.lastInput
	// The operator continues at his last position or gets the last of the screen; the first
	// operator gets everything.
	start := max(s.out.from, seen-min(seen, screenful))
	if h.Taken > 0 && h.Taken >= s.out.from && h.Taken <= s.out.kept {
		start = h.Taken
	}
	s.sent, s.taken, s.limit = start, start, start
	s.window = newWindow(s.progress, start)
	if s.opIn == nil && s.exit != nil { // the program ended at another relay: input is dropped
		s.opIn = frame.NewInflow(h.Sent)
	}
	if s.opIn != nil { // the end of input belonged to the previous side
		s.opIn = frame.NewInflow(s.opIn.Taken())
	}
	s.eofShown, s.exitShown, s.opAck = false, false, frame.Ack{}
	s.sizeTold = false // the operator's screen is empty: the program must redraw it even if the size is unchanged
	if s.in != nil {
		s.welcomeOperator()
	}
}

func (s *session) welcomeOperator() {
	s.watched = true
	s.opAck = s.allowInput()
	s.operator.greet(frame.Welcome{Version: frame.Version, Taken: s.opIn.Taken(), Limit: max(s.opAck.Limit, s.opIn.Taken()), From: s.taken})
}

// admit admits a node that has sent a Hello, if its token is valid. Codes: those of
// store.UseTerminalToken, terminal_session_not_here, terminal_session_elsewhere, version_unknown,
// joins_too_many, connections_too_many.
func (r *Relay) admit(ctx context.Context, peer *pki.Peer, h frame.Hello, w *wire) error {
	if h.Version != frame.Version {
		return broker.Errorf(broker.Invalid, "version_unknown", "this relay does not speak version %d of the protocol", h.Version)
	}
	return r.runAttempt(ctx, peer, h.SessionID, func() error { return r.join(ctx, peer, h, w) })
}

func (r *Relay) join(ctx context.Context, peer *pki.Peer, h frame.Hello, w *wire) error {
	s, err := r.session(h.SessionID)
	if err != nil {
		return r.checkElsewhere(ctx, peer, h.SessionID, err)
	}
	leave, ok := r.sources.join(peer.NodeID)
	if !ok { // before the token is used: the token stays valid
		return broker.Errorf(broker.Unavailable, codeTooMany, "node %s has too many connections (try again)", peer.NodeID)
	}
	w.leave = leave
	key, err := pki.PublicKeyDigest(peer.Cert.PublicKey)
	if err != nil {
		return err
	}
	token := rand.Text()
	by := store.TerminalCaller{NodeID: peer.NodeID, Epoch: peer.Epoch, KeyDigest: key, Replica: r.c.Address}
	if _, err := r.c.DB.UseTerminalToken(ctx, h.SessionID, by, pki.HashToken(h.Token), pki.HashToken(token)); err != nil {
		if broker.AsError(err).Code == codeElsewhere {
			s.do(s.moved)
		}
		return err
	}
	w.guest.Leave()
	if !s.do(func() { s.joinNode(*peer, h, token, w) }) {
		return r.checkElsewhere(ctx, peer, h.SessionID, over(h.SessionID))
	}
	return nil
}

// checkElsewhere reports whether a session that is not here still exists, as after a restart of the
// relay. The session's own node may come again until its patience ends. Other nodes learn nothing.
func (r *Relay) checkElsewhere(ctx context.Context, peer *pki.Peer, id string, notHere error) error {
	row, err := r.c.DB.TerminalSession(ctx, id)
	switch {
	case err != nil && broker.AsError(err).Kind != broker.NotFound:
		return err
	case err == nil && row.NodeID == peer.NodeID && !row.Status.Over():
		return broker.Errorf(broker.Unavailable, codeElsewhere, "no relay at this address has terminal session %q now (try again)", id)
	}
	return notHere
}

// joinNode attaches the node's connection and replaces the previous connection. A connection that
// cannot continue the session ends the session. A node that already reported the exit of its
// program has nothing to add, and may forget its output once the output is kept.
func (s *session) joinNode(peer pki.Peer, h frame.Hello, token string, w *wire) {
	if s.exit != nil {
		status := s.exit.Status
		newLink(&s.group, w).end(frame.Bye{
			Code: codeExited, Text: "its program has ended", Lasts: s.tape.busy() || s.tape.partial,
			Status: &status,
		})
		return
	}
	// The Bye lasts: the node may have heard nothing of this connection, and its token is used.
	s.dropNode(frame.Bye{Code: codeReplaced, Text: "the node has connected again", Lasts: true})
	s.node, s.peer, s.transport, s.sizeTold = newLink(&s.group, w), peer, w.transport, false
	first := s.in == nil
	if first {
		s.in, s.toNode = frame.NewInflow(s.out.end()), frame.NewOutflow(0)
		if s.resumed { // another relay knows the input
			s.toNode = frame.NewOutflow(h.Taken)
		}
		s.opIn = frame.NewInflow(s.toNode.Sent())
	}
	if err := s.resumePositions(h, first); err != nil {
		s.nodeBroke(err)
		// Another relay may have taken more from the node than the node still has after a power
		// loss.
		s.end.attack = s.end.attack && !(first && s.resumed && taskcatalog.CodeOf(err, "") == frame.CodeLost)
		return
	}
	s.nodeAck = s.in.Pass(max(s.out.kept, h.From), s.seen()+s.window.size)
	s.node.greet(frame.Welcome{
		Version: frame.Version, Taken: s.nodeAck.Taken, Limit: s.nodeAck.Limit, From: h.Taken, Token: token, Repeats: w.quic != nil,
	})
	if first && s.operator != nil {
		s.welcomeOperator()
	}
}

// resumePositions compares the node's positions with the relay's. Codes: ack_unsent, frame_lost,
// frame_beyond_limit.
func (s *session) resumePositions(h frame.Hello, first bool) error {
	if _, err := s.toNode.Resend(h.Taken); err != nil {
		return err
	}
	if err := s.toNode.Acked(frame.Ack{Taken: h.Taken, Limit: h.Taken}); err != nil {
		return err
	}
	s.nodeSent, s.eofSent = h.Taken, false
	taken := s.in.Taken()
	switch {
	case h.Sent < taken || h.From > h.Sent || h.Sent > 1<<62:
		return taskcatalog.Errorf(frame.CodeLost, "the node has bytes %d to %d, and the relay received %d", h.From, h.Sent, taken)
	case !first && h.Sent > s.nodeAck.Limit: // nor can the bytes count as lost
		return taskcatalog.Errorf(frame.CodeBeyondLimit, "the node reports %d sent bytes, and %d were allowed", h.Sent, s.nodeAck.Limit)
	case h.From > taken:
		s.in = frame.NewInflow(h.From)
		s.out.reset(h.From)
		s.tape.add(note{at: s.relay.c.Now(), kind: recording.Marker, gap: h.From - taken})
		// The operator's output would have a gap: he reconnects.
		s.dropOperator(frame.Bye{Code: codeOutputLost, Text: fmt.Sprintf("%d bytes of output are lost", h.From-taken), Lasts: true})
	}
	return nil
}
