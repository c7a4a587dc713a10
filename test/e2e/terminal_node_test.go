//go:build e2e

package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/test/qemu"
)

// The node's part of a terminal session under the real systemd: package terminalnode does the
// checks. No broker takes part.
func TestTerminalsAreUnits(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	dir := t.TempDir()
	for _, argv := range [][]string{
		{"build", "-trimpath", "-tags", "netgo,osusergo", "-o", filepath.Join(dir, "hostler-agent"), "github.com/hostler/hostler/agent/cmd/hostler-agent"},
		{"test", "-c", "-tags", "e2e,netgo,osusergo", "-o", filepath.Join(dir, "terminalnode"), "github.com/hostler/hostler/test/e2e/terminalnode"},
	} {
		cmd := exec.CommandContext(ctx, "go", argv...)
		cmd.Env = append(os.Environ(), "CGO_LDFLAGS=-O2 -g -Wl,-z,lazy")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(argv, " "), err, out)
		}
	}
	img, err := qemu.BuildImage(ctx, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	g := qemu.Start(t, img, qemu.Config{Name: "terminals", UserData: "#cloud-config\n{}\n"})
	if err := g.WaitSSH(ctx); err != nil {
		t.Fatal(err)
	}
	if err := g.WaitBooted(ctx); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"hostler-agent", "terminalnode"} {
		raw, err := os.ReadFile(filepath.Join(dir, name))
		if err == nil {
			err = g.Put(ctx, "/opt/"+name, raw, 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	const users = `set -e
useradd -m -s /bin/bash alice
echo 'alice ALL=(ALL) NOPASSWD: ALL' > /etc/sudoers.d/alice
useradd -m -s /bin/bash -e 2020-01-01 expired`
	if r, err := g.Run(ctx, "sh", "-c", users); err != nil {
		t.Fatalf("%+v %v", r, err)
	}
	r, err := g.Run(ctx, "env", "HOSTLER_GUEST=1", "/opt/terminalnode", "-test.v", "-test.timeout=8m")
	t.Log(r.Stdout + r.Stderr)
	if err != nil || !strings.Contains(r.Stdout, "--- PASS: TestASessionIsAUnitOfItsOwn") {
		t.Errorf("in the guest: %v", err)
	}
}
