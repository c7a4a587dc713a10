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

// A certificate from before a restore may have been stolen and denied since the backup. It gets no
// connection; a node with a certificate issued since the restore is admitted.
func TestACertificateFromBeforeARestoreGetsNoConnection(t *testing.T) {
	for _, over := range both {
		t.Run(over, func(t *testing.T) {
			s := newSite(t, func(c *relay.Config) { c.BeforeRestore = c.DB.BeforeRestore })
			must(s.db.MarkRestored(ctx, admin, s.clock.Now(), "a backup"))(s)
			if err := s.told(over, s.node); err == nil || !strings.Contains(err.Error(), "tls: bad certificate") {
				t.Errorf("it got a connection, which ended with %v", err)
			}
			n := s.dial(over, s.enroll("beta")) // certificate issued since the restore
			n.send(frame.Hello{Version: frame.Version, SessionID: "ts-1", Token: "guessed"})
			n.refused("terminal_wrong_node") // the connection was accepted
		})
	}
}

// told returns the error with which a silent connection ends.
func (s *site) told(over string, n pkitest.Node) error {
	if over == "tls" {
		c, err := tls.Dial("tcp", s.addr, s.clientTLS(n))
		if err != nil {
			return err
		}
		defer func() { _ = c.Close() }()
		_, err = c.Read(make([]byte, 1)) // the client's handshake ends before the server has verified the certificate
		return err
	}
	c, err := quic.DialAddr(ctx, s.addr, s.clientTLS(n), &quic.Config{})
	if err != nil {
		return err
	}
	<-c.Context().Done()
	return context.Cause(c.Context())
}
