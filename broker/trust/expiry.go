package trust

import (
	"time"

	"github.com/hostler/hostler/pki"
)

// Expiry is the end of one key or certificate.
type Expiry struct {
	Use pki.KeyUse // root, issuing, server, and the uses of signing keys
	ID  string
	At  time.Time
}

// UseServer stands for the certificate that the broker shows to whoever connects.
const UseServer pki.KeyUse = "server"

// Expiries are the ends of all that is in the trust bundle in force, of the issuing CA and
// of the certificate being shown. What cannot be had now is left out: its use says why.
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
