package main

import (
	"fmt"
	"net"
	"regexp"
	"strings"
	"testing"

	"github.com/hostler/hostler/broker/api"
)

func TestDoctorAsksTheRelayThatNodesAreTold(t *testing.T) {
	s := newRealSite(t)
	out := s.says("doctor")
	if !regexp.MustCompile(`(?m)^terminal relay +ok +nodes are told \S+:\d+, which answers from here over UDP and TCP; 0 sessions$`).MatchString(out) ||
		!regexp.MustCompile(`(?m)^recordings +ok `).MatchString(out) {
		t.Error(out)
	}
	onTerminal(t, s.command("terminal", "gpu-07"))
	s.node.OpenTerminal(t)
	if out := s.says("doctor"); !strings.Contains(out, "UDP and TCP; 1 session\n") {
		t.Error(out)
	}
}

// Doctor reports a port that is open for one protocol only, and a port with another service.
func TestDoctorSaysWhatOfTheRelayDoesNotAnswer(t *testing.T) {
	free, echo := bothProtocols(t)
	go func() {
		b := make([]byte, 1500)
		for {
			n, from, err := echo.ReadFrom(b)
			if err != nil {
				return
			}
			_, _ = echo.WriteTo(b[:n], from)
		}
	}()
	examine := func(figures api.StatusTerminals) (said string) {
		new(app).examineTerminals(t.Context(), figures, func(check, result, format string, args ...any) {
			said += check + " " + result + ": " + fmt.Sprintf(format, args...) + "\n"
		})
		return said
	}
	at := api.StatusTerminals{Relay: free.Addr().String(), RecordingsBroken: 1}
	for _, want := range []string{"terminal relay warn: ", "over UDP (the server there speaks no QUIC)", "recordings warn: in the last 30 days a part of these was found missing", " 1 recording ("} {
		if got := examine(at); !strings.Contains(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
	_, _ = echo.Close(), free.Close()
	at.RecordingsBroken = 2
	for _, want := range []string{"over TCP (", " and UDP (", " 2 recordings ("} {
		if got := examine(at); !strings.Contains(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := examine(api.StatusTerminals{}); got != "" { // an older broker does not name its relay
		t.Errorf("%q", got)
	}
}

// bothProtocols listens on one port of loopback over TCP and UDP.
func bothProtocols(t *testing.T) (net.Listener, net.PacketConn) {
	t.Helper()
	for range 20 {
		stream, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { stream.Close() })
		if packets, err := net.ListenPacket("udp", stream.Addr().String()); err == nil {
			t.Cleanup(func() { packets.Close() })
			return stream, packets
		} // somebody has that port
	}
	t.Fatal("no port is free on both protocols")
	return nil, nil
}
