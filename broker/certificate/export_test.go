package certificate

import "github.com/hostler/hostler/pki"

// Forge signs a certificate unchecked, as a faulty broker could.
func Forge(c *Clean, signer pki.Signer) ([]byte, error) {
	tidy(c)
	payload, err := encode(c)
	if err != nil {
		return nil, err
	}
	return pki.SignStatement(payload, signer)
}

// Always are the checks that every certificate mentions.
var Always = requiredChecks

// Complete is Issue's step before the check and the signature.
var Complete = (*Clean).complete

// ValidIssuer is the rule for an issuer.
var ValidIssuer = (*Issuer).valid
