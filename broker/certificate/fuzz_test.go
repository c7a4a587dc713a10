package certificate_test

import (
	"bytes"
	"crypto/ed25519"
	"testing"

	"github.com/hostler/hostler/broker/certificate"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
)

var issued = []string{"clean.json", "short.json", "receipt.json", "short-receipt.json", "attestation.json"}

// Of any input, only issued files are believed, to the byte.
func FuzzVerify(f *testing.F) {
	w := newWorld(f)
	known := map[string]bool{}
	for _, name := range issued {
		file := readFile(f, name)
		known[string(file)] = true
		f.Add(file)
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		r, err := certificate.Verify(file, w.trust, w.now)
		switch {
		case err == nil && !known[string(file)]:
			t.Errorf("believed, and nobody has signed it: %s", r.Sentence())
		case err != nil && taskcatalog.CodeOf(err, "") == "":
			t.Errorf("refused without a code: %v", err)
		}
	})
}

// Of any signed payload, a believed statement is canonical, has the verdict that follows from its
// content, and makes a page.
func FuzzPayload(f *testing.F) {
	w := newWorld(f)
	for _, name := range issued {
		f.Add([]byte(payloadOf(f, readFile(f, name))))
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		file, err := pki.SignStatement(payload, w.statement)
		if err != nil {
			return // larger than any certificate
		}
		r, err := certificate.Verify(file, w.trust, w.now)
		if err != nil {
			if taskcatalog.CodeOf(err, "") == "" {
				t.Errorf("refused without a code: %v", err)
			}
			return
		}
		if _, err := certificate.Page(r); err != nil {
			t.Error(err)
		}
		if r.Clean == nil {
			return
		}
		if v := certificate.Judge(r.Clean); v.MeetsPolicy != r.Clean.Verdict.MeetsPolicy {
			t.Errorf("it says that it meets the policy: %v", r.Clean.Verdict.MeetsPolicy)
		}
		if again := must(certificate.Issue(r.Clean, w.statement))(t); !bytes.Equal(again, file) {
			t.Errorf("issued again it is another:\n%s\n%s", file, again)
		}
	})
}

// Of any trust file: the certificate is believed only if the file has the certificate's key as a
// statement key.
func FuzzTrustFile(f *testing.F) {
	w := newWorld(f)
	file := readFile(f, "clean.json")
	f.Add(w.trustFile())
	f.Fuzz(func(t *testing.T, raw []byte) {
		b, err := certificate.ReadTrust(raw)
		if err != nil {
			return
		}
		if _, err := certificate.Verify(file, b, w.now); err == nil {
			if pub, ok := b.Key(pki.UseStatement, w.statement.ID, w.now); !ok || !key("statement").Public().(ed25519.PublicKey).Equal(pub) {
				t.Error("believed by a trust file that does not have its key")
			}
		}
	})
}
