package server

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

func TestFailedHandshakesAreTwoLinesInTenMinutes(t *testing.T) {
	core, logged := observer.New(zap.InfoLevel)
	now := time.Unix(1_800_000_000, 0)
	n := newNoise(zap.New(core), func() time.Time { return now })
	out := n.logger()
	for i := range 7000 {
		now = now.Add(10 * time.Millisecond)
		out.Printf("http: TLS handshake error from 203.0.%d.7:%d: EOF", i%250, 1024+i)
		out.Printf("http: TLS handshake error from [2001:db8::%x]:443: remote error: tls: bad certificate\x1b[2J", i)
		n.writeCounts()
	}
	out.Printf("http: panic serving 203.0.113.7:1: a fault of ours\ngoroutine 7 [running]:")
	now = now.Add(noiseEvery)
	n.writeCounts()
	n.writeCounts()
	all := logged.All()
	if len(all) != 3 {
		t.Fatalf("14,000 failed handshakes and a panic are %d lines", len(all))
	}
	if !strings.HasPrefix(all[1].Message, "http: panic serving 203.0.113.7:1: a fault of ours\ngoroutine") {
		t.Errorf("the panic reads %q", all[1].Message)
	}
	said := all[2].ContextMap()
	if all[2].Message != "connections failed" || said["kind"] != "http: TLS handshake error" || said["times"] != int64(13999) || said["networks"] != int64(251) {
		t.Errorf("the summary is %q %v", all[2].Message, said)
	}
	if last := fmt.Sprint(said["last"]); strings.ContainsRune(last, 0x1b) {
		t.Errorf("what the peer said is in the log as it was: %q", last)
	}

	// After a quiet time the next one is in the log at once.
	now = now.Add(noiseEvery)
	n.writeCounts()
	out.Printf("http: TLS handshake error from 203.0.113.7:1: EOF")
	if got := logged.Len(); got != 4 {
		t.Errorf("%d lines, want 4", got)
	}
}
