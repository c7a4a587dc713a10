package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/cmd/hostler/artifact"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
	"github.com/hostler/hostler/broker/internal/regular"
	"github.com/hostler/hostler/taskcatalog/lazyregexp"
)

// debName is how Debian names a package file: NAME_VERSION_ARCH.deb.
var debName = lazyregexp.New(`^[a-z0-9][a-z0-9+.-]*_([0-9A-Za-z.+~-]+)_(amd64|arm64)\.deb$`)

func agentReleasePublishCommand(a *app) *cobra.Command {
	var channel, registry string
	var plainHTTP bool
	c := &cobra.Command{
		Use:   "publish FILE.deb|DIR|REF",
		Short: "publish a package of the agent, or a signed release",
		Long: `Publish a package of the agent or a signed release. Machines install a package at
their first boot. Nodes update themselves to a signed release: a directory of
hostler agent-release pack, or a reference to a release in a registry,
HOST[:PORT]/REPOSITORY@sha256:… (or a tag).

A package is stored by its digest. Version and architecture come from its name,
NAME_VERSION_ARCH.deb.

A release is pushed to --registry, from which nodes fetch it, or uploaded to the
broker if --registry is not given. The broker verifies the release with the release
keys of its trust bundle, and refuses a release that none of them signed. Signatures
come from the directory (hostler agent-release sign) and from the registry (cosign
sign --key); a signature can be added to the registry after a refused publish. The
push uses the login that docker login or oras login left on this machine.

A release given by reference is read from its registry, with the same login. Nothing
is pushed: CI has pushed and signed it. Nodes fetch the release from that registry.

Publishing the same release again changes only its channel, registry and signatures.`,
		Example: "  hostler agent-release publish dist/hostler-agent_0.1.0_amd64.deb\n" +
			"  hostler agent-release publish dist/hostler-agent-0.1.0.oci --registry registry.example/hostler/agent --channel candidate\n" +
			"  hostler agent-release publish registry.example/hostler/agent@sha256:DIGEST",
		Args: exactly("FILE.deb|DIR|REF"),
		RunE: func(c *cobra.Command, args []string) error {
			if artifact.IsLayout(args[0]) {
				return a.publishSigned(c.Context(), args[0], channel, registry, plainHTTP)
			}
			if isReference(args[0]) {
				if registry != "" {
					return usage("--registry goes with a directory only: %s already names its registry", args[0])
				}
				return a.publishReference(c.Context(), args[0], channel, plainHTTP)
			}
			if registry != "" || plainHTTP || c.Flags().Changed("channel") {
				return usage("--registry, --plain-http and --channel need a signed release (a directory of hostler agent-release pack, or a reference), and %s is none", args[0])
			}
			return a.publishPackage(c, args[0])
		},
	}
	c.Flags().StringVar(&channel, "channel", "stable",
		"channel `NAME` of the release: stable, candidate, or pinned (only nodes that are pinned to it)")
	c.Flags().StringVar(&registry, "registry", "", "push the release to `HOST[:PORT]/REPOSITORY`")
	c.Flags().BoolVar(&plainHTTP, "plain-http", false, "use the registry without TLS, on nodes as well")
	return c
}

func (a *app) publishPackage(c *cobra.Command, path string) error {
	name := filepath.Base(path)
	m := debName.FindStringSubmatch(name)
	if m == nil {
		return usage("cannot tell version and architecture from the name %q (name it NAME_VERSION_ARCH.deb, with amd64 or arm64; or give a directory of hostler agent-release pack, or REGISTRY/REPOSITORY@sha256:…)", name)
	}
	r := api.AgentRelease{Filename: name, Version: m[1], Arch: m[2]}
	f, err := regular.Open(path)
	if err != nil {
		return broker.Errorf(broker.Invalid, "package_unreadable", "cannot read %s: %v", path, err)
	}
	defer func() { _ = f.Close() }()
	digest, err := digestOf(f, &r)
	if err != nil {
		return err
	}
	remote, err := a.connect()
	if err != nil {
		return err
	}
	p := a.progress()
	defer p.done()
	body := &counted{r: f, total: r.Size, p: p, name: r.Filename}
	done, err := remote.PublishAgent(c.Context(), digest, r, body)
	p.done()
	if err != nil {
		return err
	}
	return a.showRelease(done)
}

// digestOf reads the whole file once, fills in its size, and rewinds the file.
func digestOf(f *os.File, r *api.AgentRelease) (string, error) {
	sum := sha256.New()
	n, err := io.Copy(sum, f)
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return "", broker.Errorf(broker.Invalid, "package_unreadable", "cannot read %s: %v", f.Name(), err)
	}
	if n == 0 {
		return "", broker.Errorf(broker.Invalid, "package_unreadable", "cannot publish %s: it is empty", f.Name())
	}
	r.Size = n
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// counted reports how much of a body was read.
type counted struct {
	r           io.Reader
	done, total int64
	p           *progress
	name        string
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.done += int64(n)
	percent := c.done * 100 / c.total
	c.p.say(fmt.Sprint(percent/25), fmt.Sprintf("%s  %s of %s  %d%%", c.name, render.Bytes(c.done), render.Bytes(c.total), percent))
	return n, err
}
