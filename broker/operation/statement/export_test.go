package statement

import "github.com/hostler/hostler/pki"

// SignedAs signs a statement as it is, without Issue's checks.
func SignedAs(o Operation, signer pki.Signer) ([]byte, error) {
	payload, err := encode(tidy(o))
	if err != nil {
		return nil, err
	}
	return pki.SignStatement(payload, signer)
}
