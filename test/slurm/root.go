package slurm

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

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

// Lacks is why no cluster can run on this machine; empty: one can.
func Lacks() string {
	if os.Getuid() != 0 {
		return "namespaces of its own need root"
	}
	if _, err := exec.LookPath("mmdebstrap"); err != nil {
		return "mmdebstrap is not installed (make setup-test installs it)"
	}
	return ""
}

// Programs returns a directory with the unpacked packages, which all read and none writes.
func Programs(ctx context.Context) (string, error) {
	cache, err := qemu.CacheDir()
	if err != nil {
		return "", err
	}
	digest := sha256.Sum256(fmt.Append(nil, formatVersion, suite, packages))
	dir := filepath.Join(cache, "slurm", hex.EncodeToString(digest[:8]))
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return "", err
	}
	made, err := os.MkdirTemp(filepath.Dir(dir), ".new-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(made) }()
	if err := unpack(ctx, filepath.Join(made, "root")); err != nil {
		return "", err
	}
	// Of two that are made at once, the first stays.
	if err := os.Rename(filepath.Join(made, "root"), dir); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	return dir, nil
}

// unpack has mmdebstrap unpack the packages without their scripts, and links what the scripts would.
func unpack(ctx context.Context, dir string) error {
	cmd := exec.CommandContext(ctx, "mmdebstrap", "--quiet", "--variant=extract", "--include="+strings.Join(packages, ","),
		`--aptopt=APT::Install-Recommends "false"`, suite, dir, mirror)
	cmd.Env = append(os.Environ(), "TMPDIR="+filepath.Dir(dir))
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("cannot unpack Slurm: mmdebstrap: %w\n%s", err, out)
	}
	for _, program := range []string{"slurmctld", "slurmd", "slurmstepd"} {
		if err := os.Symlink(program+"-wlm", filepath.Join(dir, "usr/sbin", program)); err != nil {
			return err
		}
	}
	return os.Chmod(dir, 0o755)
}
