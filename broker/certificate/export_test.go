package certificate

import "github.com/hostler/hostler/pki"

// Forge signs a certificate as it is: what a broker could do that does not check.
func Forge(c *Clean, signer pki.Signer) ([]byte, error) {
	tidy(c)
	payload, err := encode(c)
	if err != nil {
		return nil, err
	}
	return pki.SignStatement(payload, signer)
}

// Always are the checks that every certificate tells of.
var Always = always

// Complete is what Issue does before it checks and signs.
var Complete = (*Clean).complete

// ValidIssuer is the rule for an issuer.
var ValidIssuer = (*Issuer).valid
