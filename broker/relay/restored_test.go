package relay_test

import (
	"context"
	"crypto/tls"
	"strings"
	"testing"

	"github.com/quic-go/quic-go"

	"github.com/hostler/hostler/broker/relay"
	"github.com/hostler/hostler/pki/pkitest"
	"github.com/hostler/hostler/taskcatalog/wire/frame"
)

// Whoever has a certificate from before a restore may be a thief who was denied since the
// backup: he gets no connection, and the node that has renewed is let in.
func TestACertificateFromBeforeARestoreGetsNoConnection(t *testing.T) {
	for _, over := range both {
		t.Run(over, func(t *testing.T) {
			s := newSite(t, func(c *relay.Config) { c.FromBefore = c.DB.FromBefore })
			must(s.db.MarkRestored(ctx, admin, s.clock.Now(), "a backup"))(s)
			if err := s.told(over, s.node); err == nil || !strings.Contains(err.Error(), "tls: bad certificate") {
				t.Errorf("it got a connection, which ended with %v", err)
			}
			n := s.dial(over, s.enroll("beta")) // since the restore
			n.send(frame.Hello{Version: frame.Version, SessionID: "ts-1", Token: "guessed"})
			n.refused("terminal_wrong_node") // it was heard
		})
	}
}

// told is how a connection ends that says nothing.
func (s *site) told(over string, n pkitest.Node) error {
	if over == "tls" {
		c, err := tls.Dial("tcp", s.addr, s.clientTLS(n))
		if err != nil {
			return err
		}
		defer func() { _ = c.Close() }()
		_, err = c.Read(make([]byte, 1)) // the handshake of the client is over before the server has looked
		return err
	}
	c, err := quic.DialAddr(ctx, s.addr, s.clientTLS(n), &quic.Config{})
	if err != nil {
		return err
	}
	<-c.Context().Done()
	return context.Cause(c.Context())
}
