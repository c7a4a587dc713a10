package main

import (
	"bytes"
	"context"
	"os"
	"strings"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/cmd/hostler/artifact"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/release"
)

// publishSigned pushes or uploads a release, and submits it to the broker. The digest binds the
// files that are read from the directory; only the broker decides whether the release is signed.
func (a *app) publishSigned(ctx context.Context, dir, channel, registry string, plainHTTP bool) error {
	if plainHTTP && registry == "" {
		return usage("--plain-http goes with --registry")
	}
	l, err := artifact.Read(ctx, dir)
	if err != nil {
		return err
	}
	m, err := release.ReadManifest(l.Manifest)
	if err != nil {
		return unfit(dir, err)
	}
	statement, err := l.Part(ctx, m.Statement, release.MaxStatement)
	if err != nil {
		return err
	}
	if _, err := m.ReadStatement(statement); err != nil {
		return unfit(dir, err)
	}
	remote, err := a.connect()
	if err != nil {
		return err
	}
	p := a.progress()
	defer p.done()
	put := api.AgentReleasePublish{
		Digest: l.Digest(), Channel: channel, Reference: registry, PlainHTTP: plainHTTP, Manifest: l.Manifest, Statement: statement,
	}
	var signatures []release.Signature
	if registry != "" {
		to, err := artifact.OpenRegistry(registry, plainHTTP)
		if err != nil {
			return err
		}
		p.say("push", "pushing to "+registry)
		if signatures, err = to.Push(ctx, l); err != nil {
			return err
		}
	} else {
		if signatures, err = l.Signatures(ctx); err != nil {
			return err
		}
		layer, err := l.Part(ctx, m.Layer, release.MaxLayer)
		if err != nil {
			return err
		}
		if _, err := remote.UploadReleasePart(ctx, m.Layer.Digest, m.Layer.Size,
			&counted{r: bytes.NewReader(layer), total: m.Layer.Size, p: p, name: dir}); err != nil {
			return err
		}
	}
	if len(signatures) == 0 {
		p.done()
		return unsigned(l, registry)
	}
	for _, s := range signatures {
		put.Signatures = append(put.Signatures, api.ReleaseSignature(s))
	}
	done, err := remote.PublishRelease(ctx, put)
	p.done()
	if err != nil {
		return err
	}
	return a.showRelease(done)
}

// isReference tells the name of a release in a registry from a file name, which may have any form.
func isReference(name string) bool {
	if _, err := os.Stat(name); err == nil || strings.HasSuffix(name, ".deb") {
		return false
	}
	return artifact.IsReference(name)
}

// publishReference submits a release that a registry already holds.
func (a *app) publishReference(ctx context.Context, reference, channel string, plainHTTP bool) error {
	p := a.progress()
	defer p.done()
	p.say("pull", "reading "+reference)
	r, err := artifact.Pull(ctx, reference, plainHTTP)
	if err != nil {
		return err
	}
	m, err := release.ReadManifest(r.Manifest)
	if err == nil {
		_, err = m.ReadStatement(r.Statement)
	}
	if err != nil {
		return unfit(reference, err)
	}
	if len(r.Signatures) == 0 {
		p.done()
		return broker.Errorf(broker.Refused, "release_unsigned",
			"cannot publish %s: it has no signature (run cosign sign --key FILE %s@%s, then publish again)", reference, r.Repository,
			r.Digest)
	}
	remote, err := a.connect()
	if err != nil {
		return err
	}
	put := api.AgentReleasePublish{
		Digest: r.Digest, Channel: channel, Reference: r.Repository, PlainHTTP: plainHTTP, Manifest: r.Manifest,
		Statement: r.Statement,
	}
	for _, s := range r.Signatures {
		put.Signatures = append(put.Signatures, api.ReleaseSignature(s))
	}
	done, err := remote.PublishRelease(ctx, put)
	p.done()
	if err != nil {
		return err
	}
	return a.showRelease(done)
}

func unsigned(l *artifact.Layout, registry string) error {
	how := "hostler agent-release sign " + l.Dir + " --key FILE"
	if registry != "" {
		how = "it is pushed: cosign sign --key FILE " + registry + "@" + l.Digest() + ", or " + how
	}
	return broker.Errorf(broker.Refused, "release_unsigned", "cannot publish %s: it has no signature (%s; then publish again)", l.Dir, how)
}

// unfit is the error for a directory that does not hold a release.
func unfit(dir string, err error) error {
	return broker.Errorf(broker.Invalid, string(taskcatalog.CodeOf(err, "artifact_unreadable")), "cannot use %s: %v", dir, err)
}
