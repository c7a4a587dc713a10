package lab

import (
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/hostler/hostler/taskcatalog/release"
	"github.com/hostler/hostler/test/qemu"
)

// Releases makes releases of the agent, signs them, and publishes them at a lab's
// broker, as a vendor's CI would.
type Releases struct {
	lab *Lab
	key string // file
}

// builtAt is the time in each release's statement.
const builtAt = "2026-11-01T12:00:00Z"

// NewReleases makes a release key, and has the broker's trust bundle hold it.
func (l *Lab) NewReleases(ctx context.Context) (*Releases, error) {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return nil, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, err
	}
	open, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		return nil, err
	}
	r := &Releases{l, l.Path("release.key")}
	if err := errors.Join(
		os.WriteFile(r.key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600),
		os.WriteFile(l.Path("release.pub"), pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: open}), 0o644),
	); err != nil {
		return nil, err
	}
	_, err = l.Hostler(ctx, "trust", "add-release-key", l.Path("release.pub"), "--reason", "releases of our CI", "--yes")
	return r, err
}

// Build makes the agent of this tree as another version, and returns its file.
func (r *Releases) Build(ctx context.Context, version string) (program string, err error) {
	return r.lab.buildAgent(ctx, "", version)
}

// BuildAgentOf makes the agent of an earlier commit of this repository.
func (l *Lab) BuildAgentOf(ctx context.Context, commit, version string) (program string, err error) {
	tree := l.Path("tree-" + commit)
	if err := os.Mkdir(tree, 0o700); err != nil {
		return "", err
	}
	root, err := repository(ctx)
	if err != nil {
		return "", err
	}
	for _, argv := range [][]string{
		{"git", "-C", root, "archive", "--format=tar", "-o", tree + ".tar", commit},
		{"tar", "-xf", tree + ".tar", "-C", tree},
	} {
		if out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput(); err != nil {
			return "", fmt.Errorf("cannot read commit %s (a shallow clone has no history: git fetch --unshallow): %w\n%s", commit, err, out)
		}
	}
	return l.buildAgent(ctx, tree, version)
}

// buildAgent builds the agent of a tree; empty: of this one.
func (l *Lab) buildAgent(ctx context.Context, tree, version string) (program string, err error) {
	program = l.Path("agent-" + version)
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-tags", "netgo,osusergo", "-ldflags", "-s -w -X main.version="+version+" -X main.commit=0123456789ab", "-o", program, "github.com/hostler/hostler/agent/cmd/hostler-agent")
	cmd.Dir, cmd.Env = tree, append(os.Environ(), "CGO_ENABLED=1", "CGO_LDFLAGS=-O2 -g -Wl,-z,lazy")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("cannot build agent %s: %w\n%s", version, err, out)
	}
	return program, nil
}

// standIn is a program that says of itself what an agent would, passes its own test,
// and otherwise does what it is told.
const standIn = `#!/bin/sh
case "$1" in
version | self-test) echo '%s' ;;
run) %s ;;
esac
`

// StandIn makes a program that stands in for a release with a fault: a line of shell is
// what it does in place of serving. A release is any program that answers so.
func (r *Releases) StandIn(version, arch, does string) (program string, err error) {
	self, err := json.Marshal(release.Self{
		Version: version, Commit: "0123456789ab", OS: release.OS, Arch: arch, StateSchema: release.State, Protocol: release.Protocol,
	})
	if err != nil {
		return "", err
	}
	program = r.lab.Path("program-" + version)
	return program, os.WriteFile(program, fmt.Appendf(nil, standIn, self, does), 0o755)
}

// Commands are what a vendor types to pack, sign and publish a program.
func (r *Releases) Commands(version, program string, flags ...string) [][]string {
	dir := r.lab.Path("release-" + version + ".oci")
	return [][]string{
		{"agent-release", "pack", program, "--out", dir, "--built-at", builtAt},
		{"agent-release", "sign", dir, "--key", r.key},
		append([]string{"agent-release", "publish", dir}, flags...),
	}
}

// LeadTo has a port of a guest's loopback lead to the same port of this machine's, so
// that both know what listens there by one name.
func LeadTo(ctx context.Context, g *qemu.Guest, port string) error {
	argv := []string{"systemd-run", "--unit=port-" + port, "--socket-property=ListenStream=127.0.0.1:" + port, "/usr/lib/systemd/systemd-socket-proxyd", qemu.HostAddress + ":" + port}
	r, err := g.Run(ctx, argv...)
	if err == nil && r.Exit != 0 {
		err = fmt.Errorf("%s: exit %d: %s", strings.Join(argv, " "), r.Exit, r.Stderr)
	}
	return err
}
