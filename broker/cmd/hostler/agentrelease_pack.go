package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/cmd/hostler/artifact"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
	"github.com/hostler/hostler/broker/internal/regular"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/release"
)

// packed is the output of pack and sign.
type packed struct {
	Dir       string            `json:"dir"`
	Digest    string            `json:"digest"`
	Statement release.Statement `json:"statement"`
	Signed    int               `json:"signatures"`
}

func (a *app) showPacked(p packed) error {
	return a.show(p, []string{p.Digest}, func(page *render.Page) {
		page.Fields("directory", p.Dir, "digest", p.Digest, "version", p.Statement.Version, "commit", p.Statement.Commit,
			"platform", p.Statement.OS+"/"+p.Statement.Arch, "program", "sha256:"+p.Statement.Binary.SHA256,
			"signatures", strconv.Itoa(p.Signed))
	})
}

func agentReleasePackCommand(a *app) *cobra.Command {
	var out, builtAt string
	c := &cobra.Command{
		Use:   "pack PROGRAM --out DIR",
		Short: "pack a built agent as a release: an OCI artifact in a directory",
		Long: `Pack a built agent as a release: an OCI artifact in a directory (an OCI image
layout). The command runs PROGRAM version -o json, which reports the program's
version and the state formats that it reads.

The same program and the same --built-at give the same digest: use the time of the
commit, not the time of the build. Without --built-at, SOURCE_DATE_EPOCH applies.`,
		Example: "  hostler agent-release pack bin/hostler-agent --out dist/hostler-agent-0.1.0.oci --built-at 2026-11-01T12:00:00Z",
		Args:    exactly("PROGRAM"),
		RunE: func(c *cobra.Command, args []string) error {
			if out == "" {
				return usage("there is no directory for the release (use --out DIR)")
			}
			at, err := a.buildTime(builtAt)
			if err != nil {
				return err
			}
			program, err := readProgram(args[0])
			if err != nil {
				return err
			}
			self, err := askProgram(c.Context(), args[0])
			if err != nil {
				return err
			}
			made, err := release.Pack(program, self.Statement(at))
			if err != nil {
				return unfit(args[0], err)
			}
			if err := artifact.Write(c.Context(), out, made, self.Version); err != nil {
				return err
			}
			s, err := release.ParseStatement(made.Statement)
			if err != nil {
				return err
			}
			return a.showPacked(packed{Dir: out, Digest: made.Digest, Statement: *s})
		},
	}
	c.Flags().StringVar(&out, "out", "", "write the release to `DIR`, and replace a release that exists there")
	c.Flags().StringVar(&builtAt, "built-at", "", "`TIME` of the release, as 2026-11-01T12:00:00Z")
	return c
}

// buildTime is part of the digest, so it never comes from the clock.
func (a *app) buildTime(said string) (time.Time, error) {
	if said != "" {
		at, err := time.Parse(time.RFC3339, said)
		if err != nil {
			return at, usage("cannot read --built-at %q: write it as 2026-11-01T12:00:00Z", said)
		}
		return at.UTC().Truncate(time.Second), nil
	}
	epoch := a.getenv("SOURCE_DATE_EPOCH")
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return time.Time{}, usage("there is no build time, which is part of the digest (use --built-at TIME, or SOURCE_DATE_EPOCH)")
	}
	return time.Unix(seconds, 0).UTC(), nil
}

func readProgram(path string) ([]byte, error) {
	raw, err := regular.Read(path, release.MaxBinary)
	if err != nil {
		return nil, broker.Errorf(broker.Invalid, "program_unreadable", "cannot pack %s: %v", path, err)
	}
	return raw, nil
}

// askTime bounds how long a program may take to describe itself.
const askTime = 20 * time.Second

// askProgram runs a program to learn its description of itself.
func askProgram(ctx context.Context, path string) (release.Self, error) {
	var self release.Self
	abs, err := filepath.Abs(path)
	if err != nil {
		return self, err
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, abs, "version", "-o", "json")
	var said bytes.Buffer
	cmd.Stdout = &capped{w: &said, left: release.MaxStatement}
	cmd.WaitDelay = time.Second
	if err := cmd.Run(); err != nil {
		return self, broker.Errorf(broker.Invalid, "program_unfit",
			"cannot pack %s: %s version -o json ended with: %v (build it for this machine, from a version that has releases)", path, path,
			err)
	}
	if err := taskcatalog.DecodeStrict(said.Bytes(), &self); err != nil {
		return self, broker.Errorf(broker.Invalid, "program_unfit", "cannot pack %s: its version report cannot be read: %v", path, err)
	}
	return self, nil
}

// capped drops everything past its limit; truncated output does not parse.
type capped struct {
	w    io.Writer
	left int
}

func (c *capped) Write(p []byte) (int, error) {
	n := min(len(p), c.left)
	c.left -= n
	if _, err := c.w.Write(p[:n]); err != nil {
		return 0, err
	}
	return len(p), nil
}

func agentReleaseSignCommand(a *app) *cobra.Command {
	var keyFile, registry string
	c := &cobra.Command{
		Use:   "sign DIR --key FILE",
		Short: "sign a release as cosign does, in its directory",
		Long: `Sign a release in its directory, in the form that cosign 2 writes to a registry and
that cosign 3 also verifies. The key is a file of cosign generate-key-pair (its
password is typed, or in COSIGN_PASSWORD), or PKCS#8 in PEM: ECDSA P-256 or Ed25519.
Nodes accept the signature once hostler trust add-release-key has added the key.`,
		Example: "  hostler agent-release sign dist/hostler-agent-0.1.0.oci --key cosign.key",
		Args:    exactly("DIR"),
		RunE: func(c *cobra.Command, args []string) error {
			if keyFile == "" {
				return usage("cannot sign without a key (use --key FILE)")
			}
			raw, err := a.readBounded(keyFile)
			if err != nil {
				return err
			}
			l, err := artifact.Read(c.Context(), args[0])
			if err != nil {
				return err
			}
			m, err := release.ReadManifest(l.Manifest)
			if err != nil {
				return unfit(args[0], err)
			}
			statement, err := l.Part(c.Context(), m.Statement, release.MaxStatement)
			if err != nil {
				return err
			}
			s, err := m.ReadStatement(statement)
			if err != nil {
				return unfit(args[0], err)
			}
			key, err := artifact.ParseKey(raw, a.keyPassword)
			if err != nil {
				return err
			}
			signature, err := release.Sign(l.Digest(), registry, key)
			if err != nil {
				return broker.Errorf(broker.Invalid, "key_unreadable", "cannot use the release key: %v", err)
			}
			if err := l.AddSignature(c.Context(), signature); err != nil {
				return err
			}
			all, err := l.Signatures(c.Context())
			if err != nil {
				return err
			}
			return a.showPacked(packed{Dir: args[0], Digest: l.Digest(), Statement: *s, Signed: len(all)})
		},
	}
	c.Flags().StringVar(&keyFile, "key", "", "`FILE` with the release key's private half")
	c.Flags().StringVar(&registry, "registry", "", "`HOST[:PORT]/REPOSITORY` that the signature names, for information only")
	return c
}

// keyPassword comes from the environment, or is typed unseen.
func (a *app) keyPassword() ([]byte, error) {
	if word := a.getenv("COSIGN_PASSWORD"); word != "" || !a.ask {
		return []byte(word), nil
	}
	f, ok := a.in.(*os.File)
	if !ok {
		return nil, nil
	}
	_, _ = io.WriteString(a.err, "password of the release key: ")
	word, err := readUnseen(a, f)
	if err != nil {
		return nil, broker.Errorf(broker.Invalid, "key_unreadable", "cannot read the password from the terminal: %v", err)
	}
	return word, nil
}
