package api

import "time"

// NodeCertificate is a certificate that identifies a node to the brokers.
type NodeCertificate struct {
	Serial    string    `json:"serial"`
	State     string    `json:"state" doc:"valid; denied; superseded (of an earlier enrolment); expired (may only renew, for 30 days)"`
	Newest    bool      `json:"newest" doc:"the newest of the valid and expired certificates; which certificate the node uses is not known"`
	Epoch     int64     `json:"epoch" doc:"epoch of the node's enrolment"`
	Key       string    `json:"key" doc:"digest of the public key; a renewal keeps the key"`
	IssuedAt  time.Time `json:"issued_at"`
	NotBefore time.Time `json:"not_before"`
	NotAfter  time.Time `json:"not_after"`
	DeniedAt  time.Time `json:"denied_at,omitzero"`
	Reason    string    `json:"reason,omitempty" doc:"why the certificate is denied; text after operator: was written by an operator"`
}

// NodeCertificateList are a node's certificates, the oldest first.
type NodeCertificateList struct {
	Standing
	NodeID   string            `json:"node_id"`
	Hostname string            `json:"hostname"`
	Items    []NodeCertificate `json:"items"`
	Next     string            `json:"next" doc:"cursor of the next page; empty: there is no next page"`
}
