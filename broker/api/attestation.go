package api

import "time"

// AttestationPut is a person's statement about a device of a node that no longer runs.
type AttestationPut struct {
	Device  string `json:"device" minLength:"1" maxLength:"128" doc:"its id or serial"`
	Method  string `json:"method" enum:"destroyed,removed"`
	Witness string `json:"witness" maxLength:"400" doc:"who saw it: another than who records it"`
	Reason  string `json:"reason,omitempty" maxLength:"500"`
}

// Attestation is a person's statement on record. No machine signed any part of the statement.
type Attestation struct {
	AttestationID string    `json:"attestation_id"`
	NodeID        string    `json:"node_id"`
	Site          string    `json:"site,omitempty"`
	Kind          string    `json:"kind" doc:"disk or gpu"`
	Device        string    `json:"device" doc:"by which it is known: a disk's serial, a GPU's UUID"`
	Digest        string    `json:"digest" doc:"of the file"`
	IssuedAt      time.Time `json:"issued_at"`
	File          string    `json:"file" doc:"as it was signed; hostler certificate verify reads exactly this"`
}
