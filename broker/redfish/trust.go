package redfish

import (
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/machines"
)

// Trust says how a BMC proves itself: exactly one field is set.
type Trust struct {
	Pinned   string // hex SHA-256 of the BMC's certificate
	CA       string // PEM
	Insecure bool   // the BMC is not asked for proof; the caller has a reason on record
}

var errPin = errors.New("the certificate of the BMC is not the pinned one")

// config is the TLS configuration. Code: bmc_trust_invalid.
func (t Trust) config(now func() time.Time) (*tls.Config, error) {
	set := 0
	for _, has := range []bool{t.Pinned != "", t.CA != "", t.Insecure} {
		if has {
			set++
		}
	}
	if set != 1 {
		return nil, broker.Errorf(broker.Invalid, "bmc_trust_invalid",
			"cannot trust the BMC: exactly one of a pinned certificate, a CA and no proof must be set")
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, Time: now}
	switch {
	case t.CA != "":
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM([]byte(t.CA)) {
			return nil, broker.Errorf(broker.Invalid, "bmc_trust_invalid", "cannot trust the BMC: its CA is no certificate in PEM")
		}
	case t.Insecure:
		c.InsecureSkipVerify = true // allowed: the caller's policy, with a reason on record
	default:
		want, err := hex.DecodeString(t.Pinned)
		if err != nil || len(want) != sha256.Size {
			return nil, broker.Errorf(broker.Invalid, "bmc_trust_invalid",
				"cannot trust the BMC: its pin is not the hex SHA-256 of a certificate")
		}
		c.InsecureSkipVerify = true // allowed: replaced by the comparison with the pin
		c.VerifyConnection = func(cs tls.ConnectionState) error {
			got := sha256.Sum256(cs.PeerCertificates[0].Raw)
			if subtle.ConstantTimeCompare(got[:], want) != 1 {
				return errPin
			}
			return nil
		}
	}
	return c, nil
}

// untrusted is the error of a BMC that could not prove itself; nil: err is another error.
func untrusted(err error) error {
	var (
		unknown x509.UnknownAuthorityError
		name    x509.HostnameError
		invalid x509.CertificateInvalidError
		verify  *tls.CertificateVerificationError
	)
	if !errors.Is(err, errPin) && !errors.As(err, &unknown) && !errors.As(err, &name) && !errors.As(err, &invalid) &&
		!errors.As(err, &verify) {
		return nil
	}
	return broker.Errorf(broker.Refused, machines.CodeUntrusted,
		"cannot trust the BMC: it presents another certificate than the one on record (compare the certificate on the machine's own network, and set it again)")
}
