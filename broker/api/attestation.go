package api

import "time"

// AttestationPut is a person's statement about a device of a node that no longer runs.
type AttestationPut struct {
	Device  string `json:"device" minLength:"1" maxLength:"128" doc:"the device's id or serial number"`
	Method  string `json:"method" enum:"destroyed,removed"`
	Witness string `json:"witness" maxLength:"400" doc:"person who saw it; must not be the person who records it"`
	Reason  string `json:"reason,omitempty" maxLength:"500"`
}

// Attestation is a person's statement on record. No machine signed any part of the statement.
type Attestation struct {
	AttestationID string    `json:"id"`
	NodeID        string    `json:"node_id"`
	Site          string    `json:"site,omitempty"`
	Kind          string    `json:"kind" doc:"disk or gpu"`
	Device        string    `json:"device" doc:"the device's id: a disk's serial number, a GPU's UUID"`
	Digest        string    `json:"digest" doc:"digest of the file"`
	IssuedAt      time.Time `json:"issued_at"`
	File          string    `json:"file" doc:"the attestation as it was signed; input of hostler certificate verify"`
}
