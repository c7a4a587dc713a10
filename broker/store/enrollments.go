package store

import (
	"time"

	"github.com/hostler/hostler/broker"
)

// NodeReport is what a node says of itself with enrolment and renewal.
type NodeReport struct {
	AgentVersion string
	TaskTypes    []string
	Capabilities map[string]string
	Digest       string // of TaskTypes and Capabilities
}

// IssuedCert is a certificate as it was answered.
type IssuedCert struct {
	Serial              string // lower-case hex
	PEM                 string // leaf, then the chain up to the root
	PublicKey           []byte // SPKI DER
	NotBefore, NotAfter time.Time
}

// EnrollInput is one enrol request.
type EnrollInput struct {
	TokenHash       string // hex SHA-256 of the token
	PublicKeyDigest string
	MAASSystemID    string // as the node reports it
	Report          NodeReport
	TrustVersion    int64  // of the bundle that the answer carries
	Remote          string // address, for the audit log
	// Issue makes the certificate once all checks have passed. It runs inside
	// the transaction and may run again, so it must not use the store.
	Issue func(n broker.Node, epoch int64) (IssuedCert, error)
}

// Enrolled is the answer to an enrol request.
type Enrolled struct {
	Node   broker.Node
	Cert   IssuedCert
	Repeat bool // the answer given before, given again
}
