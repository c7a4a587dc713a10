//go:build e2e && e2e_all

package qemu

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"
)

// After a kill and a restart, flushed data is present and unflushed data is lost: the test really
// cuts the power.
func TestAGuestThatWasKilledHasWhatItFlushed(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	img, err := BuildImage(ctx, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	g := Start(t, img, Config{Flushes: true})
	const write = "sync; for f in kept lost; do head -c 1000000 /dev/urandom > /root/$f; done; sync /root/kept /root; sha256sum /root/kept"
	if err := g.WaitCloudInit(ctx); err != nil {
		t.Fatal(err)
	}
	kept, err := g.Run(ctx, "sh", "-c", write)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(g.Kill(), g.Again(ctx), g.WaitSSH(ctx)); err != nil {
		t.Fatal(err)
	}
	if now, err := g.Run(ctx, "sha256sum", "/root/kept"); err != nil || now.Stdout != kept.Stdout {
		t.Errorf("what was flushed was %q and is %q: %v", kept.Stdout, now.Stdout, err)
	}
	if now, err := g.Run(ctx, "stat", "-c", "%b", "/root/lost"); err == nil && strings.TrimSpace(now.Stdout) != "0" {
		t.Errorf("what was not flushed has %q blocks", now.Stdout)
	}
}
