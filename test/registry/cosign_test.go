package registry

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/registry/remote"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/cmd/hostler/artifact"
	"github.com/hostler/hostler/broker/server/servertest"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/release"
	"github.com/hostler/hostler/taskcatalog/release/releasetest"
)

// cosign is Sigstore's own program and a registry for both sides. make test-cosign builds the
// program named by HOSTLER_COSIGN.
type cosign struct {
	t       *testing.T
	program string
	dir     string // of its keys
	hub     *Registry
}

const password = "planted-key-password"

func newCosign(t *testing.T) *cosign {
	t.Helper()
	program := os.Getenv("HOSTLER_COSIGN")
	if program == "" {
		t.Skip("this needs cosign itself: make test-cosign")
	}
	dir := t.TempDir()
	t.Setenv("DOCKER_CONFIG", dir)
	return &cosign{t, program, dir, Start(t, Config{})}
}

// run asks nobody but the registry: the way to every other host is closed.
func (c *cosign) run(args ...string) error {
	cmd := exec.CommandContext(c.t.Context(), c.program, args...)
	cmd.Dir = c.dir
	cmd.Env = append(os.Environ(), "HOME="+c.dir, "COSIGN_PASSWORD="+password, "HTTPS_PROXY=http://127.0.0.1:9")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("cosign %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}

func (c *cosign) must(args ...string) {
	c.t.Helper()
	if err := c.run(args...); err != nil {
		c.t.Fatal(err)
	}
}

// p256 makes a key as people do.
func (c *cosign) p256(name string) {
	c.t.Helper()
	c.must("generate-key-pair", "--output-key-prefix", name)
}

// ed25519 makes a key and has cosign import it.
func (c *cosign) ed25519(name string) {
	c.t.Helper()
	_, k, err := ed25519.GenerateKey(nil)
	if err != nil {
		c.t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		c.t.Fatal(err)
	}
	file := filepath.Join(c.dir, "made.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600); err != nil {
		c.t.Fatal(err)
	}
	c.must("import-key-pair", "--key", file, "--output-key-prefix", name)
}

func (c *cosign) read(name string) []byte {
	c.t.Helper()
	raw, err := os.ReadFile(filepath.Join(c.dir, name))
	if err != nil {
		c.t.Fatal(err)
	}
	return raw
}

func (c *cosign) public(key string) crypto.PublicKey {
	c.t.Helper()
	k, err := pki.ParsePublicKey(c.read(key + ".pub"))
	if err != nil {
		c.t.Fatal(err)
	}
	return k
}

// How cosign signs where no transparency log is used: by itself, and as it did before
// version 3.
var (
	bundled = []string{"--use-signing-config=false", "--tlog-upload=false"}
	tagged  = append(bundled[:2:2], "--new-bundle-format=false")
)

func (c *cosign) sign(how []string, key, reference string) {
	c.t.Helper()
	c.must(append(append([]string{"sign", "--key", key + ".key"}, how...), reference)...)
}

func (c *cosign) verify(key, reference string) error {
	return c.run("verify", "--key", key+".pub", "--insecure-ignore-tlog", reference)
}

// packed is a release in a directory, as hostler agent-release pack leaves it.
func (c *cosign) packed(version string) (releasetest.Signed, *artifact.Layout) {
	c.t.Helper()
	a, err := release.Pack(bytes.Repeat([]byte("agent "), 50_000), releasetest.Statement(version))
	if err != nil {
		c.t.Fatal(err)
	}
	dir := filepath.Join(c.t.TempDir(), "agent.oci")
	if err := artifact.Write(c.t.Context(), dir, a, version); err != nil {
		c.t.Fatal(err)
	}
	l, err := artifact.Read(c.t.Context(), dir)
	if err != nil {
		c.t.Fatal(err)
	}
	return releasetest.Signed{Artifact: a}, l
}

// push is hostler agent-release publish --registry, up to the call of a broker.
func (c *cosign) push(repository string, l *artifact.Layout) []release.Signature {
	c.t.Helper()
	to, err := artifact.OpenRegistry(c.hub.Addr+"/"+repository, true)
	if err != nil {
		c.t.Fatal(err)
	}
	found, err := to.Push(c.t.Context(), l)
	if err != nil {
		c.t.Fatal(err)
	}
	return found
}

// signed has cosign sign a release in the registry.
func (c *cosign) signed(how []string, key, version string) (string, releasetest.Signed) {
	c.t.Helper()
	r, l := c.packed(version)
	repository := "from-cosign/" + key + "-" + fmt.Sprint(len(how))
	if found := c.push(repository, l); len(found) > 0 {
		c.t.Fatalf("it has %d signatures", len(found))
	}
	c.sign(how, key, c.hub.Addr+"/"+repository+"@"+r.Digest)
	if r.Signatures = c.push(repository, l); len(r.Signatures) != 1 {
		c.t.Fatalf("%d signatures are found, by %v", len(r.Signatures), how)
	}
	return c.hub.Addr + "/" + repository, r
}

// The broker accepts a release that cosign signed in the registry, and so does the node, which
// fetches the release from there. Both refuse a signature by another key.
func TestWhatCosignSignedIsBelieved(t *testing.T) {
	c := newCosign(t)
	c.p256("ours")
	c.p256("theirs")
	c.ed25519("short")
	s := newSite(t, c.public("ours"), c.public("short"))
	for i, row := range []struct {
		key string
		how []string
	}{{"ours", bundled}, {"ours", tagged}, {"short", bundled}, {"short", tagged}} {
		version := fmt.Sprintf("1.%d.0", i)
		reference, r := c.signed(row.how, row.key, version)
		if code := s.keep(reference, r); code != "" {
			t.Fatalf("%s, %v: %s", row.key, row.how, code)
		}
		d, task, source := s.update(version)
		if source.Repository != reference {
			t.Errorf("the node is sent to %+v", source)
		}
		s.stage(d, task)
		s.end(d, task)
	}
	for _, how := range [][]string{bundled, tagged} {
		reference, r := c.signed(how, "theirs", "2.0.0")
		if code := s.keep(reference, r); code != "release_signature_invalid" {
			t.Errorf("by another key, %v: %q", how, code)
		}
		if err := c.verify("theirs", reference+"@"+r.Digest); err != nil {
			t.Error(err)
		}
		if err := c.verify("ours", reference+"@"+r.Digest); err == nil {
			t.Errorf("cosign takes one key for another, %v", how)
		}
	}
	list := servertest.Must[api.AgentReleaseList](t, s.broker, http.MethodGet, "/agent-releases", nil)
	if len(list.Items) != 4 {
		t.Errorf("%d releases are kept", len(list.Items))
	}
	s.nowhere(password)
}

// cosign accepts a signature made here with a key in cosign's format.
func TestCosignBelievesWhatIsSignedHere(t *testing.T) {
	c := newCosign(t)
	c.p256("ours")
	c.p256("theirs")
	c.ed25519("short")
	for _, name := range []string{"ours", "short"} {
		key, err := artifact.ParseKey(c.read(name+".key"), func() ([]byte, error) { return []byte(password), nil })
		if err != nil {
			t.Fatal(err)
		}
		r, l := c.packed("1.0.0")
		s, err := release.Sign(r.Digest, "", key)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.AddSignature(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		c.push("from-here/"+name, l)
		reference := c.hub.Addr + "/from-here/" + name + "@" + r.Digest
		if err := c.verify(name, reference); err != nil {
			t.Error(err)
		}
		if err := c.verify("theirs", reference); err == nil {
			t.Errorf("cosign believes %s by another key", name)
		}
	}
}

// Each row is something that a user with push permission puts beside a release. Cosign and Hostler
// agree: both refuse every row but the first.
func TestWhatWasAlteredNeitherBelieves(t *testing.T) {
	c := newCosign(t)
	c.p256("ours")
	c.p256("theirs")
	keys := release.Keys{"ours": c.public("ours")}
	for _, kind := range []struct {
		name string
		how  []string
		put  func(repository string, l *artifact.Layout, s release.Signature)
	}{{"Bundle", bundled, c.putBundle}, {"Tag", tagged, c.putTag}} {
		_, other := c.signed(kind.how, "ours", "1.1.0")
		_, foreign := c.signed(kind.how, "theirs", "1.0.0")
		_, good := c.signed(kind.how, "ours", "1.0.0")
		was := good.Signatures[0]
		renamed := bytes.ReplaceAll(other.Signatures[0].Payload, []byte(hexOf(other.Digest)), []byte(hexOf(good.Digest)))
		if !bytes.Equal(renamed, was.Payload) {
			t.Fatalf("%q is not %q", renamed, was.Payload)
		}
		for name, row := range map[string]struct {
			s  release.Signature
			is taskcatalog.Code
		}{
			"as-it-was":           {was, ""},
			"altered-signature":   {release.Signature{Payload: was.Payload, Signature: altered(was.Signature)}, release.CodeSignatureInvalid},
			"altered-payload":     {release.Signature{Payload: renamed, Signature: other.Signatures[0].Signature}, release.CodeSignatureInvalid},
			"of-another-release":  {other.Signatures[0], release.CodeSignatureInvalid},
			"by-another-key":      {foreign.Signatures[0], release.CodeSignatureInvalid},
			"another-key-renamed": {release.Signature{Payload: was.Payload, Signature: foreign.Signatures[0].Signature}, release.CodeSignatureInvalid},
		} {
			t.Run(kind.name+"/"+name, func(t *testing.T) {
				_, l := c.packed("1.0.0")
				repository := strings.ToLower(kind.name) + "/" + name
				c.push(repository, l)
				kind.put(repository, l, row.s)
				found := c.push(repository, l)
				if len(found) != 1 {
					t.Fatalf("%d signatures are found", len(found))
				}
				_, _, err := release.Verify(good.Manifest, good.Statement, found, keys, good.Digest)
				if taskcatalog.CodeOf(err, "") != row.is || (err == nil) != (row.is == "") {
					t.Errorf("we say %v", err)
				}
				if err := c.verify("ours", c.hub.Addr+"/"+repository+"@"+good.Digest); (err == nil) != (row.is == "") {
					t.Errorf("cosign says %v", err)
				}
			})
		}
	}
}

func hexOf(d string) string { return strings.TrimPrefix(d, "sha256:") }

func altered(raw []byte) []byte {
	out := bytes.Clone(raw)
	out[len(out)-1] ^= 1
	return out
}

func (c *cosign) putTag(repository string, l *artifact.Layout, s release.Signature) {
	c.t.Helper()
	if err := l.AddSignature(c.t.Context(), s); err != nil {
		c.t.Fatal(err)
	}
	c.push(repository, l)
}

func (c *cosign) putBundle(repository string, l *artifact.Layout, s release.Signature) {
	c.t.Helper()
	const kind = "application/vnd.in-toto+json"
	_, statement, _ := bytes.Cut(s.Payload, []byte(kind+" "))
	_, statement, _ = bytes.Cut(statement, []byte(" "))
	raw, err := json.Marshal(map[string]any{
		"mediaType": release.MediaBundle, "verificationMaterial": map[string]any{"publicKey": map[string]any{"hint": ""}},
		"dsseEnvelope": map[string]any{"payload": statement, "payloadType": kind, "signatures": []any{map[string]any{"sig": s.Signature}}},
	})
	if err != nil {
		c.t.Fatal(err)
	}
	repo, err := remote.NewRepository(c.hub.Addr + "/" + repository)
	if err != nil {
		c.t.Fatal(err)
	}
	repo.PlainHTTP = true
	layer, err := oras.PushBytes(c.t.Context(), repo, release.MediaBundle, raw)
	if err != nil {
		c.t.Fatal(err)
	}
	of := described(release.MediaManifest, l.Manifest)
	if _, err := oras.PackManifest(c.t.Context(), repo, oras.PackManifestVersion1_1, release.MediaBundle, oras.PackManifestOptions{Subject: &of, Layers: []ocispec.Descriptor{layer}}); err != nil {
		c.t.Fatal(err)
	}
}
