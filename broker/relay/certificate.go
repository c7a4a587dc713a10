package relay

import (
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog/wire/frame"
)

// denial is the store's answer about a denied certificate.
type denial struct {
	serial  string
	rotated bool // denied only because the node has another key
	err     error
}

// lookAtCertificate asks the store about the node's certificate, if the certificate is denied.
func (s *session) lookAtCertificate(now time.Time) {
	serial := s.peer.Serial
	if s.node == nil || !s.relay.c.Denied(serial) {
		s.deniedSince = time.Time{}
		return
	}
	if s.deniedSince.IsZero() {
		s.deniedSince = now
	}
	if !s.querying {
		s.querying = true
		s.group.Go(func() { s.denied <- s.relay.denial(serial) })
	}
}

// handleDenial handles the store's answer about a denied certificate. A node with a rotated key
// reconnects with the new certificate; any other node's session ends. If the store does not answer,
// the question is repeated with the next tick, for a while.
func (s *session) handleDenial(d denial) {
	s.querying = false
	switch {
	case s.node == nil || d.serial != s.peer.Serial || !s.relay.c.Denied(d.serial): // the node has reconnected
	case d.err != nil && s.relay.c.Now().Before(s.deniedSince.Add(denyWithin)):
		s.relay.c.Log.Warn("cannot check a denied certificate", zap.String("session", s.row.ID), zap.Error(d.err))
	case d.rotated:
		s.dropNode(frame.Bye{Code: pki.CodeCertificateDenied, Text: "the node's key was rotated", Lasts: true})
	default:
		s.finish(string(pki.CodeCertificateDenied), "the node's certificate is denied")
	}
}
