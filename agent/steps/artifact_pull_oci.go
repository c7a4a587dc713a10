package steps

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"path"
	"slices"

	"github.com/hostler/hostler/agent/download"
	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/agent/registry"
	"github.com/hostler/hostler/agent/uplink"
	"github.com/hostler/hostler/taskcatalog"
)

// ociPulled looks whether the directory has the artifact. The manifest that lies there names the files.
func ociPulled(ctx context.Context, s *Step) (Proof, bool, error) {
	root, err := s.Host.Machine.Below(s.Args.Text("root"))
	if err != nil {
		return Proof{}, false, absent(err)
	}
	defer root.Close()
	proof, done, err := hasArtifact(ctx, s, root.Open, s.Args.Text("name"))
	proof.Output = s.place()
	return proof, done, err
}

// hasArtifact holds a directory against the step's digest: the manifest has it, and each file has the
// digest that the manifest names. Other files of the directory are not looked at.
func hasArtifact(ctx context.Context, s *Step, open opener, dir string) (Proof, bool, error) {
	raw, err := manifestAt(open, dir+"/"+manifestName)
	if raw == nil || err != nil {
		return Proof{}, false, err
	}
	m, err := readManifest(raw, s.Args.Text("digest"), mostBytes(s))
	if err != nil {
		return Proof{}, false, nil // of another artifact
	}
	for _, f := range m.files {
		if digest, _, err := digestOf(ctx, s, open, dir+"/"+f.name); err != nil || digest != f.digest {
			return Proof{}, false, err
		}
	}
	return Proof{Digest: s.Args.Text("digest"), Bytes: m.bytes}, true, nil
}

// manifestAt reads a manifest; nil: there is none.
func manifestAt(open opener, name string) ([]byte, error) {
	f, err := open(name)
	if missing(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	raw, err := io.ReadAll(io.LimitReader(f, maxManifest+1))
	if len(raw) > maxManifest {
		return nil, nil // no step has pulled it
	}
	return raw, err
}

// pullOCI brings the manifest of an artifact to a directory, and then the files that it names.
func pullOCI(ctx context.Context, s *Step) (Proof, error) {
	if s.Host.Downloads == nil || s.Plan.Artifacts == nil {
		return Proof{}, taskcatalog.Errorf(taskcatalog.CodeStepUnsupported, "cannot pull: this agent has no downloads, or the plan no bounds for them")
	}
	a, err := openOCI(s)
	if err != nil {
		return Proof{}, err
	}
	if a.root, err = s.Host.Machine.MakeBelow(s.Args.Text("root")); err != nil {
		return Proof{}, noLink(err)
	}
	defer a.root.Close()
	dir, digest := s.Args.Text("name"), s.Args.Text("digest")
	m, err := a.manifest(ctx, dir, digest)
	if err != nil {
		return Proof{}, err
	}
	var before int64
	report := s.bytes()
	for _, f := range m.files {
		if err := a.bring(ctx, dir, "blobs", f, f.size, func(done, _ int64) { report(before+done, m.bytes) }); err != nil {
			return Proof{}, err
		}
		before += f.size
	}
	return Proof{Output: s.place(), Digest: digest, Bytes: m.bytes}, nil
}

// manifest gives the directory the manifest of the digest, and returns what it names. The manifest of a
// former artifact stays until the files that it alone names are gone.
func (a *ociRequests) manifest(ctx context.Context, dir, digest string) (m ociManifest, err error) {
	former, err := manifestAt(a.root.Open, dir+"/"+manifestName)
	if err != nil {
		return m, err
	}
	most := a.step.Plan.Artifacts.MaxBytes
	if m, err = readManifest(former, digest, most); taskcatalog.CodeOf(err, "") != taskcatalog.CodeDigestMismatch {
		return m, err // it is there, of this artifact
	}
	next := dir + "/" + manifestNext
	if err := a.bring(ctx, dir, "manifests", ociFile{name: manifestNext, digest: digest}, maxManifest, func(int64, int64) {}); err != nil {
		return m, err
	}
	raw, err := manifestAt(a.root.Open, next)
	if err == nil {
		m, err = readManifest(raw, digest, most)
	}
	if err != nil {
		return m, errors.Join(err, a.root.Remove(next))
	}
	if err := a.leave(dir, former, m); err != nil {
		return m, noLink(err)
	}
	return m, noLink(a.root.Rename(next, dir+"/"+manifestName))
}

// leave removes the files that the manifest of a former artifact names and the one of the next does not,
// with what was pulled of them in part, and the directories that this leaves empty.
func (a *ociRequests) leave(dir string, former []byte, next ociManifest) error {
	m, err := readManifest(former, fmt.Sprintf("sha256:%x", sha256.Sum256(former)), math.MaxInt64)
	if err != nil {
		return nil // no step has written it
	}
	for _, f := range m.files {
		if slices.ContainsFunc(next.files, func(n ociFile) bool { return n.name == f.name }) {
			continue
		}
		name := dir + "/" + f.name
		if err := errors.Join(a.root.Remove(target{name: name}.work()), a.root.Remove(name)); err != nil {
			return err
		}
		for at := path.Dir(name); at != dir; at = path.Dir(at) {
			if a.root.RemoveDir(at) != nil {
				break // something else is in it
			}
		}
	}
	return nil
}

// bring pulls a part of the artifact to its file, unless the file has it.
func (a *ociRequests) bring(ctx context.Context, dir, kind string, f ociFile, most int64, progress func(done, of int64)) error {
	s, name := a.step, dir+"/"+f.name
	digest, _, err := digestOf(ctx, s, a.root.Open, name)
	if err != nil || digest == f.digest {
		return err
	}
	a.kind, a.digest = kind, f.digest
	_, err = target{a.root, name}.pull(ctx, &download.Pull{
		Request: a.next, Do: a.do, Digest: f.digest, Size: f.size, Most: most,
		Checkpoint: s.Checkpoint, Now: s.Host.Now, Progress: progress,
	})
	return err
}

func mostBytes(s *Step) int64 {
	if s.Plan.Artifacts == nil {
		return 0
	}
	return s.Plan.Artifacts.MaxBytes
}

// ociRequests makes the requests for the parts of one artifact.
type ociRequests struct {
	repo         *registry.Repository
	root         *machine.Below
	secret       *Secret
	kind, digest string // of the part
	step         *Step
}

func openOCI(s *Step) (*ociRequests, error) {
	source := s.Args.Text("source")
	a := &ociRequests{secret: s.Args.Secret("credential"), step: s}
	o := registry.Options{Name: source, HTTP: s.Host.Downloads.HTTP()}
	if a.secret != nil {
		o.Token = a.token
	}
	var err error
	if a.repo, err = registry.New(o); err != nil || !ociSource.MatchString(source) {
		return nil, taskcatalog.Errorf(taskcatalog.CodeSourceRefused, "the source %s is no registry with a repository and without a tag",
			taskcatalog.Clean(source, 200))
	}
	return a, nil
}

// do sends a request. The registry's refusal is one of the source.
func (a *ociRequests) do(req *http.Request) (*http.Response, error) {
	res, err := a.repo.Do(req)
	if no, ok := errors.AsType[*registry.RefusedError](err); ok {
		return nil, taskcatalog.Errorf(taskcatalog.CodeSourceRefused, "cannot pull the artifact: %v", no)
	}
	return res, err
}

// token reads the credential; a credential that cannot be used is empty, and the registry refuses it.
func (a *ociRequests) token() string {
	var c taskcatalog.OCIPullCredential
	_ = a.secret.Use(func(value []byte) error { return json.Unmarshal(value, &c) })
	return c.Token
}

// next returns the next request for the part.
func (a *ociRequests) next(ctx context.Context, fresh bool) (*http.Request, error) {
	if fresh && a.secret != nil {
		if err := a.secret.Renew(ctx); err != nil {
			if r, ok := uplink.RefusalOf(err); ok && r.Permanent() {
				return nil, download.Lasting(err)
			}
			return nil, download.Waiting(err)
		}
	}
	req, err := a.repo.Request(ctx, http.MethodGet, a.kind, a.digest)
	if err != nil {
		return nil, download.Lasting(taskcatalog.Errorf(taskcatalog.CodeSourceRefused, "the address of the source cannot be used"))
	}
	if a.kind == "manifests" {
		req.Header.Set("Accept", manifestTypes)
	}
	return req, nil
}
