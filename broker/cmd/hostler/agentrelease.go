package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/adminapi/resource"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
)

func agentReleaseCommand(a *app) *cobra.Command {
	return noun("agent-release", "packages of the agent, kept by digest", "  hostler agent-release list",
		agentReleasePublishCommand(a), agentReleaseListCommand(a))
}

// debName is how Debian names a package file: NAME_VERSION_ARCH.deb.
var debName = regexp.MustCompile(`^[a-z0-9][a-z0-9+.-]*_([0-9A-Za-z.+~-]+)_(amd64|arm64)\.deb$`)

func agentReleasePublishCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "publish FILE",
		Short: "upload a package of the agent",
		Long: `Upload a package of the agent. The broker keeps it by its digest and serves it
to nodes; the same package twice is one release. Version and architecture are
read from its name, NAME_VERSION_ARCH.deb.`,
		Example: "  hostler agent-release publish dist/hostler-agent_0.1.0_amd64.deb",
		Args:    exactly("FILE"),
		RunE: func(c *cobra.Command, args []string) error {
			name := filepath.Base(args[0])
			m := debName.FindStringSubmatch(name)
			if m == nil {
				return usage("cannot tell version and architecture from the name %q (it must be NAME_VERSION_ARCH.deb, with amd64 or arm64)", name)
			}
			r := resource.AgentRelease{Filename: name, Version: m[1], Arch: m[2]}
			f, err := os.Open(args[0])
			if err != nil {
				return broker.Errorf(broker.Invalid, "package_unreadable", "cannot read %s: %v", args[0], err)
			}
			defer func() { _ = f.Close() }()
			digest, err := digestOf(f, &r)
			if err != nil {
				return err
			}
			api, err := a.connect()
			if err != nil {
				return err
			}
			p := a.progress()
			defer p.done()
			body := &counted{r: f, total: r.Size, p: p, name: r.Filename}
			done, err := api.PublishAgent(c.Context(), digest, r, body)
			p.done()
			if err != nil {
				return err
			}
			return a.show(done, []string{done.Digest}, func(p *render.Page) { p.Table(releaseHeads, [][]string{releaseRow(a, *done)}) })
		},
	}
}

// digestOf reads the whole file once, fills in its size, and leaves it at its
// beginning.
func digestOf(f *os.File, r *resource.AgentRelease) (string, error) {
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

// counted shows how much of a body was read.
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

var releaseHeads = []string{"VERSION", "ARCH", "DIGEST", "SIZE", "UPLOADED", "BY", "FILE"}

func releaseRow(a *app, r resource.AgentRelease) []string {
	return []string{r.Version, r.Arch, r.Digest, render.Bytes(r.Size), render.Ago(r.UploadedAt, a.now()), r.UploadedBy, r.Filename}
}

func agentReleaseListCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "list the packages, newest first", Args: exactly(),
		Example: "  hostler agent-release list",
		RunE: func(c *cobra.Command, _ []string) error {
			api, err := a.connect()
			if err != nil {
				return err
			}
			list, err := api.AgentReleases(c.Context())
			if err != nil {
				return err
			}
			digests, rows := []string{}, [][]string{}
			for _, r := range list {
				digests, rows = append(digests, r.Digest), append(rows, releaseRow(a, r))
			}
			return a.show(list, digests, func(p *render.Page) {
				p.Table(releaseHeads, rows)
				if len(rows) == 0 {
					a.note("no agent packages (hostler agent-release publish FILE)")
				}
			})
		},
	}
}
