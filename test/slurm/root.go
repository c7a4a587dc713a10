package slurm

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hostler/hostler/test/qemu"
)

const (
	suite  = "trixie"
	mirror = "http://deb.debian.org/debian"
	// formatVersion is raised when another root is made of the same packages.
	formatVersion = 1
)

var packages = []string{
	"base-files", "coreutils", "dash", "iproute2",
	"slurm-client", "slurm-wlm-basic-plugins", "slurm-wlm-jwt-plugin", "slurmctld", "slurmd", "slurmrestd", "util-linux",
}

// root returns a directory with the unpacked packages, which every test reads and none writes.
func root(t testing.TB) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("namespaces of its own need root")
	}
	if _, err := exec.LookPath("mmdebstrap"); err != nil {
		t.Skip("mmdebstrap is not installed (make setup-test installs it)")
	}
	cache, err := qemu.CacheDir()
	if err != nil {
		t.Fatal(err)
	}
	digest := sha256.Sum256(fmt.Append(nil, formatVersion, suite, packages))
	dir := filepath.Join(cache, "slurm", hex.EncodeToString(digest[:8]))
	if _, err := os.Stat(dir); err == nil {
		return dir
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	made, err := os.MkdirTemp(filepath.Dir(dir), ".new-")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(made) }()
	unpack(t, filepath.Join(made, "root"))
	// Of two that are made at once, the first stays.
	if err := os.Rename(filepath.Join(made, "root"), dir); err != nil && !errors.Is(err, fs.ErrExist) {
		t.Fatal(err)
	}
	return dir
}

// unpack has mmdebstrap unpack the packages without their scripts, and links what the scripts would.
func unpack(t testing.TB, dir string) {
	t.Helper()
	t.Logf("unpacking Slurm into %s, once", dir)
	cmd := exec.CommandContext(t.Context(), "mmdebstrap", "--quiet", "--variant=extract", "--include="+strings.Join(packages, ","),
		`--aptopt=APT::Install-Recommends "false"`, suite, dir, mirror)
	cmd.Env = append(os.Environ(), "TMPDIR="+filepath.Dir(dir))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("mmdebstrap: %v\n%s", err, out)
	}
	for _, program := range []string{"slurmctld", "slurmd", "slurmstepd"} {
		if err := os.Symlink(program+"-wlm", filepath.Join(dir, "usr/sbin", program)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
}
