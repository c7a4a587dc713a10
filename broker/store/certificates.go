package store

import "time"

// Certificate is a node certificate on record.
type Certificate struct {
	Serial, NodeID      string
	Epoch               int64
	PublicKey           []byte // SPKI DER
	PublicKeyDigest     string
	NotBefore, NotAfter time.Time
	IssuedAt            time.Time
	DeniedAt            time.Time // zero: not denied
	DenyReason          string
}

// Renewal is a certificate for a node that has one.
type Renewal struct {
	NodeID    string
	Epoch     int64
	OldSerial string
	Cert      IssuedCert
	Report    NodeReport
	// TrustVersion is what the node says it has in force.
	TrustVersion int64
	Late         bool // the old one had run out: audited as late_renewal
}
