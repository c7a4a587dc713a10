package signature

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/release"
)

// hub is a repository in memory. Its parts have the names KIND/REFERENCE.
type hub struct {
	parts map[string][]byte
	fails error
	asked []string
}

func (h *hub) Get(_ context.Context, kind, reference string, most int64) ([]byte, bool, error) {
	h.asked = append(h.asked, kind)
	raw, ok := h.parts[kind+"/"+reference]
	if int64(len(raw)) > most {
		return nil, false, h.fails
	}
	return raw, ok, h.fails
}

func (h *hub) put(kind string, raw []byte) string {
	sum := sha256.Sum256(raw)
	name := "sha256:" + hex.EncodeToString(sum[:])
	h.parts[kind+"/"+name] = raw
	return name
}

// push puts signatures beside the artifact, as cosign does. At a tag lies the list of the bundles if api is false.
func (h *hub) push(t *testing.T, api bool, found ...Found) {
	t.Helper()
	type descriptor map[string]any
	var layers, list []descriptor
	for _, f := range found {
		if f.Form == taskcatalog.SignatureAtTag {
			layers = append(layers, descriptor{"mediaType": release.MediaPayload, "digest": h.put("blobs", f.Payload), "annotations": f.Annotations})
			continue
		}
		layer := descriptor{"mediaType": release.MediaBundle, "digest": h.put("blobs", f.Bundle)}
		m := h.put("manifests", []byte(text(t, descriptor{"layers": []descriptor{{"mediaType": "text/plain", "digest": "x"}, layer}})))
		list = append(list, descriptor{"digest": m, "artifactType": release.MediaBundle})
	}
	tag := strings.Replace(digest, ":", "-", 1)
	h.parts["manifests/"+tag+".sig"] = []byte(text(t, descriptor{"layers": append(layers, descriptor{"mediaType": release.MediaPayload})}))
	at := "manifests/" + tag
	if api {
		at = "referrers/" + digest
	}
	list = append(list, descriptor{"digest": "of a scan", "artifactType": "application/spdx+json"})
	h.parts[at] = []byte(text(t, descriptor{"manifests": list}))
}

func TestSignaturesAreFoundInTheRegistry(t *testing.T) {
	w := newWorld(t)
	now := time.Unix(1800000000, 0)
	h := &hub{parts: map[string][]byte{}}
	j := &Judge{Now: func() time.Time { return now }, Open: func(_ context.Context, name string) (Repository, error) {
		if name != "registry.example/models/llama" {
			t.Errorf("asked at %s", name)
		}
		return h, nil
	}}
	artifact := func(lists ...[]broker.ArtifactSigner) ([]taskcatalog.ArtifactSignature, error) {
		return j.Artifact(t.Context(), lists, "registry.example/models/llama", digest)
	}
	_, err := artifact()
	refused(t, "no signer", err, CodeNoSigner, "artifact-signer set")
	if len(h.asked) > 0 {
		t.Errorf("without a signer it asks %v", h.asked)
	}
	_, err = artifact([]broker.ArtifactSigner{w.signer})
	refused(t, "unsigned", err, CodeMissing, "cosign sign")
	bad := Found{Form: taskcatalog.SignatureReferrer, Bundle: make([]byte, maxBundle+1)}
	for name, push := range map[string]func(){
		"at a tag":          func() { h.push(t, true, w.tagged(digest)) },
		"as referrer":       func() { h.push(t, true, bad, referrer(t, w.signed())) },
		"as referrer, list": func() { h.push(t, false, referrer(t, w.signed())) },
	} {
		h.parts = map[string][]byte{}
		push()
		got, err := artifact([]broker.ArtifactSigner{w.signer})
		if err != nil || len(got) != 1 || got[0].Source != "oci:registry.example/models/llama" || !got[0].JudgedAt.Equal(now) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	other := w.signer
	other.Name, other.Source, other.Subject = "corp", "oci:registry.example", "corp@example.com"
	_, err = artifact([]broker.ArtifactSigner{other}, []broker.ArtifactSigner{w.signer})
	refused(t, "the wider place is not satisfied", err, CodeUntrusted, "of oci:registry.example, and")
	if got, err := artifact([]broker.ArtifactSigner{other, w.signer}); err != nil || len(got) != 1 || got[0].Signer != "team" {
		t.Errorf("one of two signers: %+v, %v", got, err)
	}
	h.push(t, true, referrer(t, w.signed()), referrer(t, w.attest(other.Subject, issuer, digest, release.SignPredicate, soon())))
	if got, err := artifact([]broker.ArtifactSigner{other}, []broker.ArtifactSigner{w.signer}); err != nil || len(got) != 2 || got[0].Signer != "corp" || got[1].Signer != "team" {
		t.Errorf("both places: %+v, %v", got, err)
	}
	h.fails = broker.Errorf(broker.Unavailable, "registry_unreachable", "it does not answer")
	_, err = artifact([]broker.ArtifactSigner{w.signer})
	refused(t, "no registry", err, "registry_unreachable", "")
}

func TestARegistryWithManySignaturesIsReadInPart(t *testing.T) {
	h := &hub{parts: map[string][]byte{}}
	var many []Found
	for i := range 5 * maxFound {
		many = append(many, Found{Form: taskcatalog.SignatureReferrer, Bundle: fmt.Appendf(nil, "%d", i)},
			Found{Form: taskcatalog.SignatureAtTag, Payload: fmt.Appendf(nil, "p%d", i), Annotations: map[string]string{release.AnnotationSignature: "eA=="}})
	}
	h.push(t, true, many...)
	found, err := find(t.Context(), h, digest)
	if err != nil || len(found) != 2*maxFound || len(h.asked) != 2+maxFound+2*maxFound {
		t.Errorf("%d found with %d requests, %v", len(found), len(h.asked), err)
	}
}
