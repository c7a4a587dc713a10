package adminapi_test

import (
	"crypto"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/server/servertest"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/release"
)

// blobBundle is the bundle of a file as cosign sign-blob --key makes it.
func blobBundle(t *testing.T, content string, key crypto.Signer) (digest, bundle string) {
	t.Helper()
	sum := sha256.Sum256([]byte(content))
	sig, err := key.Sign(rand.Reader, sum[:], crypto.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	text := base64.StdEncoding.EncodeToString
	return "sha256:" + hex.EncodeToString(sum[:]), fmt.Sprintf(`{"mediaType":%q,"verificationMaterial":{"publicKey":{"hint":"k"}},`+
		`"messageSignature":{"messageDigest":{"algorithm":"SHA2_256","digest":%q},"signature":%q}}`, release.MediaBundle, text(sum[:]), text(sig))
}

// Whoever stages a file gives its signature, once somebody signs for its source. The plan says what was verified.
func TestAFileIsStagedWithItsSignature(t *testing.T) {
	b := servertest.Start(t)
	node := stocked(t, b, "h100.8gpu", 1, servertest.H100s(8))[0]
	key, public := releaseKey(t)
	thief, _ := releaseKey(t)
	digest, bundle := blobBundle(t, "weights", key)
	_, stolen := blobBundle(t, "weights", thief)
	_, other := blobBundle(t, "other weights", key)
	plan := func(signature string) servertest.Answer {
		inputs := map[string]string{"bucket": "models", "source": "models/w.bin", "digest": digest, "name": "w.bin"}
		if signature != "" {
			inputs["signature"] = signature
		}
		raw, err := json.Marshal(inputs)
		if err != nil {
			t.Fatal(err)
		}
		return b.Ask(t, b.Token, http.MethodPost, "/operations/plan", api.PlatformOperationCreate{
			Operation: "model.artifact.stage@v1", Node: node.NodeID, Inputs: raw, Reason: "stage",
		})
	}
	brings := func(a servertest.Answer) api.PlannedArtifact {
		t.Helper()
		var got api.OperationPlan
		if err := json.Unmarshal(a.Body, &got); err != nil || len(got.Artifacts) != 1 {
			t.Fatalf("%d %s", a.Status, a.Body)
		}
		return got.Artifacts[0]
	}
	if got := brings(plan("")); got.Source != "s3:models/w.bin" || got.SignatureRequired || got.Because != "no level of the policy" || len(got.Signatures) != 0 {
		t.Errorf("nobody requires a signature: %+v", got)
	}
	signer := servertest.Must[api.ArtifactSigner](t, b, http.MethodPut, "/artifact-signers/team", api.ArtifactSignerPut{Source: "s3:models", Key: public, Reason: "ours"})
	for name, c := range map[string]struct{ signature, code string }{
		"unsigned":        {"", "signature_missing"},
		"by a thief":      {stolen, "signature_untrusted"},
		"of another file": {other, "signature_untrusted"},
		"no bundle":       {"who signs?", "signature_malformed"},
		"too large":       {bundle + strings.Repeat(" ", taskcatalog.MaxStepSignature), "operation_inputs"},
	} {
		if a := plan(c.signature); a.Code() != c.code {
			t.Errorf("%s: %d %s, want %s", name, a.Status, a.Body, c.code)
		}
	}
	var got struct{ Plan taskcatalog.OperationPlan }
	a := plan(bundle)
	if err := json.Unmarshal(a.Body, &got); err != nil || len(got.Plan.Signatures) != 1 {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	if s := got.Plan.Signatures[0]; s.Signer != "team" || s.Trust != signer.Trust || s.Digest != digest || s.Source != "s3:models/w.bin" || s.Form != taskcatalog.SignatureGiven {
		t.Errorf("%+v", s)
	}
	shown := brings(a)
	if !shown.SignatureRequired || shown.Because != "an artifact signer of s3:models" || len(shown.Signatures) != 1 {
		t.Fatalf("%+v", shown)
	}
	if s := shown.Signatures[0]; s.Signer != "team" || s.SignerSource != "s3:models" || s.KeyDigest != derDigest(t, public) || s.Subject != "" {
		t.Errorf("%+v", s)
	}
}

// derDigest is the digest that openssl pkey -pubin -outform DER | sha256sum has of a key.
func derDigest(t *testing.T, public string) string {
	t.Helper()
	block, _ := pem.Decode([]byte(public))
	if block == nil {
		t.Fatalf("no PEM: %q", public)
	}
	sum := sha256.Sum256(block.Bytes)
	return "sha256:" + hex.EncodeToString(sum[:])
}
