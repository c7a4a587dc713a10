package signature

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/x509"
	"encoding/pem"
	"fmt"

	"github.com/sigstore/cosign/v2/pkg/cosign"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/sigstore/sigstore/pkg/signature/options"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/taskcatalog/release"
)

// trusted is a signer in the library's words. Each of options suffices.
type trusted struct {
	broker.ArtifactSigner
	options []cosign.CheckOpts
	stamps  bool // the trusted root has timestamp authorities
	whole   bool // the key signs no digest, but the whole content
	// named reads the digest in a payload at a tag, whose signature holds.
	named func(payload []byte) (string, error)
}

// CheckSigner refuses a signer that could never verify anything: a key of another kind, or a trusted root
// that cannot be read. Code: artifact_signer_invalid.
func CheckSigner(s broker.ArtifactSigner) error {
	if err := s.Check(); err != nil {
		return err
	}
	_, err := trust(s)
	return err
}

// trust reads the key and the trusted root of a signer. Code: artifact_signer_invalid.
func trust(s broker.ArtifactSigner) (t trusted, err error) {
	refuse := func(why string) (trusted, error) {
		return trusted{}, broker.Errorf(broker.Invalid, "artifact_signer_invalid", "cannot use artifact signer %s: %s", s.Name, why)
	}
	defer func() {
		if recover() != nil {
			t, err = refuse("its key or trusted root cannot be read")
		}
	}()
	t.ArtifactSigner, t.named = s, release.SignedDigest
	material := root.TrustedMaterial(&root.BaseTrustedMaterial{})
	o := cosign.CheckOpts{Offline: true, IgnoreTlog: s.TrustedRoot == "", IgnoreSCT: true}
	if s.TrustedRoot != "" {
		parsed, err := root.NewTrustedRootFromJSON([]byte(s.TrustedRoot))
		switch {
		case err != nil:
			return refuse("its trusted root cannot be read (use Sigstore's trusted_root.json)")
		case len(parsed.RekorLogs()) == 0:
			return refuse("its trusted root has no transparency log")
		case s.Key == "" && len(parsed.FulcioCertificateAuthorities()) == 0:
			return refuse("its trusted root has no certificate authority")
		}
		material, t.stamps = parsed, len(parsed.TimestampingAuthorities()) > 0
		o.IgnoreSCT = len(parsed.CTLogs()) == 0
	}
	o.TrustedMaterial = material
	if s.Key != "" {
		verifiers, err := verifiersOf(s.Key)
		if err != nil {
			return refuse(err.Error())
		}
		t.whole = len(verifiers) > 1
		for _, v := range verifiers {
			o.SigVerifier = v
			t.options = append(t.options, o)
		}
		return t, nil
	}
	pattern, err := s.Pattern()
	if err != nil {
		return trusted{}, err
	}
	o.Identities = []cosign.Identity{{Issuer: s.Issuer, SubjectRegExp: pattern.String()}}
	t.options = []cosign.CheckOpts{o}
	return t, nil
}

// verifiersOf reads a public key. With Ed25519, cosign signs the payload, and since version 3 its hash.
func verifiersOf(text string) ([]signature.Verifier, error) {
	block, rest := pem.Decode([]byte(text))
	if block == nil || block.Type != "PUBLIC KEY" || len(rest) > 0 {
		return nil, fmt.Errorf("its key is not one PUBLIC KEY in PEM, such as cosign.pub")
	}
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("its key cannot be read")
	}
	variants := [][]signature.LoadOption{{}}
	switch k := key.(type) {
	case *ecdsa.PublicKey:
		if k.Curve != elliptic.P256() {
			return nil, fmt.Errorf("its key is on another curve than P-256")
		}
	case ed25519.PublicKey:
		variants = append(variants, []signature.LoadOption{options.WithED25519ph()})
	default:
		return nil, fmt.Errorf("its key is neither P-256 nor Ed25519")
	}
	var out []signature.Verifier
	for _, more := range variants {
		v, err := signature.LoadVerifierWithOpts(key, append(more, options.WithHash(crypto.SHA256))...)
		if err != nil {
			return nil, fmt.Errorf("its key cannot be used")
		}
		out = append(out, v)
	}
	return out, nil
}
