package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/hostler/hostler/broker/api"
)

// relayWithin is how long doctor waits for the relay of terminals, over either protocol.
const relayWithin = 2 * time.Second

// examineTerminals checks whether the relay answers at the address that nodes are told. Nodes may
// reach the relay even if this machine does not, so a failure is only a warning.
func (a *app) examineTerminals(ctx context.Context, t api.StatusTerminals, say func(check, result, format string, args ...any)) {
	if t.Relay == "" { // an older broker
		return
	}
	var not []string
	if err := answersTCP(ctx, t.Relay); err != nil {
		not = append(not, fmt.Sprintf("TCP (%v)", err))
	}
	if err := answersQUIC(ctx, t.Relay); err != nil {
		not = append(not, fmt.Sprintf("UDP (%v)", err))
	}
	if len(not) > 0 {
		say("terminal relay", "warn",
			"nodes are told %s, which does not answer from here over %s (open that port for UDP and TCP from the nodes, or see --relay-advertise)", t.Relay, strings.Join(not, " and "))
	} else {
		say("terminal relay", "ok", "nodes are told %s, which answers from here over UDP and TCP; %s", t.Relay,
			plural(int(t.Live), "session"))
	}
	if t.RecordingsBroken > 0 {
		say("recordings", "warn",
			"in the last 30 days a part of these was found missing, or they could not be ended: %s (see hostler audit list --action recording.cut, and recording.broken; then hostler recording verify ID)", plural(int(t.RecordingsBroken), "recording"))
	} else {
		say("recordings", "ok", "none of the last 30 days is known to be broken")
	}
}

func answersTCP(ctx context.Context, address string) error {
	ctx, done := context.WithTimeout(ctx, relayWithin)
	defer done()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return conn.Close()
}

// answersQUIC asks for a version of QUIC that does not exist. A server answers with the versions
// that it speaks (RFC 9000, 6.1), and no connection begins. Such a packet needs 1,200 bytes.
func answersQUIC(ctx context.Context, address string) error {
	ctx, done := context.WithTimeout(ctx, relayWithin)
	defer done()
	conn, err := new(net.Dialer).DialContext(ctx, "udp", address)
	if err != nil {
		return err
	}
	defer conn.Close()      //nolint:errcheck // nothing is on its way
	ids := make([]byte, 16) // of both ends
	_, _ = rand.Read(ids)   // never fails
	packet := append([]byte{0xc0, 0x1a, 0x2a, 0x3a, 0x4a, 8}, ids[:8]...)
	packet = append(append(packet, 8), ids[8:]...)
	packet = append(packet, make([]byte, 1200-len(packet))...)
	answer := make([]byte, 1500)
	for lost := 0; ; lost++ { // repeated, because a datagram may be lost
		if _, err := conn.Write(packet); err != nil {
			return err
		}
		if err := conn.SetReadDeadline(time.Now().Add(relayWithin / 4)); err != nil {
			return err
		}
		n, err := conn.Read(answer)
		switch {
		case err == nil && n > 7+16 && bytes.Equal(answer[1:5], make([]byte, 4)) && bytes.Equal(answer[6:14], ids[8:]):
			return nil
		case err == nil:
			return fmt.Errorf("the server there speaks no QUIC")
		case lost == 3:
			return err
		}
	}
}
