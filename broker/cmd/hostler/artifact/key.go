package artifact

import (
	"crypto"
	"crypto/x509"
	"encoding/pem"

	"github.com/secure-systems-lab/go-securesystemslib/encrypted"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/pki"
)

// ParseKey reads the private half of a release key: encrypted, as "cosign generate-key-pair" writes
// a key, or PKCS#8 in PEM. The errors never quote the input. Codes: key_unreadable,
// key_password_wrong.
func ParseKey(raw []byte, password func() ([]byte, error)) (crypto.Signer, error) {
	block, _ := pem.Decode(raw)
	if block == nil {
		return nil, unusable("it is not PEM")
	}
	switch block.Type {
	case "ENCRYPTED SIGSTORE PRIVATE KEY", "ENCRYPTED COSIGN PRIVATE KEY":
	case "PRIVATE KEY":
		key, err := pki.ParseKey(raw)
		if err != nil {
			return nil, unusable(err.Error())
		}
		return key, nil
	default:
		return nil, unusable("it is neither cosign's nor PKCS#8")
	}
	word, err := password()
	if err != nil {
		return nil, err
	}
	der, err := encrypted.Decrypt(block.Bytes, word)
	if err != nil {
		return nil, broker.Errorf(broker.Invalid, "key_password_wrong",
			"cannot open the release key: the password is wrong (set COSIGN_PASSWORD, or type the password)")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil, unusable("what is in it is not PKCS#8")
	}
	key, ok := parsed.(crypto.Signer)
	if !ok {
		return nil, unusable("it does not sign")
	}
	return key, nil
}

func unusable(why string) error {
	return broker.Errorf(broker.Invalid, "key_unreadable", "cannot use the release key: %s", why)
}
