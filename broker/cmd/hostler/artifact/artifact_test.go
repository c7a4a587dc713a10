package artifact_test

import (
	"bytes"
	"context"
	"crypto"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/secure-systems-lab/go-securesystemslib/encrypted"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/registry/remote"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/cmd/hostler/artifact"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog/release"
	"github.com/hostler/hostler/taskcatalog/release/releasetest"
	"github.com/hostler/hostler/test/registry"
)

func refused(t *testing.T, err error, code string) {
	t.Helper()
	var e *broker.Error
	if !errors.As(err, &e) || e.Code != code {
		t.Errorf("%v, want %s", err, code)
	}
}

func packed(t *testing.T, program, version string) (*artifact.Layout, *release.Artifact) {
	t.Helper()
	a, err := release.Pack([]byte(program), releasetest.Statement(version))
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "out", "agent.oci")
	if err := artifact.Write(t.Context(), dir, a, version); err != nil {
		t.Fatal(err)
	}
	return opened(t, dir), a
}

func opened(t *testing.T, dir string) *artifact.Layout {
	t.Helper()
	l, err := artifact.Read(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		found[path[len(dir):]] = string(raw)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestADirectoryWrittenTwiceIsTheSame(t *testing.T) {
	one, a := packed(t, "an agent", "1.0.0")
	two, _ := packed(t, "an agent", "1.0.0")
	first, second := files(t, one.Dir), files(t, two.Dir)
	if len(first) < 4 || len(first) != len(second) {
		t.Fatalf("%d and %d files", len(first), len(second))
	}
	for name, content := range first {
		if second[name] != content {
			t.Errorf("%s differs: %q and %q", name, content, second[name])
		}
	}
	if one.Digest() != a.Digest || one.Version != "1.0.0" || !bytes.Equal(one.Manifest, a.Manifest) {
		t.Errorf("it is read as %+v", one)
	}
}

func TestOnlyAReleaseIsReplaced(t *testing.T) {
	l, _ := packed(t, "an agent", "1.0.0")
	next, err := release.Pack([]byte("the next"), releasetest.Statement("1.1.0"))
	if err != nil {
		t.Fatal(err)
	}
	if err := artifact.Write(t.Context(), l.Dir, next, "1.1.0"); err != nil {
		t.Fatal(err)
	}
	if again := opened(t, l.Dir); again.Digest() != next.Digest || again.Version != "1.1.0" {
		t.Errorf("it is %+v", again)
	}
	if beside, err := os.ReadDir(filepath.Dir(l.Dir)); err != nil || len(beside) != 1 {
		t.Errorf("beside it: %v (%v)", beside, err)
	}
	home := t.TempDir()
	if err := os.WriteFile(filepath.Join(home, "thesis.txt"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	refused(t, artifact.Write(t.Context(), home, next, "1.1.0"), "artifact_in_the_way")
	if got := files(t, home); len(got) != 1 {
		t.Errorf("the directory has %v", got)
	}
}

func TestADirectoryThatWasChangedIsNotRead(t *testing.T) {
	l, a := packed(t, "an agent", "1.0.0")
	if err := os.WriteFile(filepath.Join(l.Dir, "blobs", "sha256", a.Digest[len("sha256:"):]), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := artifact.Read(t.Context(), l.Dir)
	refused(t, err, "artifact_unreadable")
	_, err = artifact.Read(t.Context(), t.TempDir())
	refused(t, err, "artifact_unreadable")
}

// The whole way over a registry: a release is pushed, signed there by another tool, and pushed
// again. Existing signatures stay, and another release cannot take the name.
func TestAReleaseGoesToARegistry(t *testing.T) {
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	hub := registry.Start(t, registry.Config{})
	to := repository(t, hub.Addr+"/hostler/agent")
	l, a := packed(t, "an agent", "1.0.0")
	mine, theirs := releasetest.Sign(t, a.Digest, key(t)), releasetest.Sign(t, a.Digest, key(t))

	if got, err := to.Push(t.Context(), l); err != nil || len(got) != 0 {
		t.Fatalf("unsigned: %v (%v)", got, err)
	}
	if err := l.AddSignature(t.Context(), mine); err != nil {
		t.Fatal(err)
	}
	if got, err := to.Push(t.Context(), l); err != nil || !same(got, mine) {
		t.Fatalf("signed here: %v (%v)", got, err)
	}
	elsewhere, _ := packed(t, "an agent", "1.0.0") // the same, on another machine
	if err := elsewhere.AddSignature(t.Context(), theirs); err != nil {
		t.Fatal(err)
	}
	if got, err := to.Push(t.Context(), elsewhere); err != nil || !same(got, mine, theirs) {
		t.Fatalf("signed there, too: %v (%v)", got, err)
	}
	if got, err := to.Push(t.Context(), l); err != nil || !same(got, mine, theirs) {
		t.Errorf("and once more: %v (%v)", got, err)
	}
	if err := l.AddSignature(t.Context(), theirs); err != nil { // what lies there already
		t.Fatal(err)
	}
	if got, err := l.Signatures(t.Context()); err != nil || !same(got, mine, theirs) {
		t.Errorf("in the directory: %v (%v)", got, err)
	}
	other, _ := packed(t, "another agent", "1.0.0")
	_, err := to.Push(t.Context(), other)
	refused(t, err, "release_version_taken")

	hub.Stop()
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // it would be tried again for a while
	if _, err := to.Push(ctx, l); err == nil {
		t.Error("it was pushed to a registry that is gone")
	}
	if err := hub.Resume(); err != nil {
		t.Fatal(err)
	}
	if got, err := to.Push(t.Context(), l); err != nil || !same(got, mine, theirs) {
		t.Errorf("after it came back: %v (%v)", got, err)
	}
}

// Signatures of cosign 3 refer to the release. They are found beside the signatures at the tag, as
// far as there is room. Other artifacts that refer to the release are ignored.
func TestASignatureThatRefersToTheReleaseIsFound(t *testing.T) {
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	hub := registry.Start(t, registry.Config{})
	name := hub.Addr + "/hostler/agent"
	to := repository(t, name)
	l, a := packed(t, "an agent", "1.0.0")
	mine, k := releasetest.Sign(t, a.Digest, key(t)), key(t)
	if err := l.AddSignature(t.Context(), mine); err != nil {
		t.Fatal(err)
	}
	if _, err := to.Push(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	refer(t, name, a, []byte(`{"dsseEnvelope":{"payload":"e30=","payloadType":"application/vnd.in-toto+json","signatures":[{"sig":"e30="}]}}`))
	refer(t, name, a, []byte("no JSON"))
	theirs := releasetest.Bundle(t, a.Digest, k)
	refer(t, name, a, theirs)
	got, err := to.Push(t.Context(), l)
	if err != nil || len(got) != 2 || !same(got[:1], mine) {
		t.Fatalf("%v (%v)", got, err)
	}
	if _, _, err := release.Verify(a.Manifest, a.Statement, got[1:], release.Keys{"k": k.Public()}, a.Digest); err != nil {
		t.Error(err)
	}
	if read, err := artifact.Pull(t.Context(), name+"@"+a.Digest, true); err != nil || len(read.Signatures) != 2 || !same(read.Signatures[:1], mine) {
		t.Errorf("what is read from there has %+v (%v)", read, err)
	}
	for range release.MaxSignatures {
		refer(t, name, a, releasetest.Bundle(t, a.Digest, k)) // ECDSA: another one each time
	}
	if got, err := to.Push(t.Context(), l); err != nil || len(got) != release.MaxSignatures || !same(got[:1], mine) {
		t.Errorf("%d signatures (%v)", len(got), err)
	}
	elsewhere, _ := packed(t, "an agent", "1.0.0")
	fresh := hub.Addr + "/hostler/large"
	if _, err := repository(t, fresh).Push(t.Context(), elsewhere); err != nil {
		t.Fatal(err)
	}
	refer(t, fresh, a, bytes.Repeat([]byte(" "), 65<<10))
	_, err = repository(t, fresh).Push(t.Context(), elsewhere)
	refused(t, err, "registry_failed")
	if err := elsewhere.AddSignature(t.Context(), mine); err != nil {
		t.Fatal(err)
	}
	if got, err := repository(t, fresh).Push(t.Context(), elsewhere); err != nil || !same(got, mine) {
		t.Errorf("with what is at the tag: %v (%v)", got, err)
	}
}

// refer makes a bundle refer to a release, as cosign does.
func refer(t *testing.T, name string, a *release.Artifact, bundle []byte) {
	t.Helper()
	repo, err := remote.NewRepository(name)
	if err != nil {
		t.Fatal(err)
	}
	repo.PlainHTTP, repo.SkipReferrersGC = true, true // Debian's registry lets nothing be deleted
	layer, err := oras.PushBytes(t.Context(), repo, release.MediaBundle, bundle)
	if err != nil {
		t.Fatal(err)
	}
	of := content.NewDescriptorFromBytes(release.MediaManifest, a.Manifest)
	if _, err := oras.PackManifest(t.Context(), repo, oras.PackManifestVersion1_1, release.MediaBundle, oras.PackManifestOptions{Subject: &of, Layers: []ocispec.Descriptor{layer}}); err != nil {
		t.Fatal(err)
	}
}

func TestARegistryAsksWhoPushes(t *testing.T) {
	logins := t.TempDir()
	t.Setenv("DOCKER_CONFIG", logins)
	hub := registry.Start(t, registry.Config{User: "ci", Password: "s3cret"})
	l, _ := packed(t, "an agent", "1.0.0")
	_, err := repository(t, hub.Addr+"/agent").Push(t.Context(), l)
	refused(t, err, "registry_failed")
	login := `{"auths":{"` + hub.Addr + `":{"auth":"` + base64.StdEncoding.EncodeToString([]byte("ci:s3cret")) + `"}}}`
	if err := os.WriteFile(filepath.Join(logins, "config.json"), []byte(login), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := repository(t, hub.Addr+"/agent").Push(t.Context(), l); err != nil {
		t.Errorf("with a login: %v", err)
	}
}

func TestWhatIsNoRepositoryIsRefused(t *testing.T) {
	for _, name := range []string{"", "agent", "http://r.example/agent", "r.example/agent:latest", "r.example/agent@" + release.Digest(nil), "r.example/../x"} {
		_, err := artifact.OpenRegistry(name, false)
		refused(t, err, "registry_invalid")
	}
}

// A key is read in cosign's form, and the errors reveal nothing of the key.
func TestAReleaseKeyIsReadAsCosignKeepsIt(t *testing.T) {
	k := key(t)
	der, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := encrypted.Encrypt(der, []byte("word"))
	if err != nil {
		t.Fatal(err)
	}
	plain := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	word := func(w string) func() ([]byte, error) { return func() ([]byte, error) { return []byte(w), nil } }
	for name, c := range map[string]struct {
		raw  []byte
		word string
		code string
	}{
		"cosign's":         {pem.EncodeToMemory(&pem.Block{Type: "ENCRYPTED SIGSTORE PRIVATE KEY", Bytes: sealed}), "word", ""},
		"cosign's of old":  {pem.EncodeToMemory(&pem.Block{Type: "ENCRYPTED COSIGN PRIVATE KEY", Bytes: sealed}), "word", ""},
		"PKCS#8":           {plain, "", ""},
		"another password": {pem.EncodeToMemory(&pem.Block{Type: "ENCRYPTED SIGSTORE PRIVATE KEY", Bytes: sealed}), "guess", "key_password_wrong"},
		"a public key":     {pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), "", "key_unreadable"},
		"no PEM":           {der, "", "key_unreadable"},
		"cut short":        {plain[:len(plain)/2], "", "key_unreadable"},
	} {
		got, err := artifact.ParseKey(c.raw, word(c.word))
		if c.code != "" {
			refused(t, err, c.code)
		} else if err != nil || got == nil {
			t.Errorf("%s: %v", name, err)
		} else if a, b := id(t, got), id(t, k); a != b {
			t.Errorf("%s: it is key %s, not %s", name, a, b)
		}
	}
}

func repository(t *testing.T, name string) *artifact.Registry {
	t.Helper()
	r, err := artifact.OpenRegistry(name, true)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func same(got []release.Signature, want ...release.Signature) bool {
	return slices.EqualFunc(got, want, func(a, b release.Signature) bool {
		return bytes.Equal(a.Payload, b.Payload) && bytes.Equal(a.Signature, b.Signature)
	})
}

func key(t *testing.T) crypto.Signer {
	t.Helper()
	k, err := pki.GenerateKey(pki.P256)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func id(t *testing.T, k crypto.Signer) string {
	t.Helper()
	name, err := pki.KeyID(k.Public())
	if err != nil {
		t.Fatal(err)
	}
	return name
}
