package registry

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/signature"
	"github.com/hostler/hostler/taskcatalog"
)

const (
	weights  = "the weights of a model"
	identity = "release@example.com"
	provider = "https://login.example"
)

func digestOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// blob has cosign sign a file by a key, and returns the bundle.
func (c *cosign) blob(key, file string, how ...string) string {
	c.t.Helper()
	c.must(append(append([]string{"sign-blob", "--key", key + ".key", "--use-signing-config=false", "--tlog-upload=false", "--bundle", "blob.json"}, how...), file)...)
	return string(c.read("blob.json"))
}

// vouch has cosign sign a statement of a file by a key.
func (c *cosign) vouch(key, file, kind string) string {
	c.t.Helper()
	c.write("predicate.json", "{}")
	c.must("attest-blob", "--key", key+".key", "--use-signing-config=false", "--tlog-upload=false", "--type", kind, "--predicate", "predicate.json", "--bundle", "blob.json", file)
	return string(c.read("blob.json"))
}

func judged(given string, by broker.ArtifactSigner) (taskcatalog.ArtifactSignature, error) {
	j := &signature.Judge{Now: time.Now}
	all, err := j.File([][]broker.ArtifactSigner{{by}}, by.Source+"/weights", digestOf(weights), given)
	if err != nil {
		return taskcatalog.ArtifactSignature{}, err
	}
	return all[0], nil
}

// Each row is what cosign has made. The broker's judgement by the digest, and that of cosign by the file, agree.
func TestWhatCosignSignedOfAFileIsJudgedAlike(t *testing.T) {
	c := newCosign(t)
	c.p256("ours")
	c.p256("theirs")
	c.ed25519("short")
	c.write("weights", weights)
	c.write("other", "other weights")
	fulcio, stranger := newSigstore(t), newSigstore(t)
	byKey := func(name string) broker.ArtifactSigner {
		return broker.ArtifactSigner{Name: name, Source: "s3:models", Key: string(c.read(name + ".pub"))}
	}
	person := broker.ArtifactSigner{Name: "person", Source: "s3:models", Issuer: provider, Subject: identity, TrustedRoot: fulcio.trustedRoot()}
	const vouched = "https://sigstore.dev/cosign/sign/v1"
	blob := []string{"verify-blob", "--key", "ours.pub", "--insecure-ignore-tlog"}
	statement := []string{"verify-blob-attestation", "--key", "ours.pub", "--insecure-ignore-tlog", "--type", vouched}
	named := []string{"verify-blob", "--trusted-root", "root.json", "--certificate-identity", identity, "--certificate-oidc-issuer", provider, "--insecure-ignore-sct"}
	earlier := append(blob[:len(blob):len(blob)], "--new-bundle-format=false")
	for _, row := range []struct {
		name, given string
		by          broker.ArtifactSigner
		verify      []string // empty: cosign is not asked
		code        string   // empty: both believe it
	}{
		{"a bundle", c.blob("ours", "weights"), byKey("ours"), blob, ""},
		{"a statement", c.vouch("ours", "weights", vouched), byKey("ours"), statement, ""},
		{"of cosign 2", c.blob("ours", "weights", "--new-bundle-format=false"), byKey("ours"), earlier, ""},
		{"an identity", c.keyless(fulcio, identity, provider, "weights", false), person, named, ""},
		// cosign 3 verifies the bundle of cosign 2 with the public trusted root alone.
		{"an identity, of cosign 2", c.keyless(fulcio, identity, provider, "weights", false, "--new-bundle-format=false"), person, nil, ""},
		{"by another key", c.blob("theirs", "weights"), byKey("ours"), blob, signature.CodeUntrusted},
		{"of another file", c.blob("ours", "other"), byKey("ours"), blob, signature.CodeUntrusted},
		{"a statement of another file", c.vouch("ours", "other", vouched), byKey("ours"), statement, signature.CodeUntrusted},
		{"a statement of a scan", c.vouch("ours", "weights", "vuln"), byKey("ours"), statement, signature.CodeUntrusted},
		{"of cosign 2, of another file", c.blob("ours", "other", "--new-bundle-format=false"), byKey("ours"), earlier, signature.CodeUntrusted},
		{"another identity", c.keyless(fulcio, "evil@example.com", provider, "weights", false), person, named, signature.CodeUntrusted},
		{"another issuer", c.keyless(fulcio, identity, provider+".evil", "weights", false), person, named, signature.CodeUntrusted},
		{"an identity, of another file", c.keyless(fulcio, identity, provider, "other", false), person, named, signature.CodeUntrusted},
		{"no log", c.keyless(fulcio, identity, provider, "weights", true), person, named, signature.CodeUntrusted},
		{"no bundle", "{", byKey("ours"), blob, signature.CodeMalformed},
		{"another authority", c.keyless(stranger, identity, provider, "weights", false), person, nil, signature.CodeUntrusted},
		// cosign has the file, and the broker its digest alone.
		{"Ed25519", c.blob("short", "weights"), byKey("short"), nil, signature.CodeUntrusted},
		{"Ed25519, a statement", c.vouch("short", "weights", vouched), byKey("short"), nil, ""},
	} {
		got, err := judged(row.given, row.by)
		if (err == nil) != (row.code == "") || err != nil && broker.AsError(err).Code != row.code {
			t.Errorf("%s: the broker says %v", row.name, err)
		}
		if err == nil && (got.Signer != row.by.Name || row.by.Key == "" && (got.Subject != identity || got.Issuer != provider || got.SignedAt == nil)) {
			t.Errorf("%s: %+v", row.name, got)
		}
		if len(row.verify) == 0 {
			continue
		}
		c.write("given.json", row.given)
		c.write("root.json", fulcio.trustedRoot())
		if err := c.run(append(row.verify[:len(row.verify):len(row.verify)], "--bundle", "given.json", "weights")...); (err == nil) != (row.code == "") {
			t.Errorf("%s: cosign says %v", row.name, err)
		}
		t.Logf("%s: %v", row.name, err)
	}
	c.must("sign-blob", "--key", "ours.key", "--use-signing-config=false", "--tlog-upload=false", "--new-bundle-format=false", "--output-signature", "weights.sig", "weights")
	if _, err := judged(trimmed(c.read("weights.sig"))+"\n", byKey("ours")); err != nil {
		t.Errorf("a signature alone: %v", err)
	}
}

// repository reads the registry without TLS.
type repository struct{ at string }

func (r repository) Get(ctx context.Context, kind, reference string, most int64) ([]byte, bool, error) {
	ask, err := http.NewRequestWithContext(ctx, http.MethodGet, r.at+"/"+kind+"/"+reference, nil)
	if err != nil {
		return nil, false, err
	}
	ask.Header.Set("Accept", "application/vnd.oci.image.manifest.v1+json, application/vnd.oci.image.index.v1+json")
	answer, err := http.DefaultClient.Do(ask)
	if err != nil {
		return nil, false, err
	}
	defer func() { _ = answer.Body.Close() }()
	raw, err := io.ReadAll(io.LimitReader(answer.Body, most+1))
	return raw, answer.StatusCode == http.StatusOK && int64(len(raw)) <= most, err
}

// What cosign signs in Debian's registry, the broker's judge finds and believes there, in both forms.
func TestWhatCosignSignedInARegistryIsJudged(t *testing.T) {
	c := newCosign(t)
	c.p256("ours")
	c.p256("theirs")
	by := broker.ArtifactSigner{Name: "ours", Source: "oci:" + c.hub.Addr, Key: string(c.read("ours.pub"))}
	j := &signature.Judge{Now: time.Now, Open: func(_ context.Context, name string) (signature.Repository, error) {
		host, path, _ := strings.Cut(name, "/")
		return repository{"http://" + host + "/v2/" + path}, nil
	}}
	for i, row := range []struct {
		how  []string
		key  string
		form string // empty: refused
		code string
	}{
		{bundled, "ours", taskcatalog.SignatureReferrer, ""},
		{tagged, "ours", taskcatalog.SignatureAtTag, ""},
		{bundled, "theirs", "", signature.CodeUntrusted},
		{tagged, "theirs", "", signature.CodeUntrusted},
		{nil, "", "", signature.CodeMissing},
	} {
		r, l := c.packed(fmt.Sprintf("1.%d.0", i))
		name := fmt.Sprint("judged/", i)
		c.push(name, l)
		at := c.hub.Addr + "/" + name
		if row.key != "" {
			c.sign(row.how, row.key, at+"@"+r.Digest)
		}
		all, err := j.Artifact(t.Context(), [][]broker.ArtifactSigner{{by}}, at, r.Digest)
		if row.form != "" && (err != nil || len(all) != 1 || all[0].Form != row.form || all[0].Source != "oci:"+at) ||
			row.form == "" && broker.AsError(err).Code != row.code {
			t.Errorf("%v by %q: %+v %v", row.how, row.key, all, err)
		}
	}
}
