package relay

import (
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog/wire/frame"
)

// denial is what the store says of a certificate that is denied.
type denial struct {
	serial  string
	rotated bool // only since the node has another key
	err     error
}

// lookAtCertificate asks about that of the node, if it is denied.
func (s *session) lookAtCertificate(now time.Time) {
	serial := s.peer.Serial
	if s.node == nil || !s.relay.c.Denied(serial) {
		s.deniedSince = time.Time{}
		return
	}
	if s.deniedSince.IsZero() {
		s.deniedSince = now
	}
	if !s.asking {
		s.asking = true
		s.group.Go(func() { s.denied <- s.relay.denial(serial) })
	}
}

// judged takes what became of a certificate that is denied: a node that has another key now
// comes again with that one, and any other is not to be here. A store that does not say is
// asked again with the next tick, for a while.
func (s *session) judged(d denial) {
	s.asking = false
	switch {
	case s.node == nil || d.serial != s.peer.Serial || !s.relay.c.Denied(d.serial): // it has come again
	case d.err != nil && s.relay.c.Now().Before(s.deniedSince.Add(denyWithin)):
		s.relay.c.Log.Warn("cannot look at a certificate that is denied", zap.String("session", s.row.ID), zap.Error(d.err))
	case d.rotated:
		s.dropNode(frame.Bye{Code: pki.CodeCertificateDenied, Text: "the node's key was rotated", Lasts: true})
	default:
		s.finish(string(pki.CodeCertificateDenied), "the node's certificate is denied")
	}
}
