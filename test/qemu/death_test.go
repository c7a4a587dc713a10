//go:build e2e

package qemu

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// startedBy names the variable that marks the test binary as its own child: the child starts the
// guest.
const startedBy = "HOSTLER_QEMU_TEST_CHILD"

func TestAGuestEndsWithTheProcessThatStartedIt(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	img, err := BuildImage(ctx, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv(startedBy) != "" {
		g, err := Boot(ctx, img, Config{})
		if err != nil {
			t.Fatal(err)
		}
		fmt.Printf("started %d %s\n", g.pid, g.dir)
		<-ctx.Done()
		return
	}
	child := exec.CommandContext(ctx, os.Args[0], "-test.run=^"+t.Name()+"$")
	child.Env = append(os.Environ(), startedBy+"=1")
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	var dir string
	for s := bufio.NewScanner(out); s.Scan(); {
		if _, err := fmt.Sscanf(s.Text(), "started %d %s", &pid, &dir); err == nil {
			break
		}
	}
	runs := func() bool {
		comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
		return err == nil && strings.HasPrefix(string(comm), "qemu")
	}
	if pid == 0 || !runs() {
		t.Fatalf("no guest was started (pid %d)", pid)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait()
	err = poll(ctx, "the guest's end", func() error {
		if runs() {
			return fmt.Errorf("QEMU %d runs", pid)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	// No process was left to remove the directory: the start of the next guest removes it.
	long := time.Now().Add(-time.Hour)
	if err := os.Chtimes(dir, long, long); err != nil {
		t.Fatal(err)
	}
	mine, err := os.MkdirTemp("", dirPrefix)
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(mine)
	sweep()
	if _, err := os.Stat(filepath.Join(dir, "lock")); !os.IsNotExist(err) {
		t.Errorf("the directory of the dead guest is still there: %v", err)
	}
	if _, err := os.Stat(mine); err != nil {
		t.Errorf("the directory of a guest that is about to start was removed: %v", err)
	}
}
