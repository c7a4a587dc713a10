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

// NewReleases makes a release key and adds it to the broker's trust bundle.
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

// Build builds this tree's agent as another version, and returns the program's file.
func (r *Releases) Build(ctx context.Context, version string) (program string, err error) {
	return r.lab.buildAgent(ctx, "", version)
}

// BuildAgentOf builds the agent of an earlier commit of this repository.
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

// buildAgent builds the agent of a tree; the empty string means this tree.
func (l *Lab) buildAgent(ctx context.Context, tree, version string) (program string, err error) {
	program = l.Path("agent-" + version)
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-tags", "netgo,osusergo", "-ldflags",
		"-s -w -X main.version="+version+" -X main.commit=0123456789ab", "-o", program,
		"github.com/hostler/hostler/agent/cmd/hostler-agent")
	cmd.Dir, cmd.Env = tree, append(os.Environ(), "CGO_ENABLED=1", "CGO_LDFLAGS=-O2 -g -Wl,-z,lazy")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("cannot build agent %s: %w\n%s", version, err, out)
	}
	return program, nil
}

// standIn is a program that reports an agent's version, passes its self-test, and otherwise runs a
// given shell line.
const standIn = `#!/bin/sh
case "$1" in
version | self-test) echo '%s' ;;
run) %s ;;
esac
`

// StandIn makes a program that stands in for a faulty release: it runs a shell line instead of
// serving. Any program with the right answers counts as a release.
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

// Commands returns a vendor's commands that pack, sign and publish a program.
func (r *Releases) Commands(version, program string, flags ...string) [][]string {
	dir := r.lab.Path("release-" + version + ".oci")
	return [][]string{
		{"agent-release", "pack", program, "--out", dir, "--built-at", builtAt},
		{"agent-release", "sign", dir, "--key", r.key},
		append([]string{"agent-release", "publish", dir}, flags...),
	}
}

// LeadTo forwards a port of a guest's loopback to the same port of this machine, so that both use
// one address.
func LeadTo(ctx context.Context, g *qemu.Guest, port string) error {
	argv := []string{
		"systemd-run", "--unit=port-" + port, "--socket-property=ListenStream=127.0.0.1:" + port,
		"/usr/lib/systemd/systemd-socket-proxyd", qemu.HostAddress + ":" + port,
	}
	r, err := g.Run(ctx, argv...)
	if err == nil && r.Exit != 0 {
		err = fmt.Errorf("%s: exit %d: %s", strings.Join(argv, " "), r.Exit, r.Stderr)
	}
	return err
}
