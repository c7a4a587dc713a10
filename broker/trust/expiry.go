package trust

import (
	"time"

	"github.com/hostler/hostler/pki"
)

// Expiry is the end of validity of one key or certificate.
type Expiry struct {
	Use pki.KeyUse // root, issuing, server, and the uses of signing keys
	ID  string
	At  time.Time
}

// UseServer is the use of the certificate that the broker presents to clients.
const UseServer pki.KeyUse = "server"

// Expiries returns the ends of all keys in the trust bundle in force, of the issuing CA, and of the
// presented certificate. An end that cannot be determined now is left out; using the key reports
// why.
func (a *Authority) Expiries() []Expiry {
	var all []Expiry
	bundle, _ := a.Bundle()
	for _, k := range bundle.Keys {
		all = append(all, Expiry{k.Use, k.ID, k.NotAfter})
	}
	if k, err := a.presented(); err == nil {
		all = append(all, Expiry{UseIssuing, k.ID, k.NotAfter})
	}
	if cert, err := a.ServerCertificate(nil); err == nil {
		all = append(all, Expiry{UseServer, pki.Serial(cert.Leaf), cert.Leaf.NotAfter})
	}
	return all
}
