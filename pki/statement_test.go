package pki_test

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"encoding/asn1"
	"encoding/base64"
	"math/big"
	"testing"

	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
)

// Each row writes a statement that still says the same in another way, and is refused.
func TestAStatementHasOneForm(t *testing.T) {
	signer := must[pki.Signer](t)(pki.NewSigner(keyOf(t, pki.Ed25519)))
	payload := []byte(`{"_type":"x"}`)
	raw := must[[]byte](t)(pki.SignStatement(payload, signer))
	if _, err := pki.ParseStatement(raw); err != nil {
		t.Fatal(err)
	}
	other := must[pki.Signer](t)(pki.NewSigner(keyOf(t, pki.Ed25519)))
	for name, row := range map[string]struct {
		raw  []byte
		code taskcatalog.Code
	}{
		"line break at the end": {append(bytes.Clone(raw), '\n'), pki.CodeNotCanonical},
		"white space":           {bytes.Replace(raw, []byte(`":"`), []byte(`": "`), 1), pki.CodeNotCanonical},
		"an escape":             {bytes.Replace(raw, []byte("/vnd"), []byte(`\/vnd`), 1), pki.CodeNotCanonical},
		"a key's case":          {bytes.Replace(raw, []byte("payloadType"), []byte("PayloadType"), 1), pki.CodeMalformed},
		"one more key":          {bytes.Replace(raw, []byte("{"), []byte(`{"a":1,`), 1), pki.CodeMalformed},
		"a key twice":           {bytes.Replace(raw, []byte("{"), []byte(`{"payload":"",`), 1), pki.CodeMalformed},
		"base64 without padding": {
			bytes.Replace(raw, []byte(base64.StdEncoding.EncodeToString(payload)), []byte(base64.RawStdEncoding.EncodeToString(payload)), 1), pki.CodeMalformed,
		},
		"two signatures": {must[[]byte](t)(pki.Sign(pki.PayloadInToto, payload, signer, other)), pki.CodeMalformed},
		"too large":      {make([]byte, pki.MaxStatement+1), pki.CodeTooLarge},
	} {
		if bytes.Equal(row.raw, raw) {
			t.Fatalf("%s changes nothing", name)
		}
		if _, err := pki.ParseStatement(row.raw); taskcatalog.CodeOf(err, "") != row.code {
			t.Errorf("%s: %v, want %s", name, err, row.code)
		}
	}
	if large := must[[]byte](t)(pki.SignStatement(bytes.Repeat([]byte("x"), pki.MaxEnvelope), signer)); len(large) <= pki.MaxEnvelope {
		t.Errorf("%d bytes are not more than an envelope may have", len(large))
	}
}

var order = elliptic.P256().Params().N

// otherS is the other signature that holds where sig holds.
func otherS(t *testing.T, sig []byte) []byte {
	t.Helper()
	var s struct{ R, S *big.Int }
	if _, err := asn1.Unmarshal(sig, &s); err != nil {
		t.Fatal(err)
	}
	s.S.Sub(order, s.S)
	return must[[]byte](t)(asn1.Marshal(s))
}

func TestAnECDSASignatureOfAStatementHasOneForm(t *testing.T) {
	key := keyOf(t, pki.P256).(*ecdsa.PrivateKey)
	signer := must[pki.Signer](t)(pki.NewSigner(key))
	known := func(id string) (crypto.PublicKey, bool) { return key.Public(), id == signer.ID }
	for range 16 { // half of what a key answers has the larger S, by chance
		raw := must[[]byte](t)(pki.SignStatement([]byte("{}"), signer))
		env := must[*pki.Envelope](t)(pki.ParseStatement(raw))
		if _, _, err := env.Verify(pki.PayloadInToto, known); err != nil {
			t.Fatal(err)
		}
		other := edit(t, raw, func(w *wire) {
			sig := must[[]byte](t)(base64.StdEncoding.DecodeString(w.Signatures[0].Sig))
			w.Signatures[0].Sig = base64.StdEncoding.EncodeToString(otherS(t, sig))
		})
		// As an envelope it holds: the test tries what it says it tries.
		if _, _, err := must[*pki.Envelope](t)(pki.ParseEnvelope(other)).Verify(pki.PayloadInToto, known); err != nil {
			t.Fatal(err)
		}
		if _, _, err := must[*pki.Envelope](t)(pki.ParseStatement(other)).Verify(pki.PayloadInToto, known); taskcatalog.CodeOf(err, "") != pki.CodeNotCanonical {
			t.Fatalf("the other signature of the same key: %v, want %s", err, pki.CodeNotCanonical)
		}
	}
}
