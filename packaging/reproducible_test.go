//go:build e2e && e2e_all

package packaging

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Two complete builds of the agent, packed, are equal. The builds differ in directory, umask, time
// zone and time. The second has an empty cache, so that gcc and the compiler run again for every
// package. The test proves nothing about another version of Go or gcc, or another distribution.
func TestTwoBuildsAreOneRelease(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	one := release(t, ctx, filepath.Join(t.TempDir(), "one"), "umask 022", "TZ=UTC")
	two := release(t, ctx, filepath.Join(t.TempDir(), "quite", "another"), "umask 077", "TZ=Asia/Tokyo", "GOCACHE="+t.TempDir())
	if one != two || !strings.HasPrefix(one, "sha256:") {
		t.Errorf("one is %s, and the other %s", one, two)
	}
}

// release builds and packs the agent from a copy of this tree, and returns the digest.
func release(t *testing.T, ctx context.Context, dir, umask string, env ...string) string {
	t.Helper()
	list := exec.CommandContext(ctx, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	list.Dir = ".."
	names, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	for name := range strings.SplitSeq(strings.Trim(string(names), "\x00"), "\x00") {
		raw, err := os.ReadFile(filepath.Join("..", name))
		if os.IsNotExist(err) {
			continue // removed, and not yet committed
		}
		info, serr := os.Stat(filepath.Join("..", name))
		to := filepath.Join(dir, name)
		if err == nil && serr == nil && !info.IsDir() {
			if err = os.MkdirAll(filepath.Dir(to), 0o755); err == nil {
				err = os.WriteFile(to, raw, info.Mode()&fs.ModePerm)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	script := umask + ` && make bin/hostler-agent bin/hostler VERSION=9.9.9 COMMIT=0123456789ab >&2 &&
		bin/hostler agent-release pack bin/hostler-agent --out agent.oci --built-at 2026-01-01T00:00:00Z -q`
	build := exec.CommandContext(ctx, "bash", "-c", script) //nolint:gosec // the line is this file's
	build.Dir = dir
	build.Env = append(os.Environ(), env...)
	var said strings.Builder
	build.Stderr = &said
	out, err := build.Output()
	if err != nil {
		t.Fatal(fmt.Errorf("%w: %s", err, said.String()))
	}
	return strings.TrimSpace(string(out))
}
