package signature

import (
	"testing"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/release"
)

// Whatever a registry has there: it is refused, and nothing panics.
func FuzzFound(f *testing.F) {
	t := &testing.T{}
	w := newWorld(t)
	signer := must(trust(w.signer))(t)
	at := w.tagged(digest)
	f.Add(referrer(t, w.attest("https://git.example/evil", issuer, digest, release.SignPredicate, soon())).Bundle, "", "", "", "")
	f.Add(at.Payload, at.Annotations[release.AnnotationSignature], at.Annotations[annotationCertificate], at.Annotations[annotationLog], at.Annotations[annotationTimestamp])
	f.Add([]byte(`{"mediaType":"`+release.MediaBundle+`","verificationMaterial":{"publicKey":{}},"dsseEnvelope":{}}`), "", "", `{"Payload":{"body":"e30="}}`, "{}")
	f.Fuzz(func(t *testing.T, raw []byte, sig, certificate, log, stamp string) {
		for _, found := range []Found{
			{Form: taskcatalog.SignatureReferrer, Bundle: raw},
			{Form: taskcatalog.SignatureAtTag, Payload: raw, Annotations: map[string]string{
				release.AnnotationSignature: sig, annotationCertificate: certificate, annotationLog: log, annotationTimestamp: stamp,
			}},
		} {
			got, err := judge([]trusted{signer}, digest, []Found{found})
			if err == nil && (found.Form != taskcatalog.SignatureAtTag || string(raw) != string(at.Payload)) || err != nil && broker.AsError(err).Code != CodeUntrusted {
				t.Errorf("%+v %v", got, err)
			}
		}
	})
}
