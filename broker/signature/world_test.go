package signature

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"strings"
	"testing"
	"time"

	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	protocommon "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	protodsse "github.com/sigstore/protobuf-specs/gen/pb-go/dsse"
	protorekor "github.com/sigstore/protobuf-specs/gen/pb-go/rekor/v1"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/testing/ca"
	"github.com/sigstore/sigstore-go/pkg/tlog"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/release"
)

const (
	issuer  = "https://login.example"
	subject = "https://git.example/team/models/.ci/release.yaml@refs/heads/main"
)

var digest = "sha256:" + strings.Repeat("ab", 32)

// world is a certificate authority, a transparency log and a timestamp authority.
type world struct {
	*testing.T
	*ca.VirtualSigstore
	authorities []root.CertificateAuthority
	signer      broker.ArtifactSigner
}

func newWorld(t *testing.T) *world {
	t.Helper()
	v, err := ca.NewVirtualSigstore()
	if err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, VirtualSigstore: v, authorities: v.FulcioCertificateAuthorities()}
	w.signer = broker.ArtifactSigner{
		Name: "team", Source: "oci:registry.example/models", Issuer: issuer, Subject: subject, TrustedRoot: w.root(true, false),
	}
	if err := CheckSigner(w.signer); err != nil {
		t.Fatal(err)
	}
	return w
}

// root is the trusted root of the world.
func (w *world) root(stamps, ctlogs bool) string {
	w.Helper()
	var tsas []root.TimestampingAuthority
	if stamps {
		tsas = w.TimestampingAuthorities()
	}
	logs := map[string]*root.TransparencyLog{}
	if ctlogs {
		logs = w.CTLogs()
	}
	rekor := w.RekorLogs()
	for _, all := range []map[string]*root.TransparencyLog{logs, rekor} {
		for id, l := range all {
			l.ID = must(hex.DecodeString(id))(w.T) // the library's tests have the text there
		}
	}
	r, err := root.NewTrustedRoot(root.TrustedRootMediaType01, w.authorities, logs, tsas, rekor)
	if err != nil {
		w.Fatal(err)
	}
	raw, err := r.MarshalJSON()
	if err != nil {
		w.Fatal(err)
	}
	return string(raw)
}

func statement(of, predicate string) []byte {
	return fmt.Appendf(nil, `{"_type":"https://in-toto.io/Statement/v1","subject":[{"digest":{"sha256":%q}}],"predicateType":%q,"predicate":{}}`,
		strings.TrimPrefix(of, "sha256:"), predicate)
}

// attest makes a bundle as cosign 3 does.
func (w *world) attest(by, from, of, predicate string, at time.Time) *protobundle.Bundle {
	w.Helper()
	e, err := w.AttestAtTime(by, from, statement(of, predicate), at, true)
	if err != nil {
		w.Fatal(err)
	}
	b := &protobundle.Bundle{MediaType: release.MediaBundle, VerificationMaterial: w.material(e)}
	content, err := e.SignatureContent()
	if err != nil {
		w.Fatal(err)
	}
	envelope := content.EnvelopeContent().RawEnvelope()
	payload, err := envelope.DecodeB64Payload()
	if err != nil {
		w.Fatal(err)
	}
	b.Content = &protobundle.Bundle_DsseEnvelope{DsseEnvelope: &protodsse.Envelope{
		Payload: payload, PayloadType: envelope.PayloadType, Signatures: []*protodsse.Signature{{Sig: content.Signature()}},
	}}
	return b
}

func (w *world) material(e *ca.TestEntity) *protobundle.VerificationMaterial {
	w.Helper()
	v, err := e.VerificationContent()
	if err != nil {
		w.Fatal(err)
	}
	m := &protobundle.VerificationMaterial{
		Content:                   &protobundle.VerificationMaterial_Certificate{Certificate: &protocommon.X509Certificate{RawBytes: v.Certificate().Raw}},
		TimestampVerificationData: &protobundle.TimestampVerificationData{},
	}
	entries, err := e.TlogEntries()
	if err != nil {
		w.Fatal(err)
	}
	for _, entry := range entries {
		e := entry.TransparencyLogEntry()
		set, err := w.RekorSignPayload(tlog.RekorPayload{
			Body: base64.StdEncoding.EncodeToString(e.CanonicalizedBody), IntegratedTime: e.IntegratedTime, LogIndex: e.LogIndex, LogID: hex.EncodeToString(e.LogId.KeyId),
		})
		if err != nil {
			w.Fatal(err)
		}
		e.InclusionPromise = &protorekor.InclusionPromise{SignedEntryTimestamp: set}
		e.KindVersion = &protorekor.KindVersion{Kind: "dsse", Version: "0.0.1"}
		m.TlogEntries = append(m.TlogEntries, e)
	}
	stamps, err := e.Timestamps()
	if err != nil {
		w.Fatal(err)
	}
	for _, s := range stamps {
		m.TimestampVerificationData.Rfc3161Timestamps = append(m.TimestampVerificationData.Rfc3161Timestamps, &protocommon.RFC3161SignedTimestamp{SignedTimestamp: s})
	}
	return m
}

func (w *world) signed() *protobundle.Bundle {
	w.Helper()
	return w.attest(subject, issuer, digest, release.SignPredicate, soon())
}

// soon is within the life of the world's certificates, which begins now.
func soon() time.Time { return time.Now().Add(time.Minute) }

func referrer(t *testing.T, b *protobundle.Bundle) Found {
	t.Helper()
	raw, err := protojson.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	return Found{Form: taskcatalog.SignatureReferrer, Bundle: raw}
}

// tagged makes a signature as cosign 2 does.
func (w *world) tagged(of string) Found {
	w.Helper()
	payload, err := release.Payload(of, "registry.example/models/llama")
	if err != nil {
		w.Fatal(err)
	}
	e, err := w.SignAtTime(subject, issuer, payload, soon())
	if err != nil {
		w.Fatal(err)
	}
	m := w.material(e)
	content, err := e.SignatureContent()
	if err != nil {
		w.Fatal(err)
	}
	var l logged
	entry := m.TlogEntries[0]
	l.SignedEntryTimestamp = entry.InclusionPromise.SignedEntryTimestamp
	l.Payload.Body, l.Payload.IntegratedTime, l.Payload.LogIndex = entry.CanonicalizedBody, entry.IntegratedTime, entry.LogIndex
	l.Payload.LogID = hex.EncodeToString(entry.LogId.KeyId)
	return Found{Form: taskcatalog.SignatureAtTag, Payload: payload, Annotations: map[string]string{
		release.AnnotationSignature: base64.StdEncoding.EncodeToString(content.Signature()),
		annotationCertificate:       string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: m.GetCertificate().RawBytes})),
		annotationLog:               text(w.T, l),
		annotationTimestamp:         text(w.T, struct{ SignedRFC3161Timestamp []byte }{m.TimestampVerificationData.Rfc3161Timestamps[0].SignedTimestamp}),
	}}
}

func text(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// judged judges one signature by one signer.
func judged(s broker.ArtifactSigner, found ...Found) (taskcatalog.ArtifactSignature, error) {
	t, err := trust(s)
	if err != nil {
		return taskcatalog.ArtifactSignature{}, err
	}
	return judge([]trusted{t}, digest, found)
}

func refused(t *testing.T, what string, err error, code, why string) {
	t.Helper()
	if e := broker.AsError(err); err == nil || e.Code != code || !strings.Contains(e.Message, why) {
		t.Errorf("%s: %v (%s), want %s: %s", what, err, e.Code, code, why)
	}
}

func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}
