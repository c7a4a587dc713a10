package release

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"testing"
	"time"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"

	"github.com/hostler/hostler/taskcatalog"
)

func sample(tb testing.TB) *Artifact {
	tb.Helper()
	a, err := Pack([]byte("an agent"), Statement{
		Version: "1.2.3", Commit: "0123456789ab", OS: OS, Arch: Arch, StateSchema: State, Protocol: Protocol,
		BuiltAt: time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC),
	})
	if err != nil {
		tb.Fatal(err)
	}
	return a
}

// What is read has one form: what comes out of it is what went in.
func FuzzStatement(f *testing.F) {
	f.Add(sample(f).Statement)
	f.Fuzz(func(t *testing.T, raw []byte) {
		s, err := ParseStatement(raw)
		if err != nil {
			if taskcatalog.CodeOf(err, "") != CodeStatementInvalid {
				t.Fatalf("refused without its code: %v", err)
			}
			return
		}
		if again, err := s.Encode(); err != nil || !bytes.Equal(again, raw) {
			t.Fatalf("%q came back as %q (%v)", raw, again, err)
		}
	})
}

func FuzzManifest(f *testing.F) {
	f.Add(sample(f).Manifest)
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := parseManifest(raw)
		if err != nil {
			if taskcatalog.CodeOf(err, "") != CodeManifestInvalid {
				t.Fatalf("refused without its code: %v", err)
			}
			return
		}
		if again, err := encodeManifest(m.Statement, m.Layer); err != nil || !bytes.Equal(again, raw) {
			t.Fatalf("%q came back as %q (%v)", raw, again, err)
		}
		if m.Layer.Size > MaxLayer || m.Statement.Size > MaxStatement || !ValidDigest(m.Layer.Digest) || !ValidDigest(m.Statement.Digest) {
			t.Fatalf("it names %+v", m)
		}
	})
}

// Whatever a payload says, it is believed of its own digest alone, and by its signer's
// key alone.
func FuzzPayload(f *testing.F) {
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	a := sample(f)
	body, err := Payload(a.Digest, "registry.example/agent")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(body)
	f.Add(dsse.PAE(statementType, []byte(`{"_type":"https://in-toto.io/Statement/v1","subject":[{"digest":{"sha256":"`+a.Digest[7:]+`"},"annotations":{}}],"predicateType":"https://sigstore.dev/cosign/sign/v1","predicate":{}}`)))
	f.Fuzz(func(t *testing.T, raw []byte) {
		signed := []Signature{{raw, ed25519.Sign(key, raw)}}
		if _, err := signer(signed, Keys{"k": key.Public()}, a.Digest); err == nil {
			var p struct {
				payload
				attested
			}
			at := max(0, bytes.IndexByte(raw, '{')) // before it is what an envelope says of its length
			if err := json.Unmarshal(raw[at:], &p); err != nil || p.Critical.Image.Digest != a.Digest && p.Subject[0].Digest["sha256"] != a.Digest[7:] {
				t.Fatalf("%q is believed of %s", raw, a.Digest)
			}
		} else if taskcatalog.CodeOf(err, "") != CodeSignatureInvalid {
			t.Fatalf("refused without its code: %v", err)
		}
		if _, err := signer([]Signature{{raw, raw}}, Keys{"k": key.Public()}, a.Digest); err == nil {
			t.Fatal("it is believed without a signature")
		}
	})
}

// A layer that was signed, and is nothing that was packed: no more than the program's
// size is ever written, and none of it counts.
func FuzzUnpack(f *testing.F) {
	a := sample(f)
	s, err := ParseStatement(a.Statement)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(a.Layer)
	f.Fuzz(func(t *testing.T, raw []byte) {
		m := &Manifest{Layer: Part{MediaLayer, Digest(raw), int64(len(raw))}}
		var out bytes.Buffer
		err := m.Unpack(&out, bytes.NewReader(raw), s)
		if int64(out.Len()) > s.Binary.Size {
			t.Fatalf("%d bytes of a program of %d", out.Len(), s.Binary.Size)
		}
		if err == nil && out.String() != "an agent" || err != nil && taskcatalog.CodeOf(err, "") != CodeBinaryMismatch {
			t.Fatalf("%q: %v", out.Bytes(), err)
		}
	})
}
